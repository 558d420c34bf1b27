"""A progress bar for a person; silence for a file."""

import io

import pytest
from rich.console import Console

from mogul.training import EpochRecord
from mogul.training.restarts import TrainingProgress


def record(epoch: int, elbo: float = -1234.56, start: int = 0) -> EpochRecord:
    return EpochRecord(
        start=start,
        epoch=epoch,
        elbo=elbo,
        ell=elbo,
        kl=0.0,
        log_prior=0.0,
        learning_rate=0.025,
        kl_weight=1.0,
        jitter=0.0,
        seconds=0.1,
    )


def shown(*records: EpochRecord, terminal: bool, total: int = 7) -> str:
    """What a console writes while these epochs go by."""
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None, legacy_windows=False)
    with TrainingProgress(total, "n-mogp", console) as progress:
        for each in records:
            progress.advance(each)
    return console.file.getvalue()


def test_a_terminal_shows_model_epoch_objective_and_rate():
    text = shown(record(0), record(1), terminal=True)
    for part in ("n-mogp", "2/7 epochs", "ELBO -1,234.6", "rate 0.025", "start 1"):
        assert part in text


def test_the_start_is_counted_from_one():
    assert "start 3" in shown(record(0, start=2), terminal=True)


def test_the_last_epoch_completes_the_bar():
    assert "2/2 epochs" in shown(record(0), record(1), terminal=True, total=2)


def test_the_bar_is_gone_at_the_end():
    # The cursor is moved up and the line erased.
    assert shown(record(0), terminal=True).endswith("\x1b[1A\x1b[2K")


def test_a_file_stays_empty():
    assert shown(record(0), record(1), terminal=False) == ""


def test_the_bar_is_closed_when_training_fails():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)

    def fail() -> None:
        with TrainingProgress(3, "mogp", console) as progress:
            progress.advance(record(0))
            raise ArithmeticError

    for _ in range(2):  # a bar left open would refuse the second
        with pytest.raises(ArithmeticError):
            fail()
    assert console.file.getvalue().count("\x1b[?25l") == console.file.getvalue().count("\x1b[?25h") == 2


def test_progress_goes_to_standard_error_by_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with TrainingProgress(3, "mogp") as progress:
        progress.advance(record(0))
    written = capsys.readouterr()
    assert written.out == ""
    assert "ELBO" in written.err
