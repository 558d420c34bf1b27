"""The robot data: read from the user's folder, and refused if they are not what they should be."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from mogul.data.splits import GroupedData
from mogul.errors import DataError
from mogul.lab.datasets import files as robots
from mogul.lab.datasets.catalogue import load
from mogul.lab.datasets.files import data_folder

REAL = Path(os.environ.get("MOGUL_DATA", Path(__file__).parents[3] / "shared" / "data"))


def write_kuka(folder: Path, rows_each: int, prefix: str = "kukatraj") -> None:
    rng = np.random.default_rng(0)
    path = folder / robots.SOURCES["kuka"].file
    path.parent.mkdir(parents=True)
    savemat(str(path), {f"{prefix}{number}": rng.normal(size=(rows_each, 35)) for number in range(1, 11)})


@pytest.fixture
def small_kuka(tmp_path: Path) -> GroupedData:
    """A file of the right form with few rows."""
    write_kuka(tmp_path, rows_each=8)
    source = robots.SOURCES["kuka"]
    return GroupedData("kuka", *source.load(tmp_path / source.file), num_test=20)


def test_columns_are_named_and_split_into_inputs_and_outputs(small_kuka: GroupedData) -> None:
    assert small_kuka.data.input_names[0] == "q1"
    assert small_kuka.data.input_names[-1] == "torque7"
    assert small_kuka.data.output_names == [f"next_{kind}{joint}" for kind in ("q", "qd") for joint in range(1, 8)]


def test_a_random_split_has_the_papers_number_of_test_rows_and_no_row_twice(small_kuka: GroupedData) -> None:
    train, test = small_kuka.split(seed=0)
    assert (train.num_rows, test.num_rows) == (60, 20)
    assert len(np.unique(np.concatenate([train.x, test.x]), axis=0)) == 80
    assert not np.array_equal(test.x, small_kuka.split(seed=1)[1].x)


def test_a_split_by_trajectory_keeps_trajectories_whole(small_kuka: GroupedData) -> None:
    train, test = small_kuka.split_by_trajectory()
    assert (train.num_rows, test.num_rows) == (64, 16)
    np.testing.assert_array_equal(test.x, small_kuka.data.x[64:])


def test_a_file_of_another_robot_is_refused(tmp_path: Path) -> None:
    write_kuka(tmp_path, rows_each=3, prefix="baxtertraj")
    with pytest.raises(DataError, match=r"must hold kukatraj1 … kukatraj10; 'kukatraj1' is missing"):
        robots.SOURCES["kuka"].load(tmp_path / robots.SOURCES["kuka"].file)


def test_the_folder_is_given_or_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOGUL_DATA", raising=False)
    with pytest.raises(DataError, match="Set MOGUL_DATA, or pass --data-dir"):
        data_folder()
    monkeypatch.setenv("MOGUL_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder(Path("other")) == Path("other")


@pytest.mark.parametrize(("name", "num_train"), [("kuka", 15_068), ("f-baxter", 14_295)])
def test_the_real_files_have_the_papers_sizes(name: str, num_train: int) -> None:
    if not (REAL / robots.SOURCES[name].file).is_file():
        pytest.skip(f"{name} is not in the data folder (MOGUL_DATA)")
    train, test = load(name, REAL).split(seed=0)
    assert (train.num_rows, test.num_rows, train.num_inputs, train.num_outputs) == (num_train, 5_000, 21, 14)
