"""Gauss–Hermite quadrature, for a nonlinearity of one's own."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mogul.errors import ConfigError
from mogul.nonlinearities.base import Nonlinearity


class Quadrature(Nonlinearity):
    """Moments of any σ by Gauss–Hermite quadrature: exact for polynomials, excellent for smooth σ, poor across kinks.

    The bivariate rule is the paper's: one axis by quadrature, the other by `mean` given the first, which a subclass
    may know in closed form.

    >>> square = Quadrature(torch.square)
    >>> square.mean(torch.ones(1), torch.ones(1))  # μ² + σ²
    tensor([2.])
    """

    def __init__(self, function: Callable[[Tensor], Tensor], order: int = 40) -> None:
        if order < 1:
            raise ConfigError(f"order must be at least 1; got {order}. The paper uses 100.")
        self.function = function
        self.order = order
        nodes, weights = np.polynomial.hermite.hermgauss(order)
        self._nodes = [math.sqrt(2) * float(node) for node in nodes]
        self._weights = [float(weight) / math.sqrt(math.pi) for weight in weights]

    def __call__(self, a: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        return self.function(a)

    def mean(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        scale = _root(var)
        total = torch.zeros_like(mean * scale)
        for node, weight in self._rule():
            total = total + weight * self.function(mean + node * scale)
        return total

    def variance(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        center, scale = self.mean(mean, var), _root(var)
        total = torch.zeros_like(center)
        for node, weight in self._rule():
            total = total + weight * (self.function(mean + node * scale) - center).square()
        return total

    def pair_covariance(
        self,
        mean: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        var: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        cov: Float[Tensor, "*S"],
    ) -> Float[Tensor, "*S"]:
        # Eq. (bivariate), with the Cholesky factor of Σ: L₁₁ = √Σ₁₁, L₂₁ = Σ₁₂/L₁₁, L₂₂² = Σ₂₂ − L₂₁².
        scale = _root(var[0])
        shift = cov / scale
        rest = var[1] - shift.square()
        centers = self.mean(mean[0], var[0]), self.mean(mean[1], var[1])
        total = torch.zeros_like(cov)
        for node, weight in self._rule():
            first = self.function(mean[0] + node * scale) - centers[0]
            second = self.mean(mean[1] + node * shift, rest) - centers[1]
            total = total + weight * first * second
        return total

    def _rule(self) -> Iterator[tuple[float, float]]:
        return zip(self._nodes, self._weights, strict=True)


def _root(var: Tensor) -> Tensor:
    """A standard deviation with a finite slope where the variance is nothing."""
    return var.clamp_min(torch.finfo(var.dtype).tiny ** 0.5).sqrt()
