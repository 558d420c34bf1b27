"""GPRN's latent and mixing GPs on one set of inducing points, as in the paper."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.helpers.small_models import small_batch, small_model

import mogul
from mogul.objective import Analytic, Elbo
from mogul.training import TrainingConfig

SIZES = {"num_latents": 2, "num_inducing": 6, "num_mixing_inducing": 4}


def points(model):
    return model.prior.inducing_points, model.head.mixing.gps.inducing_points


@pytest.mark.parametrize("name", ["gprn", "dk-gprn", "gprn-lvm"])
def test_both_kinds_of_gps_have_the_latent_ones(name):
    first, second = points(small_model(name, shared_inducing=True))
    assert first is second
    assert first.shape == (6, 2)
    own = points(small_model(name))
    assert own[0] is not own[1]
    assert own[1].shape[0] == 4


def test_the_gradient_is_the_sum_of_those_of_two_sets_at_the_same_places():
    """d/dz g(z, z) = ∂₁g + ∂₂g."""
    shared, apart = small_model("gprn", shared_inducing=True), small_model("gprn", num_mixing_inducing=6)
    # Every parameter but the points has the same name and shape in both.
    apart.load_state_dict(shared.state_dict())
    batch = small_batch()
    for model in (shared, apart):
        (-Elbo(Analytic(), num_data=len(batch))(model, batch, torch.Generator().manual_seed(0)).total()).backward()
    gradients = [each.grad for each in points(apart)]
    assert all(gradient.abs().max() > 0 for gradient in gradients)
    torch.testing.assert_close(points(shared)[0].grad, gradients[0] + gradients[1], rtol=1e-9, atol=1e-12)


def test_they_stay_one_set_through_training_and_a_file(tmp_path: Path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 3))
    config = TrainingConfig(epochs=2, num_starts=1)
    fitted = mogul.fit(x, y, model="gprn", config=config, shared_inducing=True, mean="paper", check=False, **SIZES)
    fitted.save(tmp_path / "model.mogul")
    loaded = mogul.load(tmp_path / "model.mogul")
    first, second = points(loaded.model)
    assert first is second
    assert torch.equal(first, points(fitted.model)[0])
