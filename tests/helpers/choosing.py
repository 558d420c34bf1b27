"""Small fits with rows held out, for tests of what those rows decide."""

from typing import Any

import numpy as np

from mogul import Dataset, TrainingConfig, fit
from mogul.errors import FitError
from mogul.training import Fitted, Stopping

CONFIG = TrainingConfig(epochs=2, batch_size=20, num_starts=1, stopping=Stopping())
HELD_OUT = np.arange(0, 36, 6)


def waves(num_rows: int = 36) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (num_rows, 2))
    y = np.column_stack([np.sin(2 * x[:, 0]), 5 * np.cos(x[:, 1])]) + 0.1 * rng.standard_normal((num_rows, 2))
    y[::5, 1] = np.nan
    return Dataset(x, y)


def trained(**settings: Any) -> Fitted:
    given = {"num_inducing": 5, "held_out": HELD_OUT, "noise": "constant"} | settings
    if given.get("noise") in {"auto", "gp"}:
        given["num_noise_inducing"] = 4
    return fit(waves(), model="mogp", config=given.pop("config", CONFIG), **given)


def without_gp_noise(_: str, noise: str) -> Fitted:
    """A candidate, where GP noise is one that cannot be trained."""
    if noise == "gp":
        raise FitError("It broke. Mend it.")
    return trained(noise=noise)
