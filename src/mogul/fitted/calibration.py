"""Calibration on rows not used in training: rescaled standard deviations, and conformal intervals."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar

from mogul._typing import Array, IntArray
from mogul.errors import ConfigError, DataError
from mogul.metrics import Part

# Least number of groups (or rows without groups) for rescaling: with two trajectories of Kuka, others lose 4 nats.
# Largest number of rows used to find the scale factor.
_FEWEST_GROUPS, _MOST_ROWS = 10, 2000
# Search range of the log scale factor below and above a Normal's, and its first step; light tails make it small.
_BELOW, _ABOVE, _FIRST_STEP = 5.0, 1.0, 0.25


@dataclass(frozen=True)
class Calibration:
    """Results on calibration rows: scale factors of the standard deviations, and conformity scores.

    Intervals are split-conformal: mean ± q std, where q is the k-th smallest of the n scores |y − mean|/std of
    calibration rows, k = ⌈(n + 1) coverage⌉. If these rows and a new one are exchangeable and had no part in training,
    the interval of an output holds its value with at least this probability for any model, and with less than 1/(n + 1)
    more if no scores tie. The probability is over draws of the calibration rows and the new row together: it does not
    hold for given inputs, nor for all outputs at once.

    With groups, groups are exchangeable and rows are not. Each of K groups has a weight of 1/(K + 1), shared by its
    rows, and q is the least score at which the cumulative weight reaches the coverage: the guarantee is for a row of a
    new group. With groups of one row both are the same.

    Args:
        stretch: factor on the standard deviation of each output that maximises the likelihood of calibration rows; 1
            where fewer than ten rows, or groups, have that output.
        scores: |y − mean|/std, with the stretched std; NaN where y is missing.
        groups: the group number of each row.
        seed: seed of the draws behind the moments; intervals must use the same.

    Example:
        >>> scores = np.arange(1.0, 10.0)[:, None]
        >>> Calibration(np.ones(1), scores, np.arange(9)).multiplier(0.9)
        array([9.])
    """

    stretch: Float[Array, "P"]
    scores: Float[Array, "N P"]
    groups: Int[IntArray, "N"]
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = (len(self.stretch), len(self.groups))
        if self.scores.shape != sizes[::-1] or not (np.isfinite(self.stretch) & (self.stretch > 0)).all():
            raise DataError(
                f"Calibration scores must be (rows, outputs) beside positive stretches; got {self.scores.shape} for "
                f"{sizes[1]} rows and stretches {self.stretch}. Calibrate anew."
            )

    @staticmethod
    def of(
        parts: Iterable[Part], scores: Float[Array, "N P"], groups: Int[IntArray, "N"], seed: int = 0
    ) -> "Calibration":
        """From rows that a model was not trained on.

        Args:
            parts: pairs of predictions and true outputs.
            scores: |y − mean|/std, from the same moments that intervals will use.
            groups: the group number of each row.
            seed: seed of the draws behind those moments.
        """
        stride = max(1, math.ceil(len(groups) / _MOST_ROWS))
        some = [(prediction.rows(slice(None, None, stride)), y[::stride]) for prediction, y in parts]
        counts = [len(np.unique(groups[~np.isnan(column)])) for column in scores.T]
        stretch = np.array(
            [_best_stretch(some, output) if n >= _FEWEST_GROUPS else 1.0 for output, n in enumerate(counts)]
        )
        known = ~np.isnan(scores).all(axis=1)
        return Calibration(stretch, (scores / stretch)[known], groups[known], seed)

    def multiplier(self, coverage: float) -> Float[Array, "P"]:
        """The number q of standard deviations to each side, for each output."""
        if not 0 < coverage < 1:
            raise ConfigError(f"coverage must be between 0 and 1; got {coverage}. Try 0.9.")
        return np.array([self._multiplier(column, coverage) for column in self.scores.T])

    def _multiplier(self, scores: Float[Array, "N"], coverage: float) -> float:
        known = ~np.isnan(scores)
        _, members, counts = np.unique(self.groups[known], return_inverse=True, return_counts=True)
        # Weights in units of rows, so that sums are exact where each row is a group.
        wanted = coverage * (len(counts) + 1)
        if wanted > len(counts) * (1 + 1e-12):
            raise ConfigError(
                f"coverage must be at most n/(n + 1) = {len(counts) / (len(counts) + 1):.4g} for {len(counts)} rows or "
                f"groups to calibrate by; got {coverage}. Set more of them aside, or ask for less."
            )
        order = np.argsort(scores[known])
        reached = np.cumsum(1 / counts[members[order]])
        place = int(np.searchsorted(reached, wanted * (1 - 1e-12)))
        return float(scores[known][order][min(place, len(order) - 1)])

    def interval(
        self, mean: Float[Array, "N P"], std: Float[Array, "N P"], coverage: float
    ) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Lower and upper ends, from the moments of a calibrated prediction."""
        reach = self.multiplier(coverage) * std
        return mean - reach, mean + reach


def _best_stretch(parts: Sequence[Part], output: int) -> float:
    """The factor on an output's standard deviation with the highest likelihood."""
    column = np.array([output])
    known = [(prediction, y, np.flatnonzero(~np.isnan(y[:, output]))) for prediction, y in parts]
    pairs = [(prediction.rows(rows).outputs(column).smoothed(), y[rows][:, column]) for prediction, y, rows in known]
    squares = np.concatenate([np.square((y - prediction.mean) / prediction.std) for prediction, y in pairs])
    # For a Normal it is the root of the mean squared score; heavier tails explain large scores without it.
    normal = math.sqrt(squares.mean()) if len(squares) else 0.0
    if normal == 0:
        return 1.0

    def loss(log_factor: float) -> float:
        # The density of a stretched prediction at y is the original density nearer to the mean, divided by the factor.
        # For a single output the smoothed mixture's density is accurate with few draws.
        near = (prediction.mean + (y - prediction.mean) * math.exp(-log_factor) for prediction, y in pairs)
        each = (pair[0].mixture_log_density(at).sum() for pair, at in zip(pairs, near, strict=True))
        return len(squares) * log_factor - float(sum(each))

    found = minimize_scalar(loss, bounds=_bracket(loss, math.log(normal)), method="bounded", options={"xatol": 1e-3})
    return math.exp(found.x)


def _bracket(loss: Callable[[float], float], start: float) -> tuple[float, float]:
    """A bracket around the start, extended where the loss falls; densities far from it are slow to compute."""
    ends, here = [], loss(start)
    for side, most in ((-1, _BELOW), (1, _ABOVE)):
        width, before = _FIRST_STEP, here
        while width < most and (value := loss(start + side * width)) < before:
            width, before = 2 * width, value
        ends.append(start + side * min(width, most))
    return ends[0], ends[1]
