"""Every shape in a signature of mogul is checked while the tests run."""

from jaxtyping import install_import_hook

with install_import_hook("mogul", "beartype.beartype"):
    import mogul  # noqa: F401  # imported for the hook's effect; must come before any test module

import pytest
import torch


@pytest.fixture
def generator() -> torch.Generator:
    """A fresh generator with a fixed seed."""
    return torch.Generator().manual_seed(0)
