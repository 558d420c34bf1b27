"""Constant noise: its expected log density against Monte Carlo, with and without missing outputs."""

import math

import pytest
import torch
from tests.helpers.draws import normal

from mogul.core.moments import Marginals
from mogul.errors import ConfigError
from mogul.heads import ConstantNoise, GPNoise, LowRankNoise, NetNoise, StudentTNoise
from mogul.heads.noise.laws import NormalLaw
from mogul.priors import IndependentGPs, rbf

NUM_POINTS, NUM_OUTPUTS = 2, 3
NUM_DRAWS = 1_000_000
X = torch.zeros(NUM_POINTS, 1, dtype=torch.float64)


@pytest.fixture
def noise():
    made = ConstantNoise(NUM_OUTPUTS).double()
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
            expected = noise(X, torch.Generator()).expected_log_density(Y, observed, signal)
            total = torch.where(observed, each, 0.0).sum(-1)
            error = (total.mean(0) - expected).abs()
            assert (error <= 5 * total.std(0) / NUM_DRAWS**0.5 + 1e-12).all(), mask


def test_without_spread_it_is_the_log_density(noise, signal):
    sure = Marginals(signal.mean, torch.zeros_like(signal.var))
    expected = torch.distributions.Normal(signal.mean, noise.var.sqrt()).log_prob(Y).sum(-1)
    torch.testing.assert_close(noise(X, torch.Generator()).expected_log_density(Y, MASKS["all"], sure), expected)


def test_the_stand_in_for_a_missing_output_does_not_count(noise, signal):
    observed = MASKS["some"]
    other = torch.where(observed, Y, 1e6)
    first, second = (noise(X, torch.Generator()).expected_log_density(y, observed, signal) for y in (Y, other))
    assert torch.equal(first, second)


def test_missing_outputs_send_no_gradient(noise):
    mean = normal(NUM_POINTS, NUM_OUTPUTS, seed=1).requires_grad_()
    var = torch.ones(NUM_POINTS, NUM_OUTPUTS, dtype=torch.float64, requires_grad=True)
    observed = MASKS["some"]
    noise(X, torch.Generator()).expected_log_density(Y, observed, Marginals(mean, var)).sum().backward()
    for gradient in (mean.grad, var.grad):
        assert (gradient[~observed] == 0).all()
        assert (gradient[observed] != 0).all()


def test_leading_draws_of_the_signal_are_kept(noise):
    mean, var = normal(4, NUM_POINTS, NUM_OUTPUTS, seed=1), normal(4, NUM_POINTS, NUM_OUTPUTS, seed=2).square()
    all_draws = noise(X, torch.Generator()).expected_log_density(Y, MASKS["some"], Marginals(mean, var))
    each = [
        noise(X, torch.Generator()).expected_log_density(Y, MASKS["some"], Marginals(m, v))
        for m, v in zip(mean, var, strict=True)
    ]
    torch.testing.assert_close(all_draws, torch.stack(each))


def test_the_best_precision_is_the_inverse_mean_misfit(noise, signal):
    # 1/β = mean[(y − m)² + v]
    with torch.no_grad():
        noise.log_precision.copy_(-((Y - signal.mean).square() + signal.var).mean(0).log())
    noise(X, torch.Generator()).expected_log_density(Y, MASKS["all"], signal).sum().backward()
    assert noise.log_precision.grad.abs().max() < 1e-12


def test_gradients_are_right(noise, signal):
    def density(log_precision, mean, var):
        law = NormalLaw(log_precision, torch.zeros_like(log_precision), noise.floor_var)
        return law.expected_log_density(Y, MASKS["some"], Marginals(mean, var))

    inputs = (noise.log_precision, signal.mean, signal.var)
    assert torch.autograd.gradcheck(density, tuple(v.detach().clone().requires_grad_() for v in inputs))


@pytest.mark.parametrize("var", [1e-8, 0.25, 1.0, 30.0])
def test_the_variance_starts_where_it_is_told(var):
    noise = ConstantNoise(NUM_OUTPUTS, var=var)
    torch.testing.assert_close(noise.var, torch.full((NUM_OUTPUTS,), var))
    torch.testing.assert_close(noise.log_precision, torch.full((NUM_OUTPUTS,), -math.log(var)))


def test_a_noise_without_outputs_is_refused():
    with pytest.raises(ConfigError, match=r"num_outputs must be at least 1; got 0\. Pass a positive number\."):
        ConstantNoise(0)


@pytest.mark.parametrize("var", [0.0, -1.0])
def test_a_variance_that_is_not_positive_is_refused(var):
    with pytest.raises(ConfigError, match=r"var must be .*; got"):
        ConstantNoise(2, var=var)


def test_the_variance_is_never_below_the_square_of_the_floor():
    noise = ConstantNoise(NUM_OUTPUTS, var=1e-12, floor=torch.tensor([0.0, 0.1, 2.0]))
    torch.testing.assert_close(noise.var, torch.tensor([1e-12, 0.01, 4.0]))


def test_the_papers_noise_has_no_floor_and_others_have():
    assert ConstantNoise(2).floor_var.tolist() == [0.0, 0.0]
    assert StudentTNoise(2).floor_var.tolist() == pytest.approx([1e-8, 1e-8])


def test_a_floor_below_zero_is_refused():
    with pytest.raises(ConfigError, match=r"floor must be 0 or more; got -0\.1"):
        ConstantNoise(2, floor=-0.1)


def test_noise_that_depends_on_x_starts_out_nearly_the_same_everywhere(generator):
    x = 3 * torch.randn(50, 2, generator=generator)
    net = NetNoise(2, 3, generator, var=0.5)
    assert (net(x, generator).var / 0.5).log().abs().max() < 0.05
    gps = IndependentGPs(rbf(2, 2), x[:10], 2, mean="zero")
    assert GPNoise(gps, 3, generator, var=0.5)(x, generator).relative.abs().max() == 0


def test_gp_noise_returns_to_its_prior_far_from_the_data_and_a_net_does_not(generator):
    x = torch.randn(20, 2, generator=generator)
    gps = IndependentGPs(rbf(2, 2), x, 2, mean="zero")
    with torch.no_grad():
        gps.variational_mean.fill_(2.0)
        gps.variational_root.mul_(0.1)
    noise = GPNoise(gps, 3, generator)
    near, far = noise(x, generator), noise(x + 1000, generator)
    assert (near.relative.abs() > 0.1).all()
    torch.testing.assert_close(far.relative, torch.zeros(20, 3))
    torch.testing.assert_close(far.spread, noise.weights.square().sum(1).expand(20, 3))
    assert (near.spread < far.spread).all()


def test_two_degrees_of_freedom_and_a_rank_of_zero_are_refused(generator):
    with pytest.raises(ConfigError, match=r"dof must be above 2.*; got 2"):
        StudentTNoise(2, dof=2.0)
    with pytest.raises(ConfigError, match="rank must be at least 1; got 0"):
        LowRankNoise(2, 0, generator)
