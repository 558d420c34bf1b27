"""From data to a fitted model: whatever the data are like, and as the options say."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.helpers.quick_fits import QUICK, both_models, quick, waves

from mogul.data import Dataset
from mogul.errors import MogulWarning, NumericalError
from mogul.training import TrainingConfig, fit
from mogul.training.defaults import default_model, preset, with_defaults


@both_models
def test_the_bound_rises(name):
    elbo = quick(waves(), name, epochs=40, batch_size=18, num_starts=1, learning_rate=0.05).history.elbo
    assert elbo[-1] > elbo[0] + 10


@pytest.mark.no_cover  # many steps on lines that other tests run too
@both_models
def test_a_fit_finds_the_function(name):
    data = waves(60)
    config = TrainingConfig(epochs=120, num_starts=3, start_epochs=15, learning_rate=0.1, seed=1)
    hidden = {"num_hidden": 8} if name == "n-mogp" else {}
    fitted = fit(data, model=name, config=config, num_latents=2, noise="constant", num_inducing=12, **hidden)
    scores = fitted.evaluate(data, standardised=True, num_samples=50)
    assert scores.mrmse < 0.15
    assert scores.ll > 0.5


@both_models
def test_missing_outputs_are_no_obstacle(name):
    data = waves(missing=True)
    fitted = quick(data, name)
    assert data.num_missing > 5
    assert np.isfinite(fitted.predict(data.x).mean).all()
    assert np.isfinite(fitted.history.elbo).all()


@both_models
def test_a_row_without_outputs_is_allowed(name):
    data = waves()
    y = data.y.copy()
    y[4] = np.nan
    assert np.isfinite(quick(Dataset(data.x, y), name).history.elbo).all()


@both_models
@pytest.mark.parametrize("num_rows", [1, 2, 5])
def test_there_may_be_fewer_rows_than_inducing_points(name, num_rows):
    with pytest.warns(MogulWarning, match=rf"different rows, {num_rows}; got 50. Lowered to {num_rows}, one for each"):
        fitted = quick(waves(num_rows), name, num_inducing=50)
    assert fitted.model.prior.inducing_points.shape == (num_rows, 1)
    assert np.isfinite(fitted.predict([[11.0]]).var).all()


@both_models
def test_a_constant_output_is_no_obstacle(name):
    data = waves()
    y = data.y.copy()
    y[:, 1] = 42.0
    with pytest.warns(MogulWarning, match="Outputs should vary; 'y1' holds one value"):
        prediction = quick(Dataset(data.x, y), name, epochs=30, batch_size=18).predict(data.x)
    assert np.abs(prediction.mean[:, 1] - 42.0).max() < 1.0


@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("float64", torch.float64)])
def test_the_model_has_the_precision_asked_for(precision, dtype):
    fitted = quick(waves(), precision=precision)
    assert {parameter.dtype for parameter in fitted.model.parameters()} == {dtype}
    assert fitted.predict([[11.0]]).mean.dtype == np.float64


def test_names_and_scaling_are_those_of_the_data():
    data = waves(missing=True)
    fitted = quick(data)
    assert fitted.input_names == ["time"]
    assert fitted.output_names == ["left", "right"]
    np.testing.assert_allclose(fitted.scaling.inputs.shift, data.x.mean(0))
    np.testing.assert_allclose(fitted.scaling.outputs.shift, np.nanmean(data.y, axis=0))
    np.testing.assert_allclose(fitted.scaling.outputs.scale, np.nanstd(data.y, axis=0))


def test_the_default_is_that_of_the_presets():
    fitted = fit(waves(4), config=TrainingConfig(epochs=1, num_starts=1))
    assert fitted.model_name == default_model(4, 2)
    assert fitted.blueprint is not None
    assert fitted.blueprint.options["num_latents"] == with_defaults({}, "mogp", None, 2, 4)["num_latents"]


def test_options_reach_the_model():
    fitted = fit(
        waves(),
        model="n-mogp",
        config=TrainingConfig(**QUICK),
        noise="constant",
        num_latents=3,
        num_hidden=5,
        nonlinearity="relu",
    )
    assert fitted.model.prior.num_latents == 3
    assert fitted.model.head.features.hidden_weights.shape == (5, 3)
    assert fitted.model.head.features.nonlinearity(torch.tensor([-1.0])) == 0.0


def test_numbers_that_run_away_are_an_error():
    with pytest.raises(NumericalError, match="must be"):
        quick(waves(), num_starts=1, precision="float32", learning_rate=1e30)


def test_nothing_is_printed_when_nobody_watches(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    quick(waves())
    assert capfd.readouterr() == ("", "")


def random_problem(seed: int) -> Dataset:
    """Some rows, inputs and outputs of any size and unit, with holes, constant columns and columns that repeat."""
    rng = np.random.default_rng(seed)
    num_rows, num_inputs, num_outputs = rng.integers(10, 61), rng.integers(1, 6), rng.integers(1, 5)
    x = rng.standard_normal((num_rows, num_inputs))
    y = np.tanh(x @ rng.standard_normal((num_inputs, num_outputs))) + 0.1 * rng.standard_normal((num_rows, num_outputs))
    y[rng.random(y.shape) < 0.2] = np.nan
    y[0] = 1.0  # something of each output is observed
    if seed % 3 == 0:
        y[:, 0] = 4.0
    if seed % 3 == 1 and num_inputs > 1:
        x[:, 0] = 2.0
    if seed % 3 == 2 and num_inputs > 1:
        x[:, 0] = x[:, 1]
    return Dataset(
        1e3 * rng.standard_normal(num_inputs) + x * 10 ** rng.uniform(-3, 3, num_inputs),
        y * 10 ** rng.uniform(-6, 6, num_outputs),
    )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_default_fit_never_ends_in_nan(seed, precision):
    data = random_problem(seed)
    name = ["mogp", "n-mogp", "n-sbgprn", "gprn", "n-dgp"][seed % 5]
    config = replace(preset("default", name), epochs=5, num_starts=1, precision=precision)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MogulWarning)  # of a jitter that had to grow, which is what it is for
        fitted = fit(data, model=name, config=config, noise="constant")
        prediction = fitted.predict(data.x, num_samples=5)
    assert np.isfinite(fitted.history.elbo).all()
    assert np.isfinite(prediction.mean).all()
    assert np.isfinite(prediction.var).all()
    assert (prediction.var > 0).all()
    assert all(bool(torch.isfinite(parameter).all()) for parameter in fitted.model.parameters())
