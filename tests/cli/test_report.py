"""`mogul report`: from the records alone to all that a run writes."""

import json
import random
from pathlib import Path

import pytest
from tests.helpers.sample_results import sample_results
from tests.helpers.small_jobs import record
from tests.helpers.terminal import assert_refused, command

from mogul.errors import DataError
from mogul.lab.experiments.record import Record, Store
from mogul.lab.report.frame import Results, boards, configurations
from mogul.lab.report.page import figure_data
from mogul.lab.report.tables import experiment_tables
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


def test_a_damaged_record_is_named_and_left_out(run, stored: Path) -> None:
    (stored / "jobs" / "mine.json").write_text("{}")
    path = next(path for path in (stored / "jobs").glob("*mogp*"))
    content = json.loads(path.read_text())
    for field, value, said in (
        ("config", {}, "config.units must be there"),
        ("seed", "x", "seed must be a whole number; got 'x'"),
        ("metrics", content["metrics"] | {"ll": None}, "metrics.ll must be a finite number; got None"),
        ("predictions", {"true": [[1.0], [2.0, 3.0]]}, "predictions.true must be rows of equal lengths"),
        ("label", "\ud800", r"label must be text; got '\ud800'"),
    ):
        path.write_text(json.dumps(content | {field: value}))
        outcome = run("stopped")
        assert outcome.code == 0, outcome.err
        first, second = outcome.err.splitlines()
        assert first.startswith(f"mogul: warning: Left out of the report: stopped/jobs/{min('mine.json', path.name)}")
        assert said in first + second
        assert "least squares" in outcome.out
        assert "MOGP" not in outcome.out
    for other in (stored / "jobs").glob("*least*"):
        other.unlink()
    assert_refused(run("stopped"), "At least one record must be whole; none of 2 is", "jobs/mine.json")


def test_any_value_in_any_field_is_drawn_or_left_out(run, stored: Path) -> None:
    """Records as a fault of the disk or a hand may leave them: 60 changes of one field each."""
    rng = random.Random(0)
    sample = sample_results(3)
    whole = {record.slug: record.to_json() for record in sample.records}
    junk = [
        None,
        True,
        "",
        "x",
        "\ud800",
        "\x1b[31m",
        -1,
        10**400,
        1e308,
        [],
        [[]],
        {},
        {"a": []},
        [None],
        ["x"],
        [[1]],
    ]
    for slug in rng.choices(sorted(whole), k=60):
        content = json.loads(json.dumps(whole[slug]))
        place = content
        for _ in range(rng.randint(0, 2)):
            inner = [item for item in (place.values() if isinstance(place, dict) else place) if item]
            inner = [item for item in inner if isinstance(item, dict | list)]
            place = rng.choice(inner) if inner else place
        key = rng.choice(sorted(place) if isinstance(place, dict) else range(len(place)))
        place[key] = rng.choice(junk)
        try:
            changed = Record.from_json(json.loads(json.dumps(content)))
        except DataError:
            continue
        else:
            results = Results.of([changed, *sample.records[:2]])
            experiment_tables(results), boards(results), json.dumps(configurations(results)).encode()
            for board in boards(results):
                json.dumps(figure_data(board), allow_nan=False)
                board.title, board.noise_floors  # noqa: B018


def test_help_has_an_example(run) -> None:
    outcome = run("--help")
    assert outcome.code == 0
    assert "Example: mogul report mogul-results" in outcome.out
