"""Densities far out in the tails, against scipy's integrals, by PyTorch and in the components of a prediction."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

from mogul.core.moments import Marginals
from mogul.core.scale_mixture import LogScale
from mogul.heads.noise.laws import LogNormalLaw, NormalLaw
from mogul.heads.noise.student_t import LogNormalStudentTLaw, StudentTLaw

SCALES = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 14.0, 20.0, 30.0, 50.0, 100.0, 400.0, 1000.0, 5000.0])
CENTER = -1.3
each_precision = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
signal_vars = pytest.mark.parametrize("share", [0.0, 0.1, 1.0, 4.0, 20.0, 1e4])


def law_of(spread: float, dof: float | None, floor_var: float = 0.0, dtype: torch.dtype = torch.float64) -> NormalLaw:
    """Noise of one output whose log variance is CENTER in the mean, at as many points as there are scales."""
    level, column = torch.tensor([0.4], dtype=dtype), torch.ones(len(SCALES), 1, dtype=dtype)
    floor, relative = torch.tensor([floor_var], dtype=dtype), (CENTER + 0.4) * column
    if dof is None:
        return LogNormalLaw(level, relative, floor, spread * column)
    tails = torch.tensor([dof], dtype=dtype)
    if spread == 0:
        return StudentTLaw(level, relative, floor, tails)
    return LogNormalStudentTLaw(level, relative, floor, spread=spread * column, dof=tails)


def densities(law: NormalLaw, gap: np.ndarray, signal_var: float) -> tuple[np.ndarray, np.ndarray]:
    """By PyTorch and by NumPy."""
    y = torch.as_tensor(gap[:, None]).to(law.relative)
    signal = Marginals(torch.zeros_like(y), torch.full_like(y, signal_var))
    with torch.no_grad():
        found = law.log_density(y, torch.ones_like(y, dtype=torch.bool), signal)
        joint = law.joint(signal.var.unsqueeze(0), torch.ones(1).to(y))
    mean = np.zeros((1, *y.shape))
    return found.double().numpy(), joint.log_density(y.double().numpy(), mean, mean + 1.0)[0]


def log_integral(log_integrand, low: float, high: float) -> float:
    """By scipy, on pieces between which the integrand, taken out by its largest value, is looked at closely."""
    w = np.linspace(low, high, 20_001)
    values = log_integrand(w)
    largest = values.max()
    inside = w[values > largest - 40]
    edges = np.linspace(inside[0], inside[-1], 25)
    parts = [
        integrate.quad(lambda at: math.exp(log_integrand(at) - largest), left, right, epsabs=1e-10)[0]
        for left, right in pairwise(edges)
    ]
    return math.log(sum(parts)) + largest


def exact(gap: float, rest: float, spread: float, dof: float | None) -> float:
    """log ∫ p(w) N(gap | 0, e^w + rest) dw, with w Normal or that of Student's t."""
    reach = max(0.0, math.log(max(gap**2, 1e-300)) - CENTER)

    def log_integrand(offset):
        total = np.exp(CENTER + offset) + rest
        if dof is None:
            prior = -0.5 * (np.log(2 * math.pi * spread) + offset**2 / spread)
        else:
            half = 0.5 * dof
            prior = half * math.log(half) - gammaln(half) - half * (offset + np.exp(-offset))
        return prior - 0.5 * (np.log(2 * math.pi * total) + gap**2 / total)

    if dof is None:
        return log_integral(log_integrand, -9 * spread**0.5 - spread, reach + 9 * spread**0.5)
    return log_integral(log_integrand, -min(8.0, 12 * (2 / dof) ** 0.5), reach + 80 / dof + 12 * (2 / dof) ** 0.5)


def assert_right(found: np.ndarray, expected: np.ndarray, scales: np.ndarray = SCALES) -> None:
    """To 0.05 nat up to 30 scales, to 2 % beyond."""
    error = np.abs(found - expected)
    assert error[scales <= 30].max() < 0.05
    assert (error / np.abs(expected))[scales > 30].max(initial=0) < 0.02


@each_precision
@signal_vars
@pytest.mark.parametrize("spread", [1e-6, 0.01, 0.25, 1.0, 2.25])
@pytest.mark.parametrize("in_units_of_all", [False, True], ids=["noise", "total"])
def test_a_normal_log_variance(spread, share, in_units_of_all, dtype):
    """Some of these have two modes: either the signal is off, or the noise is large."""
    noise_var = math.exp(CENTER)
    gap = SCALES * math.sqrt(noise_var * (1 + share * in_units_of_all))
    expected = np.array([exact(each, share * noise_var, spread, None) for each in gap])
    for found in densities(law_of(spread, None, dtype=dtype), gap, share * noise_var):
        assert_right(found, expected)


@each_precision
@signal_vars
@pytest.mark.parametrize("dof", [2.1, 3.0, 10.0, 200.0])
@pytest.mark.parametrize("in_units_of_all", [False, True], ids=["noise", "total"])
def test_students_t(dof, share, in_units_of_all, dtype):
    noise_var = math.exp(CENTER)
    gap = SCALES * math.sqrt(noise_var * (1 + share * in_units_of_all))
    expected = np.array([exact(each, share * noise_var, 0.0, dof) for each in gap])
    for found in densities(law_of(0.0, dof, dtype=dtype), gap, share * noise_var):
        assert_right(found, expected)


@each_precision
@pytest.mark.parametrize("dof", [2.1, 3.0, 10.0, 200.0])
def test_students_t_without_a_signal_is_scipys(dof, dtype):
    scale = math.exp(0.5 * CENTER)
    for found in densities(law_of(0.0, dof, dtype=dtype), SCALES * scale, 0.0):
        np.testing.assert_allclose(found, stats.t(dof, scale=scale).logpdf(SCALES * scale), rtol=1e-4, atol=1e-4)


@each_precision
@pytest.mark.parametrize("dof", [2.1, 4.0, 10.0, 50.0, 200.0])
@pytest.mark.parametrize("spread", [0.01, 0.25, 1.0, 2.25])
@pytest.mark.parametrize("share", [0.0, 1.0, 20.0])
def test_students_t_of_a_normal_log_scale(dof, spread, share, dtype):
    """Against sums over a fine grid of log scales g of what is exact given g: Student's t, or its integral."""
    noise_var = math.exp(CENTER)
    scales, gap = SCALES[::2], SCALES[::2] * math.sqrt(noise_var)
    rest = share * noise_var
    z = np.linspace(-10, 10 + min(0.5 * dof * spread**0.5, 17 / spread**0.5), 4001)
    log_step = stats.norm.logpdf(z) + math.log(z[1] - z[0])
    center = CENTER + spread**0.5 * z
    if rest == 0:
        each = stats.t(dof, scale=np.exp(0.5 * center)[:, None]).logpdf(gap)
    else:  # right to 0.001 by the tests above
        column = torch.as_tensor(center)[:, None]
        given = LogScale(column, torch.zeros(1).double(), torch.zeros(1).double(), torch.tensor([0.5 * dof]).double())
        each = given.log_density(torch.as_tensor(gap**2), torch.full((len(gap),), rest).double()).numpy()
    expected = logsumexp(each + log_step[:, None], axis=0)
    all_gaps = np.interp(np.arange(len(SCALES)), np.arange(0, len(SCALES), 2), gap)
    for found in densities(law_of(spread, dof, dtype=dtype), all_gaps, rest):
        assert_right(found[::2], expected, scales)


@pytest.mark.parametrize(("spread", "dof"), [(0.05, None), (0.3, None), (0.9, None), (0.0, 4.0), (0.5, 2.5)])
def test_the_rule_of_fixed_nodes_gives_way_where_another_is_needed(spread, dof):
    """Where it is used, it is what the rule around the modes gives; farther out it would be off."""
    scale = LogScale(*(torch.tensor([value]).double() for value in (CENTER, spread, 0.0)), None)
    if dof is not None:
        scale = LogScale(scale.center, scale.spread, scale.floor_var, torch.tensor([0.5 * dof]).double())
    for share in (0.2, 1.0, 5.0, 100.0):
        rest = torch.full((200,), share * math.exp(CENTER)).double()
        square = torch.linspace(0, 25, 200).double().square() * (math.exp(CENTER) + rest)
        near, found = scale._is_near(square, rest), scale.log_density(square, rest)
        around = scale._around_two(square, rest)
        assert near.sum() >= 15
        assert (found - around)[near].abs().max() < 0.01
        assert (found - around)[~near].abs().max() < 0.03
    far = torch.tensor([1e4]).double()
    assert (scale._by_fixed_nodes(far, 0 * far) - scale._around_two(far, 0 * far)).abs() > 0.05


@pytest.mark.parametrize("dof", [2.1, 5.0, 50.0])
def test_students_t_beside_little_else_is_closed_form(dof):
    """To first order in the other's variance, gradients too: the rule by nodes is another way to it."""
    shape, zero = torch.tensor([0.5 * dof]).double(), torch.zeros(1).double()
    rest = torch.full((len(SCALES),), 0.05 / (dof + 1), dtype=torch.float64, requires_grad=True)
    scale, square = LogScale(zero, zero, zero, shape), torch.as_tensor(SCALES).square()
    values = [scale._students_t(square, rest), scale._around_two(square, rest)]
    slopes = [torch.autograd.grad(value.sum(), rest)[0] for value in values]
    torch.testing.assert_close(*values, atol=2e-3, rtol=0)
    torch.testing.assert_close(*slopes, atol=0.02 * dof, rtol=0)


@pytest.mark.parametrize(("spread", "dof"), [(0.3, None), (0.0, 4.0), (0.3, 4.0)])
def test_a_floor_is_a_normal_part_of_its_own(spread, dof):
    """It is to the density what the signal's variance is."""
    gap = SCALES * math.exp(0.5 * CENTER)
    for one, two in zip(
        densities(law_of(spread, dof, floor_var=0.2), gap, 0.1), densities(law_of(spread, dof), gap, 0.3), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize(("spread", "dof"), [(0.5, None), (2.25, None), (0.0, 3.0), (0.5, 3.0), (0.5, 30.0)])
@pytest.mark.parametrize("scales", [0.5, 3.0, 100.0])
def test_gradients_are_those_of_finite_differences(spread, dof, scales):
    """Nodes move with what is learnt from, and are held still in the backward pass."""
    names = ["center", "var", "gap"] + ["spread"] * (spread > 0) + ["shape"] * (dof is not None)
    start = {"center": CENTER, "var": 0.1, "gap": scales * math.exp(0.5 * CENTER), "spread": spread}
    start |= {"shape": 0.0 if dof is None else 0.5 * dof}

    def value(**changed: torch.Tensor) -> torch.Tensor:
        given = {name: torch.tensor([number]).double() for name, number in start.items()} | changed
        shape = None if dof is None else given["shape"]
        law = LogScale(given["center"], given["spread"], torch.zeros(1).double(), shape)
        return law.log_density(given["gap"].square(), given["var"]).sum()

    for name in names:
        leaf = torch.tensor([start[name]], dtype=torch.float64, requires_grad=True)
        (found,) = torch.autograd.grad(value(**{name: leaf}), leaf)
        step = 1e-4 * max(1.0, abs(start[name]))
        up, down = (value(**{name: leaf.detach() + side * step}).item() for side in (1, -1))
        assert found.item() == pytest.approx((up - down) / (2 * step), rel=3e-3, abs=3e-4), name


def test_parts_of_a_prediction_are_computed_by_themselves(monkeypatch):
    """However many densities are integrated at once, the result is the same."""
    law, gap = law_of(0.3, 5.0), SCALES
    _, whole = densities(law, gap, 0.1)
    monkeypatch.setattr("mogul.core.scale_mixture._AT_ONCE", 3)
    np.testing.assert_allclose(densities(law, gap, 0.1)[1], whole, rtol=1e-12)
