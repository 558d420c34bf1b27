"""A small table for commands, and a folder with it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

INPUTS, OUTPUTS = ["angle", "load"], ["force", "torque"]
QUICK = ("--epochs", "2", "--no-check")


def rows(num_rows: int = 40, seed: int = 0) -> pd.DataFrame:
    """Two inputs, a constant one, two outputs with gaps, and their names."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (num_rows, 2))
    y = np.stack([np.sin(2 * x[:, 0]), x[:, 1] - x[:, 0]], axis=1) + 0.05 * rng.standard_normal((num_rows, 2))
    table = pd.DataFrame(np.hstack([x, y]), columns=[*INPUTS, *OUTPUTS])
    table.insert(1, "gravity", 9.81)
    table.loc[::5, "torque"] = np.nan
    return table


def arm_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the table in it, as the one to work in."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    rows().to_csv("arm.csv", index=False)
    return folder
