"""Piecewise polynomials: moments against fine integration, and against the closed forms of ReLU and erf's kin."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from mogul.errors import ConfigError
from mogul.nonlinearities import LeakyReLU, PiecewisePolynomial, SoftSquare

HAT = PiecewisePolynomial((-1.0, 0.0, 1.0), ((0.0,), (1.0, 1.0), (1.0, -1.0), (0.0,)))
STEPS = PiecewisePolynomial((-0.5, 1.2), ((-1.0,), (0.5,), (2.0,)))
CUBIC = PiecewisePolynomial((0.3,), ((0.1, -1.0, 0.0, 0.2), (1.0, 0.5, -0.7)))
WHOLE = PiecewisePolynomial((), ((0.5, -1.0, 0.25, 0.1),))
EACH = {"hat": HAT, "steps": STEPS, "cubic": CUBIC, "whole": WHOLE}
by_function = pytest.mark.parametrize("name", EACH)
# (μ₁, μ₂, Σ₁₁, Σ₂₂)
ARGUMENTS = [
    (0.0, 0.0, 1.0, 1.0),
    (0.3, -0.7, 0.5, 2.0),
    (1.0, 0.2, 0.04, 0.3),
    (1e-4, 1.0, 1e-6, 1e-6),
    (6.0, -4.0, 1.0, 3.0),
]
CORRELATIONS = (-0.9, -0.3, 0.0, 0.5, 0.97)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def rule(mean, scale, breaks):
    """Gauss–Legendre nodes and weights against N(mean, scale²), with panels that end at the breaks."""
    edges = np.unique(np.clip([*mean + scale * np.linspace(-9, 9, 13), *breaks], mean - 9 * scale, mean + 9 * scale))
    nodes, weights = [], []
    for low, high in pairwise(edges):
        a = 0.5 * (low + high) + 0.5 * (high - low) * _NODES
        nodes.append(a)
        weights.append(0.5 * (high - low) * _WEIGHTS * np.exp(-0.5 * ((a - mean) / scale) ** 2))
    return np.concatenate(nodes), np.concatenate(weights) / (scale * np.sqrt(2 * np.pi))


def value(sigma, a):
    """σ(a) by NumPy's own piecewise polynomials."""
    conditions = [np.searchsorted(sigma.breaks, a, side="right") == j for j in range(len(sigma.pieces))]
    return sum(
        here * np.polynomial.polynomial.polyval(a, piece) for here, piece in zip(conditions, sigma.pieces, strict=True)
    )


def integrated_covariance(sigma, mean, var, rho):
    scale = np.sqrt(var)
    a, weight = rule(mean[0], scale[0], [*sigma.breaks])
    center = mean[1] + rho * scale[1] * (a - mean[0]) / scale[0]
    inner = np.zeros_like(a)
    for place, middle in enumerate(center):
        b, inner_weight = rule(middle, scale[1] * np.sqrt(1 - rho**2), sigma.breaks)
        inner[place] = inner_weight @ value(sigma, b)
    levels = [
        own_weight @ value(sigma, own)
        for own, own_weight in (rule(m, s, sigma.breaks) for m, s in zip(mean, scale, strict=True))
    ]
    return weight @ ((value(sigma, a) - levels[0]) * (inner - levels[1]))


@by_function
def test_value_equals_numpys(name):
    a = np.linspace(-3, 3, 61) + 1e-3
    np.testing.assert_allclose(EACH[name](tensor(a)).numpy(), value(EACH[name], a), rtol=0, atol=1e-14)


@by_function
def test_mean_and_variance_equal_integrals(name):
    sigma = EACH[name]
    for mean, var in sorted({pair for m1, m2, v1, v2 in ARGUMENTS for pair in ((m1, v1), (m2, v2))}):
        a, weight = rule(mean, np.sqrt(var), sigma.breaks)
        center = weight @ value(sigma, a)
        spread = weight @ (value(sigma, a) - center) ** 2
        one, two = tensor([mean]), tensor([var])
        assert sigma.mean(one, two).item() == pytest.approx(center, rel=1e-11, abs=1e-11)
        assert sigma.variance(one, two).item() == pytest.approx(spread, rel=1e-7, abs=1e-9 * var)


@by_function
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_covariance_equals_integral(name, arguments):
    sigma, mean, var = EACH[name], arguments[:2], arguments[2:]
    expected = [integrated_covariance(sigma, mean, var, rho) for rho in CORRELATIONS]
    count = len(CORRELATIONS)
    means, variances = ([tensor([each] * count) for each in pair] for pair in (mean, var))
    cov = tensor(CORRELATIONS) * (var[0] * var[1]) ** 0.5
    actual = sigma.pair_covariance(tuple(means), tuple(variances), cov).numpy()
    scale = sigma.variance(tensor(mean), tensor(var)).sqrt().prod().item()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-8 * max(scale, (var[0] * var[1]) ** 0.5))


@pytest.mark.parametrize("slope", [0.0, 0.35])
def test_a_leaky_relu_is_a_piecewise_polynomial(slope):
    sigma, own = LeakyReLU(slope), PiecewisePolynomial((0.0,), ((0.0, slope), (0.0, 1.0)))
    grid = tensor(list(product((-50.0, -0.3, 0.0, 2.0), (1e-8, 0.5, 4.0))))
    mean, var = grid.T
    torch.testing.assert_close(own.mean(mean, var), sigma.mean(mean, var), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(own.variance(mean, var), sigma.variance(mean, var), rtol=1e-7, atol=1e-13)
    for rho in (-1.0, -0.5, 0.999, 1.0):
        pairs = (mean, mean.flip(0)), (var, var.flip(0)), rho * (var * var.flip(0)).sqrt()
        torch.testing.assert_close(own.pair_covariance(*pairs), sigma.pair_covariance(*pairs), rtol=1e-8, atol=1e-12)


def test_steps_of_constants_have_the_probabilities_of_quadrants():
    """A sign: Cov[sign a, sign b] = 2/π asin ρ at zero means."""
    sign = PiecewisePolynomial((0.0,), ((-1.0,), (1.0,)))
    rho, zero, one = tensor([-0.7, 0.2, 1.0]), torch.zeros(3).double(), torch.ones(3).double()
    actual = sign.pair_covariance((zero, zero), (one, one), rho)
    torch.testing.assert_close(actual, 2 / torch.pi * torch.asin(rho), rtol=1e-7, atol=1e-12)


def test_gradients_equal_finite_differences():
    arguments = [tensor([0.3, -0.8]), tensor([0.2, 0.9]), tensor([0.5, 1.5]), tensor([1.1, 0.7]), tensor([0.2, -0.4])]
    arguments = [each.requires_grad_() for each in arguments]
    assert torch.autograd.gradcheck(lambda a, b, c, d, e: CUBIC.pair_covariance((a, b), (c, d), e), arguments)
    assert torch.autograd.gradcheck(CUBIC.mean, arguments[1:3])


def test_single_precision_has_the_moments_of_double():
    mean, var = torch.tensor([0.2, -3.0]), torch.tensor([1e-4, 2.0])
    assert HAT.variance(mean, var).dtype == torch.float32
    torch.testing.assert_close(
        HAT.variance(mean, var).double(), HAT.variance(mean.double(), var.double()), rtol=1e-6, atol=0
    )


def test_a_smooth_unit_is_no_piecewise_polynomial_but_nearly_one_far_from_its_turn():
    """SoftSquare is ½ (a² + ½) for large a: the same moments by other formulas."""
    square, smooth = PiecewisePolynomial((), ((0.25, 0.0, 0.5),)), SoftSquare()
    mean, var = tensor([8.0, 9.0]), tensor([0.5, 1.0])
    torch.testing.assert_close(square.mean(mean, var), smooth.mean(mean, var), rtol=1e-9, atol=0)
    torch.testing.assert_close(square.variance(mean, var), smooth.variance(mean, var), rtol=1e-7, atol=0)


@pytest.mark.parametrize(
    ("breaks", "pieces", "message"),
    [
        ((0.0,), ((1.0,),), "pieces must be coefficients of one polynomial more than there are breaks, 2"),
        ((0.0,), ((1.0,), ()), "pieces must be"),
        ((1.0, 0.0), ((1.0,), (2.0,), (3.0,)), "breaks must increase; got .* Sort them"),
    ],
)
def test_impossible_pieces_are_refused(breaks, pieces, message):
    with pytest.raises(ConfigError, match=message):
        PiecewisePolynomial(breaks, pieces)
