"""Gauss–Hermite quadrature for a σ of one's own, and erf times a polynomial, which uses it."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy import special
from tests.helpers.normal_integrals import covariance, expect, variance

from mogul.errors import ConfigError
from mogul.nonlinearities import Erf, PolynomialErf, Quadrature

COEFFICIENTS = [(0.7,), (0.0, 1.0), (0.5, -1.0, 0.3), (0.0, 0.2, 0.0, -0.1)]
by_coefficients = pytest.mark.parametrize("coefficients", COEFFICIENTS, ids=str)
ROWS = [*product([0.0, 0.4, -1.5], [1e-10, 0.3, 1.5])]
PAIRS = [(0.0, 0.0, 1.0, 1.0), (0.4, -1.5, 0.3, 1.2), (0.2, 0.1, 1e-10, 1.0)]
CORRELATIONS = [0.0, 0.6, -0.6, 0.999]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def polynomial_erf(coefficients):
    return lambda a: sum(c * a**power for power, c in enumerate(coefficients)) * special.erf(a)


def cube(a):
    return a**3 - a


def all_pairs():
    """Each pair of arguments with each correlation: means, variances, covariances, and the rows themselves."""
    rows = [(*pair, rho) for pair, rho in product(PAIRS, CORRELATIONS)]
    mean1, mean2, var1, var2, rho = tensor(rows).T
    return (mean1, mean2), (var1, var2), rho * (var1 * var2).sqrt(), rows


def integrated(function, rows):
    return [covariance(function, (m1, m2), (v1, v2), rho) for m1, m2, v1, v2, rho in rows]


def test_a_cubic_is_exact_with_four_nodes():
    mean, var = tensor(ROWS).T
    sigma = Quadrature(cube, order=4)
    # Var(a³ − a) = Var(a³) − 2 Cov(a³, a) + Var(a), from the moments of a Normal.
    cubes = 9 * mean**4 * var + 36 * mean**2 * var**2 + 15 * var**3
    cross = 3 * mean**2 * var + 3 * var**2
    torch.testing.assert_close(sigma.mean(mean, var), mean**3 + 3 * mean * var - mean, rtol=0, atol=1e-13)
    torch.testing.assert_close(sigma.variance(mean, var), cubes - 2 * cross + var, rtol=0, atol=1e-12)


def test_the_covariance_of_a_square_is_exact_with_three_nodes():
    mean, var, cov, _ = all_pairs()
    # Isserlis: Cov(a², b²) = 2c² + 4 μ₁μ₂ c.
    expected = 2 * cov**2 + 4 * mean[0] * mean[1] * cov
    torch.testing.assert_close(Quadrature(torch.square, order=3).pair_covariance(mean, var, cov), expected)


def test_two_nodes_are_too_few_for_a_cubic():
    one = tensor([1.0])
    assert abs(Quadrature(cube, order=2).variance(one, one) - Quadrature(cube, order=4).variance(one, one)) > 1


def test_order_one_hundred_on_erf_agrees_with_the_closed_form():
    sigma, exact = Quadrature(torch.erf, order=100), Erf()
    mean, var = tensor(ROWS).T
    torch.testing.assert_close(sigma.mean(mean, var), exact.mean(mean, var), rtol=0, atol=1e-12)
    torch.testing.assert_close(sigma.variance(mean, var), exact.variance(mean, var), rtol=0, atol=1e-12)
    pairs = all_pairs()[:3]
    torch.testing.assert_close(sigma.pair_covariance(*pairs), exact.pair_covariance(*pairs), rtol=0, atol=1e-12)


def test_a_smooth_function_equals_its_integral():
    sigma = Quadrature(torch.sin, order=40)
    mean, var = tensor(ROWS).T
    np.testing.assert_allclose(sigma.mean(mean, var), [expect(np.sin, m, v) for m, v in ROWS], rtol=0, atol=1e-12)
    np.testing.assert_allclose(sigma.variance(mean, var), [variance(np.sin, m, v) for m, v in ROWS], rtol=0, atol=1e-12)
    *pairs, rows = all_pairs()
    np.testing.assert_allclose(sigma.pair_covariance(*pairs), integrated(np.sin, rows), rtol=0, atol=1e-12)


def test_more_nodes_come_closer_across_a_kink():
    zero, one = tensor([0.0]), tensor([1.0])
    exact = (2 * np.pi) ** -0.5
    errors = [abs(Quadrature(torch.relu, order).mean(zero, one).item() - exact) for order in (10, 40, 160)]
    assert errors[0] > errors[1] > errors[2] > 1e-4


@by_coefficients
def test_polynomial_erf_has_its_value(coefficients):
    a = torch.linspace(-3, 3, 31, dtype=torch.float64)
    expected = polynomial_erf(coefficients)(a.numpy())
    np.testing.assert_allclose(PolynomialErf(coefficients)(a).numpy(), expected, rtol=0, atol=1e-14)


@by_coefficients
def test_polynomial_erf_mean_and_variance_equal_integrals(coefficients):
    sigma, function = PolynomialErf(coefficients), polynomial_erf(coefficients)
    mean, var = tensor(ROWS).T
    np.testing.assert_allclose(sigma.mean(mean, var), [expect(function, m, v) for m, v in ROWS], rtol=0, atol=1e-12)
    actual = sigma.variance(mean, var)
    np.testing.assert_allclose(actual, [variance(function, m, v) for m, v in ROWS], rtol=0, atol=1e-9)


@by_coefficients
def test_polynomial_erf_covariance_equals_integral(coefficients):
    *pairs, rows = all_pairs()
    actual = PolynomialErf(coefficients).pair_covariance(*pairs)
    np.testing.assert_allclose(actual, integrated(polynomial_erf(coefficients), rows), rtol=0, atol=1e-9)


def test_polynomial_erf_of_degree_zero_is_a_multiple_of_erf():
    *pairs, _ = all_pairs()
    expected = 0.49 * Erf().pair_covariance(*pairs)
    torch.testing.assert_close(PolynomialErf((0.7,)).pair_covariance(*pairs), expected, rtol=0, atol=1e-12)


def test_matrices_are_symmetric_although_the_rule_is_not(generator):
    root = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    mean = torch.randn(6, generator=generator, dtype=torch.float64)
    matrix = Quadrature(torch.tanh, order=40).cross_moment(mean, root @ root.T / 6)
    assert torch.equal(matrix, matrix.T)
    assert torch.linalg.eigvalsh(matrix).min() > -1e-8


def test_polynomial_erf_without_a_polynomial_is_refused():
    with pytest.raises(
        ConfigError, match=r"coefficients must be one number or more; got none\. \(0\.0, 1\.0\) is x erf"
    ):
        PolynomialErf(())


@pytest.mark.parametrize("order", [0, -3])
def test_an_order_without_nodes_is_refused(order):
    with pytest.raises(ConfigError, match=rf"order must be at least 1; got {order}\. The paper uses 100\."):
        Quadrature(torch.tanh, order=order)


@pytest.mark.parametrize("level", [1.0, 0.0])
def test_gradients_are_finite_for_equal_units_and_for_zero_variance(level):
    mean = torch.tensor([0.3, 0.5], dtype=torch.float64, requires_grad=True)
    cov = torch.full((2, 2), level, dtype=torch.float64, requires_grad=True)
    Quadrature(torch.tanh, order=10).cross_moment(mean, cov).sum().backward()
    assert torch.isfinite(mean.grad).all()
    assert torch.isfinite(cov.grad).all()
