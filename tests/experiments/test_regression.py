"""The regression table: its lines, its baseline, its command."""

import json
from pathlib import Path

import numpy as np
import pytest

from mogul.cli import main
from mogul.data import Dataset
from mogul.data.robots import RobotData
from mogul.experiments import regression
from mogul.report.families import models_table
from mogul.report.tables import regression_table


@pytest.fixture
def arm() -> RobotData:
    """A small linear arm: fourteen outputs of twenty-one inputs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 21))
    y = x @ rng.normal(size=(21, 14)) + 0.1 * rng.normal(size=(90, 14))
    return RobotData("kuka", Dataset(x, y), np.repeat(np.arange(1, 11), 9), num_test=30)


def test_deep_models_also_come_with_as_many_gps_in_both_layers() -> None:
    lines = regression.entries(["mogp", "dgp", "n-dgp"], num_outputs=14)
    assert [line.label for line in lines] == ["MOGP", "DGP", "N-DGP", "DGP (L′ = L)", "N-DGP (L′ = L)"]
    assert lines[-1].options == {"num_top_latents": 7}


def test_least_squares_comes_first_and_each_model_follows(arm: RobotData) -> None:
    rows = list(regression.run(arm, ["mogp"], epochs=1, seed=0))
    assert [row.label for row in rows] == ["least squares", "MOGP"]
    train, test = arm.split(0)
    design = np.c_[train.x, np.ones(len(train.x))]
    weights = np.linalg.lstsq(design, train.y, rcond=None)[0]
    error = (test.y - np.c_[test.x, np.ones(len(test.x))] @ weights) / train.y.std(0)
    assert rows[0].mrmse == pytest.approx(np.sqrt((error**2).mean(0)).mean())
    assert rows[0].mrmse < rows[1].mrmse  # one epoch is not enough, and the truth is linear


def test_the_papers_figures_stand_beside_the_same_labels() -> None:
    labels = {line.label for line in regression.entries(["mogp", "dgp", "n-dgp", "dk-n-sbgprn"], 14)}
    for table in regression.PAPER.values():
        assert labels <= set(table)


def test_tables_hold_what_they_are_given() -> None:
    rows = [regression.Row("MOGP", 16.5, 0.17, 0.05, 12.0)]
    table = regression_table("kuka", rows, epochs=30, seed=0)
    cells = [next(iter(column.cells)) for column in table.columns]
    assert cells == ["MOGP", "16.50", "0.170", "0.0500", "12", "15.64", "0.174"]
    assert models_table().row_count == 7


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["mogul", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_command_prints_the_table_and_writes_the_scores(
    arm: RobotData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mogul.reproduce.load", lambda name, folder: arm)
    out = tmp_path / "scores.json"
    words = ["--models", "mogp", "--epochs", "1", "--data-dir", str(tmp_path), "--json", str(out)]
    assert run(monkeypatch, "reproduce", "regression", *words) == 0
    assert "the paper's LL" in capsys.readouterr().out.replace("\n", " ")
    assert [row["label"] for row in json.loads(out.read_text())["rows"]] == ["least squares", "MOGP"]


def test_an_interrupted_table_goes_on_where_it_stopped(
    arm: RobotData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mogul.reproduce.load", lambda name, folder: arm)
    out = tmp_path / "scores.json"
    words = ["--epochs", "1", "--data-dir", str(tmp_path), "--json", str(out)]
    assert run(monkeypatch, "reproduce", "regression", "--models", "mogp", *words) == 0
    first = json.loads(out.read_text())["rows"]
    assert run(monkeypatch, "reproduce", "regression", "--models", "mogp,n-mogp", *words) == 0
    rows = json.loads(out.read_text())["rows"]
    assert rows[1] == first[1]  # its seconds too: it was not trained again
    assert [row["label"] for row in rows] == ["least squares", "MOGP", "N-MOGP"]
    capsys.readouterr()
    assert run(monkeypatch, "reproduce", "regression", "--models", "mogp", *words, "--seed", "1") == 2
    assert "must hold results of" in capsys.readouterr().err
    out.write_text("[1]")
    assert run(monkeypatch, "reproduce", "regression", "--models", "mogp", *words) == 2
    assert "this command's own" in capsys.readouterr().err
    assert out.read_text() == "[1]"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["nonsense"], "experiment must be one of regression"),
        (["regression", "--models", "mogq"], "model must be one of"),
        (["regression", "--epochs", "0"], "epochs must be at least 1"),
        (["regression"], "Set MOGUL_DATA"),
        (["regression", "--data-dir", "nowhere", "--dataset", "kuca"], "Did you mean 'kuka'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(
    words: list[str], part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MOGUL_DATA", raising=False)
    assert run(monkeypatch, "reproduce", *words) == 2
    error = capsys.readouterr().err
    assert error.startswith("mogul: ")
    assert error.count("\n") == 1
    assert part in error


def test_models_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "models") == 0
    assert "n-sbgprn" in capsys.readouterr().out
