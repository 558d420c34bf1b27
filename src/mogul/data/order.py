"""Whether rows follow each other in time: then a row held out at random has its twin among those trained on."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from mogul._typing import Array
from mogul.data.advice import Finding
from mogul.data.dataset import Dataset, Standardiser

# In rows in no order, the correlation of neighbours is nearly N(0, 1/N): four standard deviations come by chance in
# 3 of 100,000 data sets. Of many rows a trifle is significant, and only a practical size says that rows are twins.
LEAST_CORRELATION, _LEAST_Z = 0.3, 4.0
# The first rows are enough to tell.
_MOST_ROWS = 20_000
# A plane that fits to this share of an output's standard deviation leaves rounding, which has patterns of its own.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class NeighbourCorrelation:
    """The rank correlation of residuals of neighbouring rows, over all outputs, and the number of pairs behind it.

    Outputs may tell of each other: pairs of rows count once, however many outputs they share.
    """

    value: float
    num_pairs: float

    @property
    def z(self) -> float:
        """In standard deviations of rows in no order."""
        return self.value * math.sqrt(self.num_pairs)

    @property
    def in_order(self) -> bool:
        """Whether neighbours are more alike than chance allows, and enough to matter."""
        return self.value > LEAST_CORRELATION and self.z > _LEAST_Z


def order_advice(data: Dataset) -> Finding | None:
    """A word on rows that follow each other in time, where some are to be held out at random; None where all is well.

    Example:
        >>> time = np.linspace(0, 1, 200)[:, None]
        >>> rows = Dataset(time, np.sin(20 * time))
        >>> order_advice(rows).rule, order_advice(rows.rows(np.random.default_rng(0).permutation(200)))
        ('rows in order', None)
    """
    found = neighbour_correlation(data)
    if not found.in_order:
        return None
    return Finding(
        "rows in order",
        (),
        "Rows held out at random should be in no order; neighbouring residuals of a plane have a correlation of "
        f"{found.value:.2f} here. If rows follow each other in time, those held out are too easy: give groups= "
        "(--groups), a label of its run or day for each row. If they are only sorted, all is well.",
    )


def neighbour_correlation(data: Dataset) -> NeighbourCorrelation:
    """The lag-1 rank correlation, in the order of rows, of residuals of the least-squares plane.

    Ranks make it indifferent to outliers, two of which may be neighbours by chance. Pairs with a missing value are
    left out.
    """
    x, y = data.x[:_MOST_ROWS], data.y[:_MOST_ROWS]
    design = np.column_stack([np.ones(len(x)), Standardiser.of(x).apply(x)])
    products, num_pairs, num_outputs = 0.0, 0, 0
    patterns, group = np.unique(~np.isnan(y), axis=1, return_inverse=True)
    for number, rows in enumerate(patterns.T):
        targets = y[rows][:, group == number]
        if rows.sum() <= 2 * design.shape[1]:  # a plane through nearly all of its rows says nothing of the rest
            continue
        ranks = _standard_ranks(_residuals(design[rows], targets), targets)
        paired, after = _neighbours(rows)
        products += float((ranks[paired] * ranks[after]).sum())
        num_pairs += len(paired) * ranks.shape[1]
        num_outputs += ranks.shape[1]
    if not num_pairs:
        return NeighbourCorrelation(0.0, 0.0)
    return NeighbourCorrelation(products / num_pairs, num_pairs / num_outputs)


def _residuals(design: Float[Array, "N K"], targets: Float[Array, "N P"]) -> Float[Array, "N P"]:
    coefficients = np.linalg.lstsq(design, targets, rcond=None)[0]
    residuals: Array = targets - design @ coefficients
    return residuals


def _standard_ranks(residuals: Float[Array, "N P"], targets: Float[Array, "N P"]) -> Float[Array, "N Q"]:
    """Ranks of zero mean and unit variance, of the outputs that a plane does not explain to rounding."""
    left = residuals.std(0) > _ROUNDING * (targets.std(0) + np.abs(targets.mean(0)))
    ranks = rankdata(residuals[:, left], axis=0)
    centred = ranks - ranks.mean(0)
    standard: Array = centred / np.sqrt(np.square(centred).mean(0))
    return standard


def _neighbours(rows: Bool[np.ndarray, "N"]) -> tuple[np.ndarray, np.ndarray]:
    """Places, among the rows that are there, of those whose next row is there too, and of that one."""
    place = np.flatnonzero(rows)
    first = np.flatnonzero(np.diff(place) == 1)
    return first, first + 1
