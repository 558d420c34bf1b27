"""Small estimators, and rows for them."""

from typing import Any

import numpy as np
import pandas as pd

from mogul import MultiOutputGPRegressor, TrainingConfig

SMALL: dict[str, Any] = {"epochs": 40, "num_starts": 1, "num_inducing": 5, "num_samples": 5}
SMALL_LVM: dict[str, Any] = {
    "model": "n-mogp",
    "config": TrainingConfig(start="random"),  # the collapsed bound takes seconds
    "epochs": 3,
    "num_starts": 1,
    "num_inducing": 5,
    "num_latents": 2,
    "num_hidden": 3,
    "num_samples": 5,
    "inference_steps": 10,
}


def rows(num_rows: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (num_rows, 2))
    y = np.column_stack([100 * np.sin(x[:, 0]), x[:, 0] + x[:, 1], 3 - x[:, 1]])
    return x, y + rng.normal(0, [5.0, 0.1, 0.1], y.shape)


X, Y = rows()
FRAME_X = pd.DataFrame(X, columns=["time", "load"], index=range(100, 140))
FRAME_Y = pd.DataFrame(Y, columns=["left", "right", "up"], index=range(100, 140))


def regressor(**settings: Any) -> MultiOutputGPRegressor:
    return MultiOutputGPRegressor(**(SMALL | {"num_samples": 50} | settings))
