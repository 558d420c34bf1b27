"""`mogul reproduce`: killed and started again, side by side and one by one, the results are the same."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from tests.helpers.small_jobs import small
from tests.helpers.terminal import Outcome, assert_refused, command

from mogul.lab.experiments import synthetic
from mogul.lab.experiments.declarations import EXPERIMENTS, experiment

NUM_TRAIN, NUM_TEST = 60, 40
SMALL = ["synthetic", "--splits", "1", "--epochs", "2", "--no-linear", "--baselines", "mean"]
NUM_MODEL_JOBS = 2
# The same few rows in a process that never ends its second model.
SCRIPT = f"""
import time
from dataclasses import replace
from mogul.lab.experiments import synthetic
from mogul.training import FitRequest
synthetic.NUM_TRAIN, synthetic.NUM_TEST = {NUM_TRAIN}, {NUM_TEST}
config, fit, fitted = synthetic.config, FitRequest.fit, []
synthetic.config = lambda seed: replace(config(seed), num_starts=1)

def fit_once(*arguments, **options):
    if fitted:
        time.sleep(600)
    fitted.append(fit(*arguments, **options))
    return fitted[0]

FitRequest.fit = fit_once
from mogul.cli import main
main()
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """`mogul reproduce` in an empty folder, with no data folder named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MOGUL_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return command(monkeypatch, capsys, "reproduce")


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The regression experiment on a few rows."""
    monkeypatch.setitem(EXPERIMENTS, "regression", small(experiment("regression")))


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The synthetic experiment on a few rows, from one start."""
    config = synthetic.config
    monkeypatch.setattr(synthetic, "NUM_TRAIN", NUM_TRAIN)
    monkeypatch.setattr(synthetic, "NUM_TEST", NUM_TEST)
    monkeypatch.setattr(synthetic, "config", lambda seed: replace(config(seed), num_starts=1))


def models_done(folder: Path) -> int:
    return sum("mogp" in path.name for path in (folder / "jobs").glob("*.json"))


@pytest.mark.usefixtures("few_rows")
def test_killed_half_way_and_started_again_it_ends_as_an_undisturbed_run(run, tmp_path: Path) -> None:
    call = [sys.executable, "-c", SCRIPT, "reproduce", *SMALL, "--out", str(tmp_path / "killed"), "--jobs", "1"]
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while models_done(tmp_path / "killed") == 0:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert models_done(tmp_path / "killed") == 1
    assert not (tmp_path / "killed" / "results.csv").exists()
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "killed" / "jobs").glob("*.json")}
    again = run(*SMALL, "--out", "killed", "--jobs", "1")
    assert again.code == 0, again.err
    assert "N-MOGP" in again.out
    assert models_done(tmp_path / "killed") == NUM_MODEL_JOBS
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())  # what was done was not redone
    assert_as_undisturbed(run, tmp_path / "killed")
    written = {path.name for path in (tmp_path / "killed").iterdir()}
    assert {"jobs", "results.csv", "summary.csv", "timings.csv", "tables.md", "tables.tex"} <= written


@pytest.mark.usefixtures("few_rows")
def test_side_by_side_in_processes_of_their_own_jobs_give_the_same(run, tmp_path: Path) -> None:
    assert run(*SMALL, "--out", "both", "--jobs", "2").code == 0
    assert_as_undisturbed(run, tmp_path / "both")


def assert_as_undisturbed(run, folder: Path) -> None:
    """The same tables as those of jobs one by one in this process."""
    assert run(*SMALL, "--out", "whole", "--jobs", "1").code == 0
    for name in ("results.csv", "summary.csv"):
        assert (folder / name).read_bytes() == (folder.parent / "whole" / name).read_bytes()


@pytest.mark.usefixtures("arm")
def test_a_run_prints_its_table_and_writes_its_records(run, tmp_path: Path) -> None:
    chosen = ["--models", "mogp,mogp+linear+gp-noise", "--baselines", "least-squares,neighbours"]
    outcome = run("regression", *chosen, "--epochs", "1", "--jobs", "1", "--out", "here")
    assert outcome.code == 0, outcome.err
    for part in ("least squares", "MOGP + linear", "the paper's LL", "15.64 ± 0.40", "Noise floor: sd", "results.csv"):
        assert part in outcome.out
    records = [json.loads(path.read_text()) for path in (tmp_path / "here" / "jobs").glob("*.json")]
    ours = {"MOGP", "MOGP + linear", "MOGP + linear + GP noise"}
    assert {record["label"] for record in records} == {*ours, "least squares", "k nearest neighbours"}
    for record in records:
        assert record["error"] is None
        assert {"mogul", "torch", "gpytorch", "numpy"} <= set(record["versions"])
        assert record["command"].startswith("mogul reproduce regression --preset fast --datasets kuka --seeds 0")
    frame = pd.read_csv(tmp_path / "here" / "results.csv", keep_default_na=False)
    assert len(frame) == 6 * len(records)


@pytest.mark.usefixtures("arm")
def test_a_folder_collects_the_results_of_several_commands(run, tmp_path: Path) -> None:
    words = ["regression", "--models", "none", "--jobs", "1", "--out", "here"]
    assert run(*words, "--baselines", "mean").code == 0
    second = run(*words, "--baselines", "least-squares", "--splits", "random:2,trajectory")
    assert second.code == 0
    labels = [line.split("  ")[0] for line in second.out.splitlines()]
    assert "least squares" in labels
    assert "mean" not in labels
    frame = pd.read_csv(tmp_path / "here" / "results.csv", keep_default_na=False)
    assert set(frame.label) == {"mean", "least squares"}
    assert set(frame.split) == {"random 0", "random 1", "by trajectory"}


@pytest.mark.usefixtures("arm")
def test_another_configuration_is_refused_and_changes_nothing(run, tmp_path: Path) -> None:
    words = ["regression", "--models", "mogp", "--baselines", "none", "--no-linear", "--jobs", "1", "--out", "here"]
    assert run(*words, "--epochs", "1").code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "here").rglob("*") if path.is_file()}
    assert_refused(run(*words, "--epochs", "2"), "training.epochs = 1, and 2 was asked for", "Choose another --out")
    assert {path: path.read_bytes() for path in (tmp_path / "here").rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("arm")
def test_a_job_that_fails_does_not_stop_the_others(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise MemoryError("too large")

    words = ["regression", "--models", "mogp", "--baselines", "mean", "--jobs", "1", "--epochs", "1"]
    with monkeypatch.context() as patch:
        patch.setattr("mogul.lab.experiments.run.FitRequest.fit", fail)
        outcome = run(*words)
    assert outcome.code == 1
    assert "MOGP: failed: MemoryError: too large" in outcome.err
    assert "2 of the jobs failed" in outcome.err
    assert "Traceback" not in outcome.err
    frame = pd.read_csv(tmp_path / "mogul-results" / "results.csv", keep_default_na=False)
    assert set(frame.label) == {"mean"}
    assert run(*words).code == 0  # what failed is tried again
    frame = pd.read_csv(tmp_path / "mogul-results" / "results.csv", keep_default_na=False)
    assert set(frame.label) == {"mean", "MOGP", "MOGP + linear"}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["nonsense"], "experiment must be one of synthetic, regression"),
        (["regresion"], "Did you mean 'regression'"),
        (["regression", "--preset", "quick"], "preset must be one of fast, default, paper"),
        (["regression", "--models", "mogq"], "model must be one of"),
        (["regression", "--models", "mogp,"], "--models must be names with commas"),
        (["regression", "--baselines", "nothing"], "baseline must be one of"),
        (["regression", "--epochs", "0"], "epochs must be at least 1"),
        (["regression", "--jobs", "0"], "--jobs must be at least 1"),
        (["regression", "--splits", "some"], "--splits must be a number"),
        (["regression", "--seeds", "x"], "--seeds must be different whole numbers"),
        (["regression", "--points", "3"], "sweeps nothing"),
        (["regression"], "Set MOGUL_DATA"),
        (["regression", "--data-dir", "nowhere", "--datasets", "kuca"], "Did you mean 'kuka'"),
        (["regression", "--data-dir", "nowhere"], "does not exist"),
        (["regression", "--out", "taken"], "taken is a file"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written(run, tmp_path: Path, words: list[str], part: str) -> None:
    (tmp_path / "taken").write_text("mine")
    assert_refused(run(*words), part)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_help_says_what_can_be_asked_for(run) -> None:
    outcome: Outcome = run("--help")
    assert outcome.code == 0
    for option in (
        "--preset",
        "--models",
        "--noises",
        "--datasets",
        "--splits",
        "--seeds",
        "--jobs",
        "--out",
        "--epochs",
        "--data-dir",
    ):
        assert option in outcome.out
    for name in EXPERIMENTS:
        assert name in outcome.out
