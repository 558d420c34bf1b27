"""The whitened sparse layer against GPyTorch's VariationalStrategy, with the same parameters."""

import gpytorch
import pytest
import torch
from tests.helpers.draws import normal

from mogul.priors import Cholesky, IndependentGPs, rbf

NUM_LATENTS, NUM_INDUCING, NUM_INPUTS = 3, 8, 2
BATCH = torch.Size([NUM_LATENTS])
JITTER = 1e-8


class Peer(gpytorch.models.ApproximateGP):
    """L independent GPs as GPyTorch writes them."""

    def __init__(self, kernel, inducing_points):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(NUM_INDUCING, batch_shape=BATCH)
        strategy = gpytorch.variational.VariationalStrategy(self, inducing_points, distribution, jitter_val=JITTER)
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=BATCH)
        self.covar_module = kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def build_kernel(name):
    if name == "rbf":
        kernel = rbf(NUM_INPUTS, NUM_LATENTS).double()
        kernel.outputscale = torch.tensor([0.5, 1.0, 2.0]).double()
        kernel.base_kernel.lengthscale = 0.5 + normal(NUM_LATENTS, 1, NUM_INPUTS, seed=5).abs()
        return kernel
    if name == "matern":
        return gpytorch.kernels.MaternKernel(nu=2.5, batch_shape=BATCH).double()
    return (gpytorch.kernels.RBFKernel(batch_shape=BATCH) + gpytorch.kernels.LinearKernel(batch_shape=BATCH)).double()


@pytest.fixture(params=["rbf", "matern", "sum"])
def pair(request):
    """The same GPs twice: ours and GPyTorch's."""
    points = normal(NUM_INDUCING, NUM_INPUTS)
    mean, constant = normal(NUM_LATENTS, NUM_INDUCING, seed=1), normal(NUM_LATENTS, seed=2)
    root = (0.3 * normal(NUM_LATENTS, NUM_INDUCING, NUM_INDUCING, seed=3)).tril(-1) + 0.7 * torch.eye(NUM_INDUCING)
    ours = IndependentGPs(build_kernel(request.param), points, NUM_LATENTS, solver=Cholesky(jitter=JITTER))
    peer = Peer(build_kernel(request.param), points).double()
    with torch.no_grad():
        ours.variational_mean.copy_(mean)
        ours.variational_root.copy_(root)
        ours.mean.constant.copy_(constant)
        strategy = peer.variational_strategy
        strategy.variational_params_initialized.fill_(1)
        strategy._variational_distribution.variational_mean.copy_(mean)
        strategy._variational_distribution.chol_variational_covar.copy_(root)
        peer.mean_module.constant.copy_(constant)
    return ours, peer


def inputs(ours):
    """Near, between, far from and at the inducing points."""
    return torch.cat([normal(20, NUM_INPUTS, seed=4), 5 * normal(5, NUM_INPUTS, seed=6), ours.inducing_points.detach()])


def test_marginals_equal_gpytorch(pair):
    ours, peer = pair
    x = inputs(ours)
    q, expected = ours(x, 1, torch.Generator()), peer(x)
    torch.testing.assert_close(q.mean.T, expected.mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(q.var.T, expected.variance, rtol=1e-5, atol=1e-5)


def test_joint_covariance_equals_gpytorch(pair):
    ours, peer = pair
    x = inputs(ours)[:25]
    mean, cov = ours.joint(x)
    expected = peer.eval()(x)  # while training, GPyTorch computes the diagonal only
    torch.testing.assert_close(mean, expected.mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(cov, expected.covariance_matrix, rtol=1e-5, atol=1e-5)


def test_kl_equals_gpytorch(pair):
    ours, peer = pair
    peer(inputs(ours))
    torch.testing.assert_close(ours.kl(), peer.variational_strategy.kl_divergence().sum(), rtol=1e-5, atol=1e-5)


def test_gradients_equal_gpytorch(pair):
    ours, peer = pair
    x = inputs(ours)[:25]
    q, expected = ours(x, 1, torch.Generator()), peer(x)
    (q.mean.sin().sum() + q.var.log().sum() + ours.kl()).backward()
    kl = peer.variational_strategy.kl_divergence().sum()
    (expected.mean.sin().sum() + expected.variance.log().sum() + kl).backward()
    strategy = peer.variational_strategy
    distribution = strategy._variational_distribution
    pairs = [
        (ours.variational_mean, distribution.variational_mean),
        (ours.variational_root, distribution.chol_variational_covar),
        (ours.inducing_points, strategy.inducing_points),
        (ours.mean.constant, peer.mean_module.constant),
        *zip(ours.kernel.parameters(), peer.covar_module.parameters(), strict=True),
    ]
    for mine, theirs in pairs:
        assert theirs.grad.abs().max() > 1e-6
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)
