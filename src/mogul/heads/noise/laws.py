"""The law of the noise at some points, as used by objectives, updates and predictions.

Every noise has a level per output, the precision β, and a floor f of its standard deviation. Given all else, the
optimal 1/β is the mean of `misfit` over observed outputs: the expected squared residual, relative to the noise at level
1. Where the noise is f² + e²/β for some known e, the misfit is of the part without the floor. Updates by it are
therefore steps of expectation maximisation and never overshoot.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mogul.core.joint import Independent, ScaleMixture
from mogul.core.moments import Marginals
from mogul.core.scale_mixture import LogScale

# Gauss–Hermite nodes for draws of a Normal log variance. Densities do not use them: see `mogul.core.scale_mixture`.
_QUADRATURE_ORDER = 10


Law = TypeVar("Law", bound="NoiseLaw")


class NoiseLaw(ABC):
    """p(y | signal) at N points. Missing outputs hold finite placeholders, so that masked gradients stay finite.

    Subclasses are dataclasses with a field `log_precision`, the level.
    """

    log_precision: Float[Tensor, "P"]

    def at_level(self, log_precision: Float[Tensor, "P"]) -> "NoiseLaw":
        """The same law with another level log β."""
        return replace(self, log_precision=log_precision)  # type: ignore[type-var]  # subclasses are dataclasses

    by_output: ClassVar[frozenset[str]] = frozenset()  # fields whose first axis is outputs; else the last

    @property
    @abstractmethod
    def var(self) -> Float[Tensor, "*T P"]:
        """The variance of the noise of each output."""

    def pooled_var(self) -> Float[Tensor, "*T P"]:
        """The variance, averaged over draws of the points."""
        return self.var.flatten(0, -3).mean(0) if self.var.dim() > 2 else self.var

    @abstractmethod
    def expected_log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """E log p(y | signal) per datapoint over its observed outputs, minus the KL of latent noise variables."""

    @abstractmethod
    def log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """log E p(y | signal) per datapoint over its observed outputs, for a Normal signal."""

    @abstractmethod
    def misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """The optimal 1/β for `expected_log_density` is the mean of this; any value for missing outputs."""

    @abstractmethod
    def predictive_misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """The same for `log_density`."""

    def variance_nodes(self) -> "Nodes":
        """Values of the noise variance and their probabilities: the variance itself where it is not random."""
        var = self.var.unsqueeze(0)
        return Nodes(var, torch.zeros_like(var))

    @property
    def is_drawn(self) -> bool:
        """Whether noise variances are random and drawn for each component."""
        return False

    @abstractmethod
    def draw_var(self, shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "*S P"]:
        """Noise variances for components of this shape, (S, N, P): one draw for each."""

    @abstractmethod
    def joint(self, signal_var: Float[Tensor, "S N P"], scale: Float[Tensor, "P"]) -> Independent:
        """Joint distribution of the outputs given components with such signals, in units of y = scale × the head's."""

    def factored(self) -> "tuple[NoiseLaw, Float[Tensor, 'P R'] | None]":
        """The same noise by a law for each output and loadings U as `NoiseCorrelation` has them; None: independent.

        A law that correlates outputs must say so here for predictions given some of the outputs.
        """
        return self, None

    def double(self: Law) -> Law:
        """In float64, without gradients."""
        return self._changed(lambda _, value: value.detach().double())

    def rows(self: Law, index: Int[Tensor, "B"]) -> Law:
        """At some of the points."""
        return self._changed(lambda name, value: value[..., index, :] if self._has_rows(name, value) else value)

    def outputs(self: Law, index: Int[Tensor, "B"]) -> Law:
        """Of some of the outputs."""
        return self._changed(lambda name, value: value[index] if name in self.by_output else value[..., index])

    def joined(self: Law, others: "Sequence[Law]") -> Law:
        """Concatenate the points of this and of the others."""
        return self._changed(
            lambda name, value: (
                torch.cat([value, *(getattr(other, name) for other in others)], -2)
                if self._has_rows(name, value)
                else value
            )
        )

    def _has_rows(self, name: str, value: Tensor) -> bool:
        return name not in self.by_output and value.dim() > 1

    def _changed(self: Law, change: Callable[[str, Tensor], Tensor]) -> Law:
        """The same law with `change` applied to each of its tensors."""
        names = [each.name for each in fields(cast(Any, self))]
        return cast(Law, replace(cast(Any, self), **{name: change(name, getattr(self, name)) for name in names}))


@dataclass(frozen=True)
class Nodes:
    """K values for draws, independent for each output, and their log probabilities."""

    value: Float[Tensor, "K *T P"]
    log_weight: Float[Tensor, "K *T P"]

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "*S P"]:
        """A value for each draw, point and output; without drawing if there is only one."""
        value, log_weight = (_aligned(part, len(shape)) for part in (self.value, self.log_weight))
        if len(value) == 1:
            return value[0]
        level = torch.rand(shape, generator=generator, dtype=value.dtype, device=value.device)
        chosen = torch.zeros(shape, dtype=torch.long, device=value.device)
        for edge in torch.cumsum(log_weight.exp(), 0)[:-1]:  # one by one: all at once would take K times the memory
            chosen += level > edge
        return value.expand(len(value), *shape).gather(0, chosen.unsqueeze(0))[0]


@dataclass(frozen=True)
class NormalLaw(NoiseLaw):
    """Normal noise of variance e^relative/β + f²: f is the floor, and `relative` may depend on x.

    Subclasses have a random variance, independent for each output: noise is Normal given its scale.
    """

    log_precision: Float[Tensor, "*B P"]
    relative: Float[Tensor, "*T P"]
    floor_var: Float[Tensor, "P"]

    @property
    def var(self) -> Float[Tensor, "*T P"]:
        """e^relative/β + f²."""
        return torch.exp(self.relative - self.log_precision) + self.floor_var

    def expected_log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """−½ (log 2π + log var + ((y − m)² + v)/var): Eq. (regressorell)."""
        unfloored = torch.exp(self._log_mean_precision())
        floored = self.floor_var * unfloored
        log_precision = self.log_precision - self.relative - torch.log1p(floored)
        precision = unfloored / (1 + floored)
        misfit = (y - signal.mean).square() + signal.var
        log_density = 0.5 * (log_precision - math.log(2 * math.pi) - precision * misfit)
        return (log_density * observed).sum(-1)

    def misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """(y − m)² + v, minus the part explained by the floor, over e^relative."""
        precision = torch.exp(self._log_mean_precision())
        square = (y - signal.mean).square() + signal.var
        own = own_square(square, 1 / (1 + self.floor_var * precision), self.floor_var)
        return own * torch.exp(self._log_mean_precision() - self.log_precision)

    def log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """log E N(y | m, v + noise) over the noise's variance, summed over outputs."""
        return (self._log_density_of_each(y, signal) * observed).sum(-1)

    def log_density_given(
        self,
        y: Float[Tensor, "N P"],
        observed: Bool[Tensor, "N P"],
        signal: Marginals,
        shared: Float[Tensor, "*S N P"],
        own_share: Float[Tensor, "P"],
    ) -> Float[Tensor, "*S N"]:
        """log E N(y | m + √n shared, v + n own_share) over the noise's variance n, summed over outputs.

        This is the density given the shared factors of the noise: see `NoiseCorrelation`.
        """
        gap, noise = y - signal.mean, self.log_scale()
        if noise is not None:
            return (noise.log_density_given(gap, signal.var, shared, own_share) * observed).sum(-1)
        total = own_share * self.var + signal.var
        square = (gap - self.var.sqrt() * shared).square()
        return (-0.5 * (math.log(2 * math.pi) + total.log() + square / total) * observed).sum(-1)

    def predictive_misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """By Fisher's identity: the slope of the log density in log β is ½ (1 − β misfit)."""
        with torch.enable_grad():
            level = self.log_precision.detach().expand(signal.mean.shape).clone().requires_grad_()
            total = replace(self, log_precision=level)._log_density_of_each(y, signal).sum()
            (slope,) = torch.autograd.grad(total, level)
        return ((1 - 2 * slope) * torch.exp(-self.log_precision)).clamp_min(0).detach()

    @property
    def is_drawn(self) -> bool:
        """Whether the variance is random."""
        return self.log_scale() is not None

    def draw_var(self, shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "*S P"]:
        """A value for each draw, point and output of the signal; without drawing if there is only one."""
        return self.nodes().draw(shape, generator)

    def joint(self, signal_var: Float[Tensor, "S N P"], scale: Float[Tensor, "P"]) -> Independent:
        """Independent Normals, or a mixture over scales for each output."""
        noise = self.log_scale()
        if noise is None:
            return Independent()
        shape = torch.full_like(noise.center, math.inf) if noise.shape is None else noise.shape
        parts = noise.center + 2 * scale.log(), noise.spread, noise.floor_var * scale.square(), shape
        points = signal_var[:1] if noise.center.dim() < 3 else signal_var
        arrays = [part.expand_as(points).double().cpu().numpy() for part in parts]
        return ScaleMixture(signal_var.double().cpu().numpy(), *arrays)

    def variance_nodes(self) -> Nodes:
        """Those of draws."""
        return self.nodes()

    def nodes(self) -> Nodes:
        """Values of the variance for draws: a single one."""
        var = (torch.exp(self.relative - self.log_precision) + self.floor_var).unsqueeze(0)
        return Nodes(var, torch.zeros_like(var))

    def log_scale(self) -> LogScale | None:
        """The law of the log variance; None if it is not random."""
        return None

    def mean_std(self) -> Float[Tensor, "*T P"]:
        """E √n for the variance n: the closed form without the floor, whose variance f² is then added to its square."""
        noise = self.log_scale()
        if noise is None:
            return self.var.sqrt()
        log_mean = 0.5 * noise.center + 0.125 * noise.spread
        if noise.shape is not None:  # E λ^−½ for λ ~ Gamma(shape, shape)
            ratio = torch.lgamma(noise.shape - 0.5) - torch.lgamma(noise.shape)
            log_mean = log_mean + ratio + 0.5 * noise.shape.log()
        return (torch.exp(2 * log_mean) + self.floor_var).sqrt()

    def _log_density_of_each(self, y: Tensor, signal: Marginals) -> Float[Tensor, "*S N P"]:
        square, noise = (y - signal.mean).square(), self.log_scale()
        if noise is not None:
            return noise.log_density(square, signal.var)
        total = self.var + signal.var
        return -0.5 * (math.log(2 * math.pi) + total.log() + square / total)

    def _log_mean_precision(self) -> Float[Tensor, "*T P"]:
        """log E β e^−relative."""
        return self.log_precision - self.relative


@dataclass(frozen=True)
class LogNormalLaw(NormalLaw):
    """Normal noise with a Normal log variance: `relative` is its mean and `spread` its variance.

    Without a floor, E log N(y | Φ, e^g) = −½ (log 2π + μ + e^{−μ + s/2} ((y − m)² + v)) for g ~ N(μ, s). With one, both
    parts of it are bounded by Jensen's inequality, from the side that keeps the whole a lower bound:

        E log(e^g + f²) ≤ μ + log(1 + f² e^{−μ + s/2})          E 1/(e^g + f²) ≤ 1/(e^{μ − s/2} + f²)

    Both are equalities for f = 0 and for s = 0. Scales of different outputs are taken to be independent given x.
    """

    spread: Float[Tensor, "*T P"]

    @property
    def var(self) -> Float[Tensor, "*T P"]:
        """E e^g + f²."""
        return torch.exp(self.relative + 0.5 * self.spread - self.log_precision) + self.floor_var

    def nodes(self) -> Nodes:
        """Gauss–Hermite nodes."""
        shape = (-1, *(1,) * self.relative.dim())
        position, weight = (
            torch.as_tensor(part).to(self.relative).reshape(shape)
            for part in np.polynomial.hermite_e.hermegauss(_QUADRATURE_ORDER)
        )
        var = torch.exp(self.relative - self.log_precision + self.spread.sqrt() * position) + self.floor_var
        return Nodes(var, (weight / weight.sum()).log().expand_as(var))

    def log_scale(self) -> LogScale | None:
        """Normal, above the floor."""
        return LogScale(self.relative - self.log_precision, self.spread, self.floor_var)

    def _log_mean_precision(self) -> Float[Tensor, "*T P"]:
        """log E β e^−relative."""
        return self.log_precision - self.relative + 0.5 * self.spread


def own_square(square: Tensor, share: Tensor, rest: Tensor) -> Tensor:
    """E e² given (e + e′)² = square: e has this share of the variance, and e′ the variance `rest`.

    >>> own_square(torch.tensor(4.0), torch.tensor(0.5), torch.tensor(2.0))
    tensor(2.)
    """
    return share.square() * square + share * rest


def _aligned(part: Tensor, num_axes: int) -> Tensor:
    """Insert axes of size one after the first, up to `num_axes`."""
    return part.reshape(part.shape[0], *(1,) * (num_axes + 1 - part.dim()), *part.shape[1:])
