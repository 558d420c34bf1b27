"""Models with latent inputs start at the collapsed bound's maximum, and mogp-lvm ends there."""

import numpy as np
import pytest
import torch

import mogul
from mogul import models
from mogul.data import Batch
from mogul.objective import Analytic, Elbo
from mogul.training.collapsed import CollapsedGPLVM
from mogul.training.defaults import preset
from mogul.training.latent_start import LatentStart


def curve(num_rows: int = 60, share: float = 0.0) -> np.ndarray:
    """A noisy curve in five dimensions, with gaps."""
    rng = np.random.default_rng(0)
    place = rng.uniform(-2, 2, num_rows)
    y = np.stack([np.sin(place), np.cos(2 * place), place, place**2, np.tanh(3 * place)], 1)
    y = (y - y.mean(0)) / y.std(0) + 0.05 * rng.standard_normal(y.shape)
    y[rng.random(y.shape) < share] = np.nan
    return y


@pytest.fixture(scope="module", params=[0.0, 0.2], ids=["complete", "gaps"])
def start(request: pytest.FixtureRequest) -> LatentStart:
    batch = Batch.of(torch.zeros(60, 0), torch.as_tensor(curve(share=request.param)))
    return LatentStart.of(batch, num_inputs=2, num_inducing=15, num_starts=1, seed=0)


def built(start: LatentStart, name: str, **options: object) -> models.Model:
    generator = torch.Generator().manual_seed(0)
    given = {"inducing_points": start.inducing_points, "num_latents": 5, "ard": True, **options}
    model = models.build(name, start.gplvm.mean, 5, generator, **given)
    start.apply(model, generator)
    return model


def test_the_elbo_of_mogp_is_the_collapsed_bound(start: LatentStart) -> None:
    """Given M: the bound has no q(M)."""
    model = built(start, "mogp-lvm")
    assert start.solves(model)
    elbo, generator = Elbo(Analytic(), num_data=60), torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.head.mixing.log_scale.fill_(-20.0)
        each = [elbo(model, start.batch, generator) for _ in range(100)]
        found = np.array([float(terms.ell - terms.kl_local - model.prior.kl()) for terms in each])
    assert found.mean() == pytest.approx(start.gplvm.bound(start.batch).item(), abs=4 * found.std() / 10)


@pytest.mark.parametrize("name", ["n-mogp-lvm", "n-sbgprn-lvm", "gprn-lvm", "dgp-lvm", "dk-mogp-lvm"])
def test_other_models_start_where_they_explain_the_rows(start: LatentStart, name: str) -> None:
    model = built(start, name, **({} if "gprn-lvm" in name or "n-" not in name else {"num_hidden": 10}))
    assert not start.solves(model)
    with torch.no_grad():
        signal = model.moments(start.gplvm.mean, 1, torch.Generator().manual_seed(0)).mean
    left = (signal - start.batch.y)[start.batch.observed]
    # Outputs have unit variance; a deep GP has four functions for five outputs, and one draw of its first layer.
    assert float(left.square().mean()) < (0.5 if name == "dgp-lvm" else 0.1)


def test_mogp_takes_no_gradient_steps_and_the_seed_decides() -> None:
    fits = [mogul.fit(None, curve(30), model="mogp-lvm", num_inputs=2, num_inducing=8, num_starts=2) for _ in range(2)]
    assert len(fits[0].history.elbo) == 1
    assert fits[0].is_solved
    np.testing.assert_array_equal(fits[0].latent_means, fits[1].latent_means)


def test_inputs_that_are_not_needed_switch_off() -> None:
    gplvm = mogul.MultiOutputGPLVM(3, num_inducing=15, num_starts=1).fit(curve(100))
    assert gplvm.relevance_.max() == 1
    assert gplvm.relevance_.min() < 1e-3
    shared = mogul.MultiOutputGPLVM(3, num_inducing=15, num_starts=1, options={"ard": False}).fit(curve(30))
    np.testing.assert_array_equal(shared.relevance_, 1)


def test_rows_beyond_those_of_the_bound_are_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mogul.training.latent_start._MOST_ROWS", 60)
    batch = Batch.of(torch.zeros(200, 0), torch.as_tensor(curve(200)))
    start = LatentStart.of(batch, num_inputs=1, num_inducing=15, num_starts=2, seed=0)
    mean, _ = start.gplvm.posterior(start.batch).moments(start.gplvm)
    assert start.gplvm.mean.shape == (200, 1)
    assert float((mean - batch.y).square().mean()) < 0.05


def test_the_paper_starts_at_principal_components() -> None:
    assert preset("paper", "mogp-lvm").start == "random"
    assert preset("default", "mogp-lvm").start == preset("default", "n-mogp-lvm", num_rows=9000).start == "exact"


def test_further_inducing_points_are_added() -> None:
    batch = Batch.of(torch.zeros(60, 0), torch.as_tensor(curve()))
    start = LatentStart.of(batch, num_inputs=1, num_inducing=55, num_starts=1, seed=0)
    assert len(start.inducing_points) == 55
    assert isinstance(start.gplvm, CollapsedGPLVM)


def test_rows_without_noise_have_a_start() -> None:
    y = np.sin(np.linspace(0, 6, 20)[:, None] + np.arange(4))
    fitted = mogul.fit(None, y, model="mogp-lvm", num_inputs=2, num_inducing=10, num_starts=1)
    assert np.isfinite(fitted.history.elbo[-1])
    np.testing.assert_allclose(fitted.predict(fitted.latent_means).mean, y, atol=0.05)
