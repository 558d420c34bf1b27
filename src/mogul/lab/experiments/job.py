"""One row of the results, before it is there: what to run, and everything that its numbers depend on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mogul.lab.experiments.subject import Subject
from mogul.metrics import FEW_OUTER, NUM_INNER, NUM_OUTER
from mogul.models.families import members
from mogul.storage.settings import encode
from mogul.training import TrainingConfig

# Of every job, whatever the machine: the order of sums, and with it the last digits, depends on it.
NUM_THREADS = 1
NUM_DRAWS: dict[str, int] = {
    "paper": NUM_OUTER * NUM_INNER,
    "default": FEW_OUTER * NUM_INNER,
    "fast": FEW_OUTER * NUM_INNER,
}


@dataclass(frozen=True)
class Job(Subject):
    """A model or a baseline that is still to be scored.

    Args:
        experiment, dataset, …, command: as in `Subject`.
        units: of the scores.
        noise_floor: the least standard deviation of its noise, in words: what a log likelihood means nothing without.
        data_sha256: of the data set's values.
        options: of `mogul.models.build`.
        linear: whether the model stands on a least-squares plane.
        training: how to train a model; None for a baseline.
        holds_out_groups: whether some whole groups say how long it trains on all of them.
        baseline_epochs: how many epochs of a model take as long as a baseline.
    """

    units: str
    data_sha256: str
    noise_floor: str
    options: Mapping[str, Any] = field(default_factory=dict)
    linear: bool = False
    training: TrainingConfig | None = None
    holds_out_groups: bool = False
    baseline_epochs: float = 0.0

    @property
    def num_draws(self) -> int:
        """Of the mixture that predictions are."""
        return NUM_DRAWS[self.preset]

    @property
    def config(self) -> dict[str, Any]:
        """Everything that the numbers depend on beside seed and split, as plain values."""
        return {
            "training": None if self.training is None else _without_seed(self.training),
            "options": {name: encode(value, name) for name, value in self.options.items()},
            "mean": ("linear" if self.linear else "paper") if self.kind == "model" else None,
            "held_out": "groups, then trained on" if self.holds_out_groups else None,
            "units": self.units,
            "noise_floor": self.noise_floor,
            "num_train": self.split.num_train,
            "num_test": self.split.num_test,
            "num_draws": self.num_draws,
            "num_threads": NUM_THREADS,
            "data_sha256": self.data_sha256,
        }

    @property
    def work(self) -> int:
        """About how long it takes, in no particular unit: what a progress bar counts."""
        rows = self.settings.get("num_train", self.split.num_train)
        if self.training is None:
            return math.ceil(rows * self.baseline_epochs)
        kept, tried = self.training.num_kept, self.training.num_starts - self.training.num_kept
        trials = tried * min(self.training.start_epochs, self.training.epochs)
        # Held-out groups are trained on in the end, for at most as long again.
        times = len(members(self.model)) * (2 if self.holds_out_groups else 1)
        return times * rows * (kept * self.training.epochs + trials)


def _without_seed(training: TrainingConfig) -> dict[str, Any]:
    """The settings of a training; the seed is the job's own."""
    settings: dict[str, Any] = encode(training, "training")["settings"]
    return {name: value for name, value in settings.items() if name != "seed"}
