"""Least squares: the line that every model must beat."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mogul._typing import Array
from mogul.data import Dataset
from mogul.metrics import Scores, score
from mogul.prediction import Prediction

# An exact fit still has some variance, or its density would be infinite.
SMALLEST_VAR = float(np.finfo(np.float64).eps)


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
            # Unbiased where there are rows to spare.
            spare = max(1, rows.sum() - design.shape[1])
            var[column] = max(np.square(residual).sum() / spare, SMALLEST_VAR)
        return LeastSquares(weights, var)

    def predict(self, x: Float[Array, "N D"]) -> Prediction:
        """The fitted line with its residual variance."""
        return normal_prediction(_with_constant(x) @ self.weights, self.var)

    def evaluate(self, data: Dataset) -> Scores:
        """Scores on test data, in original units."""
        return score([(self.predict(data.x), data.y)], nested=True)


def normal_prediction(mean: Float[Array, "N P"], var: Float[Array, "P"]) -> Prediction:
    """A Normal with the same variance everywhere, as a mixture of one component."""
    spread = np.broadcast_to(var, mean.shape)
    return Prediction(mean, spread, mean[None], spread[None])


def mean_square(residual: Float[Array, "N P"]) -> Float[Array, "P"]:
    """The variance about zero of each output, over the rows that have it; never quite 0.

    >>> mean_square(np.array([[3.0, 1.0], [np.nan, 1.0]]))
    array([9., 1.])
    """
    var: Float[Array, P] = np.maximum(np.nanmean(np.square(residual), axis=0), SMALLEST_VAR)
    return var


def _with_constant(x: Float[Array, "N D"]) -> Float[Array, "N E"]:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)
