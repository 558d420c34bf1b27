"""The robot data sets of the paper, read from a folder of the user's: none is part of this package."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from mogul.arrays import IntArray
from mogul.data.dataset import Dataset
from mogul.errors import DataError, unknown_name


@dataclass(frozen=True)
class RobotData:
    """A data set with the trajectory that each row belongs to."""

    name: str
    data: Dataset
    trajectory: Int[IntArray, "N"]
    num_test: int

    def split(self, seed: int) -> tuple[Dataset, Dataset]:
        """Random rows as in the paper: its number of test rows, the rest for training.

        Neighbours in time fall on both sides: this asks for interpolation, see `split_by_trajectory`.
        """
        order = np.random.default_rng(seed).permutation(self.data.num_rows)
        return self.data.rows(order[self.num_test :]), self.data.rows(order[: self.num_test])

    def split_by_trajectory(self, test: tuple[int, ...] = (9, 10)) -> tuple[Dataset, Dataset]:
        """Whole trajectories for testing: this asks for generalisation."""
        held_out = np.isin(self.trajectory, test)
        return self.data.rows(np.flatnonzero(~held_out)), self.data.rows(np.flatnonzero(held_out))


@dataclass(frozen=True)
class Source:
    """Where a data set comes from and what must be found there."""

    file: str
    load: Callable[[Path], tuple[Dataset, IntArray]]
    num_rows: int
    num_test: int


def data_folder(given: Path | None = None) -> Path:
    """The folder of data sets: the one given, or that of the environment variable MOGUL_DATA."""
    named = given or (Path(os.environ["MOGUL_DATA"]) if "MOGUL_DATA" in os.environ else None)
    if named is None:
        raise DataError(
            "A folder of data sets must be given; got none. Set MOGUL_DATA, or pass --data-dir, to the folder "
            f"that holds {', '.join(source.file for source in SOURCES.values())}."
        )
    return named


def load(name: str, folder: Path) -> RobotData:
    """Read a data set by name, and check that it is the one."""
    source = SOURCES.get(name)
    if source is None:
        raise unknown_name("dataset", name, SOURCES)
    path = folder / source.file
    if not path.is_file():
        raise DataError(
            f"{name} must be at {source.file} in the data folder; {path} does not exist. Put the file there."
        )
    data, trajectory = source.load(path)
    if data.num_rows != source.num_rows:
        raise DataError(
            f"{name} must have {source.num_rows} rows; {path} has {data.num_rows}. Is it the right file, and complete?"
        )
    return RobotData(name, data, trajectory, source.num_test)


def _direct_dynamics(prefix: str) -> Callable[[Path], tuple[Dataset, IntArray]]:
    """Ten trajectories: 7 positions, 7 velocities, 7 torques → the next 7 positions and velocities."""

    def read(path: Path) -> tuple[Dataset, IntArray]:
        import pandas as pd
        from scipy.io import loadmat

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


SOURCES: dict[str, Source] = {
    "kuka": Source("kuka/KukaDirectDynamics.mat", _direct_dynamics("kukatraj"), 20_068, 5_000),
    "f-baxter": Source("f-baxter/BaxterDirectDynamics.mat", _direct_dynamics("baxtertraj"), 19_295, 5_000),
}
