"""Piecewise polynomials with kinks and steps anywhere, their moments closed-form up to Φ₂.

A piecewise polynomial is a polynomial plus truncated powers, σ(a) = p(a) + Σ cⱼₖ (a − tⱼ)₊ᵏ, so that all of its moments
are sums of moments of powers, each whole, xᵏ, or truncated, x₊ᵏ. Stein's lemma gives each from lower ones.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.errors import ConfigError
from mogul.nonlinearities import gaussian
from mogul.nonlinearities.base import Nonlinearity
from mogul.registry import storable

# The largest correlation: at one, some terms of a covariance are steps, and only their sum is smooth.
_LARGEST = 1 - 2**-50


@storable()
@dataclass(frozen=True)
class PiecewisePolynomial(Nonlinearity):
    """σ(a) = pⱼ(a) for tⱼ ≤ a < tⱼ₊₁, with t₀ = −∞: kinks and steps are where they are wanted.

    Mean, variance and covariances are closed-form up to the bivariate Normal Φ₂: no quadrature, so kinks cost nothing.

    Args:
        breaks: t₁ < t₂ < …; none for a polynomial.
        pieces: coefficients of p₀, p₁, …, lowest power first: one piece more than there are breaks.

    Example:
        >>> hat = PiecewisePolynomial((-1.0, 0.0, 1.0), ((0.0,), (1.0, 1.0), (1.0, -1.0), (0.0,)))
        >>> hat(torch.tensor([-2.0, -0.5, 0.25, 3.0]))
        tensor([0.0000, 0.5000, 0.7500, 0.0000])
        >>> hat.mean(torch.zeros(1), torch.ones(1))
        tensor([0.3687])
    """

    breaks: tuple[float, ...]
    pieces: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.breaks) + 1 or not all(self.pieces):
            raise ConfigError(
                f"pieces must be coefficients of one polynomial more than there are breaks, {len(self.breaks) + 1}; "
                f"got {self.pieces}. (0.0,) is a piece that is zero."
            )
        if not all(low < high for low, high in pairwise(self.breaks)):
            raise ConfigError(f"breaks must increase; got {self.breaks}. Sort them.")

    def __call__(self, a: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        value = _evaluated(self.pieces[0], a)
        for start, piece in zip(self.breaks, self.pieces[1:], strict=True):
            value = torch.where(a >= start, _evaluated(piece, a), value)
        return value

    def mean(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        total: Tensor = sum(_Powers.of(term, mean, var).total(term) for term in self._terms())  # type: ignore[assignment]
        return total.to(mean)

    def variance(self, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        return self.pair_covariance((mean, mean), (var, var), var)

    def pair_covariance(
        self,
        mean: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        var: tuple[Float[Tensor, "*S"], Float[Tensor, "*S"]],
        cov: Float[Tensor, "*S"],
    ) -> Float[Tensor, "*S"]:
        terms = self._terms()
        first, second = ([_Powers.of(term, m, v) for term in terms] for m, v in zip(mean, var, strict=True))
        correlation = (cov.double() / (first[0].scale * second[0].scale)).clamp(-_LARGEST, _LARGEST)
        total = torch.zeros_like(correlation)
        for one, x in zip(terms, first, strict=True):
            for other, y in zip(terms, second, strict=True):
                table = _covariances(x, y, correlation)
                for k, own in enumerate(one.coefficients):
                    for n, theirs in enumerate(other.coefficients):
                        total = total + own * theirs * table[k, n]
        return total.to(cov)

    def _terms(self) -> "list[_Term]":
        """The first piece for all a, and what changes at each break, in powers of the distance from it."""
        terms = [_Term(None, tuple(self.pieces[0]))]
        for start, (before, after) in zip(self.breaks, pairwise(self.pieces), strict=True):
            change = [0.0] * max(len(before), len(after))
            for sign, piece in ((-1.0, before), (1.0, after)):
                for power, coefficient in enumerate(piece):
                    for k in range(power + 1):
                        change[k] += sign * coefficient * math.comb(power, k) * start ** (power - k)
            terms.append(_Term(start, tuple(change)))
        return terms


@dataclass(frozen=True)
class _Term:
    """Σ cₖ (a − start)₊ᵏ, or Σ cₖ aᵏ without a start."""

    start: float | None
    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class _Powers:
    """E xᵏ, or E x₊ᵏ where truncated, for x ~ N(mean, scale²) and k = 0, 1, …, in double precision.

    Args:
        mean: δ, the mean less the break.
        scale: s.
        truncated: whether only x > 0 counts.
        moments: I₀, I₁, …: with α = δ/s, I₀ = Φ(α), I₁ = δΦ(α) + sφ(α), Iₖ = δIₖ₋₁ + (k − 1)s²Iₖ₋₂.
    """

    mean: Float[Tensor, "*S"]
    scale: Float[Tensor, "*S"]
    truncated: bool
    moments: list[Float[Tensor, "*S"]]

    @staticmethod
    def of(term: _Term, mean: Float[Tensor, "*S"], var: Float[Tensor, "*S"]) -> "_Powers":
        """The moments of one term's powers."""
        scale = var.double().clamp_min(torch.finfo(torch.float64).tiny ** 0.5).sqrt()
        return _Powers._of(mean.double() - (term.start or 0.0), scale, term.start is not None, len(term.coefficients))

    @staticmethod
    def _of(mean: Tensor, scale: Tensor, truncated: bool, count: int) -> "_Powers":
        if not truncated:
            return _Powers(mean, scale, truncated, gaussian.powers(mean, scale.square(), count - 1))
        above, density = gaussian.cdf(mean / scale), gaussian.pdf(mean / scale)
        moments = [above, mean * above + scale * density]
        for k in range(2, count):
            moments.append(mean * moments[k - 1] + (k - 1) * scale.square() * moments[k - 2])
        return _Powers(mean, scale, truncated, moments[:count])

    @property
    def ratio(self) -> Float[Tensor, "*S"]:
        """α = δ/s."""
        return self.mean / self.scale

    @property
    def edge(self) -> Float[Tensor, "*S"]:
        """φ(α): s times the density of x at the break; 0 for whole powers, which have none."""
        return gaussian.pdf(self.ratio) if self.truncated else torch.zeros_like(self.mean)

    def given(self, other: "_Powers", correlation: Float[Tensor, "*S"]) -> "_Powers":
        """The same given that the other argument is at its break."""
        left = ((1 - correlation) * (1 + correlation)).sqrt()
        # α₁ − ρα₂, in a form that stays accurate as |ρ| → 1.
        sign = torch.where(correlation < 0, -1.0, 1.0).to(correlation)
        ratio = (self.ratio - sign * other.ratio) + (sign - correlation) * other.ratio
        return _Powers._of(self.scale * ratio, self.scale * left, self.truncated, len(self.moments))

    def total(self, term: _Term) -> Float[Tensor, "*S"]:
        """Σ cₖ Iₖ."""
        terms = zip(term.coefficients, self.moments, strict=True)
        return sum((c * moment for c, moment in terms), torch.zeros_like(self.mean))


def _covariances(
    x: _Powers, y: _Powers, correlation: Float[Tensor, "*S"]
) -> dict[tuple[int, int], Float[Tensor, "*S"]]:
    """C[k, n], the covariance of the k-th power of x and the n-th of y; in place of the product's mean, which cancels.

    With J[k, n] = C[k, n] + IₖIₙ, c = ρ s₁s₂ and ᵒ for "given that the other one is at its break",

        C[k, n] = δ₁ C[k−1, n] + (k−1)s₁² C[k−2, n] + n c J[k−1, n−1]
                  + [k = 1] s₁φ(α₁)(Iₙᵒ − Iₙ) + [n = 0] ρs₁φ(α₂) Iᵒₖ₋₁

    where terms in brackets are for truncated powers alone, and C[0, 0] is Φ₂'s excess.
    """
    plain = gaussian.excess(x.ratio, y.ratio, correlation) if x.truncated and y.truncated else torch.zeros_like(x.mean)
    table = {(0, 0): plain}
    cov = correlation * x.scale * y.scale
    x_given, y_given = x.given(y, correlation).moments, y.given(x, correlation).moments
    for n in range(1, len(y.moments)):
        table[0, n] = y.mean * table[0, n - 1] + correlation * y.scale * x.edge * y_given[n - 1]
        if n > 1:
            table[0, n] = table[0, n] + (n - 1) * y.scale.square() * table[0, n - 2]
        elif y.truncated:
            table[0, n] = table[0, n] + y.scale * y.edge * (x_given[0] - x.moments[0])
    for k in range(1, len(x.moments)):
        for n in range(len(y.moments)):
            value = x.mean * table[k - 1, n]
            if k > 1:
                value = value + (k - 1) * x.scale.square() * table[k - 2, n]
            elif x.truncated:
                value = value + x.scale * x.edge * (y_given[n] - y.moments[n])
            if n == 0:
                value = value + correlation * x.scale * y.edge * x_given[k - 1]
            else:
                value = value + n * cov * (table[k - 1, n - 1] + x.moments[k - 1] * y.moments[n - 1])
            table[k, n] = value
    return table


def _evaluated(coefficients: tuple[float, ...], a: Tensor) -> Tensor:
    """A polynomial by Horner's rule."""
    value = torch.zeros_like(a)
    for coefficient in reversed(coefficients):
        value = value * a + coefficient
    return value
