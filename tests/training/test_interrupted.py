"""Ctrl-C once or twice at any line of training: the checkpoint resumes to the model of an undisturbed run."""

import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from tests.helpers.sameness import same_training
from tests.helpers.separate import waves

import mogul
from mogul import TrainingConfig
from mogul.errors import NumericalError
from mogul.training import Stopping, checkpoint, loop, recovery, restarts
from mogul.training.checkpoint import FILE_NAME
from mogul.training.fit import Fitted

TRACED = {module.__file__ for module in (loop, recovery, restarts, checkpoint)}
CONFIG = TrainingConfig(
    epochs=4, batch_size=16, num_starts=2, start_epochs=2, stopping=Stopping(held_out=0.2, tolerance=-100.0)
)


class Interrupts:
    """Raises KeyboardInterrupt at a line of training, and at a line after an epoch begins to be undone."""

    def __init__(self, first: int | None, second: int | None) -> None:
        self.left, self.second, self.lines = first, second, 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in TRACED:
            return None
        if event == "line":
            self.lines += 1
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    self.left = None
                    raise KeyboardInterrupt
        return self.trace

    def again(self) -> None:
        """An exception ends the tracing of Python."""
        if self.second is not None and self.left is None:
            self.left, self.second = self.second, None
            sys.settrace(self.trace)


def trained(folder: Path | None, interrupts: Interrupts | None, monkeypatch: pytest.MonkeyPatch) -> Fitted | None:
    """The fit, or None where the interrupt was raised; the fourth step's first try diverges."""
    torch.set_num_threads(1)
    with monkeypatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step, undo = loop.Run.step, recovery.Recovery.undo

        def failing(run: loop.Run, *arguments: Any) -> Any:
            if run.num_steps == 3 and not run.recovery.rollbacks:
                raise NumericalError("Made up.")
            return step(run, *arguments)

        def undone(self: recovery.Recovery, run: loop.Run) -> None:
            if interrupts is not None:
                interrupts.again()
            undo(self, run)

        patched.setattr(loop.Run, "step", failing)
        patched.setattr(recovery.Recovery, "undo", undone)
        before = sys.gettrace()
        sys.settrace(None if interrupts is None else interrupts.trace)
        try:
            return mogul.fit(
                waves(),
                model="n-mogp",
                config=CONFIG,
                noise="constant",
                num_inducing=4,
                num_hidden=3,
                checkpoint=folder,
                checkpoint_seconds=0.0,
            )
        except KeyboardInterrupt:
            return None
        finally:
            sys.settrace(before)


@pytest.mark.no_cover
def test_whatever_line_it_comes_at_the_checkpoint_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    counting = Interrupts(None, None)
    undisturbed = trained(None, counting, monkeypatch)
    assert undisturbed is not None
    rng, interrupted, resumed = random.Random(0), 0, 0
    for number in range(12):
        folder = tmp_path / str(number)
        interrupts = Interrupts(rng.randrange(counting.lines), rng.randrange(60) if number % 3 else None)
        found = trained(folder, interrupts, monkeypatch)
        interrupted += found is None or found.history.interrupted
        resumed += (folder / FILE_NAME).exists()
        again = trained(folder, None, monkeypatch)
        assert again is not None
        assert same_training(undisturbed, again), number
        assert [path.name for path in folder.iterdir()] == [FILE_NAME]
    assert interrupted > 9
    assert resumed > 6


@pytest.mark.no_cover
def test_a_second_interrupt_while_an_epoch_is_undone_gives_the_same_model_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    counting = Interrupts(None, None)
    trained(None, counting, monkeypatch)
    middle = counting.lines // 2
    once = trained(tmp_path / "once", Interrupts(middle, None), monkeypatch)
    assert once is not None
    assert once.history.interrupted
    for second in range(1, 24, 8):
        twice = trained(tmp_path / str(second), Interrupts(middle, second), monkeypatch)
        assert twice is None or same_training(once, twice)
