"""Features against brute-force sampling."""

import pytest
import torch
from tests.helpers.draws import normal
from tests.helpers.gradients import assert_finite_nonzero_gradients

from mogul.core.base_samples import FreshNormals
from mogul.core.moments import FeatureMoments, Marginals
from mogul.errors import ConfigError
from mogul.heads import Features, Identity, Neural
from mogul.nonlinearities import Quadrature, by_name, names

NUM_POINTS, NUM_LATENTS, NUM_HIDDEN = 2, 2, 3
NUM_CHUNKS, CHUNK = 100, 10_000


def make_units(sigma="sherf", weight_scale=1.0):
    """Hidden units with weights and biases away from their start."""
    chosen = by_name(sigma) if isinstance(sigma, str) else sigma
    units = Neural(chosen, NUM_LATENTS, NUM_HIDDEN, torch.Generator().manual_seed(0), weight_scale).double()
    with torch.no_grad():
        units.bias_log_scale.copy_(0.5 * normal(NUM_HIDDEN, seed=1) - 0.5)
    return units


def make_q():
    return Marginals(normal(NUM_POINTS, NUM_LATENTS, seed=2), normal(NUM_POINTS, NUM_LATENTS, seed=3).square() + 0.1)


def chunk_averages(draw, *statistics):
    """Averages of each statistic over each chunk of draws, and their grand mean and its standard error."""
    chunks = []
    for _ in range(NUM_CHUNKS):
        values = draw()
        chunks.append([statistic(values).mean(0) for statistic in statistics])
    for column in zip(*chunks, strict=True):
        averages = torch.stack(column)
        yield averages.mean(0), averages.std(0) / NUM_CHUNKS**0.5


def assert_monte_carlo_agrees(draw, moments):
    """The draws (S, N, H) have this mean and this covariance, within five standard errors."""

    def products(h):
        centered = h - moments.mean
        return centered.unsqueeze(-1) * centered.unsqueeze(-2)

    (mean, mean_error), (cov, cov_error) = chunk_averages(draw, lambda h: h, products)
    assert ((mean - moments.mean).abs() <= 5 * mean_error + 1e-12).all()
    assert ((cov - moments.cov).abs() <= 5 * cov_error + 1e-12).all()


@pytest.mark.parametrize("sigma", names())
def test_neural_moments_equal_brute_force_sampling(sigma, generator):
    units, q = make_units(sigma), make_q()

    def draw():
        noise = torch.randn(CHUNK, NUM_POINTS, NUM_LATENTS, generator=generator, dtype=torch.float64)
        f = q.mean + q.var.sqrt() * noise
        bias_noise = torch.randn(CHUNK, NUM_POINTS, NUM_HIDDEN, generator=generator, dtype=torch.float64)
        bias = units.bias_mean + units.bias_log_scale.exp() * bias_noise
        return units.nonlinearity(torch.einsum("hl,snl->snh", units.hidden_weights, f) + bias)

    with torch.no_grad():
        assert_monte_carlo_agrees(draw, units.moments(q))


def sample(units, f, generator, *, joint):
    return units.sample_joint(f, FreshNormals(f[0], len(f), generator)) if joint else units.sample(f, generator)


@pytest.mark.parametrize("joint", [False, True])
def test_samples_of_neural_features_have_their_moments(joint, generator):
    units, q = make_units(), make_q()
    with torch.no_grad():
        assert_monte_carlo_agrees(
            lambda: sample(units, q.sample(CHUNK, generator), generator, joint=joint), units.moments(q)
        )


def test_the_variances_of_neural_moments_are_the_diagonal_of_the_covariance():
    moments = make_units().moments(make_q())
    assert torch.equal(moments.var, moments.cov.diagonal(dim1=-2, dim2=-1))


def test_moments_keep_leading_axes():
    units = make_units()
    mean, var = normal(4, 3, NUM_POINTS, NUM_LATENTS, seed=2), normal(4, 3, NUM_POINTS, NUM_LATENTS, seed=3).square()
    moments = units.moments(Marginals(mean, var))
    assert moments.cov.shape == (4, 3, NUM_POINTS, NUM_HIDDEN, NUM_HIDDEN)
    one = units.moments(Marginals(mean[2, 1], var[2, 1]))
    torch.testing.assert_close(moments.mean[2, 1], one.mean)
    torch.testing.assert_close(moments.cov[2, 1], one.cov)


def test_neural_units_with_a_linear_nonlinearity_are_normal():
    units, q = make_units(Quadrature(lambda a: a, order=2)), make_q()
    moments = units.moments(q)
    weights = units.hidden_weights
    expected = torch.stack([weights @ v.diag() @ weights.T for v in q.var]) + torch.exp(2 * units.bias_log_scale).diag()
    torch.testing.assert_close(moments.mean, q.mean @ weights.T + units.bias_mean)
    torch.testing.assert_close(moments.cov, expected)


def test_a_joint_sample_shares_one_bias_among_points(generator):
    f = normal(50, 1, NUM_LATENTS, seed=4).expand(50, 6, NUM_LATENTS)
    h = sample(make_units(), f, generator, joint=True)
    assert torch.equal(h, h[:, :1].expand_as(h))


def test_other_samples_have_a_bias_for_each_point(generator):
    f = normal(50, 1, NUM_LATENTS, seed=4).expand(50, 6, NUM_LATENTS)
    h = make_units().sample(f, generator)
    assert (h[:, 1:] != h[:, :1]).all()


@pytest.mark.parametrize("joint", [False, True])
def test_each_draw_has_its_own_bias(joint, generator):
    h = sample(make_units(), torch.zeros(20, 3, NUM_LATENTS, dtype=torch.float64), generator, joint=joint)
    assert (h[1:] != h[:-1]).all()


def test_the_generator_decides_the_draw():
    f, units = normal(5, 3, NUM_LATENTS, seed=4), make_units()
    first, same, other = (units.sample(f, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_neural_kl_equals_the_one_of_torch():
    units = make_units()
    q = torch.distributions.Normal(units.bias_mean, units.bias_log_scale.exp())
    expected = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).sum()
    torch.testing.assert_close(units.kl(), expected)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0])
def test_neural_log_prior_equals_the_density_of_torch(scale):
    units = make_units(weight_scale=scale)
    expected = torch.distributions.Normal(0.0, scale).log_prob(units.hidden_weights).sum()
    torch.testing.assert_close(units.log_prior(), expected)


@pytest.mark.parametrize("sigma", names())
def test_every_parameter_gets_a_finite_nonzero_gradient(sigma, generator):
    units, q = make_units(sigma), make_q()
    moments = units.moments(q)
    (moments.mean.sin().sum() + moments.cov.sum() + units.kl() + units.log_prior()).backward()
    assert_finite_nonzero_gradients(units, everywhere=True)


def test_identity_passes_latents_and_their_moments_through(generator):
    identity, q, f = Identity(NUM_LATENTS), make_q(), normal(4, NUM_POINTS, NUM_LATENTS)
    moments = identity.moments(q)
    assert identity.num_features == NUM_LATENTS
    assert torch.equal(identity.sample(f, generator), f)
    assert torch.equal(moments.mean, q.mean)
    assert torch.equal(moments.var, q.var)
    assert moments.pairs is None
    assert torch.equal(moments.cov, torch.diag_embed(q.var))
    assert identity.kl().item() == identity.log_prior().item() == 0


@pytest.mark.parametrize("features", [Identity(2), make_units()], ids=lambda features: type(features).__name__)
def test_features_keep_their_contract(features):
    assert isinstance(features, Features)


def test_moments_of_samples_are_those_of_the_empirical_distribution():
    h = normal(7, NUM_POINTS, NUM_HIDDEN)
    moments = FeatureMoments.of_samples(h)
    for point in range(NUM_POINTS):
        rows = h[:, point]
        torch.testing.assert_close(moments.mean[point], rows.mean(0))
        torch.testing.assert_close(moments.cov[point], torch.cov(rows.T, correction=0))
        torch.testing.assert_close(moments.var[point], rows.var(0, correction=0))


@pytest.mark.parametrize(("num_latents", "num_hidden", "culprit"), [(0, 3, "num_latents"), (2, -1, "num_hidden")])
def test_sizes_that_are_not_positive_are_refused(num_latents, num_hidden, culprit, generator):
    with pytest.raises(ConfigError, match=rf"{culprit} must be at least 1; got (0|-1)\. Pass a positive number\."):
        Neural(by_name("erf"), num_latents, num_hidden, generator)


def test_identity_of_no_latents_is_refused():
    with pytest.raises(ConfigError, match=r"num_latents must be at least 1; got 0\."):
        Identity(0)
