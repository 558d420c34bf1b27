"""`mogul` as a person at a terminal meets it."""

import re
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from mogul import cli


class Outcome(NamedTuple):
    """What a person at a terminal sees."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> str:
        """Standard error without lines of progress, which a busy machine has and an idle one has not."""
        return re.sub(r"^\d+ s  .*\n", "", self.err, flags=re.MULTILINE)


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str) -> Callable[..., Outcome]:
    """Runs `mogul` with these first arguments and more, as its installed script does."""

    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["mogul", *first, *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return Outcome(exit_.value.code, *capsys.readouterr())

    return call


def assert_refused(outcome: Outcome, *fragments: str) -> None:
    """Exit code 2, and one line on standard error."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.told.startswith("mogul: ")
    assert outcome.told.count("\n") == 1
    for fragment in fragments:
        assert fragment in outcome.told
