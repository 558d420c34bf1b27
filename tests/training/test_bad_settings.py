"""Sizes, names and settings that cannot be end in an error that says the rule, the value found and the remedy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.refusals import INF, NAN, X, Y, check_refusal, prediction

from mogul import nonlinearities
from mogul.data import Dataset
from mogul.errors import ConfigError, UnknownNameError
from mogul.metrics import nested_log_density
from mogul.models import build
from mogul.objective import Analytic, Elbo, MonteCarlo
from mogul.priors import IndependentGPs, rbf
from mogul.training import TrainingConfig, fit

pytestmark = pytest.mark.usefixtures("as_a_user_calls")


def model(name: str = "n-mogp", num_outputs: Any = 2, **options: Any) -> object:
    return build(name, torch.as_tensor(X), num_outputs, torch.Generator(), **options)


SIZES: dict[str, Callable[[Any], object]] = {
    "num_outputs": lambda size: model(num_outputs=size),
    "num_latents": lambda size: model(num_latents=size),
    "num_hidden": lambda size: model(num_hidden=size),
    "num_inducing": lambda size: model(num_inducing=size),
    "num_data": lambda size: Elbo(Analytic(), num_data=size),
    "Analytic num_samples": lambda size: Analytic(size),
    "MonteCarlo num_samples": lambda size: MonteCarlo(num_samples=size),
    "epochs": lambda size: TrainingConfig(epochs=size),
    "batch_size": lambda size: TrainingConfig(batch_size=size),
    "num_starts": lambda size: TrainingConfig(num_starts=size),
    "start_epochs": lambda size: TrainingConfig(start_epochs=size),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("size", [0, -3, True, False, 2.0, 1.5, "2", None], ids=repr)
def test_a_size_must_be_a_positive_whole_number(name, size):
    if size is None and name in {"num_latents", "num_hidden", "num_inducing"}:
        assert SIZES[name](size) is not None, "None stands for the default"
        return
    whole = isinstance(size, int) and not isinstance(size, bool)
    rule = f"{name.split()[-1]} must be " + ("at least 1" if whole else "a whole number")
    check_refusal(lambda: SIZES[name](size), ConfigError, rule, f"got {size!r}", "Pass a")


@pytest.mark.parametrize("name", SIZES)
def test_a_size_of_one_is_allowed(name):
    assert SIZES[name](1) is not None


def gps(mean: str) -> IndependentGPs:
    return IndependentGPs(rbf(2, 1), torch.as_tensor(X), 1, mean=mean)


BAD_NAMES = {
    "model": (
        lambda: model("n-mogq"),
        "model must be one of mogp, gprn",
        "'n-mogq'",
        "Did you mean 'n-mogp', 'dk-n-mogp' or",
    ),
    "model of fit": (
        lambda: fit(Dataset(X, Y), model="MOGP "),
        "model must be one of mogp",
        "'MOGP '",
        "Use one of the list",
    ),
    "far from any": (
        lambda: model("transformer"),
        "model must be one of",
        "'transformer'",
        "Did you mean 'n-sbgprn-lvm'",
    ),
    "nonlinearity": (
        lambda: nonlinearities.by_name("sheerf"),
        "nonlinearity must be one of erf, sherf, relu, leaky",
        "'sheerf'",
        "Did you mean 'sherf'?",
    ),
    "nonlinearity of build": (
        lambda: model(nonlinearity="rely"),
        "nonlinearity must be one of",
        "'rely'",
        "Did you mean 'relu'?",
    ),
    "nonlinearity of a model without one": (
        lambda: model("mogp", nonlinearity="rely"),
        "nonlinearity must be one of",
        "'rely'",
        "Did you mean 'relu'?",
    ),
    "precision": (
        lambda: TrainingConfig(precision="flaot32"),
        "precision must be one of float32, float64",
        "'flaot32'",
        "Did you mean 'float32'?",
    ),
    "mean": (lambda: gps("constent"), "mean must be one of zero, constant", "'constent'", "Did you mean 'constant'?"),
}


@pytest.mark.parametrize("case", BAD_NAMES.values(), ids=BAD_NAMES)
def test_an_unknown_name_gets_the_list_and_a_suggestion(case):
    call, *parts = case
    check_refusal(call, UnknownNameError, *parts)


@pytest.mark.parametrize(
    "call",
    [lambda: TrainingConfig(precision=torch.float32), lambda: TrainingConfig(precision=32), lambda: model(None)],
    ids=["dtype", "bits", "no model"],
)
def test_a_name_of_another_type_is_an_unknown_name(call):
    check_refusal(call, UnknownNameError, "must be one of", "got", ".")


@pytest.mark.parametrize("nonlinearity", ["", 3])
def test_a_nonlinearity_must_be_a_known_name_or_a_nonlinearity(nonlinearity):
    check_refusal(
        lambda: model(nonlinearity=nonlinearity), UnknownNameError, "nonlinearity must be", repr(nonlinearity), "Use"
    )


BAD_SETTINGS = {
    "anneal_epochs": (lambda: TrainingConfig(anneal_epochs=-1), "anneal_epochs must be at least 0", "-1", "0 turns"),
    "no rate": (lambda: TrainingConfig(learning_rate=0.0), "learning_rate must be positive", "0.0", "Try 0.03"),
    "negative rate": (lambda: TrainingConfig(learning_rate=-0.1), "learning_rate must be positive", "-0.1", "Try"),
    "NaN rate": (lambda: TrainingConfig(learning_rate=NAN), "learning_rate must be positive", "nan", "Try 0.03"),
    "no decay": (lambda: TrainingConfig(decay=0.0), "decay must be in (0, 1]", "0.0", "1 keeps"),
    "growth": (lambda: TrainingConfig(decay=1.1), "decay must be in (0, 1]", "1.1", "1 keeps"),
    "milestone 0": (lambda: TrainingConfig(milestones=(0.0, 0.5)), "milestones must be shares", "(0.0, 0.5)", "Try"),
    "milestone 1": (lambda: TrainingConfig(milestones=(0.5, 1.0)), "milestones must be shares", "(0.5, 1.0)", "Try"),
    "milestone epoch": (lambda: TrainingConfig(milestones=(50,)), "milestones must be shares", "(50,)", "Try"),
    "level 0": (lambda: prediction().quantiles([0.5, 0.0]), "Each level must be between 0 and 1", "0.0", "median"),
    "level 1": (lambda: prediction().quantiles([1.0]), "Each level must be between 0 and 1", "1.0", "median is 0.5"),
    "level in percent": (lambda: prediction().quantiles([95]), "Each level must be between 0 and 1", "95", "median"),
    "level NaN": (lambda: prediction().quantiles([NAN]), "Each level must be between 0 and 1", "nan", "median"),
    "groups": (
        lambda: nested_log_density(prediction(4), np.zeros((3, 2)), num_outer=3),
        "a multiple of num_outer = 3",
        "got 4",
        "25 × 50",
    ),
}


@pytest.mark.parametrize("case", BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_a_setting_out_of_range_is_refused_with_a_remedy(case):
    call, *parts = case
    check_refusal(call, ConfigError, *parts)


@pytest.mark.parametrize(
    "options",
    [
        {"anneal_epochs": 2.5},
        {"anneal_epochs": True},
        {"learning_rate": INF},
        {"seed": 1.5},
        {"expectation": "analytic"},
    ],
    ids=str,
)
def test_a_setting_of_the_wrong_kind_is_refused_at_once(options):
    check_refusal(lambda: TrainingConfig(**options), ConfigError, next(iter(options)), "got", ".")


def test_no_levels_are_refused_with_a_remedy():
    check_refusal(lambda: prediction().quantiles([]), ConfigError, "level", "[]", "0.5")
