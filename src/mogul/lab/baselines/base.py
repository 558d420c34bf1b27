"""What a baseline is: a name for tables, and a function from training rows to a prediction of test rows."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float

from mogul._typing import Array
from mogul.data import Dataset
from mogul.prediction import Prediction


def has_inputs(train: Dataset) -> bool:
    """Whether there is anything to predict from."""
    return train.num_inputs > 0


@dataclass(frozen=True)
class Baseline:
    """A line of a table that any model must be compared with.

    Attributes:
        label: its name in tables.
        fit_predict: the predictive distribution at the test rows, in original units, given training rows and a seed;
            NaN in the training outputs is missing, and the test outputs are not looked at, but where there are no
            inputs, and latent ones must be found from them.
        applies: whether it makes sense for such data.
        noise_floor: the least standard deviation of its noise, in words.
        epochs: how many epochs of a MOGP take about as long: what a progress bar tells the time left from.
    """

    label: str
    fit_predict: Callable[[Dataset, Dataset, int], Prediction]
    applies: Callable[[Dataset], bool] = has_inputs
    noise_floor: str = "none"
    epochs: float = 0.1


def mixture(component_mean: Float[Array, "S N P"], component_var: Float[Array, "S N P"]) -> Prediction:
    """Normals with equal weights, and the moments of their mixture."""
    var = component_var.mean(0) + component_mean.var(0)
    return Prediction(component_mean.mean(0), var, component_mean, component_var)
