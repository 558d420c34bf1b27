"""SoftSquare against fine integration and its definition."""

import numpy as np
import pytest
import torch
from scipy import special
from tests.helpers.normal_integrals import covariance, expect, variance

from mogul.nonlinearities import SoftSquare


def exact(a):
    """½ [(a² + ½) Φ(√2 a) + a e^{−a²} / (2√π)]."""
    return 0.5 * ((a**2 + 0.5) * special.ndtr(np.sqrt(2) * a) + a * np.exp(-(a**2)) / (2 * np.sqrt(np.pi)))


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_its_second_derivative_is_half_of_sherf():
    a, step = torch.linspace(-3, 3, 25, dtype=torch.float64), 1e-3
    sigma = SoftSquare()
    curvature = (sigma(a + step) - 2 * sigma(a) + sigma(a - step)) / step**2
    torch.testing.assert_close(curvature, 0.5 * (1 + torch.erf(a)), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("mean", "var"), [(0.0, 1.0), (-0.7, 2.0), (2.0, 0.1), (-4.0, 1e-8), (5.0, 4.0)])
def test_mean_and_variance_are_those_of_fine_integration(mean, var):
    sigma = SoftSquare()
    assert sigma.mean(tensor(mean), tensor(var)).item() == pytest.approx(expect(exact, mean, var), rel=1e-9)
    assert sigma.variance(tensor(mean), tensor(var)).item() == pytest.approx(variance(exact, mean, var), rel=1e-6)


@pytest.mark.parametrize("rho", [-0.95, -0.5, 0.0, 0.5, 0.95])
@pytest.mark.parametrize("arguments", [(0.3, -0.7, 0.5, 2.0), (2.0, -1.0, 4.0, 0.1), (0.0, 0.0, 4.0, 4.0)])
def test_covariances_are_those_of_fine_integration(arguments, rho):
    mean1, mean2, var1, var2 = arguments
    cov = tensor(rho * np.sqrt(var1 * var2))
    found = SoftSquare().pair_covariance((tensor(mean1), tensor(mean2)), (tensor(var1), tensor(var2)), cov)
    assert found.item() == pytest.approx(covariance(exact, (mean1, mean2), (var1, var2), rho), abs=1e-6)
