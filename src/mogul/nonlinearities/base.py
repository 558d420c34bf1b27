"""What every nonlinearity σ must tell about σ(a) when a is Normal."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor


class Nonlinearity(ABC):
    """A pointwise σ with its moments under Normal arguments.

    A subclass gives four pointwise functions; matrices are assembled here, so they are symmetric by construction.
    """

    @abstractmethod
    def __call__(self, a: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """The value σ(a)."""

    @abstractmethod
    def mean(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """E σ(a) for a ~ N(mean, var)."""

    @abstractmethod
    def variance(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Var σ(a) for a ~ N(mean, var)."""

    @abstractmethod
    def pair_covariance(
        self,
        mean: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        var: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        cov: Float[Tensor, "*S"],
    ) -> Float[Tensor, "*S"]:
        """Cov[σ(a₁), σ(a₂)] for (a₁, a₂) bivariate Normal."""

    def second_moment(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """E σ(a)² for a ~ N(mean, var)."""
        return self.variance(mean, var) + self.mean(mean, var).square()

    def covariance(self, mean: Float[Tensor, "*S H"], cov: Float[Tensor, "*S H H"]) -> Float[Tensor, "*S H H"]:
        """Cov σ(a) for a ~ N(mean, cov): each pair once."""
        size = mean.shape[-1]
        var = cov.diagonal(dim1=-2, dim2=-1)
        first, second = torch.triu_indices(size, size, offset=1, device=mean.device)
        pairs = self.pair_covariance(
            (mean[..., first], mean[..., second]),
            (var[..., first], var[..., second]),
            cov[..., first, second],
        )
        return _symmetric(self.variance(mean, var), pairs, first, second)

    def cross_moment(self, mean: Float[Tensor, "*S H"], cov: Float[Tensor, "*S H H"]) -> Float[Tensor, "*S H H"]:
        """E σ(a)σ(a)ᵀ for a ~ N(mean, cov)."""
        center = self.mean(mean, cov.diagonal(dim1=-2, dim2=-1))
        return self.covariance(mean, cov) + center.unsqueeze(-1) * center.unsqueeze(-2)


def _symmetric(diagonal: Tensor, pairs: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The symmetric matrix with this diagonal and these entries above it."""
    size = diagonal.shape[-1]
    place = torch.empty(size, size, dtype=torch.long, device=diagonal.device)
    place.diagonal().copy_(torch.arange(size))
    place[first, second] = place[second, first] = size + torch.arange(len(first), device=diagonal.device)
    return torch.cat([diagonal, pairs], dim=-1)[..., place]
