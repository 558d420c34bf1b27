"""The head as a whole: features × mixing × noise."""

import math

import pytest
import torch
from tests.helpers.draws import normal
from tests.helpers.gradients import assert_finite_nonzero_gradients

from mogul.core.base_samples import FreshNormals
from mogul.core.moments import FeatureMoments, Marginals
from mogul.errors import ShapeError
from mogul.heads import BayesianMixing, ConstantNoise, Head, Identity, Neural
from mogul.nonlinearities import by_name

NUM_POINTS, NUM_LATENTS, NUM_HIDDEN, NUM_OUTPUTS = 2, 2, 3, 2
NUM_CHUNKS, CHUNK = 100, 10_000
NO_INPUTS = torch.zeros(NUM_POINTS, 1, dtype=torch.float64)


def make_head(kind="relu"):
    generator = torch.Generator().manual_seed(0)
    if kind == "identity":
        features = Identity(NUM_LATENTS)
    else:
        features = Neural(by_name(kind), NUM_LATENTS, NUM_HIDDEN, generator)
    mixing = BayesianMixing(NUM_OUTPUTS, features.num_features, generator)
    head = Head(features, mixing, ConstantNoise(NUM_OUTPUTS)).double()
    with torch.no_grad():
        mixing.log_scale.copy_(0.5 * normal(*mixing.log_scale.shape, seed=1) - 1)
        head.noise.log_precision.copy_(normal(NUM_OUTPUTS, seed=2))
    return head


@pytest.fixture
def q():
    return Marginals(normal(NUM_POINTS, NUM_LATENTS, seed=3), normal(NUM_POINTS, NUM_LATENTS, seed=4).square() + 0.1)


@pytest.mark.parametrize("kind", ["identity", "sherf", "leaky"])
def test_moments_equal_brute_force_sampling_of_everything(kind, q, generator):
    head = make_head(kind)
    means, squares = [], []
    with torch.no_grad():
        expected = head.moments(q, NO_INPUTS, torch.Generator())
        for _ in range(NUM_CHUNKS):
            normals = FreshNormals(q.mean, CHUNK, generator)
            h = head.features.sample_joint(q.sample(CHUNK, generator), normals)
            draws = head.mixing.sample_joint(h, NO_INPUTS, normals)
            means.append(draws.mean(0))
            squares.append((draws - expected.mean).square().mean(0))
    for chunks, moment in ((means, expected.mean), (squares, expected.var)):
        averages = torch.stack(chunks)
        assert ((averages.mean(0) - moment).abs() <= 5 * averages.std(0) / NUM_CHUNKS**0.5).all()


@pytest.mark.parametrize("kind", ["identity", "sherf"])
def test_moments_given_latents_average_to_the_moments(kind, q, generator):
    head = make_head(kind)
    with torch.no_grad():
        expected = head.moments(q, NO_INPUTS, torch.Generator())
        given = head.given_f(q.sample(200_000, generator), NO_INPUTS, generator)
    assert given.mean.shape == (200_000, NUM_POINTS, NUM_OUTPUTS)
    error = given.mean.std(0) / 200_000**0.5
    assert ((given.mean.mean(0) - expected.mean).abs() <= 5 * error).all()
    total = given.var + (given.mean - expected.mean).square()
    assert ((total.mean(0) - expected.var).abs() <= 5 * total.std(0) / 200_000**0.5).all()


def test_given_latents_each_point_has_its_own_bias(generator):
    f = normal(10, 1, NUM_LATENTS, seed=5).expand(10, NUM_POINTS, NUM_LATENTS)
    given = make_head("sherf").given_f(f, NO_INPUTS, generator)
    assert (given.mean[:, 0] != given.mean[:, 1]).all()


@pytest.mark.parametrize("kind", ["identity", "relu"])
def test_moments_of_samples_make_the_expected_log_density_the_monte_carlo_average(kind, generator):
    head = make_head(kind)
    f, y = normal(9, NUM_POINTS, NUM_LATENTS, seed=5), normal(NUM_POINTS, NUM_OUTPUTS, seed=6)
    observed = torch.tensor([[True, True], [False, True]])
    h = head.features.sample(f, generator)
    signal = head.mixing.moments(FeatureMoments.of_samples(h), NO_INPUTS, torch.Generator())
    actual = head.noise(NO_INPUTS, torch.Generator()).expected_log_density(y, observed, signal)
    weights, var = head.mixing.mean, torch.exp(2 * head.mixing.log_scale)
    for point in range(NUM_POINTS):
        total = 0.0
        for draw in h[:, point]:
            for output in range(NUM_OUTPUTS):
                if observed[point, output]:
                    beta = head.noise.log_precision[output].exp()
                    misfit = (y[point, output] - weights[output] @ draw) ** 2 + var[output] @ draw**2
                    total = total + 0.5 * (beta.log() - math.log(2 * math.pi) - beta * misfit)
        torch.testing.assert_close(actual[point], total / len(h), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["identity", "erf"])
def test_sampled_moments_are_those_of_the_mixture_of_draws(kind):
    head, f = make_head(kind), normal(9, NUM_POINTS, NUM_LATENTS, seed=5)
    sampled = head.sampled_moments(f, NO_INPUTS, torch.Generator().manual_seed(1))
    mixture = head.given_f(f, NO_INPUTS, torch.Generator().manual_seed(1))
    torch.testing.assert_close(sampled.mean, mixture.mean.mean(0))
    torch.testing.assert_close(sampled.var, mixture.var.mean(0) + mixture.mean.var(0, correction=0))


def test_kl_and_log_prior_are_sums_over_the_parts():
    head = make_head("erf")
    unit = torch.distributions.Normal(0.0, 1.0)
    bias = torch.distributions.Normal(head.features.bias_mean, head.features.bias_log_scale.exp())
    matrix = torch.distributions.Normal(head.mixing.mean, head.mixing.log_scale.exp())
    kl = torch.distributions.kl_divergence
    torch.testing.assert_close(head.kl(), kl(bias, unit).sum() + kl(matrix, unit).sum())
    torch.testing.assert_close(head.log_prior(), unit.log_prob(head.features.hidden_weights).sum())


@pytest.mark.parametrize("kind", ["identity", "erf", "sherf", "relu", "leaky"])
def test_every_parameter_gets_a_finite_nonzero_gradient(kind, q):
    head = make_head(kind)
    y, observed = normal(NUM_POINTS, NUM_OUTPUTS, seed=6), torch.ones(NUM_POINTS, NUM_OUTPUTS, dtype=torch.bool)
    ell = (
        head.noise(NO_INPUTS, torch.Generator())
        .expected_log_density(y, observed, head.moments(q, NO_INPUTS, torch.Generator()))
        .sum()
    )
    (ell - head.kl() + head.log_prior()).backward()
    assert_finite_nonzero_gradients(head, everywhere=True)


@pytest.mark.parametrize(("mixed", "noisy"), [(2, 3), (3, 1)])
def test_mixing_and_noise_of_different_outputs_are_refused(mixed, noisy, generator):
    with pytest.raises(ShapeError) as caught:
        Head(Identity(NUM_LATENTS), BayesianMixing(mixed, NUM_LATENTS, generator), ConstantNoise(noisy))
    rule, remedy = "mixing and noise must have the same number of outputs", "Build both with the same num_outputs."
    assert str(caught.value) == f"{rule}; got {mixed} and {noisy}. {remedy}"


def test_features_and_mixing_of_different_sizes_are_refused(generator):
    with pytest.raises(ShapeError, match="features and mixing"):
        Head(Identity(NUM_LATENTS), BayesianMixing(2, NUM_LATENTS + 1, generator), ConstantNoise(2))
