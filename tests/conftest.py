"""Every shape in a signature of mogul is checked while the tests run, but for a few long fits and for later epochs."""

import pkgutil
from collections.abc import Iterator
from functools import wraps
from importlib import import_module
from typing import Any
from unittest.mock import patch

import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook

with install_import_hook("mogul", "beartype.beartype"):
    import mogul

    # mogul imports its rooms when they are first used: here, so that the hook sees each of them.
    for found in pkgutil.walk_packages(mogul.__path__, "mogul."):
        import_module(found.name)

from mogul import registry
from mogul.training import Run


@pytest.fixture(autouse=True)
def _shapes_of_long_fits_go_unchecked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that coverage does not trace run the lines of others many times: checking them doubles their time."""
    if request.node.get_closest_marker("no_cover"):
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="session", autouse=True)
def _shapes_are_checked_in_the_first_epoch_of_a_run() -> Iterator[None]:
    """Later epochs do the same to the same rows: checking them too doubles the time of most fits."""
    step = Run.step

    @wraps(step)
    def unchecked_later(run: Run, *rest: Any) -> Any:
        before = jaxtyping.config.jaxtyping_disable
        jaxtyping.config.jaxtyping_disable = before or bool(run.records)
        try:
            return step(run, *rest)
        finally:
            jaxtyping.config.jaxtyping_disable = before

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "step", unchecked_later)
        yield


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
