"""Settings of training, of early stopping and of latent inputs for new rows; each number is checked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch

from mogul.errors import ConfigError, require_natural, require_positive, unknown_name
from mogul.objective import Analytic, Expectation, ObjectiveName, objective_by_name
from mogul.objective.updates import Update

Precision = Literal["float32", "float64"]
StartName = Literal["random", "exact", "map"]
ScheduleName = Literal["steps", "cosine"]
# The cosine rises from a fifth of the rate over a tenth of the epochs, and falls to a hundredth.
_WARM_UP, _FIRST_SHARE, _LAST_SHARE = 0.1, 0.2, 0.01


@dataclass(frozen=True)
class Stopping:
    """Early stopping: each learning rate ends when it no longer helps, and training ends with the last.

    A rate without a gain is followed by the next rate. If the next has no gain either, training ends. A falling ELBO
    means steps that are too large: then the next rate begins in any case.

    The score is the ELBO, or the log likelihood of validation rows; with validation rows the best state is kept. They
    are drawn at random. Where rows follow each other in time, a row between two training rows is no test, and whole
    groups should be held out: with trajectories held out, F-Baxter's LL falls from its sixth epoch on, while that of
    random rows keeps rising.

    Args:
        patience: P; the mean score over the last P epochs is compared with that over the P epochs before.
        tolerance: the smallest gain that counts, in nats per observed output value.
        held_out: share of the rows that validate; 0 uses the ELBO.

    Example:
        >>> Stopping(patience=2).is_flat([0.0, 1.0, 1.0, 1.0]), Stopping(patience=2).is_flat([0.0, 1.0, 1.0, 1.0, 1.0])
        (False, True)
    """

    patience: int = 4
    tolerance: float = 2e-3
    held_out: float = 0.0

    def __post_init__(self) -> None:
        require_positive(patience=self.patience)
        if not 0 <= self.held_out < 1:
            raise ConfigError(f"held_out must be in [0, 1); got {self.held_out}. 0.1 holds out a tenth of the rows.")

    def is_flat(self, values: Sequence[float]) -> bool:
        """Whether the last epochs have no gain over those before them."""
        return self._gain(values) < self.tolerance

    def is_falling(self, values: Sequence[float]) -> bool:
        """Whether the last epochs are worse than those before them."""
        return self._gain(values) < -self.tolerance

    def _gain(self, values: Sequence[float]) -> float:
        """Mean of the last epochs minus that of the epochs before; infinite where there are too few."""
        recent, before = values[-self.patience :], values[-2 * self.patience : -self.patience]
        return (sum(recent) - sum(before)) / self.patience if len(before) == self.patience else math.inf


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of one training.

    Args:
        start: "random", or "exact": hyperparameters, linear mean, posterior and noise from exact GPs, one for each
            output, fitted by L-BFGS to up to 1,000 rows; or "map", for models with hidden units: each restart begins at
            a maximum of the posterior density, found by L-BFGS on all rows with all variances zero. Restarts differ in
            the number of latent functions that they use: 1, 2, …, L, 1, …. Other models start at random.
        epochs: passes over the data for the start that is trained to the end; 0 keeps an exact start unchanged.
        batch_size: rows per step, of all workers together.
        epoch_steps: the most steps of an epoch: of very many rows it sees a random part. None: it sees all rows.
        learning_rate: Adam's, where it is largest.
        schedule: "steps" begins at that rate and lowers it at `milestones`; "cosine" rises to it over the first tenth
            of the epochs, and falls along a half cosine to a hundredth of it.
        milestones: for "steps", shares of the epochs after which the rate is multiplied by `decay`.
        decay: see `milestones`.
        rates: the rate of each epoch, in place of the four above.
        anneal_epochs: the number of epochs over which the weight of the KL rises from 0 to 1.
        num_starts: random restarts; the best by training objective is trained to the end. An exact start is one, or
            `num_kept` that differ in what exact GPs do not decide.
        start_epochs: epochs of each restart before the choice; they count towards `epochs`.
        num_kept: the number of best restarts that are trained to the end; predictions are those of their mixture.
        expectation: `Analytic()` or `MonteCarlo(num_samples)`.
        objective: "elbo"; "balanced" for smaller errors where noise depends on x; or "predictive" for the log
            likelihood of predictions in place of the expected one: with `Analytic()`, deep models then learn sites, 8
            or `num_sites`, in place of draws of their inner layers.
        updates: closed-form updates of some parameters after each step; Adam does not change those.
        stopping: early stopping; None uses all epochs.
        precision: of all arithmetic.
        seed: of everything random: the same seed gives the same result.

    Example:
        >>> TrainingConfig(epochs=10, num_starts=1).rate_at(9) < TrainingConfig().learning_rate
        True
    """

    epochs: int = 200
    batch_size: int = 250
    epoch_steps: int | None = None
    learning_rate: float = 0.03
    schedule: ScheduleName = "steps"
    milestones: tuple[float, ...] = (0.5, 0.75, 0.9)
    decay: float = 0.3
    rates: tuple[float, ...] | None = None
    anneal_epochs: int = 0
    start: StartName = "random"
    num_starts: int = 5
    start_epochs: int = 20
    num_kept: int = 1
    expectation: Expectation = field(default_factory=Analytic)
    objective: ObjectiveName = "elbo"
    updates: tuple[Update, ...] = ()
    stopping: Stopping | None = None
    precision: Precision = "float64"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.start not in get_args(StartName):
            raise unknown_name("start", self.start, get_args(StartName))
        require_natural(epochs=self.epochs) if self.start == "exact" else require_positive(epochs=self.epochs)
        require_positive(
            batch_size=self.batch_size,
            num_starts=self.num_starts,
            start_epochs=self.start_epochs,
            num_kept=self.num_kept,
        )
        if self.epoch_steps is not None:
            require_positive(epoch_steps=self.epoch_steps)
        if self.num_kept > self.num_starts:
            raise ConfigError(
                f"num_kept must be at most num_starts, {self.num_starts}; got {self.num_kept}. Give more starts."
            )
        require_natural(anneal_epochs=self.anneal_epochs, seed=self.seed)
        if not 0 < self.learning_rate < math.inf:
            raise ConfigError(f"learning_rate must be positive and finite; got {self.learning_rate}. Try 0.03.")
        if not isinstance(self.expectation, Expectation):
            raise ConfigError(
                f"expectation must be Analytic() or MonteCarlo(); got {self.expectation!r}. Pass one of them."
            )
        objective_by_name(self.objective)
        if not 0 < self.decay <= 1:
            raise ConfigError(f"decay must be in (0, 1]; got {self.decay}. 1 keeps the rate constant.")
        if self.rates is not None and (len(self.rates) != self.epochs or min(self.rates) <= 0):
            raise ConfigError(
                f"rates must be positive, one for each of {self.epochs} epochs; got {self.rates}. Leave them out to "
                "lower learning_rate by milestones."
            )
        if any(not 0 < share < 1 for share in self.milestones):
            raise ConfigError(f"milestones must be shares between 0 and 1; got {self.milestones}. Try (0.5, 0.75).")
        if self.schedule not in get_args(ScheduleName):
            raise unknown_name("schedule", self.schedule, get_args(ScheduleName))
        if self.precision not in get_args(Precision):
            raise unknown_name("precision", self.precision, get_args(Precision))

    @property
    def dtype(self) -> torch.dtype:
        """The torch type of `precision`."""
        return torch.float32 if self.precision == "float32" else torch.float64

    def within(self, epochs: int) -> "TrainingConfig":
        """The same with this number of epochs; the KL has its full weight in at least four fifths of them.

        >>> TrainingConfig(anneal_epochs=20).within(10).anneal_epochs
        2
        """
        return replace(self, epochs=epochs, anneal_epochs=min(self.anneal_epochs, epochs // 5))

    def solved(self) -> "TrainingConfig":
        """The same without epochs, for a start that is the optimum."""
        return replace(self, start="exact", epochs=0, rates=None, updates=())

    def replaying(self, rates: tuple[float, ...]) -> "TrainingConfig":
        """The same with these rates, one for each epoch, and no early stopping."""
        return replace(self, epochs=len(rates), rates=rates, stopping=None)

    def rate_at(self, epoch: int) -> float:
        """The learning rate during this epoch, counted from 0."""
        if self.rates is not None:
            return self.rates[epoch]
        if self.schedule == "cosine":
            return self.learning_rate * _cosine_share((epoch + 0.5) / self.epochs)
        passed = sum(epoch >= round(share * self.epochs) for share in self.milestones)
        return self.learning_rate * self.decay**passed

    def next_change(self, epoch: int) -> int:
        """The epoch to jump to when the rate no longer helps: the next rate's, or halfway to the end of a cosine."""
        if self.schedule == "cosine":
            return (epoch + self.epochs + 1) // 2
        changes = [round(share * self.epochs) for share in sorted(self.milestones)]
        return next((change for change in changes if change > epoch), self.epochs)

    def kl_weight_at(self, epoch: int) -> float:
        """The weight of the KL during this epoch, counted from 0."""
        return 1.0 if epoch >= self.anneal_epochs else (epoch + 1) / (self.anneal_epochs + 1)


def _cosine_share(passed: float) -> float:
    """The share of the largest rate after this share of the epochs.

    >>> [round(_cosine_share(passed), 2) for passed in (0.0, 0.1, 0.55, 1.0)]
    [0.2, 1.0, 0.5, 0.01]
    """
    if passed < _WARM_UP:
        return _FIRST_SHARE + (1 - _FIRST_SHARE) * passed / _WARM_UP
    wave = 0.5 * (1 + math.cos(math.pi * (passed - _WARM_UP) / (1 - _WARM_UP)))
    return _LAST_SHARE + (1 - _LAST_SHARE) * wave


@dataclass(frozen=True)
class InferenceConfig:
    """Settings of the fit of latent inputs q(X*) of new rows.

    Args:
        steps: full-batch steps of Adam, independent for each row.
        learning_rate: Adam's, falling to zero along a cosine.
        expectation: as in training.
    """

    steps: int = 300
    learning_rate: float = 0.05
    expectation: Expectation = field(default_factory=Analytic)

    def __post_init__(self) -> None:
        require_positive(steps=self.steps)
        if not 0 < self.learning_rate < math.inf:
            raise ConfigError(f"learning_rate must be positive and finite; got {self.learning_rate}. Try 0.05.")
        if not isinstance(self.expectation, Expectation):
            raise ConfigError(
                f"expectation must be Analytic() or MonteCarlo(); got {self.expectation!r}. Pass one of them."
            )
