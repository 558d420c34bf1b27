"""Rows as tensors, whole or in minibatches."""

import math
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

    def pieces(self, size: int) -> Iterator["Batch"]:
        """The rows in their order, at most `size` at a time."""
        if len(self) <= size:
            yield self
            return
        for index in torch.arange(len(self)).tensor_split(math.ceil(len(self) / size)):
            yield self.rows(index)

    def minibatches(self, size: int, generator: torch.Generator) -> Iterator["Batch"]:
        """One pass over the rows in random order, in batches of at most `size` rows that differ by one at most.

        A small last batch would weigh each of its rows like many of the others.
        """
        order = torch.randperm(len(self), generator=generator, device=generator.device)
        for index in order.tensor_split(math.ceil(len(order) / size)):
            yield self.rows(index)
