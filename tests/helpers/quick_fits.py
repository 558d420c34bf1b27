"""Quick fits to two noisy waves."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mogul.data import Dataset
from mogul.training import Fitted, TrainingConfig, fit

QUICK: dict[str, Any] = {"epochs": 4, "batch_size": 7, "num_starts": 2, "start_epochs": 2}
both_models = pytest.mark.parametrize("name", ["mogp", "n-mogp"])


def waves(num_rows: int = 18, *, missing: bool = False) -> Dataset:
    """Two noisy waves on a shifted axis."""
    rng = np.random.default_rng(0)
    x = rng.uniform(10, 13, (num_rows, 1))
    y = np.hstack([100 * np.sin(2 * x), 5 + np.cos(x)]) + rng.normal(0, [5.0, 0.05], (num_rows, 2))
    if missing:
        y[::3, 0] = y[1::4, 1] = np.nan
    return Dataset(pd.DataFrame(x, columns=["time"]), pd.DataFrame(y, columns=["left", "right"]))


def quick(data: Dataset, name: str = "mogp", num_inducing: int = 6, **settings: Any) -> Fitted:
    """Trained for a few epochs, from two starts, without a check."""
    config = TrainingConfig(**(QUICK | settings))
    return fit(data, model=name, config=config, noise="constant", num_inducing=num_inducing, check=False)
