"""The regressor with transformed outputs."""

import numpy as np
import pytest
from sklearn.base import clone

import mogul
from mogul import MultiOutputGPRegressor
from mogul.errors import ConfigError


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (100, 1))
    signal, noise = np.sin(3 * x), rng.standard_normal((100, 2))
    return x, np.hstack([np.exp(signal + 0.5 * noise[:, :1]), signal + 0.3 * noise[:, 1:]])


@pytest.fixture(scope="module")
def regressor(rows):
    return MultiOutputGPRegressor(output_transform={"y0": "log"}, calibrate=0.3).fit(*rows)


def test_it_is_the_model_of_fit(rows, regressor):
    fitted = mogul.fit(*rows, transform={"y0": "log"}, calibrate=0.3)
    mean, std = regressor.predict(rows[0], return_std=True)
    law = fitted.predict(rows[0])
    np.testing.assert_array_equal(mean, law.mean)
    np.testing.assert_array_equal(std, law.std)
    assert clone(regressor).output_transform == {"y0": "log"}


def test_everything_is_in_units_of_the_outputs(rows, regressor):
    x, y = rows
    low, high = regressor.predict_interval(x)
    assert (low[:, 0] > 0).all()
    assert ((low <= y) & (y <= high)).mean() > 0.8
    assert (regressor.predict_quantiles(x, 0.001)[:, 0] > 0).all()
    for joint in (False, True):
        assert (regressor.sample_y(x, 5, joint=joint)[:, 0] > 0).all()
    _, cov = regressor.predict(x[:4], return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.einsum("npp->np", cov)), regressor.predict(x[:4], return_std=True)[1])
    assert regressor.score(x, y) > 0.4
    np.testing.assert_allclose(regressor.log_density(x, y), regressor.fitted_.log_density(x, y))


def test_saved_and_loaded(rows, regressor, tmp_path):
    regressor.save(tmp_path / "regressor.mogul")
    again = MultiOutputGPRegressor.load(tmp_path / "regressor.mogul")
    assert again.output_transform == {"y0": "log"}
    np.testing.assert_array_equal(again.predict(rows[0]), regressor.predict(rows[0]))


def test_more_training_keeps_the_transform(rows, regressor):
    more = clone(regressor).set_params(calibrate=None).fit(*rows).partial_fit(*rows, epochs=1)
    assert more.fitted_.transforms == {"y0": "log"}


def test_slopes_and_surrogates_are_refused(rows, regressor):
    with pytest.raises(ConfigError, match="jacobian needs outputs without a transform; 'y0' has log"):
        regressor.jacobian(rows[0])
    pytest.importorskip("botorch")
    with pytest.raises(ConfigError, match="surrogate must be of outputs without a transform; 'y0' has log"):
        regressor.to_botorch()
