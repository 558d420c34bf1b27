"""The whitened sparse layer: contracts that every kernel and every sharing of parts must keep."""

import warnings

import gpytorch
import pytest
import torch
from tests.helpers.draws import normal
from tests.helpers.gradients import assert_finite_nonzero_gradients

from mogul.core.base_samples import FreshNormals
from mogul.errors import ConfigError, MogulWarning, ShapeError
from mogul.priors import Cholesky, IndependentGPs, Prior, randomise, rbf

NUM_LATENTS, NUM_INDUCING, NUM_INPUTS = 3, 5, 2
BATCH = torch.Size([NUM_LATENTS])
KERNELS = {
    "rbf": lambda: rbf(NUM_INPUTS, NUM_LATENTS),
    "shared rbf": lambda: gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()),
    "matern": lambda: gpytorch.kernels.MaternKernel(nu=1.5, batch_shape=BATCH),
    "shared matern": lambda: gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=NUM_INPUTS),
    "periodic": lambda: gpytorch.kernels.PeriodicKernel(batch_shape=BATCH),
    "linear": lambda: gpytorch.kernels.LinearKernel(batch_shape=BATCH),
    "sum": lambda: gpytorch.kernels.RBFKernel(batch_shape=BATCH) + gpytorch.kernels.LinearKernel(batch_shape=BATCH),
    "shared sum": lambda: gpytorch.kernels.RBFKernel() + gpytorch.kernels.LinearKernel(),
}
INDUCING_SHAPES = {"shared points": (), "own points": (NUM_LATENTS,)}
by_kernel = pytest.mark.parametrize("kernel", KERNELS)
by_inducing = pytest.mark.parametrize("inducing", INDUCING_SHAPES)


def make_prior(kernel="rbf", inducing="shared points", mean="constant", solver=None):
    """A prior away from its start: every parameter of q and the means drawn at random."""
    points = normal(*INDUCING_SHAPES[inducing], NUM_INDUCING, NUM_INPUTS)
    prior = IndependentGPs(KERNELS[kernel](), points, NUM_LATENTS, mean=mean, solver=solver)
    with torch.no_grad():
        prior.variational_mean.copy_(normal(NUM_LATENTS, NUM_INDUCING, seed=1))
        prior.variational_root.copy_(0.3 * normal(NUM_LATENTS, NUM_INDUCING, NUM_INDUCING, seed=2) + torch.eye(5))
        if mean == "constant":
            prior.mean.constant.copy_(normal(NUM_LATENTS, seed=3))
    return prior


def marginals(prior, x):
    return prior(x, 1, torch.Generator())


def textbook(prior, x):
    """Mean (L, N) and covariance (L, N, N) without whitening, by plain inverses, one GP after another."""
    means, covs = [], []
    for latent in range(NUM_LATENTS):
        z = prior.inducing_points if prior.inducing_points.dim() == 2 else prior.inducing_points[latent]
        both = prior.kernel(torch.cat([z, x])).to_dense()
        both = both if both.dim() == 2 else both[latent]
        size = len(z)
        kzz, kzx, kxx = both[:size, :size], both[:size, size:], both[size:, size:]
        kzz = kzz + 1e-8 * kzz.diagonal().mean() * torch.eye(size, dtype=torch.float64)
        factor = torch.linalg.cholesky(kzz)
        # q(u) of the inducing outputs themselves, about the constant.
        root = factor @ prior.variational_root[latent].tril()
        center = factor @ prior.variational_mean[latent]
        weights = torch.linalg.inv(kzz) @ kzx
        means.append(prior.mean.constant[latent] + weights.T @ center)
        covs.append(kxx - weights.T @ (kzz - root @ root.T) @ weights)
    return torch.stack(means), torch.stack(covs)


@by_kernel
@by_inducing
def test_the_layer_equals_the_textbook_without_whitening(kernel, inducing):
    prior, x = make_prior(kernel, inducing), normal(7, NUM_INPUTS, seed=4)
    mean, cov = textbook(prior, x)
    q = marginals(prior, x)
    joint_mean, joint_cov = prior.joint(x)
    for actual, expected in (
        (q.mean.T, mean),
        (q.var.T, cov.diagonal(dim1=-2, dim2=-1)),
        (joint_mean, mean),
        (joint_cov, cov),
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)


@by_kernel
@by_inducing
def test_joint_moments_have_the_marginals_on_their_diagonal(kernel, inducing):
    prior, x = make_prior(kernel, inducing), normal(7, NUM_INPUTS, seed=4)
    q = marginals(prior, x)
    mean, cov = prior.joint(x)
    assert cov.shape == (NUM_LATENTS, 7, 7)
    torch.testing.assert_close(mean, q.mean.T)
    torch.testing.assert_close(cov.diagonal(dim1=-2, dim2=-1), q.var.T)


@by_kernel
@by_inducing
def test_leading_axes_give_the_same_as_flat_rows(kernel, inducing):
    prior, x = make_prior(kernel, inducing), normal(2, 4, 3, NUM_INPUTS, seed=4)
    nested, flat = marginals(prior, x), marginals(prior, x.reshape(24, NUM_INPUTS))
    assert nested.mean.shape == nested.var.shape == (2, 4, 3, NUM_LATENTS)
    torch.testing.assert_close(nested.mean.reshape(24, NUM_LATENTS), flat.mean)
    torch.testing.assert_close(nested.var.reshape(24, NUM_LATENTS), flat.var)


@by_kernel
@by_inducing
def test_every_parameter_gets_a_finite_nonzero_gradient(kernel, inducing):
    prior, x = make_prior(kernel, inducing), normal(7, NUM_INPUTS, seed=4)
    q = marginals(prior, x)
    (q.mean.sin().sum() + q.var.log().sum() + prior.kl()).backward()
    assert_finite_nonzero_gradients(prior)


@by_kernel
def test_inputs_get_the_right_gradient(kernel):
    prior, x = make_prior(kernel), normal(2, NUM_INPUTS, seed=4).requires_grad_()

    def moments(rows):
        q = marginals(prior, rows)
        return q.mean, q.var

    assert torch.autograd.gradcheck(moments, (x,))


@by_inducing
def test_a_shared_kernel_equals_as_many_copies(inducing):
    shared, copies = make_prior("shared rbf", inducing), make_prior("rbf", inducing)
    shared.kernel.outputscale, shared.kernel.base_kernel.lengthscale = 1.7, 0.8
    copies.kernel.outputscale, copies.kernel.base_kernel.lengthscale = 1.7, 0.8
    x = normal(7, NUM_INPUTS, seed=4)
    torch.testing.assert_close(marginals(shared, x).mean, marginals(copies, x).mean)
    torch.testing.assert_close(marginals(shared, x).var, marginals(copies, x).var)
    torch.testing.assert_close(shared.joint(x)[1], copies.joint(x)[1])


def test_shared_inducing_points_equal_as_many_copies():
    shared, own = make_prior(), make_prior(inducing="own points")
    with torch.no_grad():
        own.inducing_points.copy_(shared.inducing_points.expand_as(own.inducing_points))
    x = normal(7, NUM_INPUTS, seed=4)
    torch.testing.assert_close(marginals(shared, x).mean, marginals(own, x).mean)
    torch.testing.assert_close(marginals(shared, x).var, marginals(own, x).var)


def test_each_gp_uses_its_own_inducing_points():
    prior, x = make_prior(inducing="own points"), normal(7, NUM_INPUTS, seed=4)
    before = marginals(prior, x).mean
    with torch.no_grad():
        prior.inducing_points[1] += 0.5
    moved = (marginals(prior, x).mean - before).abs().amax(0)
    assert moved[1] > 1e-3
    assert moved[[0, 2]].max() == 0


def test_a_constant_mean_shifts_the_marginals_of_a_zero_mean():
    zero, constant = make_prior(mean="zero"), make_prior(mean="constant")
    x = normal(7, NUM_INPUTS, seed=4)
    shift = marginals(constant, x).mean - marginals(zero, x).mean
    torch.testing.assert_close(shift, constant.mean.constant.expand_as(shift))
    torch.testing.assert_close(marginals(constant, x).var, marginals(zero, x).var)
    assert "mean.constant" not in dict(zero.named_parameters())
    assert "mean.constant" in dict(constant.named_parameters())


def test_at_its_start_the_layer_is_the_prior():
    prior = IndependentGPs(rbf(NUM_INPUTS, NUM_LATENTS), normal(NUM_INDUCING, NUM_INPUTS), NUM_LATENTS)
    x = normal(7, NUM_INPUTS, seed=4)
    q = marginals(prior, x)
    torch.testing.assert_close(q.mean, torch.zeros_like(q.mean))
    torch.testing.assert_close(q.var, torch.ones_like(q.var))
    torch.testing.assert_close(prior.joint(x)[1], prior.kernel(x).to_dense())
    assert prior.kl().item() == pytest.approx(0, abs=1e-12)


def test_far_from_the_inducing_points_the_prior_returns():
    prior = make_prior()
    q = marginals(prior, torch.full((1, NUM_INPUTS), 1e3, dtype=torch.float64))
    torch.testing.assert_close(q.mean[0], prior.mean.constant.detach())
    torch.testing.assert_close(q.var[0], prior.kernel.outputscale.detach())


def test_kl_equals_the_one_of_torch():
    prior = make_prior()
    q = torch.distributions.MultivariateNormal(
        prior.variational_mean,
        scale_tril=prior.variational_root.tril() * prior.variational_root.diagonal(0, 1, 2).sign()[:, None],
    )
    unit = torch.distributions.MultivariateNormal(torch.zeros(NUM_INDUCING).double(), torch.eye(NUM_INDUCING).double())
    expected = torch.distributions.kl_divergence(q, unit).sum()
    torch.testing.assert_close(prior.kl(), expected)


def test_only_the_lower_triangle_of_the_root_counts():
    prior, x = make_prior(), normal(7, NUM_INPUTS, seed=4)
    before = marginals(prior, x).var, prior.kl()
    with torch.no_grad():
        prior.variational_root += 10 * torch.ones(NUM_INDUCING, NUM_INDUCING).triu(1)
    assert torch.equal(marginals(prior, x).var, before[0])
    assert torch.equal(prior.kl(), before[1])


def test_joint_samples_have_the_joint_moments(generator):
    prior, x = make_prior(), normal(4, NUM_INPUTS, seed=4)
    num_draws = 200_000
    draws = prior.sample_joint(x, FreshNormals(x, num_draws, generator))
    assert draws.shape == (num_draws, 4, NUM_LATENTS)
    mean, cov = prior.joint(x)
    centered = draws - mean.T
    assert_within_standard_errors(draws, mean.T)
    for latent in range(NUM_LATENTS):
        products = centered[:, :, None, latent] * centered[:, None, :, latent]
        assert_within_standard_errors(products, cov[latent])
    assert_within_standard_errors(centered[..., 0] * centered[..., 1], torch.zeros(4).double())


def assert_within_standard_errors(draws, expected):
    error = (draws.mean(0) - expected).abs()
    assert (error <= 5 * draws.std(0) / len(draws) ** 0.5 + 1e-7).all()


def test_joint_samples_at_one_point_are_the_same(generator):
    prior = make_prior()
    x = normal(1, NUM_INPUTS, seed=4).expand(2, NUM_INPUTS)
    draws = prior.sample_joint(x, FreshNormals(x, 100, generator))
    torch.testing.assert_close(draws[:, 0], draws[:, 1], rtol=0, atol=1e-3)
    assert draws[:, 0].std(0).min() > 0.1


def test_joint_samples_on_a_fine_grid_do_not_blame_the_inducing_points(generator):
    points = torch.linspace(-2, 2, 20)[:, None]
    prior = IndependentGPs(rbf(1, 2), points, 2)
    randomise(prior, generator, spread=1.0, scale=0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.linspace(-2, 2, 100)[:, None]
        prior.sample_joint(x, FreshNormals(x, 2, generator))
    assert not any("inducing points" in str(warning.message) for warning in caught)


def test_randomise_draws_means_and_sets_scales(generator):
    points = normal(200, NUM_INPUTS)
    prior = IndependentGPs(rbf(NUM_INPUTS, NUM_LATENTS), points, NUM_LATENTS)
    randomise(prior, generator, spread=0.5, scale=0.1)
    assert prior.variational_mean.std().item() == pytest.approx(0.5, rel=0.15)
    expected = 0.1 * torch.eye(200, dtype=torch.float64).expand(NUM_LATENTS, 200, 200)
    torch.testing.assert_close(prior.variational_root.detach(), expected)


def test_the_solver_decides_the_jitter_and_it_is_reported():
    prior, x = make_prior(solver=Cholesky(jitter=1e-3)), normal(7, NUM_INPUTS, seed=4)
    assert prior.jitter == 0
    marginals(prior, x)
    assert prior.jitter == pytest.approx(1e-3)
    prior = make_prior()
    marginals(prior, x)
    assert prior.jitter == pytest.approx(1e-8)


def test_coinciding_inducing_points_are_survived_in_float32():
    points = torch.zeros(30, NUM_INPUTS)
    points[1:] += 1e-4 * normal(29, NUM_INPUTS).float()
    prior = IndependentGPs(rbf(NUM_INPUTS, NUM_LATENTS), points, NUM_LATENTS, solver=Cholesky(jitter=1e-10))
    with pytest.warns(MogulWarning, match="Fewer inducing points or float64"):
        q = marginals(prior, torch.zeros(4, NUM_INPUTS))
    assert torch.isfinite(q.mean).all()
    assert (q.var > 0).all()
    assert prior.jitter > 1e-10


def test_float32_agrees_with_float64():
    double, x = make_prior(), normal(7, NUM_INPUTS, seed=4)
    expected = marginals(double, x)
    q = marginals(double.float(), x.float())
    assert q.mean.dtype == q.var.dtype == torch.float32
    torch.testing.assert_close(q.mean.double(), expected.mean, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(q.var.double(), expected.var, rtol=1e-4, atol=1e-4)


def test_the_kernel_takes_the_precision_of_the_inducing_points():
    prior = make_prior()
    assert {parameter.dtype for parameter in prior.parameters()} == {torch.float64}


def test_independent_gps_are_a_prior():
    assert isinstance(make_prior(), Prior)


def test_a_kernel_of_another_batch_shape_is_refused():
    with pytest.raises(ShapeError) as caught:
        IndependentGPs(rbf(NUM_INPUTS, 2), normal(NUM_INDUCING, NUM_INPUTS), NUM_LATENTS)
    message = str(caught.value)
    assert "must have batch shape () or (3,)" in message
    assert "got (2,)" in message
    assert "Build it with batch_shape=torch.Size([3])." in message


@pytest.mark.parametrize("leading", [(2,), (1,), (3, 1)], ids=str)
def test_inducing_points_for_another_number_of_gps_are_refused(leading):
    shape = (*leading, NUM_INDUCING, NUM_INPUTS)
    with pytest.raises(ShapeError) as caught:
        IndependentGPs(rbf(NUM_INPUTS, NUM_LATENTS), normal(*shape), NUM_LATENTS)
    message = str(caught.value)
    assert "inducing_points must be (M, D), or (L, M, D) with L = 3" in message
    assert f"got {shape}" in message
    assert "Share them among the GPs, or give one set for each." in message


@pytest.mark.parametrize("shape", [(0, NUM_INPUTS), (NUM_INDUCING, 0)], ids=str)
def test_empty_inducing_points_are_refused(shape):
    with pytest.raises(ShapeError, match=r"inducing_points must not be empty; got \(.*\)\. Give at least one\."):
        IndependentGPs(rbf(NUM_INPUTS, NUM_LATENTS), normal(*shape), NUM_LATENTS)


@pytest.mark.parametrize("number", [0, -1])
def test_a_number_of_gps_that_is_not_positive_is_refused(number):
    with pytest.raises(ConfigError, match=rf"num_latents must be at least 1; got {number}\."):
        IndependentGPs(rbf(NUM_INPUTS, 1), normal(NUM_INDUCING, NUM_INPUTS), number)
