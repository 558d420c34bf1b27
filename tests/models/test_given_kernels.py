"""Kernels of GPyTorch's, with their priors and constraints, in place of the default."""

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

import mogul
from mogul import models
from mogul.data import Batch
from mogul.errors import ConfigError, FileError, ShapeError
from mogul.objective import Analytic, Elbo
from mogul.priors import own_kernel

PRIOR = gpytorch.priors.GammaPrior(3.0, 6.0)


def matern(num_latents=2, num_inputs=2, **options):
    batch = torch.Size([] if num_latents is None else [num_latents])
    base = gpytorch.kernels.MaternKernel(
        nu=2.5, ard_num_dims=num_inputs, batch_shape=batch, lengthscale_prior=PRIOR, **options
    )
    return gpytorch.kernels.ScaleKernel(base, batch_shape=batch)


def table(num_rows=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (num_rows, 2))
    Y = np.stack([np.sin(2 * X[:, 0]), np.abs(X[:, 1]), X[:, 0] * X[:, 1]], axis=1)
    return X, Y + 0.05 * rng.standard_normal(Y.shape)


def build(name="mogp", **options):
    x = torch.as_tensor(table()[0])
    return models.build(name, x, 3, torch.Generator().manual_seed(0), num_latents=2, num_inducing=8, **options)


@pytest.mark.parametrize("name", ["mogp", "n-sbgprn", "gprn", "dgp", "dk-mogp"])
def test_the_log_prior_of_a_kernel_enters_the_objective(name):
    with_prior = build(name, kernel=matern())
    kernel = matern()
    del kernel.base_kernel._priors["lengthscale_prior"]
    without = build(name, kernel=kernel)
    lengthscale = matern().double().base_kernel.lengthscale
    x, y = (torch.as_tensor(part) for part in table())
    terms = [
        Elbo(Analytic(), num_data=60)(model.eval(), Batch.of(x, y), torch.Generator().manual_seed(0))
        for model in (with_prior, without)
    ]
    expected = PRIOR.log_prob(lengthscale).sum()
    torch.testing.assert_close(terms[0].log_prior - terms[1].log_prior, expected)
    torch.testing.assert_close(terms[0].total() - terms[1].total(), expected)


def test_a_strong_prior_decides_the_lengthscale():
    X, Y = table()
    kernel = matern()
    kernel.base_kernel.register_prior("lengthscale_prior", gpytorch.priors.NormalPrior(7.0, 1e-3), "lengthscale")
    kernel.base_kernel.lengthscale = 6.5
    regressor = mogul.MultiOutputGPRegressor(
        "mogp", num_latents=2, num_inducing=10, epochs=60, num_starts=1, options={"kernel": kernel}
    ).fit(X, Y)
    found = regressor.fitted_.model.prior.kernel.base_kernel.lengthscale
    assert (found - 7.0).abs().max() < 0.05


def test_a_constraint_holds_through_training():
    X, Y = table()
    kernel = matern(lengthscale_constraint=gpytorch.constraints.GreaterThan(3.0))
    regressor = mogul.MultiOutputGPRegressor(
        "mogp", num_latents=2, num_inducing=20, epochs=30, num_starts=1, options={"kernel": kernel}
    ).fit(X, Y)
    assert (regressor.fitted_.model.prior.kernel.base_kernel.lengthscale >= 3.0).all()


@pytest.mark.no_cover  # many steps on lines that other tests run too
@pytest.mark.parametrize("num_latents", [None, 2])
def test_a_matern_kernel_learns_and_predicts(num_latents):
    X, Y = table(150)
    regressor = mogul.MultiOutputGPRegressor(
        "mogp", num_latents=2, num_inducing=25, epochs=80, num_starts=1, options={"kernel": matern(num_latents)}
    ).fit(X[:120], Y[:120])
    assert regressor.score(X[120:], Y[120:]) > LinearRegression().fit(X[:120], Y[:120]).score(X[120:], Y[120:]) + 0.2
    np.testing.assert_allclose(regressor.predict(X), regressor.fitted_.predict(X).mean, rtol=1e-6, atol=1e-8)


def test_the_users_kernel_is_left_alone_and_starts_do_not_share_it():
    kernel = matern()
    before = {name: value.clone() for name, value in kernel.state_dict().items()}
    mogul.MultiOutputGPRegressor(
        "mogp", num_latents=2, num_inducing=5, epochs=3, num_starts=2, options={"kernel": kernel}
    ).fit(*table())
    for name, value in kernel.state_dict().items():
        assert torch.equal(value, before[name])
    first, second = build(kernel=kernel), build(kernel=kernel)
    assert first.prior.kernel is not second.prior.kernel


def test_deep_models_keep_their_own_kernels_above():
    model = build("dgp", kernel=matern())
    first, second = model.prior.layers
    assert isinstance(first.kernel.base_kernel, gpytorch.kernels.MaternKernel)
    assert isinstance(second.kernel.base_kernel, gpytorch.kernels.RBFKernel)


def test_a_kernel_that_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match=r"batch shape \(\) or \(2,\)"):
        build(kernel=matern(num_latents=3))
    with pytest.raises(ConfigError, match="kernel must take inputs of 2 columns; ScaleKernel does not"):
        build(kernel=matern(num_inputs=5))
    with pytest.raises(ConfigError, match=r"must be a gpytorch.kernels.Kernel; got 'matern'"):
        own_kernel("matern", torch.zeros(3, 2))


def test_a_file_holds_no_kernel_of_ones_own(tmp_path):
    regressor = mogul.MultiOutputGPRegressor(
        "mogp", num_latents=2, num_inducing=5, epochs=1, num_starts=1, options={"kernel": matern()}
    ).fit(*table())
    with pytest.raises(FileError, match="A file holds no code"):
        regressor.save(tmp_path / "model.mogul")
    assert not list(tmp_path.iterdir())
