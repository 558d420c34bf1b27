"""docs/architecture.md is true: its functions exist, its walks happen in that order, its table has all rooms."""

import re
import sys
from collections.abc import Callable
from functools import reduce
from importlib import import_module, util
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import mogul
from mogul.training import Run

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+)\.py:([\w.]+)`", PAGE)


def walk(title: str) -> list[str]:
    """The numbered steps below a heading, `file:function` each."""
    text = PAGE.split(f"# {title}\n")[1].split("\n#")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py:[\w.]+)`", text, flags=re.MULTILINE)


def first_calls(call: Callable[[], Any]) -> list[str]:
    """All functions of the package in the order in which they are first called."""
    package, seen = str(Path(mogul.__file__).parent), dict[str, None]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            name = Path(frame.f_code.co_filename).relative_to(package).as_posix()
            seen.setdefault(f"{name}:{frame.f_code.co_qualname}")

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(seen)


class FirstStep(Exception):
    """Ends a fit where its first gradient step would begin."""


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED)))
def test_what_the_page_names_exists(file: str, name: str) -> None:
    module = import_module(f"mogul.{file.replace('/', '.')}")
    assert callable(reduce(getattr, name.split("."), sys.modules[module.__name__]))


def test_the_walk_of_fit_is_short() -> None:
    steps = walk("A walk of `fit`")
    assert 0 < len(steps) <= 20
    assert len({step.partition(":")[0] for step in steps}) <= 12


def rows(num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).uniform(-1, 1, (num_rows, 1))
    return x, np.sin(3 * x)


@pytest.mark.usefixtures("as_a_user_calls")
@pytest.mark.filterwarnings("ignore:The kernel matrix of the inducing points needed a jitter")
class TestWalks:
    """What is called, in the order of the page."""

    def test_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def end(*_: Any) -> None:
            raise FirstStep

        monkeypatch.setattr(Run, "step", end)

        def call() -> None:
            with pytest.raises(FirstStep):
                mogul.fit(*rows(2600), num_inducing=5, epochs=50)

        *steps, last = walk("A walk of `fit`")
        assert [step for step in first_calls(call) if step in steps] == steps
        assert last == "training/loop.py:Run.step"

    def test_fit_with_few_rows(self) -> None:
        steps = walk("With few rows")
        calls = first_calls(lambda: mogul.fit(*rows(30)))
        assert [step for step in calls if step in steps] == steps
        assert "training/loop.py:Run.step" not in calls

    def test_predict(self) -> None:
        x, y = rows(30)
        fitted = mogul.fit(x, y)
        steps = walk("A walk of `predict`")
        assert [step for step in first_calls(lambda: fitted.predict(x, 5)) if step in steps] == steps


def test_the_table_and_the_picture_are_those_of_the_imports() -> None:
    spec = util.spec_from_file_location("rooms", ROOT / "docs" / "rooms.py")
    assert spec is not None
    assert spec.loader is not None
    script = util.module_from_spec(spec)
    spec.loader.exec_module(script)
    imports = script.room_imports()
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)
    assert sorted(listed) == sorted(imports), "Add the room to the table of docs/architecture.md."
    assert script.with_imports(PAGE, imports) == PAGE, "Run python docs/rooms.py."
    assert script.PICTURE.is_file()
