"""What the law of every kind of noise says, against brute force: densities, levels and draws."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from tests.helpers.example_laws import (
    NUM_INPUTS,
    NUM_OUTPUTS,
    NUM_POINTS,
    OBSERVED,
    SIGNAL,
    X,
    Y,
    every_kind,
    law_of,
    make,
    normal,
    with_and_without_floor,
)

from mogul.core.moments import Marginals
from mogul.heads.noise.laws import LogNormalLaw, NormalLaw

NUM_DRAWS = 200_000


def log_mean_exp(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """log of the mean over the first axis, and its standard error."""
    weights = (values - values.amax(0)).exp()
    return weights.mean(0).log() + values.amax(0), weights.std(0) / weights.mean(0) / len(values) ** 0.5


@every_kind
@with_and_without_floor
def test_the_log_density_is_that_of_brute_force(kind, floor):
    """Signals drawn from their marginals, noise from its law: the density of y is a mean over both."""
    law = law_of(kind, floor)
    generator = torch.Generator().manual_seed(6)
    shape = torch.Size([NUM_DRAWS, NUM_POINTS, NUM_OUTPUTS])
    with torch.no_grad():
        signal = SIGNAL.sample(NUM_DRAWS, generator)
        var = law.draw_var(shape, generator).expand(shape)
        if kind == "low-rank":
            z = torch.randn(NUM_DRAWS, NUM_POINTS, 2, generator=generator, dtype=torch.float64)
            signal, var = signal + z @ law.loadings.T, var - law.loadings.square().sum(-1)
        each = torch.distributions.Normal(signal, var.sqrt()).log_prob(Y)
        expected, error = log_mean_exp(torch.where(OBSERVED, each, 0.0).sum(-1))
        found = law.log_density(Y, OBSERVED, SIGNAL)
    assert ((found - expected).abs() <= 5 * error + 1e-12).all()
    assert error.max() < 0.02


@every_kind
@with_and_without_floor
def test_drawn_variances_have_the_variance_of_the_noise_as_their_mean(kind, floor):
    law = law_of(kind, floor)
    shape = torch.Size([100_000, NUM_POINTS, NUM_OUTPUTS])
    with torch.no_grad():
        drawn = law.draw_var(shape, torch.Generator().manual_seed(7)).expand(shape)
        error = 6 * drawn.std(0) / 100_000**0.5
        assert ((drawn.mean(0) - law.var).abs() <= error + 1e-9).all()
    assert (drawn >= floor**2).all()


@every_kind
@with_and_without_floor
@pytest.mark.parametrize("predictive", [False, True], ids=["expected", "predictive"])
def test_the_level_is_at_its_optimum_where_it_is_the_mean_misfit(kind, floor, predictive):
    """Fisher's identity: ∂/∂log β of the fit is ½ Σ (1 − β misfit), whatever the level."""
    noise = make(kind, floor)
    law = noise(X, torch.Generator())
    fit = law.log_density if predictive else law.expected_log_density
    misfit = (law.predictive_misfit if predictive else law.misfit)(Y, OBSERVED, SIGNAL).detach()
    (slope,) = torch.autograd.grad(fit(Y, OBSERVED, SIGNAL).sum(), noise.log_precision)
    expected = 0.5 * (OBSERVED * (1 - noise.log_precision.exp() * misfit)).sum(0)
    torch.testing.assert_close(slope, expected, rtol=1e-6, atol=1e-8)


@every_kind
@with_and_without_floor
def test_the_expected_log_density_lies_below_the_log_density(kind, floor):
    law = law_of(kind, floor)
    below, above = law.expected_log_density(Y, OBSERVED, SIGNAL), law.log_density(Y, OBSERVED, SIGNAL)
    assert (below[:2] < above[:2]).all()
    assert below[2] == above[2] == 0


@every_kind
def test_what_stands_in_for_a_missing_output_does_not_count(kind):
    law, other = law_of(kind, 0.1), torch.where(OBSERVED, Y, 1e3)
    for fit in (law.expected_log_density, law.log_density):
        torch.testing.assert_close(fit(Y, OBSERVED, SIGNAL), fit(other, OBSERVED, SIGNAL), rtol=1e-12, atol=1e-12)
    mean, var = SIGNAL.mean.clone().requires_grad_(), SIGNAL.var.clone().requires_grad_()
    total = law.expected_log_density(Y, OBSERVED, Marginals(mean, var)) + law.log_density(
        Y, OBSERVED, Marginals(mean, var)
    )
    total.sum().backward()
    assert all((value.grad[~OBSERVED] == 0).all() and (value.grad[OBSERVED] != 0).all() for value in (mean, var))


@every_kind
def test_leading_draws_of_the_signal_are_kept(kind):
    law = law_of(kind, 0.1)
    draws = Marginals(normal(4, NUM_POINTS, NUM_OUTPUTS, seed=8), normal(4, NUM_POINTS, NUM_OUTPUTS, seed=9).square())
    for fit in (law.expected_log_density, law.log_density, law.misfit, law.predictive_misfit):
        each = [fit(Y, OBSERVED, Marginals(m, v)) for m, v in zip(draws.mean, draws.var, strict=True)]
        torch.testing.assert_close(fit(Y, OBSERVED, draws), torch.stack(each))


@every_kind
def test_draws_of_the_inputs_are_kept(kind):
    noise, generator = make(kind, 0.1), torch.Generator()
    inputs = normal(4, NUM_POINTS, NUM_INPUTS, seed=8)
    draws = Marginals(normal(4, NUM_POINTS, NUM_OUTPUTS, seed=8), normal(4, NUM_POINTS, NUM_OUTPUTS, seed=9).square())
    each = [
        noise(x, generator).log_density(Y, OBSERVED, Marginals(m, v))
        for x, m, v in zip(inputs, draws.mean, draws.var, strict=True)
    ]
    law = noise(inputs, generator)
    torch.testing.assert_close(law.log_density(Y, OBSERVED, draws), torch.stack(each))
    torch.testing.assert_close(
        law.pooled_var().expand(NUM_POINTS, -1),
        torch.stack([noise(x, generator).var.expand(NUM_POINTS, -1) for x in inputs]).mean(0),
    )


@every_kind
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_a_component_of_a_prediction_has_the_density_of_the_law(kind, scale):
    """The same numbers by NumPy, with NaN for what is missing, in other units."""
    law, unit = law_of(kind, 0.1), torch.full((NUM_OUTPUTS,), scale, dtype=torch.float64)
    with torch.no_grad():
        signal_var = (unit.square() * SIGNAL.var).unsqueeze(0)
        joint = law.joint(signal_var, unit)
        var = signal_var + unit.square() * law.draw_var(signal_var.shape, torch.Generator().manual_seed(1))
        y = torch.where(OBSERVED, Y, math.nan) * unit
        found = joint.log_density(y.numpy(), (unit * SIGNAL.mean)[None].numpy(), var.numpy())[0]
        expected = law.log_density(Y, OBSERVED, SIGNAL) - OBSERVED.double().sum(1) * math.log(scale)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("spread", "tolerance"), [(0.1, 1e-4), (0.5, 3e-3), (1.0, 8e-3), (2.25, 5e-2)])
@pytest.mark.parametrize("floor_var", [0.0, 0.04])
def test_a_normal_log_variance_is_integrated_over(spread, tolerance, floor_var):
    """Against scipy's integral over g ~ N(μ, s) itself, as far as six standard deviations from the mean."""
    mean, level, signal_var = 0.3, 0.2, 0.1
    off = torch.tensor([0.0, 1.0, 2.0, 4.0, 6.0]) * math.exp(0.5 * (mean - level))

    def density(log_var: float, gap: float) -> float:
        var = math.exp(log_var - level) + floor_var + signal_var
        return norm.pdf(log_var, mean, spread**0.5) * norm.pdf(gap, scale=var**0.5)

    expected = [
        math.log(quad(density, mean - 12 * spread**0.5, mean + 12 * spread**0.5, args=(float(gap),), limit=500)[0])
        for gap in off
    ]
    column = torch.ones(len(off), 1)
    law = LogNormalLaw(
        log_precision=torch.tensor([level]),
        relative=mean * column,
        floor_var=torch.tensor([floor_var]),
        spread=spread * column,
    )
    signal = Marginals(torch.zeros(len(off), 1), signal_var * column)
    found = law.log_density(off[:, None], torch.ones(len(off), 1, dtype=torch.bool), signal)
    np.testing.assert_allclose(found, expected, atol=tolerance)


def test_a_normal_law_draws_nothing():
    law, generator = law_of("net"), torch.Generator().manual_seed(0)
    assert isinstance(law, NormalLaw)
    before = generator.get_state()
    law.draw_var(torch.Size([5, NUM_POINTS, NUM_OUTPUTS]), generator)
    assert torch.equal(before, generator.get_state())
