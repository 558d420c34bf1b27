"""The error function, shifted or times a polynomial."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.errors import ConfigError
from mogul.nonlinearities import gaussian
from mogul.nonlinearities.base import Nonlinearity
from mogul.nonlinearities.quadrature import Quadrature
from mogul.registry import register_nonlinearity, storable


@storable()
@dataclass(frozen=True)
class Erf(Nonlinearity):
    """σ(a) = shift + erf(a); the paper's sherf has shift 1.

    erf(a) = 2Φ(√2 a) − 1, so its moments are those of a step smoothed by an independent N(0, ½):

        E erf(a)           = 2Φ(α) − 1,                  α = μ / √(½ + Σ₁₁)
        Cov[erf a, erf b]  = 4 (Φ₂(α, β; r) − Φ(α)Φ(β)),  r = Σ₁₂ / √((½ + Σ₁₁)(½ + Σ₂₂))
    """

    shift: float = 0.0

    def __call__(self, a: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        return self.shift + torch.erf(a)

    def mean(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        # Eq. (erfmean)
        return self.shift + torch.erf(mean * torch.rsqrt(1 + 2 * var))

    def variance(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        smoothed = 0.5 + var
        alpha = mean * torch.rsqrt(smoothed)
        return 4 * gaussian.excess(alpha, alpha, var / smoothed)

    def pair_covariance(
        self,
        mean: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        var: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        cov: Float[Tensor, "*S"],
    ) -> Float[Tensor, "*S"]:
        first, second = torch.rsqrt(0.5 + var[0]), torch.rsqrt(0.5 + var[1])
        return 4 * gaussian.excess(mean[0] * first, mean[1] * second, cov * first * second)


register_nonlinearity("erf", "The error function.")(Erf())
register_nonlinearity("sherf", "The error function shifted by 1: positive.")(Erf(shift=1.0))


def erf_moment(power: int, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """E[aⁿ erf(a)] for a ~ N(mean, var) and n = 0, 1, 2, from the paper's appendix.

    >>> round(erf_moment(1, torch.zeros(1), torch.ones(1)).item() * math.sqrt(3 * math.pi), 4)
    2.0
    """
    spread = 1 + 2 * var
    center = torch.erf(mean * torch.rsqrt(spread))
    bell = torch.exp(-mean.square() / spread) / math.sqrt(math.pi)
    match power:
        case 0:
            return center
        case 1:
            return mean * center + 2 * var * torch.rsqrt(spread) * bell
        case 2:
            return (mean.square() + var) * center + 4 * mean * var * (1 + var) * spread**-1.5 * bell
        case _:
            raise ConfigError(f"power must be 0, 1 or 2; got {power}. Use Quadrature for higher powers.")


@storable("coefficients", "order")
class PolynomialErf(Quadrature):
    """σ(a) = (c₀ + c₁ a + c₂ a²) erf(a), with an analytic mean; second moments need one-dimensional quadrature.

    >>> PolynomialErf((0.0, 1.0)).mean(torch.zeros(1), torch.zeros(1))
    tensor([0.])
    """

    def __init__(self, coefficients: tuple[float, ...], order: int = 100) -> None:
        if not 1 <= len(coefficients) <= 3:
            raise ConfigError(
                f"coefficients must be one to three numbers; got {len(coefficients)}. "
                "Use Quadrature for polynomials of higher degree."
            )
        super().__init__(self._value, order)
        self.coefficients = coefficients

    def _value(self, a: Tensor) -> Tensor:
        polynomial = sum(c * a**power for power, c in enumerate(self.coefficients))
        return polynomial * torch.erf(a)

    def mean(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        total = torch.zeros_like(mean * var)
        for power, coefficient in enumerate(self.coefficients):
            total = total + coefficient * erf_moment(power, mean, var)
        return total
