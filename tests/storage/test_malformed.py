"""Two hundred malformed inputs: each ends in one line with rule, value and remedy, at once, and writes nothing."""

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.broken import arrays, models, tables
from tests.helpers.broken.case import KINDS
from tests.helpers.terminal import command

import mogul
from mogul.training import TrainingConfig

COUNT, SECONDS = 200, 20
FILES = (tables, arrays, models)  # each puts its kinds among KINDS
CASES = [(list(KINDS)[number % len(KINDS)], number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good model file, of inputs a, b and outputs u, v."""
    values = np.random.default_rng(0).standard_normal((8, 4))
    x, y = pd.DataFrame(values[:, :2], columns=["a", "b"]), pd.DataFrame(values[:, 2:], columns=["u", "v"])
    path = tmp_path_factory.mktemp("model") / "model.mogul"
    mogul.fit(mogul.Dataset(x, y), model="mogp", config=TrainingConfig(epochs=1, num_starts=1), noise="constant").save(
        path
    )
    return path


@pytest.fixture
def folder(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_a_user_calls: None) -> Path:
    """A working folder with that file in it, as a user meets it."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(model, tmp_path)).parent


@pytest.fixture
def _no_hang() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError(f"no answer within {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


@pytest.mark.usefixtures("_no_hang")
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_what_is_malformed_is_refused_in_one_line(kind, seed, folder: Path, monkeypatch, capsys):
    arguments, rule, found, remedy = KINDS[kind](np.random.default_rng(seed), folder)
    before = contents(folder)
    outcome = command(monkeypatch, capsys)(*arguments)
    message = outcome.told
    assert outcome.code == 2, message
    assert outcome.out == ""
    assert re.fullmatch(r"mogul: [^\n]+[;:] [^\n]+[.?] [^\n]+[.?]\n", message), message
    assert message.isprintable() or message.rstrip("\n").isprintable(), message
    places = [message.find(rule), message.find(found), message.rfind(remedy)]
    assert -1 not in places, message
    assert places == sorted(places), message
    assert contents(folder) == before


def test_every_kind_is_tried():
    assert {kind for kind, _ in CASES} == set(KINDS)
    assert {Path(str(each.__file__)).stem for each in FILES} == {
        each.__module__.split(".")[-1] for each in KINDS.values()
    }
