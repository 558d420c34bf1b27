"""What a backward pass must have left behind."""

import torch
from torch import nn


def assert_finite_nonzero_gradients(module: nn.Module, *, everywhere: bool = False) -> None:
    """Every parameter has a finite gradient that is not zero: somewhere, or in each of its numbers."""
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        nonzero = parameter.grad != 0
        assert nonzero.all() if everywhere else nonzero.any(), name
