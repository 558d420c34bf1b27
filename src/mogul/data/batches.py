"""Rows as tensors, whole or in minibatches."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Some rows: inputs, outputs with zero for what is missing, what is observed, and which rows they are."""

    x: Float[Tensor, "N D"]
    y: Float[Tensor, "N P"]
    observed: Bool[Tensor, "N P"]
    index: Int[Tensor, "N"]

    @staticmethod
    def of(x: Float[Tensor, "N D"], y: Float[Tensor, "N P"]) -> "Batch":
        """All rows; NaN in y is a missing output, replaced here once: a masked NaN would still poison a gradient."""
        observed = ~torch.isnan(y)
        return Batch(x, torch.where(observed, y, 0.0), observed, torch.arange(len(y), device=y.device))

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, index: Int[Tensor, "B"]) -> "Batch":
        """The rows at these places."""
        return Batch(self.x[index], self.y[index], self.observed[index], self.index[index])

    def minibatches(self, size: int, generator: torch.Generator) -> Iterator["Batch"]:
        """One pass over the rows in random order; the last batch may be smaller."""
        order = torch.randperm(len(self), generator=generator, device=generator.device)
        for first in range(0, len(order), size):
            yield self.rows(order[first : first + size])
