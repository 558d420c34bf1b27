"""The catalogue: honest entries, and files that are refused unless they are the ones it means."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from mogul.errors import ConfigError, DataError, UnknownNameError
from mogul.lab.datasets import catalogue
from mogul.lab.datasets.audit import audit
from mogul.lab.datasets.catalogue import CATALOGUE, CatalogueEntry, File, data_checksum, load
from mogul.lab.datasets.simulated import simulators_installed

REAL = Path(os.environ.get("MOGUL_DATA", Path(__file__).parents[3] / "shared" / "data"))
RECORDED = [name for name, entry in CATALOGUE.items() if not entry.is_simulated]
SIMULATED = [name for name, entry in CATALOGUE.items() if entry.is_simulated]
PAPER_SIZES = {
    "kuka": (15_068, 5_000, 21, 14),
    "f-baxter": (14_295, 5_000, 21, 14),
    "sarcos": (43_933, 5_000, 21, 7),
    "halfcheetah": (100_000, 10_000, 23, 9),
    "rhythmic-arm": (6_918, 2_000, 21, 7),
}


def write_sarcos_test(folder: Path, num_rows: int = 12, key: str = "sarcos_inv_test") -> Path:
    path = folder / "sarcos/sarcos_inv_test.mat"
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(str(path), {key: np.random.default_rng(0).normal(size=(num_rows, 28))})
    return path


def small(path: Path, num_rows: int = 12, num_test: int = 3) -> CatalogueEntry:
    """The entry of sarcos-test, expecting this file in place of the real one."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    entry = CATALOGUE["sarcos-test"]
    return replace(entry, num_rows=num_rows, num_test=num_test, files=(replace(entry.files[0], sha256=digest),))


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
def test_an_entry_says_what_it_is_and_where_it_comes_from(entry: CatalogueEntry) -> None:
    assert entry.what
    assert entry.is_not
    assert entry.source
    assert entry.groups
    assert 0 < entry.num_test < entry.num_rows
    assert (entry.read is None) == entry.is_simulated == (not entry.files)
    assert json.loads(json.dumps(entry.to_json()))["name"] == entry.name


@pytest.mark.parametrize(("name", "sizes"), PAPER_SIZES.items())
def test_sizes_are_those_of_the_papers_table(name: str, sizes: tuple[int, ...]) -> None:
    entry = CATALOGUE[name]
    assert (entry.num_rows - entry.num_test, entry.num_test, entry.num_inputs, entry.num_outputs) == sizes


def test_a_stand_in_is_never_the_papers_data() -> None:
    assert {entry.paper for entry in CATALOGUE.values()} == {"Kuka", "F-Baxter", "Sarcos", None}
    assert not [entry.name for entry in CATALOGUE.values() if entry.paper and entry.stands_in_for]
    for entry in CATALOGUE.values():
        if entry.stands_in_for:
            assert f"not the paper's {entry.stands_in_for}" in entry.is_not


def test_only_the_sarcos_training_file_lacks_a_checksum() -> None:
    files = [file for entry in CATALOGUE.values() for file in entry.files]
    assert [file.path for file in files if file.sha256 is None] == ["sarcos/sarcos_inv.mat"]


@pytest.mark.parametrize("name", RECORDED)
def test_the_real_files_are_the_ones(name: str) -> None:
    if not CATALOGUE[name].is_present(REAL):
        pytest.skip(f"{name} is not in the data folder (MOGUL_DATA)")
    grouped = load(name, REAL)
    assert len(grouped.groups) == grouped.data.num_rows == CATALOGUE[name].num_rows
    recorded = CATALOGUE[name].recorded_checksums()
    assert all(recorded[path] in (found, None) for path, found in CATALOGUE[name].checksums(grouped, REAL).items())


def test_kuka_has_the_repeats_that_are_known() -> None:
    if not CATALOGUE["kuka"].is_present(REAL):
        pytest.skip("kuka is not in the data folder (MOGUL_DATA)")
    found = audit(load("kuka", REAL))
    assert (found.repeated_rows, found.rows_with_a_twin) == (495, 735)
    assert 0 < found.test_rows_with_a_twin_in_training < 735
    assert 0.3 < found.zero_shares["qd1"] < 0.4


@pytest.mark.skipif(not simulators_installed(), reason="the extra 'robots' is not installed")
@pytest.mark.parametrize("name", SIMULATED)
def test_a_simulated_set_needs_no_folder_and_scales_its_test_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOGUL_DATA", raising=False)
    entry = CATALOGUE[name]
    grouped = entry.simulate(num_rows=220, seed=1)
    assert grouped.data.num_rows == 220
    assert grouped.num_test == round(220 * entry.num_test / entry.num_rows)
    assert (grouped.data.num_inputs, grouped.data.num_outputs) == (entry.num_inputs, entry.num_outputs)
    assert data_checksum(grouped) == data_checksum(entry.simulate(num_rows=220, seed=1))


@pytest.mark.skipif(not simulators_installed(), reason="the extra 'robots' is not installed")
def test_the_whole_arm_is_loaded_by_name() -> None:
    assert load("rhythmic-arm").data.num_rows == 8_918


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'halfcheetah'"):
        catalogue.entry("half-cheetah")


def test_a_recorded_set_cannot_be_simulated_and_a_simulated_one_not_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="kuka is recorded"):
        CATALOGUE["kuka"].simulate(10)
    with pytest.raises(ConfigError, match="halfcheetah is simulated"):
        CATALOGUE["halfcheetah"].load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be at sarcos/sarcos_inv_test.mat .* does not exist. Put the file there"):
        load("sarcos-test", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_right_file_is_read(tmp_path: Path) -> None:
    grouped = small(write_sarcos_test(tmp_path)).load(tmp_path)
    train, test = grouped.split(seed=0)
    assert (train.num_rows, test.num_rows) == (9, 3)
    assert grouped.data.output_names == [f"torque{joint}" for joint in range(1, 8)]


def test_another_file_is_refused_with_both_checksums_and_shapes(tmp_path: Path) -> None:
    expected = CATALOGUE["sarcos-test"].files[0].sha256
    digest = hashlib.sha256(write_sarcos_test(tmp_path).read_bytes()).hexdigest()
    with pytest.raises(DataError, match=rf"4,449 rows \(21 → 7\) .*{expected}; .* has 12 rows \(21 → 7\) .*{digest}"):
        load("sarcos-test", tmp_path)


def test_another_robots_file_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    write_sarcos_test(tmp_path, key="baxter")
    with pytest.raises(DataError, match=r"has 1 other matrices \(baxter 12×28\) with SHA-256"):
        load("sarcos-test", tmp_path)


def test_bytes_that_nobody_can_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sarcos/sarcos_inv_test.mat"
    path.parent.mkdir()
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match="has nothing that can be read with SHA-256"):
        load("sarcos-test", tmp_path)
    with pytest.raises(DataError, match=r"sarcos-test must be readable; .* Is it the right file"):
        small(path).load(tmp_path)


def test_a_file_of_the_right_form_and_the_wrong_length_is_refused_without_a_checksum(tmp_path: Path) -> None:
    path = write_sarcos_test(tmp_path)
    entry = replace(small(path, num_rows=13), files=(File("sarcos/sarcos_inv_test.mat", None),))
    with pytest.raises(DataError, match=r"must be 13 rows .*none recorded.* has 12 rows"):
        entry.load(tmp_path)


def test_both_sarcos_files_are_two_groups(tmp_path: Path) -> None:
    write_sarcos_test(tmp_path, num_rows=4)
    rows = np.random.default_rng(1).normal(size=(9, 28))
    savemat(str(tmp_path / "sarcos/sarcos_inv.mat"), {"sarcos_inv": rows})
    test_file = replace(CATALOGUE["sarcos"].files[1], sha256=None)
    entry = replace(CATALOGUE["sarcos"], num_rows=13, num_test=3, files=(CATALOGUE["sarcos"].files[0], test_file))
    grouped = entry.load(tmp_path)
    np.testing.assert_array_equal(grouped.groups, [1] * 9 + [2] * 4)
    np.testing.assert_array_equal(grouped.data.x[:9], rows[:, :21])
    assert grouped.group_split().test_groups == (2,)
