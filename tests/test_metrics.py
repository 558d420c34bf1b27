"""Scores against closed forms, hand-written loops and numerical integration; missing outputs leave no trace."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gamma

from mogul import metrics
from mogul.core.joint import Correlated
from mogul.errors import ConfigError, DataError
from mogul.metrics import Scores, coverage, crps, mrmse, nested_log_density, score
from mogul.prediction import Prediction

NAN = float("nan")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def mixture(rng: np.random.Generator, num_draws: int, num_points: int = 8, num_outputs: int = 2) -> Prediction:
    means = rng.normal(0, 1, (num_draws, num_points, num_outputs))
    variances = rng.uniform(0.3, 2.0, means.shape)
    return Prediction(means.mean(0), variances.mean(0) + means.var(0), means, variances)


def extended(prediction: Prediction, rng: np.random.Generator, num_points: int) -> Prediction:
    """The same prediction with more points at the end."""
    more = mixture(rng, len(prediction.component_mean), num_points, prediction.mean.shape[1])
    names = ("mean", "var", "component_mean", "component_var")
    return Prediction(*(np.concatenate([getattr(part, name) for part in (prediction, more)], -2) for name in names))


class TestMrmse:
    """Root mean squared error per output, averaged over outputs."""

    def test_example_by_hand(self):
        mean, y = np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([[4.0, 0.0], [6.0, 2.0]])
        assert mrmse(mean, y) == pytest.approx((math.sqrt((9 + 16) / 2) + math.sqrt(2)) / 2, rel=1e-14)

    def test_it_averages_roots_over_outputs_and_not_squares(self):
        assert mrmse(np.zeros((1, 2)), np.array([[0.0, 2.0]])) == 1.0

    def test_missing_outputs_are_left_out_of_their_column_only(self):
        y = np.array([[3.0, 1.0], [NAN, 5.0], [4.0, NAN]])
        assert mrmse(np.zeros((3, 2)), y) == pytest.approx((math.sqrt(12.5) + math.sqrt(13)) / 2, rel=1e-14)

    def test_an_output_without_values_is_left_out(self):
        assert mrmse(np.zeros((2, 2)), np.array([[3.0, NAN], [3.0, NAN]])) == 3.0

    @pytest.mark.usefixtures("as_a_user_calls")
    def test_shapes_must_agree(self):
        with pytest.raises(ValueError, match="shape"):
            mrmse(np.zeros((3, 2)), np.zeros((1, 2)))


class TestNestedLogDensity:
    """The paper's estimator of the test log likelihood."""

    @pytest.mark.parametrize("num_outer", [1, 3, 4, 12])
    def test_it_is_a_loop_over_groups_of_draws(self, rng, num_outer):
        prediction, y = mixture(rng, 12), rng.normal(size=(8, 2))
        y[2, 1] = NAN
        expected, num_inner = np.zeros(8), 12 // num_outer
        for point in range(8):
            for group in range(num_outer):
                densities = []
                for draw in range(group * num_inner, (group + 1) * num_inner):
                    mean, var = prediction.component_mean[draw, point], prediction.component_var[draw, point]
                    seen = ~np.isnan(y[point])
                    densities.append(np.prod(stats.norm.pdf(y[point], mean, np.sqrt(var))[seen]))
                expected[point] += math.log(sum(densities) / num_inner) / num_outer
        np.testing.assert_allclose(nested_log_density(prediction, y, num_outer), expected, rtol=1e-11)

    def test_the_paper_has_twenty_five_groups_of_fifty(self, rng):
        assert (metrics.NUM_OUTER, metrics.NUM_INNER) == (25, 50)
        prediction, y = mixture(rng, 50), rng.normal(size=(8, 2))
        np.testing.assert_array_equal(nested_log_density(prediction, y), nested_log_density(prediction, y, 25))

    def test_one_group_is_the_log_density_of_the_mixture(self, rng):
        prediction, y = mixture(rng, 12), rng.normal(size=(8, 2))
        np.testing.assert_allclose(nested_log_density(prediction, y, 1), prediction.log_density(y), rtol=1e-13)

    @pytest.mark.parametrize("num_outer", [2, 5, 50])
    def test_by_jensen_it_is_never_above_the_pooled_one(self, rng, num_outer):
        prediction, y = mixture(rng, 50), rng.normal(size=(8, 2))
        gap = prediction.log_density(y) - nested_log_density(prediction, y, num_outer)
        assert np.all(gap > 0)


class TestCrps:
    """The continuous ranked probability score."""

    def test_of_one_normal_it_is_the_closed_form(self, rng):
        prediction, y = mixture(rng, 1), rng.normal(0, 3, size=(8, 2))
        z = (y - prediction.mean) / prediction.std
        expected = prediction.std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi))
        np.testing.assert_allclose(crps(prediction, y), expected, rtol=1e-12)

    @pytest.mark.parametrize("num_draws", [1, 2, 3, 4, 7])
    def test_of_a_mixture_it_is_the_integral_of_the_squared_gap_to_a_step(self, rng, num_draws):
        prediction, y = mixture(rng, num_draws, 3), rng.normal(0, 2, size=(3, 2))
        actual = crps(prediction, y)
        for point in range(3):
            for output in range(2):
                means = prediction.component_mean[:, point, output]
                scales = np.sqrt(prediction.component_var[:, point, output])
                truth = y[point, output]

                def gap(value: float, step: float, means=means, scales=scales) -> float:
                    return float((stats.norm.cdf(value, means, scales).mean() - step) ** 2)

                low = integrate.quad(gap, -25.0, truth, args=(0.0,), epsabs=1e-10, limit=200)[0]
                high = integrate.quad(gap, truth, 25.0, args=(1.0,), epsabs=1e-10, limit=200)[0]
                assert actual[point, output] == pytest.approx(low + high, abs=1e-7)

    def test_all_pairs_of_draws_count_up_to_the_largest_number_allowed(self, rng):
        prediction, y = mixture(rng, 65), rng.normal(size=(8, 2))
        exact = crps(prediction, y, max_draws=65)
        np.testing.assert_array_equal(crps(prediction, y, max_draws=1000), exact)
        assert not np.array_equal(crps(prediction, y), exact)
        np.testing.assert_array_equal(crps(prediction, y), crps(prediction, y, max_draws=64))

    def test_beyond_that_number_it_is_approximate(self, rng):
        prediction, y = mixture(rng, 500, num_points=40), rng.normal(size=(40, 2))
        exact, rough = crps(prediction, y, max_draws=500), crps(prediction, y)
        assert 0 < np.abs(rough - exact).max() < 0.1
        assert rough.mean() == pytest.approx(exact.mean(), abs=0.005)

    def test_the_truth_is_compared_with_every_draw_even_then(self, rng):
        prediction, y = mixture(rng, 500), rng.normal(size=(8, 2))
        other = rng.normal(size=(8, 2))
        exact = crps(prediction, y, max_draws=500) - crps(prediction, other, max_draws=500)
        np.testing.assert_allclose(crps(prediction, y) - crps(prediction, other), exact, rtol=1e-9, atol=1e-12)

    def test_it_is_missing_where_the_output_is(self, rng):
        prediction, y = mixture(rng, 5), rng.normal(size=(8, 2))
        whole = crps(prediction, y)
        y[1, 0] = y[4, 1] = NAN
        np.testing.assert_array_equal(crps(prediction, y), np.where(np.isnan(y), NAN, whole))

    @pytest.mark.parametrize("max_draws", [0, 1])
    def test_there_is_no_pair_of_fewer_than_two_draws(self, rng, max_draws):
        prediction, y = mixture(rng, 100), rng.normal(size=(8, 2))
        with pytest.raises(ConfigError, match="max_draws"):
            crps(prediction, y, max_draws)


class TestCoverage:
    """The share of truths inside a central interval."""

    @pytest.mark.parametrize(("level", "share"), [(0.1, 0.2), (0.5, 0.6), (0.8, 0.8), (0.99, 1.0)])
    def test_example_by_hand(self, level, share):
        pit = np.array([[0.04], [0.3], [0.5], [0.7], [0.88]])
        assert coverage(pit, level) == pytest.approx(share)

    def test_missing_outputs_are_left_out(self):
        pit = np.array([[0.5, NAN], [0.01, 0.5]])
        assert coverage(pit, 0.5) == pytest.approx(2 / 3)

    def test_a_true_prediction_covers_what_it_promises(self, rng):
        prediction = mixture(rng, 5, num_points=4000)
        pit = prediction.cdf(prediction.sample(1, seed=3)[0])
        for level in metrics.LEVELS:
            standard_error = math.sqrt(level * (1 - level) / pit.size)
            assert abs(coverage(pit, level) - level) < 4 * standard_error


class TestScore:
    """All scores of a test set at once."""

    @pytest.fixture
    def prediction(self, rng) -> Prediction:
        return mixture(rng, 100)

    @pytest.fixture
    def y(self, rng, prediction: Prediction) -> np.ndarray:
        """Eight rows with holes; every row has a value."""
        values = rng.normal(0, 1.5, (8, 2))
        values[1, 0] = values[4, 1] = NAN
        return values

    @staticmethod
    def assert_same(actual: Scores, expected: Scores) -> None:
        for field in dataclasses.fields(Scores):
            assert getattr(actual, field.name) == pytest.approx(getattr(expected, field.name), rel=1e-12), field.name

    def test_every_field_is_the_mean_of_its_metric(self, prediction: Prediction, y):
        actual = score([(prediction, y)], nested=True)
        assert actual.ll_nested == pytest.approx(nested_log_density(prediction, y, 2).mean(), rel=1e-13)
        assert actual.ll == pytest.approx(prediction.log_density(y).mean(), rel=1e-13)
        assert actual.mrmse == pytest.approx(mrmse(prediction.mean, y), rel=1e-13)
        assert actual.crps == pytest.approx(np.nanmean(crps(prediction, y, max_draws=24), axis=0).mean(), rel=1e-13)
        pit = prediction.cdf(y)
        assert actual.coverage == {level: coverage(pit, level) for level in (0.5, 0.8, 0.95)}
        assert actual.ll_nested < actual.ll
        assert score([(prediction, y)]) == dataclasses.replace(actual, ll_nested=None)

    def test_a_prediction_that_is_no_number_has_no_score(self, prediction: Prediction, y):
        prediction.component_mean[:, 2] = NAN
        prediction.mean[2] = NAN
        actual = score([(prediction, y)], nested=True)
        assert math.isnan(actual.ll)
        assert math.isnan(actual.ll_nested)
        assert math.isnan(actual.mrmse)
        assert math.isnan(actual.crps)

    def test_a_perfect_score_is_better_than_a_poor_one(self, prediction: Prediction, y):
        good, poor = score([(prediction, prediction.mean)]), score([(prediction, prediction.mean + 5.0)])
        assert good.ll > poor.ll
        assert good.mrmse == 0.0
        assert poor.mrmse == pytest.approx(5.0)
        assert good.crps < poor.crps
        assert good.coverage[0.5] == 1.0
        assert poor.coverage[0.5] == 0.0

    @pytest.mark.parametrize("sizes", [(3, 5), (1, 1, 6), (7, 1), (1,) * 8])
    def test_in_parts_it_is_what_it_is_at_once(self, prediction: Prediction, y, sizes):
        ends = np.cumsum(sizes)
        parts = [
            (prediction.rows(slice(end - size, end)), y[end - size : end])
            for end, size in zip(ends, sizes, strict=True)
        ]
        self.assert_same(score(iter(parts), nested=True), score([(prediction, y)], nested=True))

    def test_rows_without_any_value_change_nothing(self, rng, prediction: Prediction, y):
        longer = np.concatenate([y, np.full((3, 2), NAN)])
        self.assert_same(
            score([(extended(prediction, rng, 3), longer)], nested=True), score([(prediction, y)], nested=True)
        )

    def test_a_missing_value_changes_nothing_but_the_means_it_was_part_of(self, prediction: Prediction, y):
        fewer = y.copy()
        fewer[0, 1] = NAN
        before, after = nested_log_density(prediction, y, 2), nested_log_density(prediction, fewer, 2)
        np.testing.assert_array_equal(before[1:], after[1:])
        assert before[0] != after[0]
        assert score([(prediction, fewer)], nested=True).ll_nested == pytest.approx(after.mean(), rel=1e-13)
        errors = np.square(y - prediction.mean)
        first = math.sqrt(np.nanmean(errors[:, 0]))
        second = math.sqrt(np.nanmean(errors[1:, 1]))
        assert score([(prediction, fewer)]).mrmse == pytest.approx((first + second) / 2, rel=1e-13)

    def test_any_number_of_draws_will_do(self, rng, y):
        few = mixture(rng, 7)
        result = score([(few, y)], nested=True)
        assert result.ll_nested == pytest.approx(result.ll, rel=1e-13), "seven draws are one group"
        assert result.ll == pytest.approx(few.log_density(y).mean(), rel=1e-13)

    def test_a_part_without_any_value_changes_nothing(self, rng, prediction: Prediction, y):
        parts = [(prediction, y), (mixture(rng, 100), np.full((8, 2), NAN))]
        self.assert_same(score(parts, nested=True), score([(prediction, y)], nested=True))

    def test_an_output_without_values_is_left_out(self, prediction: Prediction, y):
        y[:, 1] = NAN
        assert score([(prediction, y)]).mrmse == pytest.approx(mrmse(prediction.mean[:, :1], y[:, :1]))


def test_the_energy_score_of_one_output_is_its_crps():
    rng = np.random.default_rng(0)
    mean, var = rng.standard_normal((50, 1)), rng.uniform(0.5, 2, (50, 1))
    prediction = Prediction(mean, var, mean[None], var[None])
    y = rng.standard_normal((50, 1))
    found = metrics.energy_score(prediction, y, num_draws=1000)
    np.testing.assert_allclose(found, metrics.crps(prediction, y)[:, 0], atol=0.12)
    assert found.mean() == pytest.approx(metrics.crps(prediction, y).mean(), abs=0.01)


def test_the_energy_score_at_the_centre_of_a_normal_is_closed_form():
    # E‖Z‖ = √2 Γ((P + 1)/2) / Γ(P/2), and Z − Z′ is √2 times as wide.
    norm = np.sqrt(2) * gamma(2.0) / gamma(1.5)
    prediction = Prediction(*(np.full(shape, fill) for shape in ((200, 3), (1, 200, 3)) for fill in (0.0, 1.0)))
    found = metrics.energy_score(prediction, np.zeros((200, 3)))
    assert found.mean() == pytest.approx(norm * (1 - 1 / np.sqrt(2)), abs=0.01)


def test_the_energy_score_rewards_the_true_correlation_and_leaves_missing_outputs_out():
    rng = np.random.default_rng(1)
    y = rng.standard_normal((600, 1)) + 0.1 * rng.standard_normal((600, 2))
    apart = Prediction(*(np.full(shape, fill) for shape in ((600, 2), (1, 600, 2)) for fill in (0.0, 1.01)))
    together = dataclasses.replace(apart, joint=Correlated(np.ones((2, 1))))
    assert metrics.energy_score(together, y).mean() < metrics.energy_score(apart, y).mean()
    half = y.copy()
    half[:, 1], half[0] = np.nan, np.nan
    found = metrics.energy_score(apart, half)
    assert np.isnan(found[0])
    assert np.nanmean(found) == pytest.approx(np.nanmean(metrics.crps(apart, half)[:, 0]), abs=0.01)
    with pytest.raises(ConfigError, match="at least 2, to make a pair; got 1"):
        metrics.energy_score(apart, y, num_draws=1)


def test_arrmse_by_hand():
    mean = np.array([[1.0, 2.0], [3.0, 2.0], [9.0, 9.0]])
    y = np.array([[1.0, 2.0], [5.0, np.nan], [np.nan, 4.0]])
    # √(4 / (4 + 4)) and √(25 / (0 + 4)).
    assert metrics.arrmse(mean, y, np.array([3.0, 2.0])) == pytest.approx((np.sqrt(0.5) + 2.5) / 2)
    with pytest.raises(DataError, match="must differ from their training means"):
        metrics.arrmse(mean[:1], y[:1], y[0])
