"""Baselines that learn nothing from the inputs: the mean, and the state as it is."""

import numpy as np
from jaxtyping import Float

from mogul._typing import Array
from mogul.comparison.least_squares import mean_square, normal_prediction
from mogul.data import Dataset
from mogul.errors import DataError
from mogul.prediction import Prediction

# How the name of an output says that it is an input at a later time, or its change: as the catalogue's columns do.
_NEXT, _AHEAD, _CHANGE = "next_", "_48H", "_change"


def predict_mean(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The mean and variance of each output, whatever the inputs."""
    mean = np.nanmean(train.y, axis=0)
    return normal_prediction(np.tile(mean, (test.num_rows, 1)), mean_square(train.y - mean))


def predict_persistence(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """Nothing changes: the next state is this state, and a change is zero; the noise is what changes in training."""
    return normal_prediction(_unchanged(test), mean_square(train.y - _unchanged(train)))


def contains_state(train: Dataset) -> bool:
    """Whether the inputs hold each output as it is now, which the names of columns tell.

    >>> import pandas as pd
    >>> contains_state(Dataset(pd.DataFrame({"q1": [0.0]}), pd.DataFrame({"next_q1": [0.1]})))
    True
    """
    return train.num_inputs > 0 and all(_state(name) in train.input_names for name in train.output_names)


def _unchanged(data: Dataset) -> Float[Array, "N P"]:
    if not contains_state(data):
        raise DataError(
            "Persistence needs inputs that hold the state, such as q1 for next_q1 or v for v_change; the outputs are "
            f"{', '.join(data.output_names)}. Use another baseline."
        )
    state = data.x[:, [data.input_names.index(_state(name)) for name in data.output_names]]
    return np.where([name.endswith(_CHANGE) for name in data.output_names], 0.0, state)


def _state(output: str) -> str:
    """The input that this output is the future or the change of, by its name; nothing, where it says nothing."""
    if output.endswith(_CHANGE):
        return output.removesuffix(_CHANGE)
    if output.startswith(_NEXT):
        return output.removeprefix(_NEXT)
    return output.replace(_AHEAD, "") if _AHEAD in output else ""
