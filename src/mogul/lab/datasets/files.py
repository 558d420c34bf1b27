"""Recorded data, read from a folder of the user's: robots' matrices, and tables in CSV, ARFF and plain text."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.io import loadmat

from mogul._typing import Array, IntArray
from mogul.data.dataset import Dataset
from mogul.data.sources import text_formats
from mogul.errors import DataError


@dataclass(frozen=True)
class Source:
    """Where a data set comes from and what must be found there."""

    file: str
    load: Callable[[Path], tuple[Dataset, IntArray]]
    num_rows: int
    num_test: int


def named_folder(given: Path | None = None) -> Path | None:
    """The folder given, or that of the environment variable MOGUL_DATA, or none."""
    return given or (Path(os.environ["MOGUL_DATA"]) if "MOGUL_DATA" in os.environ else None)


def data_folder(given: Path | None = None) -> Path:
    """The folder of data sets: the one given, or that of the environment variable MOGUL_DATA."""
    named = named_folder(given)
    if named is None:
        raise DataError(
            "A folder of data sets must be given; got none. Set MOGUL_DATA, or pass --data-dir, to the folder "
            f"that holds {', '.join(source.file for source in SOURCES.values())}; or choose halfcheetah or "
            "rhythmic-arm, which are simulated."
        )
    return named


def _direct_dynamics(prefix: str) -> Callable[[Path], tuple[Dataset, IntArray]]:
    """Ten trajectories: 7 positions, 7 velocities, 7 torques → the next 7 positions and velocities."""

    def read(path: Path) -> tuple[Dataset, IntArray]:
        content = loadmat(str(path))
        try:
            parts = [content[f"{prefix}{number}"] for number in range(1, 11)]
        except KeyError as error:
            raise DataError(
                f"{path} must hold {prefix}1 … {prefix}10; {error} is missing. Is it the right file?"
            ) from None
        rows = np.concatenate(parts).astype(np.float64)
        joints = range(1, 8)
        inputs = [f"{kind}{joint}" for kind in ("q", "qd", "torque") for joint in joints]
        outputs = [f"next_{kind}{joint}" for kind in ("q", "qd") for joint in joints]
        trajectory = np.repeat(np.arange(1, 11), [len(part) for part in parts])
        return Dataset(
            pd.DataFrame(rows[:, :21], columns=inputs), pd.DataFrame(rows[:, 21:], columns=outputs)
        ), trajectory

    return read


def read_sarcos(folder: Path) -> tuple[Dataset, IntArray]:
    """The training and the test file: group 1 and group 2."""
    parts = [_sarcos_matrix(folder, name) for name in ("sarcos_inv", "sarcos_inv_test")]
    return _inverse_dynamics(np.concatenate(parts)), np.repeat([1, 2], [len(part) for part in parts])


def read_sarcos_test(folder: Path) -> tuple[Dataset, IntArray]:
    """The test file alone: its rows are shuffled, without trajectories."""
    matrix = _sarcos_matrix(folder, "sarcos_inv_test")
    return _inverse_dynamics(matrix), np.ones(len(matrix), dtype=np.int64)


def read_baxter_rand(folder: Path) -> tuple[Dataset, IntArray]:
    """One unbroken motion, cut into ten blocks of time."""
    path = folder / "baxter-rand/BaxterRand.npy"
    matrix = np.load(path, allow_pickle=False)
    _require_28_columns(matrix, path)
    return _inverse_dynamics(matrix), time_blocks(len(matrix))


def time_blocks(num_rows: int, num_blocks: int = 10) -> IntArray:
    """Blocks of consecutive rows, numbered from 1: groups for data without any.

    >>> time_blocks(5, num_blocks=2)
    array([1, 1, 1, 2, 2])
    """
    return 1 + np.arange(num_rows) * num_blocks // num_rows


def inverse_dynamics_frames(x: Float[Array, "N 21"], y: Float[Array, "N 7"]) -> Dataset:
    """7 positions, 7 velocities, 7 accelerations → 7 torques, with names."""
    inputs = [f"{kind}{joint}" for kind in ("q", "qd", "qdd") for joint in range(1, 8)]
    outputs = [f"torque{joint}" for joint in range(1, 8)]
    return Dataset(pd.DataFrame(x, columns=inputs), pd.DataFrame(y, columns=outputs))


def _inverse_dynamics(matrix: Float[Array, "N 28"]) -> Dataset:
    return inverse_dynamics_frames(matrix[:, :21], matrix[:, 21:])


def _sarcos_matrix(folder: Path, name: str) -> Float[Array, "N 28"]:
    path = folder / f"sarcos/{name}.mat"
    content = loadmat(str(path))
    if name not in content:
        raise DataError(f"{path} must hold the matrix {name}; it is missing. Is it the right file?")
    matrix: Array = content[name].astype(np.float64)
    _require_28_columns(matrix, path)
    return matrix


def _require_28_columns(matrix: Array, path: Path) -> None:
    if matrix.ndim != 2 or matrix.shape[1] != 28:
        raise DataError(f"{path} must have 28 columns; its shape is {matrix.shape}. Is it the right file?")


SOURCES: dict[str, Source] = {
    "kuka": Source("kuka/KukaDirectDynamics.mat", _direct_dynamics("kukatraj"), 20_068, 5_000),
    "f-baxter": Source("f-baxter/BaxterDirectDynamics.mat", _direct_dynamics("baxtertraj"), 19_295, 5_000),
}


METALS = ["Cd", "Cu", "Pb", "Co", "Cr", "Ni", "Zn"]
NUM_JURA_PREDICTION = 259
NUM_RF1_OUTPUTS = 8
OIL_FLOW_PARTS = ("Trn", "Vdn", "Tst")


def read_jura(folder: Path) -> tuple[Dataset, IntArray]:
    """Place, rock and land use → seven metals; group 1 is the survey's prediction set, group 2 its validation set."""
    path = folder / "jura/jura.csv"
    table = pd.read_csv(path)
    _require_columns(table, ["X", "Y", "Rock", "Land", *METALS], path)
    kinds = [
        (table[column] == kind).astype(float).rename(f"{column}{kind}")
        # Codes of rock and land are names, not amounts: one column of zeros and ones for each.
        for column in ("Rock", "Land")
        for kind in sorted(table[column].unique())
    ]
    inputs = pd.concat([table[["X", "Y"]], *kinds], axis=1)
    return Dataset(inputs, table[METALS]), 1 + (np.arange(len(table)) >= NUM_JURA_PREDICTION).astype(np.int64)


def read_eeg(folder: Path) -> tuple[Dataset, IntArray]:
    """Time → 21 channels; the groups are ten blocks of time."""
    path = folder / "eeg/eeg.csv"
    table = pd.read_csv(path, index_col=0)
    _require_columns(table, ["time"], path)
    return Dataset(table[["time"]], table.drop(columns="time")), time_blocks(len(table))


def read_rf1(folder: Path) -> tuple[Dataset, IntArray]:
    """River flows now and up to 60 hours ago → flows 48 hours ahead; rows that lack an input are left out."""
    table = read_arff(folder / "mulan-mtr/rf1.arff")
    inputs, outputs = table.iloc[:, :-NUM_RF1_OUTPUTS], table.iloc[:, -NUM_RF1_OUTPUTS:]
    whole = inputs.notna().all(axis=1)
    return Dataset(inputs[whole], outputs[whole]), time_blocks(int(whole.sum()))


def read_oil_flow(folder: Path) -> tuple[Dataset, IntArray]:
    """Twelve measurements and no inputs; the groups are the files: 1 training, 2 validation, 3 test."""
    parts = [np.loadtxt(folder / f"oil-flow/Data{part}.txt") for part in OIL_FLOW_PARTS]
    return Dataset(None, np.concatenate(parts)), np.repeat([1, 2, 3], [len(part) for part in parts])


def read_oil_flow_classes(folder: Path) -> IntArray:
    """Which of three flow regimes each row of `read_oil_flow` shows: 0, 1 or 2. Models do not see it."""
    parts = [np.loadtxt(folder / f"oil-flow/Data{part}Lbls.txt") for part in OIL_FLOW_PARTS]
    classes: IntArray = np.concatenate(parts).argmax(1)
    return classes


def read_arff(path: Path) -> pd.DataFrame:
    """A table in ARFF as numbers; a category has a column of zeros and ones for each kind, NaN where it is missing."""
    columns = text_formats.read_arff(path.read_text(encoding="utf-8"), str(path)).columns
    return pd.concat([_as_numbers(name, pd.Series(column)) for name, column in columns.items()], axis=1)


def _as_numbers(name: str, column: "pd.Series[Any]") -> pd.DataFrame:
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.rename(name).to_frame()
    kinds = column.cat.categories
    return pd.DataFrame({f"{name}={kind}": (column == kind).astype(float).where(column.notna()) for kind in kinds})


def _require_columns(table: pd.DataFrame, names: list[str], path: Path) -> None:
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise DataError(f"{path} must have a column {missing[0]!r}; it is missing. Is it the right file?")
