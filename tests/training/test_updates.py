"""Closed-form noise: towards the optimum of the bound, and never past what is observed."""

import pytest
import torch

from mogul.data import Batch
from mogul.errors import ConfigError, UnknownNameError
from mogul.models import build
from mogul.objective import Analytic, Elbo, MonteCarlo
from mogul.training import NoiseUpdate, Run, TrainingConfig
from mogul.training.presets import preset


def rows(missing: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(20, 3, generator=generator, dtype=torch.float64) * torch.tensor([0.5, 1.0, 2.0]).double()
    if missing:
        y[:9, 1] = torch.nan
    return Batch.of(x, y)


def model_for(batch: Batch, name: str = "n-mogp"):
    return build(name, batch.x, 3, torch.Generator().manual_seed(1), num_inducing=8, num_top_inducing=6)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["mogp", "n-mogp", "n-sbgprn", "dgp"])
def test_a_full_update_is_the_optimum_of_the_bound(name, missing):
    batch = rows(missing)
    model, elbo = model_for(batch, name), Elbo(Analytic(num_samples=3), num_data=20)
    terms = elbo(model, batch, torch.Generator().manual_seed(2))
    NoiseUpdate(rate=1.0).apply(model, batch, terms)
    after = elbo(model, batch, torch.Generator().manual_seed(2))
    assert after.total() > terms.total()
    (gradient,) = torch.autograd.grad(after.ell, model.head.noise.log_precision)
    torch.testing.assert_close(gradient, torch.zeros(3).double(), rtol=0, atol=1e-9)


def test_an_output_that_the_batch_lacks_keeps_its_noise():
    batch = rows()
    batch.observed[:, 2] = False
    model = model_for(batch)
    terms = Elbo(Analytic(), num_data=20)(model, batch, torch.Generator())
    before = model.head.noise.var.detach().clone()
    NoiseUpdate(rate=0.5).apply(model, batch, terms)
    assert model.head.noise.var[2] == before[2]
    assert (model.head.noise.var[:2] != before[:2]).all()


def test_the_optimiser_leaves_the_noise_to_the_update():
    batch = rows()
    config = TrainingConfig(epochs=1, batch_size=20, learning_rate=0.5, updates=(NoiseUpdate(rate=1e-12),))
    run = Run(model_for(batch), batch, config, torch.Generator().manual_seed(3))
    before = run.model.head.noise.var.detach().clone()
    run.train(1, lambda record: None)
    torch.testing.assert_close(run.model.head.noise.var.detach(), before)


@pytest.mark.parametrize("rate", [0.0, 1.5])
def test_a_rate_outside_its_range_is_refused(rate):
    with pytest.raises(ConfigError, match=r"rate must be in \(0, 1\]; got"):
        NoiseUpdate(rate=rate)


@pytest.mark.parametrize(
    ("model", "expectation"),
    [
        ("mogp", MonteCarlo(250)),
        ("dk-n-sbgprn", MonteCarlo(250)),
        ("dgp", MonteCarlo(5)),
        ("n-dgp", MonteCarlo(5)),
        ("gprn", Analytic()),
        ("n-mogp-lvm", Analytic()),
        ("dgp-lvm", Analytic(5)),
    ],
)
def test_the_papers_protocol(model, expectation):
    config = preset("paper", model, seed=4)
    assert config.expectation == expectation
    assert (config.epochs, config.num_starts, config.updates, config.seed) == (250, 5, (), 4)
    assert 0.01 <= config.learning_rate <= 0.05
    deep = "dgp" in model
    assert (config.batch_size, config.anneal_epochs) == ((1000, 20) if deep else (500, 0))


def test_an_unknown_preset_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'paper'"):
        preset("papre", "mogp")
