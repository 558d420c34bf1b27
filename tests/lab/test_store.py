"""Results on disk: whole, of one configuration, or refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.small_jobs import small, tasks

from mogul.errors import DataError
from mogul.lab.experiments.declarations import experiment
from mogul.lab.experiments.record import Job, Record, Store, difference
from mogul.lab.experiments.request import SplitChoice
from mogul.lab.experiments.run import Provenance, run_job

PROVENANCE = Provenance({}, None)


def jobs(epochs: int = 1, seeds: tuple[int, ...] = (0,)) -> list[Job]:
    found = tasks(
        small(experiment("regression")),
        models=("mogp",),
        baselines=("none",),
        linear=False,
        epochs=epochs,
        splits=SplitChoice(seeds),
    )
    return [job for job, _ in found]


@pytest.fixture(scope="module")
def done() -> Record:
    ((job, grouped),) = tasks(
        small(experiment("regression")), models=("mogp",), baselines=("none",), linear=False, epochs=1
    )
    return run_job(job, grouped, PROVENANCE)


def test_what_is_done_is_not_redone(done: Record, tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.unfinished(jobs()) == jobs()
    store.write(done)
    assert store.read() == {done.slug: done}
    assert store.unfinished(jobs()) == []


def test_what_failed_is_tried_again(done: Record, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(replace(done, metrics={}, error="no memory"))
    assert store.unfinished(jobs()) == jobs()


def test_another_configuration_of_the_same_job_is_refused(done: Record, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(done)
    with pytest.raises(DataError, match=r"has training\.epochs = 1, and 2 was asked for\. Choose another --out"):
        store.unfinished(jobs(epochs=2))


def test_splits_that_are_averaged_must_be_of_one_configuration(done: Record, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(done)
    assert len(store.unfinished(jobs(seeds=(1,)))) == 1
    with pytest.raises(DataError, match=r"training\.epochs = 1, and 2 was asked for"):
        store.unfinished(jobs(epochs=2, seeds=(1,)))


def test_other_data_under_the_same_name_are_refused(done: Record, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(replace(done, config={**done.config, "data_sha256": "other"}))
    with pytest.raises(DataError, match="data_sha256 = other"):
        store.unfinished(jobs())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 7}'])
def test_a_file_that_is_not_a_result_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "x.json").write_text(text)
    with pytest.raises(DataError, match=r"x\.json must be a result of mogul's"):
        Store(tmp_path).read()


def test_a_file_under_another_name_is_refused(done: Record, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "x.json").write_text(json.dumps(done.to_json()))
    with pytest.raises(DataError, match=f"must be named {done.slug}.json"):
        Store(tmp_path).read()


def test_half_written_files_are_not_results(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / ".x.json.ab12.partial").write_text("{")
    assert Store(tmp_path).read() == {}


def test_the_first_difference_is_found_in_depth() -> None:
    assert difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) is None
    assert difference({"a": 1}, {"b": 1}) == ("a", 1, None)
