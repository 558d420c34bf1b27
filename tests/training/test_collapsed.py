"""The collapsed bound against quadrature and plain matrix algebra, its gradients, and planted manifolds."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.datasets import make_swiss_roll
from sklearn.manifold import trustworthiness

from mogul.data import Batch
from mogul.training.collapsed import CollapsedGPLVM
from mogul.training.latent_start import LatentStart, filled


@pytest.fixture
def gplvm() -> CollapsedGPLVM:
    """Ten rows, two latent inputs, four inducing points, any values."""
    rng = np.random.default_rng(0)
    start = CollapsedGPLVM.start(rng.standard_normal((10, 2)), num_inducing=4, seed=0, ard=True)
    parts = {part.name: getattr(start, part.name) for part in fields(start)}
    return replace(
        start, **{name: part + 0.3 * torch.as_tensor(rng.standard_normal(part.shape)) for name, part in parts.items()}
    )


def rows_of(num_outputs: int, share: float) -> Batch:
    rng = np.random.default_rng(1)
    y = rng.standard_normal((10, num_outputs))
    y[rng.random(y.shape) < share] = np.nan
    return Batch.of(torch.zeros(10, 0), torch.as_tensor(y))


def grids(gplvm: CollapsedGPLVM) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Hermite points of each row's q(x), (N, Q, 2), and their weights."""
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    pairs = np.stack(np.meshgrid(points, points), -1).reshape(-1, 2)
    joint = np.outer(weights, weights).ravel() / (2 * np.pi)
    scale = np.exp(0.5 * gplvm.log_var.numpy())
    return gplvm.mean.numpy()[:, None] + scale[:, None] * pairs, joint


def rbf_of(gplvm: CollapsedGPLVM, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    gap = (a[..., :, None, :] - b[..., None, :, :]) / gplvm.lengthscale.numpy()
    return np.exp(float(gplvm.log_outputscale) - 0.5 * np.square(gap).sum(-1))


def test_psi_statistics_are_those_of_quadrature(gplvm: CollapsedGPLVM) -> None:
    x, weight = grids(gplvm)
    kernel = rbf_of(gplvm, x, gplvm.points.numpy())  # N, Q, M
    batch = rows_of(3, share=0.3)
    psi = gplvm.psi(batch.observed)
    np.testing.assert_allclose(psi.one.numpy(), np.einsum("q,nqm->nm", weight, kernel), rtol=1e-9)
    each = np.einsum("q,nqm,nqk->nmk", weight, kernel, kernel)
    expected = np.einsum("np,nmk->pmk", batch.observed.numpy(), each)
    np.testing.assert_allclose(psi.two.numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(gplvm.psi(torch.ones(10, 3, dtype=torch.bool)).two[0].numpy(), each.sum(0), rtol=1e-9)


@pytest.mark.parametrize(("share", "own_noise"), [(0.0, False), (0.0, True), (0.3, False), (0.3, True)])
def test_the_bound_is_that_of_the_best_posterior_by_quadrature(
    gplvm: CollapsedGPLVM, share: float, own_noise: bool
) -> None:
    """E log p(y | f) − KL(q(u)) − KL(q(X)), each term by itself, at q(u) = N(KS⁻¹Ψ₁ᵀy/σ², KS⁻¹K), S = K + Ψ₂/σ²."""
    batch = rows_of(3, share)
    if own_noise:
        gplvm = replace(gplvm, log_noise_var=torch.tensor([-2.0, -1.0, 0.3], dtype=torch.float64))
    x, weight = grids(gplvm)
    cross, prior = rbf_of(gplvm, x, gplvm.points.numpy()), gplvm.kernel().numpy()
    total = 0.0
    for output, noise in enumerate(gplvm.noise_var.expand(3).tolist()):
        seen = batch.observed[:, output].numpy()
        y, kernel = batch.y[seen, output].numpy(), cross[seen]
        inner = prior + np.einsum("q,nqm,nqk->mk", weight, kernel, kernel) / noise
        mean = prior @ np.linalg.solve(inner, np.einsum("q,nqm,n->m", weight, kernel, y)) / noise
        cov = prior @ np.linalg.solve(inner, prior)
        solved = np.linalg.solve(prior, np.moveaxis(kernel, -1, 0).reshape(4, -1)).reshape(4, len(y), -1)
        f_mean = np.einsum("m,mnq->nq", mean, solved)
        explained = np.einsum("nqm,mnq->nq", kernel, solved)
        f_var = np.exp(float(gplvm.log_outputscale)) - explained + np.einsum("mnq,mk,knq->nq", solved, cov, solved)
        each = -0.5 * (np.log(2 * np.pi * noise) + (np.square(y[:, None] - f_mean) + f_var) / noise)
        # KL = E log q − E log p, at its closed form for two Normals.
        inverse = np.linalg.inv(prior)
        log_dets = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(cov)[1]
        total += (each @ weight).sum() - 0.5 * (np.trace(inverse @ cov) + mean @ inverse @ mean - 4 + log_dets)
    var, means = np.exp(gplvm.log_var.numpy()), gplvm.mean.numpy()
    total -= 0.5 * (var + means**2 - 1 - np.log(var)).sum()
    assert float(gplvm.bound(batch)) == pytest.approx(total, rel=1e-7)


def test_with_known_inputs_and_a_point_at_each_the_bound_is_the_evidence() -> None:
    rng = np.random.default_rng(2)
    x, batch = rng.standard_normal((10, 2)), rows_of(2, share=0.0)
    gplvm = CollapsedGPLVM.start(x, num_inducing=10, seed=0)
    gplvm = replace(gplvm, points=gplvm.mean, log_var=torch.full_like(gplvm.mean, -30.0))
    cov = rbf_of(gplvm, x, x) + 0.1 * np.eye(10)
    evidence = sum(multivariate_normal.logpdf(y, cov=cov) for y in batch.y.numpy().T)
    assert float(gplvm.bound(batch) + gplvm.kl().sum()) == pytest.approx(evidence, abs=1e-3)  # jitter


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_gradients_are_those_of_finite_differences(gplvm: CollapsedGPLVM, share: float) -> None:
    batch = rows_of(3, share)
    names = [part.name for part in fields(gplvm)]

    def bound(*parts: torch.Tensor) -> torch.Tensor:
        return CollapsedGPLVM(**dict(zip(names, parts, strict=True))).bound(batch)

    parts = tuple(getattr(gplvm, name).clone().requires_grad_() for name in names)
    assert torch.autograd.gradcheck(bound, parts)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_moves_of_rows_never_lower_the_bound(share: float) -> None:
    batch = rows_of(3, share)
    for seed in range(5):
        start = CollapsedGPLVM.start(np.random.default_rng(seed).standard_normal((10, 1)), num_inducing=5, seed=0)
        gplvm = replace(start, log_noise_var=torch.full((1,), -4.0, dtype=torch.float64))
        moved = gplvm.moved(batch)
        assert not torch.equal(moved.mean, gplvm.mean)
        assert float(moved.bound(batch)) > float(gplvm.bound(batch))


def sphere_patch(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    hidden = rng.uniform(-1, 1, (150, 2))
    return hidden, np.column_stack([hidden, np.sqrt(3 - np.square(hidden).sum(1))])


def swiss_roll(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y, turn = make_swiss_roll(700, random_state=0)
    return np.column_stack([turn**2 / 15, y[:, 1]]), y  # the arc length of the spiral is close to t²/2


def clusters(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    hidden = rng.standard_normal((150, 2)) * 0.4 + 3 * np.eye(3, 2)[rng.integers(3, size=150)]
    return hidden, np.tanh(hidden @ rng.standard_normal((2, 8)) / 2 + rng.standard_normal(8))


@pytest.mark.parametrize("planted", [sphere_patch, swiss_roll, clusters])
def test_planted_manifolds_are_recovered(planted) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    hidden, y = planted(rng)
    y = (y - y.mean(0)) / y.std(0) + 0.01 * rng.standard_normal(y.shape)
    batch = Batch.of(torch.zeros(len(y), 0), torch.as_tensor(y))
    found = LatentStart.of(batch, num_inputs=2, num_inducing=30, num_starts=3, seed=0).gplvm.mean.numpy()
    assert trustworthiness(hidden, found, n_neighbors=5) >= 0.97


def test_missing_values_are_filled_by_principal_components() -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 6))
    holes = y.copy()
    holes[rng.random(y.shape) < 0.1] = np.nan
    batch = Batch.of(torch.zeros(60, 0), torch.as_tensor(holes))
    np.testing.assert_allclose(filled(batch, rank=2).numpy(), y, atol=0.3)
