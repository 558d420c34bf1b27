"""Standard Normal numbers, the same at each call."""

import torch


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Of this shape, in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
