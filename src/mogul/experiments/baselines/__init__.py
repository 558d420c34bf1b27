"""What any model must be compared with."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mogul.arrays import Array
from mogul.data import Dataset
from mogul.metrics import Scores, score
from mogul.prediction import Prediction


def has_inputs(train: Dataset) -> bool:
    """Whether there is anything to predict from."""
    return train.num_inputs > 0


@dataclass(frozen=True)
class Baseline:
    """A line of a table that any model must be compared with.

    Attributes:
        label: its name in tables.
        fit_predict: the predictive distribution at the test rows, in original units, given training rows and a seed.
        applies: whether it makes sense for such data.
    """

    label: str
    fit_predict: Callable[[Dataset, Dataset, int], Prediction]
    applies: Callable[[Dataset], bool] = has_inputs


def normal_prediction(mean: Float[Array, "N P"], var: Float[Array, "P"]) -> Prediction:
    """A Normal with the same variance everywhere, as a mixture of one component."""
    spread = np.broadcast_to(var, mean.shape)
    return Prediction(mean, spread, mean[None], spread[None])


@dataclass(frozen=True)
class LeastSquares:
    """Ordinary least squares with a constant, each output on its own rows, Normal residuals.

    Example:
        >>> line = LeastSquares.fit(Dataset([[0.0], [1.0], [2.0]], [[1.0], [3.0], [5.1]]))
        >>> line.predict(np.array([[3.0]])).mean.round(2)
        array([[7.13]])
    """

    weights: Float[Array, "E P"]
    var: Float[Array, "P"]

    @staticmethod
    def fit(data: Dataset) -> "LeastSquares":
        """Fit each output to the rows where it is observed."""
        design = _with_constant(data.x)
        weights = np.empty((design.shape[1], data.num_outputs))
        var = np.empty(data.num_outputs)
        for column in range(data.num_outputs):
            rows = ~np.isnan(data.y[:, column])
            weights[:, column] = np.linalg.lstsq(design[rows], data.y[rows, column], rcond=None)[0]
            residual = data.y[rows, column] - design[rows] @ weights[:, column]
            # Unbiased where there are rows to spare; an exact fit still has some variance.
            spare = max(1, rows.sum() - design.shape[1])
            var[column] = max(np.square(residual).sum() / spare, np.finfo(np.float64).eps)
        return LeastSquares(weights, var)

    def predict(self, x: Float[Array, "N D"]) -> Prediction:
        """The fitted line with its residual variance."""
        return normal_prediction(_with_constant(x) @ self.weights, self.var)

    def evaluate(self, data: Dataset) -> Scores:
        """Scores on test data, in original units."""
        return score([(self.predict(data.x), data.y)])


def _with_constant(x: Float[Array, "N D"]) -> Float[Array, "N E"]:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def _mean(train: Dataset, test: Dataset, seed: int) -> Prediction:
    mean, var = np.nanmean(train.y, axis=0), np.nanvar(train.y, axis=0)
    return normal_prediction(np.tile(mean, (test.num_rows, 1)), np.maximum(var, np.finfo(np.float64).eps))


def _least_squares(train: Dataset, test: Dataset, seed: int) -> Prediction:
    return LeastSquares.fit(train).predict(test.x)


BASELINES: dict[str, Baseline] = {
    "mean": Baseline("mean", _mean, lambda train: True),
    "least-squares": Baseline("least squares", _least_squares),
}
