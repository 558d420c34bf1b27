"""Training history: epochs, and automatic selection of models and kinds of noise by validation rows."""

import hashlib
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from jaxtyping import Int

from mogul._typing import IntArray
from mogul.data import Dataset


@dataclass(frozen=True)
class EpochRecord:
    """Means over the steps of one epoch of one start; terms are totals over the data set.

    `rollbacks` counts how often training had diverged and was rolled back by then, each time with smaller steps and
    more jitter; epochs that were rolled back have no record.
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

    `held_out` is the mean log likelihood of validation rows at the best epoch, in standardised units, and `kept_epochs`
    is the number of epochs up to it; both are None without validation rows. `retrained` tells whether the model was
    then trained on all rows; the records are of that training. `interrupted` tells whether Ctrl-C ended training.
    `num_rows` is the number of training rows, over which the terms of an epoch are totals; None in older files.
    `kernels` has the log evidence of each kernel that kernel="auto" tried; None where the kernel was given.
    `quick` tells whether this is a first answer, by a few of the rows.
    """

    records: tuple[EpochRecord, ...]
    chosen_start: int
    held_out: float | None = None
    interrupted: bool = False
    num_rows: int | None = None
    kept_epochs: int | None = None
    retrained: bool = False
    kernels: dict[str, float] | None = None
    quick: bool = False

    def frame(self) -> pd.DataFrame:
        """One row per epoch and start."""
        return pd.DataFrame([asdict(record) for record in self.records])

    @property
    def kept_rates(self) -> tuple[float, ...]:
        """Learning rates of the epochs up to the best one; empty without validation rows."""
        own = [record.learning_rate for record in self.records if record.start == self.chosen_start]
        return tuple(own[: self.kept_epochs or 0])

    @property
    def num_epochs(self) -> int:
        """Epochs of the chosen start; 0 where exact GPs solved the model."""
        return sum(record.start == self.chosen_start and record.learning_rate > 0 for record in self.records)

    @property
    def elbo(self) -> list[float]:
        """The training objective of the chosen start, epoch by epoch."""
        return [record.elbo for record in self.records if record.start == self.chosen_start]


@dataclass(frozen=True)
class Candidate:
    """A model with a kind of noise, and the mean log likelihood of validation rows in its best epoch, standardised.

    `ll` is None if training failed, for the given reason, or ended before the first validation score.
    """

    model: str
    noise: str
    ll: float | None = None
    epochs: int = 0
    seconds: float = 0.0
    failure: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """Model and noise, which identify a candidate."""
        return self.model, self.noise

    @property
    def words(self) -> str:
        """Model and noise as text."""
        return f"{self.model} with {self.noise} noise"


@dataclass(frozen=True)
class Choice:
    """The candidates in the order tried, the chosen one, and the number of validation rows.

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


# Digests that a file keeps: 8 kB. With more rows, those of a random part.
_MOST = 1000


@dataclass(frozen=True)
class TrainedRows:
    """Digests of 64 bits of up to 1,000 training rows, inputs and outputs together.

    Args:
        digests: in ascending order.
        num_rows: the number of training rows that they stand for.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> trained = TrainedRows.of(data.rows(np.array([0, 2])))
        >>> trained.count(data)
        2
    """

    digests: Int[IntArray, "K"]
    num_rows: int

    @staticmethod
    def of(data: Dataset, num_rows: int | None = None, seed: int = 0) -> "TrainedRows":
        """Of training rows, which may be a sample of so many."""
        some = data
        if data.num_rows > _MOST:
            some = data.rows(np.sort(np.random.default_rng(seed).choice(data.num_rows, _MOST, replace=False)))
        return TrainedRows(np.sort(_digests(some)), data.num_rows if num_rows is None else num_rows)

    def joined(self, others: "TrainedRows", seed: int = 0) -> "TrainedRows":
        """With further rows: digests of a random part, of both in proportion to their rows."""
        total = self.num_rows + others.num_rows
        rng = np.random.default_rng(seed)
        most = min(_MOST, total)
        parts = []
        for own in (self, others):
            count = min(len(own.digests), round(most * own.num_rows / total))
            parts.append(rng.choice(own.digests, count, replace=False))
        return TrainedRows(np.sort(np.concatenate(parts)), total)

    def count(self, data: Dataset) -> int:
        """How many of the training rows are among these: an estimate where only some have a digest."""
        found = np.isin(self.digests, _digests(data)).mean() if len(self.digests) else 0.0
        return round(float(found) * self.num_rows)


def _digests(data: Dataset) -> Int[IntArray, "N"]:
    """One for each row. Adding 0 makes −0 and 0 the same, and all NaN have one pattern of bits."""
    rows = np.column_stack([data.x, data.y]).astype("<f8") + 0.0
    rows[np.isnan(rows)] = np.nan
    each = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(each), dtype="<i8").astype(np.int64)
