"""Scores and the raw matter of figures, from one pass."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from mogul.lab.experiments.run import evenly_spaced, measure
from mogul.metrics import score
from mogul.prediction import Prediction


@pytest.fixture
def parts() -> list[tuple[Prediction, np.ndarray]]:
    """Two parts of a mixture of three Normals, a few outputs missing."""
    rng = np.random.default_rng(0)
    mean, var = rng.normal(size=(3, 400, 2)), rng.uniform(0.5, 1.5, size=(3, 400, 2))
    y = rng.normal(size=(400, 2))
    y[5, 0] = np.nan
    whole = Prediction(mean.mean(0), var.mean(0) + mean.var(0), mean, var)
    return [(whole.rows(slice(0, 150)), y[:150]), (whole.rows(slice(150, 400)), y[150:])]


def test_scores_are_those_of_the_metrics(parts) -> None:
    scores = score(parts)
    expected = {"ll": scores.ll, "mrmse": scores.mrmse, "crps": scores.crps}
    expected |= {"coverage_50": scores.coverage[0.5], "coverage_80": scores.coverage[0.8]}
    assert measure(parts, ["a", "b"]).metrics == expected | {"coverage_95": scores.coverage[0.95]}


def test_each_output_has_its_own_error_and_density(parts) -> None:
    found = measure(parts, ["a", "b"]).per_output
    assert found["names"] == ["a", "b"]
    y, mean = (np.concatenate(each) for each in ([y for _, y in parts], [p.mean for p, _ in parts]))
    components = np.concatenate([p.component_mean for p, _ in parts], axis=1)
    scales = np.sqrt(np.concatenate([p.component_var for p, _ in parts], axis=1))
    density = norm.pdf(y, components, scales).mean(0)
    np.testing.assert_allclose(found["ll"], np.nanmean(np.log(density), axis=0), rtol=1e-3)
    np.testing.assert_allclose(found["rmse"], np.sqrt(np.nanmean((y - mean) ** 2, axis=0)), rtol=1e-3)


def test_a_true_model_is_calibrated_and_an_overconfident_one_is_not() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=(20_000, 1))
    zero, one = np.zeros_like(y), np.ones_like(y)
    true = measure([(Prediction(zero, one, zero[None], one[None]), y)], ["y"]).calibration
    assert true["levels"] == [round(0.05 * step, 2) for step in range(1, 20)]
    np.testing.assert_allclose(true["covered"], true["levels"], atol=0.015)
    assert len(true["pit_counts"]) == 20
    assert sum(true["pit_counts"]) == len(y)
    np.testing.assert_allclose(true["pit_counts"], 1000, atol=130)
    sure = measure([(Prediction(zero, one / 9, zero[None], one[None] / 9), y)], ["y"]).calibration
    assert sure["pit_counts"][0] > 4 * sure["pit_counts"][10]
    assert sure["covered"][15] == pytest.approx(2 * norm.cdf(norm.ppf(0.9) / 3) - 1, abs=0.02)


def test_a_few_rows_are_kept_to_look_at(parts) -> None:
    kept = measure(parts, ["a", "b"]).predictions
    assert {name: np.shape(values) for name, values in kept.items()} == dict.fromkeys(("true", "mean", "std"), (150, 2))
    y = np.concatenate([y for _, y in parts])
    assert kept["true"][0] == [float(f"{value:.6g}") for value in y[0]]
    assert kept["true"][-1] == [float(f"{value:.6g}") for value in y[-1]]
    assert evenly_spaced(3, 10).tolist() == [0, 1, 2]


def test_a_missing_output_is_no_number() -> None:
    y = np.array([[math.nan, 1.0], [0.5, 1.0]])
    zero, one = np.zeros_like(y), np.ones_like(y)
    kept = measure([(Prediction(zero, one, zero[None], one[None]), y)], ["a", "b"])
    assert kept.predictions["true"] == [[None, 1.0], [0.5, 1.0]]
    assert sum(kept.calibration["pit_counts"]) == 3
