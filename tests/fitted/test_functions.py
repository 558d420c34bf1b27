"""Draws of fitted models as tensors: the laws of sample_functions, predict and sample_noise."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.helpers.random_models import NUM_INPUTS, NUM_OUTPUTS, random_model

from mogul.data import Scaling, Standardiser
from mogul.data.checks import numbered_names
from mogul.errors import ConfigError, ShapeError
from mogul.fitted.calibration import Calibration
from mogul.fitted.fitted import Fitted
from mogul.fitted.functions import FunctionDraws
from mogul.fitted.history import History
from mogul.fitted.mixture import FittedMixture
from mogul.models import names

NUM_DRAWS = 4000
X = np.arange(1.0, NUM_INPUTS + 1) + np.random.default_rng(0).normal(size=(3, NUM_INPUTS))


def fitted_of(name: str, **options: object) -> Fitted:
    units = (Standardiser(np.arange(1.0, n + 1), np.linspace(0.5, 2, n)) for n in (NUM_INPUTS, NUM_OUTPUTS))
    columns = numbered_names("x", NUM_INPUTS), numbered_names("y", NUM_OUTPUTS)
    return Fitted(random_model(name, **options), Scaling(*units), *columns, History((), 0))


def assert_same_law(draws, others):
    spread = others.std()
    rows, other_rows = (part.reshape(len(part), -1) for part in (draws, others))
    assert np.abs(rows.mean(0) - other_rows.mean(0)).max() < 0.1 * spread
    assert np.abs(np.cov(rows.T) - np.cov(other_rows.T)).max() < 0.1 * spread**2


@pytest.mark.parametrize("name", [name for name in names() if not name.startswith("dk-") and "lvm" not in name])
def test_functions_have_the_law_of_sample_functions(name):
    fitted = fitted_of(name)
    draws = fitted.draw_functions(NUM_DRAWS, seed=1)(torch.as_tensor(X))
    assert_same_law(draws.numpy(), fitted.sample_functions(X, NUM_DRAWS))


@pytest.mark.parametrize("name", ["mogp", "n-sbgprn", "dgp"])
def test_fresh_draws_have_the_marginals_of_sample_functions(name):
    fitted = fitted_of(name)
    draws = FunctionDraws.of(fitted, NUM_DRAWS, 1, "marginals").marginals(torch.as_tensor(X), torch.Generator())
    others = fitted.sample_functions(X, NUM_DRAWS)
    assert np.abs(draws.numpy().mean(0) - others.mean(0)).max() < 0.1 * others.std()
    assert np.abs(draws.numpy().std(0) / others.std(0) - 1).max() < 0.1


@pytest.mark.parametrize("noise", ["constant", "gp", "student-t", "low-rank"])
def test_noise_has_the_law_of_sample_noise(noise):
    fitted = fitted_of("mogp", noise=noise)
    with torch.no_grad():
        draws = fitted.draw_functions(NUM_DRAWS, seed=1).noise(torch.as_tensor(X), torch.Generator()).numpy()
    others = fitted.sample_noise(X, NUM_DRAWS)
    for level in (0.1, 0.25, 0.75, 0.9):  # not moments: Student-t has few
        ours, theirs = np.quantile(draws, level, axis=0), np.quantile(others, level, axis=0)
        assert np.abs(ours - theirs).max() < 0.15 * np.abs(theirs).max()
    ours, theirs = (np.corrcoef(np.sign(part[:, 0]).T) for part in (draws, others))
    assert np.abs(ours - theirs).max() < 0.1


def test_draws_of_a_mixture_belong_to_its_members_in_turn():
    first, second = fitted_of("mogp"), fitted_of("n-mogp")
    both = FittedMixture.of([first, second]).draw_functions(NUM_DRAWS)(torch.as_tensor(X)).numpy()
    assert_same_law(both[0::2], first.sample_functions(X, NUM_DRAWS // 2))
    assert_same_law(both[1::2], second.sample_functions(X, NUM_DRAWS // 2))


def test_calibration_stretches_functions_and_noise():
    plain = fitted_of("mogp")
    rows = np.ones((12, NUM_OUTPUTS))
    stretched = replace(plain, calibration=Calibration(np.full(NUM_OUTPUTS, 3.0), rows, np.arange(12)))
    draws = [fitted.draw_functions(50)(torch.as_tensor(X)).numpy() for fitted in (plain, stretched)]
    mean = plain.predict(X).mean
    np.testing.assert_allclose(draws[1] - mean, 3 * (draws[0] - mean), rtol=1e-4, atol=1e-6)


def test_draws_are_differentiable_in_x():
    functions = fitted_of("n-sbgprn").draw_functions(3)
    x = torch.as_tensor(X).expand(3, *X.shape).clone()
    assert torch.autograd.gradcheck(functions, x.requires_grad_(), atol=1e-4)


def test_wrong_points_are_refused():
    with pytest.raises(ShapeError, match="Give each draw its points"):
        fitted_of("mogp").draw_functions(3)(torch.zeros(2, 1, NUM_INPUTS))
    with pytest.raises(ConfigError, match="num_draws"):
        fitted_of("mogp").draw_functions(0)
