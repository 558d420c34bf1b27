"""Every shape in a signature of mogul is checked while the tests run, but for a few long fits and for repetitions."""

import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from itertools import count
from typing import Any
from unittest.mock import patch

import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook
from scipy.optimize import minimize

with install_import_hook("mogul", "beartype.beartype"):
    import mogul

    # mogul imports its rooms when they are first used: here, so that the hook sees each of them.
    MODULES = [import_module(found.name) for found in pkgutil.walk_packages(mogul.__path__, "mogul.")]

from mogul import registry
from mogul.prediction import importance
from mogul.training import Run
from mogul.training.exact import fit_exact_gp


@pytest.fixture(autouse=True)
def _shapes_of_long_fits_go_unchecked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that coverage does not trace run the lines of others many times: checking them doubles their time."""
    if request.node.get_closest_marker("no_cover"):
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="session", autouse=True)
def _repetitions_go_unwatched() -> Iterator[None]:
    """Epochs after the first, and later values of what L-BFGS minimises, do the same to the same rows.

    Checking their shapes doubles the time of most fits, and tracing their lines for coverage nearly doubles it again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "step", _quiet_if(lambda run, *_: bool(run.records), Run.step, checked=False))
        _replace(patch, minimize, _minimize)
        yield


@pytest.fixture(autouse=True)
def _later_searches_go_untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two exact GPs and densities by importance sampling of a test are traced, and most have many more."""
    for function in (fit_exact_gp, importance.log_density):
        _replace(monkeypatch, function, _quiet_if(_after_two_calls(), function))


def _replace(patch: pytest.MonkeyPatch, function: Callable[..., Any], other: Callable[..., Any]) -> None:
    """In each module of mogul that has the function."""
    for module in MODULES:
        if vars(module).get(function.__name__) is function:
            patch.setattr(module, function.__name__, other)


def _minimize(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """SciPy's `minimize`, with the first two values of the function watched."""
    return minimize(_quiet_if(_after_two_calls(), function, checked=False), *arguments, **named)


def _after_two_calls() -> Callable[..., bool]:
    calls = count()
    return lambda *_, **__: next(calls) > 1


def _quiet_if(
    repeated: Callable[..., bool], function: Callable[..., Any], *, checked: bool = True
) -> Callable[..., Any]:
    """The function; where arguments are `repeated`, without tracing its lines, and its shapes only if `checked`."""

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        if not repeated(*arguments, **named):
            return function(*arguments, **named)
        unchecked, trace = jaxtyping.config.jaxtyping_disable, sys.gettrace()
        jaxtyping.config.jaxtyping_disable = unchecked or not checked
        sys.settrace(None)
        try:
            return function(*arguments, **named)
        finally:
            sys.settrace(trace)
            jaxtyping.config.jaxtyping_disable = unchecked

    return called


@pytest.fixture(autouse=True)
def _parts_of_a_test_are_forgotten() -> Iterator[None]:
    """Parts that a test registers are not there for the next one."""
    with patch.dict(registry._parts), patch.dict(registry._options):
        yield


@pytest.fixture
def as_a_user_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users have no shape checker in front of our own checks: an argument may be anything."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def botorch_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """BoTorch would compile a kernel of its own on first use."""
    monkeypatch.setattr("botorch.acquisition.multi_objective.logei._load_attempted", True)


@pytest.fixture
def generator() -> torch.Generator:
    """A fresh generator with a fixed seed."""
    return torch.Generator().manual_seed(0)
