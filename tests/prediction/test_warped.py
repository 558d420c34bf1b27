"""Predictions of transformed outputs: densities, quantiles, moments and draws in units of the outputs."""

import numpy as np
import pytest
from scipy import integrate, stats

from mogul.core.transforms import Log, Transforms, Untransformed, YeoJohnson
from mogul.data import Standardiser
from mogul.metrics import crps
from mogul.prediction import Prediction, Warped


def mixture(means, variances):
    """One point, one output."""
    means, variances = (np.array(part, dtype=float)[:, None, None] for part in (means, variances))
    mean = means.mean(0)
    return Prediction(mean, variances.mean(0) + means.var(0), means, variances)


TWO = mixture([0.2, 0.9], [0.3, 0.1])


@pytest.mark.parametrize("transform", [Log(), YeoJohnson(0.0, 1.5), YeoJohnson(0.6, 1.5), YeoJohnson(2.0, 0.7)])
@pytest.mark.parametrize("units", [None, Standardiser(np.array([-1.0]), np.array([3.0]))])
def test_densities_integrate_to_one_and_to_the_cdf(transform, units):
    law = Warped(TWO, Transforms((transform,)))
    law = law if units is None else law.rescaled(units)

    def density(y):
        return np.exp(law.log_density(np.array([[y]]))).item()

    low, middle, high = law.quantiles([1e-12, 0.5, 1 - 1e-12])[:, 0, 0]
    below = integrate.quad(density, low, middle, limit=200)[0]
    above = integrate.quad(density, middle, high, limit=200)[0]
    assert below == pytest.approx(0.5, abs=1e-5)
    assert above == pytest.approx(0.5, abs=1e-5)
    assert law.cdf(np.array([[middle]])).item() == pytest.approx(0.5)


def test_log_of_a_normal_is_scipys_log_normal():
    law, reference = Warped(mixture([0.4], [0.25]), Transforms((Log(),))), stats.lognorm(0.5, scale=np.exp(0.4))
    y = np.array([[1.7]])
    assert law.log_density(y).item() == pytest.approx(reference.logpdf(1.7))
    assert law.cdf(y).item() == pytest.approx(reference.cdf(1.7))
    assert law.quantiles([0.1]).item() == pytest.approx(reference.ppf(0.1))
    assert law.mean.item() == pytest.approx(reference.mean(), rel=1e-3)
    assert law.std.item() == pytest.approx(reference.std(), rel=1e-2)


def test_values_that_cannot_be_have_no_density():
    law = Warped(TWO, Transforms((Log(),)))
    assert law.log_density(np.array([[-1.0]])).item() == -np.inf
    assert law.log_density(np.array([[0.0]])).item() == -np.inf
    assert law.cdf(np.array([[-1.0]])).item() == 0
    assert law.log_density(np.array([[np.nan]])).item() == 0  # missing


@pytest.mark.parametrize("transform", [Log(), YeoJohnson(0.3, 1.5), Untransformed()])
def test_moments_are_those_of_draws(transform):
    law = Warped(TWO, Transforms((transform,)))
    draws = law.sample(400_000)
    assert law.mean.item() == pytest.approx(draws.mean(), rel=0.005)
    assert law.std.item() == pytest.approx(draws.std(), rel=0.01)


def test_one_wild_component_does_not_move_the_mean():
    calm = Warped(mixture([0.0] * 50_000, [0.1] * 50_000), Transforms((Log(),)))
    wild = Warped(mixture([0.0] * 50_000, [0.1] * 49_999 + [1e4]), Transforms((Log(),)))
    assert wild.mean.item() == pytest.approx(calm.mean.item(), rel=0.01)


@pytest.mark.parametrize("transform", [Log(), YeoJohnson(0.3, 1.5)])
def test_crps_is_that_of_draws(transform):
    law, y = Warped(TWO, Transforms((transform,))), np.array([[1.3]])
    first, second = law.sample(200_000, seed=1), law.sample(200_000, seed=2)
    expected = np.abs(first - y).mean() - 0.5 * np.abs(first - second).mean()
    assert crps(law, y).item() == pytest.approx(expected, rel=0.01)


def test_crps_of_no_transform_is_the_closed_form():
    y = np.array([[1.3]])
    assert crps(Warped(TWO, Transforms((Untransformed(),))), y).item() == pytest.approx(crps(TWO, y).item(), rel=3e-3)


def test_rows_outputs_and_correlations():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((300, 5, 1))
    means = np.concatenate([shared, shared, rng.standard_normal((300, 5, 1))], axis=2)
    plain = Prediction(means.mean(0), means.var(0) + 0.1, means, np.full(means.shape, 0.1))
    law = Warped(plain, Transforms((Log(), Untransformed(), YeoJohnson(0.5, 1.0))))
    y = np.exp(rng.standard_normal((5, 3)))
    some = law.rows(np.array([1, 3])).outputs(np.array([2, 0]))
    known = np.where([True, False, True], y, np.nan)
    np.testing.assert_allclose(some.log_density(y[[1, 3]][:, [2, 0]]), law.log_density(known)[[1, 3]])
    np.testing.assert_allclose(some.mean, law.mean[[1, 3]][:, [2, 0]], rtol=1e-9)
    correlations = law.correlations()
    assert (correlations[:, 0, 1] > 0.6).all()
    assert (np.abs(correlations[:, 0, 2]) < 0.3).all()
