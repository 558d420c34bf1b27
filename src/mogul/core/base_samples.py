"""Standard Normal numbers for draws of whole functions: fresh ones from a generator, or given ones."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.core.moments import standard_normal
from mogul.errors import ShapeError


@runtime_checkable
class Normals(Protocol):
    """Source of standard Normal numbers for S draws over N points; each call returns new numbers."""

    def per_point(self, count: int) -> Float[Tensor, "S *B N K"]:
        """`count` numbers for each point of each draw."""
        ...

    def shared(self, count: int) -> Float[Tensor, "S *B 1 K"]:
        """`count` numbers for each draw, shared by all its points."""
        ...


@dataclass
class FreshNormals:
    """Numbers drawn when they are asked for.

    Args:
        x: the points of the draws: (N, D), or batches of them that are drawn independently.
        num_samples: the number S of draws.
        generator: draws the numbers.

    Example:
        >>> FreshNormals(torch.zeros(5, 2), 3, torch.Generator()).per_point(4).shape
        torch.Size([3, 5, 4])
    """

    x: Float[Tensor, "*B N D"]
    num_samples: int
    generator: torch.Generator
    taken: int = 0  # numbers for each point so far

    def per_point(self, count: int) -> Float[Tensor, "S *B N K"]:
        """`count` numbers for each point of each draw."""
        return self._draw(self.x.shape[-2], count)

    def shared(self, count: int) -> Float[Tensor, "S *B 1 K"]:
        """`count` numbers for each draw, shared by all its points."""
        return self._draw(1, count)

    def _draw(self, num_points: int, count: int) -> Tensor:
        self.taken += count
        shape = (self.num_samples, *self.x.shape[:-2], num_points, count)
        return standard_normal(shape, self.generator, like=self.x)


@dataclass
class GivenNormals:
    """Numbers given by the caller, used column by column: the same numbers give the same functions.

    Shared numbers are read from the first point. Draws at the first points therefore do not depend on later points:
    adding a point leaves the functions at the others unchanged.

    Args:
        numbers: one column for each number that a point of a draw needs.

    Example:
        >>> normals = GivenNormals(torch.arange(6.0).reshape(1, 2, 3))
        >>> normals.per_point(2).tolist(), normals.shared(1).tolist()
        ([[[0.0, 1.0], [3.0, 4.0]]], [[[2.0]]])
    """

    numbers: Float[Tensor, "S *B N K"]
    taken: int = 0

    def per_point(self, count: int) -> Float[Tensor, "S *B N K"]:
        """The next columns."""
        first, self.taken = self.taken, self.taken + count
        if self.taken > self.numbers.shape[-1]:
            raise ShapeError(
                f"numbers must have a column for each number of a point; got {self.numbers.shape[-1]} where "
                f"{self.taken} or more are needed. Count them with FreshNormals."
            )
        return self.numbers[..., first : self.taken]

    def shared(self, count: int) -> Float[Tensor, "S *B 1 K"]:
        """The next columns of the first point."""
        return self.per_point(count)[..., :1, :]


@dataclass
class HeldNormals:
    """Shared numbers that are drawn once and come again in every evaluation; those of single points are always new.

    So a function that was drawn is the same function wherever it is evaluated next.

    Args:
        num_samples: the number S of draws.
        generator: draws the numbers.
        like: precision and device.

    Example:
        >>> held = HeldNormals(3, torch.Generator(), like=torch.zeros(()))
        >>> first, again = held.at(5).shared(2), held.at(4).shared(2)
        >>> first.shape, bool((first == again).all())
        (torch.Size([3, 1, 2]), True)
    """

    num_samples: int
    generator: torch.Generator
    like: Tensor
    held: list[Tensor] = field(default_factory=list)
    num_points: int = 1
    of_points: torch.Generator | None = None
    taken: int = 0  # of the held ones, in this evaluation

    def at(self, num_points: int, generator: torch.Generator | None = None) -> "HeldNormals":
        """For an evaluation at so many points of each draw, from the first number on; the generator is for new ones."""
        self.num_points, self.taken, self.of_points = num_points, 0, generator
        return self

    def per_point(self, count: int) -> Float[Tensor, "S N K"]:
        """New numbers for each point of each draw."""
        shape = (self.num_samples, self.num_points, count)
        return standard_normal(shape, self.of_points or self.generator, like=self.like)

    def shared(self, count: int) -> Float[Tensor, "S 1 K"]:
        """The next numbers that all points of a draw share."""
        if self.taken == len(self.held):
            self.held.append(standard_normal((self.num_samples, 1, count), self.generator, like=self.like))
        self.taken += 1
        return self.held[self.taken - 1]
