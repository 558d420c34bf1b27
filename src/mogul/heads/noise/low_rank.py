"""Noise that is correlated across outputs."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mogul.core.joint import Correlated
from mogul.core.moments import Marginals, normal_log_density
from mogul.errors import require_positive
from mogul.heads.noise.base import NOISE_FLOOR, Noise, NoiseParts
from mogul.heads.noise.laws import NoiseLaw, NormalLaw, own_square
from mogul.registry import Option, positive, register_noise


@dataclass(frozen=True)
class LowRankLaw(NoiseLaw):
    """Normal noise U z + e with z ~ N(0, I) and e ~ N(0, D), D = 1/β + f²: its covariance is D + U Uᵀ.

    Only variances of the signal are known, not covariances between outputs. With the optimal q(z) for each row, the
    bound needs only those:

        log N(y | m, D + U Uᵀ) − ½ Σ v/D
    """

    by_output: ClassVar[frozenset[str]] = frozenset({"loadings"})

    log_precision: Float[Tensor, "P"]
    loadings: Float[Tensor, "P R"]
    floor_var: Float[Tensor, "P"]

    @property
    def var(self) -> Float[Tensor, "P"]:
        """The diagonal of D + U Uᵀ."""
        return self._own_var() + self.loadings.square().sum(-1)

    def expected_log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """log N(y | m, D + U Uᵀ) − ½ Σ v/D, over the observed outputs."""
        own = self._own_var()
        lost = (observed * signal.var / own).sum(-1)
        return self._log_normal(y - signal.mean, observed, own) - 0.5 * lost

    def log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """log N(y | m, v + D + U Uᵀ), with a diagonal v."""
        return self._log_normal(y - signal.mean, observed, self._own_var() + signal.var)

    def misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """E (y − Φ − U z)², minus the part explained by the floor."""
        square = self._left_over(y - signal.mean, observed, self._own_var()) + signal.var
        return own_square(square, 1 / (1 + self.floor_var * torch.exp(self.log_precision)), self.floor_var)

    def predictive_misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """The same, given y, for a signal of variance v."""
        rest = self.floor_var + signal.var
        square = self._left_over(y - signal.mean, observed, self._own_var() + signal.var)
        return own_square(square, 1 / (1 + rest * torch.exp(self.log_precision)), rest)

    def draw_var(self, shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "P"]:
        """There is nothing to draw."""
        return self.var

    def factored(self) -> tuple[NormalLaw, Float[Tensor, "P R"]]:
        """Variances n = diag(D + U Uᵀ), and the loadings U/√n."""
        var = self.var
        law = NormalLaw(-var.log(), torch.zeros_like(var), torch.zeros_like(var))
        return law, self.loadings / var.sqrt().unsqueeze(-1)

    def joint(self, signal_var: Float[Tensor, "S N P"], scale: Float[Tensor, "P"]) -> Correlated:
        """Normal with the covariance of its loadings."""
        return Correlated((scale.unsqueeze(-1) * self.loadings).double().cpu().numpy())

    def _own_var(self) -> Float[Tensor, "P"]:
        return torch.exp(-self.log_precision) + self.floor_var

    def _log_normal(self, gap: Tensor, observed: Tensor, diagonal: Tensor) -> Tensor:
        """log N(gap | 0, diag + U Uᵀ) of the observed outputs, by Woodbury."""
        precision, root, projected = self._shared(gap, observed, diagonal)
        whitened = torch.linalg.solve_triangular(root, projected.unsqueeze(-1), upper=False)
        misfit = (precision * gap.square()).sum(-1) - whitened.square().sum((-2, -1))
        constant = (observed * (math.log(2 * math.pi) + diagonal.log())).sum(-1)
        log_density: Tensor = -0.5 * (constant + 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + misfit)
        return log_density

    def _left_over(self, gap: Tensor, observed: Tensor, diagonal: Tensor) -> Tensor:
        """E (gap − U z)² under q(z)."""
        _, root, projected = self._shared(gap, observed, diagonal)
        cov = torch.cholesky_inverse(root)
        mean = (cov @ projected.unsqueeze(-1)).squeeze(-1)
        return (gap - mean @ self.loadings.T).square() + ((self.loadings @ cov) * self.loadings).sum(-1)

    def _shared(self, gap: Tensor, observed: Tensor, diagonal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """D⁻¹ of the observed outputs, the root of q(z)'s precision I + Uᵀ D⁻¹ U, and Uᵀ D⁻¹ (y − m)."""
        precision = observed / diagonal
        inner = torch.einsum("...p,pq,pr->...qr", precision, self.loadings, self.loadings)
        root = torch.linalg.cholesky(inner + torch.eye(inner.shape[-1]).to(inner))
        return precision, root, (precision * gap) @ self.loadings


@register_noise(
    "low-rank",
    "Gaussian, correlated across outputs.",
    {
        "noise_rank": Option(
            "The rank of what outputs of low-rank noise share.",
            2,
            positive,
            stored=("head.noise.loadings", 1),
            numbers=lambda sizes: int(sizes["num_outputs"] * sizes["noise_rank"]),
        )
    },
)
class LowRankNoise(Noise):
    """Gaussian noise with the covariance D + U Uᵀ across outputs, the same everywhere.

    Args:
        num_outputs: the number P of outputs.
        rank: the number R of columns of U.
        generator: draws the start of U.
        var: initial diagonal D.
        floor: least square root of D, for all outputs or for each.
        weight_scale: standard deviation of the Normal prior on U.

    Example:
        >>> noise = LowRankNoise(num_outputs=3, rank=1, generator=torch.Generator())
        >>> noise(torch.zeros(5, 2), torch.Generator()).var.shape
        torch.Size([3])
    """

    @classmethod
    def from_parts(cls, parts: NoiseParts) -> Noise:
        """With the requested rank."""
        rank = parts.option("noise_rank")
        return cls(parts.num_outputs, rank, parts.generator, floor=parts.noise_floor(NOISE_FLOOR))

    def __init__(
        self,
        num_outputs: int,
        rank: int,
        generator: torch.Generator,
        *,
        var: float = 1.0,
        floor: float | Float[Tensor, "P"] = NOISE_FLOOR,
        weight_scale: float = 1.0,
    ) -> None:
        super().__init__(num_outputs, var=var, floor=floor)
        require_positive(rank=rank)
        self.weight_scale = weight_scale
        # Small, since the signal explains the data first; not zero, since the gradient vanishes there.
        self.loadings = nn.Parameter(0.1 * torch.randn(num_outputs, rank, generator=generator))

    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> LowRankLaw:
        """The same everywhere."""
        return LowRankLaw(self.log_precision, self.loadings, self.floor_var)

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of the loadings."""
        return normal_log_density(self.loadings, self.weight_scale)
