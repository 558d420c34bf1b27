"""Starts at a maximum of the posterior density: what they reach, and which models have them."""

import numpy as np
import pytest
import torch

import mogul
from mogul.config import TrainingConfig
from mogul.data import Batch
from mogul.models import build
from mogul.nonlinearities import SoftSquare
from mogul.training.map_start import has_map_start, start_at_map


def radial(num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three noisy copies of cos(4‖x‖), with no row near its peak at the origin."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal((num_rows, 2))
    radius = np.sqrt(rng.uniform(0.15**2, 1, num_rows))
    x = direction / np.linalg.norm(direction, axis=1, keepdims=True) * radius[:, None]
    return x, np.cos(4 * radius)[:, None] + 0.05 * rng.standard_normal((num_rows, 3))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_peak_between_rows_is_found_without_gradient_steps(seed: int):
    x, y = radial(250, seed)
    config = TrainingConfig(start="map", epochs=1, num_starts=1, learning_rate=1e-6, seed=seed)
    options = {"num_latents": 2, "num_inducing": 50, "num_hidden": 6, "nonlinearity": SoftSquare()}
    fitted = mogul.fit(x, y, model="n-mogp", config=config, mean="paper", noise="constant", **options)
    new, _ = radial(200, seed + 10)
    truth = np.cos(4 * np.linalg.norm(new, axis=1))[:, None]
    assert np.sqrt(np.mean((fitted.predict(new).mean - truth) ** 2)) < 0.03
    assert fitted.predict(np.zeros((1, 2))).mean == pytest.approx(np.ones((1, 3)), abs=0.15)


def test_missing_outputs_have_no_part_in_it():
    x, y = (torch.as_tensor(part) for part in radial(60, 0))
    observed = torch.ones_like(y, dtype=torch.bool)
    observed[::3, 1] = False
    found = []
    for value in (0.0, 100.0):
        generator = torch.Generator().manual_seed(0)
        model = build("n-mogp", x, 3, generator, num_latents=1, num_inducing=20, num_hidden=4)
        filled = torch.where(observed, y, value)
        start_at_map(model, Batch(x, filled, observed, torch.arange(60)), 1, generator)
        found.append(model.head.mixing.mean.detach())
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


@pytest.mark.parametrize(("name", "has"), [("n-mogp", True), ("mogp", False), ("gprn", False), ("n-dgp", False)])
def test_models_with_hidden_units_on_one_layer_of_gps_have_it(name: str, has: bool):
    model = build(name, torch.randn(12, 2, dtype=torch.float64), 3, torch.Generator())
    assert has_map_start(model) is has
