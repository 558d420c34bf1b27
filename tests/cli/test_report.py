"""`mogul report`: from the records alone to all that a run writes."""

import json
from pathlib import Path

import pytest
from tests.helpers.small_jobs import record
from tests.helpers.terminal import assert_refused, command

from mogul.lab.experiments.record import Record, Store
from mogul.lab.report.frame import Results
from mogul.lab.reproduce import write_results


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """`mogul report` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return command(monkeypatch, capsys, "report")


@pytest.fixture
def records() -> list[Record]:
    return [record("MOGP", 0), record("least squares", 0, kind="baseline", model="least-squares", metrics={"ll": 9.5})]


@pytest.fixture
def stored(run, records: list[Record], tmp_path: Path) -> Path:
    """A run that was stopped before it wrote anything but records."""
    store = Store(tmp_path / "stopped")
    for each in records:
        store.write(each)
    return tmp_path / "stopped"


def test_it_writes_what_a_run_writes(run, stored: Path, records: list[Record], tmp_path: Path) -> None:
    outcome = run("stopped")
    assert outcome.code == 0, outcome.err
    assert "least squares" in outcome.out
    assert "15.64 ± 0.40" in outcome.out
    (tmp_path / "ended").mkdir()
    for each in records:
        Store(tmp_path / "ended").write(each)
    names = {path.relative_to(tmp_path / "ended") for path in write_results(tmp_path / "ended", Results.of(records))}
    assert {"results.csv", "summary.csv", "tables.md", "report.html"} <= {str(name) for name in names}
    for name in names:
        assert (stored / name).is_file()
        if name.suffix in {".csv", ".md", ".tex", ".html", ".png"}:  # an SVG holds the time it was drawn
            assert (stored / name).read_bytes() == (tmp_path / "ended" / name).read_bytes()


def test_what_was_there_is_replaced_and_records_stay(run, stored: Path) -> None:
    (stored / "summary.csv").write_text("old")
    before = {path: path.read_bytes() for path in (stored / "jobs").iterdir()}
    content = json.loads(run("stopped", "--json").out)
    assert (content["jobs"], content["failed"]) == (2, [])
    assert "least squares" in (stored / "summary.csv").read_text()
    assert "stopped/report.html" in content["written"]
    assert {path: path.read_bytes() for path in (stored / "jobs").iterdir()} == before


def test_what_is_small_can_be_published(run, stored: Path, tmp_path: Path) -> None:
    outcome = run("stopped", "--publish", "results/kuka")
    assert outcome.code == 0, outcome.err
    published = {str(path.relative_to(tmp_path / "results/kuka")) for path in (tmp_path / "results").rglob("*.*")}
    assert published == {
        *("results.csv", "summary.csv", "timings.csv", "configurations.jsonl", "tables.md"),
        "figures/regression-kuka-random-fast.png",
    }
    for name in published:
        assert (tmp_path / "results/kuka" / name).read_bytes() == (stored / name).read_bytes()
    assert "mogul reproduce regression" in (stored / "timings.csv").read_text()
    job = json.loads((stored / "configurations.jsonl").read_text().splitlines()[0])
    record = json.loads((stored / "jobs" / f"{job['job']}.json").read_text())
    for name in ("split", "config", "versions", "commit"):
        assert job[name] == record[name]


def test_a_place_that_cannot_be_is_refused_before_anything_is_written(run, stored: Path) -> None:
    assert_refused(run("stopped", "--publish", "stopped"), "must be another folder than the run's")
    (stored.parent / "taken").write_text("mine")
    assert_refused(run("stopped", "--publish", "taken"), "taken is a file")
    assert [path.name for path in stored.iterdir()] == ["jobs"]


def test_a_folder_without_records_is_refused_and_left_alone(run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert_refused(run("empty"), "empty/jobs has none", "mogul reproduce --out")
    assert_refused(run("nowhere"), "nowhere/jobs has none")
    assert list((tmp_path / "empty").iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


def test_a_record_that_is_none_is_refused_and_nothing_is_written(run, stored: Path) -> None:
    (stored / "jobs" / "mine.json").write_text("{}")
    assert_refused(run("stopped"), "mine.json must be a result of mogul's", "Choose another folder")
    assert [path.name for path in stored.iterdir()] == ["jobs"]


def test_help_has_an_example(run) -> None:
    outcome = run("--help")
    assert outcome.code == 0
    assert "Example: mogul report mogul-results" in outcome.out
