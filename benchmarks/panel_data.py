"""The data of the panel: folds of recorded data, and the field's classics by their authors' protocols."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from jaxtyping import Bool, Float

from mogul._typing import Array, IntArray
from mogul.comparison.crossval import folds, group_folds
from mogul.data import Dataset
from mogul.lab.datasets.catalogue import load
from mogul.lab.datasets.files import read_arff

SEED = 7
# Rows drawn by time are easier than new trajectories: both are shown.
BY_TRAJECTORY = "-trajectories"


@dataclass(frozen=True)
class Fold:
    """Training rows and test rows.

    Attributes:
        train: NaN in outputs is missing.
        test: outputs to score; NaN is not scored.
        known: outputs of the test rows that a method may use, NaN where it may not; None if it may use none.
    """

    train: Dataset
    test: Dataset
    known: Float[Array, "T P"] | None = None


@dataclass(frozen=True)
class PanelData:
    """A data set of the panel.

    Attributes:
        num_folds: how many folds there are.
        fold: one of them, read from a folder.
        score: the classic's own score of predicted means, where there is one.
        score_name: what it is called.
        published: published values of that score, or of aRRMSE.
    """

    num_folds: int
    fold: Callable[[Path, int], Fold]
    score: Callable[[Fold, Float[Array, "T P"]], float] | None = None
    score_name: str = ""
    published: str = ""


def imputed(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Inputs without gaps: the median in training, and an indicator where training rows have gaps.

    >>> train, test = imputed(pd.DataFrame({"a": [1.0, 3.0, np.nan]}), pd.DataFrame({"a": [np.nan]}))
    >>> test.to_dict("list")
    {'a': [2.0], 'a missing': [1.0]}
    """
    middle = train.median().fillna(0.0)
    gaps = [name for name in train.columns if train[name].isna().any()]

    def filled(part: pd.DataFrame) -> pd.DataFrame:
        flags = part[gaps].isna().astype(float).rename(columns=lambda name: f"{name} missing")
        return pd.concat([part.fillna(middle), flags], axis=1)

    return filled(train), filled(test)


def _folds(x: pd.DataFrame, y: pd.DataFrame, groups: IntArray | None, num_folds: int, number: int) -> Fold:
    splits = folds(len(x), num_folds, SEED) if groups is None else group_folds(groups, num_folds, SEED)
    train, test = splits[number]
    own_x, test_x = imputed(x.iloc[train].reset_index(drop=True), x.iloc[test].reset_index(drop=True))
    own_y, test_y = (y.iloc[rows].reset_index(drop=True) for rows in (train, test))
    return Fold(Dataset(own_x, own_y), Dataset(test_x, test_y, check_outputs=False))


def _catalogue(name: str, *, by_trajectory: bool = False) -> PanelData:
    def fold(folder: Path, number: int) -> Fold:
        found = load(name, folder)
        data, groups = found.data, found.groups
        x, y = (pd.DataFrame(a, columns=n) for a, n in ((data.x, data.input_names), (data.y, data.output_names)))
        return _folds(x, y, groups if by_trajectory else None, 5, number)

    return PanelData(5, fold)


def _mulan(name: str, num_outputs: int, published: str = "") -> PanelData:
    def fold(folder: Path, number: int) -> Fold:
        table = read_arff(folder / f"mulan-mtr/{name}.arff")
        return _folds(table.iloc[:, :-num_outputs], table.iloc[:, -num_outputs:], None, 10, number)

    return PanelData(10, fold, published=published)


def _hidden(x: pd.DataFrame, y: pd.DataFrame, hidden: Bool[npt.NDArray[np.bool_], "N P"]) -> Fold:
    """Train on all that is not hidden; test on what is, given the other outputs of those rows."""
    seen = y.mask(hidden)
    rows = np.flatnonzero(hidden.any(axis=1))
    test_y = y.where(hidden).iloc[rows].reset_index(drop=True)
    test = Dataset(x.iloc[rows].reset_index(drop=True), test_y, check_outputs=False)
    return Fold(Dataset(x, seen), test, seen.iloc[rows].to_numpy())


def _jura(folder: Path, number: int) -> Fold:
    """Cadmium of rows 260–359 from nickel and zinc there, and from all three at rows 1–259."""
    table = pd.read_csv(folder / "jura/jura.csv")
    hidden = np.zeros((len(table), 3), dtype=bool)
    hidden[259:, 2] = True
    return _hidden(table[["X", "Y"]], table[["Ni", "Zn", "Cd"]], hidden)


def _eeg(folder: Path, number: int) -> Fold:
    """The last 100 samples of three electrodes from the four others."""
    table = pd.read_csv(folder / "classics/eeg337.csv")
    outputs = table.drop(columns="time")
    hidden = np.zeros(outputs.shape, dtype=bool)
    hidden[-100:, outputs.columns.isin(["FZ", "F1", "F2"])] = True
    return _hidden(table[["time"]], outputs, hidden)


def _fx(folder: Path, number: int) -> Fold:
    """Fifty days of three currencies, other days for each, from all other rates."""
    table = pd.read_csv(folder / "classics/fx2007.csv")
    outputs = table.drop(columns="day")
    hidden = np.zeros(outputs.shape, dtype=bool)
    for name, first in (("CAD", 49), ("JPY", 99), ("AUD", 149)):  # days 50–100 and so on, counted from 1
        hidden[first : first + 51, outputs.columns.get_loc(name)] = True
    return _hidden(table[["day"]], outputs, hidden & outputs.notna().to_numpy())


def absolute_error(fold: Fold, mean: Float[Array, "T P"]) -> float:
    """Mean over all test values."""
    return float(np.nanmean(np.abs(fold.test.y - mean)))


def smse_by_test(fold: Fold, mean: Float[Array, "T P"]) -> float:
    """Squared error over that of the mean of the test values, averaged over outputs."""
    scored = ~np.isnan(fold.test.y).all(axis=0)
    y, guess = fold.test.y[:, scored], mean[:, scored]
    return float(np.mean(np.nanmean(np.square(y - guess), axis=0) / np.nanvar(y, axis=0)))


def smse_by_training(fold: Fold, mean: Float[Array, "T P"]) -> float:
    """Squared error over that of the training mean, averaged over outputs."""
    scored = ~np.isnan(fold.test.y).all(axis=0)
    y, guess, centre = fold.test.y[:, scored], mean[:, scored], np.nanmean(fold.train.y[:, scored], axis=0)
    error, spread = (np.nanmean(np.square(y - other), axis=0) for other in (guess, centre))
    return float(np.mean(error / spread))


_OF_TREES = "ST {}, ERCC {}, MORF {}, SVRCC {}"
DATA: dict[str, PanelData] = {
    "edm": _mulan("edm", 2, _OF_TREES.format(0.744, 0.744, 0.734, 0.698)),
    "mulan-jura": _mulan("jura", 3, _OF_TREES.format(0.587, 0.588, 0.597, 0.589)),
    "atp1d": _mulan("atp1d", 6, _OF_TREES.format(0.373, 0.372, 0.417, 0.378)),
    "oes10": _mulan("oes10", 16, _OF_TREES.format(0.417, 0.417, 0.452, 0.354)),
    "sf2": _mulan("sf2", 3),
    "scpf": _mulan("scpf", 3, _OF_TREES.format(0.835, 0.829, 0.827, 0.801)),
    "osales": _mulan("osales", 12, _OF_TREES.format(0.747, 0.710, 0.760, 0.781)),
    "mulan-rf1": _mulan("rf1", 8),
    "jura": _catalogue("jura"),
    "eeg": _catalogue("eeg"),
    "sarcos-test": _catalogue("sarcos-test"),
    "rf1": _catalogue("rf1"),
    "baxter-rand": _catalogue("baxter-rand"),
    "kuka": _catalogue("kuka"),
    "f-baxter": _catalogue("f-baxter"),
    f"f-baxter{BY_TRAJECTORY}": _catalogue("f-baxter", by_trajectory=True),
    "jura-cd": PanelData(
        1, _jura, absolute_error, "MAE of Cd", "independent GPs 0.574, ICM 0.461, CMOGP 0.455, GPRN 0.4525, GPAR 0.41"
    ),
    "eeg337": PanelData(1, _eeg, smse_by_test, "SMSE, test mean", "independent GPs 1.75, SLFM 1.06, GPAR 0.26"),
    "fx2007": PanelData(
        1, _fx, smse_by_training, "SMSE, training mean", "independent GPs 0.5996, CGP 0.2427, COGP 0.2125"
    ),
}
