"""Autoregressive outputs: predictions of y = A z against integration by brute force."""

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from mogul import MultiOutputGPRegressor, fit, load
from mogul.core.transforms import Chain
from mogul.errors import ConfigError, FileError
from mogul.fitted.fitted import Fitted
from mogul.training import mean_choice
from mogul.training.exact_start import ExactStart

QUICK: dict[str, Any] = {"mean": "linear", "noise": "constant", "kernel": "rbf"}  # of the default, what takes time


def _data(num_rows: int, seed: int = 0, *, heavy: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (num_rows, 1))
    shared = 0.4 * rng.standard_normal((num_rows, 1))
    own = rng.standard_t(3, (num_rows, 3)) if heavy else rng.standard_normal((num_rows, 3))
    y = np.hstack([np.sin(x) + shared, x + 2 * shared, 10 - x**2 - shared])
    return x, y + 0.1 * own


def _with_gaps(num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The last output is missing in every fourth row."""
    x, y = _data(num_rows)
    y[::4, 2] = np.nan
    return x, y


@pytest.fixture(scope="module", params=["Normal", "Student-t"])
def fitted(request: pytest.FixtureRequest) -> Fitted:
    """Three outputs in a chain, with known kinds of noise."""
    heavy = request.param == "Student-t"
    noise = "student-t" if heavy else "constant"
    found = fit(*_data(80, heavy=heavy), autoregressive=True, model="mogp", noise=noise)
    assert found.autoregressive_outputs.keys() == {"y1", "y2"}
    assert found.noise_name == noise
    return found


@pytest.fixture(scope="module")
def grid(fitted: Fitted) -> tuple[np.ndarray, np.ndarray]:
    """Values of y0 and y2 on a grid, and their log density beside a value of y1, at one x."""
    prediction = fitted.predict([[0.3]])
    (mean, std), count = (part[0] for part in (prediction.mean, prediction.std)), 81
    first, last = (mean[place] + std[place] * np.linspace(-6, 6, count) for place in (0, 2))
    y = np.stack(np.meshgrid(first, [mean[1] + 0.7 * std[1]], last, indexing="ij"), -1).reshape(-1, 3)
    log_density = fitted.predict(np.full((len(y), 1), 0.3)).log_density(y)
    area = (first[1] - first[0]) * (last[1] - last[0])
    return y, log_density + np.log(area)


def test_densities_of_fewer_outputs_are_integrals(fitted: Fitted, grid: tuple[np.ndarray, np.ndarray]) -> None:
    y, log_mass = grid
    only = np.array([[np.nan, y[0, 1], np.nan]])
    assert fitted.predict([[0.3]]).log_density(only)[0] == pytest.approx(logsumexp(log_mass), abs=0.03)


def test_given_equals_integration(fitted: Fitted, grid: tuple[np.ndarray, np.ndarray]) -> None:
    y, log_mass = grid
    share = np.exp(log_mass - logsumexp(log_mass))[:, None]
    mean = (share * y).sum(0)
    gap = y - mean
    cov = (share * gap).T @ gap
    found = fitted.predict([[0.3]], num_samples=2000, given=np.array([[np.nan, y[0, 1], np.nan]]))
    std = np.sqrt(np.diag(cov))
    unknown = [0, 2]
    np.testing.assert_allclose(found.mean[0, unknown], mean[unknown], atol=0.03 * std[unknown].max())
    np.testing.assert_allclose(found.std[0, unknown], std[unknown], rtol=0.05)
    assert (found.mean[0, 1], found.std[0, 1]) == (y[0, 1], 0.0)
    draws = found.sample(20_000)[:, 0]
    wanted = cov[0, 2] / (std[0] * std[2])
    assert np.corrcoef(draws[:, 0], draws[:, 2])[0, 1] == pytest.approx(wanted, abs=0.08)
    place = len(y) // 2
    conditional = found.log_density(y[[place]])[0]
    area = log_mass[place] - fitted.predict([[0.3]]).log_density(y[[place]])[0]
    assert conditional == pytest.approx(log_mass[place] - logsumexp(log_mass) - area, abs=0.05)


def test_nothing_known_is_the_plain_prediction_and_all_known_is_what_is_known(fitted: Fitted) -> None:
    x, y = _data(5, seed=1)
    plain = fitted.predict(x)
    np.testing.assert_array_equal(fitted.predict(x, given=np.full(y.shape, np.nan)).mean, plain.mean)
    known = fitted.predict(x, given=y)
    np.testing.assert_array_equal(known.mean, y)
    assert not known.var.any()


def test_draws_and_covariances_agree(fitted: Fitted) -> None:
    prediction = fitted.predict([[0.3]], num_samples=4000)
    draws = prediction.sample(40_000)[:, 0]
    np.testing.assert_allclose(draws.std(0), prediction.std[0], rtol=0.1)
    np.testing.assert_allclose(np.corrcoef(draws.T), prediction.correlations()[0], atol=0.06)
    functions, noise = (getattr(fitted, part)([[0.3]], 4000) for part in ("sample_functions", "sample_noise"))
    np.testing.assert_allclose((functions + noise).std(0)[0], prediction.std[0], rtol=0.15)


def test_the_frozen_predictor_has_the_same_moments(fitted: Fitted) -> None:
    x = np.linspace(-1, 1, 7)[:, None]
    prediction, predictor = fitted.predict(x), fitted.predictor()
    mean, std = predictor.mean_std(x)
    np.testing.assert_allclose(mean, prediction.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(std, prediction.std, rtol=0.02)
    slope = (predictor.mean(x + 1e-4) - predictor.mean(x - 1e-4)) / 2e-4
    np.testing.assert_allclose(predictor.jacobian(x)[..., 0], slope, rtol=1e-3, atol=1e-4)


def test_a_reloaded_model_is_the_same(fitted: Fitted, tmp_path: pytest.TempPathFactory) -> None:
    fitted.save(f"{tmp_path}/model.mogul")
    again, x = load(f"{tmp_path}/model.mogul"), np.linspace(-1, 1, 7)[:, None]
    known = np.tile([np.nan, 0.5, np.nan], (7, 1))
    np.testing.assert_array_equal(
        again.predict(x, given=known).component_mean, fitted.predict(x, given=known).component_mean
    )
    np.testing.assert_array_equal(again.predict(x).var, fitted.predict(x).var)
    assert again.autoregressive_outputs == fitted.autoregressive_outputs


def test_the_check_has_the_errors_of_new_rows(fitted: Fitted) -> None:
    """Rows left out are predicted without their other outputs, as new rows are."""
    heavy = fitted.noise_name == "student-t"
    x, y = _data(1000, seed=3, heavy=heavy)
    errors = np.sqrt(np.square(y - fitted.predict(x).mean).mean(0))
    assert fitted.check is not None
    np.testing.assert_allclose([each.rmse for each in fitted.check.model], errors, rtol=0.25)
    assert all(each.in_band is not None and each.in_band > 0.88 for each in fitted.check.model)


def test_incomplete_outputs_are_related_to_complete_ones_in_any_units() -> None:
    (x, y), scale, shift = _with_gaps(50), np.array([1e3, 1e-3, 5.0]), np.array([7e4, 0.0, -3.0])
    one, other = (fit(x, each, **QUICK) for each in (y, y * scale + shift))
    assert one.autoregressive_outputs.keys() == other.autoregressive_outputs.keys() == {"y2"}
    known = np.where([True, True, False], y, np.nan)
    first, second = one.predict(x, given=known), other.predict(x, given=known * scale + shift)
    np.testing.assert_allclose((second.mean - shift) / scale, first.mean, rtol=1e-3, atol=1e-3)
    truth, gaps = _data(50)[1][::4, 2], slice(None, None, 4)
    assert np.abs(first.mean[gaps, 2] - truth).mean() < 0.7 * np.abs(one.predict(x).mean[gaps, 2] - truth).mean()
    assert one.check is not None
    assert one.check.model[2].num_known == np.isfinite(y[:, 2]).sum()
    assert 0.3 < float(one.check.model[2].rmse or 0) < 0.6  # 0.41 is the noise of rows with nothing known


def test_a_complete_table_is_fitted_as_without_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _data(40)
    y[:4, 2] = np.nan  # too few
    without = fit(x, y, autoregressive=False, **QUICK)
    made = []
    monkeypatch.setattr(mean_choice, "find_chain", lambda *_, **__: pytest.fail("looked for a chain"))
    monkeypatch.setattr(ExactStart, "of", lambda *args, of=ExactStart.of, **kept: made.append(0) or of(*args, **kept))
    found = fit(x, y, **QUICK)
    assert len(made) == 1
    assert not found.autoregressive_outputs
    assert found.check == without.check
    for part in ("mean", "var", "component_mean", "component_var"):
        np.testing.assert_array_equal(getattr(found.predict(x), part), getattr(without.predict(x), part))


def test_outputs_without_relation_stay_as_they_are() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (40, 1))
    y = np.hstack([np.sin(3 * x), np.cos(2 * x)]) + 0.3 * rng.standard_normal((40, 2))
    y[::4, 1] = np.nan
    found, without = (fit(x, y, autoregressive=choice, **QUICK) for choice in (None, False))
    assert not found.autoregressive_outputs
    np.testing.assert_array_equal(found.predict(x).mean, without.predict(x).mean)


def test_transforms_come_first() -> None:
    x, y = _with_gaps(50)
    warped = fit(x, np.exp(y[:, 1:]), transform="log", **QUICK)
    plain = fit(x, y[:, 1:], **QUICK)
    assert warped.autoregressive_outputs.keys() == plain.autoregressive_outputs.keys() == {"y1"}
    known = np.column_stack([y[:, 1], np.full(50, np.nan)])
    wanted = plain.predict(x, given=known).quantiles([0.5])
    np.testing.assert_allclose(warped.predict(x, given=np.exp(known)).quantiles([0.5]), np.exp(wanted), rtol=1e-3)


def test_calibrated_intervals_and_missing_values() -> None:
    x, y = _data(120)
    y[::7, 0], y[1::7, 1] = np.nan, np.nan
    regressor = MultiOutputGPRegressor(calibrate=0.4, **QUICK).fit(x, y)
    assert regressor.fitted_.autoregressive_outputs
    new_x, new_y = _data(300, seed=5)
    low, high = regressor.predict_interval(new_x, 0.9)
    assert (np.abs(((low < new_y) & (new_y < high)).mean(0) - 0.9) < 0.1).all()
    mean, cov = regressor.predict(new_x, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.einsum("npp->np", cov)), regressor.predict(new_x, return_std=True)[1])
    assert np.isfinite(regressor.log_density(new_x, np.where(new_y > 0, new_y, np.nan))).all()
    assert mean.shape == new_y.shape


def test_what_needs_outputs_one_by_one_says_so(fitted: Fitted, tmp_path: pytest.TempPathFactory) -> None:
    with pytest.raises(ConfigError, match=r"Export needs outputs .* 'y1' depends on y0. Fit with autoregressive=False"):
        fitted.export(f"{tmp_path}/model.onnx")
    x, y = _data(30)
    with pytest.raises(ConfigError, match="autoregressive=True needs a model that exact GPs solve"):
        fit(x, y, model="n-mogp", autoregressive=True, epochs=1)


def test_a_cycle_is_no_chain() -> None:
    with pytest.raises(FileError, match="triangular in some order"):
        Chain(np.array([[0.0, 1.0], [1.0, 0.0]]))
