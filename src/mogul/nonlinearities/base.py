"""What every nonlinearity σ must tell about σ(a) when a is Normal."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor

from mogul.core.moments import assemble, selectors, take_apart


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

    def pair_covariances(
        self, mean: Float[Tensor, "*S H"], var: Float[Tensor, "*S H"], cov: Float[Tensor, "*S Q"]
    ) -> Float[Tensor, "*S Q"]:
        """Cov[σ(aᵢ), σ(aⱼ)] for every i < j, given Cov[aᵢ, aⱼ]: each pair once, no H × H matrix."""
        first, second = selectors(mean.shape[-1], like=mean)
        return self.pair_covariance((mean @ first, mean @ second), (var @ first, var @ second), cov)

    def covariance(self, mean: Float[Tensor, "*S H"], cov: Float[Tensor, "*S H H"]) -> Float[Tensor, "*S H H"]:
        """Cov σ(a) for a ~ N(mean, cov)."""
        var, above = take_apart(cov)
        return assemble(self.variance(mean, var), self.pair_covariances(mean, var, above))

    def cross_moment(self, mean: Float[Tensor, "*S H"], cov: Float[Tensor, "*S H H"]) -> Float[Tensor, "*S H H"]:
        """E σ(a)σ(a)ᵀ for a ~ N(mean, cov)."""
        center = self.mean(mean, cov.diagonal(dim1=-2, dim2=-1))
        return self.covariance(mean, cov) + center.unsqueeze(-1) * center.unsqueeze(-2)
