"""Models that must be the same model."""

import copy

import pytest
import torch
from tests.helpers.small_models import NUM_OUTPUTS, NUM_ROWS, small_batch, small_model

from mogul.core.moments import Marginals
from mogul.heads import BayesianMixing, GPMixing, Head, NetMixing, Neural
from mogul.models.model import Latent, Model, Observed
from mogul.nonlinearities import Quadrature
from mogul.objective import Analytic, Elbo, MonteCarlo
from mogul.priors import DeepGPs, IndependentGPs, LinearMean, rbf

TINY = -30.0  # the log of a standard deviation that is nothing


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def assert_same(first: Model, second: Model, tolerance: float = 1e-9) -> None:
    x = small_batch().x
    with torch.no_grad():
        for part in (Model.moments, Model.components):
            one, two = part(first, x, 9, generator()), part(second, x, 9, generator())
            torch.testing.assert_close(one.mean, two.mean, atol=tolerance, rtol=0)
            torch.testing.assert_close(one.var, two.var, atol=tolerance, rtol=0)


def without_hidden_noise(features: Neural) -> Neural:
    """Hidden units that pass their latents on: identity weights, no bias."""
    with torch.no_grad():
        features.hidden_weights.copy_(torch.eye(*features.hidden_weights.shape))
        features.bias_mean.zero_()
        features.bias_log_scale.fill_(TINY)
    return features


def test_gprn_and_sbgprn_and_mogp_with_one_matrix_are_one_model() -> None:
    mogp = small_model("mogp")
    matrix = mogp.head.mixing.mean.detach().clone()
    with torch.no_grad():
        mogp.head.mixing.log_scale.fill_(TINY)
    net = NetMixing(2, *matrix.shape, generator()).double()
    kernel = rbf(2)
    kernel.outputscale = 1e-14
    gps = IndependentGPs(kernel, torch.randn(4, 2, generator=generator(), dtype=torch.float64), matrix.numel())
    with torch.no_grad():
        net.net.weights[-1].zero_()
        net.net.biases[-1].copy_(matrix.flatten())
        gps.mean.constant.copy_(matrix.flatten())
        gps.variational_root.mul_(1e-14)
    for mixing in (net, GPMixing(gps, NUM_OUTPUTS)):
        other = Model(mogp.inputs, mogp.prior, Head(mogp.head.features, mixing, mogp.head.noise))
        assert_same(mogp, other)


@pytest.mark.parametrize("family", ["mogp", "sbgprn", "dgp"])
def test_neural_model_with_identity_units_is_the_plain_model(family: str) -> None:
    plain = small_model(family)
    neural = Neural(Quadrature(lambda a: a), 2, 2, generator()).double()
    other = Model(plain.inputs, plain.prior, Head(without_hidden_noise(neural), plain.head.mixing, plain.head.noise))
    x = small_batch().x
    with torch.no_grad():
        one, two = plain.moments(x, 9, generator()), other.moments(x, 9, generator())
        q = plain.prior(x, 9, generator())
        torch.testing.assert_close(one.mean, two.mean, atol=1e-9, rtol=0)
        torch.testing.assert_close(one.var, two.var, atol=1e-9, rtol=0)
        f = q.sample(9, generator())
        given = [model.head.given_f(f, x, generator()) for model in (plain, other)]
        torch.testing.assert_close(given[0].mean, given[1].mean, atol=1e-9, rtol=0)
        torch.testing.assert_close(given[0].var, given[1].var, atol=1e-9, rtol=0)


def test_dgp_with_a_deterministic_identity_layer_is_mogp() -> None:
    mogp = small_model("mogp")
    kernel = rbf(2, 2)
    kernel.outputscale = 1e-20
    identity = IndependentGPs(kernel, small_batch().x[:5], 2, mean=LinearMean(torch.eye(2, dtype=torch.float64)))
    with torch.no_grad():
        identity.variational_root.mul_(1e-14)
    deep = Model(mogp.inputs, DeepGPs(identity, mogp.prior), mogp.head)
    x = small_batch().x
    with torch.no_grad():
        one, two = mogp.moments(x, 3, generator()), deep.moments(x, 3, generator())
    torch.testing.assert_close(one.mean, two.mean, atol=1e-6, rtol=0)
    torch.testing.assert_close(one.var, two.var, atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", ["mogp", "gprn", "sbgprn", "n-mogp", "n-sbgprn", "dgp", "n-dgp"])
@pytest.mark.parametrize(
    "estimator", [Analytic(num_samples=3), MonteCarlo(num_samples=5)], ids=["analytic", "montecarlo"]
)
def test_lvm_with_collapsed_inputs_is_the_regression_model(family: str, estimator: Analytic | MonteCarlo) -> None:
    batch = small_batch(missing=True)
    regression = small_model(family)
    latent = Latent(batch.x)
    with torch.no_grad():
        latent.log_scale.fill_(TINY)
    lvm = Model(latent, regression.prior, regression.head)
    elbo = Elbo(estimator, num_data=NUM_ROWS)

    class Skip(Observed):
        """Draw what Latent draws, so that both use the same numbers afterwards."""

        def draw(self, batch, generator):  # signature of the parent
            latent.draw(batch, generator)
            return batch.x

    with torch.no_grad():
        one = elbo(lvm, batch, generator())
        two = elbo(Model(Skip(), regression.prior, regression.head), batch, generator())
    torch.testing.assert_close(one.ell, two.ell, atol=1e-7, rtol=0)
    expected = 0.5 * (batch.x.square() + torch.exp(torch.tensor(2 * TINY)) - 1 - 2 * TINY).sum()
    torch.testing.assert_close(one.kl_local, expected)


def test_a_deep_copy_is_independent() -> None:
    model = small_model("n-sbgprn")
    twin = copy.deepcopy(model)
    assert_same(model, twin, tolerance=0.0)
    with torch.no_grad():
        twin.head.noise.log_precision.add_(1.0)
        twin.prior.variational_mean.add_(1.0)
    x = small_batch().x
    before: Marginals = model.moments(x, 1, generator())
    after: Marginals = twin.moments(x, 1, generator())
    assert not torch.equal(before.mean, after.mean)


def test_mixing_variance_matters() -> None:
    mogp = small_model("mogp")
    assert isinstance(mogp.head.mixing, BayesianMixing)
    x = small_batch().x
    before = mogp.moments(x, 1, generator()).var
    with torch.no_grad():
        mogp.head.mixing.log_scale.add_(1.0)
    assert (mogp.moments(x, 1, generator()).var > before).all()
