"""Noise that depends on x: by a net, or by GPs, whose log variance is itself Normal."""

import math
from dataclasses import replace

import pytest
import torch
from tests.helpers.example_laws import (
    NUM_OUTPUTS,
    OBSERVED,
    SIGNAL,
    Y,
    assert_same_law,
    law_of,
    make,
    with_and_without_floor,
)

from mogul.core.moments import Marginals
from mogul.heads.noise.laws import LogNormalLaw

NUM_DRAWS = 200_000


class TestLogNormal:
    """Normal given a log variance that is itself Normal."""

    def test_without_a_floor_the_expectation_is_that_of_brute_force(self):
        law = law_of("gp")
        generator = torch.Generator().manual_seed(6)
        with torch.no_grad():
            signal = SIGNAL.sample(NUM_DRAWS, generator)
            log_var = Marginals(law.relative - law.log_precision, law.spread).sample(NUM_DRAWS, generator)
            each = torch.distributions.Normal(signal, (0.5 * log_var).exp()).log_prob(Y)
            total = torch.where(OBSERVED, each, 0.0).sum(-1)
            found = law.expected_log_density(Y, OBSERVED, SIGNAL)
        assert ((found - total.mean(0)).abs() <= 5 * total.std(0) / NUM_DRAWS**0.5 + 1e-12).all()

    @pytest.mark.parametrize(("share", "gap"), [(1.0, 2.0), (0.005, 0.05)])
    def test_with_a_floor_it_is_a_lower_bound_and_close_where_the_log_variance_is_known(self, share, gap):
        law, floor = law_of("gp", 0.6), 0.6
        law = replace(law, spread=share * law.spread)
        generator = torch.Generator().manual_seed(6)
        with torch.no_grad():
            log_var = Marginals(law.relative - law.log_precision, law.spread).sample(NUM_DRAWS, generator)
            signal = SIGNAL.sample(NUM_DRAWS, generator)
            each = torch.distributions.Normal(signal, (log_var.exp() + floor**2).sqrt()).log_prob(Y)
            total = torch.where(OBSERVED, each, 0.0).sum(-1)
            found = law.expected_log_density(Y, OBSERVED, SIGNAL)
        assert (found <= total.mean(0) + 5 * total.std(0) / NUM_DRAWS**0.5).all()
        assert (total.mean(0) - found).max() < gap

    @with_and_without_floor
    def test_gps_without_variance_are_constant_noise(self, floor):
        constant = make("constant", floor)
        noise = make("gp", floor)
        with torch.no_grad():
            noise.log_precision.copy_(constant.log_precision)
            noise.gps.kernel.outputscale = 1e-20
            noise.gps.variational_mean.zero_()
        assert_same_law(noise, constant)

    def test_the_law_is_its_formula(self):
        law = law_of("gp")
        mean, spread = law.relative - law.log_precision, law.spread
        misfit = (Y - SIGNAL.mean).square() + SIGNAL.var
        each = -0.5 * (math.log(2 * math.pi) + mean) - 0.5 * torch.exp(-mean + spread / 2) * misfit
        torch.testing.assert_close(law.expected_log_density(Y, OBSERVED, SIGNAL), (each * OBSERVED).sum(-1))

    @pytest.mark.parametrize("floor", [0.0, 0.5])
    def test_gradients_are_right(self, floor):
        """Of a log variance that is Normal: the others are special cases, or left to autograd altogether."""

        def densities(log_precision, relative, spread, mean, var):
            law = LogNormalLaw(log_precision, relative, torch.full((NUM_OUTPUTS,), floor**2).double(), spread)
            signal = Marginals(mean, var)
            return law.expected_log_density(Y, OBSERVED, signal), law.log_density(Y, OBSERVED, signal)

        law = law_of("gp")
        inputs = (law.log_precision, law.relative, law.spread, SIGNAL.mean, SIGNAL.var)
        assert torch.autograd.gradcheck(densities, tuple(value.detach().clone().requires_grad_() for value in inputs))


class TestNet:
    """Normal with a net's variance."""

    @with_and_without_floor
    def test_a_net_that_says_nothing_is_constant_noise(self, floor):
        constant, noise = make("constant", floor), make("net", floor)
        with torch.no_grad():
            noise.log_precision.copy_(constant.log_precision)
            noise.net.weights[-1].zero_()
        assert_same_law(noise, constant)

    def test_it_has_no_bias_beside_its_level(self):
        assert len(make("net").net.biases) == 2

    def test_the_prior_is_that_of_the_nets_weights(self):
        weights = torch.cat([weight.flatten() for weight in make("net").net.weights])
        torch.testing.assert_close(
            make("net").log_prior(), torch.distributions.Normal(0.0, 1.0).log_prob(weights).sum()
        )
