"""Gaussian noise: its expected log density against Monte Carlo, with and without missing outputs."""

import math

import pytest
import torch

from mogul.errors import ConfigError
from mogul.heads import GaussianNoise
from mogul.marginals import Marginals

NUM_POINTS, NUM_OUTPUTS = 2, 3
NUM_DRAWS = 1_000_000


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def noise():
    made = GaussianNoise(NUM_OUTPUTS).double()
    with torch.no_grad():
        made.log_precision.copy_(torch.tensor([0.5, -1.0, 2.0]))
    return made


@pytest.fixture
def signal():
    return Marginals(normal(NUM_POINTS, NUM_OUTPUTS, seed=1), normal(NUM_POINTS, NUM_OUTPUTS, seed=2).square() + 0.1)


Y = normal(NUM_POINTS, NUM_OUTPUTS, seed=3)
MASKS = {
    "all": torch.ones(NUM_POINTS, NUM_OUTPUTS, dtype=torch.bool),
    "some": torch.tensor([[True, False, True], [False, True, False]]),
    "none of one row": torch.tensor([[False, False, False], [True, True, True]]),
}


def test_expected_log_density_equals_monte_carlo(noise, signal, generator):
    with torch.no_grad():
        z = torch.randn(NUM_DRAWS, NUM_POINTS, NUM_OUTPUTS, generator=generator, dtype=torch.float64)
        draws = signal.mean + signal.var.sqrt() * z
        each = torch.distributions.Normal(draws, noise.log_precision.mul(-0.5).exp()).log_prob(Y)
        for mask, observed in MASKS.items():
            expected = noise.expected_log_density(Y, observed, signal)
            total = torch.where(observed, each, 0.0).sum(-1)
            error = (total.mean(0) - expected).abs()
            assert (error <= 5 * total.std(0) / NUM_DRAWS**0.5 + 1e-12).all(), mask


def test_without_spread_it_is_the_log_density(noise, signal):
    sure = Marginals(signal.mean, torch.zeros_like(signal.var))
    expected = torch.distributions.Normal(signal.mean, noise.var.sqrt()).log_prob(Y).sum(-1)
    torch.testing.assert_close(noise.expected_log_density(Y, MASKS["all"], sure), expected)


def test_the_stand_in_for_a_missing_output_does_not_count(noise, signal):
    observed = MASKS["some"]
    other = torch.where(observed, Y, 1e6)
    first, second = (noise.expected_log_density(y, observed, signal) for y in (Y, other))
    assert torch.equal(first, second)


def test_missing_outputs_send_no_gradient(noise):
    mean = normal(NUM_POINTS, NUM_OUTPUTS, seed=1).requires_grad_()
    var = torch.ones(NUM_POINTS, NUM_OUTPUTS, dtype=torch.float64, requires_grad=True)
    observed = MASKS["some"]
    noise.expected_log_density(Y, observed, Marginals(mean, var)).sum().backward()
    for gradient in (mean.grad, var.grad):
        assert (gradient[~observed] == 0).all()
        assert (gradient[observed] != 0).all()


def test_leading_draws_of_the_signal_are_kept(noise):
    mean, var = normal(4, NUM_POINTS, NUM_OUTPUTS, seed=1), normal(4, NUM_POINTS, NUM_OUTPUTS, seed=2).square()
    all_draws = noise.expected_log_density(Y, MASKS["some"], Marginals(mean, var))
    each = [noise.expected_log_density(Y, MASKS["some"], Marginals(m, v)) for m, v in zip(mean, var, strict=True)]
    torch.testing.assert_close(all_draws, torch.stack(each))


def test_the_best_precision_is_the_inverse_mean_misfit(noise, signal):
    # 1/β = mean[(y − m)² + v]
    with torch.no_grad():
        noise.log_precision.copy_(-((Y - signal.mean).square() + signal.var).mean(0).log())
    noise.expected_log_density(Y, MASKS["all"], signal).sum().backward()
    assert noise.log_precision.grad.abs().max() < 1e-12


def test_gradients_are_right(noise, signal):
    def density(log_precision, mean, var):
        other = GaussianNoise(NUM_OUTPUTS)
        del other.log_precision
        other.log_precision = log_precision
        return other.expected_log_density(Y, MASKS["some"], Marginals(mean, var))

    inputs = (noise.log_precision, signal.mean, signal.var)
    assert torch.autograd.gradcheck(density, tuple(v.detach().clone().requires_grad_() for v in inputs))


@pytest.mark.parametrize("var", [1e-8, 0.25, 1.0, 30.0])
def test_the_variance_starts_where_it_is_told(var):
    noise = GaussianNoise(NUM_OUTPUTS, var=var)
    torch.testing.assert_close(noise.var, torch.full((NUM_OUTPUTS,), var))
    torch.testing.assert_close(noise.log_precision, torch.full((NUM_OUTPUTS,), -math.log(var)))


def test_a_noise_without_outputs_is_refused():
    with pytest.raises(ConfigError, match=r"num_outputs must be at least 1; got 0\. Pass a positive number\."):
        GaussianNoise(0)


@pytest.mark.parametrize("var", [0.0, -1.0])
def test_a_variance_that_is_not_positive_is_refused(var):
    with pytest.raises(ConfigError, match=r"var must be .*; got"):
        GaussianNoise(2, var=var)
