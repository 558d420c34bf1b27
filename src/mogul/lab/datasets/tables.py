"""Tables of numbers that are not of robots: CSV, ARFF and plain text, read from a folder of the user's."""

from pathlib import Path

import numpy as np
import pandas as pd

from mogul._typing import IntArray
from mogul.data.dataset import Dataset
from mogul.errors import DataError
from mogul.lab.datasets.robots import time_blocks

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
    """A table of numbers in ARFF, where ? is a missing value."""
    names: list[str] = []
    with path.open(encoding="utf-8") as lines:
        # SciPy's reader refuses what this needs least: nothing but numbers and question marks.
        for line in lines:
            words = line.split()
            if words and words[0].lower() == "@attribute":
                names.append(line.strip()[len("@attribute") :].rsplit(maxsplit=1)[0].strip().strip("'\""))
            if words and words[0].lower() == "@data":
                return pd.read_csv(lines, header=None, names=names, na_values="?", dtype=float)
    raise DataError(f"{path} must be ARFF with an @data line; there is none. Is it the right file?")


def _require_columns(table: pd.DataFrame, names: list[str], path: Path) -> None:
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise DataError(f"{path} must have a column {missing[0]!r}; it is missing. Is it the right file?")
