"""Every shape in a signature of mogul is checked while the tests run, but for a few long fits."""

import pkgutil
from importlib import import_module

import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook

with install_import_hook("mogul", "beartype.beartype"):
    import mogul

    # mogul imports its rooms when they are first used: here, so that the hook sees each of them.
    for found in pkgutil.walk_packages(mogul.__path__, "mogul."):
        import_module(found.name)


@pytest.fixture(autouse=True)
def _shapes_of_long_fits_go_unchecked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that coverage does not trace run the lines of others many times: checking them doubles their time."""
    if request.node.get_closest_marker("no_cover"):
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


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
