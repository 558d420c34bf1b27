"""A fitted model: data in, predictions out, both in the user's units."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from mogul.data import Dataset, Scaling, Standardiser
from mogul.errors import DataError, ShapeError
from mogul.fitted import fitted as fitted_module
from mogul.metrics import Scores, score
from mogul.prediction import predict
from mogul.training import Fitted, TrainingConfig, fit

NEW = np.array([[10.5, -1.0], [12.0, 0.5], [14.0, 2.0]])


def data(num_rows: int = 25, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(10, 13, num_rows), rng.normal(size=num_rows)])
    y = np.column_stack([100 * np.sin(x[:, 0]), 5 + 1e-3 * x[:, 1], x.sum(1)]) * rng.normal(1, 0.05, (num_rows, 3))
    return Dataset(pd.DataFrame(x, columns=["time", "load"]), y)


def train(training: Dataset, name: str = "n-mogp") -> Fitted:
    return fit(
        training,
        model=name,
        config=TrainingConfig(epochs=12, num_starts=1, batch_size=10),
        noise="constant",
        num_inducing=8,
    )


@pytest.fixture(scope="module", params=["mogp", "n-mogp"])
def fitted(request: pytest.FixtureRequest) -> Fitted:
    return train(data(), request.param)


class TestPredict:
    """Predictions at new inputs."""

    def test_shapes_are_rows_by_outputs_and_draws(self, fitted: Fitted):
        prediction = fitted.predict(NEW)
        assert prediction.mean.shape == prediction.var.shape == (3, 3)
        assert prediction.component_mean.shape == prediction.component_var.shape == (100, 3, 3)
        assert fitted.predict(NEW[:1], num_samples=7).component_mean.shape == (7, 1, 3)

    def test_densities_are_joint_over_what_is_there(self, fitted: Fitted):
        y = data().y[:3].copy()
        y[0], y[1, 0] = np.nan, np.nan
        each = fitted.log_density(NEW, y)
        np.testing.assert_array_equal(each, fitted.predict(NEW).log_density(y))
        assert each[0] == 0.0
        frames = pd.DataFrame(NEW[:, ::-1], columns=["load", "time"]), pd.DataFrame(y)
        np.testing.assert_array_equal(fitted.log_density(*frames), each)
        with pytest.raises(ShapeError, match="Y must have 3 columns, as in training; got 2"):
            fitted.log_density(NEW, y[:, :2])

    def test_a_density_in_original_units_integrates_to_one(self):
        rows = data()
        one = fit(rows.x, rows.y[:, 0], model="mogp", noise="constant")
        prediction = one.predict(NEW[:1])
        (mean,), (std,) = prediction.mean[0:1, 0], prediction.std[0:1, 0]
        y = np.linspace(mean - 8 * std, mean + 8 * std, 801)
        density = np.exp(one.log_density(np.repeat(NEW[:1], len(y), axis=0), y))
        assert np.trapezoid(density, y) == pytest.approx(1.0, abs=0.02)

    def test_inputs_are_standardised_and_outputs_brought_back(self, fitted: Fitted):
        x = torch.as_tensor((NEW - data().x.mean(0)) / data().x.std(0))
        inner = predict(fitted.model, x, 5, torch.Generator().manual_seed(9))
        outer = fitted.predict(NEW, num_samples=5, seed=9)
        scale = data().y.std(0)
        np.testing.assert_allclose(outer.mean, inner.mean * scale + data().y.mean(0), rtol=1e-12)
        np.testing.assert_allclose(outer.var, inner.var * scale**2, rtol=1e-12)
        np.testing.assert_allclose(outer.component_var, inner.component_var * scale**2, rtol=1e-12)

    @pytest.mark.parametrize(
        "convert",
        [np.ndarray.tolist, torch.as_tensor, lambda x: pd.DataFrame(x, columns=["time", "load"]), np.asfortranarray],
        ids=["lists", "tensor", "frame", "fortran"],
    )
    def test_every_container_gives_the_same(self, fitted: Fitted, convert):
        np.testing.assert_array_equal(fitted.predict(convert(NEW)).component_mean, fitted.predict(NEW).component_mean)

    def test_whole_numbers_are_allowed(self, fitted: Fitted):
        whole = np.array([[11, 1], [12, 0]])
        np.testing.assert_array_equal(fitted.predict(whole).mean, fitted.predict(whole.astype(float)).mean)

    def test_draws_are_decided_by_the_seed(self, fitted: Fitted):
        first, again, other = (fitted.predict(NEW, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.component_mean, again.component_mean)
        assert not np.array_equal(first.component_mean, other.component_mean)
        np.testing.assert_array_equal(first.mean, other.mean)

    def test_it_leaves_no_gradients_behind(self, fitted: Fitted):
        before = [None if p.grad is None else p.grad.clone() for p in fitted.model.parameters()]
        fitted.predict(NEW)
        for old, parameter in zip(before, fitted.model.parameters(), strict=True):
            assert (old is None and parameter.grad is None) or torch.equal(old, parameter.grad)

    def test_columns_of_a_frame_are_found_by_name(self, fitted: Fitted):
        frame = pd.DataFrame(NEW, columns=["time", "load"])
        np.testing.assert_array_equal(fitted.predict(frame[["load", "time"]]).mean, fitted.predict(frame).mean)


@pytest.mark.parametrize("name", ["mogp", "n-mogp"])
def test_the_units_of_the_data_do_not_matter(name):
    training = data()
    shift, scale = np.array([5.0, -20.0, 0.0]), np.array([0.25, 1024.0, 2.0])
    other = Dataset(training.x * [8.0, 0.5] - [3.0, 7.0], training.y * scale + shift)
    plain = train(training, name).predict(NEW)
    moved = train(other, name).predict(NEW * [8.0, 0.5] - [3.0, 7.0])
    np.testing.assert_allclose(moved.mean, plain.mean * scale + shift, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(moved.var, plain.var * scale**2, rtol=1e-4)


class TestSampleFunctions:
    """Whole functions, without noise."""

    def test_shape_is_draws_by_rows_by_outputs(self, fitted: Fitted):
        assert fitted.sample_functions(NEW, 4).shape == (4, 3, 3)

    def test_they_are_in_original_units_around_the_mean(self, fitted: Fitted):
        draws, prediction = fitted.sample_functions(NEW, 20_000), fitted.predict(NEW)
        assert np.all(np.abs(draws.mean(0) - prediction.mean) < 4.5 * draws.std(0) / np.sqrt(20_000))

    def test_they_have_the_variance_of_the_prediction_less_the_noise(self, fitted: Fitted):
        draws, prediction = fitted.sample_functions(NEW, 20_000), fitted.predict(NEW)
        with torch.no_grad():
            noise = fitted.model.noise_var(torch.zeros(1, 2), torch.Generator()).numpy()
        noise = noise * fitted.scaling.outputs.scale**2
        np.testing.assert_allclose(draws.var(0), prediction.var - noise, rtol=0.08)

    def test_they_are_smooth(self, fitted: Fitted):
        line = np.column_stack([np.linspace(11.0, 11.01, 5), np.zeros(5)])
        draws = fitted.sample_functions(line, 20)
        assert np.all(np.abs(np.diff(draws, axis=1)) < 0.05 * fitted.scaling.outputs.scale)

    def test_they_are_decided_by_the_seed(self, fitted: Fitted):
        first, again, other = (fitted.sample_functions(NEW, 3, seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_a_fine_grid_in_float32_is_no_reason_to_warn(self):
        x = np.linspace(-3, 3, 200)[:, None]
        config = TrainingConfig(epochs=20, num_starts=1, precision="float32")
        single = fit(Dataset(x, np.sin(x)), model="n-mogp", config=config, noise="constant", num_inducing=20)
        # A fine grid's covariance is singular to rounding: that is no fault of the model, and not worth a warning.
        assert np.isfinite(single.sample_functions(np.linspace(-4, 4, 300)[:, None], 5)).all()


class TestEvaluate:
    """Scores on test data."""

    @pytest.fixture
    def test_data(self) -> Dataset:
        return data(12, seed=1)

    def test_it_is_the_score_of_the_prediction(self, fitted: Fitted, test_data: Dataset):
        expected = score([(fitted.predict(test_data.x, num_samples=50, seed=4), test_data.y)])
        assert fitted.evaluate(test_data, num_samples=50, seed=4) == expected

    def test_for_the_papers_estimator_it_draws_as_often_as_the_paper(self, fitted: Fitted, test_data: Dataset):
        assert fitted.evaluate(test_data) == fitted.evaluate(test_data, num_samples=5 * 50)
        assert fitted.evaluate(test_data).ll_nested is None
        paper = fitted.evaluate(test_data, nested=True)
        assert paper == fitted.evaluate(test_data, num_samples=25 * 50, nested=True)
        assert paper.ll_nested == pytest.approx(paper.ll, abs=0.5)

    def test_units_change_the_log_likelihood_by_the_log_of_the_scales(self, fitted: Fitted, test_data: Dataset):
        original, standard = (
            fitted.evaluate(test_data, standardised=flag, num_samples=50, nested=True) for flag in (False, True)
        )
        gain = np.log(data().y.std(0)).sum()
        assert standard.ll == pytest.approx(original.ll + gain, rel=1e-9)
        assert standard.ll_nested == pytest.approx(original.ll_nested + gain, rel=1e-9)
        assert standard.coverage == original.coverage

    def test_errors_are_in_the_units_asked_for(self, fitted: Fitted, test_data: Dataset):
        original, standard = (fitted.evaluate(test_data, standardised=flag, num_samples=50) for flag in (False, True))
        errors = np.sqrt(np.square(test_data.y - fitted.predict(test_data.x).mean).mean(0))
        assert original.mrmse == pytest.approx(errors.mean(), rel=1e-12)
        assert standard.mrmse == pytest.approx((errors / data().y.std(0)).mean(), rel=1e-12)
        assert standard.crps != pytest.approx(original.crps)

    def test_missing_outputs_are_left_out(self, fitted: Fitted, test_data: Dataset):
        y = test_data.y.copy()
        y[0, 0] = y[3] = np.nan
        holes = fitted.evaluate(Dataset(test_data.x, y), num_samples=50)
        errors = np.square(y - fitted.predict(test_data.x).mean)
        assert holes.mrmse == pytest.approx(np.sqrt(np.nanmean(errors, axis=0)).mean(), rel=1e-12)

    @pytest.mark.parametrize("rows_per_part", [1, 4, 11])
    def test_in_parts_the_exact_scores_stay_and_the_drawn_ones_hardly_move(
        self, fitted: Fitted, test_data: Dataset, rows_per_part, monkeypatch: pytest.MonkeyPatch
    ):
        whole = fitted.evaluate(test_data, standardised=True, num_samples=400)
        sizes: list[int] = []

        def counted(parts: Any, nested: bool) -> Scores:
            listed = list(parts)
            sizes.extend(len(y) for _, y in listed)
            return score(listed, nested=nested)

        monkeypatch.setattr(fitted_module, "score", counted)
        monkeypatch.setattr(fitted_module, "_PART", rows_per_part * 400 * 3)
        parts = fitted.evaluate(test_data, standardised=True, num_samples=400)
        assert max(sizes) == rows_per_part
        assert sum(sizes) == 12
        assert parts.mrmse == pytest.approx(whole.mrmse, rel=1e-12)
        assert parts.ll == pytest.approx(whole.ll, abs=0.2)
        assert parts.crps == pytest.approx(whole.crps, rel=0.05)

    def test_it_uses_the_scaling_of_the_training_data(self, fitted: Fitted, test_data: Dataset):
        shifted = replace(
            fitted, scaling=Scaling(fitted.scaling.inputs, Standardiser(fitted.scaling.outputs.shift, np.ones(3)))
        )
        before, after = (each.evaluate(test_data, standardised=True, num_samples=25) for each in (fitted, shifted))
        assert before.mrmse != pytest.approx(after.mrmse)


def test_evaluation_finds_columns_by_name_as_prediction_does():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["time", "load"])
    outputs = pd.DataFrame({"a": np.sin(frame.time), "b": 3 * frame.load})
    config = TrainingConfig(epochs=3, num_starts=1)
    fitted = fit(Dataset(frame, outputs), model="mogp", config=config, noise="constant", num_inducing=6)
    straight = fitted.evaluate(Dataset(frame, outputs), num_samples=50)
    swapped = fitted.evaluate(Dataset(frame[["load", "time"]], outputs[["b", "a"]]), num_samples=50)
    assert swapped == straight
    with pytest.raises(DataError, match="'time' is not among"):
        fitted.evaluate(Dataset(frame.rename(columns={"time": "clock"}), outputs), num_samples=50)


def test_whole_numbers_may_name_columns():
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(10, 2)))
    fitted = fit(
        Dataset(x, x), model="mogp", config=TrainingConfig(epochs=1, num_starts=1), noise="constant", num_inducing=4
    )
    np.testing.assert_array_equal(fitted.predict(x[[1, 0]]).mean, fitted.predict(x).mean)


def test_rows_in_parts_are_the_rows_at_once(monkeypatch: pytest.MonkeyPatch):
    x = np.random.default_rng(0).normal(size=(10, 2))
    fitted = fit(
        Dataset(x, x),
        model="dgp",
        config=TrainingConfig(epochs=1, num_starts=1),
        noise="constant",
        num_inducing=4,
        num_top_inducing=3,
    )
    whole = fitted.predict(x, num_samples=4000)
    monkeypatch.setattr("mogul.prediction.prediction._NUMBERS_AT_ONCE", 1)
    parts = fitted.predict(x, num_samples=4000)
    assert parts.component_mean.shape == whole.component_mean.shape == (4000, 10, 2)
    np.testing.assert_allclose(parts.mean, whole.mean, atol=0.1)
    np.testing.assert_allclose(parts.std, whole.std, rtol=0.1)
