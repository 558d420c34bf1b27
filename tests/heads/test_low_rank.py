"""Noise that outputs share: its covariance is D + U Uᵀ."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
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


def test_the_density_is_scipys():
    law = law_of("low-rank")
    cov = torch.diag(law.log_precision.neg().exp()) + law.loadings @ law.loadings.T
    for row, seen in enumerate(OBSERVED):
        if seen.any():
            inner = (cov + torch.diag(SIGNAL.var[row]))[seen][:, seen].detach().numpy()
            dist = stats.multivariate_normal(SIGNAL.mean[row, seen].numpy(), inner)
            found = law.log_density(Y, OBSERVED, SIGNAL)[row].item()
            assert found == pytest.approx(dist.logpdf(Y[row, seen].numpy()))


def test_the_bound_is_that_of_its_own_posterior_of_the_shared_part():
    """E log N(y | Φ + U z, D) − KL(q(z) ‖ p(z)), with q(z) the exact posterior at the mean signal."""
    law = law_of("low-rank")
    own, loadings = law.log_precision.neg().exp(), law.loadings
    cov = torch.linalg.inv(torch.eye(2).double() + loadings.T @ torch.diag(1 / own) @ loadings)
    mean = (Y - SIGNAL.mean)[0] / own @ loadings @ cov
    square = (Y[0] - SIGNAL.mean[0] - loadings @ mean).square() + SIGNAL.var[0]
    square = square + (loadings @ cov @ loadings.T).diagonal()
    ell = -0.5 * (math.log(2 * math.pi) + own.log() + square / own).sum()
    kl = 0.5 * (cov.trace() + mean @ mean - 2 - cov.logdet())
    torch.testing.assert_close(law.expected_log_density(Y, OBSERVED, SIGNAL)[0], ell - kl)


@with_and_without_floor
def test_without_a_shared_part_it_is_constant_noise(floor):
    constant, noise = make("constant", floor), make("low-rank", floor)
    with torch.no_grad():
        noise.log_precision.copy_(constant.log_precision)
        noise.loadings.zero_()
    assert_same_law(noise, constant)


def test_draws_have_the_covariance():
    law = law_of("low-rank", 0.3)
    unit = torch.tensor([1.0, 2.0, 0.5]).double()
    with torch.no_grad():
        joint = law.joint(torch.zeros(1, 1, NUM_OUTPUTS).double(), unit)
        std = (unit * law.var.sqrt()).expand(200_000, 1, NUM_OUTPUTS).numpy()
        cov = torch.diag(law.log_precision.neg().exp() + 0.09) + law.loadings @ law.loadings.T
        cov = (unit[:, None] * cov * unit).numpy()
    draws = joint.deviations(std, np.random.default_rng(0))[:, 0]
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.02 * np.abs(cov).max())
    np.testing.assert_allclose(joint.cross_cov(NUM_OUTPUTS), cov - np.diag(np.diag(cov)))
