"""Scores of predictions. Missing outputs (NaN in y) are left out everywhere."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, ndtr

from mogul._typing import Array
from mogul.errors import ConfigError, DataError, ShapeError
from mogul.prediction import Prediction, Warped

LEVELS = (0.5, 0.8, 0.95)
# The paper's estimator of the test log likelihood: an average of 25 logs of averages over 50 draws.
NUM_OUTER, NUM_INNER = 25, 50
# A fifth of the outer averages: the same expectation, with negligible extra error for hundreds of rows.
FEW_OUTER = 5
# Draws whose pairs are compared for a mean CRPS over rows: a seventh of the work of `crps` by default.
_DRAWS_IN_PAIRS = 24

# Draws of an energy score: its error by chance is a few percent for a row, and averages out over rows.
_DRAWS_OF_ROWS = 100
_ROWS_AT_ONCE = 500

Part = tuple[Prediction, Float[Array, "_ P"]]


@dataclass(frozen=True)
class Scores:
    """Means over a test set: per datapoint for log likelihoods, per output for the rest.

    `ll` is the mean of `Prediction.log_density`. `ll_nested` is the paper's estimator by 25 × 50 draws, as in its
    tables; it is lower than `ll`, and None unless asked for.
    """

    ll: float
    ll_nested: float | None
    mrmse: float
    crps: float
    coverage: dict[float, float]


def score(parts: Iterable[Part], *, nested: bool = False) -> Scores:
    """All scores of a test set given in parts, so that only one part's draws are in memory.

    Args:
        parts: pairs of predictions and true outputs.
        nested: whether to compute the paper's estimator too: densities of all outputs for each draw.
    """
    scores, _ = score_rows(parts, nested=nested)
    return scores


def score_rows(parts: Iterable[Part], *, nested: bool = False) -> tuple[Scores, Float[Array, "N"]]:
    """All scores, and the log density of each row: NaN where all its outputs are missing."""
    sums = ScoreSums(nested=nested)
    densities = [sums.add(prediction, y) for prediction, y in parts]
    return sums.scores, np.concatenate(densities) if densities else np.empty(0)


@dataclass
class ScoreSums:
    """Sums behind the scores of a test set that is given in parts: of any number of rows.

    Example:
        >>> one = Prediction(np.zeros((2, 1)), np.ones((2, 1)), np.zeros((1, 2, 1)), np.ones((1, 2, 1)))
        >>> sums = ScoreSums()
        >>> for _ in range(3):
        ...     log_density = sums.add(one, np.array([[1.0], [np.nan]]))
        >>> sums.num_rows, sums.scores.mrmse
        (3, 1.0)
    """

    nested: bool = False
    num_rows: int = 0
    known: Float[Array, "P"] = field(default_factory=lambda: np.zeros(0))
    _squares: Float[Array, "P"] = field(default_factory=lambda: np.zeros(0))
    _crps: Float[Array, "P"] = field(default_factory=lambda: np.zeros(0))
    _inside: dict[float, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))
    _ll: float = 0.0
    _ll_nested: float = 0.0

    def add(self, prediction: Prediction, y: Float[Array, "N P"]) -> Float[Array, "N"]:
        """Take in some rows; the log density of each, NaN where all its outputs are missing."""
        log_density = np.full(len(y), np.nan)
        seen = np.flatnonzero(~np.isnan(y).all(axis=1))
        if not len(seen):
            return log_density
        prediction, y = prediction.rows(seen), y[seen]
        of_row, of_groups = _log_densities(prediction, y, self.nested)
        log_density[seen] = of_row
        if not len(self.known):
            self.known, self._squares, self._crps = (np.zeros(y.shape[1]) for _ in range(3))
        self.num_rows += len(seen)
        self._ll += float(of_row.sum())
        self._ll_nested += float(of_groups.sum())
        missing = np.isnan(y)
        self.known += (~missing).sum(0)
        self._squares += np.where(missing, 0.0, np.square(y - prediction.mean)).sum(0)
        self._crps += np.where(missing, 0.0, crps(prediction, y, _DRAWS_IN_PAIRS)).sum(0)
        distance = np.abs(prediction.cdf(y)[~missing] - 0.5)
        for level in self._inside:
            self._inside[level] += int((distance <= 0.5 * level).sum())
        return log_density

    @property
    def scores(self) -> Scores:
        """Those of all rows so far."""
        if not self.num_rows:
            raise DataError("Test outputs must have at least one value; all are NaN. Give rows with known outputs.")
        here = self.known > 0
        return Scores(
            ll=self._ll / self.num_rows,
            ll_nested=self._ll_nested / self.num_rows if self.nested else None,
            mrmse=float(np.sqrt(self._squares[here] / self.known[here]).mean()),
            crps=float((self._crps[here] / self.known[here]).mean()),
            coverage={level: count / float(self.known.sum()) for level, count in self._inside.items()},
        )


def mrmse(mean: Float[Array, "N P"], y: Float[Array, "N P"]) -> float:
    """Root mean squared error of each output, averaged over outputs.

    >>> mrmse(np.zeros((2, 2)), np.array([[3.0, 1.0], [np.nan, 1.0]]))
    2.0
    """
    if mean.shape != y.shape:
        raise ShapeError(
            f"Means and outputs must have the same shape; got {mean.shape} and {y.shape}. Match their rows."
        )
    return float(np.sqrt(_known_means(np.square(y - mean), y)).mean())


def arrmse(mean: Float[Array, "N P"], y: Float[Array, "N P"], centre: Float[Array, "P"]) -> float:
    """Average relative root mean squared error: √(Σ (y − mean)² / Σ (y − centre)²) of each output, averaged.

    Args:
        mean: predictions.
        y: true outputs; NaN is left out.
        centre: the mean of each output in training: 1 is no better than that. Outputs that equal it in all rows are
            left out.

    Example:
        >>> arrmse(np.array([[1.0, 2.0], [3.0, 2.0]]), np.array([[1.0, 2.0], [5.0, 4.0]]), np.array([3.0, 2.0]))
        0.8535533905932737
    """
    error, spread = (_known_means(np.square(y - guess), y) for guess in (mean, np.broadcast_to(centre, y.shape)))
    varies = spread > 0
    if not varies.any():
        raise DataError("Test outputs must differ from their training means; none does. Give other rows.")
    return float(np.sqrt(error[varies] / spread[varies]).mean())


def energy_score(
    prediction: Prediction, y: Float[Array, "N P"], num_draws: int = _DRAWS_OF_ROWS, seed: int = 0
) -> Float[Array, "N"]:
    """The CRPS of whole rows, E‖Y − y‖ − ½ E‖Y − Y′‖ over observed outputs, by draws; NaN where none is observed.

    Lower is better. It depends on correlation between outputs, where a CRPS of each output does not. Outputs should be
    in comparable units, as of a standardised prediction. Both expectations are averages over draws, the second over all
    pairs of distinct draws: without bias.

    Example:
        >>> certain = Prediction(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 1, 2)), np.zeros((1, 1, 2)))
        >>> energy_score(certain, np.array([[3.0, 4.0]]))
        array([5.])
    """
    if num_draws < 2:
        raise ConfigError(f"num_draws must be at least 2, to make a pair; got {num_draws}. Leave it out.")
    prediction.require_shape(y)
    rng = np.random.default_rng(seed)
    result = np.full(len(y), np.nan)
    for first in range(0, len(y), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        known = ~np.isnan(y[rows])
        draws = np.where(known, prediction.rows(rows).sample(num_draws, rng), 0.0)
        to_truth = np.linalg.norm(draws - np.where(known, y[rows], 0.0), axis=-1).mean(0)
        result[rows] = np.where(known.any(1), to_truth - 0.5 * _distance_of_pairs(draws), np.nan)
    return result


def _distance_of_pairs(draws: Float[Array, "K N P"]) -> Float[Array, "N"]:
    """Mean ‖Y − Y′‖ over all pairs of distinct draws."""
    num_draws = len(draws)
    total = sum(np.linalg.norm(draws[k + 1 :] - draws[k], axis=-1).sum(0) for k in range(num_draws - 1))
    mean: Float[Array, N] = 2 * np.asarray(total) / (num_draws * (num_draws - 1))
    return mean


def nested_log_density(prediction: Prediction, y: Float[Array, "N P"], num_outer: int = NUM_OUTER) -> Float[Array, "N"]:
    """The paper's estimator: draws are split into `num_outer` groups; the mean over groups of each group's log mean.

    Weighted components are not random draws and form one group.
    """
    each = prediction.component_log_density(y)
    if prediction.log_weight is None and len(each) % num_outer:
        raise ConfigError(
            f"The number of draws must be a multiple of num_outer = {num_outer}; got {len(each)}. "
            f"The paper draws {NUM_OUTER} × {NUM_INNER}."
        )
    return _log_mean_in_groups(prediction, each, num_outer)


def crps(prediction: Prediction, y: Float[Array, "N P"], max_draws: int = 64) -> Float[Array, "N P"]:
    """Continuous ranked probability score of the mixture, E|Y − y| − ½ E|Y − Y′|, per point and output.

    Both terms are closed-form given the components. The second runs over all pairs of at most `max_draws` evenly spaced
    draws, with the weights of the full mixture. Weighted components are spaced evenly by weight.
    """
    if max_draws < 2:
        raise ConfigError(f"max_draws must be at least 2, to make a pair; got {max_draws}. Leave it out.")
    if isinstance(prediction, Warped):  # absolute distances of transformed Normals have no closed form
        return prediction.crps(y)
    mean, var = prediction.component_mean, prediction.component_var
    to_truth = prediction.average(_expected_distance(y - mean, var))
    if prediction.log_weight is not None:
        return to_truth - 0.5 * _distance_apart(mean, var, np.exp(prediction.log_weight), max_draws)
    num_draws = len(mean)
    kept = np.linspace(0, num_draws, min(num_draws, max_draws), endpoint=False).astype(int)
    mean, var = mean[kept], var[kept]
    same = _expected_distance(np.zeros_like(mean), 2 * var).mean(0)
    different = np.zeros_like(same)
    # Pairs (i, i + shift) with shifts up to half the number of draws cover all distinct pairs, the middle shift twice.
    shifts = range(1, len(kept) // 2 + 1)
    for shift in shifts:
        weight = 0.5 if 2 * shift == len(kept) else 1.0
        gap, spread = mean - np.roll(mean, shift, axis=0), var + np.roll(var, shift, axis=0)
        different += 2 * weight * _expected_distance(gap, spread).mean(0) / max(1, len(kept) - 1)
    score: Array = to_truth - 0.5 * (same / num_draws + different * (1 - 1 / num_draws))
    return score


def coverage(pit: Float[Array, "N P"], level: float) -> float:
    """The share of outputs inside the central interval of this probability, given P(output ≤ y) at the truth.

    >>> coverage(np.array([[0.05], [0.4], [0.6], [np.nan]]), 0.5)
    0.6666666666666666
    """
    known = pit[~np.isnan(pit)]
    return float(np.mean(np.abs(known - 0.5) <= 0.5 * level))


def _log_densities(
    prediction: Prediction, y: Float[Array, "N P"], nested: bool
) -> tuple[Float[Array, "N"], Float[Array, "_"]]:
    """Log density of each row, and the paper's estimator if asked for; densities of components are computed once."""
    if not nested:
        return prediction.log_density(y), np.zeros(0)
    each = prediction.component_log_density(y)
    whole = prediction.log_mean(each) if prediction.density is None else prediction.log_density(y)
    return whole, _log_mean_in_groups(prediction, each, _num_groups(len(each)))


def _num_groups(num_draws: int) -> int:
    """Number of groups of the paper's inner size; one group if the draws do not divide into them."""
    return num_draws // NUM_INNER if num_draws % NUM_INNER == 0 else 1


def _log_mean_in_groups(prediction: Prediction, each: Float[Array, "S N"], num_groups: int) -> Float[Array, "N"]:
    """The mean over groups of the log of the mean within each."""
    if prediction.log_weight is not None:
        return prediction.log_mean(each)
    groups = each.reshape(num_groups, -1, each.shape[-1])
    result: Float[Array, N] = (logsumexp(groups, axis=1) - math.log(groups.shape[1])).mean(0)
    return result


def _distance_apart(
    mean: Float[Array, "S N P"], var: Float[Array, "S N P"], weight: Float[Array, "S"], max_draws: int
) -> Float[Array, "N P"]:
    """E|Y − Y′| of a mixture, over all pairs of components, or of `max_draws` that represent equal weights."""
    if len(mean) > max_draws:
        middles = (np.arange(max_draws) + 0.5) / max_draws
        kept = np.searchsorted(np.cumsum(weight)[:-1], middles)
        mean, var, weight = mean[kept], var[kept], np.full(max_draws, 1 / max_draws)
    total = np.zeros(mean.shape[1:])
    for own_mean, own_var, own_weight in zip(mean, var, weight, strict=True):
        total += own_weight * np.tensordot(weight, _expected_distance(own_mean - mean, own_var + var), 1)
    return total


def _expected_distance(gap: Array, var: Array) -> Array:
    """E|Z| for Z ~ N(gap, var)."""
    scale = np.sqrt(var)
    ratio = gap / scale
    density = np.exp(-0.5 * ratio**2) / math.sqrt(2 * math.pi)
    return gap * (2 * ndtr(ratio) - 1) + 2 * scale * density


def _known_means(values: Float[Array, "N P"], y: Float[Array, "N P"]) -> Float[Array, "Q"]:
    """Mean of each output over the rows where it is known; only NaN in y counts as missing."""
    known = ~np.isnan(y)
    return np.array([column[here].mean() for column, here in zip(values.T, known.T, strict=True) if here.any()])
