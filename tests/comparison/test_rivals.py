"""Rivals: bands that hold what they say, missing outputs, packages that may not be there."""

from importlib.util import find_spec

import numpy as np
import pytest

from mogul.comparison.crossval import LEAST_SQUARES, compare, folds, predict_baseline
from mogul.comparison.rivals import RIVALS, predict_rival, require_rivals
from mogul.data import Dataset
from mogul.errors import ConfigError, UnknownNameError, UnsupportedError
from mogul.training import FitRequest

INSTALLED = [name for name, rival in RIVALS.items() if rival.package is None or find_spec(rival.package)]


def planted(num_rows: int, seed: int = 0) -> Dataset:
    """Two curves with noise of 0.3 and 0.6."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (num_rows, 2))
    signal = np.stack([np.sin(2 * x[:, 0]) + x[:, 1], x[:, 0] * x[:, 1]], axis=1)
    return Dataset(x, signal + np.array([0.3, 0.6]) * rng.standard_normal((num_rows, 2)))


def covered(name: str, train: Dataset, test: Dataset) -> float:
    found = predict_rival(name, train, test.x, np.arange(train.num_rows), seed=0)
    return float(np.mean(np.abs(test.y - found.mean) <= 1.96 * np.sqrt(found.var)))


def test_bands_of_a_forest_hold_what_they_say():
    assert 0.93 <= covered("trees", planted(600), planted(2000, seed=1)) <= 0.97


def test_bands_of_boosting_hold_what_they_say():
    assert 0.93 <= covered("boosting", planted(600), planted(2000, seed=1)) <= 0.97


@pytest.mark.parametrize("name", INSTALLED)
def test_a_rival_finds_the_curves_without_the_outputs_that_are_missing(name):
    whole, test = planted(150), planted(500, seed=1)
    y = whole.y.copy()
    y[:40, 1] = np.nan
    x = np.where(np.isnan(y[:, 1:]), whole.x + 0.01, whole.x)
    found = predict_rival(name, Dataset(x, y), test.x, np.arange(150), seed=0)
    assert found.mean.shape == found.var.shape == test.y.shape
    error = np.sqrt(np.square(test.y - found.mean).mean(0)) / test.y.std(0)
    assert (error < 0.85).all()
    assert 0.75 <= np.mean(np.abs(test.y - found.mean) <= 1.96 * np.sqrt(found.var)) <= 1


def test_a_variance_comes_from_rows_left_out_and_residuals_are_correlated():
    rng = np.random.default_rng(0)
    x, shared = rng.uniform(size=(300, 1)), rng.standard_normal((300, 1))
    data = Dataset(x, np.hstack([shared, shared + 0.1 * rng.standard_normal((300, 1))]))
    found = predict_baseline("trees", data, x[:4], seed=0)
    assert (found.var > 0.9 * data.y.var(0)).all(), "in sample, forests explain noise"
    cov = found.joint.cross_cov(2)
    assert cov[0, 1] / np.sqrt(found.var[0]).prod() > 0.9


def test_a_forest_may_be_ahead_and_is_named_so():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (240, 4))
    data = Dataset(x, np.where(x[:, :1] > 0, 5.0, 0.0) + np.where(x[:, 1:2] > 0, 3.0, 0.0))
    board = compare(data, ["mogp"], folds(240, 2, seed=0), FitRequest(), rivals=["trees"])
    labels = [entry.label for entry in board.entries]
    assert set(labels) == {"mogp", "extra trees", "least squares", "mean"}
    if labels[0] == "extra trees":
        assert "Of the models, mogp comes nearest" in board.verdict


def test_too_many_rows_for_an_exact_gp_are_said_and_the_others_go_on():
    data = planted(1300)
    with pytest.raises(UnsupportedError, match=r"exact GPs take at most 1,200 training rows.*got 1,300"):
        predict_rival("exact-gps", data, data.x, np.arange(1300), seed=0)
    whole = Dataset(np.tile(data.x, (2, 1)), np.tile(data.y, (2, 1)))
    board = compare(whole, [], folds(2600, 2, seed=0), FitRequest(), rivals=["exact-gps"])
    assert [entry.label for entry in board.entries] == [LEAST_SQUARES, "mean"]
    assert "at most 1,200" in board.failures["exact GPs"]


def test_names_and_packages_are_checked(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UnknownNameError, match=r"A rival must be one of trees, boosting.*Did you mean 'catboost'\?"):
        require_rivals(["catbost"])
    monkeypatch.setattr("mogul.comparison.rivals.find_spec", lambda name: None)
    assert require_rivals(["trees", "exact-gps"]) == ["trees", "exact-gps"]
    with pytest.raises(ConfigError, match=r"catboost needs the package catboost, which is not.*mogul\[rivals\]"):
        require_rivals(["catboost"])
