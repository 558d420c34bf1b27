"""Models trained for an instant, to be saved and loaded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tests.helpers.small_models import sizes_of

import mogul
from mogul.data import Dataset
from mogul.means.linear import LinearOutputMean
from mogul.means.plane import PlaneUncertainty
from mogul.training import Fitted, FittedLatent, TrainingConfig, fit

ONCE = TrainingConfig(epochs=1, num_starts=1)


def data(num_rows: int = 12) -> Dataset:
    """Three outputs, a value of which is missing, and names beyond ASCII."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, 2))
    y = np.column_stack([100 * np.sin(x[:, 0]), x[:, 0] * x[:, 1], 5 + np.cos(x[:, 1])])
    y[3, 0] = np.nan
    return Dataset(pd.DataFrame(x, columns=["time", "load"]), pd.DataFrame(y, columns=["left", "right", "höhe"]))


def trained(name: str, config: TrainingConfig = ONCE, rows: int = 12, **options: Any) -> Fitted:
    """The named model of small sizes after one epoch, unless the config says more."""
    latent = {"num_inputs": 2} if name.endswith("-lvm") else {}
    own = sizes_of(name)
    if "layers" in options:  # which have all sizes but this
        own = {"num_hidden": own["num_hidden"]}
    fitted = fit(data(rows), model=name, config=config, **latent, **({"noise": "constant"} | own | options))
    if isinstance(fitted, FittedLatent):
        return replace(fitted, inference=replace(fitted.inference, steps=4))
    return fitted


def with_random_plane(fitted: Fitted, rows: Dataset) -> Fitted:
    """The same model, whose plane is known only as well as these rows allow under some GP."""
    x, mean = torch.as_tensor(fitted.scaling.inputs.apply(rows.x)), fitted.model.mean
    assert isinstance(mean, LinearOutputMean)
    one = torch.ones(rows.num_outputs)
    observed = torch.as_tensor(~np.isnan(rows.y))
    wide = one[:, None].expand(-1, rows.num_inputs + 1)
    mean.uncertainty = PlaneUncertainty.of(x, observed, wide[:, 1:], one, 0.1 * one, wide).to(mean.weights)
    return fitted


def again(fitted: Fitted, folder: Path) -> Fitted:
    """Saved and loaded."""
    fitted.save(folder / "model.mogul")
    return mogul.load(folder / "model.mogul")
