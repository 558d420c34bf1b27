"""Importance of inputs and Sobol indices against closed forms, scikit-learn and scipy."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import qmc, sobol_indices
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import permutation_importance

import mogul
from mogul.data.encodings.encoding import InputEncoding
from mogul.errors import ConfigError, DataError
from mogul.fitted.sensitivity import InputSpread, sobol_estimates

QUICK = {"model": "mogp", "noise": "constant", "mean": "linear"}
SLOPES = np.array([[3.0, 0.0], [1.0, 2.0], [0.0, 0.0]])


def ishigami(x):
    return np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def ishigami_indices():
    """First-order and total indices in closed form (Ishigami & Homma 1990, a = 7, b = 0.1)."""
    one, two = 0.5 * (1 + 0.1 * np.pi**4 / 5) ** 2, 7**2 / 8
    one_three = 0.01 * np.pi**8 * (1 / 18 - 1 / 50)
    return np.array([[one, two, 0.0], [one + one_three, two, one_three]]) / (one + two + one_three)


@pytest.fixture(scope="module")
def linear():
    """A model of linear outputs with slopes that are known, and its rows."""
    x = np.random.default_rng(0).uniform(-1, 1, (60, 3)) * [1.0, 2.0, 3.0]
    return mogul.fit(x, x @ SLOPES, **QUICK), x


@pytest.fixture(scope="module")
def mixed():
    """A regressor of text, a date, a number with gaps and a number; and its rows."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"site": rng.choice(["a", "b", "c"], 50, p=[0.6, 0.3, 0.1]), "depth": rng.normal(size=50)})
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 60, 50), unit="D")
    frame["load"] = np.where(rng.uniform(size=50) < 0.2, np.nan, rng.normal(size=50))
    y = (frame["site"] == "a") + frame["depth"] + 0.01 * rng.normal(size=50)
    with pytest.warns(mogul.MogulWarning, match="gaps"):
        return mogul.MultiOutputGPRegressor(**QUICK).fit(frame, y), frame, y


def test_sobol_estimates_are_scipys():
    points = qmc.Sobol(6, seed=np.random.default_rng(4)).random(256)
    own, other = np.split(2 * np.pi * points - np.pi, 2, axis=1)
    each = [ishigami(np.where(np.arange(3) == place, other, own)) for place in range(3)]
    values = {"f_A": ishigami(own)[None], "f_B": ishigami(other)[None], "f_AB": np.array(each)[:, None]}
    found = sobol_indices(func={name: each.copy() for name, each in values.items()}, n=256)
    ours = [sobol_estimates(values["f_A"][..., None], values["f_B"][..., None], mixed[None, :, None]) for mixed in each]
    assert np.allclose(np.array(ours)[..., 0, 0], np.column_stack([found.first_order, found.total_order]), atol=1e-10)


def test_sobol_indices_of_ishigamis_function():
    points = qmc.Sobol(3, seed=np.random.default_rng(0)).random(128)
    x = 2 * np.pi * points - np.pi
    found = mogul.fit(x, ishigami(x), **QUICK).sobol(num_draws=40).frame(level=0.99)
    for name, truth in zip(("first", "total"), ishigami_indices(), strict=True):
        assert np.allclose(found[name], truth, atol=0.06)
        assert (found[f"{name} low"] < truth + 0.03).all()
        assert (found[f"{name} high"] > truth - 0.03).all()
        assert (found[f"{name} low"] < found[name]).all()


def test_sobol_indices_of_lines_are_squared_slopes_times_variances(linear):
    fitted, x = linear
    var = SLOPES**2 * x.var(0)[:, None]
    shares = (var / var.sum(0)).T.ravel()
    for found in (fitted.sobol(num_draws=10), fitted.sobol(x, num_draws=10)):
        frame = found.frame()
        assert np.allclose(frame["total"], shares, atol=0.01)
        assert np.allclose(frame["first"], shares, atol=0.03)
        assert list(frame.index) == [(y, x) for y in ("y0", "y1") for x in ("x0", "x1", "x2")]


def test_the_interval_of_an_index_widens_with_what_is_not_known():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 2))
    noise = rng.standard_normal(60)
    each = [mogul.fit(x, x.sum(1) + scale * noise, **QUICK).sobol(x, num_draws=30).total for scale in (0.05, 0.5)]
    assert (each[1].std(0) > 2 * each[0].std(0)).all()


@pytest.mark.parametrize("rows", ["none", "inputs", "both"])
def test_the_importance_of_a_line_is_twice_its_squared_slope_times_the_variance(linear, rows):
    fitted, x = linear
    given = {"none": (), "inputs": (x,), "both": (x, x @ SLOPES)}[rows]
    found = fitted.importance(*given, repeats=30)
    share = 2 * SLOPES**2 * x.var(0)[:, None] / (x @ SLOPES).var(0)
    assert np.allclose(found.mean, share, atol=0.15 if rows == "both" else 0.01)
    frame = found.frame()
    assert list(frame.index) == [found.columns[place] for place in np.argsort(-found.overall)]
    assert (frame["low"] <= frame["all outputs"]).all()
    assert (frame["all outputs"] <= frame["high"]).all()


def test_permutation_importance_is_scikit_learns(mixed):
    regressor, frame, y = mixed
    found = regressor.fitted_.importance(frame, y, repeats=3, seed=5)
    theirs = permutation_importance(regressor, frame, y, n_repeats=3, random_state=5)
    assert found.columns == list(frame.columns)
    assert np.allclose(found.repeats[..., 0].T, theirs.importances, atol=1e-8)


def test_columns_of_any_kind_count_as_one_with_their_own_names(mixed):
    regressor, frame, _ = mixed
    for found in (regressor.fitted_.importance(), regressor.fitted_.importance(frame)):
        assert found.columns == ["site", "depth", "day", "load"]
        assert found.overall[:2].min() > 5 * found.overall[2:].max()
    indices = regressor.fitted_.sobol(num_draws=5, num_points=256).frame()
    assert list(indices.loc["y0"].index) == found.columns
    assert np.allclose(regressor.feature_importances_, regressor.fitted_.importance().overall)
    chosen = SelectFromModel(regressor, prefit=True, max_features=2, threshold=-np.inf).get_support()
    assert chosen.tolist() == [True, True, False, False]


def test_inputs_are_spread_as_in_training(mixed):
    regressor, frame, _ = mixed
    ranks = np.repeat((np.arange(2000)[:, None] + 0.5) / 2000, 4, axis=1)
    fitted = regressor.fitted_
    alike, own = InputSpread.of(fitted).at(ranks), InputSpread.of(fitted, frame).at(ranks)
    rows = InputEncoding.of(frame).apply(frame)
    cycles = [name.endswith(("sin)", "cos)")) for name in fitted.input_names]
    assert np.allclose(own.mean(0), rows.mean(0), atol=0.01)
    assert np.allclose(own.std(0), rows.std(0), atol=0.01 * rows.std(0).max())
    assert np.allclose(alike.mean(0)[~np.array(cycles)], rows.mean(0)[~np.array(cycles)], atol=0.02)
    assert set(map(tuple, alike[:, :3])) == {(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)}
    waves = alike[:, cycles].reshape(len(alike), -1, 2)
    assert np.allclose(np.square(waves).sum(2), 1.0)


def test_a_forest_under_the_gps_counts():
    x = np.random.default_rng(0).uniform(-1, 1, (80, 2))
    fitted = mogul.fit(x, np.sign(x[:, 0]), model="mogp", mean="trees", noise="constant")
    found = fitted.importance(repeats=2).overall
    assert found[0] > 1.0
    assert found[1] < 0.2


def test_transformed_outputs_have_importances_in_their_own_units():
    x = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    y = np.exp(2 * x[:, 0])
    found = mogul.fit(x, y, transform="log", **QUICK)
    truth = 2 * y.var() / y.var()
    assert np.isclose(found.importance(x, y, repeats=20).overall[0], truth, rtol=0.3)
    assert found.sobol(num_draws=5, num_points=256).total.mean(0)[0, 0] > 0.9


def test_what_cannot_be_measured_is_refused(linear):
    fitted, x = linear
    with pytest.raises(DataError, match="needs inputs beside outputs"):
        fitted.importance(None, x[:, :2])
    with pytest.raises(DataError, match="'y1' does not in these rows"):
        fitted.importance(x[:5], np.column_stack([x[:5, 0], np.ones(5)]))
    with pytest.raises(ConfigError, match=r"power of two, 32 or more; got 100\. Try 128"):
        fitted.sobol(num_points=100)
    latent = mogul.fit(None, np.random.default_rng(0).normal(size=(60, 3)), model="mogp-lvm", num_inputs=1, epochs=1)
    for method in (latent.importance, latent.sobol):
        with pytest.raises(ConfigError, match="observed inputs"):
            method()
