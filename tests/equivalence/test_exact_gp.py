"""With Z at the training inputs and the optimal q, the sparse layer is exact GP regression."""

import gpytorch
import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from mogul.data.dataset import Batch
from mogul.heads import BayesianMixing, ConstantNoise, Head, Identity
from mogul.models.model import Model, Observed
from mogul.objective import Analytic, Elbo
from mogul.priors import Cholesky, IndependentGPs, rbf

NUM_DATA, NOISE, OUTPUTSCALE = 25, 0.04, 1.7
LENGTHSCALES = [0.8, 1.5]
KERNELS = ["rbf", "matern"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (NUM_DATA, 2))
    y = np.sin(x[:, 0]) * np.cos(x[:, 1]) + NOISE**0.5 * rng.standard_normal(NUM_DATA)
    return x, y, rng.uniform(-4, 4, (30, 2))


def exact(kernel, x, y):
    """scikit-learn's regressor at the same fixed hyperparameters."""
    base = RBF(LENGTHSCALES) if kernel == "rbf" else Matern(LENGTHSCALES, nu=1.5)
    return GaussianProcessRegressor(ConstantKernel(OUTPUTSCALE) * base, alpha=NOISE, optimizer=None).fit(x, y)


def build_kernel(kernel):
    built = rbf(2, 1)
    if kernel == "matern":
        batch = torch.Size([1])
        base = gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=2, batch_shape=batch)
        built = gpytorch.kernels.ScaleKernel(base, batch_shape=batch)
    built = built.double()
    built.outputscale = torch.tensor([OUTPUTSCALE], dtype=torch.float64)
    built.base_kernel.lengthscale = torch.tensor(LENGTHSCALES, dtype=torch.float64)
    return built


def optimal_prior(kernel, x, y, num_inducing=NUM_DATA):
    """q(v) at its optimum: with A = L⁻¹K_zx, Var v = (I + AAᵀ/σ²)⁻¹ and E v = Var v · Ay/σ²."""
    z, x, y = torch.as_tensor(x[:num_inducing]), torch.as_tensor(x), torch.as_tensor(y)
    prior = IndependentGPs(build_kernel(kernel), z, 1, mean="zero", solver=Cholesky(jitter=1e-12))
    with torch.no_grad():
        eye = torch.eye(num_inducing, dtype=torch.float64)
        root = torch.linalg.cholesky(prior.kernel(z).to_dense()[0] + 1e-12 * OUTPUTSCALE * eye)
        cross = torch.linalg.solve(root, prior.kernel(z, x).to_dense()[0])
        cov = torch.linalg.inv(eye + cross @ cross.T / NOISE)
        prior.variational_mean[0] = cov @ cross @ y / NOISE
        prior.variational_root[0] = torch.linalg.cholesky(cov)
    return prior


def elbo(prior, x, y):
    """The bound of a MOGP of one output whose only mixing weight is one, and known."""
    generator = torch.Generator()
    mixing, noise = BayesianMixing(1, 1, generator), ConstantNoise(1, var=NOISE)
    with torch.no_grad():
        mixing.mean.fill_(1)
        mixing.log_scale.fill_(-40)
    model = Model(Observed(), prior, Head(Identity(1), mixing, noise)).double()
    with torch.no_grad():
        noise.log_precision.fill_(-np.log(NOISE))
    batch = Batch.of(torch.as_tensor(x), torch.as_tensor(y)[:, None])
    terms = Elbo(Analytic(), num_data=NUM_DATA)(model, batch, generator)
    # The known weight is no latent variable of an exact GP.
    return (terms.total() + mixing.kl()).item()


@pytest.mark.parametrize("kernel", KERNELS)
def test_predictions_equal_the_exact_gp(kernel, data):
    x, y, x_new = data
    prior = optimal_prior(kernel, x, y)
    for points in (x, x_new):
        mean, scale = exact(kernel, x, y).predict(points, return_std=True)
        q = prior(torch.as_tensor(points), 1, torch.Generator())
        np.testing.assert_allclose(q.mean.detach().numpy()[:, 0], mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(q.var.detach().numpy()[:, 0], scale**2, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_joint_covariance_equals_the_exact_gp(kernel, data):
    x, y, x_new = data
    mean, cov = exact(kernel, x, y).predict(x_new, return_cov=True)
    joint_mean, joint_cov = optimal_prior(kernel, x, y).joint(torch.as_tensor(x_new))
    np.testing.assert_allclose(joint_mean.detach().numpy()[0], mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(joint_cov.detach().numpy()[0], cov, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_elbo_equals_the_log_marginal_likelihood(kernel, data):
    x, y, _ = data
    expected = exact(kernel, x, y).log_marginal_likelihood_value_
    assert elbo(optimal_prior(kernel, x, y), x, y) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
def test_any_other_q_has_a_lower_elbo(kernel, data, generator):
    x, y, _ = data
    prior = optimal_prior(kernel, x, y)
    best = elbo(prior, x, y)
    for part in (prior.variational_mean, prior.variational_root):
        start = part.detach().clone()
        for size in (1e-3, 1e-2, 0.1):
            step = size * torch.randn(start.shape, generator=generator, dtype=torch.float64)
            for sign in (1, -1):
                with torch.no_grad():
                    part.copy_(start + sign * step)
                assert elbo(prior, x, y) < best - 0.1 * size**2
        with torch.no_grad():
            part.copy_(start)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_optimal_q_is_a_stationary_point(kernel, data):
    x, y, _ = data
    prior = optimal_prior(kernel, x, y)
    q = prior(torch.as_tensor(x), 1, torch.Generator())
    misfit = (torch.as_tensor(y) - q.mean[:, 0]).square() + q.var[:, 0]
    (-0.5 * misfit.sum() / NOISE - prior.kl()).backward()
    assert prior.variational_mean.grad.abs().max() < 1e-7
    assert prior.variational_root.grad.abs().max() < 1e-7


@pytest.mark.parametrize("num_inducing", [1, 10, 20])
def test_with_fewer_inducing_points_the_elbo_equals_the_collapsed_bound(num_inducing, data):
    # Titsias (2009): log N(y | 0, Q + σ²I) − tr(K − Q)/2σ², with Q = K_xz K_zz⁻¹ K_zx.
    x, y, _ = data
    regressor = exact("rbf", x, y)
    kzx = regressor.kernel_(x[:num_inducing], x)
    low_rank = kzx.T @ np.linalg.solve(kzx[:, :num_inducing], kzx)
    fit = stats.multivariate_normal(cov=low_rank + NOISE * np.eye(NUM_DATA)).logpdf(y)
    expected = fit - 0.5 * (NUM_DATA * OUTPUTSCALE - np.trace(low_rank)) / NOISE
    assert elbo(optimal_prior("rbf", x, y, num_inducing), x, y) == pytest.approx(expected, rel=1e-8)
    assert expected < regressor.log_marginal_likelihood_value_
