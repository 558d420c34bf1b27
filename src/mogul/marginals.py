"""The two kinds of moments that pass between priors, features, mixing and noise."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.pairs import assemble, take_apart


@dataclass(frozen=True)
class Marginals:
    """Independent Normals at N points: of L latent GPs, or of P outputs; leading axes *S are draws."""

    mean: Float[Tensor, "*S N K"]
    var: Float[Tensor, "*S N K"]

    def sample(self, num_samples: int, generator: torch.Generator) -> Float[Tensor, "S N K"]:
        """`num_samples` draws; marginals that already carry that many leading draws give one each."""
        mean, var = self.mean, self.var
        if mean.dim() == 2:
            mean, var = mean.expand(num_samples, *mean.shape), var.expand(num_samples, *var.shape)
        return mean + var.sqrt() * standard_normal(mean.shape, generator, like=mean)

    def pooled(self) -> "Marginals":
        """Mean and variance over the leading draws as well, by the law of total variance."""
        if self.mean.dim() == 2:
            return self
        mean, var = self.mean.flatten(0, -3), self.var.flatten(0, -3)
        return Marginals(mean.mean(0), var.mean(0) + mean.var(0, correction=0))


@dataclass(frozen=True)
class FeatureMoments:
    """Mean and covariance of the H features at N points: variances, and covariances of each pair (see `mogul.pairs`).

    `pairs` is None where features are independent.
    """

    mean: Float[Tensor, "*S N H"]
    var: Float[Tensor, "*S N H"]
    pairs: Float[Tensor, "*S N Q"] | None = None

    @property
    def cov(self) -> Float[Tensor, "*S N H H"]:
        """The covariance as a matrix for each point."""
        return torch.diag_embed(self.var) if self.pairs is None else assemble(self.var, self.pairs)

    @staticmethod
    def of_samples(h: Float[Tensor, "S N H"]) -> "FeatureMoments":
        """Moments of the empirical distribution of S draws.

        A Gaussian expected log likelihood is linear in E h and E hhᵀ, so with these moments it *is* the Monte Carlo
        average over the draws, at the price of an H × H matrix per point in place of S × P numbers.
        """
        mean = h.mean(0)
        centered = (h - mean).transpose(0, 1)
        cov = centered.transpose(1, 2) @ centered / len(h)
        return FeatureMoments(mean, *take_apart(cov))


def standard_normal(
    shape: torch.Size | tuple[int, ...], generator: torch.Generator, like: Tensor
) -> Float[Tensor, "..."]:
    """Standard Normal draws of this shape, in the precision and on the device of `like`."""
    return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)


def normal_kl(mean: Float[Tensor, "*S"], log_scale: Float[Tensor, "*S"]) -> Float[Tensor, ""]:
    """KL of independent Normals N(mean, e^{2·log_scale}) from the unit Normal, summed."""
    return normal_kl_each(mean, log_scale).sum()


def normal_kl_each(mean: Float[Tensor, "*S"], log_scale: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """KL of each of independent Normals N(mean, e^{2·log_scale}) from the unit Normal."""
    return 0.5 * (mean.square() + torch.exp(2 * log_scale) - 1 - 2 * log_scale)


def normal_log_density(weights: Float[Tensor, "*S"], scale: float) -> Float[Tensor, ""]:
    """Log density of these weights under N(0, scale²), summed, with its constant: log priors must be comparable."""
    prior = torch.distributions.Normal(0.0, scale)
    density: Tensor = prior.log_prob(weights)  # type: ignore[no-untyped-call]  # torch's own
    return density.sum()
