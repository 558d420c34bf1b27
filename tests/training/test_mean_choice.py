"""mean="auto": the linear mean, a forest under it, or both."""

import numpy as np
import pytest
import torch

import mogul
from mogul.errors import ConfigError
from mogul.means.regressor import RegressorMean

TEN_EPOCHS = mogul.TrainingConfig(epochs=10, num_starts=1, batch_size=100)


def steps(num_rows, seed=0):
    """An output that is a decision tree of three inputs, and one that is a smooth function of a fourth."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 4, (num_rows, 4))
    jumps = np.where(x[:, 0] > 1.2, np.where(x[:, 1] > 2, 3.0, 0.0), np.where(x[:, 2] > 1.5, -2.0, 1.0))
    return x, np.column_stack([jumps, np.sin(x[:, 3])]) + 0.1 * rng.standard_normal((num_rows, 2))


def test_smooth_outputs_have_the_linear_mean_alone():
    x, y = steps(100)
    fitted, linear = mogul.fit(x, y[:, 1:], mean="auto"), mogul.fit(x, y[:, 1:], mean="linear")
    assert fitted.num_members == 1
    np.testing.assert_array_equal(fitted.predict(x).mean, linear.predict(x).mean)


@pytest.fixture(scope="module")
def jumps():
    x, y = steps(150)
    return x, y, mogul.fit(x, y)


def test_jumps_have_a_forest_and_smooth_outputs_have_none(jumps, tmp_path):
    x, y, fitted = jumps
    mean = fitted.single_models[-1].model.mean
    assert isinstance(mean, RegressorMean)
    of_jumps, of_sine = (part(torch.linspace(-1.5, 1.5, 12, dtype=torch.float64).reshape(3, 4)) for part in mean.parts)
    assert of_jumps.abs().min() > 0
    assert of_sine.abs().max() == 0
    test_x, test_y = steps(500, seed=1)
    error = np.abs(fitted.predict(test_x).mean - test_y).mean(0)
    without = np.abs(mogul.fit(x, y, mean="linear").predict(test_x).mean - test_y).mean(0)
    assert error[0] < 0.95 * without[0]
    assert error[1] < 1.05 * without[1]
    fitted.save(tmp_path / "jumps.mogul")
    again = mogul.load(tmp_path / "jumps.mogul")
    np.testing.assert_array_equal(again.predict(test_x).var, fitted.predict(test_x).var)


def test_the_choice_is_part_of_every_variance_and_draw(jumps):
    x, _, fitted = jumps
    law = fitted.predict(x[:40], num_samples=400)
    mean, std = fitted.predictor().mean_std(x[:40])
    np.testing.assert_allclose(mean, law.mean, atol=0.02)
    np.testing.assert_allclose(std, law.std, rtol=0.2)
    draws = fitted.sample_functions(x[:40], 600)
    np.testing.assert_allclose(draws.mean(0), law.mean, atol=0.15)


def test_trained_models_choose_by_held_out_rows():
    x, y = steps(400)
    request = {"model": "mogp", "config": TEN_EPOCHS, "noise": "constant", "num_latents": 2, "num_inducing": 20}
    fitted = mogul.fit(x, y, mean="auto", **request)
    assert isinstance(fitted.model.mean, RegressorMean)
    linear = mogul.fit(x, x @ np.ones((4, 1)) + 0.1 * y[:, :1], mean="auto", **(request | {"num_latents": 1}))
    assert not isinstance(linear.model.mean, RegressorMean)


def test_named_models_and_groups_keep_the_linear_mean():
    x, y = steps(40)
    assert mogul.fit(x, y, model="mogp").num_members == 1
    assert mogul.fit(x, y, groups=np.arange(40) % 5).num_members == 1


def test_latent_inputs_have_no_choice():
    with pytest.raises(ConfigError, match="mean='auto' needs inputs that are observed"):
        mogul.fit(mogul.Dataset(None, steps(20)[1]), model="mogp-lvm", mean="auto")
