"""The encoder: q(x) of new rows without a search, and a second start of one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import mogul
from mogul import MultiOutputGPLVM
from mogul.config import InferenceConfig
from mogul.data import Batch
from mogul.errors import ConfigError
from mogul.fitted.encoder import Encoder
from mogul.fitted.fitted import FittedLatent
from mogul.fitted.latent import row_bounds
from mogul.models.model import Latent


@pytest.fixture(scope="module")
def waves() -> np.ndarray:
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 140)
    y = np.stack([np.cos(angle), np.sin(angle), np.cos(2 * angle), 2 * np.sin(angle), np.cos(angle + 1)], axis=1)
    return y + 0.02 * np.random.default_rng(1).standard_normal(y.shape)


@pytest.fixture(scope="module")
def gplvm(waves: np.ndarray) -> MultiOutputGPLVM:
    return MultiOutputGPLVM(2, num_inducing=15, num_starts=1, amortised=True, inference_steps=60).fit(waves[:100])


def bound(fitted: FittedLatent, latent: Latent, rows: Batch) -> torch.Tensor:
    """Each row's share of the ELBO, by draws that no search was judged by."""
    generator = torch.Generator().manual_seed(99)
    expectation = fitted.inference.expectation
    with torch.no_grad():
        draws = [row_bounds(fitted.model, latent, rows, expectation, generator) for _ in range(200)]
    return torch.stack(draws).mean(0)


def test_an_encoder_finds_the_mean_of_x_given_a_linear_y() -> None:
    """x ~ N(0, 1), y = (x, x) + N(0, 1): E[x | y₁] = y₁/2 with variance ½, E[x | y] = (y₁ + y₂)/3 with ⅓."""
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(4000, 1)))
    y = x + torch.as_tensor(rng.normal(size=(4000, 2)))
    # With point masses for q(xₙ), the least divergence is the posterior itself.
    encoder = Encoder.fit(Latent(x, scale=1e-6), Batch.of(torch.zeros(4000, 0).double(), y), seed=0, steps=500)
    new = torch.tensor([[1.5, 0.0], [-0.6, 0.3]], dtype=torch.float64)
    for known, mean, var in (
        ([1.0, 1.0], new.sum(1) / 3, 1 / 3),
        ([1.0, 0.0], new[:, 0] / 2, 1 / 2),
    ):
        found, log_scale = encoder(new, torch.tensor([known] * 2, dtype=torch.float64))
        torch.testing.assert_close(found[:, 0], mean, rtol=0, atol=0.2)
        torch.testing.assert_close((2 * log_scale[:, 0]).exp(), torch.full_like(mean, var), rtol=0.3, atol=0)


def test_missing_values_do_not_reach_the_net(gplvm: MultiOutputGPLVM, waves: np.ndarray) -> None:
    encoder, known = gplvm.fitted_.encoder, torch.tensor([[1.0, 0.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    assert encoder is not None
    y = torch.as_tensor(waves[:1])
    other = y.clone()
    other[0, 1] = 1e6
    assert torch.equal(encoder(y, known)[0], encoder(other, known)[0])


def test_a_search_with_an_encoder_is_never_worse_than_without(gplvm: MultiOutputGPLVM, waves: np.ndarray) -> None:
    holes = np.where(np.random.default_rng(3).random((40, 5)) < 0.4, np.nan, waves[100:])
    holes[:, 0] = waves[100:, 0]
    both = gplvm.fitted_
    alone = replace(both, encoder=None)
    rows = both._rows(holes)
    with_net, without = (bound(each, each.infer(holes), rows) for each in (both, alone))
    assert bool((with_net > without - 0.3).all())  # other draws than those they were judged by
    assert with_net.mean() >= without.mean()


def test_its_start_is_better_than_the_nearest_row_where_rows_are_whole(
    gplvm: MultiOutputGPLVM, waves: np.ndarray
) -> None:
    fitted = gplvm.fitted_
    rows = fitted._rows(waves[100:])
    nearest = replace(fitted, encoder=None, inference=InferenceConfig(steps=1, learning_rate=1e-9)).infer(waves[100:])
    assert bound(fitted, fitted.encode(waves[100:]), rows).mean() > bound(fitted, nearest, rows).mean()


def test_transform_is_the_encoders_and_takes_no_steps(
    gplvm: MultiOutputGPLVM, waves: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mogul.fitted.fitted.infer_inputs", None)
    positions = gplvm.transform(waves[100:])
    np.testing.assert_array_equal(positions, gplvm.fitted_.encode(waves[100:]).mean.detach().numpy())
    np.testing.assert_allclose(gplvm.transform(waves[100:103]), positions[:3], atol=1e-12)  # whatever the company
    assert np.abs(gplvm.inverse_transform(positions) - waves[100:]).mean() < 0.25 * waves.std()


def test_it_is_part_of_the_file(gplvm: MultiOutputGPLVM, waves: np.ndarray, tmp_path: Path) -> None:
    gplvm.fitted_.save(tmp_path / "model.mogul")
    loaded = mogul.load(tmp_path / "model.mogul")
    assert isinstance(loaded, FittedLatent)
    assert torch.equal(loaded.encode(waves).mean, gplvm.fitted_.encode(waves).mean)
    replace(gplvm.fitted_, encoder=None).save(tmp_path / "without.mogul")
    assert mogul.load(tmp_path / "without.mogul").encoder is None


def test_a_model_without_an_encoder_cannot_encode(gplvm: MultiOutputGPLVM, waves: np.ndarray) -> None:
    with pytest.raises(ConfigError, match=r"encode needs an encoder; .* Call amortised\(\)"):
        replace(gplvm.fitted_, encoder=None).encode(waves)


def test_the_same_seed_gives_the_same_encoder(gplvm: MultiOutputGPLVM) -> None:
    latent, rows = gplvm.fitted_.model.inputs, gplvm.fitted_.training
    first, again, other = (Encoder.fit(latent, rows, seed, steps=5).encode(rows).mean for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
