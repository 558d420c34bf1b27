"""A model: what it says of the signal in closed form, by components and by whole functions."""

import math

import pytest
import torch
from tests.helpers.perturbing import perturbed
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from mogul.data import Batch
from mogul.models import build
from mogul.models.model import Model, Observed

SIZES = {"num_latents": 2, "num_hidden": 4, "num_inducing": 5}
both_models = pytest.mark.parametrize("name", ["mogp", "n-mogp"])


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(num_rows: int, seed: int = 3) -> Tensor:
    return torch.randn(num_rows, 2, generator=seeded(seed), dtype=torch.float64)


@pytest.fixture
def model(name: str) -> Model:
    """A model with three outputs whose parameters are all moved at random."""
    built = build(name, points(9), 3, seeded(), **SIZES)
    return perturbed(built, seeded(2), 0.2)


def assert_mean_is(draws: Tensor, expected: Tensor, *, margin: float = 4.5) -> None:
    """The mean over the first axis is `expected`, within so many standard errors."""
    standard_error = draws.std(0) / math.sqrt(len(draws))
    assert torch.all((draws.mean(0) - expected).abs() < margin * standard_error)


@both_models
@torch.no_grad()
def test_moments_are_those_of_the_components(model: Model):
    x = points(4, seed=5)
    exact = model.moments(x, 1, seeded())
    parts = model.components(x, 40_000, seeded())
    assert_mean_is(parts.mean, exact.mean)
    assert_mean_is(parts.var + (parts.mean - exact.mean).square(), exact.var)


@both_models
@torch.no_grad()
def test_whole_functions_have_the_moments_of_single_points(model: Model):
    x = points(4, seed=5)
    exact = model.moments(x, 1, seeded())
    draws = model.sample_joint(x, 40_000, seeded())
    assert_mean_is(draws, exact.mean)
    assert_mean_is((draws - exact.mean).square(), exact.var)


@pytest.mark.parametrize("name", ["mogp"])
@torch.no_grad()
def test_whole_functions_are_correlated_over_points_as_functions_are(model: Model):
    x = points(4, seed=5)
    draws = model.sample_joint(x, 40_000, seeded())
    mean, cov = model.prior.joint(x)  # of each latent function over points
    mixing, mixing_var = model.head.mixing.mean, torch.exp(2 * model.head.mixing.log_scale)
    expected = torch.einsum("pl,lnm->pnm", mixing.square() + mixing_var, cov)
    expected += torch.einsum("pl,ln,lm->pnm", mixing_var, mean, mean)
    centred = draws - mean.T @ mixing.T
    assert_mean_is(torch.einsum("snp,smp->spnm", centred, centred), expected)


@both_models
@torch.no_grad()
def test_nearby_points_share_a_function_but_not_a_component(model: Model):
    x = torch.tensor([[0.3, -0.2], [0.3001, -0.2]], dtype=torch.float64)
    draws = model.sample_joint(x, 500, seeded())
    assert (draws[:, 0] - draws[:, 1]).abs().max() < 0.01
    parts = model.components(x, 500, seeded()).mean
    assert (parts[:, 0] - parts[:, 1]).abs().max() > 0.1


@both_models
@pytest.mark.parametrize("num_rows", [1, 2, 3, 5])
@torch.no_grad()
def test_a_point_does_not_care_in_whose_company_it_is_asked_for(model: Model, num_rows):
    x = points(6, seed=5)
    whole, part = (model.moments(some, 1, seeded()) for some in (x, x[:num_rows]))
    torch.testing.assert_close(part.mean, whole.mean[:num_rows], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(part.var, whole.var[:num_rows], rtol=1e-12, atol=1e-12)


@both_models
@torch.no_grad()
def test_shapes_are_draws_by_points_by_outputs(model: Model):
    x = points(4)
    assert model.moments(x, 7, seeded()).mean.shape == model.moments(x, 7, seeded()).var.shape == (4, 3)
    assert model.components(x, 7, seeded()).mean.shape == model.components(x, 7, seeded()).var.shape == (7, 4, 3)
    assert model.sample_joint(x, 7, seeded()).shape == (7, 4, 3)


@both_models
@torch.no_grad()
def test_draws_are_decided_by_the_generator_alone(model: Model):
    x = points(4)
    torch.manual_seed(0)
    first = model.components(x, 3, seeded(7)), model.sample_joint(x, 3, seeded(7))
    torch.manual_seed(1)
    state = torch.get_rng_state()
    again = model.components(x, 3, seeded(7)), model.sample_joint(x, 3, seeded(7))
    other = model.components(x, 3, seeded(8)), model.sample_joint(x, 3, seeded(8))
    assert torch.equal(first[0].mean, again[0].mean)
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0].mean, other[0].mean)
    assert not torch.equal(first[1], other[1])
    assert torch.equal(state, torch.get_rng_state()), "the global generator must not be touched"


@both_models
def test_kl_is_the_sum_over_all_latent_variables(model: Model):
    prior, mixing = model.prior, model.head.mixing
    root = prior.variational_root.tril()
    sign = torch.sign(root.diagonal(dim1=-2, dim2=-1)).unsqueeze(-2)
    q = MultivariateNormal(prior.variational_mean, scale_tril=root * sign)
    zero = torch.zeros_like(prior.variational_mean)
    expected = kl_divergence(q, MultivariateNormal(zero, torch.eye(zero.shape[-1], dtype=zero.dtype))).sum()
    latents = [(mixing.mean, mixing.log_scale)]
    if hasattr(model.head.features, "bias_mean"):
        latents.append((model.head.features.bias_mean, model.head.features.bias_log_scale))
    for mean, log_scale in latents:
        expected = expected + kl_divergence(Normal(mean, log_scale.exp()), Normal(0.0, 1.0)).sum()
    torch.testing.assert_close(model.kl(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["n-mogp"])
def test_log_prior_is_that_of_the_hidden_weights(model: Model):
    expected = Normal(0.0, 1.0).log_prob(model.head.features.hidden_weights).sum()
    torch.testing.assert_close(model.log_prior(), expected, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("name", ["mogp"])
def test_a_model_without_map_estimates_has_no_log_prior(model: Model):
    assert model.log_prior() == 0.0


@both_models
def test_observed_inputs_are_drawn_as_they_are(model: Model):
    batch = Batch.of(points(4), torch.zeros(4, 3, dtype=torch.float64))
    assert isinstance(model.inputs, Observed)
    assert torch.equal(model.inputs.draw(batch, seeded()), batch.x)
    assert model.inputs.kl(batch).tolist() == [0.0] * 4


@both_models
def test_a_model_survives_a_round_trip_through_its_state(model: Model, name: str):
    copy = build(name, points(9), 3, seeded(99), **SIZES)
    copy.load_state_dict(model.state_dict())
    x = points(4)
    with torch.no_grad():
        assert torch.equal(copy.moments(x, 1, seeded()).var, model.moments(x, 1, seeded()).var)
        assert torch.equal(copy.sample_joint(x, 2, seeded()), model.sample_joint(x, 2, seeded()))
