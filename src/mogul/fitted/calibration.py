"""Predictions held against rows that training has not seen: a spread that fits them, and intervals that cover."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar

from mogul._typing import Array, IntArray
from mogul.errors import ConfigError, DataError
from mogul.metrics import Part

# Fewer groups, or rows where each is one, say too little about a spread: stretched by two trajectories of Kuka, others
# lose 4 nats. No more rows than these are needed to find it.
_FEWEST_GROUPS, _MOST_ROWS = 10, 2000
# How far the best spread may be below that of a Normal, e-fold: tails that are too light make it small.
_BELOW, _ABOVE, _FIRST_STEP = 5.0, 1.0, 0.25


@dataclass(frozen=True)
class Calibration:
    """What calibration rows say of a model: how much to stretch its spread, and how far off it was.

    Intervals are split-conformal: mean ± q std, where q is the k-th smallest of the n scores |y − mean|/std of
    calibration rows, k = ⌈(n + 1) coverage⌉. If these rows and a new one are exchangeable and had no part in training,
    the interval of an output holds its value with at least this probability, whatever the model, and with less than
    1/(n + 1) more where no scores tie. That is a statement about all draws of calibration rows and of the new row
    taken together: not about given inputs, nor about all outputs at once.

    Where rows come in groups, groups are exchangeable and not rows. Each of K groups then has a weight of 1/(K + 1),
    shared by its rows, and q is the least score at which weights of scores up to it reach the coverage: the statement
    is about a row of a new group. With groups of one row both are the same.

    Args:
        stretch: what the spread of each output is multiplied by: the factor that makes calibration rows likeliest; 1
            where fewer than ten of them, or of their groups, have that output.
        scores: |y − mean|/std, for the std after stretching; NaN where y is missing.
        groups: a number for the group of each row.
        seed: of the draws that the moments were made of: those of an interval must be made of the same.

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
            parts: what it says about them, part by part, beside the truth.
            scores: |y − mean|/std by the very moments that intervals will be made of.
            groups: a number for the group of each row.
            seed: of the draws behind those moments.
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
        # Whole rows of weight: n of n + 1 where each is a group, and no rounding between them.
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
        """Both ends, from the moments of a calibrated prediction."""
        reach = self.multiplier(coverage) * std
        return mean - reach, mean + reach


def _best_stretch(parts: Sequence[Part], output: int) -> float:
    """The factor on an output's spread under which its values are likeliest."""
    column = np.array([output])
    known = [(prediction, y, np.flatnonzero(~np.isnan(y[:, output]))) for prediction, y in parts]
    pairs = [(prediction.rows(rows).outputs(column).smoothed(), y[rows][:, column]) for prediction, y, rows in known]
    squares = np.concatenate([np.square((y - prediction.mean) / prediction.std) for prediction, y in pairs])
    # For a Normal it is the root of their mean; heavier tails explain large scores without a wider spread.
    normal = math.sqrt(squares.mean()) if len(squares) else 0.0
    if normal == 0:
        return 1.0

    def loss(log_factor: float) -> float:
        # A stretched prediction is as dense at y as the prediction is nearer to its mean, but for the factor. One
        # output by itself shares nothing that few draws would miss: the mixture does, once it is smooth.
        near = (prediction.mean + (y - prediction.mean) * math.exp(-log_factor) for prediction, y in pairs)
        each = (pair[0].mixture_log_density(at).sum() for pair, at in zip(pairs, near, strict=True))
        return len(squares) * log_factor - float(sum(each))

    found = minimize_scalar(loss, bounds=_bracket(loss, math.log(normal)), method="bounded", options={"xatol": 1e-3})
    return math.exp(found.x)


def _bracket(loss: Callable[[float], float], start: float) -> tuple[float, float]:
    """Around the start, farther to a side where the loss falls: far from it densities take long to compute."""
    ends, here = [], loss(start)
    for side, most in ((-1, _BELOW), (1, _ABOVE)):
        width, before = _FIRST_STEP, here
        while width < most and (value := loss(start + side * width)) < before:
            width, before = 2 * width, value
        ends.append(start + side * min(width, most))
    return ends[0], ends[1]
