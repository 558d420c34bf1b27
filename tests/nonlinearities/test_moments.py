"""Moments of every nonlinearity against Monte Carlo and fine integration, over easy and extreme arguments."""

from itertools import product

import mpmath
import numpy as np
import pytest
import torch
from scipy import special
from tests.helpers.normal_integrals import covariance, expect, variance

from mogul.errors import ConfigError, UnknownNameError
from mogul.nonlinearities import PolynomialErf, Quadrature, by_name, erf_moment, names

NUM_DRAWS = 1_000_000
FUNCTIONS = {
    "erf": special.erf,
    "sherf": lambda a: 1 + special.erf(a),
    "relu": lambda a: np.maximum(a, 0.0),
    "leaky": lambda a: np.where(a > 0, a, 0.35 * a),
}
# (μ₁, μ₂, Σ₁₁, Σ₂₂): plain, unequal, tiny variances at the kink and away from it, huge means, huge variances.
ARGUMENTS = [
    (0.0, 0.0, 1.0, 1.0),
    (0.3, -0.7, 0.5, 2.0),
    (2.0, -1.0, 4.0, 0.1),
    (1e-5, -2e-5, 1e-10, 1e-10),
    (0.4, -0.2, 1e-10, 1.0),
    (50.0, -50.0, 1.0, 2.0),
    (1e3, 0.5, 1.0, 1.0),
    (-1e3, 50.0, 3.0, 1e-10),
    (3.0, 20.0, 100.0, 400.0),
]
CORRELATIONS = [0.0, 0.5, -0.5, 0.95, 0.999999, -0.999999, 1.0, -1.0]
SMOOTH = {"polynomial erf": PolynomialErf((0.5, -1.0, 0.3), order=12), "quadrature": Quadrature(torch.tanh, order=12)}
by_nonlinearity = pytest.mark.parametrize("name", FUNCTIONS)
by_any_nonlinearity = pytest.mark.parametrize("name", [*FUNCTIONS, *SMOOTH])


def nonlinearity(name):
    return SMOOTH[name] if name in SMOOTH else by_name(name)


def tensor(values, **kwargs):
    return torch.tensor(values, dtype=torch.float64, **kwargs)


def univariate_grid():
    """The distinct (mean, variance) among the arguments."""
    pairs = sorted({(m, v) for m1, m2, v1, v2 in ARGUMENTS for m, v in ((m1, v1), (m2, v2))})
    return pairs, *tensor(pairs).T


def pair_covariance(sigma, arguments, correlations, dtype=torch.float64):
    """`pair_covariance` at one (μ₁, μ₂, Σ₁₁, Σ₂₂) for all the correlations."""
    mean1, mean2, var1, var2 = (torch.full((len(correlations),), v, dtype=dtype) for v in arguments)
    cov = torch.tensor(correlations, dtype=dtype) * (var1 * var2).sqrt()
    return sigma.pair_covariance((mean1, mean2), (var1, var2), cov)


def random_covariances(size, rank, generator, count=10):
    root = torch.randn(count, size, rank, generator=generator, dtype=torch.float64)
    return root @ root.transpose(-1, -2) / rank


def assert_within_standard_errors(draws, expected, roundoff):
    """The average of the draws is within five standard errors of what is expected."""
    error = abs(draws.mean() - expected)
    assert error <= 5 * draws.std() / len(draws) ** 0.5 + roundoff


@by_nonlinearity
def test_value_equals_the_definition(name):
    a = torch.linspace(-5, 5, 101, dtype=torch.float64)
    np.testing.assert_allclose(by_name(name)(a).numpy(), FUNCTIONS[name](a.numpy()), rtol=0, atol=1e-15)


@by_nonlinearity
def test_mean_equals_integral(name):
    pairs, mean, var = univariate_grid()
    expected = [expect(FUNCTIONS[name], m, v) for m, v in pairs]
    np.testing.assert_allclose(by_name(name).mean(mean, var).numpy(), expected, rtol=1e-12, atol=1e-12)


@by_nonlinearity
def test_variance_equals_integral_relative_to_its_argument(name):
    pairs, mean, var = univariate_grid()
    expected = np.array([variance(FUNCTIONS[name], m, v) for m, v in pairs])
    scaled = by_name(name).variance(mean, var).numpy() / var.numpy()
    np.testing.assert_allclose(scaled, expected / var.numpy(), rtol=0, atol=1e-9)


@by_nonlinearity
def test_second_moment_equals_integral(name):
    pairs, mean, var = univariate_grid()
    expected = [expect(lambda a: FUNCTIONS[name](a) ** 2, m, v) for m, v in pairs]
    np.testing.assert_allclose(by_name(name).second_moment(mean, var).numpy(), expected, rtol=1e-12, atol=1e-12)


@by_nonlinearity
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_pair_covariance_equals_integral_relative_to_its_arguments(name, arguments):
    mean, var = arguments[:2], arguments[2:]
    scale = (var[0] * var[1]) ** 0.5
    actual = pair_covariance(by_name(name), arguments, CORRELATIONS).numpy() / scale
    expected = [covariance(FUNCTIONS[name], mean, var, rho) / scale for rho in CORRELATIONS]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)


@by_nonlinearity
def test_moments_equal_monte_carlo(name):
    sigma, function = by_name(name), FUNCTIONS[name]
    rng = np.random.default_rng(0)
    z1, other = rng.standard_normal((2, NUM_DRAWS))
    for rho in (0.0, -0.6, 0.98):
        z2 = rho * z1 + np.sqrt(1 - rho**2) * other
        for mean1, mean2, var1, var2 in (ARGUMENTS[1], ARGUMENTS[2], ARGUMENTS[3], ARGUMENTS[6]):
            first, second = function(mean1 + var1**0.5 * z1), function(mean2 + var2**0.5 * z2)
            mean = tensor([mean1, mean2])
            off = rho * (var1 * var2) ** 0.5
            cov = tensor([[var1, off], [off, var2]])
            center = sigma.mean(mean, cov.diagonal()).numpy()
            covariances = sigma.covariance(mean, cov).numpy()
            moments = sigma.cross_moment(mean, cov).numpy()
            roundoff = 1e-12 * max(1.0, abs(moments).max()) * min(1.0, var1 * var2)
            assert_within_standard_errors(first, center[0], 1e-12)
            assert_within_standard_errors(second, center[1], 1e-12)
            assert_within_standard_errors((first - center[0]) ** 2, covariances[0, 0], roundoff)
            assert_within_standard_errors((second - center[1]) ** 2, covariances[1, 1], roundoff)
            assert_within_standard_errors((first - center[0]) * (second - center[1]), covariances[0, 1], roundoff)
            assert_within_standard_errors(first * second, moments[0, 1], 1e-9)


@by_nonlinearity
def test_a_unit_paired_with_itself_has_its_variance(name):
    sigma = by_name(name)
    _, mean, var = univariate_grid()
    paired = sigma.pair_covariance((mean, mean), (var, var), var)
    torch.testing.assert_close(paired / var, sigma.variance(mean, var) / var, rtol=0, atol=1e-12)


@by_any_nonlinearity
def test_independent_units_have_no_covariance(name):
    mean, var = (tensor([0.3]), tensor([-0.7])), (tensor([0.5]), tensor([2.0]))
    assert nonlinearity(name).pair_covariance(mean, var, tensor([0.0])).abs().item() <= 1e-15


@by_any_nonlinearity
def test_cross_moment_is_covariance_plus_product_of_means(name, generator):
    sigma = nonlinearity(name)
    cov = random_covariances(4, 4, generator)
    mean = torch.randn(10, 4, generator=generator, dtype=torch.float64)
    center = sigma.mean(mean, cov.diagonal(dim1=-2, dim2=-1))
    expected = sigma.covariance(mean, cov) + torch.einsum("ni,nj->nij", center, center)
    torch.testing.assert_close(sigma.cross_moment(mean, cov), expected)


@by_any_nonlinearity
def test_matrices_hold_pairs_and_variances_at_their_places(name, generator):
    sigma = nonlinearity(name)
    cov = random_covariances(3, 3, generator, count=1)[0]
    mean = torch.randn(3, generator=generator, dtype=torch.float64)
    matrix = sigma.covariance(mean, cov)
    torch.testing.assert_close(matrix.diagonal(), sigma.variance(mean, cov.diagonal()))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pair = sigma.pair_covariance((mean[i], mean[j]), (cov[i, i], cov[j, j]), cov[i, j])
        torch.testing.assert_close(matrix[i, j], pair)
        torch.testing.assert_close(matrix[j, i], pair)


@by_nonlinearity
@pytest.mark.parametrize(("size", "rank"), [(1, 1), (2, 2), (5, 5), (12, 12), (5, 2), (12, 2), (12, 1)])
def test_matrices_are_symmetric_and_positive_semidefinite(name, size, rank, generator):
    sigma = by_name(name)
    cov = random_covariances(size, rank, generator)
    mean = 2 * torch.randn(10, size, generator=generator, dtype=torch.float64)
    for matrix in (sigma.covariance(mean, cov), sigma.cross_moment(mean, cov)):
        assert torch.equal(matrix, matrix.transpose(-1, -2))
        assert torch.linalg.eigvalsh(matrix).min() > -1e-10


@by_any_nonlinearity
@pytest.mark.parametrize("moment", ["mean", "variance", "second_moment"])
def test_univariate_gradients_are_right(name, moment):
    mean = tensor([0.0, 0.4, -2.0, 3.0], requires_grad=True)
    var = tensor([1.0, 0.05, 2.0, 0.7], requires_grad=True)
    assert torch.autograd.gradcheck(getattr(nonlinearity(name), moment), (mean, var))


@by_any_nonlinearity
def test_pair_gradients_are_right(name):
    sigma = nonlinearity(name)
    mean1, mean2 = tensor([0.0, 0.4, -2.0, 0.1], requires_grad=True), tensor([0.2, -0.3, 1.0, 0.0], requires_grad=True)
    var1, var2 = tensor([1.0, 0.3, 2.0, 5.0], requires_grad=True), tensor([0.5, 1.0, 1.0, 5.0], requires_grad=True)
    correlation = tensor([0.0, 0.6, -0.5, 0.97])
    cov = (correlation * (var1 * var2).sqrt()).detach().requires_grad_()

    def covariances(m1, m2, v1, v2, c):
        return sigma.pair_covariance((m1, m2), (v1, v2), c)

    assert torch.autograd.gradcheck(covariances, (mean1, mean2, var1, var2, cov))


@by_any_nonlinearity
@pytest.mark.parametrize("moment", ["covariance", "cross_moment"])
def test_matrix_gradients_are_right(name, moment, generator):
    mean = torch.randn(2, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    cov = random_covariances(3, 3, generator, count=2).requires_grad_()
    assert torch.autograd.gradcheck(getattr(nonlinearity(name), moment), (mean, cov))


@by_nonlinearity
def test_gradients_are_finite_for_equal_units_and_for_zero_variance(name):
    for level in (1.0, 0.0):
        mean = tensor([0.3, 0.3], requires_grad=True)
        cov = torch.full((2, 2), level, dtype=torch.float64, requires_grad=True)
        by_name(name).cross_moment(mean, cov).sum().backward()
        assert torch.isfinite(mean.grad).all()
        assert torch.isfinite(cov.grad).all()


@by_nonlinearity
def test_zero_variance_gives_the_value_itself(name):
    sigma = by_name(name)
    mean = tensor([-50.0, -0.3, 0.0, 0.7, 1e3])
    cov = torch.zeros(5, 5, dtype=torch.float64)
    torch.testing.assert_close(sigma.mean(mean, cov.diagonal()), sigma(mean))
    assert torch.equal(sigma.covariance(mean, cov), cov)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_relu_moments_are_never_negative(dtype):
    mean = -torch.linspace(0, 12, 1001, dtype=dtype)
    for moment in (by_name("relu").mean, by_name("relu").variance):
        assert moment(mean, torch.ones_like(mean)).min() >= 0


@by_nonlinearity
def test_float32_agrees_with_float64(name):
    sigma = by_name(name)
    _, mean, var = univariate_grid()
    for moment in (sigma.mean, sigma.variance, sigma.second_moment):
        single = moment(mean.float(), var.float())
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), moment(mean, var), rtol=1e-5, atol=1e-5)
    for arguments in ARGUMENTS:
        scale = (arguments[2] * arguments[3]) ** 0.5
        single = pair_covariance(sigma, arguments, CORRELATIONS, torch.float32).double() / scale
        double = pair_covariance(sigma, arguments, CORRELATIONS) / scale
        torch.testing.assert_close(single, double, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("power", [0, 1, 2, 3, 6])
def test_erf_moment_equals_integral(power):
    rows = [*product([0.0, 0.3, -2.0, 50.0, -50.0], [1e-10, 0.5, 4.0, 100.0])]
    expected = [expect(lambda a: a**power * special.erf(a), m, v) for m, v in rows]
    mean, var = tensor(rows).T
    np.testing.assert_allclose(erf_moment(power, mean, var).numpy(), expected, rtol=2e-12, atol=1e-12)


@pytest.mark.parametrize("power", [0, 1, 2, 5])
def test_erf_moment_has_the_right_gradient(power):
    mean, var = tensor([0.0, 0.3, -2.0], requires_grad=True), tensor([0.5, 1e-3, 4.0], requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, v: erf_moment(power, m, v), (mean, var))


@pytest.mark.parametrize(("mean", "var"), [(0.4, 0.3), (-1.5, 2.0)])
def test_erf_moment_of_the_fifth_power_equals_mpmaths_integral(mean, var):
    def integrand(a):
        return a**5 * mpmath.erf(a) * mpmath.npdf(a, mean, mpmath.sqrt(var))

    expected = mpmath.quad(integrand, [-20, -2, 0, 2, 20])
    assert erf_moment(5, tensor(mean), tensor(var)).item() == pytest.approx(float(expected), rel=1e-13)


def test_erf_moment_of_a_negative_power_is_refused():
    with pytest.raises(ConfigError, match=r"power must be 0 or more; got -1\."):
        erf_moment(-1, torch.zeros(1), torch.ones(1))


def test_names_are_the_four_of_the_paper():
    assert names() == ["erf", "sherf", "relu", "leaky"]


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(UnknownNameError) as caught:
        by_name("rleu")
    message = str(caught.value)
    assert message == "nonlinearity must be one of erf, sherf, relu, leaky; got 'rleu'. Did you mean 'relu'?"
