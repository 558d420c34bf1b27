"""Transforms of outputs: maps and slopes, what "auto" chooses, and refusals."""

import numpy as np
import pytest
import torch
from scipy import stats

from mogul.core.transforms import Log, Transforms, Untransformed, YeoJohnson, kinds_of
from mogul.data import Dataset, Scaling
from mogul.errors import ConfigError, DataError, FileError, ShapeError, UnknownNameError

EACH = [Untransformed(), Log(), *(YeoJohnson(power, 2.0) for power in (0.0, 0.4, 1.0, 1.7, 2.0))]


def rows(seed, num_rows=150):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (num_rows, 1))
    return x, np.sin(3 * x), rng.standard_normal((num_rows, 1))


def chosen(x, y, transform="auto"):
    found = Transforms.of(transform, x, y, [f"y{place}" for place in range(y.shape[1])])
    return None if found is None else [type(one) for one in found.each]


@pytest.mark.parametrize("transform", EACH)
def test_a_transform_is_undone_and_increases(transform):
    y = np.linspace(0.01, 5, 50) if isinstance(transform, Log) else np.linspace(-5, 5, 51)
    z = transform.apply(y)
    np.testing.assert_allclose(transform.undo(z), y, atol=1e-12)
    assert (np.diff(z) > 0).all()


@pytest.mark.parametrize("transform", EACH)
def test_slopes_equal_finite_differences(transform):
    y, step = np.array([0.3, 1.0, 4.0]), 1e-6
    slope = (transform.apply(y + step) - transform.apply(y - step)) / (2 * step)
    np.testing.assert_allclose(transform.log_slope(y), np.log(slope), atol=1e-7)


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 2.0])
def test_powers_are_scipys(power):
    y = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(YeoJohnson(power, 1.0).apply(y), stats.yeojohnson(y, power), atol=1e-12)


def test_without_inputs_the_power_is_near_scipys():
    y = np.random.default_rng(0).gamma(2.0, size=300)[:, None] - 1  # of both signs
    (found,) = Transforms.of("yeo-johnson", np.empty((300, 0)), y, ["y"]).each
    assert found.power == pytest.approx(stats.yeojohnson_normmax((y / y.std())[:, 0]), abs=0.02)


@pytest.mark.parametrize("seed", range(10))
def test_a_normal_output_stays_as_it_is_and_a_log_normal_one_does_not(seed):
    x, signal, noise = rows(seed)
    assert chosen(x, signal + 0.3 * noise) is None
    assert chosen(x, 50 + signal + 0.3 * noise) is None  # positive, and Normal
    assert chosen(x, np.exp(3 * x) + 0.3 * noise + 5) is None  # its function is skewed, its noise is not
    assert chosen(x, np.exp(signal + 0.5 * noise)) == [Log]


def test_counts_with_zeros_get_a_power():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (200, 1))
    assert chosen(x, rng.poisson(np.exp(1 + x)).astype(float)) == [YeoJohnson]


def test_units_do_not_matter():
    x, signal, noise = rows(0)
    y = np.exp(signal + 0.5 * noise) - 0.2
    small, large = (Transforms.of("yeo-johnson", x, unit * y, ["y"]).each[0] for unit in (1e-3, 1e3))
    assert small.power == pytest.approx(large.power, abs=1e-4)


def test_a_constant_output_and_one_with_missing_values():
    x, signal, noise = rows(0)
    y = np.exp(signal + 0.5 * noise)
    y[::3] = np.nan
    assert chosen(x, np.hstack([y, np.full_like(y, 2.0)])) == [Log, Untransformed]
    scaled = Scaling.of(Dataset(x, y), "log").batch(Dataset(x, y), torch.float64)
    np.testing.assert_array_equal(scaled.observed.numpy(), ~np.isnan(y))
    assert scaled.y[scaled.observed].mean().item() == pytest.approx(0, abs=1e-6)


def test_outputs_by_name_and_by_place():
    assert kinds_of({"b": "log"}, ["a", "b"]) == (None, "log")
    assert kinds_of([None, "auto"], ["a", "b"]) == (None, "auto")
    with pytest.raises(UnknownNameError, match="must be one of a, b; got 'c'"):
        kinds_of({"c": "log"}, ["a", "b"])
    with pytest.raises(UnknownNameError, match="must be one of log, yeo-johnson, auto; got 'box-cox'"):
        kinds_of("box-cox", ["a"])
    with pytest.raises(ShapeError, match=r"entry for each of 2 outputs; got 1\. Name some"):
        kinds_of(["log"], ["a", "b"])
    with pytest.raises(ConfigError, match="must be a name, or one for each output; got 3"):
        kinds_of(3, ["a"])


def test_log_of_a_negative_value_is_refused_by_name():
    with pytest.raises(DataError, match=r"needs positive values; output 'b' has -2\. Use transform='yeo-johnson' or"):
        Transforms.of("log", np.zeros((2, 1)), np.array([[1.0, -2.0], [2.0, 3.0]]), ["a", "b"])


def test_spoilt_settings_are_refused():
    with pytest.raises(FileError, match="between 0 and 2 beside a positive scale"):
        Transforms.from_plain([{"kind": "yeo-johnson", "settings": {"power": 3.0, "scale": 1.0}}])
    with pytest.raises(FileError, match="must be among none, log, yeo-johnson; got 'exp'"):
        Transforms.from_plain([{"kind": "exp", "settings": {}}])
