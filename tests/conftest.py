"""Every shape in a signature of mogul is checked while the tests run."""

import pkgutil
from importlib import import_module

import pytest
import torch
from jaxtyping import install_import_hook

with install_import_hook("mogul", "beartype.beartype"):
    import mogul

    # mogul imports its rooms when they are first used: here, so that the hook sees each of them.
    for found in pkgutil.walk_packages(mogul.__path__, "mogul."):
        import_module(found.name)


@pytest.fixture
def generator() -> torch.Generator:
    """A fresh generator with a fixed seed."""
    return torch.Generator().manual_seed(0)
