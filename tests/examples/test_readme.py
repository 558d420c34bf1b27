"""The README's example runs as printed."""

import re
from pathlib import Path

import pytest

# Long fits, whose lines quicker tests run too: tracing them would cost as much again.
pytestmark = pytest.mark.no_cover

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_examples_run_and_beat_the_noise_of_guessing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the model's file goes
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL):
        assert len(code.strip().splitlines()) <= 15
        exec(code, names)
    assert "Scores(" in capsys.readouterr().out
    assert (tmp_path / "model.mogul").is_file()
    scores = names["fitted"].evaluate(names["test"])  # type: ignore[attr-defined]
    assert scores.mrmse < 0.2
    assert scores.coverage[0.95] > 0.8


def test_the_picture_is_there() -> None:
    (picture,) = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert (Path(__file__).parents[2] / picture).is_file()
