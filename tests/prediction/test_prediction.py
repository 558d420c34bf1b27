"""A prediction: the mixture, its moments and every question one can ask of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from scipy.special import logsumexp
from tests.helpers.perturbing import perturbed

from mogul.core.joint import Independent, ScaleMixture
from mogul.data import Standardiser
from mogul.metrics import crps, nested_log_density, score
from mogul.models import build
from mogul.models.model import Model
from mogul.prediction import Prediction, predict

NAN = float("nan")
NUM_DRAWS, NUM_POINTS, NUM_OUTPUTS = 6, 5, 3


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def mixture(rng: np.random.Generator) -> Prediction:
    """Six well separated components."""
    return mixture_of(rng.normal(0, 2, (NUM_DRAWS, NUM_POINTS, NUM_OUTPUTS)), rng)


@pytest.fixture
def y(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 2, (NUM_POINTS, NUM_OUTPUTS))


def mixture_of(means: np.ndarray, rng: np.random.Generator) -> Prediction:
    variances = rng.uniform(0.2, 3.0, means.shape)
    return Prediction(means.mean(0), variances.mean(0) + means.var(0), means, variances)


@pytest.fixture
def units(rng: np.random.Generator) -> Standardiser:
    return Standardiser(rng.normal(0, 100, NUM_OUTPUTS), np.array([0.01, 3.0, 250.0]))


def small_model(name: str, **options: object) -> tuple[Model, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(9, 2, generator=generator, dtype=torch.float64)
    model = build(name, x, 2, generator, num_latents=2, num_hidden=3, num_inducing=5, **options)
    return perturbed(model, generator, 0.3), x[:4] + 0.1


class TestPredict:
    """From a model to a prediction."""

    @pytest.mark.parametrize(("name", "options"), [("mogp", {}), ("n-mogp", {}), ("n-mogp", {"nonlinearity": "relu"})])
    def test_mean_and_variance_are_those_of_many_components(self, name, options):
        model, x = small_model(name, **options)
        num_draws = 100_000
        result = predict(model, x, num_draws, torch.Generator().manual_seed(1))
        centred = np.square(result.component_mean - result.mean) + result.component_var
        for draws, exact in ((result.component_mean, result.mean), (centred, result.var)):
            standard_error = draws.std(0) / np.sqrt(num_draws)
            assert np.all(standard_error < 0.02 * np.sqrt(result.var).max()), "too few draws to tell a difference"
            assert np.all(np.abs(draws.mean(0) - exact) < 4.5 * standard_error)

    def test_noise_is_part_of_every_variance(self):
        model, x = small_model("n-mogp")
        quiet = predict(model, x, 3, torch.Generator().manual_seed(1))
        noise = model.head.noise.var.detach().numpy().copy()
        with torch.no_grad():
            model.head.noise.log_precision.sub_(torch.log(torch.tensor([3.0, 5.0], dtype=torch.float64)))
        loud = predict(model, x, 3, torch.Generator().manual_seed(1))
        added = noise * [2.0, 4.0]
        np.testing.assert_allclose(loud.var - quiet.var, np.broadcast_to(added, quiet.var.shape), rtol=1e-10)
        np.testing.assert_allclose(
            loud.component_var - quiet.component_var, np.broadcast_to(added, quiet.component_var.shape), rtol=1e-10
        )
        np.testing.assert_array_equal(loud.component_mean, quiet.component_mean)

    def test_shapes_and_precision_do_not_depend_on_the_model(self):
        model, x = small_model("mogp")
        result = predict(model.float(), x.float(), 7, torch.Generator())
        assert result.mean.shape == result.var.shape == result.std.shape == (4, 2)
        assert result.component_mean.shape == result.component_var.shape == (7, 4, 2)
        for part in (result.mean, result.var, result.component_mean, result.component_var):
            assert part.dtype == np.float64

    def test_draws_are_decided_by_the_generator(self):
        model, x = small_model("n-mogp")
        first, again, other = (predict(model, x, 3, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.component_mean, again.component_mean)
        assert not np.array_equal(first.component_mean, other.component_mean)
        np.testing.assert_array_equal(first.mean, other.mean)


def test_the_standard_deviation_is_the_root_of_the_variance(mixture: Prediction):
    np.testing.assert_allclose(mixture.std**2, mixture.var, rtol=1e-14)


class TestDensity:
    """Of outputs together, given each draw and over all of them."""

    def test_given_a_draw_it_is_a_product_of_normals(self, mixture: Prediction, y):
        expected = stats.norm.logpdf(y, mixture.component_mean, np.sqrt(mixture.component_var)).sum(-1)
        np.testing.assert_allclose(mixture.component_log_density(y), expected, rtol=1e-12)

    def test_it_is_the_log_of_the_mean_over_draws(self, mixture: Prediction, y):
        each = stats.norm.logpdf(y, mixture.component_mean, np.sqrt(mixture.component_var)).sum(-1)
        np.testing.assert_allclose(mixture.log_density(y), logsumexp(each, axis=0) - np.log(NUM_DRAWS), rtol=1e-12)

    def test_far_from_every_component_it_is_still_finite(self, mixture: Prediction, y):
        assert np.all(np.isfinite(mixture.log_density(y + 1e4)))
        assert np.all(mixture.log_density(y + 1e4) < -1e6)

    def test_missing_outputs_are_left_out(self, mixture: Prediction, y):
        y[1, 0] = y[2, 0] = y[2, 2] = NAN
        each = stats.norm.logpdf(y, mixture.component_mean, np.sqrt(mixture.component_var))
        np.testing.assert_allclose(mixture.component_log_density(y), np.nansum(each, axis=-1), rtol=1e-12)
        assert np.all(np.isfinite(mixture.log_density(y)))

    def test_a_row_without_outputs_has_log_density_zero(self, mixture: Prediction, y):
        y[3] = NAN
        assert mixture.log_density(y)[3] == pytest.approx(0.0, abs=1e-15)


class TestDistribution:
    """Distribution function and quantiles, per output."""

    def test_the_distribution_function_is_the_mean_over_components(self, mixture: Prediction, y):
        expected = stats.norm.cdf(y, mixture.component_mean, np.sqrt(mixture.component_var)).mean(0)
        np.testing.assert_allclose(mixture.cdf(y), expected, rtol=1e-12)

    def test_it_is_missing_where_the_output_is(self, mixture: Prediction, y):
        y[1, 0] = NAN
        result = mixture.cdf(y)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(y))

    def test_quantiles_and_distribution_function_are_inverses(self, mixture: Prediction, y):
        levels = [0.001, 0.1, 0.5, 0.9, 0.999]
        quantiles = mixture.quantiles(levels)
        assert quantiles.shape == (5, NUM_POINTS, NUM_OUTPUTS)
        for level, values in zip(levels, quantiles, strict=True):
            np.testing.assert_allclose(mixture.cdf(values), level, rtol=1e-9)
        level = float(mixture.cdf(y)[2, 1])
        assert mixture.quantiles([level])[0, 2, 1] == pytest.approx(y[2, 1], abs=1e-9)

    @pytest.mark.parametrize("level", [0.01, 0.3, 0.5, 0.8, 0.99])
    def test_quantiles_of_two_components_are_roots_of_their_mean(self, level):
        means, scales = np.array([-1.0, 4.0]), np.array([0.5, 2.0])
        single = np.ones((1, 1))
        pair = Prediction(single, single, means.reshape(2, 1, 1), np.square(scales).reshape(2, 1, 1))

        def excess(value: float) -> float:
            return float(stats.norm.cdf(value, means, scales).mean() - level)

        expected = optimize.brentq(excess, -20.0, 20.0, xtol=1e-13)
        assert pair.quantiles([level])[0, 0, 0] == pytest.approx(expected, abs=1e-10)

    def test_quantiles_of_one_component_are_those_of_a_normal(self, rng: np.random.Generator):
        single = mixture_of(rng.normal(size=(1, 4, 2)), rng)
        np.testing.assert_allclose(
            single.quantiles([0.05, 0.6]),
            [stats.norm.ppf(level, single.mean, single.std) for level in (0.05, 0.6)],
            rtol=1e-12,
        )

    def test_quantiles_keep_the_order_of_the_levels(self, mixture: Prediction):
        low, high, middle = mixture.quantiles([0.1, 0.9, 0.5])
        assert np.all(low < middle)
        assert np.all(middle < high)


class TestSample:
    """Draws of the outputs, noise included."""

    def test_moments_are_those_of_the_mixture(self, mixture: Prediction):
        draws = mixture.sample(40_000, seed=1)
        assert draws.shape == (40_000, NUM_POINTS, NUM_OUTPUTS)
        error = np.abs(draws.mean(0) - mixture.mean) / (draws.std(0) / np.sqrt(40_000))
        assert error.max() < 4.5
        spread = np.square(draws - mixture.mean)
        assert np.all(np.abs(spread.mean(0) - mixture.var) < 4.5 * spread.std(0) / np.sqrt(40_000))

    def test_the_distribution_is_that_of_the_mixture(self, mixture: Prediction):
        draws = mixture.sample(4000, seed=2)
        levels = np.stack([mixture.cdf(draw) for draw in draws])
        for point, output in ((0, 0), (4, 2)):
            assert stats.kstest(levels[:, point, output], "uniform").pvalue > 0.01

    def test_outputs_of_a_draw_come_from_one_component(self):
        means = np.array([-10.0, 10.0]).reshape(2, 1, 1) * np.ones((2, 3, 2))
        far = Prediction(np.zeros((3, 2)), np.full((3, 2), 101.0), means, np.ones((2, 3, 2)))
        signs = np.sign(far.sample(200, seed=0))
        np.testing.assert_array_equal(signs[..., 0], signs[..., 1])
        assert np.any(signs[:, 0] != signs[:, 1]), "points are independent"

    def test_it_is_decided_by_the_seed(self, mixture: Prediction):
        first, again, other = (mixture.sample(3, seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_a_seed_is_not_needed_and_a_generator_goes_on(self, mixture):
        np.testing.assert_array_equal(mixture.sample(3), mixture.sample(3, seed=0))
        rng, same = np.random.default_rng(5), np.random.default_rng(5)
        first, second = mixture.sample(3, rng), mixture.sample(3, rng)
        np.testing.assert_array_equal(first, mixture.sample(3, same))
        assert not np.array_equal(first, second)
        assert not np.array_equal(mixture.sample(3, None), mixture.sample(3, None))


class TestUnits:
    """Standardised and original units."""

    def test_there_and_back_is_where_we_started(self, mixture: Prediction, units: Standardiser):
        for back in (mixture.rescaled(units).standardised(units), mixture.standardised(units).rescaled(units)):
            np.testing.assert_allclose(back.mean, mixture.mean, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(back.var, mixture.var, rtol=1e-12)
            np.testing.assert_allclose(back.component_mean, mixture.component_mean, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(back.component_var, mixture.component_var, rtol=1e-12)

    def test_every_moment_is_rescaled(self, mixture: Prediction, units: Standardiser):
        result = mixture.rescaled(units)
        np.testing.assert_allclose(result.mean, mixture.mean * units.scale + units.shift, rtol=1e-14)
        np.testing.assert_allclose(result.std, mixture.std * units.scale, rtol=1e-14)
        np.testing.assert_allclose(
            result.component_mean, mixture.component_mean * units.scale + units.shift, rtol=1e-14
        )
        np.testing.assert_allclose(result.component_var, mixture.component_var * units.scale**2, rtol=1e-14)

    def test_the_log_density_loses_the_log_of_the_scales(self, mixture: Prediction, units: Standardiser, y):
        original = mixture.rescaled(units).log_density(units.undo(y))
        np.testing.assert_allclose(original, mixture.log_density(y) - np.log(units.scale).sum(), rtol=1e-9)

    def test_a_missing_output_has_no_part_in_that_loss(self, mixture: Prediction, units: Standardiser, y):
        y[0, 2] = NAN
        original = mixture.rescaled(units).log_density(units.undo(y))
        lost = np.where(np.isnan(y), 0.0, np.log(units.scale)).sum(1)
        np.testing.assert_allclose(original, mixture.log_density(y) - lost, rtol=1e-9)

    def test_quantiles_move_with_the_units_and_probabilities_do_not(self, mixture: Prediction, units: Standardiser, y):
        rescaled = mixture.rescaled(units)
        np.testing.assert_allclose(rescaled.quantiles([0.3])[0], units.undo(mixture.quantiles([0.3])[0]), rtol=1e-9)
        np.testing.assert_allclose(rescaled.cdf(units.undo(y)), mixture.cdf(y), rtol=1e-9)


@pytest.mark.parametrize("index", [slice(1, 4), np.array([4, 0, 4])], ids=["slice", "numbers"])
def test_rows_are_the_prediction_of_those_points(mixture: Prediction, y, index):
    part = mixture.rows(index)
    np.testing.assert_array_equal(part.mean, mixture.mean[index])
    np.testing.assert_array_equal(part.var, mixture.var[index])
    np.testing.assert_array_equal(part.component_var, mixture.component_var[:, index])
    np.testing.assert_array_equal(part.log_density(y[index]), mixture.log_density(y)[index])


class TestWeights:
    """Weights in whole sixths are those of components that are there once, twice and three times."""

    @pytest.fixture
    def pair(self, rng: np.random.Generator) -> tuple[Prediction, Prediction]:
        counts = [3, 1, 2]
        means = rng.normal(0, 2, (3, NUM_POINTS, NUM_OUTPUTS))
        repeated = np.repeat(means, counts, axis=0), np.repeat(rng.uniform(0.2, 3.0, means.shape), counts, axis=0)
        moments = repeated[0].mean(0), repeated[1].mean(0) + repeated[0].var(0)
        firsts = [0, 3, 4]
        weighted = Prediction(
            *moments, repeated[0][firsts], repeated[1][firsts], log_weight=np.log(np.array(counts) / 6)
        )
        return weighted, Prediction(*moments, *repeated)

    def test_every_answer_is_the_same(self, pair, y, units):
        y[1, 2] = NAN
        for weighted, repeated in (
            pair,
            [part.rescaled(units).rows(slice(0, 3)).outputs(slice(1, 3)) for part in pair],
        ):
            truth = y[: len(weighted.mean), -weighted.mean.shape[1] :]
            np.testing.assert_allclose(weighted.log_density(truth), repeated.log_density(truth))
            np.testing.assert_allclose(weighted.cdf(truth), repeated.cdf(truth))
            np.testing.assert_allclose(weighted.quantiles([0.1, 0.6]), repeated.quantiles([0.1, 0.6]))
            np.testing.assert_allclose(weighted.cov_of_means(), repeated.cov_of_means())
            np.testing.assert_allclose(weighted.average(weighted.component_mean), repeated.mean)
            np.testing.assert_allclose(crps(weighted, truth), crps(repeated, truth))
            one, two = score([(weighted, truth)]), score([(repeated, truth)])
            assert one.ll == pytest.approx(two.ll)
            assert one.coverage == two.coverage

    def test_draws_have_its_moments(self, pair):
        draws = pair[0].sample(20_000, seed=0)
        assert np.all(np.abs(draws.mean(0) - pair[0].mean) < 0.04 * pair[0].std)
        np.testing.assert_allclose(draws.var(0), pair[0].var, rtol=0.05)

    def test_no_groups_are_made_of_components_that_are_no_draws(self, pair, y):
        weighted = pair[0]
        assert np.array_equal(nested_log_density(weighted, y, num_outer=25), weighted.log_density(y))

    def test_a_score_from_some_copies_of_few_components_is_near_that_of_all(self, rng, y):
        means = np.repeat(rng.normal(0, 2, (5, NUM_POINTS, NUM_OUTPUTS)), 60, axis=0)
        log_weight = np.log(np.repeat(rng.dirichlet(np.ones(5)), 60) / 60)
        one = Prediction(means[0], means[0], means, rng.uniform(0.5, 1.5, means.shape), log_weight=log_weight)
        np.testing.assert_allclose(crps(one, y, max_draws=64), crps(one, y, max_draws=300), atol=0.03)


class TestSmoothed:
    """Few draws of a Normal signal with little noise: a comb, unless it is smooth."""

    @staticmethod
    def few_draws(rng: np.random.Generator, joint: Independent | None = None) -> tuple[Prediction, np.ndarray]:
        mean, var = np.zeros((300, 1)), np.full((300, 1), 1.01)
        drawn = Prediction(
            mean, var, rng.standard_normal((50, 300, 1)), np.full((50, 300, 1), 0.01), joint=joint or Independent()
        )
        return drawn, rng.normal(0, np.sqrt(1.01), (300, 1))

    def test_it_has_the_moments_of_the_prediction(self, rng: np.random.Generator):
        smooth = self.few_draws(rng)[0].smoothed()
        np.testing.assert_allclose(smooth.component_mean.mean(0), smooth.mean, atol=1e-12)
        total = smooth.component_mean.var(0) + smooth.component_var.mean(0)
        np.testing.assert_allclose(total, smooth.var, rtol=1e-12)

    def test_densities_are_those_of_the_normal(self, rng: np.random.Generator):
        drawn, y = self.few_draws(rng)
        expected = stats.norm(0, np.sqrt(1.01)).logpdf(y[:, 0]).mean()
        assert drawn.mixture_log_density(y).mean() < expected - 0.1
        assert drawn.smoothed().mixture_log_density(y).mean() == pytest.approx(expected, abs=0.02)

    def test_the_same_with_random_scales_and_of_pooled_members(self, rng: np.random.Generator):
        """A spread of next to nothing is constant noise."""
        level, none = np.full((1, 300, 1), np.log(0.01)), np.zeros((1, 300, 1))
        joint = ScaleMixture(np.zeros((50, 300, 1)), level, none + 1e-9, none, none + np.inf)
        drawn, y = self.few_draws(rng)
        random = replace(drawn, joint=joint)
        expected = drawn.smoothed().mixture_log_density(y)
        np.testing.assert_allclose(random.smoothed().mixture_log_density(y), expected, atol=1e-4)
        pooled = Prediction.pooled([random, random])
        assert pooled.smoothed().mixture_log_density(y).mean() == pytest.approx(expected.mean(), abs=0.03)

    def test_sites_and_single_components_are_left_alone(self, rng: np.random.Generator):
        drawn, _ = self.few_draws(rng)
        sites = replace(drawn, log_weight=np.full(50, -np.log(50)))
        assert sites.smoothed() is sites
        one = replace(drawn, component_mean=drawn.mean[None], component_var=drawn.var[None])
        assert one.smoothed() is one
