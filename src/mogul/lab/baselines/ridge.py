"""Ridge regression on features that are computed in parts, the penalty by leave-one-out error in closed form."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mogul._typing import Array
from mogul.comparison.least_squares import SMALLEST_VAR

Features = Callable[[Float[Array, "B D"]], Float[Array, "B F"]]
# Penalties per row to choose from, in units of the features' variance.
PENALTIES: Float[Array, "K"] = np.logspace(-10, 2, 25)
_ROWS_AT_ONCE = 5000


@dataclass(frozen=True)
class Ridge:
    """Weights and a constant per output, and the mean square of what each row would miss if it were left out.

    Example:
        >>> x = np.arange(8.0)[:, None]
        >>> line = Ridge.fit(lambda x: x, x, 2 * x + 1)
        >>> line.predict(lambda x: x, np.array([[10.0]])).round(3)
        array([[21.]])
    """

    weights: Float[Array, "F P"]
    bias: Float[Array, "P"]
    left_out: Float[Array, "P"]

    @staticmethod
    def fit(features: Features, x: Float[Array, "N D"], y: Float[Array, "N P"]) -> "Ridge":
        """Each output on the rows where it is observed (NaN is missing), with a penalty of its own."""
        num_features = features(x[:1]).shape[1]
        weights, bias = np.zeros((num_features, y.shape[1])), np.nanmean(y, axis=0)
        left_out = np.maximum(np.nanvar(y, axis=0), SMALLEST_VAR)
        observed = ~np.isnan(y)
        # Outputs that are observed in the same rows share one decomposition.
        patterns, group = np.unique(observed, axis=1, return_inverse=True)
        for number, rows in enumerate(patterns.T):
            if rows.sum() >= 3:
                columns = np.flatnonzero(group == number)
                part = _fit_whole(features, x[rows], y[np.ix_(rows, columns)])
                weights[:, columns], bias[columns], left_out[columns] = part.weights, part.bias, part.left_out
        return Ridge(weights, bias, left_out)

    def predict(self, features: Features, x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        """Features times weights plus the constant."""
        return np.concatenate([features(part) @ self.weights + self.bias for part in _parts(x)])


def _fit_whole(features: Features, x: Float[Array, "N D"], y: Float[Array, "N P"]) -> Ridge:
    """All rows observed. With Φ centred and ΦᵀΦ = V Λ Vᵀ, the hat matrix of penalty α is 1/N + ΦV (Λ + α)⁻¹ (ΦV)ᵀ."""
    num_rows = len(x)
    centre, level = sum(features(part).sum(0) for part in _parts(x)) / num_rows, y.mean(0)
    gram, cross = 0.0, 0.0
    for some, target in zip(_parts(x), _parts(y), strict=True):
        centred = features(some) - centre
        gram, cross = gram + centred.T @ centred, cross + centred.T @ (target - level)
    sizes, directions = np.linalg.eigh(gram)
    shrunk = 1 / (np.maximum(sizes, 0.0)[:, None] + num_rows * PENALTIES)  # (F, K)
    coefficients = (directions.T @ cross)[:, :, None] * shrunk[:, None]  # (F, P, K)
    squares = np.zeros(coefficients.shape[1:])
    for some, target in zip(_parts(x), _parts(y), strict=True):
        rotated = (features(some) - centre) @ directions
        residual = (target - level)[:, :, None] - np.tensordot(rotated, coefficients, axes=1)
        leverage = np.square(rotated) @ shrunk + 1 / num_rows
        squares += np.square(residual / np.maximum(1 - leverage, SMALLEST_VAR)[:, None]).sum(0)
    best = squares.argmin(-1)
    outputs = np.arange(y.shape[1])
    weights = directions @ coefficients[:, outputs, best]
    left_out = np.maximum(squares[outputs, best] / num_rows, SMALLEST_VAR)
    return Ridge(weights, level - centre @ weights, left_out)


def _parts(rows: Float[Array, "N K"]) -> Iterator[Float[Array, "B K"]]:
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[first : first + _ROWS_AT_ONCE]
