"""Regressors as the mean: cross-fitted, stored as arrays, and honest about their residuals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mogul
from mogul.errors import ConfigError, FileError, FitError
from mogul.means.regressor import CrossFitted, RegressorMean
from mogul.means.trees import TreeSum
from mogul.training import TrainingConfig, fit

QUICK = ExtraTreesRegressor(20, min_samples_leaf=2)


def steps(x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.sign(x[:, 0] * x[:, 1]), np.sin(3 * x[:, 1]) + (x[:, 2] > 0)])


def rows(num_rows: int, seed: int = 0, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([num_rows, seed])
    x = rng.uniform(-1, 1, (num_rows, 3))
    return x, steps(x) + noise * rng.standard_normal((num_rows, 2))


def crossed(regressor: Any, x: np.ndarray, y: np.ndarray, units: np.ndarray | None = None) -> CrossFitted:
    return CrossFitted.of(regressor, x, y, np.arange(len(x)) if units is None else units, seed=0)


class TestTreeSum:
    """Trees as arrays."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize(
        "forest",
        [
            ExtraTreesRegressor(30, min_samples_leaf=2, bootstrap=True, random_state=0),
            RandomForestRegressor(30, max_depth=4, random_state=0),
            ExtraTreesRegressor(3, max_depth=1, random_state=0),
        ],
    )
    def test_forests_predict_what_scikit_learn_predicts_bit_for_bit(self, forest, dtype):
        x, y = rows(300)
        forest.fit(x, y)
        new = torch.as_tensor(rows(1000, 1)[0], dtype=dtype)
        trees = TreeSum.of(forest, np.array([0, 1])).to(torch.float32)
        np.testing.assert_array_equal(trees(new).numpy(), forest.predict(new.numpy()))
        np.testing.assert_array_equal(trees(torch.as_tensor(x)).numpy(), forest.predict(x))

    @pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
    def test_boosting_predicts_what_scikit_learn_predicts_bit_for_bit(self, loss):
        x, y = rows(300)
        boosting = HistGradientBoostingRegressor(loss=loss, max_iter=40).fit(x, y[:, 0])
        trees = TreeSum.of(boosting, np.array([0])).to(torch.float32)
        for new in (x, rows(1000, 1)[0]):
            np.testing.assert_array_equal(trees(torch.as_tensor(new))[:, 0].numpy(), boosting.predict(new))

    def test_trees_that_do_not_end_are_refused(self):
        x, y = rows(50)
        trees = TreeSum.of(RandomForestRegressor(2, random_state=0).fit(x, y), np.array([0, 1]))
        state = {name: tensor.clone() for name, tensor in trees.state_dict().items()}
        state["below"][1, 0] = 1
        with pytest.raises(FileError, match="Trees must lead from roots to leaves"):
            TreeSum.stored(state, "")


class TestCrossFitted:
    """Predictions of rows that a regressor was not fitted to."""

    @pytest.mark.parametrize("name", ["trees", "boosting"])
    def test_cross_fitted_residuals_are_those_of_new_rows(self, name):
        x, y = rows(400)
        found = crossed(name, x, y)
        new, truth = rows(2000, 1)
        at_new = (truth - found.mean.forward(torch.as_tensor(new)).numpy()).std(0)
        in_sample = (y - found.mean.forward(torch.as_tensor(x)).numpy()).std(0)
        np.testing.assert_allclose(found.mean.scale.numpy(), at_new, rtol=0.2)
        assert (in_sample < 0.8 * at_new).all()

    @pytest.mark.parametrize("regressor", ["trees", QUICK, HistGradientBoostingRegressor(max_iter=20)])
    def test_copies_of_a_row_are_left_out_together(self, regressor):
        x, y = rows(100)
        once = crossed(regressor, x, y).mean.scale
        twice = crossed(regressor, np.tile(x, (2, 1)), np.tile(y, (2, 1))).mean.scale
        np.testing.assert_allclose(twice, once, rtol=0.3)

    def test_groups_are_left_out_whole(self):
        rng = np.random.default_rng(0)
        group = np.repeat(np.arange(20), 10)
        x = rng.standard_normal((20, 3))[group] + 0.01 * rng.standard_normal((200, 3))
        y = rng.standard_normal((20, 1))[group]
        assert crossed("trees", x, y).mean.scale < 0.2
        assert crossed("trees", x, y, group).mean.scale > 0.8

    def test_each_output_is_fitted_on_its_own_rows(self):
        x, y = rows(200)
        y[:60, 1] = np.nan
        found = crossed(QUICK, x, y)
        assert [part.columns.tolist() for part in found.mean.parts] in ([[0], [1]], [[1], [0]])
        alone = crossed(QUICK, x[60:], y[60:, 1:])
        new = torch.as_tensor(rows(50, 1)[0])
        np.testing.assert_array_equal(found.mean.forward(new)[:, 1:], alone.mean.forward(new))
        np.testing.assert_array_equal(found.predictions[60:, 1:], alone.predictions)

    def test_an_output_with_few_rows_has_its_mean_value(self):
        x, y = rows(100)
        y[5:, 1] = np.nan
        found = crossed("trees", x, y)
        new = torch.as_tensor(rows(50, 1)[0])
        np.testing.assert_allclose(found.mean.forward(new)[:, 1], y[:5, 1].mean())

    def test_the_users_regressor_is_left_as_it_was(self):
        x, y = rows(60)
        own = KNeighborsRegressor()
        crossed(own, x, y)
        assert not hasattr(own, "n_features_in_")

    def test_a_regressor_that_fails_says_so(self):
        x, y = rows(60)
        with pytest.raises(FitError, match="must fit finite rows"):
            crossed(KNeighborsRegressor(metric="none"), x, y)


class TestFit:
    """Means by name, and the user's own."""

    @pytest.mark.parametrize(
        "mean", ["boosting", QUICK, RandomForestRegressor(10), HistGradientBoostingRegressor(max_iter=20)]
    )
    def test_a_stored_mean_predicts_bit_for_bit_the_same(self, mean, tmp_path):
        x, y = rows(80)
        y[:30, 1] = np.nan
        fitted = fit(x, y, mean=mean, noise="constant")
        fitted.save(tmp_path / "model.mogul")
        loaded = mogul.load(tmp_path / "model.mogul")
        new = rows(200, 1)[0]
        for part in ("mean", "var"):
            np.testing.assert_array_equal(*(getattr(each.predict(new, 5), part) for each in (fitted, loaded)))
        for one, two in zip(*(each.predictor().mean_std(new) for each in (fitted, loaded)), strict=True):
            np.testing.assert_array_equal(one, two)
        assert fitted.predictor().jacobian(new[:2]).shape == (2, 2, 3)

    @pytest.mark.parametrize("precision", ["float32", "float64"])
    @pytest.mark.parametrize("name", ["mogp", "n-sbgprn", "dgp"])
    def test_random_starts_have_it_too(self, name, precision, tmp_path):
        x, y = rows(120)
        config = TrainingConfig(epochs=3, num_starts=2, precision=precision, start="random")
        fitted = fit(x, y, model=name, mean=QUICK, config=config, num_inducing=10, validation=0.2)
        assert isinstance(fitted.model.mean, RegressorMean)
        assert fitted.history.held_out is not None
        fitted.save(tmp_path / "model.mogul")
        new = rows(50, 1)[0]
        np.testing.assert_array_equal(
            *(each.predict(new, 5).mean for each in (fitted, mogul.load(tmp_path / "model.mogul")))
        )

    @pytest.mark.parametrize("mean", [KNeighborsRegressor(), make_pipeline(StandardScaler(), Ridge())])
    def test_any_regressor_predicts_but_cannot_be_saved(self, mean, tmp_path):
        x, y = rows(80)
        fitted = fit(x, y, mean=mean, noise="constant")
        new, truth = rows(200, 1)
        assert fitted.predict(new).mean.shape == truth.shape
        with pytest.raises(
            FileError, match=r"must be a forest or HistGradientBoosting to be saved; got .*mean='trees'"
        ):
            fitted.save(tmp_path / "model.mogul")
        assert not (tmp_path / "model.mogul").exists()

    def test_members_of_a_mixture_have_it_and_groups_are_left_out_whole(self, monkeypatch, tmp_path):
        seen, honest = [], CrossFitted.of
        monkeypatch.setattr(CrossFitted, "of", staticmethod(lambda *given: seen.append(given[3]) or honest(*given)))
        x, y = rows(60)
        groups = np.repeat(np.arange(12), 5)
        config = TrainingConfig(epochs=2, num_starts=1, start="random")
        fitted = fit(x, y, model="mogp+sbgprn", mean=QUICK, config=config, num_inducing=5, groups=groups)
        assert [len(np.unique(units)) for units in seen] == [10, 12, 10, 12]  # each retrained on all groups
        fitted.save(tmp_path / "model.mogul")
        loaded = mogul.load(tmp_path / "model.mogul")
        np.testing.assert_array_equal(*(each.predict(x, 5).mean for each in (fitted, loaded)))

    def test_a_row_that_counts_twice_is_left_out_twice(self, monkeypatch):
        seen, honest = [], CrossFitted.of
        monkeypatch.setattr(CrossFitted, "of", staticmethod(lambda *given: seen.append(given[3]) or honest(*given)))
        x, y = rows(40)
        regressor = mogul.MultiOutputGPRegressor(mean=QUICK, noise="constant")
        regressor.fit(x, y, sample_weight=np.full(40, 2))
        assert len(seen[0]) == 80
        assert len(np.unique(seen[0])) == 40

    def test_the_estimator_gives_the_same_model(self):
        x, y = rows(60)
        regressor = mogul.MultiOutputGPRegressor(mean=QUICK, noise="constant").fit(x, y)
        np.testing.assert_allclose(regressor.predict(x), fit(x, y, mean=QUICK, noise="constant").predict(x).mean)
        with pytest.raises(ConfigError, match="this model's mean is a regressor"):
            regressor.partial_fit(x, y, epochs=1)

    def test_training_resumes_from_a_checkpoint(self, tmp_path: Path):
        x, y = rows(60)
        config = TrainingConfig(epochs=2, num_starts=1, start="random")
        call = {"model": "mogp", "mean": QUICK, "config": config, "checkpoint": tmp_path, "num_inducing": 5}
        first = fit(x, y, **call)
        np.testing.assert_array_equal(fit(x, y, **call).predict(x).mean, first.predict(x).mean)

    @pytest.mark.usefixtures("as_a_user_calls")
    @pytest.mark.parametrize(
        ("mean", "message"),
        [
            ("tree", r"mean must be one of linear, trees, .* Did you mean 'trees'"),
            (3, r"mean must be one of .*, or a regressor of scikit-learn's kind; got 3\. Try mean='trees'"),
            (Ridge, r"got <class .*Ridge'>\. Give Ridge\(\)"),
        ],
    )
    def test_other_means_are_refused(self, mean, message):
        x, y = rows(30)
        with pytest.raises(ConfigError, match=message):
            fit(x, y, mean=mean)

    def test_a_predictor_with_trees_exports(self):
        x, y = rows(60)
        predictor = fit(x, y, mean=QUICK, noise="constant").predictor().predictor
        new = torch.as_tensor(rows(5, 1)[0])
        exported = torch.export.export(predictor, (new,)).module()
        torch.testing.assert_close(exported(new)[0], predictor(new)[0])

    def test_latent_inputs_have_no_regressor(self):
        with pytest.raises(ConfigError, match="mean='trees' needs inputs that are observed"):
            fit(None, rows(30)[1], model="mogp-lvm", mean="trees")


@pytest.mark.no_cover
class TestCoverage:
    """Planted: 500 rows, a forest as the mean."""

    def covered(self, seed: int) -> float:
        rng = np.random.default_rng(seed)
        x, new = rng.uniform(-1, 1, (500, 10)), rng.uniform(-1, 1, (1000, 10))
        y, truth = (steps(part)[:, :1] + 0.3 * rng.standard_normal((len(part), 1)) for part in (x, new))
        low, high = fit(x, y, mean="trees", noise="constant").predict(new).quantiles(np.array([0.025, 0.975]))
        return float(((low < truth) & (truth < high)).mean())

    def test_bands_hold_what_they_promise(self):
        assert 0.93 < np.mean([self.covered(seed) for seed in range(3)]) < 0.97

    def test_in_sample_residuals_would_not(self, monkeypatch):
        honest = CrossFitted.of

        def in_sample(regressor, x, y, *others):
            found = honest(regressor, x, y, *others)
            own = found.mean.forward(torch.as_tensor(x)).numpy()
            scale = torch.as_tensor((y - own).std(0))
            return CrossFitted(RegressorMean(list(found.mean.parts), scale), own)

        monkeypatch.setattr(CrossFitted, "of", staticmethod(in_sample))
        assert self.covered(0) < 0.8
