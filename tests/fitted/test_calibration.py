"""Calibration: intervals that cover whatever the model, and a spread that fits."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm
from scipy.stats import t as student_t
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mogul
from mogul import Dataset, MultiOutputGPRegressor, TrainingConfig, fit
from mogul.errors import ConfigError, DataError, FileError
from mogul.fitted.calibration import Calibration
from mogul.prediction import Prediction
from mogul.storage.container import read_sealed, write_sealed
from mogul.training import Fitted
from mogul.training.split import rows_at_random

RNG = np.random.default_rng(0)


def calibration(scores: Any, groups: Any = None) -> Calibration:
    values = np.atleast_2d(np.asarray(scores, dtype=np.float64).T).T
    numbers = np.arange(len(values)) if groups is None else np.asarray(groups)
    return Calibration(np.ones(values.shape[1]), values, numbers)


class TestMultiplier:
    """Which score is the one to reach to."""

    @pytest.mark.parametrize("num_rows", [1, 9, 19, 20, 99, 100, 1000])
    @pytest.mark.parametrize("coverage", [0.1, 0.5, 0.8, 0.9, 0.95, 0.99])
    def test_it_is_the_ceiling_of_n_plus_one_times_coverage(self, num_rows: int, coverage: float) -> None:
        scores = calibration(np.random.default_rng(0).permutation(num_rows) + 1.0)
        place = math.ceil(round((num_rows + 1) * coverage, 9))
        if place > num_rows:
            with pytest.raises(
                ConfigError, match=rf"at most n/\(n \+ 1\) = .* {num_rows} rows .*; got {coverage}. Set more"
            ):
                scores.multiplier(coverage)
        else:
            assert scores.multiplier(coverage) == [place]

    def test_missing_outputs_do_not_count(self) -> None:
        scores = np.column_stack([np.arange(1.0, 20.0), np.r_[np.arange(1.0, 10.0), [np.nan] * 10]])
        np.testing.assert_array_equal(calibration(scores).multiplier(0.9), [18.0, 9.0])
        with pytest.raises(ConfigError, match="for 9 rows or groups"):
            calibration(scores).multiplier(0.91)

    def test_groups_weigh_the_same_whatever_their_size(self) -> None:
        # One group of a hundred small scores, and nine of one large score each: 2 of 11 below the large ones.
        scores = np.r_[np.full(100, 1.0), np.arange(11.0, 20.0)]
        groups = np.r_[np.zeros(100, dtype=int), np.arange(1, 10)]
        assert calibration(scores).multiplier(0.9) == 1.0
        assert calibration(scores, groups).multiplier(0.5) == 15.0
        assert calibration(scores, groups).multiplier(0.05) == 1.0

    def test_a_new_group_is_covered(self) -> None:
        """Rows of a group share most of their error: 1,000 trials of 9 groups and a row of another."""
        rng = np.random.default_rng(0)
        groups = np.repeat(np.arange(9), 20)
        inside, naive = 0, 0
        for _ in range(1000):
            shared = np.abs(rng.standard_normal(10))
            scores = shared[groups] + 0.01 * rng.random(180)
            new = shared[9] + 0.01 * rng.random()
            inside += new <= calibration(scores, groups).multiplier(0.88)[0]
            naive += new <= calibration(scores).multiplier(0.88)[0]
        low, high = binom.interval(0.999, 1000, 0.88)
        assert low <= inside <= high + 100  # at most 1/(K + 1) above
        assert naive < low  # which is why groups are asked for

    @pytest.mark.parametrize("coverage", [0.0, 1.0, -1.0, math.nan])
    def test_what_is_no_probability_is_refused(self, coverage: float) -> None:
        with pytest.raises(ConfigError, match="coverage must be between 0 and 1; got"):
            calibration([1.0, 2.0]).multiplier(coverage)

    @pytest.mark.usefixtures("as_a_user_calls")
    def test_what_does_not_belong_together_is_refused(self) -> None:
        with pytest.raises(DataError, match="Calibrate anew"):
            Calibration(np.ones(2), np.ones((3, 1)), np.arange(3))


def wrong(x: np.ndarray, num_outputs: int = 2) -> Prediction:
    """What a hopeless model says: nothing of the truth, and far too sure of it."""
    mean = np.repeat(-3 * x, num_outputs, axis=1)
    var = np.full(mean.shape, 1e-4) * (1 + x**2)
    return Prediction(mean, var, mean[None], var[None])


def test_a_badly_wrong_model_covers() -> None:
    """500 trials of 39 rows to calibrate by and one to cover."""
    rng = np.random.default_rng(0)
    inside = np.zeros(2, dtype=int)
    for _ in range(500):
        x = rng.uniform(-1, 1, (40, 1))
        y = np.hstack([np.sin(3 * x), np.exp(x)]) + rng.standard_t(2, (40, 2))
        guess = wrong(x)
        scores = np.abs(y - guess.mean) / guess.std
        low, high = calibration(scores[:39]).interval(guess.mean[39:], guess.std[39:], 0.9)
        inside += ((low < y[39]) & (y[39] < high))[0]
    low_count, high_count = binom.interval(0.999, 500, 0.9)  # 36 of 40 scores: just 0.9
    assert ((low_count <= inside) & (inside <= high_count)).all()


class TestStretch:
    """The factor that makes calibration rows likeliest."""

    def test_for_a_normal_it_is_the_root_mean_squared_score(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.uniform(-1, 1, (200, 1))
        y = rng.standard_normal((200, 2)) * [3.0, 0.01]
        y[::3, 1] = np.nan
        guess = wrong(x)
        scores = np.abs(y - guess.mean) / guess.std
        found = Calibration.of(
            [(guess.rows(slice(90)), y[:90]), (guess.rows(slice(90, 200)), y[90:])], scores, np.arange(200)
        )
        np.testing.assert_allclose(found.stretch, np.sqrt(np.nanmean(scores**2, axis=0)), rtol=1e-3)

    def test_heavy_tails_are_told_from_a_wide_spread(self) -> None:
        """Draws of Student's t, predicted by a mixture of the same shape and a third of the width."""
        rng = np.random.default_rng(0)
        scale = np.sqrt(4 / rng.chisquare(4, 2000)) / 3
        component_var = np.broadcast_to(scale[:, None, None] ** 2, (2000, 300, 1))
        zero = np.zeros((300, 1))
        guess = Prediction(zero, component_var.mean(0), np.broadcast_to(zero, component_var.shape), component_var)
        y = student_t.rvs(4, size=(300, 1), random_state=1)
        found = Calibration.of([(guess, y)], np.abs(y) / guess.std, np.arange(300))
        assert found.stretch[0] == pytest.approx(3, rel=0.15)

    def test_a_stretched_prediction_is_that_of_a_stretched_output(self) -> None:
        rng = np.random.default_rng(0)
        mean, var = rng.standard_normal((5, 3, 2)), rng.random((5, 3, 2)) + 0.1
        guess = Prediction(mean.mean(0), var.mean(0) + mean.var(0), mean, var)
        factor, y = np.array([2.0, 0.5]), rng.standard_normal((3, 2))
        wide = guess.stretched(factor)
        np.testing.assert_allclose(wide.std, factor * guess.std)
        np.testing.assert_allclose(wide.component_mean.var(0) + wide.component_var.mean(0), wide.var)
        back = guess.mean + (y - guess.mean) / factor
        np.testing.assert_allclose(wide.cdf(y), guess.cdf(back))
        np.testing.assert_allclose(wide.log_density(y), guess.log_density(back) - np.log(factor).sum())

    def test_a_few_groups_say_nothing_however_many_rows_they_have(self) -> None:
        x, y = RNG.uniform(-1, 1, (90, 1)), np.ones((90, 2))
        scores = np.abs(y - wrong(x).mean) / wrong(x).std
        for num_groups, enough in ((9, False), (10, True)):
            found = Calibration.of([(wrong(x), y)], scores, np.arange(90) % num_groups)
            assert ((found.stretch != 1) == enough).all()

    def test_a_few_values_say_nothing(self) -> None:
        x = np.linspace(-1, 1, 9)[:, None]
        assert (Calibration.of([(wrong(x), np.ones((9, 2)))], np.ones((9, 2)), np.arange(9)).stretch == 1).all()


X = RNG.uniform(-2, 2, (60, 2))
Y = np.column_stack([np.sin(X[:, 0]), 5 * X[:, 1]]) + RNG.normal(0, [0.1, 1.0], (60, 2))
SMALL = TrainingConfig(epochs=2, num_starts=1)


@pytest.fixture(scope="module")
def plain() -> Fitted:
    return fit(Dataset(X[:40], Y[:40]), model="mogp", config=SMALL, noise="constant", num_inducing=5)


@pytest.fixture(scope="module")
def calibrated(plain: Fitted) -> Fitted:
    return plain.calibrated(Dataset(X[40:], Y[40:]))


class TestFitted:
    """All that a calibrated model says agrees."""

    def test_calibration_rows_are_likelier_and_the_mean_stays(self, plain: Fitted, calibrated: Fitted) -> None:
        before, after = (each.predict(X[40:], 50) for each in (plain, calibrated))
        np.testing.assert_array_equal(before.mean, after.mean)
        assert after.log_density(Y[40:]).sum() > before.log_density(Y[40:]).sum()
        np.testing.assert_allclose(after.std, before.std * calibrated.calibration.stretch)  # type: ignore[union-attr]

    def test_the_predictor_and_draws_have_the_same_spread(self, calibrated: Fitted) -> None:
        _, std = calibrated.predictor().mean_std(X[:3])
        np.testing.assert_allclose(std, calibrated.predict(X[:3]).std, rtol=1e-6)
        draws = calibrated.sample_functions(X[:3], 4000) + calibrated.sample_noise(X[:3], 4000)
        np.testing.assert_allclose(draws.std(0), std, rtol=0.08)

    def test_intervals_hold_their_share_of_calibration_rows(self, calibrated: Fitted) -> None:
        low, high = calibrated.interval(X[40:], 0.8)
        assert (((low <= Y[40:]) & (Y[40:] <= high)).sum(0) == 17).all()  # ⌈21 · 0.8⌉ of 20

    @pytest.mark.usefixtures("as_a_user_calls")
    def test_it_comes_back_from_a_file(self, calibrated: Fitted, tmp_path: Path) -> None:
        calibrated.save(tmp_path / "m")
        loaded = mogul.load(tmp_path / "m")
        for one, two in zip(calibrated.interval(X), loaded.interval(X), strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(calibrated.predict(X).var, loaded.predict(X).var)
        header, tensors = read_sealed(tmp_path / "m")
        del header["format"], header["sha256"]
        write_sealed(tmp_path / "m", header, tensors | {"calibration.stretch": tensors["calibration.stretch"][:1]})
        with pytest.raises(FileError, match="Calibrate anew"):
            mogul.load(tmp_path / "m")

    @pytest.mark.usefixtures("as_a_user_calls")
    def test_it_knows_its_seed(self, tmp_path: Path) -> None:
        """Moments of a deep model are made of draws, and scores belong to those of the calibration."""
        config = replace(SMALL, epochs=1, seed=3)
        deep = fit(
            Dataset(X[:40], Y[:40]), model="dgp", config=config, noise="constant", num_inducing=3, num_top_inducing=3
        )
        for seed in (3, 4):
            calibrated = deep.calibrated(Dataset(X[40:], Y[40:]), seed=seed)
            expected = calibrated.require_calibration().interval(*calibrated.predictor(seed=seed).mean_std(X), 0.8)
            calibrated.save(tmp_path / "m")
            np.testing.assert_array_equal(calibrated.interval(X, 0.8), expected)
            np.testing.assert_array_equal(mogul.load(tmp_path / "m").interval(X, 0.8), expected)
        header, tensors = read_sealed(tmp_path / "m")
        del header["format"], header["sha256"], tensors["calibration.seed"]
        write_sealed(tmp_path / "m", header, tensors)
        assert mogul.load(tmp_path / "m").require_calibration().seed == 3  # of training: files of old do not say

    def test_without_it_there_are_no_intervals(self, plain: Fitted) -> None:
        with pytest.raises(ConfigError, match=r"was not calibrated, or trained on since. Fit with calibrate=0.2"):
            plain.interval(X)


def regressor(**settings: Any) -> MultiOutputGPRegressor:
    small: dict[str, Any] = {"model": "mogp", "epochs": 2, "num_starts": 1, "num_inducing": 5, "num_samples": 20}
    return MultiOutputGPRegressor(**(small | {"calibrate": 0.5} | settings))


@pytest.mark.usefixtures("as_a_user_calls")
class TestRegressor:
    """`calibrate` and `predict_interval`."""

    def test_rows_set_aside_have_no_part_in_training(self) -> None:
        some = regressor().fit(X, Y)
        found = some.fitted_.calibration
        assert found is not None
        aside = rows_at_random(60, 0.5, seed=0)
        alone = regressor(calibrate=None).fit(np.delete(X, aside, axis=0), np.delete(Y, aside, axis=0))
        np.testing.assert_array_equal(some.predict(X), alone.predict(X))
        again = alone.fitted_.calibrated(Dataset(X[aside], Y[aside])).calibration
        np.testing.assert_array_equal(found.scores, again.scores)  # type: ignore[union-attr]

    @pytest.mark.no_cover  # many steps on lines that other tests run too
    def test_intervals_cover_where_noise_falls_within_runs(self) -> None:
        """Five runs that end quietly: the last rows of each, set aside, would hold 55 % where 90 was asked."""
        rng = np.random.default_rng(0)
        scale = np.tile(np.geomspace(1, 0.03, 100), 5)[:, None]
        x, new_x = rng.uniform(-2, 2, (2, 500, 2))
        y, new_y = (np.sin(each) + scale * rng.standard_normal((500, 2)) for each in (x, new_x))
        some = regressor(calibrate=0.3, noise="constant", epochs=10, num_inducing=10).fit(x, y)
        low, high = some.predict_interval(new_x, coverage=0.9)
        held = np.mean((low <= new_y) & (new_y <= high))
        # Of 150 rows set aside and 500 new ones, and as if both outputs said the same.
        assert abs(held - 0.9) < norm.ppf(0.9995) * math.sqrt(0.9 * 0.1 * (1 / 150 + 1 / 500))

    def test_what_it_says_agrees(self, tmp_path: Path) -> None:
        some = regressor().fit(X, Y)
        low, high = some.predict_interval(X, coverage=0.8)
        mean, std = some.predict(X, return_std=True)
        np.testing.assert_allclose((low + high) / 2, mean)
        np.testing.assert_allclose((high - low) / 2, std * some.fitted_.calibration.multiplier(0.8))  # type: ignore[union-attr]
        np.testing.assert_allclose(np.sqrt(np.diagonal(some.predict(X, return_cov=True)[1], axis1=1, axis2=2)), std)
        some.save(tmp_path / "m")
        loaded = MultiOutputGPRegressor.load(tmp_path / "m")
        np.testing.assert_array_equal(loaded.predict_interval(X, coverage=0.8), (low, high))
        assert regressor().fit(X, Y[:, 0]).predict_interval(X)[0].shape == (60,)

    def test_groups_are_set_aside_whole_beside_those_watched(self) -> None:
        runs = np.repeat(np.arange(12), 5)
        some = regressor(calibrate=0.25, noise="auto", options={"num_noise_inducing": 3}).fit(X, Y, groups=runs)
        found = some.fitted_.calibration
        assert found is not None
        assert np.unique(found.groups, return_counts=True)[1].tolist() == [5, 5, 5]
        assert some.choice_.num_held_out == 10  # type: ignore[union-attr]
        with pytest.raises(ConfigError, match=r"for 3 rows or groups to calibrate by; got 0.9"):
            some.predict_interval(X)

    def test_copies_of_a_row_count_once(self) -> None:
        found = regressor().fit(X, Y, sample_weight=np.full(60, 2)).fitted_.calibration
        assert found is not None
        assert np.unique(found.groups, return_counts=True)[1].tolist() == [2] * 30

    def test_more_training_asks_for_more_calibration(self) -> None:
        some = regressor().fit(X, Y).partial_fit(X, Y)
        with pytest.raises(ConfigError, match="trained on since"):
            some.predict_interval(X)

    def test_clones_and_grids(self) -> None:
        assert clone(regressor()).get_params()["calibrate"] == 0.5
        search = GridSearchCV(regressor(), {"calibrate": [None, 0.3]}, cv=2).fit(X, Y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    @pytest.mark.parametrize("calibrate", [0, 1.0, "some", (X, Y)])
    def test_what_is_no_share_is_refused(self, calibrate: Any) -> None:
        with pytest.raises(ConfigError, match="calibrate must be a share of the rows, between 0 and 1; got"):
            regressor(calibrate=calibrate).fit(X, Y)


def test_coverage_over_many_fits_of_a_wrong_model() -> None:
    """A line for a wave of heavy-tailed noise: the share inside, over new rows and sets of calibration rows."""
    rng = np.random.default_rng(3)
    shares = []
    config = TrainingConfig(epochs=1, num_starts=1)
    x = rng.uniform(-3, 3, (30, 1))
    fitted = fit(Dataset(x, np.sin(3 * x)), model="mogp", config=config, noise="constant", num_inducing=2)
    for _ in range(40):
        x = rng.uniform(-3, 3, (219, 1))
        data = Dataset(x, np.sin(3 * x) * (1 + x**2) + rng.standard_t(3, (219, 1)))
        low, high = fitted.calibrated(data.rows(np.arange(19))).interval(data.x[19:], 0.9)
        shares.append(np.mean((low <= data.y[19:]) & (data.y[19:] <= high)))
    # 18 of 20: just 0.9, with the spread of Beta(18, 2) over sets and of a binomial within each.
    spread = math.sqrt(0.9 * 0.1 / 21 + 0.9 * 0.1 / 200) / math.sqrt(40)
    assert abs(np.mean(shares) - 0.9) < norm.ppf(0.9995) * spread
