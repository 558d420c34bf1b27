"""Many jobs: each stored as it ends, one bar over all, and a word when a process dies."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError
from rich.console import Console
from tests.helpers.small_jobs import record, small, tasks

from mogul.data.splits import GroupedData
from mogul.lab.experiments import run as runner
from mogul.lab.experiments.declarations import experiment
from mogul.lab.experiments.record import Job, Record, Store
from mogul.lab.experiments.request import SplitChoice
from mogul.lab.experiments.run import Provenance, WorkerError, run_all
from mogul.lab.report.tables import result_line

NOWHERE = Provenance({}, None)


def pretend(job: Job, grouped: GroupedData, provenance: Provenance) -> Record:
    """A record without the work."""
    names = ("experiment", "dataset", "split", "split_label", "label", "kind", "model", "settings", "preset", "seed")
    return replace(record(), config=job.config, **{name: getattr(job, name) for name in names})


@pytest.fixture
def some(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Job, GroupedData]]:
    """Six jobs that take no time."""
    monkeypatch.setattr(runner, "run_job", pretend)
    chosen = {"models": ("mogp",), "baselines": ("mean",), "linear": False, "epochs": 2}
    return tasks(small(experiment("regression")), splits=SplitChoice((0, 1, 2)), **chosen)


def run(some: list[tuple[Job, GroupedData]], folder: Path, *, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)
    run_all(some, Store(folder), 1, NOWHERE, console, result_line)
    return console.file.getvalue()


def test_each_job_is_stored_and_told_of_once(some, tmp_path: Path) -> None:
    said = run(some, tmp_path)
    assert set(Store(tmp_path).read()) == {job.slug for job, _ in some}
    assert said.count("\n") == len(some) == 6
    assert "kuka, random 2, MOGP: LL 0.50" in said
    assert run(some, tmp_path) == ""  # nothing is left


def test_a_terminal_has_one_bar_over_all(some, tmp_path: Path) -> None:
    run(some[:2], tmp_path)
    said = run(some, tmp_path, terminal=True)
    assert "2/6 jobs" in said
    assert "6/6 jobs" in said
    assert "100 %" in said


def test_what_ended_before_a_process_died_is_kept(some, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die_at_models(job: Job, *rest: object) -> Record:
        if job.kind == "model":
            raise TerminatedWorkerError("killed")
        return pretend(job, *rest)

    monkeypatch.setattr(runner, "run_job", die_at_models)
    with pytest.raises(WorkerError, match=r"with 3 jobs to go\. Run the same command again, with fewer --jobs"):
        run(some, tmp_path)
    assert len(Store(tmp_path).read()) == 3
