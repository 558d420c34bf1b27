"""Half the rectified square, smoothed: sherf integrated twice."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mogul.nonlinearities import gaussian
from mogul.nonlinearities.base import Nonlinearity
from mogul.registry import storable

_SMOOTHING = 0.5  # variance of ε
_NUM_NODES = 12


@storable()
@dataclass(frozen=True)
class SoftSquare(Nonlinearity):
    """σ(a) = ½ E max(a + ε, 0)² with ε ~ N(0, ½), so that σ″(a) = (1 + erf a)/2, half of sherf.

    It grows like a²/2, where sherf saturates: peaks of the outputs that few rows describe are not cut off. With
    s² = Σ + ½, α = μ/s and the same expectations for σ′ and σ″,

        E σ = ½ [(μ² + s²) Φ(α) + μ s φ(α)]      E σ′ = μ Φ(α) + s φ(α)      E σ″ = Φ(α)

    and by Price's theorem, with φ₂ the density of N(0, [s₁², r; r, s₂²]) at (μ₁, μ₂),

        Cov[σ a₁, σ a₂] = c Eσ′₁ Eσ′₂ + ½ c² Eσ″₁ Eσ″₂ + ½ ∫₀^c (c − r)² φ₂(r) dr,      c = Σ₁₂

    The integral is over the angle asin(r / s₁s₂), by 12 Gauss–Legendre points: to 1e-8 for variances up to 4.

    Example:
        >>> SoftSquare()(torch.tensor([-1.0, 0.0, 3.0]))
        tensor([0.0071, 0.1250, 4.7500])
    """

    def __call__(self, a: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        return self.mean(a, torch.zeros_like(a))

    def mean(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        scale = torch.sqrt(var + _SMOOTHING)
        ratio = mean / scale
        value = (mean.square() + scale.square()) * gaussian.cdf(ratio) + mean * scale * gaussian.pdf(ratio)
        return 0.5 * value.clamp_min(0)  # rounding, in the tail

    def variance(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        return self.pair_covariance((mean, mean), (var, var), var)

    def pair_covariance(
        self,
        mean: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        var: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        cov: Float[Tensor, "*S"],
    ) -> Float[Tensor, "*S"]:
        scale = torch.sqrt(var[0] + _SMOOTHING), torch.sqrt(var[1] + _SMOOTHING)
        ratio = mean[0] / scale[0], mean[1] / scale[1]
        above = gaussian.cdf(ratio[0]), gaussian.cdf(ratio[1])
        slope = [m * a + s * gaussian.pdf(r) for m, a, s, r in zip(mean, above, scale, ratio, strict=True)]
        area = scale[0] * scale[1]
        return cov * slope[0] * slope[1] + 0.5 * cov.square() * (above[0] * above[1]) + _curved(ratio, area, cov)


def _curved(ratio: tuple[Tensor, Tensor], area: Tensor, cov: Tensor) -> Tensor:
    """½ ∫₀^c (c − r)² φ₂(r) dr with r = s₁s₂ sin θ, where φ₂ dr = exp(−(α² + β² − 2αβ sin θ)/(2 cos² θ)) dθ / 2π."""
    end = torch.asin(cov / area)
    squares, product = ratio[0].square() + ratio[1].square(), 2 * ratio[0] * ratio[1]
    total = torch.zeros_like(end)
    for node, weight in zip(*np.polynomial.legendre.leggauss(_NUM_NODES), strict=True):
        sine = torch.sin(0.5 * (1 + float(node)) * end)
        density = torch.exp(-0.5 * (squares - product * sine) / (1 - sine.square()))
        total = total + float(weight) * (cov - area * sine).square() * density
    return end * total / (8 * math.pi)
