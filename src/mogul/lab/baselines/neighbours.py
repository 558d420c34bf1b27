"""k nearest neighbours: what happened where the inputs were most alike."""

import numpy as np
from jaxtyping import Float, Int

from mogul._typing import Array, IntArray
from mogul.comparison.least_squares import mean_square, normal_prediction
from mogul.data import Dataset, Standardiser
from mogul.prediction import Prediction

NUMBERS = (1, 2, 3, 5, 8, 12, 20, 32)
# Left out one at a time to choose k and the noise: all rows, or so many of them.
MAX_LEFT_OUT = 5000


def predict_neighbours(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The mean of the k nearest rows in standardised inputs; k and the noise by leave-one-out, one k per output."""
    from sklearn.neighbors import NearestNeighbors

    units = Standardiser.of(train.x)
    x = units.apply(train.x)
    most = min(NUMBERS[-1], max(1, train.num_rows - 1))
    search = NearestNeighbors(n_neighbors=most).fit(x)
    left_out = np.random.default_rng(seed).permutation(train.num_rows)[:MAX_LEFT_OUT]
    # Where several rows have the same inputs the first found need not be the row itself, but some row must go.
    near = search.kneighbors(x[left_out], n_neighbors=min(most + 1, train.num_rows), return_distance=False)
    others = np.stack([_without(row, places) for row, places in zip(left_out.tolist(), near, strict=True)])
    numbers = [number for number in NUMBERS if number <= max(1, others.shape[1])]
    residuals = np.stack([train.y[left_out] - _means(train.y, others, number) for number in numbers])
    variances = np.stack([mean_square(residual) for residual in residuals])
    best, outputs = variances.argmin(0), np.arange(train.num_outputs)
    near = search.kneighbors(units.apply(test.x), return_distance=False)
    means = np.stack([_means(train.y, near, number) for number in numbers])
    return normal_prediction(means[best, :, outputs].T, variances[best, outputs])


def _without(row: int, places: Int[IntArray, "K"]) -> Int[IntArray, "J"]:
    """All neighbours but the row itself, or but the last where the row is not among them."""
    kept: Int[IntArray, J] = places[places != row][: len(places) - 1]
    return kept


def _means(y: Float[Array, "N P"], near: Int[IntArray, "B K"], number: int) -> Float[Array, "B P"]:
    """The mean of each output over those of the nearest rows that have it; its overall mean where none has."""
    values = y[near[:, :number]]
    observed = ~np.isnan(values)
    count = observed.sum(1)
    total = np.where(observed, values, 0.0).sum(1)
    means: Float[Array, "B P"] = np.where(count > 0, total / np.maximum(count, 1), np.nanmean(y, axis=0))
    return means
