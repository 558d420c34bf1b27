"""`mogul fit`, `predict` and `evaluate` with rows in several files, and workers that are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from tests.helpers.row_tables import frame, write
from tests.helpers.terminal import assert_refused, command

import mogul
from mogul.cli.workers import worker_environments

# Whole commands, whose lines quicker tests run too.
pytestmark = pytest.mark.no_cover
ROWS, COLUMNS = "rows/*.parquet", ("--targets", "y,z")
QUICK = ("--model", "n-sbgprn", "--noise", "gp", "--inducing", "5", "--epochs", "2", "--no-check", "--quiet")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    write(frame(3000), tmp_path / "rows")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return command(monkeypatch, capsys)


def test_from_files_to_files(run) -> None:
    outcome = run("fit", ROWS, *COLUMNS, *QUICK, "--max-memory", "0.0001", "--out", "rows.mogul")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Rows     3,000" in outcome.out
    assert run("predict", "rows.mogul", ROWS, "--out", "out.parquet", "--keep", "a").code == 0
    assert list(pd.read_parquet("out.parquet").columns) == ["a", "y", "y_std", "z", "z_std"]
    frame(3000).to_parquet("one.parquet")
    several, one = (run("evaluate", "rows.mogul", where, "--json") for where in ("rows", "one.parquet"))
    assert several.code == one.code == 0
    scores = [json.loads(outcome.out)["scores"] for outcome in (several, one)]
    assert scores[0]["mrmse"] == pytest.approx(scores[1]["mrmse"])
    assert scores[0]["ll"] == pytest.approx(scores[1]["ll"], abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("fit", "none/*.parquet", "--targets", "y"), ["match at least one table; 'none/*.parquet' matches none"]),
        (("fit", ROWS, "--stream"), ["--targets must name the columns to predict"]),
        (
            ("fit", ROWS, "--targets", "w", "--stream"),
            ["of every file; 'w' is not in rows"],
        ),
        (("fit", ROWS, *COLUMNS, "--workers", "0"), ["--workers must be at least 1; got 0"]),
        (("fit", ROWS, *COLUMNS, "--device", "gpu"), ["device must be cpu, cuda"]),
        (("predict", "rows.mogul", ROWS), ["must go into files: --out predicted.parquet"]),
        (
            ("predict", "rows.mogul", ROWS, "--out", "a.parquet", "--given", "y"),
            ["--given is for predictions"],
        ),
    ],
)
def test_refusals_leave_nothing_behind(run, arguments: tuple[str, ...], fragments: list[str]) -> None:
    Path("rows.mogul").touch()
    before = sorted(Path.cwd().rglob("*"))
    outcome = run(*arguments, *(("--quiet",) if arguments[0] == "fit" else ()))
    assert_refused(outcome, *fragments)
    assert sorted(Path.cwd().rglob("*")) == before


def test_a_file_that_differs_is_refused(run) -> None:
    frame(50).drop(columns="z").to_parquet("rows/part9.parquet")
    assert_refused(run("fit", ROWS, *COLUMNS, *QUICK, "--stream"), "'z' is not in rows/part9.parquet")
    frame(50).assign(d=1).to_parquet("rows/part9.parquet")
    assert_refused(run("fit", ROWS, *COLUMNS, *QUICK, "--stream"), "must have the same columns; 'd' is in")
    assert not Path("model.mogul").exists()


def test_cores_are_divided_among_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    each = worker_environments(2, 8)
    assert [one["RANK"] for one in each] == ["0", "1"]
    assert {one["OMP_NUM_THREADS"] for one in each} == {"4"}
    assert {one["WORLD_SIZE"] for one in each} == {"2"}


def workers(out: str, *more: str) -> "subprocess.Popen[str]":
    arguments = (
        "fit",
        ROWS,
        *COLUMNS,
        *QUICK[:-4],
        "--epochs",
        "300",
        "--no-check",
        "--quiet",
        "--stream",
        "--workers",
        "2",
    )
    arguments += ("--scratch", "copy", "--out", out, "--force", *more)
    environment = {**os.environ, "PYTHONPATH": str(Path(mogul.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-m", "mogul", *arguments], stderr=subprocess.PIPE, text=True, env=environment
    )


def children(process: "subprocess.Popen[str]") -> list[int]:
    return [int(each) for each in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker_ends_the_job_with_one_line(run, rank: int) -> None:
    killed, until = workers("killed.mogul"), time.monotonic() + 120
    while len(children(killed)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(3.0)  # reading, starting or training: it ends in the same way
    os.kill(children(killed)[rank], signal.SIGKILL)
    said = killed.communicate(timeout=120)[1]
    assert killed.returncode == 1
    assert said.startswith("mogul: All 2 workers must be there until training ends")
    assert said.count("\n") == 1
    assert not Path("killed.mogul").exists()
