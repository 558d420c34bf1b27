"""The two kinds of moments that pass between priors, features, mixing and noise."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Marginals:
    """Independent Normals at N points: of L latent GPs, or of P outputs; leading axes *S are draws.

    With a `log_weight`, the first axis holds the components of a mixture with these weights; further leading axes may
    hold draws.
    """

    mean: Float[Tensor, "*S N K"]
    var: Float[Tensor, "*S N K"]
    log_weight: Float[Tensor, "_"] | None = field(default=None, kw_only=True)

    def sample(self, num_samples: int, generator: torch.Generator) -> Float[Tensor, "S N K"]:
        """`num_samples` draws; marginals that already carry that many leading draws give one each."""
        mean, var = self.mean, self.var
        if self.log_weight is not None:
            return self._chosen(num_samples, generator).sample(num_samples, generator)
        if mean.dim() == 2:
            mean, var = mean.expand(num_samples, *mean.shape), var.expand(num_samples, *var.shape)
        return mean + var.sqrt() * standard_normal(mean.shape, generator, like=mean)

    def pooled(self) -> "Marginals":
        """Mean and variance over the leading draws as well, by the law of total variance."""
        if self.mean.dim() == 2:
            return self
        mean, var = self.mean.flatten(0, -3), self.var.flatten(0, -3)
        if self.log_weight is None:
            return Marginals(mean.mean(0), var.mean(0) + mean.var(0, correction=0))
        pooled = self.average(mean)
        return Marginals(pooled, self.average(var + (mean - pooled).square()))

    def repeated(self, times: int) -> "Marginals":
        """Repeat each component `times` times with weight/`times`; the mixture is unchanged."""
        assert self.log_weight is not None
        parts = self.mean, self.var, self.log_weight - math.log(times)
        mean, var, log_weight = (part.repeat_interleave(times, 0) for part in parts)
        return Marginals(mean, var, log_weight=log_weight)

    def average(self, each: Float[Tensor, "S *N"]) -> Float[Tensor, "*N"]:
        """Weighted mean of `each` over all components, leading axes flattened."""
        return each.mean(0) if self.log_weight is None else torch.tensordot(self._log_share(each).exp(), each, 1)

    def log_mean(self, each: Float[Tensor, "S N"]) -> Float[Tensor, "N"]:
        """Log of the weighted mean over all components, from the logs in `each`."""
        total = torch.logsumexp(self.weighted(each), 0)
        return total - math.log(len(each)) if self.log_weight is None else total

    def weighted(self, each: Float[Tensor, "S N"]) -> Float[Tensor, "S N"]:
        """log p + log w of each component, up to a constant."""
        return each if self.log_weight is None else each + self._log_share(each).unsqueeze(-1)

    def _log_share(self, each: Float[Tensor, "S *N"]) -> Float[Tensor, "S"]:
        """Log weight of each component, leading axes flattened; draws of a component share its weight."""
        assert self.log_weight is not None
        num_draws = len(each) // len(self.log_weight)
        return self.log_weight.repeat_interleave(num_draws) - math.log(num_draws)

    def _chosen(self, num_samples: int, generator: torch.Generator) -> "Marginals":
        """One component, drawn by its weight, for each draw and point; within the same draw where there are draws."""
        assert self.log_weight is not None
        *_, num_points, size = self.mean.shape
        count = num_samples * num_points
        chosen = torch.multinomial(self.log_weight.exp(), count, replacement=True, generator=generator)
        index = chosen.reshape(1, num_samples, num_points, 1).expand(-1, -1, -1, size)
        shape = (len(self.mean), num_samples, num_points, size)
        each = [part if part.dim() == 4 else part.unsqueeze(1).expand(shape) for part in (self.mean, self.var)]
        return Marginals(*(part.gather(0, index)[0] for part in each))


@dataclass(frozen=True)
class FeatureMoments:
    """Mean and covariance of the H features at N points: variances, and covariances of each pair.

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
        average over the draws. It costs an H × H matrix per point instead of S × P numbers.
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
    """KL of each Normal N(mean, e^{2·log_scale}) from the unit Normal."""
    return 0.5 * (mean.square() + torch.exp(2 * log_scale) - 1 - 2 * log_scale)


def normal_log_density(weights: Float[Tensor, "*S"], scale: float) -> Float[Tensor, ""]:
    """Log density of these weights under N(0, scale²), summed, with its constant: log priors must be comparable."""
    prior = torch.distributions.Normal(0.0, scale)
    density: Tensor = prior.log_prob(weights)  # type: ignore[no-untyped-call]  # torch's own
    return density.sum()


def selectors(size: int, like: Tensor) -> tuple[Float[Tensor, "H Q"], Float[Tensor, "H Q"]]:
    """0/1 matrices: values @ each gives the first and the second member of every pair.

    >>> first, second = selectors(3, torch.zeros(1))
    >>> torch.arange(3.0) @ first, torch.arange(3.0) @ second
    (tensor([0., 0., 1.]), tensor([1., 2., 2.]))
    """
    first, second = torch.triu_indices(size, size, offset=1, device=like.device)
    identity = torch.eye(size, dtype=like.dtype, device=like.device)
    return identity[:, first], identity[:, second]


def take_apart(matrix: Float[Tensor, "*S H H"]) -> tuple[Float[Tensor, "*S H"], Float[Tensor, "*S Q"]]:
    """The diagonal, and the entries above it row by row."""
    size = matrix.shape[-1]
    first, second = torch.triu_indices(size, size, offset=1, device=matrix.device)
    return matrix.diagonal(dim1=-2, dim2=-1), matrix[..., first, second]


def assemble(diagonal: Float[Tensor, "*S H"], pairs: Float[Tensor, "*S Q"]) -> Float[Tensor, "*S H H"]:
    """The symmetric matrix with this diagonal and these entries above and below it.

    >>> assemble(torch.ones(2), torch.tensor([0.5]))
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]])
    """
    size = diagonal.shape[-1]
    # In NumPy, so that it is a constant where a program is traced.
    upper = np.diag(np.arange(size))
    above = np.triu_indices(size, 1)
    upper[above] = size + np.arange(len(above[0]))
    place = torch.as_tensor(upper + np.triu(upper, 1).T, device=diagonal.device)
    # By index: a 0/1 matrix would have H⁴/2 entries.
    entries = torch.cat([diagonal, pairs], dim=-1).index_select(-1, place.flatten())
    return entries.reshape(*diagonal.shape, size)


def products_of_draws(matrix: Float[Tensor, "K S N M"], vector: Float[Tensor, "L S M"]) -> Float[Tensor, "S N L"]:
    """Of each draw's N × M matrix with its own vector, for L functions; K is L, or 1 for a matrix that they share.

    >>> products_of_draws(torch.ones(1, 4, 5, 3), torch.ones(2, 4, 3)).shape
    torch.Size([4, 5, 2])
    """
    if matrix.shape[2] == 1:  # a batched product with vectors would be a call for each
        each: Tensor = torch.linalg.vecdot(matrix.squeeze(2), vector)
        return each.T.unsqueeze(1)
    # One by one: slices of a transposed array need no copy.
    own = matrix.expand(len(vector), -1, -1, -1)
    return torch.stack(
        [torch.bmm(one, draw.unsqueeze(-1)).squeeze(-1) for one, draw in zip(own, vector, strict=True)], -1
    )
