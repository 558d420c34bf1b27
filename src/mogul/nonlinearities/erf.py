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
    """E[aⁿ erf(a)] for a ~ N(mean, var) and n = 0, 1, 2, …; the paper's appendix has n = 0, 1, 2.

    With eₙ for it, Stein's lemma gives each from the two before:

        eₙ = μ eₙ₋₁ + Σ ((n − 1) eₙ₋₂ + 2/√π E[aⁿ⁻¹ e^{−a²}]),     E[aᵏ e^{−a²}] = e^{−μ²/s}/√s E bᵏ

    with s = 1 + 2Σ and b ~ N(μ/s, Σ/s).

    >>> round(erf_moment(1, torch.zeros(1), torch.ones(1)).item() * math.sqrt(3 * math.pi), 4)
    2.0
    """
    if power < 0:
        raise ConfigError(f"power must be 0 or more; got {power}. erf times a negative power has no mean at 0.")
    spread = 1 + 2 * var
    moments = [torch.erf(mean * torch.rsqrt(spread))]
    bell = 2 * torch.exp(-mean.square() / spread) * torch.rsqrt(math.pi * spread)
    for n, raised in enumerate(gaussian.powers(mean / spread, var / spread, power - 1), start=1):
        below = (n - 1) * moments[n - 2] if n > 1 else 0.0
        moments.append(mean * moments[n - 1] + var * (below + bell * raised))
    return moments[power]


@storable("coefficients", "order")
class PolynomialErf(Quadrature):
    """σ(a) = (c₀ + c₁ a + c₂ a² + …) erf(a), with an analytic mean; second moments need one-dimensional quadrature.

    >>> PolynomialErf((0.0, 1.0)).mean(torch.zeros(1), torch.zeros(1))
    tensor([0.])
    """

    def __init__(self, coefficients: tuple[float, ...], order: int = 100) -> None:
        if not coefficients:
            raise ConfigError("coefficients must be one number or more; got none. (0.0, 1.0) is x erf(x).")
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
