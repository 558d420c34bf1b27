"""Quantiles of mixtures equal those of a bisection of the distribution function, in few evaluations of it."""

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from tests.helpers.perturbing import perturbed

from mogul.core.transforms import Log, Transforms
from mogul.models import build
from mogul.prediction import Prediction, predict
from mogul.prediction.quantiles import _Mixtures, mixture_quantiles
from mogul.prediction.warped import Warped

LEVELS = [1e-6, 0.013, 0.31, 0.5003, 0.9, 0.999]
S, K = 21, 60


def mixtures(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    means, stds = rng.normal(0, 1, (S, K)), rng.uniform(0.5, 1.5, (S, K))
    match kind:
        case "narrow":
            stds = 10 ** rng.uniform(-6, 0, (S, K))
        case "wide":
            stds = 10 ** rng.uniform(0, 6, (S, K))
        case "far":
            means[:3] += 10 ** rng.uniform(2, 8, (3, K))
        case "shifted":
            means += 1e5
        case "alike":
            means[:], stds[:] = means[0], stds[0]
        case "known":
            means[:], stds[:] = means[0], 1e-100
    return means, stds


def bisected(means: np.ndarray, stds: np.ndarray, level: float, weights: np.ndarray) -> np.ndarray:
    """By halving, until both ends are neighbouring numbers."""
    spread = 10 * stds
    low, high = (means - spread).min(0), (means + spread).max(0)
    for _ in range(120):
        middle = 0.5 * (low + high)
        if level < 0.5:
            below = (weights * ndtr((middle - means) / stds)).sum(0) < level
        else:
            below = (weights * ndtr((means - middle) / stds)).sum(0) > 1 - level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def moments(means: np.ndarray, stds: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    center = (weights * means).sum(0)
    return center, np.sqrt((weights * (stds**2 + (means - center) ** 2)).sum(0))


@pytest.mark.parametrize("weighted", ["equally", "by component", "by component and row"])
@pytest.mark.parametrize("kind", ["ordinary", "narrow", "wide", "far", "shifted", "alike", "known"])
def test_quantiles_are_those_of_a_bisection(kind: str, weighted: str):
    rng = np.random.default_rng(len(kind))
    means, stds = mixtures(kind, rng)
    shape = {"equally": None, "by component": (S,), "by component and row": (S, K)}[weighted]
    weights = np.full(S, 1 / S) if shape is None else rng.gamma(1.0, size=shape)
    weights = weights / weights.sum(0)
    full = weights if weights.ndim == 2 else weights[:, None]
    center, spread = moments(means, stds, full)
    found = mixture_quantiles(means, stds, LEVELS, center, spread, None if shape is None else weights)
    for level, values in zip(LEVELS, found, strict=True):
        expected = bisected(means, stds, level, full)
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9 * stds.min())


def test_they_take_few_evaluations_and_none_depends_on_other_rows(monkeypatch: pytest.MonkeyPatch):
    evaluated = []
    plain = _Mixtures._step
    monkeypatch.setattr(
        _Mixtures, "_step", lambda self, rows, *more: (evaluated.append(len(rows)), plain(self, rows, *more))[1]
    )
    rng = np.random.default_rng(0)
    means, stds = rng.normal(0, 1, (100, 900)), rng.uniform(0.5, 1, (100, 900))
    center, spread = moments(means, stds, np.full((100, 1), 0.01))
    levels = [0.05, 0.5, 0.95]
    found = mixture_quantiles(means, stds, levels, center, spread)
    assert sum(evaluated) <= 3 * 900 * len(levels)
    some = slice(700, 707)
    alone = mixture_quantiles(means[:, some], stds[:, some], levels, center[some], spread[some])
    np.testing.assert_array_equal(alone, found[:, some])


def test_in_a_stretch_without_probability_any_value_is_a_quantile():
    means, stds = np.array([[0.0], [1.0]]), np.full((2, 1), 1e-4)
    (median,) = mixture_quantiles(means, stds, [0.5], np.array([0.5]), np.array([0.5]))[0]
    assert 0 < median < 1


@pytest.mark.parametrize("noise", ["constant", "student-t", "gp", "gp-student-t"])
def test_quantiles_of_models_given_outputs_and_transformed(noise: str):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(9, 2, generator=generator, dtype=torch.float64)
    model = perturbed(build("n-mogp", x, 2, generator, num_latents=2, num_hidden=3, noise=noise), generator, 0.3)
    plain = predict(model, x, 21, generator)
    known = np.full(plain.mean.shape, np.nan)
    known[:4, 0] = 0.3
    for prediction in (plain, plain.given(known)):
        check(prediction)
        warped = Warped(prediction, Transforms((Log(), Log())))
        np.testing.assert_allclose(warped.quantiles(LEVELS), np.exp(prediction.quantiles(LEVELS)), rtol=1e-9)


def check(prediction: Prediction) -> None:
    flat = (len(prediction.component_mean), -1)
    means, stds = prediction.component_mean.reshape(flat), np.sqrt(prediction.component_var).reshape(flat)
    equal = np.full((len(means), 1), 1 / len(means))
    for level, values in zip(LEVELS, prediction.quantiles(LEVELS), strict=True):
        np.testing.assert_allclose(values.reshape(-1), bisected(means, stds, level, equal), rtol=1e-9, atol=1e-12)
