"""A training from its first epoch to its last, or to Ctrl-C: progress, checkpoints, and what a person is told."""

import warnings
from collections.abc import Callable

from mogul.errors import MogulWarning
from mogul.fitted.history import EpochRecord
from mogul.models.model import Model
from mogul.training.checkpoint import Checkpoint
from mogul.training.progress import TrainingProgress
from mogul.training.run import Run
from mogul.training.starts import Starts


def best_trained(
    starts: Starts,
    label: str,
    on_epoch: Callable[[EpochRecord, Model], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[Run]:
    """The best of the starts, trained to the end; after Ctrl-C, the best so far as it is after its last whole epoch.

    Closed-form noise is at its optimum then, too. Before an epoch has ended there is nothing to keep, and Ctrl-C is
    what it always is; so is a second one.
    """
    done = sum(len(run.records) for run in starts.runs)
    with TrainingProgress(starts.most_epochs, label, completed=done) as progress:

        def each(run: Run, record: EpochRecord) -> None:
            progress.advance(record)
            if on_epoch is not None:
                on_epoch(record, run.model)
            if checkpoint is not None:
                checkpoint.save_if_due(starts)

        try:
            best = starts.train(each)
        except KeyboardInterrupt:
            if starts.leader is None:
                raise
            _note_interrupt(starts, starts.leader, checkpoint)
            best = starts.finished or [starts.leader]
        else:
            if checkpoint is not None:
                checkpoint.save(starts)
    _say_what_was_mended(starts)
    return best


def _note_interrupt(starts: Starts, best: Run, checkpoint: Checkpoint | None) -> None:
    if checkpoint is not None:
        checkpoint.save(starts)
    best.finish()
    starts.interrupted = True
    remedy = (
        "Give checkpoint=, a folder, to be able to go on next time."
        if checkpoint is None
        else f"The same call goes on, from {checkpoint.path}."
    )
    warnings.warn(
        f"Training should end by itself; it was interrupted after {len(best.records)} of at most "
        f"{starts.config.epochs} epochs, and the model is what those have taught it. {remedy}",
        MogulWarning,
        stacklevel=4,
    )


def _say_what_was_mended(starts: Starts) -> None:
    count = sum(run.recovery.rollbacks for run in starts.runs if run.start not in starts.given_up)
    if count:
        warnings.warn(
            f"Training should stay within numbers; it did not, {count} times, and went back to an earlier epoch with "
            "smaller steps and more jitter: see `rollbacks` in history.frame(). "
            f"Lower learning_rate ({starts.config.learning_rate:g}), or train in float64.",
            MogulWarning,
            stacklevel=4,
        )
