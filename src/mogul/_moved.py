"""Old paths of modules: imports and pickles that name them find the module where it is now, with a warning."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "mogul.calibration": "mogul.fitted.calibration",
    "mogul.comparison.least_squares": "mogul.comparison.rivals",
    "mogul.comparison.packages": "mogul.comparison.rivals",
    "mogul.data.catalogue": "mogul.lab.datasets.catalogue",
    "mogul.data.encodings.numeric": "mogul.data.encodings.column",
    "mogul.data.simulate": "mogul.lab.datasets.simulated",
    "mogul.data.simulated": "mogul.lab.datasets.simulated",
    "mogul.data.sources.mat_files": "mogul.data.sources.array_files",
    "mogul.experiments": "mogul.lab.experiments",
    "mogul.families": "mogul.models.families",
    "mogul.heads.correlation": "mogul.heads.head",
    "mogul.heads.heavy_tails": "mogul.heads.noise.student_t",
    "mogul.heads.laws": "mogul.heads.noise.laws",
    "mogul.heads.low_rank": "mogul.heads.noise.low_rank",
    "mogul.heads.noise.correlation": "mogul.heads.head",
    "mogul.heads.varying": "mogul.heads.mixing",
    "mogul.inputs": "mogul.models.model",
    "mogul.marginals": "mogul.core.moments",
    "mogul.model": "mogul.models.model",
    "mogul.models.inputs": "mogul.models.model",
    "mogul.output_mean": "mogul.means.linear",
    "mogul.plot.latent": "mogul.plot.structure",
    "mogul.plot.slices": "mogul.plot.effects",
    "mogul.plot.training": "mogul.plot.checks",
    "mogul.predictor": "mogul.fitted.predictor",
    "mogul.priors.inducing": "mogul.priors.sparse",
    "mogul.report": "mogul.lab.report",
    "mogul.surrogate": "mogul.estimators.botorch",
    "mogul.training.blueprint": "mogul.fitted.blueprint",
    "mogul.training.config": "mogul.config",
    "mogul.training.fitted": "mogul.fitted.fitted",
    "mogul.training.held_out": "mogul.training.split",
    "mogul.training.history": "mogul.fitted.history",
    "mogul.training.inference": "mogul.fitted.latent",
    "mogul.training.kernel_starts": "mogul.training.kernel_choice",
    "mogul.training.mixture": "mogul.fitted.mixture",
    "mogul.training.more": "mogul.training.fit",
    "mogul.training.presets": "mogul.training.defaults",
    "mogul.training.progress": "mogul.training.restarts",
    "mogul.training.run": "mogul.training.loop",
    "mogul.training.stopping": "mogul.training.loop",
    "mogul.training.updates": "mogul.objective.updates",
}


class _MovedModules(MetaPathFinder, Loader):
    """Asked last, when nothing else knows a module: so it costs nothing until an old path is named."""

    _own_spec: ModuleSpec | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = MOVED[spec.name]
        warnings.warn(f"{spec.name} has moved to {new}. Import it from there.", DeprecationWarning, stacklevel=2)
        module = import_module(new)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has been executed under its new name: only what the import system has written over it is put back."""
        module.__spec__ = self._own_spec


def find_moved_modules() -> None:
    """Let imports of old paths find the new ones; once is enough."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
