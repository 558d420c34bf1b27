"""ReLU and leaky ReLU."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.nonlinearities import gaussian
from mogul.nonlinearities.base import Nonlinearity
from mogul.registry import register_nonlinearity, storable


@storable()
@dataclass(frozen=True)
class LeakyReLU(Nonlinearity):
    """σ(a) = max(slope·a, a), that is slope·a + (1 − slope)·relu(a); ReLU has slope 0.

    With bᵢ = μᵢ/√Σᵢᵢ and ρ the correlation, Stein's lemma and Price's theorem give

        E relu(a)             = μ Φ(b) + √Σ φ(b)
        Cov[a₁, relu(a₂)]     = Σ₁₂ Φ(b₂)
        Cov[relu a₁, relu a₂] = Σ₁₂ Φ(b₁)Φ(b₂) + √(Σ₁₁Σ₂₂) ∫₀^ρ (ρ − r) φ₂(b₁, b₂; r) dr
    """

    slope: float = 0.35

    def __call__(self, a: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        return torch.nn.functional.leaky_relu(a, self.slope)

    def mean(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        scale = _positive(var).sqrt()
        ratio = mean / scale
        rectified = (mean * gaussian.cdf(ratio) + scale * gaussian.pdf(ratio)).clamp_min(0)  # rounding, in the tail
        return self.slope * mean + (1 - self.slope) * rectified

    def variance(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        # Var relu = σ² [Φ(b) + b²Φ(b)Φ(−b) − bφ(b)(2Φ(b) − 1) − φ(b)²]: E relu² − (E relu)² would cancel.
        ratio = mean * torch.rsqrt(_positive(var))
        below, above, density = gaussian.cdf(-ratio), gaussian.cdf(ratio), gaussian.pdf(ratio)
        rectified = above + ratio.square() * above * below - ratio * density * (above - below) - density.square()
        rectified = rectified.clamp_min(0)  # rounding, far in the lower tail
        keep = 1 - self.slope
        return var * (self.slope**2 + 2 * self.slope * keep * above + keep**2 * rectified)

    def pair_covariance(
        self,
        mean: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        var: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        cov: Float[Tensor, "*S"],
    ) -> Float[Tensor, "*S"]:
        inverse = torch.rsqrt(_positive(var[0])), torch.rsqrt(_positive(var[1]))
        ratio = mean[0] * inverse[0], mean[1] * inverse[1]
        correlation = cov * inverse[0] * inverse[1]
        above = gaussian.cdf(ratio[0]), gaussian.cdf(ratio[1])
        curved = gaussian.rectified_excess(*ratio, correlation) / (inverse[0] * inverse[1])
        keep = 1 - self.slope
        slopes = (self.slope + keep * above[0]) * (self.slope + keep * above[1])
        return cov * slopes + keep**2 * curved


register_nonlinearity("relu", "Rectified linear.")(LeakyReLU(slope=0.0))
register_nonlinearity("leaky", "Leaky rectified linear, with a slope of 0.35 below zero.")(LeakyReLU(slope=0.35))


def _positive(var: Tensor) -> Tensor:
    """A variance that may be divided by; zero stays far below anything that counts."""
    return var.clamp_min(torch.finfo(var.dtype).tiny ** 0.5)
