"""The predictor of a fitted model: in the user's units, by the user's names."""

import numpy as np
import pandas as pd
import pytest

from mogul.data import Dataset
from mogul.errors import DataError
from mogul.training import TrainingConfig
from mogul.training.fit import fit


@pytest.fixture(scope="module")
def data() -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(5, 3, (40, 2))
    y = np.stack([100 * np.sin(x[:, 0]), x.sum(1) - 7], 1) + 0.1 * rng.normal(size=(40, 2))
    return Dataset(pd.DataFrame(x, columns=["a", "b"]), y)


@pytest.fixture(scope="module", params=["mogp", "n-mogp", "gprn"])
def fitted(request, data):
    config = TrainingConfig(epochs=2, num_starts=1, start_epochs=1)
    return fit(data, model=request.param, config=config, noise="constant", num_inducing=8)


def test_equals_predict(fitted, data):
    expected, predictor = fitted.predict(data.x, num_samples=2), fitted.predictor()
    mean, std = predictor.mean_std(data.x)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(std, expected.std, rtol=1e-6)
    np.testing.assert_allclose(predictor.mean(data.x), mean, rtol=1e-6, atol=1e-9)


def test_the_jacobian_is_in_units_of_outputs_over_inputs(fitted, data):
    x, predictor = data.x[:5], fitted.predictor()
    steps = 1e-4 * np.eye(2)
    expected = [(predictor.mean(x + each) - predictor.mean(x - each)) / 2e-4 for each in steps]
    np.testing.assert_allclose(predictor.jacobian(x), np.stack(expected, -1), rtol=1e-5, atol=1e-5)


def test_columns_are_found_by_name(fitted, data):
    frame = pd.DataFrame(data.x, columns=["a", "b"])
    found = fitted.predictor().mean(frame[["b", "a"]])
    np.testing.assert_allclose(found, fitted.predictor().mean(data.x))


def test_wrong_columns_are_refused(fitted, data):
    with pytest.raises(DataError):
        fitted.predictor().mean(data.x[:, :1])


def test_latent_positions(data):
    fitted = fit(
        data.without_inputs(),
        model="mogp-lvm",
        config=TrainingConfig(epochs=1, num_starts=1, start_epochs=1),
        num_inducing=5,
    )
    x = fitted.latent_means[:4]
    expected = fitted.predict(x, num_samples=2)
    np.testing.assert_allclose(fitted.predictor().mean_std(x)[1], expected.std, rtol=1e-6)
