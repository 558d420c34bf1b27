"""Baselines against scikit-learn and closed forms."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

from mogul.comparison.rivals import LeastSquares, normal_prediction
from mogul.data import Dataset

NAN = float("nan")


@pytest.fixture
def data() -> Dataset:
    """Two noisy planes; some outputs are missing."""
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (40, 3))
    y = x @ rng.normal(size=(3, 2)) + [5.0, -1.0] + rng.normal(0, [0.5, 2.0], (40, 2))
    y[::4, 0] = y[1::3, 1] = NAN
    return Dataset(x, y)


def test_each_output_is_fitted_to_its_own_rows(data: Dataset):
    fitted = LeastSquares.fit(data)
    new = np.random.default_rng(1).normal(size=(6, 3))
    for output in range(2):
        seen = ~np.isnan(data.y[:, output])
        peer = LinearRegression().fit(data.x[seen], data.y[seen, output])
        np.testing.assert_allclose(fitted.predict(new).mean[:, output], peer.predict(new), rtol=1e-9)
        residual = data.y[seen, output] - peer.predict(data.x[seen])
        assert fitted.var[output] == pytest.approx(np.square(residual).sum() / (seen.sum() - 4), rel=1e-9)


def test_the_variance_is_the_same_everywhere(data: Dataset):
    fitted = LeastSquares.fit(data)
    prediction = fitted.predict(data.x)
    np.testing.assert_array_equal(prediction.var, np.tile(fitted.var, (40, 1)))


def test_the_residual_variance_is_unbiased():
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(400):
        x = rng.normal(size=(6, 2))
        estimates.append(LeastSquares.fit(Dataset(x, 2 * rng.normal(size=(6, 1)))).var[0])
    standard_error = np.std(estimates) / 20
    assert abs(np.mean(estimates) - 4.0) < 4 * standard_error


@pytest.mark.parametrize("num_rows", [1, 2, 3])
def test_an_exact_fit_has_a_finite_density(num_rows):
    data = Dataset(np.arange(float(num_rows))[:, None], 3 * np.arange(float(num_rows))[:, None] + 1)
    fitted = LeastSquares.fit(data)
    assert np.all(fitted.var > 0)
    np.testing.assert_allclose(fitted.predict(data.x).mean, data.y, atol=1e-10)
    assert np.isfinite(fitted.evaluate(data).ll)


def test_equal_columns_are_no_obstacle():
    x = np.repeat(np.arange(5.0)[:, None], 2, axis=1)
    np.testing.assert_allclose(LeastSquares.fit(Dataset(x, 4 * x[:, :1])).predict(x).mean, 4 * x[:, :1], atol=1e-9)


def test_scores_are_those_of_a_normal(data: Dataset):
    fitted = LeastSquares.fit(data)
    scores = fitted.evaluate(data)
    mean = fitted.predict(data.x).mean
    seen = ~np.isnan(data.y).all(1)
    density = np.nansum(stats.norm.logpdf(data.y, mean, np.sqrt(fitted.var)), axis=1)[seen]
    assert scores.ll == pytest.approx(density.mean(), rel=1e-10)
    assert scores.ll_nested == pytest.approx(scores.ll, rel=1e-12)
    assert scores.mrmse == pytest.approx(np.sqrt(np.nanmean((data.y - mean) ** 2, axis=0)).mean(), rel=1e-10)


def test_a_normal_prediction_is_a_mixture_of_one():
    mean, var = np.arange(6.0).reshape(3, 2), np.array([1.0, 4.0])
    prediction = normal_prediction(mean, var)
    assert prediction.component_mean.shape == prediction.component_var.shape == (1, 3, 2)
    np.testing.assert_array_equal(prediction.std, np.tile([1.0, 2.0], (3, 1)))
    np.testing.assert_allclose(prediction.cdf(mean + 2.0), np.tile(stats.norm.cdf([2.0, 1.0]), (3, 1)), rtol=1e-12)
