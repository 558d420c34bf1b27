"""A plane with random coefficients under a GP: textbook formulas written out, and scikit-learn's linear kernels."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from mogul.core.base_samples import FreshNormals, GivenNormals
from mogul.errors import ConfigError, NumericalError, ShapeError
from mogul.means.plane import FrozenPlaneUncertainty, PlaneUncertainty, generalised_least_squares

LENGTHSCALE = np.array([[0.8, 1.5], [2.0, 0.6]])
OUTPUTSCALE = np.array([0.7, 1.9])
NOISE = np.array([0.04, 0.3])
PRIOR = np.array([[2.0, 0.5, 1.3], [0.4, 3.0, 5.0]])
SETTINGS = LENGTHSCALE, OUTPUTSCALE, NOISE, PRIOR
NAMES = ["lengthscale", "outputscale", "noise_var", "prior_var"]
# Inside the rows, at their edge, and far outside.
POINTS = np.array([[0.1, -0.4], [1.4, 1.2], [2.5, -3.0], [50.0, -20.0]])


def rows(num_rows=25, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, (num_rows, 2))
    y = np.column_stack([np.sin(2 * x[:, 0]) + x[:, 1], x[:, 1] ** 2 - 0.5 * x[:, 0]])
    return x, y + 0.1 * rng.standard_normal(y.shape)


def tensors(*arrays):
    return tuple(torch.as_tensor(np.asarray(array)) for array in arrays)


def solved(x, y, observed=None, settings=SETTINGS):
    """The function under test, from arrays."""
    observed = np.ones(y.shape, dtype=bool) if observed is None else observed
    return generalised_least_squares(*tensors(x, y, observed, *settings))


def rbf(a, b, lengthscale):
    return np.exp(-0.5 * np.square((a[:, None] - b) / lengthscale).sum(-1))


def wide(x):
    return np.column_stack([x, np.ones(len(x))])


def textbook(x, y, points, output):
    """w̄, Σ and R at some points by Rasmussen & Williams, Eq. (2.41) and (2.42), with inverses written out."""
    k = OUTPUTSCALE[output] * rbf(x, x, LENGTHSCALE[output])
    inverse = np.linalg.inv(k + NOISE[output] * np.eye(len(x)))
    cov = np.linalg.inv(np.diag(1 / PRIOR[output]) + wide(x).T @ inverse @ wide(x))
    cross = OUTPUTSCALE[output] * rbf(x, points, LENGTHSCALE[output])
    return cov @ wide(x).T @ inverse @ y[:, output], cov, wide(points) - (wide(x).T @ inverse @ cross).T


class TestAgainstFormulas:
    """Coefficients, their covariance, and R."""

    def test_posterior_of_the_coefficients(self):
        x, y = rows()
        weights, bias, plane = solved(x, y)
        for output in range(2):
            mean, cov, _ = textbook(x, y, POINTS, output)
            np.testing.assert_allclose(weights[:, output], mean[:-1], rtol=1e-9)
            np.testing.assert_allclose(bias[output], mean[-1], rtol=1e-9)
            np.testing.assert_allclose(plane.root[output] @ plane.root[output].T, cov, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
    def test_what_the_gp_cannot_take_up(self, lead):
        x, y = rows()
        _, _, plane = solved(x, y)
        points = torch.as_tensor(POINTS).expand(*lead, *POINTS.shape)
        features, var = plane.residual_features(points), plane.var(points)
        frozen = FrozenPlaneUncertainty(plane).var(points)
        for output in range(2):
            _, cov, residual = textbook(x, y, POINTS, output)
            expected = np.einsum("ne,ef,nf->n", residual, cov, residual)
            np.testing.assert_allclose(features[..., output, :], np.broadcast_to(residual, (*lead, 4, 3)), atol=1e-9)
            np.testing.assert_allclose(var[..., output], np.broadcast_to(expected, (*lead, 4)), rtol=1e-7)
            np.testing.assert_allclose(frozen[..., output], np.broadcast_to(expected, (*lead, 4)), rtol=1e-7)

    def test_small_between_the_rows_and_the_plane_itself_far_away(self):
        x, y = rows(60)
        settings = np.ones((2, 2)), np.ones(2), np.full(2, 1e-3), PRIOR
        _, _, plane = solved(x, y, settings=settings)
        inside, outside = tensors([[0.2, -0.1]], [[30.0, 40.0]])
        assert plane.residual_features(inside).abs().max() < 0.02
        torch.testing.assert_close(plane.residual_features(outside)[0, 0], torch.tensor([30.0, 40.0, 1.0]).double())

    def test_equals_scikit_learns_linear_kernel(self):
        """The three parts add up to the exact GP with a linear kernel beside the RBF, inside and outside."""
        x, y = rows()
        prior = np.array([[1.7, 1.7, 0.9], [0.6, 0.6, 2.0]])  # one variance for all slopes, as scikit-learn has it
        weights, bias, plane = solved(x, y, settings=(LENGTHSCALE, OUTPUTSCALE, NOISE, prior))
        for output in range(2):
            ratio = np.sqrt(prior[output, -1] / prior[output, 0])
            smooth = ConstantKernel(OUTPUTSCALE[output]) * RBF(LENGTHSCALE[output])
            linear = ConstantKernel(prior[output, 0]) * DotProduct(ratio)
            whole = exact(linear + smooth + WhiteKernel(NOISE[output]), x, y[:, output])
            rest = exact(smooth + WhiteKernel(NOISE[output]), x, (y - x @ weights.numpy() - bias.numpy())[:, output])
            mean, std = whole.predict(POINTS, return_std=True)
            rest_mean, rest_std = rest.predict(POINTS, return_std=True)
            at_mean = (POINTS @ weights.numpy() + bias.numpy())[:, output]
            np.testing.assert_allclose(at_mean + rest_mean, mean, rtol=1e-7)
            added = plane.var(torch.as_tensor(POINTS))[:, output].numpy()
            np.testing.assert_allclose(rest_std**2 + added, std**2, rtol=1e-6)

    def test_noise_of_each_row(self):
        x, y = rows()
        rng = np.random.default_rng(1)
        noise = rng.uniform(0.01, 1.0, y.shape)
        weights, _, _ = solved(x, y, settings=(LENGTHSCALE, OUTPUTSCALE, noise, PRIOR))
        for output in range(2):
            alone = tensors(LENGTHSCALE[[output]], OUTPUTSCALE[[output]], noise[:, [output]], PRIOR[[output]])
            found, _, _ = solved(x, y[:, [output]], settings=alone)
            torch.testing.assert_close(weights[:, [output]], found)
        k = OUTPUTSCALE[1] * rbf(x, x, LENGTHSCALE[1]) + np.diag(noise[:, 1])
        precision = np.diag(1 / PRIOR[1]) + wide(x).T @ np.linalg.solve(k, wide(x))
        expected = np.linalg.solve(precision, wide(x).T @ np.linalg.solve(k, y[:, 1]))
        np.testing.assert_allclose(weights[:, 1], expected[:-1], rtol=1e-9)


class TestEdges:
    """Missing values, coefficients left out, rows that repeat."""

    def test_what_is_not_observed_has_no_influence(self):
        x, y = rows(30)
        observed = np.random.default_rng(3).random(y.shape) < 0.6
        weights, bias, plane = solved(x, np.where(observed, y, np.nan), observed)
        points = torch.as_tensor(POINTS)
        for output in range(2):
            seen = observed[:, output]
            alone = solved(x[seen], y[seen][:, [output]], settings=[part[[output]] for part in SETTINGS])
            torch.testing.assert_close(weights[:, [output]], alone[0])
            torch.testing.assert_close(bias[[output]], alone[1])
            torch.testing.assert_close(plane.var(points)[:, [output]], alone[2].var(points), rtol=1e-7, atol=1e-12)

    def test_without_any_observation_it_is_the_prior(self):
        x, y = rows(5)
        weights, bias, plane = solved(x, y, np.zeros(y.shape, dtype=bool))
        assert not weights.any()
        assert not bias.any()
        expected = np.square(wide(POINTS)) @ PRIOR.T
        np.testing.assert_allclose(plane.var(torch.as_tensor(POINTS)), expected, rtol=1e-12)

    def test_a_prior_of_variance_zero_leaves_a_coefficient_out(self):
        x, y = rows()
        prior = PRIOR.copy()
        prior[0, 1] = 0.0
        prior[1] = 0.0
        weights, bias, plane = solved(x, y, settings=(*SETTINGS[:3], prior))
        assert weights[1, 0] == 0
        assert weights[0, 0] != 0
        assert not weights[:, 1].any()
        assert bias[1] == 0
        far = torch.tensor([[0.0, 1e6]], dtype=torch.float64)
        assert plane.var(far)[0, 0] < 10
        assert plane.var(far)[0, 1] == 0
        without = generalised_least_squares(
            *tensors(x[:, :1], y[:, :1], np.ones((25, 1), dtype=bool), [[1.0]], [0.0], NOISE[:1], PRIOR[:1, [0, 2]])
        )[0]
        no_gp = solved(x, y, settings=(LENGTHSCALE, np.zeros(2), NOISE, prior))[0]
        torch.testing.assert_close(no_gp[:1, :1], without)

    def test_vague_priors_and_no_gp_give_least_squares(self):
        x, y = rows()
        weights, bias, plane = solved(x, y, settings=(LENGTHSCALE, np.zeros(2), NOISE, np.full((2, 3), 1e12)))
        expected, *_ = np.linalg.lstsq(wide(x), y, rcond=None)
        np.testing.assert_allclose(weights, expected[:-1], rtol=1e-6)
        np.testing.assert_allclose(bias, expected[-1], rtol=1e-6)
        cov = NOISE[0] * np.linalg.inv(wide(x).T @ wide(x))
        np.testing.assert_allclose(plane.root[0] @ plane.root[0].T, cov, rtol=1e-6)

    def test_rows_that_repeat_without_noise_are_survived(self):
        x, y = rows(10)
        x, y = np.repeat(x, 3, axis=0), np.repeat(y, 3, axis=0)
        weights, _, plane = solved(x, y, settings=(3 * LENGTHSCALE, OUTPUTSCALE, np.zeros(2), PRIOR))
        assert weights.isfinite().all()
        assert plane.var(torch.as_tensor(x)).max() < 1e-2
        assert plane.var(torch.as_tensor(POINTS)).isfinite().all()

    def test_no_variance_at_all_is_refused(self):
        with pytest.raises(NumericalError, match=r"output 1 is not\. Give it more noise"):
            solved(*rows(4), settings=(LENGTHSCALE, np.array([1.0, 0.0]), np.array([0.1, 0.0]), PRIOR))

    @pytest.mark.parametrize(("place", "name"), list(enumerate(NAMES)))
    @pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
    def test_hyperparameters_out_of_range_are_refused(self, place, name, value):
        settings = [part.copy() for part in SETTINGS]
        settings[place].flat[1] = value
        with pytest.raises(ConfigError, match=f"{name} must be finite and .*; got {value}"):
            solved(*rows(4), settings=settings)

    @pytest.mark.usefixtures("as_a_user_calls")
    @pytest.mark.parametrize(
        ("place", "shape"), [(0, (5,)), (0, (5, 3)), (1, (1, 2)), (1, (2, 1)), (2, (1, 5, 3)), (3, (2, 3, 2))]
    )
    def test_sizes_that_disagree_are_refused(self, place, shape):
        parts = [torch.zeros(size) for size in ((5, 2), (2, 2), (2, 5, 3), (2, 3, 3))]
        PlaneUncertainty(*parts)
        parts[place] = torch.zeros(shape)
        with pytest.raises(ShapeError, match=r"must be .*; got .*PlaneUncertainty\.of"):
            PlaneUncertainty(*parts)


class TestDraws:
    """Functions R(x)ᵀδ."""

    def test_reproduce_the_covariance_over_points(self):
        x, y = rows()
        _, _, plane = solved(x, y)
        points = torch.as_tensor(POINTS[:3])
        count = 40_000
        draws = plane.sample_joint(points, FreshNormals(points, count, torch.Generator().manual_seed(0))).numpy()
        for output in range(2):
            _, cov, residual = textbook(x, y, POINTS[:3], output)
            expected = residual @ cov @ residual.T
            found = draws[..., output].T @ draws[..., output] / count
            std = np.sqrt(np.diag(expected))
            # An entry's standard error is at most √2 std std′/√count.
            np.testing.assert_array_less(np.abs(found - expected), 5 * np.outer(std, std) * np.sqrt(2 / count))
        assert np.abs(np.corrcoef(draws[:, 2].T)[0, 1]) < 0.03

    def test_batches_of_points_have_draws_of_their_own(self):
        _, _, plane = solved(*rows())
        points = torch.as_tensor(POINTS).expand(5, 4, 2)
        assert plane.sample_joint(points, FreshNormals(points, 3, torch.Generator())).shape == (3, 5, 4, 2)

    def test_points_share_the_numbers_of_the_first(self):
        _, _, plane = solved(*rows())
        numbers = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        points = torch.as_tensor(POINTS)
        all_four, first = (plane.sample_joint(points[:n], GivenNormals(numbers[:, :n])) for n in (4, 2))
        torch.testing.assert_close(all_four[:, :2], first)


def test_single_precision_errs_little():
    """Relative to the prior's own size: in between the rows R is a difference of larger numbers."""
    x, y = rows(200)
    settings = 2 * LENGTHSCALE, OUTPUTSCALE, np.full(2, 1e-4), PRIOR
    _, _, plane = solved(x, y, settings=settings)
    points = torch.as_tensor(np.vstack([x[:20] + 0.05, POINTS]))
    exact_std = plane.var(points).sqrt()
    for single in (FrozenPlaneUncertainty(plane).float(), plane.float()):
        std = single.var(points.float()).sqrt().double()
        torch.testing.assert_close(std, exact_std, rtol=1e-3, atol=2e-3)


def exact(kernel, x, y):
    return GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x, y)
