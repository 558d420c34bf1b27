"""Grids of xarray in and out: each cell is a row, and predictions are on the same coordinates."""

import numpy as np
import pandas as pd
import pytest

import mogul
from mogul.data.sources.given import given_data
from mogul.errors import ConfigError, DataError

xarray = pytest.importorskip("xarray")


@pytest.fixture
def field():
    """A field of 4 × 5 × 1 cells with a covariate, and an output that is known in some cells."""
    rng = np.random.default_rng(0)
    x, y = np.linspace(0, 3, 4), np.linspace(0, 2, 5)
    depth = rng.uniform(1, 2, (5, 4))
    temp = np.sin(x)[None] + y[:, None] + depth
    temp[rng.random((5, 4)) < 0.3] = np.nan
    variables = {"temp": (("y", "x"), temp), "depth": (("y", "x"), depth)}
    return xarray.Dataset(variables, coords={"y": y, "x": x, "projection": 0})


def test_known_cells_are_rows(field):
    data, _ = given_data(field, targets="temp")
    known = np.argwhere(~np.isnan(field["temp"].to_numpy()))
    assert data.input_names == ["y", "x", "depth"]
    assert data.output_names == ["temp"]
    np.testing.assert_array_equal(data.x[:, 0], field["y"].to_numpy()[known[:, 0]])
    np.testing.assert_array_equal(data.x[:, 1], field["x"].to_numpy()[known[:, 1]])
    np.testing.assert_array_equal(data.x[:, 2], field["depth"].to_numpy()[tuple(known.T)])
    np.testing.assert_array_equal(data.y[:, 0], field["temp"].to_numpy()[tuple(known.T)])
    turned, _ = given_data(field.transpose("x", "y"), targets="temp")
    assert sorted(turned.y[:, 0]) == sorted(data.y[:, 0])


def test_predictions_of_a_grid_are_those_of_its_cells(field):
    fitted = mogul.fit(field, targets="temp", inputs=["x", "y", "depth"], verbose=0)
    field["depth"][2, 1] = np.nan
    found = fitted.predict_grid(field, quantiles=[0.1])
    assert list(found) == ["temp", "temp_std", "temp_q0.1"]
    assert found["temp"].dims == ("y", "x")
    xarray.testing.assert_identical(
        found["x"].drop_vars("projection", errors="ignore"), field["x"].drop_vars("projection")
    )
    one = fitted.predict(pd.DataFrame({"x": [3.0], "y": [2.0], "depth": field["depth"][4, 3].item()}))
    last = found.isel(x=3, y=4)
    expected = one.mean[0, 0], one.std[0, 0], one.quantiles([0.1])[0, 0, 0]
    np.testing.assert_allclose([last[name].item() for name in found], expected, rtol=1e-6)
    assert np.isnan(found["temp"]).to_numpy().sum() == 1
    assert np.isnan(found["temp"][2, 1])


def test_an_array_has_its_own_name_as_target():
    times = pd.date_range("2024-01-01", periods=30)
    load = xarray.DataArray(np.arange(30.0), dims="time", coords={"time": times}, name="load")
    fitted = mogul.fit(load, verbose=0)
    assert (fitted.input_columns, fitted.output_names) == (["time"], ["load"])
    later = xarray.Dataset(coords={"time": pd.date_range("2024-02-05", periods=2)})
    np.testing.assert_allclose(fitted.predict_grid(later)["load"], [35, 36], atol=1.0)


def test_wrong_grids_are_refused(field):
    with pytest.raises(ConfigError, match=r"targets must name the variables to predict; got none\. The grid has temp"):
        given_data(field)
    with pytest.raises(ConfigError, match="Put them into one Dataset"):
        given_data(field, field["temp"])
    with pytest.raises(DataError, match=r"'tmep' is not among y, x, temp, depth\. Did you mean 'temp'"):
        given_data(field, targets="tmep")
    fitted = mogul.fit(field, targets="temp", verbose=0)
    with pytest.raises(DataError, match="must have the inputs of training, y, x, depth; 'depth' is not among y, x"):
        fitted.predict_grid(field[["temp"]].drop_vars("temp"))
    with pytest.raises(ConfigError, match="must be an xarray Dataset or DataArray; got a ndarray"):
        fitted.predict_grid(np.zeros((2, 3)))
    with pytest.raises(DataError, match="none has all of them"):
        fitted.predict_grid(field.assign(depth=field["depth"] * np.nan))
