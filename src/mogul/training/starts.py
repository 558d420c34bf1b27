"""Several random starts: each on trial, the best trained to the end, the next best where that one breaks down."""

import warnings
from collections.abc import Callable

from mogul.config import TrainingConfig
from mogul.errors import FitError, MogulWarning
from mogul.fitted.history import EpochRecord, History
from mogul.training.run import Run

OnEpoch = Callable[[Run, EpochRecord], None]


class Starts:
    """Runs of one model from different starts, and what has become of each.

    Args:
        runs: one for each start, numbered from 0.
        config: how they are trained.
    """

    def __init__(self, runs: list[Run], config: TrainingConfig) -> None:
        self.runs = runs
        self.config = config
        self.scores: dict[int, float] = {}  # by start: the objective at the end of its trial
        self.given_up: dict[int, str] = {}  # by start: why
        self.interrupted = False
        self.finished: list[Run] = []  # trained to the end, best trial first

    def train(self, on_epoch: OnEpoch) -> list[Run]:
        """Train each start for a while, and the best by training objective to the end; again, go on from there.

        The best come first; there are fewer than are to be kept where too many broke down.
        """
        for run in self.runs:
            known = self.scores.keys() | self.given_up.keys()
            if run.start not in known and self._survives(run, self._trial, on_epoch):
                self.scores[run.start] = run.objective
        while len(self.finished) < self.config.num_kept and (left := self._unfinished()):
            best = max(left, key=lambda run: self.scores[run.start])
            if self._survives(best, self.config.epochs, on_epoch):
                self.finished.append(best)
        if self.finished:
            return self.finished
        *_, last = self.given_up.values()
        if len(self.runs) == 1:
            raise FitError(last)
        raise FitError(f"At least one random start must train; all {len(self.runs)} failed. The last: {last}")

    @property
    def leader(self) -> Run | None:
        """The best start so far, wherever training stands; None before the first epoch has ended."""
        begun = [run for run in self.runs if run.records and run.start not in self.given_up]
        if len(self.scores) + len(self.given_up) == len(self.runs):
            return max(begun, key=lambda run: self.scores[run.start], default=None)
        return max(begun, key=lambda run: run.objective, default=None)

    def history(self, chosen: Run) -> History:
        """All epochs of all starts."""
        records = tuple(record for run in self.runs for record in run.records)
        return History(
            records,
            chosen.start,
            chosen.held_out_score,
            self.interrupted,
            chosen.num_rows,
            chosen.kept_epochs,
        )

    @property
    def most_epochs(self) -> int:
        """How many epochs there will be over all starts, if none ends early."""
        kept = min(self.config.num_kept, len(self.runs))
        return kept * self.config.epochs + (len(self.runs) - kept) * self._trial

    def _unfinished(self) -> list[Run]:
        done = {run.start for run in self.finished}
        return [run for run in self.runs if run.start in self.scores and run.start not in done]

    @property
    def _trial(self) -> int:
        return min(self.config.start_epochs, self.config.epochs)

    def _survives(self, run: Run, until: int, on_epoch: OnEpoch) -> bool:
        """Train a start; one that breaks down is given up, and said so: that is what the others are for."""
        try:
            run.train(until, lambda record: on_epoch(run, record))
        except FitError as error:
            self.scores.pop(run.start, None)
            self.given_up[run.start] = str(error)
            if len(self.runs) > 1:
                warnings.warn(f"Start {run.start + 1} was given up. {error}", MogulWarning, stacklevel=2)
            return False
        return True
