"""Parameters away from their starts, where symmetries and zeros would hide mistakes."""

from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def perturbed(module: Module, generator: torch.Generator, scale: float) -> Module:
    """The module itself, with Normal noise of this standard deviation on each parameter."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return module
