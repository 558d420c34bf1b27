"""Student's t: a mixture of Normals over their scales."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from tests.helpers.example_laws import (
    NUM_OUTPUTS,
    OBSERVED,
    SIGNAL,
    X,
    Y,
    assert_same_law,
    law_of,
    make,
    with_and_without_floor,
)

from mogul.core.moments import Marginals
from mogul.heads import StudentTNoise

SURE = Marginals(SIGNAL.mean, torch.zeros_like(SIGNAL.var))


def test_a_sure_signal_has_students_density():
    law = law_of("student-t")
    scale = law.log_precision.mul(-0.5).exp().detach()
    expected = stats.t(law.dof.detach().numpy(), SIGNAL.mean.numpy(), scale.numpy()).logpdf(Y.numpy())
    expected = np.where(OBSERVED.numpy(), expected, 0.0).sum(-1)
    for fit, tolerance in ((law.expected_log_density, 1e-12), (law.log_density, 1e-4)):
        np.testing.assert_allclose(fit(Y, OBSERVED, SURE).detach().numpy(), expected, atol=tolerance)


@pytest.mark.parametrize(("dof", "far"), [(2.1, 100.0), (3.0, 50.0), (10.0, 20.0), (200.0, 8.0)])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.5, 1.0])
def test_quadrature_over_the_scales_is_close_out_to_the_tails(dof, far, share):
    gap = share * far
    noise = StudentTNoise(1, dof=dof, floor=0.0).double()
    sure = Marginals(torch.zeros(1, 1).double(), torch.zeros(1, 1).double())
    found = noise(X, torch.Generator()).log_density(torch.full((1, 1), gap).double(), torch.ones(1, 1).bool(), sure)
    expected = stats.t(dof).logpdf(gap)
    assert found.item() == pytest.approx(expected, abs=3e-3)


def test_the_bound_integrates_the_scales_of_a_row_out():
    """log ∫ exp(E log N(y | Φ, s²/λ)) Gamma(λ) dλ, the bound with q(λ) at its optimum."""
    law = law_of("student-t")
    square = ((Y - SIGNAL.mean).square() + SIGNAL.var)[0, 0].item()
    precision, dof = law.log_precision[0].exp().item(), law.dof[0].item()
    prior = stats.gamma(dof / 2, scale=2 / dof)

    def integrand(scale):
        return (
            prior.pdf(scale)
            * math.sqrt(scale * precision / (2 * math.pi))
            * math.exp(-0.5 * scale * precision * square)
        )

    expected = math.log(integrate.quad(integrand, 0, 60)[0])
    only = torch.zeros_like(OBSERVED)
    only[0, 0] = True
    assert law.expected_log_density(Y, only, SIGNAL)[0].item() == pytest.approx(expected, abs=1e-6)


@with_and_without_floor
def test_with_many_degrees_of_freedom_it_is_constant_noise(floor):
    constant = make("constant", floor)
    noise = StudentTNoise(NUM_OUTPUTS, dof=1e8, floor=floor).double()
    with torch.no_grad():
        noise.log_precision.copy_(constant.log_precision)
    assert_same_law(noise, constant, tolerance=1e-6)
