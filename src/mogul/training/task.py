"""A training as it is asked for: which rows, which model, how, and from which starts."""

import logging
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mogul import models
from mogul._typing import IntArray
from mogul.config import InferenceConfig, TrainingConfig
from mogul.data import Batch, Dataset, Scaling
from mogul.data.advice import advice
from mogul.data.checks import require_some_of_each
from mogul.errors import ConfigError, DataError, MogulWarning, unknown_name
from mogul.fitted.blueprint import Blueprint
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.fitted.history import EpochRecord, History
from mogul.fitted.mixture import FittedMixture
from mogul.models.families import FROM_RESIDUALS
from mogul.models.inputs import principal_scores
from mogul.models.model import Model
from mogul.training.checkpoint import Checkpoint, identity_of
from mogul.training.correlation import correlate
from mogul.training.course import best_trained
from mogul.training.exact import CLIMBED_ROWS
from mogul.training.exact_start import ExactStart
from mogul.training.held_out import digest_of, divided, warn_of_order
from mogul.training.noise_steps import alternate
from mogul.training.run import Run
from mogul.training.starts import Starts

MeanChoice = Literal["linear", "paper", "zero", "constant"]

_FEW = 10  # rows that a model can be built on
# Of inducing points at an exact start, where nobody says how many: rows are spread out, and most data need fewer.
_MOST_INDUCING = 600

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """What is to be learnt from which rows, and how: all but the options of the model."""

    data: Dataset
    model: str
    config: TrainingConfig
    mean: MeanChoice
    num_inputs: int
    held_out: str | None  # a digest of the places that were given, if any were
    known: Dataset
    scaling: Scaling
    watched: Batch | None

    @staticmethod
    def of(
        data: Dataset,
        model: str,
        config: TrainingConfig,
        mean: MeanChoice,
        num_inputs: int | None,
        held_out: Int[IntArray, "W"] | None,
    ) -> "Task":
        """Validation rows are excluded from everything else, scaling included."""
        latent = models.Name.parse(model).latent
        if mean not in get_args(MeanChoice):
            raise unknown_name("mean", mean, get_args(MeanChoice))
        if latent and mean == "linear":
            raise ConfigError("mean='linear' needs inputs that are observed; latent ones are not. Use 'paper'.")
        if latent and config.stopping and (config.stopping.held_out or held_out is not None):
            raise ConfigError(
                "held_out must be 0 with latent inputs, which belong to the rows trained on. Watch the ELBO."
            )
        if latent and config.num_kept > 1:
            raise ConfigError(
                f"num_kept must be 1 with latent inputs, which each start finds for itself; got {config.num_kept}. "
                "Leave it out."
            )
        if not (latent or data.num_inputs):
            raise ConfigError(f"{model} needs inputs; the data have none. Give X, or fit '{model}-lvm'.")
        kept, watched = divided(data.num_rows, config.stopping, held_out, config.seed)
        if len(watched) and np.isnan(data.y[watched]).all():
            raise DataError(
                f"Held-out rows must have known outputs; the {len(watched)} held out have none. Hold out others."
            )
        known = data.rows(kept) if len(watched) else data
        require_some_of_each(known.y, data.output_names)
        scaling = Scaling.of(known)
        return Task(
            data,
            model,
            config,
            mean,
            models.LATENT_INPUTS if num_inputs is None else num_inputs,
            digest_of(held_out),
            known,
            scaling,
            scaling.batch(data.rows(watched), config.dtype) if len(watched) else None,
        )

    def on_all_rows(self, rates: tuple[float, ...]) -> "Task":
        """The same with nothing held out, and with these rates, an epoch each; 0 is that of a start left as it is."""
        config = self.config.replaying(rates) if all(rates) else replace(self.config, stopping=None)
        return Task.of(self.data, self.model, config, self.mean, self.num_inputs, None)

    @property
    def latent(self) -> bool:
        """Whether inputs are to be found."""
        return models.Name.parse(self.model).latent

    def advise(self, options: dict[str, Any]) -> None:
        """Say what looks wrong with the rows to be trained on, and what is made of it."""
        given = {name: options.get(name) for name in ("num_inducing", "num_mixing_inducing")}
        asked = {name: value for name, value in given.items() if isinstance(value, int) and value > 0}
        for finding in advice(self.known.without_inputs() if self.latent else self.known, asked):
            warnings.warn(finding.message, MogulWarning, stacklevel=6)
        if self.watched is not None and self.held_out is None:  # drawn at random, not given
            warn_of_order(self.data, stacklevel=6)

    def require_buildable(self, options: dict[str, Any]) -> None:
        """Check the values of these options by building the model on a few rows."""
        some = self.scaling.batch(self.known.rows(np.arange(min(_FEW, self.known.num_rows))), self.config.dtype)
        if options.get("noise") == FROM_RESIDUALS:
            options = options | {"noise": "gp-student-t"}  # what has all options of those that it may become
        models.build(self.model, some.x, self.data.num_outputs, torch.Generator().manual_seed(0), **options)

    def trained(
        self,
        options: dict[str, Any],
        on_epoch: Callable[[EpochRecord, Model], None] | None,
        folder: Path | None,
        seconds: float,
    ) -> Fitted:
        """The best of the starts, from where a checkpoint in the folder has them.

        Where residuals leave the choice between two kinds of noise, the one with the larger bound. Where exact GPs
        leave nothing to train, residuals also say how the noises of outputs are correlated.
        """
        began = time.perf_counter()
        saved = None if folder is None else Checkpoint(folder, self._identity(options), seconds)
        batch = self.scaling.batch(self.known, self.config.dtype)
        exact = self._exact_gps(batch, options)
        options = options | self._found(batch, options, exact)

        def trained_with(noise: str, saved: Checkpoint | None, *, correlated: bool = False) -> Fitted:
            given = options | {"noise": noise}
            return self._trained(batch, given, exact, on_epoch, saved, correlated=correlated, began=began)

        if options.get("noise") != FROM_RESIDUALS:
            return trained_with(options.get("noise", "constant"), saved)
        if exact is None or not self._solved(options, exact):
            return trained_with(self._unsolved_noise(exact), saved)
        if len(exact.noises) == 1:
            return trained_with(exact.noises[0], saved, correlated=True)
        tried = [trained_with(kind, None, correlated=True) for kind in exact.noises]
        return max(tried, key=lambda fitted: fitted.history.elbo[-1])

    def _unsolved_noise(self, exact: ExactStart | None) -> str:
        """For a model that is trained by steps: noise that depends on x where rows are many, or its objective asks."""
        if exact is None:
            return "constant"
        varying = self.config.objective == "balanced" or not self._starts_exact({})
        return exact.varying_noise if varying else exact.noises[-1]

    def _solved(self, options: Mapping[str, Any], exact: ExactStart) -> bool:
        """Whether exact GPs leave nothing to train."""
        few = self.scaling.batch(self.known.rows(np.arange(min(_FEW, self.known.num_rows))), self.config.dtype)
        simple: dict[str, Any] = {**options, "noise": "constant"}
        built = models.build(self.model, few.x, self.data.num_outputs, torch.Generator(), **simple)
        return self.config.objective == "elbo" and self._starts_exact(options) and exact.solves(built)

    def _is_solved(self, exact: ExactStart, built: Model) -> bool:
        # Balanced training is that of the bound where noise does not depend on x.
        bound = self.config.objective == "elbo" or (self.config.objective == "balanced" and not built.head.noise.varies)
        return bound and exact.solves(built)

    def _trained(
        self,
        batch: Batch,
        options: dict[str, Any],
        exact: ExactStart | None,
        on_epoch: Callable[[EpochRecord, Model], None] | None,
        saved: Checkpoint | None,
        *,
        correlated: bool,
        began: float,
    ) -> Fitted:
        x = principal_scores(batch.y, self.num_inputs) if self.latent else batch.x
        _log.info("%s: %s, %s, solver %s", self.model, self.config, options, options.get("solver") or "Cholesky()")
        start = exact if self._starts_exact(options) else None
        runs = self._runs(batch, x, options, start, correlated=correlated, began=began)
        starts = Starts(runs, runs[0].config)
        if saved is not None:
            saved.restore(starts)
        kept = best_trained(starts, self.model, on_epoch, saved)
        blueprint = Blueprint.of(self.model, options, x.shape[1], self.data.num_outputs, self.config)
        fitted = [self._fitted(run, starts.history(run), batch, blueprint.solved_by(run.solver)) for run in kept]
        return FittedMixture.of(fitted) if len(fitted) > 1 else fitted[0]

    def _identity(self, options: dict[str, Any]) -> dict[str, Any]:
        settings = {"model": self.model, "config": self.config, "mean": self.mean, "num_inputs": self.num_inputs}
        return identity_of(self.data, **settings, options=options, held_out=self.held_out)

    def _starts_exact(self, options: Mapping[str, Any]) -> bool:
        """Whether training starts at exact GPs: those of a given kernel are not fitted."""
        return self.config.start == "exact" and not self.latent and options.get("kernel") is None

    def _exact_gps(self, batch: Batch, options: Mapping[str, Any]) -> ExactStart | None:
        """Exact GPs of all rows to start at, or of some where they are asked for the noise and for the plane alone."""
        if self._starts_exact(options):
            # Beside Normal noise of one variance, rows that count for less would leave that variance too small.
            robust = options.get("noise", "constant") != "constant"
            return ExactStart.of(batch, self.config.seed, plane=self.mean == "linear", robust=robust)
        if self.latent or (options.get("noise") != FROM_RESIDUALS and self.mean != "linear"):
            return None
        some = torch.randperm(len(batch), generator=torch.Generator().manual_seed(self.config.seed))[:CLIMBED_ROWS]
        return ExactStart.of(batch.rows(some), self.config.seed, plane=self.mean == "linear", rough=True)

    def _found(self, batch: Batch, options: Mapping[str, Any], exact: ExactStart | None) -> dict[str, Any]:
        """The options of `build` that are found in the data: means, the kind of noise, inducing points."""
        found: dict[str, Any] = {}
        if self.mean in ("zero", "constant"):
            found["latent_mean"] = self.mean
        if self.mean == "linear":
            assert exact is not None
            found["output_mean"] = exact.mean if self._starts_exact(options) else exact.plane_of(batch)
        if exact is not None and self._starts_exact(options):
            most = options.get("num_inducing") or _MOST_INDUCING
            found["inducing_points"] = exact.inducing_points(most)
        return found

    def _runs(
        self,
        batch: Batch,
        x: Float[Tensor, "N D"],
        options: dict[str, Any],
        exact: ExactStart | None,
        *,
        correlated: bool,
        began: float,
    ) -> list[Run]:
        seeds = torch.Generator().manual_seed(self.config.seed)
        config, runs = self.config, []
        for start in range(config.num_starts if exact is None else config.num_kept):
            generator = torch.Generator().manual_seed(int(torch.randint(2**62, (1,), generator=seeds)))
            built = models.build(self.model, x, self.data.num_outputs, generator, **options)
            if exact is not None:
                exact.apply(built, generator)
                if self._is_solved(exact, built):
                    if built.head.noise.varies:
                        alternate(built, batch, generator)
                    if correlated:
                        correlate(built, batch, generator)
                    exact.widen(built)
                    # One for all: others would be the same.
                    return [Run(built, batch, config.solved(), generator, start, self.watched, began=began)]
            runs.append(Run(built, batch, config, generator, start, self.watched))
        return runs

    def _fitted(self, best: Run, history: History, batch: Batch, blueprint: Blueprint) -> Fitted:
        names = self.data.input_names, self.data.output_names
        if not self.latent:
            return Fitted(best.model, self.scaling, *names, history, blueprint=blueprint)
        return FittedLatent(
            best.model,
            self.scaling.without_inputs(self.num_inputs),
            [f"latent{column}" for column in range(self.num_inputs)],
            names[1],
            history,
            training=batch,
            inference=InferenceConfig(expectation=self.config.expectation),
            blueprint=blueprint,
        )
