"""A bar for a person, lines for a log, and silence where it is wanted."""

import io
import pickle
import time

import pytest
from rich.console import Console

import mogul
from mogul.terminal import Bar, counted
from mogul.training.restarts import Restarts
from mogul.training.starts import Saving


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None, legacy_windows=False)


def shown(verbose: int, *, terminal: bool, seconds: float = 0.0) -> str:
    """What is written while three GPs are fitted."""
    screen = console(terminal=terminal)
    with Bar(verbose, screen) as bar:
        for _ in counted(bar, "exact GP", "abc"):
            time.sleep(seconds)
        bar.stage("check")
    return screen.file.getvalue()


def test_a_terminal_shows_what_is_done_and_how_many_are_left():
    text = shown(1, terminal=True, seconds=0.15)
    for part in ("exact GP 1 of 3", "exact GP 2 of 3", "exact GP 3 of 3", "check"):
        assert part in text
    assert text.endswith("\x1b[1A\x1b[2K")  # the bar is gone at the end


def test_a_log_has_a_line_in_a_second_or_so():
    lines = shown(2, terminal=False, seconds=0.6).splitlines()
    assert 1 <= len(lines) <= 2
    assert "exact GP" in lines[0]


@pytest.mark.parametrize(("verbose", "terminal"), [(0, True), (0, False), (1, False), (2, False)])
def test_what_is_quick_or_unwanted_is_silent(verbose: int, terminal: bool):
    assert shown(verbose, terminal=terminal) == ""


def test_a_long_step_is_not_silent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Bar, "_OFTEN", 0.1)
    monkeypatch.setattr(Bar, "_SELDOM", 0.2)
    screen = console(terminal=False)
    with Bar(2, screen) as bar:
        bar.stage("forest")
        time.sleep(1.2)
    assert len(screen.file.getvalue().splitlines()) >= 2


def test_the_bar_is_closed_when_training_fails():
    screen = console(terminal=True)
    bar = Bar(1, screen)

    def fail() -> None:
        with bar:
            raise ArithmeticError

    for _ in range(2):  # a bar left open would refuse the second
        with pytest.raises(ArithmeticError):
            fail()
    assert screen.file.getvalue().count("\x1b[?25l") == screen.file.getvalue().count("\x1b[?25h") == 2


def test_a_fit_reports_everything_that_takes_time(monkeypatch: pytest.MonkeyPatch):
    """Through one bar: exact GPs, the kernel, the forest, epochs, noise and the check."""
    stages: list[str] = []
    stage = Bar.stage

    def noted(bar: Bar, label: str, *counts: int) -> None:
        stages.append(label)
        stage(bar, label, *counts)

    monkeypatch.setattr(Bar, "stage", noted)
    x = [[float(row)] for row in range(20)]
    mogul.fit(x, [[row[0] % 3] for row in x], verbose=0)
    assert {"exact GP", "choice of the kernel", "forest", "noise", "check"} <= set(stages)
    stages.clear()
    mogul.fit(x, x, model="mogp+n-mogp", epochs=1, check=False, verbose=0)
    assert "n-mogp, model 2 of 2" in stages
    assert "n-mogp: epoch" in stages


def test_restarts_are_counted(monkeypatch: pytest.MonkeyPatch):
    status = Restarts._status
    said: list[str] = []
    monkeypatch.setattr(Restarts, "_status", lambda own, record: said.append(status(own, record)) or said[-1])
    config = mogul.TrainingConfig(epochs=1, num_starts=2)
    mogul.fit([[0.0], [1.0], [2.0]], [[0.0], [1.0], [3.0]], model="mogp", config=config, check=False, verbose=0)
    assert [each[:14] for each in said] == ["restart 1 of 2", "restart 2 of 2"]


def test_progress_goes_to_standard_error_by_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Bar() as bar:
        bar.stage("exact GP", 3)
    written = capsys.readouterr()
    assert written.out == ""
    assert "exact GP 1 of 3" in written.err


def test_a_request_can_be_sent_to_another_process():
    assert isinstance(pickle.loads(pickle.dumps(Saving())), Saving)
