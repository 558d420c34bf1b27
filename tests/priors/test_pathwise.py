"""Functions drawn pathwise: the same law as draws that condition all points jointly."""

import pytest
import torch

from mogul.errors import ConfigError
from mogul.priors import IndependentGPs, kernel_by_name, randomise
from mogul.priors.pathwise import PathwiseGPs

NUM_DRAWS = 40_000


def gps_with(kernel: str, *, num_inputs: int = 3) -> IndependentGPs:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(8, num_inputs, generator=generator, dtype=torch.float64)
    prior = IndependentGPs(kernel_by_name(kernel, num_inputs, 2), points, 2).double()
    return randomise(prior, generator, spread=1.0, scale=0.5)


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern52", "rq"])
def test_draws_have_the_exact_mean_and_covariance(kernel):
    gps = gps_with(kernel)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x[0] = gps.inducing_points[0]
    with torch.no_grad():
        draws = PathwiseGPs(gps, NUM_DRAWS, torch.Generator().manual_seed(2), num_frequencies=16)
        values = draws.values(x.expand(NUM_DRAWS, 4, 3))
        mean, cov = gps.joint(x)
    for latent in range(2):
        standard_error = (cov[latent].diagonal() / NUM_DRAWS).sqrt()
        assert ((values[..., latent].mean(0) - mean[latent]).abs() < 4.5 * standard_error).all()
        spread = cov[latent].diagonal().sqrt()
        worst = 6 * (2 / NUM_DRAWS) ** 0.5 * spread[:, None] * spread
        assert ((torch.cov(values[..., latent].T) - cov[latent]).abs() < worst).all()


def test_a_draw_is_one_function_wherever_and_whenever_it_is_evaluated():
    draws = PathwiseGPs(gps_with("rbf"), 6, torch.Generator().manual_seed(2))
    x = torch.randn(6, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    together = draws.values(x)
    assert torch.allclose(torch.cat([draws.values(x[:, [point]]) for point in range(5)], dim=1), together, atol=1e-12)


def test_a_kernel_without_a_spectrum_is_refused_with_the_remedy():
    with pytest.raises(ConfigError, match="Fit with one of these"):
        PathwiseGPs(gps_with("periodic"), 6, torch.Generator())
