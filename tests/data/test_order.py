"""Rows that follow each other in time: found out, said once, and never said of rows in no order."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from mogul import Dataset, MultiOutputGPRegressor, TrainingConfig, fit
from mogul.data.advice import neighbour_correlation, order_advice
from mogul.errors import MogulWarning
from mogul.training import FitRequest, Stopping

IN_ORDER = "neighbouring residuals of a linear fit .* groups= .--groups"


def series(num_rows: int = 80, seed: int = 0) -> Dataset:
    """A random walk beside inputs that have nothing to do with it."""
    rng = np.random.default_rng(seed)
    return Dataset(rng.normal(size=(num_rows, 2)), np.cumsum(rng.normal(size=(num_rows, 2)), axis=0))


def shuffled(data: Dataset) -> Dataset:
    return data.rows(np.random.default_rng(1).permutation(data.num_rows))


def residuals(data: Dataset) -> np.ndarray:
    design = np.column_stack([np.ones(data.num_rows), data.x])
    return data.y - design @ np.linalg.pinv(design) @ data.y


class TestCorrelation:
    """The statistic, and what it is like by chance."""

    def test_it_is_spearmans_of_neighbours(self):
        """Up to the two rows at the ends, which have one neighbour."""
        data = series(2000)
        left = residuals(data)
        expected = np.mean([spearmanr(column[:-1], column[1:]).statistic for column in left.T])
        found = neighbour_correlation(data)
        assert found.value == pytest.approx(expected, abs=2e-3)
        assert found.num_pairs == 1999

    @pytest.mark.parametrize("noise", ["normal", "standard_cauchy"])
    def test_rows_in_no_order_have_the_spread_that_is_assumed(self, noise: str):
        """z is N(0, 1) at most, with outliers, too; outputs that say the same do not make it wider."""
        rng = np.random.default_rng(0)
        found = []
        for _ in range(500):
            x, shared = rng.normal(size=(60, 2)), getattr(rng, noise)(size=(60, 1))
            found.append(neighbour_correlation(Dataset(x, np.sin(3 * x[:, :1]) + np.hstack([shared, 2 * shared]))))
        assert np.std([each.z for each in found]) < 1.1
        assert max(each.z for each in found) < 4
        assert not any(each.in_order for each in found)

    def test_missing_values_leave_pairs_out(self):
        data = series(400)
        data.y[::5, 0] = np.nan  # one row in five, and two pairs
        alone = neighbour_correlation(data)
        assert alone.num_pairs == pytest.approx((399 + 399 - 160 + 1) / 2)
        assert alone.in_order
        data.y[1::2] = np.nan  # no pair is left
        assert neighbour_correlation(data).num_pairs == 0
        assert order_advice(data) is None

    @pytest.mark.parametrize("output", [lambda x: 3 * x, np.ones_like, lambda x: 1e9 + x], ids=["plane", "1", "far"])
    def test_rounding_is_no_residual(self, output: Any):
        x = np.linspace(0, 1, 300)[:, None]
        assert order_advice(Dataset(x, output(x))) is None

    def test_few_rows_say_nothing(self):
        assert order_advice(series(12)) is None


CONFIG = TrainingConfig(epochs=1, num_starts=1, stopping=Stopping(held_out=0.2))
RUNS = np.repeat(np.arange(8), 10)


def regressor(**settings: Any) -> MultiOutputGPRegressor:
    return MultiOutputGPRegressor(**({"model": "mogp", "num_inducing": 5} | settings))


class TestWarning:
    """Said where rows are held out at random, once."""

    @pytest.mark.parametrize(
        "train",
        [
            lambda data: fit(data, model="mogp", config=CONFIG, num_inducing=5),
            lambda data: regressor().fit(data.x, data.y, validation=0.2),
            lambda data: regressor(calibrate=0.2).fit(data.x, data.y),
            lambda data: regressor(calibrate=0.2).fit(data.x, data.y, validation=0.2),
            lambda data: regressor(calibrate=0.2, noise="auto").fit(data.x, data.y),
            lambda data: regressor(calibrate=0.2).fit(data.x, data.y, validation=(data.x, data.y)),
            lambda data: regressor().fit(data.x, data.y, sample_weight=1 + np.arange(80) % 2, validation=0.2),
            lambda data: FitRequest("mogp", calibrate=0.2).fit(data),
            lambda data: FitRequest("mogp", calibrate=0.2, options={"noise": "auto"}).fit(data),
        ],
        ids=["fit", "share", "calibrate", "both", "auto", "own rows", "copies", "command", "command auto"],
    )
    def test_it_is_said_once(self, train: Any):
        with pytest.warns(MogulWarning, match=IN_ORDER) as said:
            train(series())
        assert len(said) == 1
        train(shuffled(series()))  # where any warning would be an error

    def test_it_is_not_said_where_it_does_not_matter(self):
        data = series()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            regressor().fit(data.x, data.y)
            regressor(calibrate=0.3).fit(data.x, data.y, groups=RUNS)
            regressor().fit(data.x, data.y, validation=(data.x, data.y))
            fit(data, model="mogp", config=CONFIG, num_inducing=5, held_out=np.arange(9))
            FitRequest("mogp", calibrate=0.3, groups=RUNS).fit(data)

    def test_copies_of_rows_are_no_order(self):
        data = shuffled(series())
        regressor(calibrate=0.2).fit(data.x, data.y, sample_weight=np.full(80, 3))
