"""What happened during training: epochs, and the choice between models and kinds of noise by validation rows."""

from dataclasses import asdict, dataclass

import pandas as pd


@dataclass(frozen=True)
class EpochRecord:
    """Means over the steps of one epoch of one start; terms are totals over the data set.

    `rollbacks` counts how often the start had gone back to an earlier state by then, each time with smaller steps and
    more jitter; epochs gone back on have no record.
    """

    start: int
    epoch: int
    elbo: float
    ell: float
    kl: float
    log_prior: float
    learning_rate: float
    kl_weight: float
    jitter: float
    seconds: float
    rollbacks: int = 0


@dataclass(frozen=True)
class History:
    """All epochs of all starts, and which start was trained to the end.

    `held_out` is the log likelihood of a held-out row at the epoch that was kept, in standardised units, and
    `kept_epochs` how many there were by then: None where no rows were held out. `retrained` tells whether those rows
    were trained on, too, afterwards; the records are then of that second training. `interrupted` tells whether Ctrl-C
    ended the training. `num_rows` is how many rows were trained on, those over which the terms of an epoch are totals:
    None in files of old, which do not say.
    """

    records: tuple[EpochRecord, ...]
    chosen_start: int
    held_out: float | None = None
    interrupted: bool = False
    num_rows: int | None = None
    kept_epochs: int | None = None
    retrained: bool = False

    def frame(self) -> pd.DataFrame:
        """One row per epoch and start."""
        return pd.DataFrame([asdict(record) for record in self.records])

    @property
    def kept_rates(self) -> tuple[float, ...]:
        """The learning rates of the epochs up to the one that was kept; none where no rows were held out."""
        own = [record.learning_rate for record in self.records if record.start == self.chosen_start]
        return tuple(own[: self.kept_epochs or 0])

    @property
    def num_epochs(self) -> int:
        """Epochs of the chosen start; 0 where exact GPs left nothing to train."""
        return sum(record.start == self.chosen_start and record.learning_rate > 0 for record in self.records)

    @property
    def elbo(self) -> list[float]:
        """The training objective of the chosen start, epoch by epoch."""
        return [record.elbo for record in self.records if record.start == self.chosen_start]


@dataclass(frozen=True)
class Candidate:
    """A model with a kind of noise: the log likelihood of a held-out row in its best epoch, in standardised units.

    `ll` is None where training failed, for the reason given, or ended before any epoch was scored.
    """

    model: str
    noise: str
    ll: float | None = None
    epochs: int = 0
    seconds: float = 0.0
    failure: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """What tells it from the others."""
        return self.model, self.noise

    @property
    def words(self) -> str:
        """The same for people to read."""
        return f"{self.model} with {self.noise} noise"


@dataclass(frozen=True)
class Choice:
    """What was tried, in the order of trying, what was kept, and by how many held-out rows.

    Example:
        >>> tried = Candidate("mogp", "gp", 2.25), Candidate("mogp", "constant", 1.5)
        >>> choice = Choice(tried[0], tried, num_held_out=20)
        >>> choice.chosen.noise, choice.frame()["ll"].tolist()
        ('gp', [2.25, 1.5])
    """

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    num_held_out: int

    def frame(self) -> pd.DataFrame:
        """One row per candidate."""
        return pd.DataFrame([asdict(candidate) for candidate in self.candidates])
