"""The command line: help, errors of one line, and a whole demo at a small scale."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.terminal import assert_refused, command
from typer.testing import CliRunner

from mogul import cli
from mogul.lab.experiments import synthetic
from mogul.training import Fitted, TrainingConfig


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `mogul` with these arguments, as its installed script does."""
    return command(monkeypatch, capsys)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The arguments of every demo that was begun; none is run."""
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(synthetic, "run_demo", lambda *arguments: calls.append(arguments))
    return calls


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows, few epochs, few draws."""
    monkeypatch.setattr(synthetic, "NUM_TRAIN", 30)
    monkeypatch.setattr(synthetic, "NUM_TEST", 20)
    monkeypatch.setattr(synthetic, "config", lambda seed: TrainingConfig(epochs=2, num_starts=1, seed=seed))
    monkeypatch.setattr(synthetic, "DEMO_TRAINING", {"start": "map"})
    predict = Fitted.predict
    monkeypatch.setattr(Fitted, "predict", lambda self, x, *_, **__: predict(self, x, num_samples=50))


def test_help_names_the_commands():
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert "Multi-output Gaussian processes with neural likelihoods" in result.output


def test_commands_are_listed_from_the_library_to_the_laboratory():
    output = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}).output
    listed = re.findall(r"^[^\w-]*([a-z]+)  ", output, flags=re.MULTILINE)
    library, laboratory = (
        ["models", "fit", "predict", "evaluate", "show", "compare", "dynamics", "rollout", "export"],
        ["demo", "reproduce", "report"],
    )
    assert listed == [*library, "data", *laboratory]
    assert output.index("compare") < output.index("Laboratory") < output.index("Data sets")


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "mogul", "models"], capture_output=True, text=True, check=True)
    assert "n-sbgprn" in done.stdout


def test_help_of_a_command_names_its_options():
    result = CliRunner().invoke(cli.app, ["demo", "--help"], env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})
    assert result.exit_code == 0
    for option in ("--seeds", "--out", "--json"):
        assert option in result.output


def test_without_arguments_there_is_help(run):
    outcome = run()
    assert "demo" in outcome.out + outcome.err
    assert "Traceback" not in outcome.out + outcome.err


@pytest.mark.parametrize("seeds", ["0", "-2"])
def test_fewer_than_one_seed_is_refused(run, folder: Path, asked, seeds):
    assert_refused(run("demo", "--seeds", seeds), "--seeds must be at least 1", f"got {seeds}", "Try --seeds 5")
    assert asked == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("option", [["--seeds", "many"], ["--sedes", "2"]])
def test_what_cannot_be_read_is_refused(run, folder: Path, asked, option):
    outcome = run("demo", *option)
    assert outcome.code == 2
    assert option[0] in outcome.err
    assert asked == []


def test_an_output_folder_that_is_a_file_is_refused(run, folder: Path, asked):
    (folder / "taken").write_text("mine")
    assert_refused(run("demo", "--out", "taken"), "must go into a folder", "taken is a file", "Choose another name")
    assert asked == []
    assert [path.name for path in folder.iterdir()] == ["taken"]
    assert (folder / "taken").read_text() == "mine"


def test_a_file_in_the_way_of_the_scores_is_refused(run, folder: Path, asked):
    (folder / "taken").write_text("mine")
    assert_refused(run("demo", "--json", "taken/scores.json"), "must go into a folder", "taken is a file")
    assert asked == []


@pytest.mark.parametrize(
    "option", [["--out", "taken/below"], ["--json", "taken/below/scores.json"], ["--json", "folder"]]
)
def test_a_place_where_nothing_can_be_written_is_refused_before_any_work(run, folder: Path, asked, option):
    (folder / "taken").write_text("mine")
    (folder / "folder").mkdir()
    try:
        outcome = run("demo", *option)
    finally:
        assert asked == []
    assert_refused(outcome)


def test_options_reach_the_demo(run, folder: Path, asked):
    assert run("demo").code == 0
    assert run("demo", "--seeds", "3", "--out", "here", "--json", "deep/scores.json").code == 0
    assert asked == [(1, Path("mogul-demo"), None), (3, Path("here"), Path("deep/scores.json"))]


@pytest.mark.usefixtures("_small")
def test_a_demo_prints_a_table_and_writes_figures_and_scores(run, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "160")
    outcome = run("demo", "--seeds", "2", "--out", "figures", "--json", "scores/all.json")
    assert outcome.code == 0
    written = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert written == ["figures/synthetic.png", "figures/synthetic.svg", "scores/all.json"]
    rows = json.loads((folder / "scores/all.json").read_text())
    models = ["oracle", "least squares", "mogp", "n-mogp"]
    assert [(row["seed"], row["model"]) for row in rows] == [(seed, model) for seed in (0, 1) for model in models]
    for row in rows:
        assert {"seed", "model", "ll", "mrmse"} <= row.keys()
        assert isinstance(row["ll"], float)
        assert row["mrmse"] > 0
    assert rows[0]["ll"] != rows[4]["ll"]
    for part in ("MOGP, the paper", "N-MOGP, mogul", "2 seeds", "figures/synthetic.png", "scores/all.json"):
        assert part in outcome.out


@pytest.mark.usefixtures("_small")
def test_without_a_file_for_them_scores_are_only_printed(run, folder: Path):
    assert run("demo").code == 0
    assert sorted(path.name for path in folder.rglob("*")) == ["mogul-demo", "synthetic.png", "synthetic.svg"]


def test_scores_are_written_whole_or_not_at_all(folder: Path):
    path = folder / "new" / "scores.json"
    synthetic.write_json(path, [1])
    with pytest.raises(TypeError):
        synthetic.write_json(path, [object()])
    assert json.loads(path.read_text()) == [1]
    synthetic.write_json(path, [2])
    assert json.loads(path.read_text()) == [2]
    assert [each.name for each in path.parent.iterdir()] == ["scores.json"]


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "data.csv", "--targets", "y"],
        ["predict", "m.mogul", "data.csv"],
        ["evaluate", "m.mogul", "data.csv"],
        ["compare", "data.csv", "--targets", "y"],
    ],
)
def test_a_module_that_cannot_be_imported_is_named(
    run, folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
):
    monkeypatch.setattr(sys, "path", [*sys.path])
    refused = "--import must name modules that Python can import", "no_such_module fails", "without .py"
    assert_refused(run(*words, "--import", "json,no_such_module"), *refused)
