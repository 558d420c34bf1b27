"""Φ, Φ₂ and the excess integrals against scipy, closed forms and fine integration."""

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.helpers.normal_integrals import covariance, expect_product

from mogul.nonlinearities.gaussian import bivariate_cdf, cdf, excess, integrate_fixed, pdf, rectified_excess

POINTS = [0.0, 0.3, -1.1, 2.5, -4.0]
CORRELATIONS = [0.0, 0.5, -0.5, 0.9249, 0.9251, 0.999999, -0.999999]
FUNCTIONS = [excess, rectified_excess, bivariate_cdf]
by_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)


def tensor(values, **kwargs):
    return torch.tensor(values, dtype=torch.float64, **kwargs)


def grid(correlations, points=POINTS):
    """All (h, k, ρ), as three tensors and as a list; of (h, k) and (k, h) only one."""
    rows = [(*pair, rho) for pair, rho in product(combinations_with_replacement(points, 2), correlations)]
    return tensor(rows).T, rows


def assert_close(actual, expected, atol):
    np.testing.assert_allclose(actual.detach().numpy(), np.asarray(expected), rtol=0, atol=atol)


def relu(a):
    return np.maximum(a, 0.0)


def test_univariate_density_and_distribution_equal_scipy():
    x = torch.linspace(-38, 38, 401, dtype=torch.float64)
    np.testing.assert_allclose(pdf(x).numpy(), stats.norm.pdf(x.numpy()), rtol=1e-12)
    assert_close(cdf(x), stats.norm.cdf(x.numpy()), atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_lower_tail_keeps_its_relative_precision(dtype):
    x = torch.linspace(-12, 0, 101, dtype=dtype)
    expected = stats.norm.cdf(x.double().numpy())
    np.testing.assert_allclose(cdf(x).double().numpy(), expected, rtol=200 * torch.finfo(dtype).eps)


def test_bivariate_cdf_equals_scipy():
    (h, k, rho), rows = grid([0.0, 0.5, -0.5, 0.93, -0.99, 0.9999])
    expected = [
        stats.multivariate_normal.cdf([a, b], cov=[[1, r], [r, 1]], abseps=1e-12, releps=1e-12) for a, b, r in rows
    ]
    assert_close(bivariate_cdf(h, k, rho), expected, atol=1e-10)


def test_bivariate_cdf_at_the_origin_is_a_quarter_plus_the_arcsine():
    rho = tensor([*CORRELATIONS, 1.0, -1.0])
    zero = torch.zeros_like(rho)
    assert_close(bivariate_cdf(zero, zero, rho), 0.25 + np.arcsin(rho.numpy()) / (2 * math.pi), atol=1e-15)


def test_rectified_excess_at_the_origin_equals_its_closed_form():
    rho = tensor([0.0, 0.5, -0.5, 0.9249, 0.9251, -0.999, 1.0, -1.0])
    zero = torch.zeros_like(rho)
    r = rho.numpy()
    expected = (r * np.arcsin(r) + np.sqrt(1 - r**2) - 1) / (2 * math.pi)
    assert_close(rectified_excess(zero, zero, rho), expected, atol=1e-14)


def test_bivariate_cdf_equals_the_integral_of_the_conditional():
    (h, k, rho), rows = grid(CORRELATIONS)

    def below(a):
        return np.where(a < 0, 1.0, 0.0)

    # X ≤ h means X − h < 0: a step at zero of a Normal with mean −h.
    expected = [expect_product(below, below, (-a, -b), (1.0, 1.0), r) for a, b, r in rows]
    assert_close(bivariate_cdf(h, k, rho), expected, atol=1e-12)


def test_rectified_excess_equals_the_integrated_relu_covariance_beyond_the_linear_part():
    (h, k, rho), rows = grid(CORRELATIONS)
    linear = rho * cdf(h) * cdf(k)
    expected = [covariance(relu, (a, b), (1.0, 1.0), r) for a, b, r in rows]
    assert_close(rectified_excess(h, k, rho) + linear, expected, atol=1e-12)


def test_tiny_correlations_keep_their_relative_precision():
    (h, k, _), _ = grid([0.0])
    rho = torch.full_like(h, 1e-12)
    density = pdf(h) * pdf(k)
    torch.testing.assert_close(excess(h, k, rho), 1e-12 * density, rtol=1e-10, atol=0)
    torch.testing.assert_close(rectified_excess(h, k, rho), 0.5e-24 * density, rtol=1e-10, atol=0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_full_correlation_reaches_the_frechet_bounds(sign):
    (h, k, rho), _ = grid([sign])
    bound = torch.minimum(cdf(h), cdf(k)) if sign > 0 else (cdf(h) - cdf(-k)).clamp_min(0)
    torch.testing.assert_close(bivariate_cdf(h, k, rho), bound, rtol=0, atol=1e-15)


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(h=st.floats(-60, 60), k=st.floats(-60, 60), rho=st.floats(-1, 1))
def test_bivariate_cdf_is_symmetric_complementary_and_within_the_frechet_bounds(h, k, rho):
    h, k, rho = tensor(h), tensor(k), tensor(rho)
    value = bivariate_cdf(h, k, rho)
    assert value == pytest.approx(bivariate_cdf(k, h, rho).item(), abs=1e-15)
    assert value + bivariate_cdf(h, -k, -rho) == pytest.approx(cdf(h).item(), abs=1e-14)
    assert max(0.0, (cdf(h) - cdf(-k)).item()) - 1e-15 <= value <= min(cdf(h).item(), cdf(k).item()) + 1e-15


@by_function
def test_gradients_are_right_on_both_sides_of_the_split(function):
    (h, k, rho), _ = grid([0.0, 0.5, -0.5, 0.9249, 0.9251, -0.95, 0.99], points=[0.3, -1.1, 2.5])
    assert torch.autograd.gradcheck(function, tuple(v.clone().requires_grad_() for v in (h, k, rho)))


@by_function
@pytest.mark.parametrize("rho", [0.9999, -0.9999, 0.999999, -0.999999])
def test_gradients_are_right_as_the_correlation_nears_one(function, rho):
    h = tensor([0.3, 1.0, -2.0, 0.0], requires_grad=True)
    k = (math.copysign(1, rho) * tensor([0.3, 1.001, -1.9, 0.5])).requires_grad_()
    correlation = torch.full((4,), rho, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (h, k, correlation), eps=1e-9, rtol=1e-4, atol=1e-5)


@by_function
def test_values_and_gradients_stay_finite_for_saturated_arguments(function):
    rows = list(
        product([-math.inf, -1e3, -41.0, 0.0, 50.0, 1e200], [-1e3, 0.5, math.inf], [0.0, 0.5, -0.99, 1 - 1e-12])
    )
    h, k, rho = (v.clone().requires_grad_() for v in tensor(rows).T)
    value = function(h, k, rho)
    value.sum().backward()
    for result in (value, h.grad, k.grad, rho.grad):
        assert torch.isfinite(result).all()


def test_saturated_arguments_give_the_univariate_limits():
    k = tensor([-1.0, 0.0, 2.0])
    rho = tensor([0.5, -0.99, 0.999])
    torch.testing.assert_close(bivariate_cdf(torch.full_like(k, 1e3), k, rho), cdf(k), rtol=0, atol=1e-15)
    assert_close(bivariate_cdf(torch.full_like(k, -1e3), k, rho), [0.0, 0.0, 0.0], atol=1e-300)


@by_function
def test_float32_agrees_with_float64(function):
    arguments, _ = grid([0.0, 0.5, -0.5, 0.9249, 0.9251, -0.95, 0.999])
    single = function(*arguments.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), function(*arguments.float().double()), rtol=0, atol=1e-6)


@pytest.mark.parametrize("function", [excess, bivariate_cdf, rectified_excess])
@pytest.mark.parametrize("rho", [0.5, -0.95])
def test_second_derivatives_are_right(function, rho):
    arguments = tuple(tensor([v], requires_grad=True) for v in (0.3, -0.4, rho))
    assert torch.autograd.gradgradcheck(function, arguments)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-10), (torch.float32, 1e-7)])
def test_one_rule_for_all_correlations_equals_the_choice_by_correlation(dtype, atol):
    correlations = [0.0, 1e-4, 0.3, 0.9, 0.93, 0.999, 1 - 1e-6, 1 - 1e-7, 1.0]
    nearly = [0.3 + gap for gap in (1e-7, 1e-5, 1e-3, 0.1)]
    (h, k, rho), _ = grid(correlations, [*POINTS, *nearly, 8.0, -39.0])
    h, k, rho = (part.to(dtype) for part in (h, k, rho))
    found = integrate_fixed(h, k, rho)
    expected = [function(h.double(), k.double(), rho.double()) for function in (excess, rectified_excess)]
    for one, other in zip(found, expected, strict=True):
        assert_close(one.double(), other, atol)
