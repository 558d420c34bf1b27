"""Restarts of one model: each on trial, the best trained to the end, with progress, checkpoints and Ctrl-C."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mogul.errors import FitError, warn
from mogul.fitted.history import EpochRecord, History
from mogul.models.model import Model
from mogul.terminal import Bar
from mogul.training.loop import Run

if TYPE_CHECKING:
    from mogul.training.checkpoint import Checkpoint


class Restarts:
    """Runs of one model from different starts, and how far each has come.

    Args:
        runs: one for each start, numbered from 0; all are trained as the first one's configuration says.
    """

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self.config = runs[0].config
        self.scores: dict[int, float] = {}  # by start: the objective at the end of its trial
        self.given_up: dict[int, str] = {}  # by start: why
        self.interrupted = False
        self.finished: list[Run] = []  # trained to the end, best trial first

    def train(
        self,
        label: str,
        on_epoch: Callable[[EpochRecord, Model], None] | None = None,
        checkpoint: "Checkpoint | None" = None,
        bar: Bar | None = None,
    ) -> list[Run]:
        """Try each start for a few epochs, then train the best by training objective to the end; best first.

        Training resumes from the checkpoint, if there is one. After Ctrl-C the result is the best start as it was
        after its last whole epoch; before the first epoch has ended, and at a second Ctrl-C, the interrupt is raised.
        """
        if checkpoint is not None:
            checkpoint.restore(self)
        done = sum(len(run.records) for run in self.runs)
        with bar or Bar() as bar:
            bar.stage(f"{label}: epoch" if self.most_epochs else f"{label}: posterior", self.most_epochs, done)

            def after_epoch(run: Run, record: EpochRecord) -> None:
                bar.advance(self._status(record))
                if on_epoch is not None:
                    on_epoch(record, run.model)
                if checkpoint is not None:
                    checkpoint.save_if_due(self)

            try:
                while (upcoming := self._next()) is not None:
                    run, until = upcoming
                    try:
                        run.train(until, partial(after_epoch, run))
                    except FitError as error:
                        self._give_up(run, error)
                    else:
                        self._note(run)
            except KeyboardInterrupt:
                for run in self.runs:  # again, where a second Ctrl-C came while an epoch was being undone
                    run.recovery.undo(run)
                if self.leader is None:
                    raise
                self._end_early(self.leader, checkpoint)
                kept = self.finished or [self.leader]
            else:
                kept = self._all_finished()
                if checkpoint is not None:
                    checkpoint.save(self)
        self._warn_of_rollbacks()
        return kept

    def _status(self, record: EpochRecord) -> str:
        start = f"restart {record.start + 1} of {len(self.runs)}  " if len(self.runs) > 1 else ""
        return f"{start}ELBO {record.elbo:,.1f}  rate {record.learning_rate:.2g}"

    def _next(self) -> tuple[Run, int] | None:
        """The start to train next, and the number of epochs to train it to; None when all is done."""
        on_trial = [run for run in self.runs if run.start not in self.scores and run.start not in self.given_up]
        if on_trial:
            return on_trial[0], self._trial
        done = {run.start for run in self.finished}
        left = [run for run in self.runs if run.start in self.scores and run.start not in done]
        if len(self.finished) == self.config.num_kept or not left:
            return None
        return max(left, key=lambda run: self.scores[run.start]), self.config.epochs

    def _note(self, run: Run) -> None:
        """A start without a score ends its trial; one with a score ends its training."""
        if run.start in self.scores:
            self.finished.append(run)
        else:
            self.scores[run.start] = run.objective

    def _give_up(self, run: Run, error: FitError) -> None:
        self.scores.pop(run.start, None)
        self.given_up[run.start] = str(error)
        if len(self.runs) > 1:
            warn(f"Start {run.start + 1} was given up. {error}")

    def _all_finished(self) -> list[Run]:
        if self.finished:
            return self.finished
        *_, last = self.given_up.values()
        if len(self.runs) == 1:
            raise FitError(last)
        raise FitError(f"At least one random start must train; all {len(self.runs)} failed. The last: {last}")

    def _end_early(self, best: Run, checkpoint: "Checkpoint | None") -> None:
        """Ready the best start to predict; closed-form noise is set to its optimum, too."""
        if checkpoint is not None:
            checkpoint.save(self)
        best.finish()
        self.interrupted = True
        remedy = (
            "Give checkpoint=, a folder, to resume next time."
            if checkpoint is None
            else f"The same call resumes from {checkpoint.path}."
        )
        warn(
            f"Training was interrupted after {len(best.records)} of at most {self.config.epochs} epochs; "
            f"the model is as it was then. {remedy}"
        )

    def _warn_of_rollbacks(self) -> None:
        count = sum(run.recovery.rollbacks for run in self.runs if run.start not in self.given_up)
        if count:
            times = "once" if count == 1 else f"{count} times"
            warn(
                f"Training diverged {times} and was rolled back to an earlier epoch, with smaller steps and more "
                "jitter: see `rollbacks` in history.frame(). "
                f"Lower learning_rate ({self.config.learning_rate:g}), or train in float64."
            )

    @property
    def leader(self) -> Run | None:
        """The best start so far, on trial or after it; None before the first epoch has ended."""
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
        """The number of epochs over all starts, if none ends early."""
        kept = min(self.config.num_kept, len(self.runs))
        return kept * self.config.epochs + (len(self.runs) - kept) * self._trial

    @property
    def _trial(self) -> int:
        return min(self.config.start_epochs, self.config.epochs)
