"""Predictions given outputs of the same rows: against brute force, closed forms and the chain rule."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from mogul import fit
from mogul.errors import ConfigError, DataError, ShapeError
from mogul.fitted.mixture import FittedMixture
from mogul.heads import NoiseCorrelation
from mogul.models import build
from mogul.models.model import Model
from mogul.prediction import Prediction, predict
from mogul.priors import IndependentGPs, randomise

NUM_OUTPUTS = 3
NOISES = ["constant", "net", "gp", "student-t", "gp-student-t", "low-rank"]
LOADINGS = torch.tensor([[0.8], [-0.7], [0.6]], dtype=torch.float64)


def planted(name: str, noise: str, *, correlated: bool = False) -> tuple[Model, torch.Tensor, np.ndarray]:
    """A tiny model with known posteriors, inputs, and outputs drawn from it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 2, generator=generator, dtype=torch.float64)
    sizes = {"num_inducing": 5, "num_noise_inducing": 5, "num_latents": 2}
    model = build(name, x, NUM_OUTPUTS, generator, noise=noise, **sizes).double().eval()
    model.requires_grad_(False)
    for module in model.modules():
        if isinstance(module, IndependentGPs):
            randomise(module, generator, spread=1.0, scale=0.3)
    if hasattr(model.head.mixing, "log_scale"):
        model.head.mixing.log_scale.fill_(-3.0)
    spread = model.components(x, 100, generator).mean.flatten(0, 1).std(0)
    model.head.noise.log_precision.copy_(-2 * torch.log(0.5 * spread))
    if noise == "low-rank":
        model.head.noise.loadings.copy_(spread[:, None] * torch.randn(3, 2, generator=generator, dtype=x.dtype))
    if correlated:
        model.head.correlation = NoiseCorrelation(LOADINGS)
    y = predict(model, x, 1, generator).sample(1, seed=1)[0]
    return model, x, y


def known_part(y: np.ndarray) -> np.ndarray:
    """Two outputs, one, or none known."""
    known = y.copy()
    known[:, 1] = np.nan
    known[3:5, 2] = np.nan
    known[5] = np.nan
    return known


def brute_force(model: Model, x: torch.Tensor, known: np.ndarray, num_draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation by weighted draws from the model as it is without anything known."""
    generator, rng = torch.Generator().manual_seed(5), np.random.default_rng(3)
    total, first, second = np.zeros(len(known)), np.zeros(known.shape), np.zeros(known.shape)
    for _ in range(num_draws // 2000):
        part = predict(model, x, 2000, generator)
        # With the scales that were drawn: a Normal for each component, conditioned by its own covariance.
        joint = part.joint
        diagonal = np.einsum("snp,pq->snpq", part.component_var, np.eye(NUM_OUTPUTS))
        if hasattr(joint, "noise_var"):
            shared = joint.loadings @ joint.loadings.T
            root = np.sqrt(joint.noise_var)
            cov = diagonal + root[..., None] * root[..., None, :] * (shared - np.diag(np.diag(shared)))
        else:
            cov = diagonal + joint.cross_cov(NUM_OUTPUTS)
        for row, values in enumerate(known):
            seen = ~np.isnan(values)
            inner = cov[:, row][:, seen][:, :, seen]
            gap = values[seen] - part.component_mean[:, row, seen]
            solved = np.linalg.solve(inner, gap[..., None])[..., 0]
            weight = np.exp(-0.5 * (gap * solved).sum(-1) - 0.5 * np.linalg.slogdet(inner)[1])
            across = cov[:, row][:, :, seen]
            mean = part.component_mean[:, row] + (across @ solved[..., None])[..., 0]
            var = part.component_var[:, row] - (across * np.linalg.solve(inner, across.swapaxes(1, 2)).swapaxes(1, 2)).sum(-1)
            total[row] += weight.sum()
            first[row] += weight @ mean
            second[row] += weight @ (var + mean**2)
    mean = first / total[:, None]
    del rng
    return mean, np.sqrt(np.maximum(second / total[:, None] - mean**2, 0))


@pytest.mark.parametrize("name", ["mogp", "n-sbgprn"])
@pytest.mark.parametrize(("noise", "correlated"), [(each, False) for each in NOISES] + [(each, True) for each in NOISES[:5]])
def test_it_equals_brute_force(name: str, noise: str, correlated: bool):
    model, x, y = planted(name, noise, correlated=correlated)
    known = known_part(y)
    plain = predict(model, x, 1000, torch.Generator().manual_seed(0))
    found = plain.given(known)
    mean, std = brute_force(model, x, known, 200_000)
    unknown = np.isnan(known)
    scale = plain.std[unknown]
    np.testing.assert_allclose((found.mean[unknown] - mean[unknown]) / scale, 0, atol=0.05)
    np.testing.assert_allclose(found.std[unknown] / std[unknown], 1, atol=0.08)
    # What components say is what the moments say.
    drawn = found.sample(20_000)
    np.testing.assert_allclose((drawn.mean(0) - found.mean)[unknown] / scale, 0, atol=0.1)
    np.testing.assert_allclose(np.median(drawn, axis=0)[unknown], found.quantiles([0.5])[0][unknown], atol=0.1 * scale.max())
