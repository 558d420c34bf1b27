"""Bayesian mixing against brute-force sampling of the matrix and of the features."""

import pytest
import torch
from tests.helpers.draws import normal
from tests.helpers.gradients import assert_finite_nonzero_gradients

from mogul.core.base_samples import FreshNormals
from mogul.core.moments import FeatureMoments, take_apart
from mogul.errors import ConfigError
from mogul.heads import BayesianMixing, Mixing

NUM_POINTS, NUM_FEATURES, NUM_OUTPUTS = 2, 3, 2
NUM_DRAWS = 1_000_000
NO_INPUTS = torch.zeros(NUM_POINTS, 1, dtype=torch.float64)
DRAWS = torch.Generator()  # nothing is drawn


@pytest.fixture
def mixing():
    """A mixing whose scales all differ."""
    made = BayesianMixing(NUM_OUTPUTS, NUM_FEATURES, torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        made.log_scale.copy_(0.5 * normal(NUM_OUTPUTS, NUM_FEATURES, seed=1) - 0.5)
    return made


def draw_matrices(mixing, generator):
    """(S, P, H) from q(M)."""
    noise = torch.randn(NUM_DRAWS, NUM_OUTPUTS, NUM_FEATURES, generator=generator, dtype=torch.float64)
    return mixing.mean.detach() + mixing.log_scale.detach().exp() * noise


def make_moments(correlated):
    """Feature moments, and the root of their covariance at each point."""
    mean = normal(NUM_POINTS, NUM_FEATURES, seed=2)
    root = normal(NUM_POINTS, NUM_FEATURES, NUM_FEATURES, seed=3)
    if not correlated:
        root = torch.diag_embed(root.diagonal(dim1=-2, dim2=-1))
    cov = root @ root.transpose(-1, -2)
    var = cov.diagonal(dim1=-2, dim2=-1)
    return FeatureMoments(mean, var, take_apart(cov)[1] if correlated else None), root


def assert_within_standard_errors(draws, expected):
    """The draws (S, …) have the expected mean, within five standard errors."""
    error = (draws.mean(0) - expected).abs()
    assert (error <= 5 * draws.std(0) / len(draws) ** 0.5 + 1e-12).all()


def assert_has_marginals(draws, q):
    assert_within_standard_errors(draws, q.mean)
    assert_within_standard_errors((draws - q.mean).square(), q.var)


@pytest.mark.parametrize("correlated", [True, False])
def test_moments_equal_brute_force_sampling(correlated, mixing, generator):
    features, root = make_moments(correlated)
    matrices = draw_matrices(mixing, generator)
    with torch.no_grad():
        q = mixing.moments(features, NO_INPUTS, DRAWS)
    for point in range(NUM_POINTS):
        noise = torch.randn(NUM_DRAWS, NUM_FEATURES, generator=generator, dtype=torch.float64)
        h = features.mean[point] + noise @ root[point].T
        draws = torch.einsum("sph,sh->sp", matrices, h)
        assert_within_standard_errors(draws, q.mean[point])
        assert_within_standard_errors((draws - q.mean[point]).square(), q.var[point])


def test_correlation_among_features_counts(mixing):
    features, _ = make_moments(correlated=True)
    without = FeatureMoments(features.mean, features.var)
    gap = mixing.moments(features, NO_INPUTS, DRAWS).var - mixing.moments(without, NO_INPUTS, DRAWS).var
    assert gap.abs().min() > 1e-3


def test_a_diagonal_covariance_equals_none(mixing):
    features, _ = make_moments(correlated=False)
    diagonal = FeatureMoments(features.mean, *take_apart(torch.diag_embed(features.var)))
    with_matrix, without = (
        mixing.moments(diagonal, NO_INPUTS, DRAWS),
        mixing.moments(features, NO_INPUTS, DRAWS),
    )
    torch.testing.assert_close(with_matrix.mean, without.mean)
    torch.testing.assert_close(with_matrix.var, without.var)


def test_given_features_equal_brute_force_sampling(mixing, generator):
    h = normal(NUM_POINTS, NUM_FEATURES, seed=4)
    draws = torch.einsum("sph,nh->snp", draw_matrices(mixing, generator), h)
    with torch.no_grad():
        assert_has_marginals(draws, mixing.given(h, NO_INPUTS, DRAWS))


def test_given_features_equal_moments_without_spread(mixing):
    h = normal(5, NUM_POINTS, NUM_FEATURES, seed=4)
    given, moments = (
        mixing.given(h, NO_INPUTS, DRAWS),
        mixing.moments(FeatureMoments(h, torch.zeros_like(h)), NO_INPUTS, DRAWS),
    )
    assert given.mean.shape == (5, NUM_POINTS, NUM_OUTPUTS)
    torch.testing.assert_close(given.mean, moments.mean)
    torch.testing.assert_close(given.var, moments.var)


def test_joint_samples_have_the_moments_given_the_features(mixing, generator):
    h = normal(NUM_POINTS, NUM_FEATURES, seed=4)
    with torch.no_grad():
        draws = mixing.sample_joint(h.expand(200_000, *h.shape), NO_INPUTS, FreshNormals(h, 200_000, generator))
        q = mixing.given(h, NO_INPUTS, DRAWS)
        assert_has_marginals(draws, q)
        centered = draws - q.mean
        across = (h[0] * h[1]) @ torch.exp(2 * mixing.log_scale).T
    assert_within_standard_errors(centered[:, 0] * centered[:, 1], across)


def test_joint_samples_share_one_matrix_among_points(mixing, generator):
    h = normal(6, 1, NUM_FEATURES, seed=4)
    draws = mixing.sample_joint(torch.cat([h, -2 * h], dim=1), NO_INPUTS, FreshNormals(h[0], 6, generator))
    torch.testing.assert_close(draws[:, 1], -2 * draws[:, 0])


def test_each_joint_draw_has_its_own_matrix(mixing, generator):
    h = normal(1, NUM_POINTS, NUM_FEATURES, seed=4).expand(6, -1, -1)
    draws = mixing.sample_joint(h, NO_INPUTS, FreshNormals(h[0], 6, generator))
    assert (draws[1:] != draws[:-1]).all()


def test_kl_equals_the_one_of_torch(mixing):
    q = torch.distributions.Normal(mixing.mean, mixing.log_scale.exp())
    expected = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).sum()
    torch.testing.assert_close(mixing.kl(), expected)


def test_there_is_no_log_prior(mixing):
    assert mixing.log_prior().item() == 0


def test_every_parameter_gets_a_finite_nonzero_gradient(mixing):
    q = mixing.moments(make_moments(correlated=True)[0], NO_INPUTS, DRAWS)
    (q.mean.sin().sum() + q.var.sum() + mixing.kl()).backward()
    assert_finite_nonzero_gradients(mixing, everywhere=True)


def test_bayesian_mixing_is_a_mixing(mixing):
    assert isinstance(mixing, Mixing)
    assert mixing.num_outputs == NUM_OUTPUTS


@pytest.mark.parametrize(("num_outputs", "num_features", "culprit"), [(0, 3, "num_outputs"), (2, 0, "num_features")])
def test_sizes_that_are_not_positive_are_refused(num_outputs, num_features, culprit, generator):
    with pytest.raises(ConfigError, match=rf"{culprit} must be at least 1; got 0\. Pass a positive number\."):
        BayesianMixing(num_outputs, num_features, generator)
