"""The check of a fit: each row predicted from the others, rows held out, or a second fit."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import mogul
from mogul.core.check import Unseen, output_scores
from mogul.data import Batch
from mogul.fitted.history import TrainedRows
from mogul.training import FitRequest
from mogul.training.check import _leave_one_out
from mogul.training.defaults import FEW_ROWS
from mogul.training.exact_start import ExactStart

STEPS = mogul.TrainingConfig(epochs=3, num_starts=1)


def wave(num_rows: int, seed: int = 0, noise: float = 0.1) -> mogul.Dataset:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, (num_rows, 2))
    y = np.stack([np.sin(3 * x[:, 0]), x.sum(1)], axis=1) + noise * rng.standard_normal((num_rows, 2))
    return mogul.Dataset(x, y)


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, mean = rng.standard_normal(20), rng.standard_normal(20)
    y[3] = np.nan
    known = ~np.isnan(y)
    scores = output_scores("y", y, mean, np.where(known, 0.98, 0.5))
    assert scores.rmse == pytest.approx(root_mean_squared_error(y[known], mean[known]))
    assert scores.r2 == pytest.approx(r2_score(y[known], mean[known]))
    assert (scores.num_known, scores.in_band) == (19, 0.0)


def test_rows_left_out_equal_fits_without_them():
    """Against scikit-learn's GP with the same hyperparameters, fitted once without each row."""
    data = wave(25)
    batch = Batch.of(torch.as_tensor(data.x), torch.as_tensor(data.y - data.y.mean(0)))
    exact = ExactStart.of(batch, 0, plane=False, robust=False)
    residual, var = _leave_one_out(exact)
    for output, gp in enumerate(exact.gps):
        kernel = ConstantKernel(gp.outputscale) * RBF(gp.lengthscale)
        by_hand = GaussianProcessRegressor(kernel, alpha=gp.noise_var, optimizer=None)
        for row in (0, 7, 24):
            rest = np.arange(25) != row
            by_hand.fit(data.x[rest], batch.y.numpy()[rest, output])
            mean, std = by_hand.predict(data.x[[row]], return_std=True)
            assert batch.y[row, output] - residual[row, output] == pytest.approx(mean[0], abs=1e-8)
            assert var[row, output] == pytest.approx(std[0] ** 2, abs=1e-8)


def test_copies_of_a_row_are_left_out_with_it():
    """Noise alone cannot be predicted, however often each row is repeated."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(30, 1)), rng.standard_normal((30, 1))
    regressor = mogul.MultiOutputGPRegressor("mogp").fit(x, y, sample_weight=np.full(30, 3))
    check = regressor.fitted_.check
    assert check.num_rows == 90
    assert check.model[0].r2 < 0.1
    assert check.least_squares[0].r2 < 0.1


def test_the_check_foretells_errors_and_coverage_of_new_rows():
    train, test = wave(150), wave(2000, seed=1)
    fitted = mogul.fit(train.x, train.y)
    prediction = fitted.predict(test.x)
    for place, own in enumerate(fitted.check.model):
        assert own.rmse == pytest.approx(root_mean_squared_error(test.y[:, place], prediction.mean[:, place]), rel=0.2)
        assert own.in_band == pytest.approx(0.95, abs=0.05)
    line = cross_val_predict(LinearRegression(), train.x, train.y, cv=LeaveOneOut())
    for place, own in enumerate(fitted.check.least_squares):
        assert own.rmse == pytest.approx(root_mean_squared_error(train.y[:, place], line[:, place]), rel=0.03)
    for place, own in enumerate(fitted.check.mean):
        assert own.rmse == pytest.approx(train.y[:, place].std(), rel=0.03)
    assert fitted.check.verdict == [
        "Smaller errors than least squares for y0.",
        "Least squares is as good for y1: a line would do.",
    ]


def test_a_check_changes_nothing_about_few_rows():
    train = wave(40)
    fitted, unchecked = (mogul.fit(train.x, train.y, check=check) for check in (True, False))
    assert unchecked.check is None
    assert np.array_equal(fitted.predict(train.x).mean, unchecked.predict(train.x).mean)
    assert fitted.unseen is None


def test_the_estimator_has_the_same_check():
    train = wave(40)
    regressor = mogul.MultiOutputGPRegressor().fit(train.x, train.y)
    assert regressor.fitted_.check == mogul.fit(train.x, train.y).check
    assert mogul.MultiOutputGPRegressor(check=False).fit(train.x, train.y).fitted_.check is None


def test_many_rows_spare_some_for_the_check():
    data = wave(FEW_ROWS + 200)
    fitted = FitRequest(model="mogp", check=True, config=STEPS.within(1), options={"num_inducing": 8}).fit(data)
    assert (fitted.check.how, fitted.check.num_rows) == ("held out", 200)
    assert fitted.history.num_rows == FEW_ROWS
    whole = FitRequest(model="mogp", config=STEPS.within(1), options={"num_inducing": 8}).fit(data)
    assert (whole.check, whole.history.num_rows) == (None, FEW_ROWS + 200)


def test_few_rows_trained_by_steps_are_checked_by_a_shorter_fit():
    fitted = mogul.fit(wave(60), model="n-mogp", epochs=6)
    assert (fitted.check.how, fitted.check.num_rows) == ("shorter", 12)
    assert (fitted.history.num_rows, fitted.history.num_epochs) == (60, 6)
    unchecked = mogul.fit(wave(60), model="n-mogp", epochs=6, check=False)
    assert np.array_equal(fitted.predict([[0.0, 0.0]]).mean, unchecked.predict([[0.0, 0.0]]).mean)


def test_validation_rows_are_checked_before_they_are_trained_on():
    data, groups = wave(60), np.repeat(np.arange(12), 5)
    fitted = mogul.fit(data, model="n-mogp", groups=groups, epochs=3)
    assert (fitted.check.how, fitted.check.num_rows) == ("validation", 10)
    assert fitted.history.num_rows == 60


def test_members_of_a_mixture_are_checked_at_the_rows_that_all_have():
    first = Unseen("left out", np.arange(4), np.arange(8.0).reshape(4, 2), np.full((4, 2), 0.2))
    second = Unseen("shorter", np.array([3, 1]), np.zeros((2, 2)), np.full((2, 2), 0.4))
    pooled = Unseen.pooled([first, second])
    assert (pooled.how, pooled.places.tolist()) == ("shorter", [1, 3])
    np.testing.assert_allclose(pooled.mean, [[1.0, 1.5], [3.0, 3.5]])
    np.testing.assert_allclose(pooled.pit, 0.3)
    assert Unseen.pooled([first, None]) is None


def test_transformed_outputs_are_checked_in_their_own_units():
    data = wave(80)
    positive = mogul.Dataset(data.x, 100 * np.exp(data.y))
    fitted = mogul.fit(positive, model="mogp", transform="log")
    residual = positive.y - fitted.predict(positive.x).mean
    for own, column in zip(fitted.check.model, residual.T, strict=True):
        assert np.sqrt(np.mean(column**2)) < own.rmse < 3 * np.sqrt(np.mean(column**2))


def test_a_model_is_five_lines():
    data = wave(40)
    lines = repr(mogul.fit(data)).splitlines()
    assert len(lines) == 5
    assert lines[1:3] == ["Trained on 40 rows, exact GPs", "Checked on 40 rows, each predicted from the others"]
    assert re.fullmatch(r"R² y0 [01]\.\d\d, y1 [01]\.\d\d; 95 % bands hold \d+ %, \d+ % of the values", lines[3])
    assert re.fullmatch(r"RMSE [\d.]+, [\d.]+; of least squares [\d.]+, [\d.]+; of the mean [\d.]+, [\d.]+", lines[4])
    assert "Not checked" in str(mogul.fit(data, check=False))


def test_rows_are_known_again(tmp_path):
    data = wave(30)
    data.y[4, 1] = np.nan
    mogul.fit(data, model="mogp").save(tmp_path / "m.mogul")
    trained = mogul.load(tmp_path / "m.mogul").trained_rows
    assert trained.count(data) == 30
    assert trained.count(wave(30, seed=1)) == 0
    many = wave(5000)
    assert TrainedRows.of(many).count(many.rows(np.arange(2500))) == pytest.approx(2500, abs=300)


def test_a_quick_fit_is_one_of_some_rows_and_says_so(tmp_path):
    data = wave(400)
    fitted = mogul.fit(data, quick=True)
    assert (fitted.history.num_rows, fitted.history.quick) == (200, True)
    assert (fitted.check.how, fitted.check.num_rows) == ("held out", 200)
    assert fitted.check.model[0].r2 > 0.9
    assert "a quick first answer" in repr(fitted)
    fitted.save(tmp_path / "m.mogul")
    assert mogul.load(tmp_path / "m.mogul").history.quick
    with pytest.raises(mogul.errors.ConfigError, match="quick has its own model"):
        mogul.fit(data, model="mogp", quick=True)


def test_a_model_that_departs_from_exact_gps_is_checked_itself() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (120, 1))
    y = np.sin(4 * x) + 0.05 * rng.standard_normal(x.shape)
    few, many = (mogul.fit(x, y, model="mogp", noise="constant", num_inducing=number).check for number in (5, 100))
    assert few is not None
    assert many is not None
    assert (few.how, many.how) == ("shorter", "left out")
    assert few.model[0].r2 is not None
    assert few.model[0].r2 < 0.5


def test_a_quick_fit_of_few_rows_takes_them_all() -> None:
    x = np.linspace(-1, 1, 40)[:, None]
    fitted = mogul.fit(x, np.sin(3 * x), quick=True)
    assert fitted.check is not None
    assert (fitted.history.num_rows, fitted.check.num_rows) == (40, 40)


def test_many_outputs_are_checked_by_a_second_fit() -> None:
    """With more outputs than latent GPs no exact GP predicts a row from the others."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2))
    y = x @ rng.standard_normal((2, 26)) + 0.1 * rng.standard_normal((40, 26))
    fitted = mogul.fit(x, y, epochs=6, verbose=0)
    assert fitted.check is not None
    assert (fitted.check.how, fitted.check.num_rows, len(fitted.check.model)) == ("shorter", 8, 26)
    assert np.mean([each.r2 for each in fitted.check.model]) > 0.8
    assert mogul.fit(x, y, epochs=6, verbose=0, check=False).check is None


def test_rows_in_time_are_told_to_be_between_others(tmp_path) -> None:
    frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=40), "a": np.random.default_rng(0).random(40)})
    fitted = mogul.fit(frame, np.arange(40.0), verbose=0)
    assert fitted.check.in_order
    assert "rows between others" in fitted.check.lines()[-1]
    fitted.save(tmp_path / "m.mogul")
    assert mogul.load(tmp_path / "m.mogul").check == fitted.check
    assert not mogul.fit(frame[["a"]], np.random.default_rng(1).random(40), verbose=0).check.in_order
