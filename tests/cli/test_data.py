"""`mogul data`: tables, JSON, files, and errors of one line that leave nothing behind."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.terminal import assert_refused, command

from mogul.lab.datasets import audit as data_tables
from mogul.lab.datasets.catalogue import CATALOGUE
from mogul.lab.datasets.simulated import simulators_installed

REAL = Path(os.environ.get("MOGUL_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_simulators = pytest.mark.skipif(not simulators_installed(), reason="the extra 'robots' is not installed")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no data folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MOGUL_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `mogul data` with these arguments, as its installed script does."""
    return command(monkeypatch, capsys, "data")


@pytest.fixture
def eeg(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a small file in place of eeg's, and an entry that expects it."""
    path = folder / "data/eeg/eeg.csv"
    path.parent.mkdir(parents=True)
    path.write_text(",time,a,b\n" + "".join(f"{row},{row}.5,{row % 7},3\n" for row in range(20)))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    files = (replace(CATALOGUE["eeg"].files[0], sha256=digest),)
    small = replace(CATALOGUE["eeg"], num_rows=20, num_outputs=2, num_test=5, files=files)
    monkeypatch.setitem(CATALOGUE, "eeg", small)
    return folder / "data"


def test_the_list_names_every_set_without_any_folder(run) -> None:
    outcome = run("list")
    assert outcome.code == 0
    for name, entry in CATALOGUE.items():
        assert name in outcome.out
        assert f"{entry.num_rows:,}" in outcome.out
    assert "no data folder: set MOGUL_DATA" in outcome.out


def test_the_list_says_what_is_here(run, eeg: Path) -> None:
    listed = json.loads(run("list", "--data-dir", str(eeg), "--json", "-").out)
    here = {entry["name"]: entry["here"] for entry in listed}
    assert here["eeg"] == "yes"
    assert here["kuka"] == "no"
    assert list(here) == list(CATALOGUE)


@pytest.mark.parametrize(("installed", "word"), [(True, "simulated"), (False, "needs mogul[robots]")])
def test_the_list_says_whether_sets_can_be_simulated(run, monkeypatch, installed: bool, word: str) -> None:
    monkeypatch.setattr(data_tables, "simulators_installed", lambda: installed)
    listed = json.loads(run("list", "--json", "-").out)
    assert {entry["here"] for entry in listed if entry["name"] in ("halfcheetah", "rhythmic-arm")} == {word}
    assert word in run("list").out


def test_json_goes_to_a_file_beside_the_table(run, eeg: Path) -> None:
    outcome = run("check", "eeg", "--data-dir", str(eeg), "--json", "found/eeg.json")
    assert outcome.code == 0
    assert "repeated rows" in outcome.out
    found = json.loads(Path("found/eeg.json").read_text())
    assert found["audit"]["constant_columns"] == ["b"]
    assert found["found_sha256"] == found["recorded_sha256"]


def test_a_check_reports_what_was_found(run, eeg: Path) -> None:
    outcome = run("check", "eeg", "--data-dir", str(eeg))
    for part in ("20 rows (1 → 2)", "as recorded", "0 (0 rows have a twin)", "of 5 test rows", "a 15%", "10 blocks"):
        assert part in outcome.out


def test_a_checksum_is_whole_in_eighty_columns(run, eeg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("check", "eeg", "--data-dir", str(eeg)).out.splitlines()
    found = "".join(line.split("│")[2].strip() for line in lines if line.startswith("│"))
    assert hashlib.sha256((eeg / "eeg/eeg.csv").read_bytes()).hexdigest() in found


def test_a_changed_file_is_refused_with_both_checksums_and_shapes(run, eeg: Path) -> None:
    (eeg / "eeg/eeg.csv").write_text(",time,a,b\n0,1,2,3\n")
    outcome = run("check", "eeg", "--data-dir", str(eeg), "--json", "eeg.json")
    assert_refused(outcome, "must be 20 rows (1 → 2) with SHA-256", "has 1 rows (1 → 2) with SHA-256", "Put the right")
    assert not Path("eeg.json").exists()


def test_real_kuka_has_495_repeated_rows(run) -> None:
    if not CATALOGUE["kuka"].is_present(REAL):
        pytest.skip("kuka is not in the data folder (MOGUL_DATA)")
    outcome = run("check", "kuka", "--data-dir", str(REAL))
    assert outcome.code == 0
    assert "495 (735 rows have a twin)" in outcome.out


def test_a_recorded_set_without_a_folder_is_refused(run, folder: Path) -> None:
    assert_refused(run("check", "kuka", "--json", "kuka.json"), "Set MOGUL_DATA, or pass --data-dir")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_an_unknown_name_is_refused(run, folder: Path, command: str) -> None:
    assert_refused(run(command, "kuca"), "got 'kuca'", "Did you mean 'kuka'")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (["--rows", "0"], ["--rows must be at least 1", "got 0"]),
        (["--seed", "-1"], ["--seed must be at least 0", "got -1"]),
        (["--out", "arm.xlsx"], ["--out must end in .csv", "arm.xlsx", "Try --out arm.csv"]),
        (["--out", "folder.csv"], ["must go into a file", "folder.csv is a folder"]),
    ],
)
def test_what_cannot_be_simulated_is_refused(run, folder: Path, options: list[str], fragments: list[str]) -> None:
    (folder / "folder.csv").mkdir()
    assert_refused(run("simulate", "rhythmic-arm", *options), *fragments)
    assert [path.name for path in folder.rglob("*")] == ["folder.csv"]


def test_a_recorded_set_cannot_be_simulated(run, folder: Path) -> None:
    assert_refused(run("simulate", "kuka", "--out", "kuka.csv"), "kuka is recorded")
    assert list(folder.iterdir()) == []


@needs_simulators
def test_rows_are_written_where_asked_and_read_back_exactly(run, folder: Path) -> None:
    outcome = run("simulate", "rhythmic-arm", "--rows", "650", "--seed", "3", "--out", "new/arm.csv")
    assert outcome.code == 0
    assert "650 rows (21 → 7), seed 3" in outcome.out
    assert [path.name for path in (folder / "new").iterdir()] == ["arm.csv"]
    written = np.loadtxt("new/arm.csv", delimiter=",", skiprows=1)
    expected = CATALOGUE["rhythmic-arm"].simulate(650, seed=3).frame()
    np.testing.assert_array_equal(written, expected.to_numpy())
    assert Path("new/arm.csv").read_text().splitlines()[0].split(",") == list(expected.columns)
    assert written[:, -1].tolist() == [1] * 637 + [2] * 13


@needs_simulators
def test_nothing_is_written_unless_asked(run, folder: Path) -> None:
    first, again = (run("simulate", "halfcheetah", "--rows", "50") for _ in range(2))
    assert first.code == 0
    assert first.out == again.out
    assert list(folder.iterdir()) == []


@needs_simulators
def test_another_checksum_of_a_simulated_set_is_said_and_no_error(run, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(CATALOGUE["rhythmic-arm"], num_rows=100, num_test=20)
    monkeypatch.setitem(CATALOGUE, "rhythmic-arm", small)
    outcome = run("check", "rhythmic-arm")
    assert outcome.code == 0
    assert "another than recorded: other versions or processor" in outcome.out


def test_without_a_command_there_is_help(run) -> None:
    outcome = run()
    for name in ("list", "check", "simulate"):
        assert name in outcome.out + outcome.err
