"""The estimators in scikit-learn's world: its own checks, its tools, and every container on the way in and out."""

from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mogul
from mogul import MultiOutputGPLVM, MultiOutputGPRegressor, TrainingConfig
from mogul.errors import ConfigError, DataError, FileError, MogulError, ShapeError, UnknownNameError
from mogul.nonlinearities import Erf, Quadrature
from mogul.storage import save
from mogul.training.presets import preset

SMALL: dict[str, Any] = {"epochs": 40, "num_starts": 1, "num_inducing": 5, "num_samples": 5}
SMALL_LVM: dict[str, Any] = {
    "epochs": 3,
    "num_starts": 1,
    "num_inducing": 5,
    "num_latents": 2,
    "num_hidden": 3,
    "num_samples": 5,
    "inference_steps": 10,
}
# Beside these, scikit-learn itself skips `check_array_api_input` where SCIPY_ARRAY_API is not set.
EXPECTED_FAILURES = {
    "MultiOutputGPRegressor": {
        "check_sample_weight_equivalence_on_dense_data": "It gives the copies in another order than the weights, and "
        "where inducing points and random starts begin depends on the order of rows. In the same order, weights and "
        "copies agree bit for bit: test_weights_are_copies."
    },
    "MultiOutputGPLVM": dict.fromkeys(
        ("check_methods_sample_order_invariance", "check_methods_subset_invariance"),
        "q(X*) of new rows is found by stochastic steps, whose draws come from one stream for all rows of a call: a "
        "row's position depends on its place, within the spread of q(X*): test_positions_hardly_depend_on_company.",
    ),
}


@pytest.fixture(autouse=True)
def _as_a_user_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users have no shape checker in front of our own checks: an argument may be anything until it is fitted."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@parametrize_with_checks(
    [MultiOutputGPRegressor(**(SMALL | {"epochs": 5})), MultiOutputGPLVM(2, **SMALL_LVM)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[type(estimator).__name__],
)
@pytest.mark.filterwarnings("ignore::mogul.errors.MogulWarning")  # of columns that are odd on purpose
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def rows(num_rows: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (num_rows, 2))
    y = np.column_stack([100 * np.sin(x[:, 0]), x[:, 0] + x[:, 1], 3 - x[:, 1]])
    return x, y + rng.normal(0, [5.0, 0.1, 0.1], y.shape)


X, Y = rows()
FRAME_X = pd.DataFrame(X, columns=["time", "load"], index=range(100, 140))
FRAME_Y = pd.DataFrame(Y, columns=["left", "right", "up"])


def regressor(**settings: Any) -> MultiOutputGPRegressor:
    return MultiOutputGPRegressor(**(SMALL | {"num_samples": 50} | settings))


@pytest.fixture(scope="module")
def fitted() -> MultiOutputGPRegressor:
    return regressor().fit(X, Y)


@pytest.fixture(scope="module")
def single() -> MultiOutputGPRegressor:
    return regressor().fit(X, Y[:, 0])


@pytest.fixture(scope="module")
def framed() -> MultiOutputGPRegressor:
    return regressor().fit(FRAME_X, FRAME_Y)


class TestPredict:
    """Means, standard deviations, covariances, quantiles, draws, densities."""

    def test_mean_and_deviation_are_those_of_the_fitted_model(self, fitted: MultiOutputGPRegressor) -> None:
        mean, std = fitted.predict(X, return_std=True)
        expected = fitted.fitted_.predict(X)
        np.testing.assert_allclose(mean, expected.mean, rtol=1e-8)
        np.testing.assert_allclose(std, expected.std, rtol=1e-6)
        np.testing.assert_allclose(fitted.predict(X), mean, rtol=1e-12)

    def test_covariance_has_the_variances_on_its_diagonal_and_is_positive_definite(self, fitted: Any) -> None:
        mean, cov = fitted.predict(X, return_cov=True)
        _, std = fitted.predict(X, return_std=True)
        assert cov.shape == (40, 3, 3)
        np.testing.assert_allclose(np.sqrt(np.diagonal(cov, axis1=1, axis2=2)), std, rtol=1e-12)
        np.testing.assert_array_equal(cov, cov.swapaxes(1, 2))
        assert np.linalg.eigvalsh(cov / (std[:, :, None] * std[:, None, :])).min() > 0
        np.testing.assert_allclose(mean, fitted.predict(X), rtol=1e-12)

    def test_covariance_is_that_of_draws(self) -> None:
        # One latent GP and no inducing points to speak of: outputs go up and down together.
        many = regressor(model="mogp", num_latents=1, num_samples=4000, num_inducing=2, mean="paper", epochs=5)
        many.fit(X, Y)
        _, cov = many.predict(X[:3], return_cov=True)
        draws = many.sample_y(X[:3], 40_000)
        for row in range(3):
            sampled = np.corrcoef(draws[row])
            scale = np.sqrt(np.diagonal(cov[row]))
            np.testing.assert_allclose(cov[row] / np.outer(scale, scale), sampled, atol=0.06)

    def test_quantiles_are_those_of_the_mixture(self, fitted: MultiOutputGPRegressor) -> None:
        several = fitted.predict_quantiles(X, [0.1, 0.5, 0.9])
        assert several.shape == (3, 40, 3)
        np.testing.assert_array_equal(several, fitted.fitted_.predict(X, 50).quantiles([0.1, 0.5, 0.9]))
        np.testing.assert_array_equal(fitted.predict_quantiles(X, 0.5), several[1])

    @pytest.mark.parametrize("joint", [False, True])
    def test_draws_have_scikit_learns_axes_and_the_moments_of_the_prediction(self, fitted: Any, joint: bool) -> None:
        draws = fitted.sample_y(X[:4], 4000, joint=joint)
        mean, std = fitted.predict(X[:4], return_std=True)
        assert draws.shape == (4, 3, 4000)
        assert np.all(np.abs(draws.mean(-1) - mean) < 5 * std / np.sqrt(4000))
        np.testing.assert_allclose(draws.std(-1), std, rtol=0.08)
        np.testing.assert_array_equal(draws, fitted.sample_y(X[:4], 4000, joint=joint, random_state=0))
        assert not np.array_equal(draws, fitted.sample_y(X[:4], 4000, joint=joint, random_state=1))

    def test_densities_are_in_original_units_over_what_is_there(self, fitted: MultiOutputGPRegressor) -> None:
        holes = Y.copy()
        holes[0] = holes[1, 0] = np.nan
        each = fitted.log_density(X, holes)
        assert each.shape == (40,)
        assert each[0] == 0.0
        np.testing.assert_allclose(each, fitted.fitted_.predict(X, 50).log_density(holes), rtol=1e-12)

    def test_slopes_are_those_of_the_mean(self, fitted: MultiOutputGPRegressor) -> None:
        slopes, step = fitted.jacobian(X), 1e-5
        assert slopes.shape == (40, 3, 2)
        for axis in range(2):
            shift = step * np.eye(2)[axis]
            numeric = (fitted.predict(X + shift) - fitted.predict(X - shift)) / (2 * step)
            np.testing.assert_allclose(slopes[:, :, axis], numeric, rtol=1e-4, atol=1e-4)

    def test_one_output_has_one_axis(self, single: MultiOutputGPRegressor) -> None:
        mean, std = single.predict(X, return_std=True)
        assert mean.shape == std.shape == single.predict_quantiles(X, 0.5).shape == (40,)
        assert single.predict_quantiles(X, [0.1, 0.9]).shape == (2, 40)
        assert single.predict(X, return_cov=True)[1].shape == (40, 1, 1)
        assert single.sample_y(X, 7).shape == single.sample_y(X, 7, joint=True).shape == (40, 7)
        assert single.jacobian(X).shape == (40, 2)
        assert single.log_density(X, Y[:, 0]).shape == (40,)

    def test_many_rows_come_in_parts(self, fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = fitted.predict_quantiles(X, 0.5), fitted.predict(X, return_cov=True)[1], fitted.log_density(X, Y)
        monkeypatch.setattr("mogul.estimators.base._NUMBERS_AT_ONCE", 50 * 3 * 7)
        parts = fitted.predict_quantiles(X, 0.5), fitted.predict(X, return_cov=True)[1], fitted.log_density(X, Y)
        scale = fitted.predict(X, return_std=True)[1]
        assert [part.shape for part in parts] == [each.shape for each in whole]
        assert np.abs((parts[0] - whole[0]) / scale).max() < 0.3
        np.testing.assert_array_equal(parts[0][:7], fitted.predict_quantiles(X[:7], 0.5))

    def test_a_frozen_predictor(self, fitted: MultiOutputGPRegressor) -> None:
        np.testing.assert_allclose(fitted.predictor().mean(X), fitted.predict(X), rtol=1e-10)


class TestScore:
    """R², as scikit-learn defines it."""

    def test_it_is_the_mean_over_outputs(self, fitted: MultiOutputGPRegressor) -> None:
        errors = ((Y - fitted.predict(X)) ** 2).sum(0) / ((Y - Y.mean(0)) ** 2).sum(0)
        assert fitted.score(X, Y) == pytest.approx(1 - errors.mean())

    def test_missing_values_are_left_out(self, fitted: MultiOutputGPRegressor) -> None:
        holes = Y.copy()
        holes[:20, 0] = np.nan
        assert fitted.score(X, holes) == pytest.approx(
            np.mean(
                [fitted_r2(Y[20:, 0], fitted.predict(X)[20:, 0]), *map(fitted_r2, Y.T[1:], fitted.predict(X).T[1:])]
            )
        )

    def test_another_shape_is_refused(self, fitted: MultiOutputGPRegressor) -> None:
        with pytest.raises(ShapeError, match="must have 3 columns, as in training; got 2"):
            fitted.score(X, Y[:, :2])


def fitted_r2(true: np.ndarray, guess: np.ndarray) -> float:
    return float(1 - ((true - guess) ** 2).sum() / ((true - true.mean()) ** 2).sum())


class TestTraining:
    """What fit makes of its arguments."""

    def test_missing_outputs_are_data(self) -> None:
        holes = Y.copy()
        holes[::3, 0] = holes[1::4, 2] = np.nan
        assert regressor().fit(X, holes).score(X, Y) > 0.5

    def test_the_defaults_are_those_of_the_preset(self) -> None:
        config = MultiOutputGPRegressor(epochs=3, num_starts=1).fit(X, Y).fitted_.blueprint.config  # type: ignore[union-attr]
        expected = preset("default", "n-sbgprn", 0, 40)
        assert config is not None
        assert config.stopping == expected.stopping
        assert (config.batch_size, config.learning_rate) == (expected.batch_size, expected.learning_rate)

    def test_a_configuration_may_be_given_whole(self) -> None:
        config = TrainingConfig(epochs=2, num_starts=1, seed=5)
        fitted = MultiOutputGPRegressor("mogp", config=config, options={"num_inducing": 4}).fit(X, Y)
        assert fitted.fitted_.blueprint.config == config  # type: ignore[union-attr]

    def test_a_deep_model_anneals_for_a_fifth_of_its_epochs(self) -> None:
        fitted = regressor(model="dgp", epochs=10, options={"num_top_inducing": 4}).fit(X, Y)
        assert fitted.fitted_.blueprint.config.anneal_epochs == 2  # type: ignore[union-attr]

    def test_a_share_may_be_held_out(self) -> None:
        config = regressor().fit(X, Y, validation=0.25).fitted_.blueprint.config  # type: ignore[union-attr]
        assert config.stopping.held_out == 0.25  # type: ignore[union-attr]

    def test_weights_are_copies(self) -> None:
        weights = np.random.default_rng(0).integers(0, 3, 40)
        weighted = regressor().fit(X, Y, sample_weight=weights)
        copied = regressor().fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
        np.testing.assert_array_equal(weighted.predict(X), copied.predict(X))
        ones = regressor().fit(X, Y, sample_weight=np.ones(40))
        np.testing.assert_array_equal(ones.predict(X), regressor().fit(X, Y).predict(X))

    def test_random_states(self) -> None:
        same = [regressor(epochs=2, random_state=state).fit(X, Y).predict(X) for state in (3, 3, 4)]
        np.testing.assert_array_equal(same[0], same[1])
        assert not np.array_equal(same[0], same[2])
        generator = np.random.RandomState(0)  # scikit-learn's kind
        first, second = (regressor(epochs=2, random_state=generator).fit(X, Y).predict(X) for _ in range(2))
        assert not np.array_equal(first, second)

    def test_more_epochs_go_on_from_where_training_ended(self) -> None:
        some = regressor(epochs=10).fit(X, Y)
        before = some.fitted_.history.elbo
        some.partial_fit(X, Y, epochs=30)
        after = some.fitted_.history.elbo
        assert after[: len(before)] == before
        assert np.mean(after[-3:]) > np.mean(before[-3:])
        assert [record.epoch for record in some.fitted_.history.records] == list(range(len(after)))

    def test_a_first_part_has_the_epochs_asked_for(self) -> None:
        assert len(regressor().partial_fit(X, Y, epochs=3).fitted_.history.elbo) == 3
        assert regressor(epochs=2).partial_fit(X, Y).fitted_.blueprint.config.epochs == 2  # type: ignore[union-attr]
        with pytest.raises(ConfigError, match="epochs must be at least 1; got 0"):
            regressor().partial_fit(X, Y, epochs=0)

    def test_new_rows_keep_the_scaling(self) -> None:
        some = regressor().fit(X[:20], Y[:20])
        scaling = some.fitted_.scaling
        some.partial_fit(X, Y)
        assert some.fitted_.scaling is scaling
        assert some.score(X, Y) > 0.5

    def test_the_model_before_is_left_alone(self) -> None:
        some = regressor(epochs=5).fit(X, Y)
        old, before = some.fitted_, some.fitted_.predict(X).mean
        some.partial_fit(X, Y)
        np.testing.assert_array_equal(old.predict(X).mean, before)
        assert not np.array_equal(some.fitted_.predict(X).mean, before)


class TestTools:
    """Pipelines, clones, searches."""

    def test_a_pipeline(self) -> None:
        pipeline = make_pipeline(StandardScaler(), regressor()).fit(X, Y)
        assert pipeline.score(X, Y) > 0.5
        mean, std = pipeline.predict(X, return_std=True)
        assert mean.shape == std.shape == (40, 3)

    def test_a_grid_search_chooses_by_score(self) -> None:
        sizes = {"num_inducing": np.array([2, 6])}
        grid = [{"model": ["mogp"], **sizes}, {"model": ["n-mogp"], "nonlinearity": ["relu", Erf(0.5)], **sizes}]
        search = GridSearchCV(regressor(epochs=5), grid, cv=2).fit(X, Y)
        assert search.best_params_["model"] in {"mogp", "n-mogp"}
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.predict(X).shape == (40, 3)

    def test_a_cross_validation_with_missing_outputs(self) -> None:
        holes = Y.copy()
        holes[::5, 1] = np.nan
        scores = cross_val_score(regressor(), X, holes, cv=KFold(3, shuffle=True, random_state=0))
        assert (scores > 0.3).all()

    def test_latent_variables_can_be_searched_and_piped(self) -> None:
        search = GridSearchCV(MultiOutputGPLVM(**SMALL_LVM), {"n_components": [1, 2]}, cv=2).fit(Y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert make_pipeline(StandardScaler(), MultiOutputGPLVM(2, **SMALL_LVM)).fit_transform(Y).shape == (40, 2)

    def test_a_clone_keeps_arguments_and_output(self) -> None:
        original = regressor(model="n-sbgprn", nonlinearity=Erf(0.5), config=None).set_output(transform="pandas")
        twin = clone(original)
        assert twin.get_params()["nonlinearity"] == Erf(0.5)
        assert isinstance(twin.fit(X, Y).predict(X), pd.DataFrame)


CONVERT = {
    "lists": np.ndarray.tolist,
    "tensor": torch.as_tensor,
    "tensor with gradient": lambda values: torch.as_tensor(values).requires_grad_(),
    "fortran": np.asfortranarray,
    "masked": np.ma.masked_invalid,
    "frame of numbers": pd.DataFrame,
}


class TestContainers:
    """Whatever people keep their numbers in."""

    @pytest.mark.parametrize("convert", CONVERT.values(), ids=CONVERT)
    def test_every_container_gives_the_same(self, convert: Any, fitted: MultiOutputGPRegressor) -> None:
        other = regressor().fit(convert(X), convert(Y))
        np.testing.assert_array_equal(np.asarray(other.predict(convert(X))), fitted.predict(X))
        np.testing.assert_array_equal(other.log_density(convert(X), convert(Y)), fitted.log_density(X, Y))

    def test_bfloat16_is_a_number_too(self) -> None:
        assert regressor(epochs=1).fit(torch.as_tensor(X).bfloat16(), Y).predict(X).shape == (40, 3)

    def test_masked_values_are_missing(self) -> None:
        masked = np.ma.MaskedArray(Y, mask=np.arange(120).reshape(40, 3) % 7 == 0)
        filled = regressor(epochs=2).fit(X, masked.filled(np.nan))
        np.testing.assert_array_equal(regressor(epochs=2).fit(X, masked).predict(X), filled.predict(X))

    def test_names_are_kept(self, framed: MultiOutputGPRegressor) -> None:
        assert list(framed.feature_names_in_) == framed.fitted_.input_names == ["time", "load"]
        assert framed.output_names_ == ["left", "right", "up"]

    def test_frames_come_back_with_columns_and_index(self, framed: Any, fitted: Any) -> None:
        mean, std = framed.predict(FRAME_X, return_std=True)
        for frame in (mean, std, framed.predict_quantiles(FRAME_X, 0.5)):
            assert list(frame.columns) == ["left", "right", "up"]
            assert list(frame.index) == list(range(100, 140))
        np.testing.assert_array_equal(framed.predict(FRAME_X).to_numpy(), fitted.predict(X))

    def test_a_series_is_one_output(self) -> None:
        assert regressor(epochs=1).fit(FRAME_X, FRAME_Y["left"].set_axis(FRAME_X.index)).predict(FRAME_X).shape == (40,)

    def test_columns_of_outputs_are_found_by_name(self, framed: MultiOutputGPRegressor) -> None:
        swapped = framed.log_density(FRAME_X, FRAME_Y[["up", "left", "right"]])
        np.testing.assert_array_equal(swapped, framed.log_density(FRAME_X, FRAME_Y))

    def test_output_can_be_set(self, fitted: MultiOutputGPRegressor) -> None:
        changed = clone(fitted).set_output(transform="pandas").fit(X, Y)
        assert list(changed.predict(X).columns) == ["y0", "y1", "y2"]
        assert isinstance(changed.set_output(transform="default").predict(X), np.ndarray)
        assert isinstance(changed.set_output().predict(X), np.ndarray)
        with pytest.raises(UnknownNameError, match="transform must be one of default, pandas, polars; got 'panda'"):
            changed.set_output(transform="panda")  # type: ignore[arg-type]

    def test_polars_in_and_out(self, fitted: MultiOutputGPRegressor) -> None:
        polars = pytest.importorskip("polars")
        x, y = polars.DataFrame(X, schema=["time", "load"]), polars.DataFrame(Y, schema=["left", "right", "up"])
        some = regressor().fit(x, y)
        mean = some.predict(x)
        assert isinstance(mean, polars.DataFrame)
        assert mean.columns == some.output_names_ == ["left", "right", "up"]
        assert list(some.feature_names_in_) == ["time", "load"]
        np.testing.assert_array_equal(mean.to_numpy(), fitted.predict(X))
        np.testing.assert_array_equal(some.log_density(x, y), fitted.log_density(X, Y))
        gplvm = MultiOutputGPLVM(2, **SMALL_LVM).fit(y)
        assert gplvm.impute(y).columns == gplvm.sample(3).columns == ["left", "right", "up"]


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, 60)
    phases = np.linspace(0, np.pi, 6)
    noise = np.random.default_rng(2).normal(0, 0.05, (60, 6))
    return 10 * (np.sin(angle[:, None] + phases) + noise) + 3


@pytest.fixture(scope="module")
def gplvm(table: np.ndarray) -> MultiOutputGPLVM:
    settings = SMALL_LVM | {
        "model": "mogp",
        "num_hidden": None,
        "epochs": 120,
        "num_inducing": 15,
        "inference_steps": 150,
        "num_samples": 50,
    }
    return MultiOutputGPLVM(2, **settings).fit(table)


class TestLatent:
    """The latent-variable model."""

    def test_there_and_back(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        positions = gplvm.transform(table)
        assert positions.shape == (60, 2)
        assert np.abs(gplvm.inverse_transform(positions) - table).mean() < 0.2 * table.std()

    def test_positions_hardly_depend_on_company(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        scale = gplvm.fitted_.infer(table[:9]).marginals().var.sqrt().detach().numpy()
        gap = np.abs(gplvm.transform(table)[:9] - gplvm.transform(table[:9]))
        assert np.median(gap / scale) < 1

    def test_missing_values_are_filled_in_and_the_others_kept(self, gplvm: Any, table: np.ndarray) -> None:
        holes = table.copy()
        lost = np.random.default_rng(0).random(table.shape) < 0.2
        holes[lost] = np.nan
        filled = gplvm.impute(holes)
        np.testing.assert_array_equal(filled[~lost], table[~lost])
        assert np.abs(filled - table)[lost].mean() < 0.5 * np.abs(table - table.mean(0))[lost].mean()

    def test_new_rows_look_like_the_old(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        drawn = gplvm.sample(500, random_state=1)
        assert drawn.shape == (500, 6)
        assert np.all(np.abs(drawn.mean(0) - table.mean(0)) < table.std(0))
        np.testing.assert_array_equal(drawn, gplvm.sample(500, random_state=1))

    def test_densities_are_in_original_units(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        holes = table.copy()
        holes[0, 1:] = np.nan
        scale = np.log(gplvm.fitted_.scaling.outputs.scale)
        expected = gplvm.fitted_.log_evidence_bound(holes, 50)
        np.testing.assert_allclose(gplvm.log_density(holes)[1:], expected[1:] - scale.sum(), rtol=1e-9)
        assert gplvm.log_density(holes)[0] == pytest.approx(expected[0] - scale[0])
        assert gplvm.score(holes) == pytest.approx(gplvm.log_density(holes).mean())

    def test_frames_and_names(self, table: np.ndarray) -> None:
        names = [f"sensor{number}" for number in range(6)]
        frame = pd.DataFrame(table, columns=names, index=range(7, 67))
        gplvm = MultiOutputGPLVM(2, **SMALL_LVM).fit(frame)
        assert isinstance(gplvm.transform(frame), np.ndarray)
        assert list(gplvm.get_feature_names_out()) == ["multioutputgplvm0", "multioutputgplvm1"]
        positions = gplvm.set_output(transform="pandas").transform(frame)
        assert list(positions.columns) == list(gplvm.get_feature_names_out())
        for out in (gplvm.impute(frame), gplvm.inverse_transform(positions)):
            assert list(out.columns) == names
            assert list(out.index) == list(frame.index)
        assert list(gplvm.sample(2).columns) == names

    def test_tensors(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        np.testing.assert_array_equal(gplvm.transform(torch.as_tensor(table)), gplvm.transform(table))


class TestFiles:
    """One file for an estimator."""

    def test_a_regressor_comes_back(self, framed: MultiOutputGPRegressor, tmp_path: Path) -> None:
        framed.save(tmp_path / "m")
        loaded = MultiOutputGPRegressor.load(tmp_path / "m")
        assert loaded.get_params() == framed.get_params()
        for one, two in zip(*(each.predict(FRAME_X, return_std=True) for each in (framed, loaded)), strict=True):
            pd.testing.assert_frame_equal(one, two, check_exact=True)
        np.testing.assert_array_equal(framed.log_density(FRAME_X, FRAME_Y), loaded.log_density(FRAME_X, FRAME_Y))
        np.testing.assert_array_equal(framed.sample_y(FRAME_X, 3, joint=True), loaded.sample_y(FRAME_X, 3, joint=True))
        np.testing.assert_array_equal(mogul.load(tmp_path / "m").predict(X).mean, framed.fitted_.predict(X).mean)
        with pytest.raises(ValueError, match="feature names"):
            loaded.predict(FRAME_X.rename(columns={"time": "clock"}))
        first, second = (
            clone(framed).fit(FRAME_X, FRAME_Y).partial_fit(FRAME_X, FRAME_Y),
            loaded.partial_fit(FRAME_X, FRAME_Y),
        )
        np.testing.assert_array_equal(first.predict(FRAME_X), second.predict(FRAME_X))

    def test_one_output_keeps_its_axis(self, single: MultiOutputGPRegressor, tmp_path: Path) -> None:
        single.save(tmp_path / "m")
        np.testing.assert_array_equal(MultiOutputGPRegressor.load(tmp_path / "m").predict(X), single.predict(X))

    def test_latent_variables_come_back(self, tmp_path: Path) -> None:
        gplvm = MultiOutputGPLVM(2, **SMALL_LVM).fit(Y)
        gplvm.save(tmp_path / "m")
        loaded = MultiOutputGPLVM.load(tmp_path / "m")
        np.testing.assert_array_equal(loaded.transform(Y), gplvm.transform(Y))
        np.testing.assert_array_equal(loaded.log_density(Y), gplvm.log_density(Y))
        with pytest.raises(FileError, match=r"must hold a MultiOutputGPRegressor; .* MultiOutputGPLVM. Use"):
            MultiOutputGPRegressor.load(tmp_path / "m")

    def test_a_model_is_no_estimator(self, fitted: MultiOutputGPRegressor, tmp_path: Path) -> None:
        fitted.fitted_.save(tmp_path / "m")
        with pytest.raises(FileError, match=r"must hold a MultiOutputGPRegressor; .* without an estimator. Read it"):
            MultiOutputGPRegressor.load(tmp_path / "m")

    def test_a_file_cannot_set_what_it_likes(self, fitted: MultiOutputGPRegressor, tmp_path: Path) -> None:
        extra = {"estimator": "MultiOutputGPRegressor", "params": {}, "state": {"predict": 3}}
        save(fitted.fitted_, tmp_path / "m", extra)
        with pytest.raises(FileError, match=r"must describe its MultiOutputGPRegressor; .* Fit again"):
            MultiOutputGPRegressor.load(tmp_path / "m")
        save(fitted.fitted_, tmp_path / "m", extra | {"params": {"colour": 1}})
        with pytest.raises(FileError, match=r"must describe its MultiOutputGPRegressor; .*colour.* Fit again"):
            MultiOutputGPRegressor.load(tmp_path / "m")

    def test_what_cannot_be_stored_is_said(self, tmp_path: Path) -> None:
        some = regressor(epochs=1, model="n-mogp", nonlinearity=Quadrature(torch.sin)).fit(X, Y)
        with pytest.raises(FileError, match="nonlinearity must be made of numbers"):
            some.save(tmp_path / "m")
        assert not list(tmp_path.iterdir())


NAN = float("nan")
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], type[MogulError], str]] = {
    "no such model": ({"model": "gp"}, {}, UnknownNameError, "model must be one of .*; got 'gp'. Did you mean"),
    "latent": (
        {"model": "mogp-lvm"},
        {},
        ConfigError,
        "observed inputs; mogp-lvm has latent ones. Use MultiOutputGPLVM",
    ),
    "no such preset": ({"preset": "x"}, {}, UnknownNameError, "preset must be one of default, paper; got 'x'"),
    "preset and config": ({"preset": "paper", "config": TrainingConfig()}, {}, ConfigError, "not both; .* Drop one"),
    "odd config": ({"config": {"epochs": 3}}, {}, ConfigError, "config must be a mogul.TrainingConfig; got .* Leave"),
    "no such option": ({"options": {"x": 1}}, {}, UnknownNameError, "option must be one of .*; got 'x'"),
    "odd options": ({"options": 3}, {}, ConfigError, "options must be a dict .*; got 3. Try"),
    "an option twice": ({"options": {"num_inducing": 1}}, {}, ConfigError, "each option once; got num_inducing twice"),
    "no epochs": ({"epochs": 0}, {}, ConfigError, "epochs must be at least 1; got 0"),
    "half an epoch": ({"epochs": 0.5}, {}, ConfigError, "epochs must be a whole number; got 0.5"),
    "negative seed": ({"random_state": -1}, {}, ConfigError, "random_state must be at least 0; got -1"),
    "few groups": (
        {},
        {"groups": np.arange(3)},
        ShapeError,
        r"groups must be \(40,\), a label .*; got \(3,\). Give one",
    ),
    "one group": ({}, {"groups": np.ones(40)}, DataError, "two groups must be there, .*; got 1. Leave groups out"),
    "a row without a group": (
        {},
        {"groups": [None, *"a" * 39]},
        DataError,
        "must have a group; row 0 has None. Give it a label",
    ),
    "rows and groups": (
        {},
        {"validation": (X, Y), "groups": np.arange(40)},
        ConfigError,
        "rows to validate on, or groups .*; got both. Leave",
    ),
    "other outputs to validate on": (
        {},
        {"validation": (X, Y[:, :2])},
        ShapeError,
        "outputs like Y, 3 columns; got 2. The columns are y0, y1, y2",
    ),
    "nothing to validate on": ({}, {"validation": (X, NAN * Y)}, DataError, "some known outputs; all are NaN. Give"),
    "validation by name": (
        {},
        {"validation": "some"},
        ConfigError,
        r"must be a share .* a pair \(X, Y\).*; got str. Try",
    ),
    "no such noise": ({"noise": "loud"}, {}, UnknownNameError, "noise must be one of auto, constant, .*; got 'loud'"),
    "noise twice": ({"noise": "gp", "options": {"noise": "net"}}, {}, ConfigError, "each option once; got noise twice"),
    "too few rows to choose by": (
        {"noise": "auto"},
        {"validation": 0.001},
        ConfigError,
        "must leave rows on both sides; 0.001 of 40 rows is 0",
    ),
    "validation 1": ({}, {"validation": 1.0}, ConfigError, "must be a share of the rows, .*; got 1.0. Try 0.1"),
    "half weights": ({}, {"sample_weight": np.full(40, 0.5)}, ConfigError, "must be whole numbers, .*; got 0.5. Round"),
    "negative weights": (
        {},
        {"sample_weight": -np.ones(40)},
        ConfigError,
        "must be whole numbers, .*; got -1.0. Round",
    ),
    "NaN weights": ({}, {"sample_weight": np.full(40, NAN)}, ConfigError, "must be whole numbers, .*; got nan. Round"),
    "no weights": ({}, {"sample_weight": np.zeros(40)}, ConfigError, "must leave some rows; all .* zero. Leave"),
    "few weights": ({}, {"sample_weight": np.ones(3)}, ShapeError, r"must be \(40,\), .*; got \(3,\). Give one"),
}


@pytest.mark.parametrize(("settings", "extra", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_offered_is_refused(settings: Any, extra: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        regressor(**settings).fit(X, Y, **extra)


def test_bad_outputs_are_refused(fitted: MultiOutputGPRegressor) -> None:
    with pytest.raises(ConfigError, match=r"return_std or return_cov; got both. The diagonal"):
        fitted.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ShapeError, match=r"Y must have 3 columns, as in training; got 2. The columns are y0, y1, y2"):
        fitted.partial_fit(X, Y[:, :2])
    with pytest.raises(DataError, match=r"'y1' is NaN in all 40 rows. Drop"):
        regressor().fit(X, np.where(np.arange(3) == 1, NAN, Y))
    with pytest.raises(ShapeError, match="different lengths"):
        regressor().fit(X, [[1.0], [2.0, 3.0]])
    with pytest.raises(ShapeError, match="the same number of rows; got 40 and 39"):
        regressor().fit(X, Y[:39])


def test_the_score_goes_by_the_names_of_outputs():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.standard_normal((40, 2)), columns=["u", "v"])
    y = pd.DataFrame({"a": x["u"] + 1, "b": -3 * x["v"]})
    regressor = MultiOutputGPRegressor("mogp", epochs=2, num_starts=1, num_inducing=5).fit(x, y)
    assert regressor.score(x, y[["b", "a"]]) == pytest.approx(regressor.score(x, y))
