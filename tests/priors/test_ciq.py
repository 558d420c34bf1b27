"""The Krylov route to K_zz^{-1/2} K_zx gives what the Cholesky route gives."""

import pytest
import torch

from mogul.data import Batch
from mogul.models import build
from mogul.objective import Analytic, Elbo
from mogul.priors import CIQ, Cholesky, rbf
from mogul.training import NaturalGradient, Step

NUM_INDUCING, NUM_POINTS = 60, 12
# Krylov methods live on a good condition number: many inputs spread the points out, or a larger jitter helps.
CASES = pytest.mark.parametrize(("num_inputs", "jitter"), [(21, 1e-4), (3, 1e-2)])


def matrices(num_inputs: int = 21) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = (NUM_INDUCING, NUM_POINTS)
    z, x = (torch.randn(size, num_inputs, generator=generator, dtype=torch.float64) for size in sizes)
    kernel = rbf(num_inputs, 2).double()
    return kernel(z).to_dense().detach(), kernel(z, x).to_dense().detach()


@CASES
def test_both_routes_explain_the_same_variance(num_inputs, jitter):
    kzz, kzx = matrices(num_inputs)
    by_factor = Cholesky(jitter=jitter).whiten(kzz, kzx).cross
    by_krylov = CIQ(jitter=jitter).whiten(kzz, kzx).cross
    expected = by_factor.transpose(-1, -2) @ by_factor
    torch.testing.assert_close(by_krylov.transpose(-1, -2) @ by_krylov, expected, rtol=0, atol=1e-5)


@CASES
def test_the_root_is_the_symmetric_one(num_inputs, jitter):
    kzz, kzx = matrices(num_inputs)
    size = kzz.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    values, vectors = torch.linalg.eigh(kzz + jitter * size * torch.eye(NUM_INDUCING).double())
    expected = vectors @ (values.rsqrt().unsqueeze(-1) * (vectors.transpose(-1, -2) @ kzx))
    torch.testing.assert_close(CIQ(jitter=jitter).whiten(kzz, kzx).cross, expected, rtol=0, atol=1e-5)


def test_the_jitter_is_reported():
    assert CIQ(jitter=1e-3).whiten(*matrices()).jitter == 1e-3


@pytest.mark.parametrize("name", ["mogp", "n-sbgprn", "dgp"])
def test_a_model_predicts_the_same_at_the_prior_and_trains(name):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(25, 2, generator=generator, dtype=torch.float64)
    batch = Batch.of(x, torch.stack([x.sum(1), x[:, 0].sin()], dim=1))
    models = [
        build(name, x, 2, torch.Generator().manual_seed(2), num_inducing=10, num_top_inducing=8, solver=solver)
        for solver in (Cholesky(jitter=1e-2), CIQ(jitter=1e-2))
    ]
    for model in models:
        with torch.no_grad():
            for module in model.modules():
                if hasattr(module, "variational_root"):
                    # With S = s·I and m = 0, predictions do not depend on which root of K_zz is meant.
                    module.variational_mean.zero_()
    one, two = (model.moments(x, 4, torch.Generator().manual_seed(3)) for model in models)
    torch.testing.assert_close(one.mean, two.mean, rtol=0, atol=1e-4)
    torch.testing.assert_close(one.var, two.var, rtol=0, atol=1e-4)
    Elbo(Analytic(), num_data=25)(models[1], batch, generator).total().backward()
    gradient = (
        models[1].get_parameter("prior.layers.0.inducing_points" if name == "dgp" else "prior.inducing_points").grad
    )
    assert torch.isfinite(gradient).all()
    assert gradient.abs().max() > 0


def test_both_routes_lead_to_the_same_optimum():
    """Their roots differ, and with them what the whitened variables mean; the best bound over q(u) does not."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    y = torch.sin(x).sum(1, keepdim=True) + 0.1 * torch.randn(40, 1, generator=generator, dtype=torch.float64)
    batch, elbo, bounds = Batch.of(x, y), Elbo(Analytic(), num_data=40), []
    for solver in (Cholesky(jitter=1e-2), CIQ(jitter=1e-2)):
        model = build("mogp", x, 1, torch.Generator().manual_seed(1), num_inducing=10, solver=solver)
        before = elbo(model, batch, generator)
        (-before.total() / 40).backward()
        # With one GP and Gaussian noise the bound is quadratic in q(u): a full natural step ends at its best.
        NaturalGradient(1.0, 0, ("inducing",)).apply(model, Step(0, batch, before, 40))
        bounds.append((before.total().item(), elbo(model, batch, generator).total().item()))
    (start, best), (_, other) = bounds
    assert best > start + 1
    assert other == pytest.approx(best, abs=1e-4)
