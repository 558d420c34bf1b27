"""Settings of training by steps, given where exact GPs leave nothing to train, are named in a warning."""

import warnings
from typing import Any

import numpy as np
import pytest

from mogul import MultiOutputGPRegressor, TrainingConfig, fit
from mogul.errors import MogulWarning
from mogul.fitted.mixture import FittedMixture
from mogul.training.defaults import from_exact_start

X = np.linspace(-2, 2, 30)[:, None]
Y = np.column_stack([np.sin(X[:, 0]), np.cos(2 * X[:, 0])]) + np.random.default_rng(0).normal(0, 0.1, (30, 2))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"epochs": 7}, "epochs=7"),
        ({"epochs": 7, "num_starts": 1, "learning_rate": 0.5}, "epochs=7, learning_rate=0.5, num_starts=1"),
        ({"config": TrainingConfig(start="exact", batch_size=9)}, "batch_size=9"),
        ({"config": lambda model: TrainingConfig(start="exact", epochs=9)}, "epochs=9"),
        ({"num_kept": 3}, "num_kept=3"),
    ],
)
def test_what_has_no_effect_is_named(given: dict[str, Any], named: str) -> None:
    with pytest.warns(MogulWarning) as caught:
        fitted = fit(X, Y, model="mogp", **given)
    assert [str(warning.message) for warning in caught] == [
        "Settings of training by steps have no effect on mogp, which exact GPs solve here; got "
        f"{named}. Leave them out, or train by steps: preset='paper', or config=TrainingConfig(start='random')."
    ]
    assert fitted.is_solved
    assert fitted.num_members == 1
    np.testing.assert_array_equal(fitted.predict(X).mean, fit(X, Y, model="mogp").predict(X).mean)


def test_the_regressor_says_so_too() -> None:
    with pytest.warns(MogulWarning, match=r"no effect on mogp, .*; got batch_size=11, num_starts=2"):
        MultiOutputGPRegressor("mogp", batch_size=11, num_starts=2).fit(X, Y)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"epochs": from_exact_start("mogp", 0, 30).epochs, "batch_size": 30},  # the default's
        {"config": from_exact_start("mogp", 0, 30)},
        {"config": TrainingConfig(start="exact", epochs=0, num_starts=3)},
        {"config": TrainingConfig(epochs=1, num_starts=1)},
        {"preset": "paper", "epochs": 1, "num_starts": 1},
        {"model": "n-mogp", "epochs": 1},
        {"model": "mogp+n-mogp", "epochs": 1},
    ],
)
def test_nothing_is_said_where_all_was_used_or_nothing_given(given: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(X, Y, **{"model": "mogp", "num_inducing": 5} | given)


def test_a_solved_member_of_a_mixture_keeps_its_weight() -> None:
    mixture = fit(X, Y, model="mogp+n-mogp", num_kept=2, epochs=1, num_inducing=5)
    assert isinstance(mixture, FittedMixture)
    assert [member.model_name for member in mixture.members] == ["mogp", "mogp", "n-mogp", "n-mogp"]
    assert mixture.members[0] is mixture.members[1]
