"""The law of the noise at some points: what objectives, updates and predictions ask of it.

Every noise has a level per output, the precision β, and a floor f under its standard deviation. The optimum of the
level given all else is a mean over what is observed, `misfit`: of the square that each output is off, in expectation
and in units of what the noise is relative to its level. Where the noise is f² + e²/β for some known e, the expectation
is that of the part without the floor, so that updates by it are steps of expectation maximisation, and never overshoot.
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

from mogul.joint import Independent, ScaleMixture
from mogul.marginals import Marginals

# Points of Gauss–Hermite quadrature over a log variance that is Normal: of a standard deviation up to 1 the log density
# is right to 0.01 as far as six standard deviations from the mean, of 1.5 to 0.05 (tests/heads/test_laws.py).
_QUADRATURE_ORDER = 10


Law = TypeVar("Law", bound="NoiseLaw")


class NoiseLaw(ABC):
    """p(y | signal) at N points. Missing outputs hold finite stand-ins: what is masked must still have a gradient."""

    by_output: ClassVar[frozenset[str]] = frozenset()  # fields whose first axis is that of outputs; else it is the last

    @property
    @abstractmethod
    def var(self) -> Float[Tensor, "*T P"]:
        """The variance of the noise of each output."""

    def pooled_var(self) -> Float[Tensor, "*T P"]:
        """The same, averaged over draws of the points."""
        return self.var.flatten(0, -3).mean(0) if self.var.dim() > 2 else self.var

    @abstractmethod
    def expected_log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """E log p(y | signal) per datapoint over its observed outputs, less the KL of what is latent in its noise."""

    @abstractmethod
    def log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """log E p(y | signal) per datapoint over its observed outputs, for a Normal signal."""

    @abstractmethod
    def misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """What 1/β is the mean of where `expected_log_density` is largest; anything for missing outputs."""

    @abstractmethod
    def predictive_misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """The same for `log_density`."""

    @property
    def is_drawn(self) -> bool:
        """Whether variances of components are draws of something random, not the same for all."""
        return False

    @abstractmethod
    def draw_var(self, shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "*S P"]:
        """Variances of the noise for components of this shape, (S, N, P): a draw for each of what is random in it."""

    @abstractmethod
    def joint(self, signal_var: Float[Tensor, "S N P"], scale: Float[Tensor, "P"]) -> Independent:
        """How the outputs of components with such signals belong together, in units of y = scale × the head's."""

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
        """At the points of this and then of the others."""
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
        """The same law with each of its fields, all of them tensors, changed."""
        names = [each.name for each in fields(cast(Any, self))]
        return cast(Law, replace(cast(Any, self), **{name: change(name, getattr(self, name)) for name in names}))


@dataclass(frozen=True)
class Nodes:
    """K kinds of noise, independently for each output: given the k-th, its variance is factor/β + floor_var."""

    factor: Float[Tensor, "K *T P"]
    floor_var: Float[Tensor, "K *T P"]
    log_weight: Float[Tensor, "K *T P"]

    def aligned(self, num_axes: int) -> "Nodes":
        """With so many axes behind the first: leading axes of the signal are draws."""
        return Nodes(*(_aligned(part, num_axes) for part in (self.factor, self.floor_var, self.log_weight)))


class ScaleMixtureLaw(NoiseLaw):
    """Noise that is Normal given its scale, and has one of a few scales, for each output by itself."""

    log_precision: Float[Tensor, "P"]

    @abstractmethod
    def nodes(self) -> Nodes:
        """The scales; a single one where the noise is Normal."""

    def log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """log Σ w N(y | m, v + noise), summed over outputs."""
        total, _ = self._given_nodes(y, signal)
        return (torch.logsumexp(total, 0) * observed).sum(-1)

    def predictive_misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """The noise's own square given y, in units of its factor, averaged over nodes given y."""
        total, misfit = self._given_nodes(y, signal)
        return (torch.softmax(total, 0) * misfit).sum(0)

    @property
    def is_drawn(self) -> bool:
        """Whether there is more than one node."""
        return len(self.nodes().factor) > 1

    def draw_var(self, shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "*S P"]:
        """A node for each draw, point and output; all there is where there is but one."""
        nodes = self.nodes().aligned(len(shape))
        each = self._var(nodes)
        if len(each) == 1:
            return each[0]
        level = torch.rand(shape, generator=generator, dtype=each.dtype, device=each.device)
        chosen = torch.zeros(shape, dtype=torch.long, device=each.device)
        for edge in torch.cumsum(nodes.log_weight.exp(), 0)[:-1]:  # one by one: all at once would take K times the room
            chosen += level > edge
        return each.expand(len(each), *shape).gather(0, chosen.unsqueeze(0))[0]

    def joint(self, signal_var: Float[Tensor, "S N P"], scale: Float[Tensor, "P"]) -> Independent:
        """Independent Normals, or a mixture over scales for each output."""
        nodes = self.nodes()
        if len(nodes.factor) == 1:
            return Independent()
        num_points, num_outputs = signal_var.shape[-2:]
        shape = (-1, num_points, num_outputs)
        noise_var = scale.square() * self._var(nodes.aligned(2))
        parts = signal_var, noise_var.expand(shape), nodes.aligned(2).log_weight.exp().expand(shape)
        return ScaleMixture(*(part.double().cpu().numpy() for part in parts))

    def _var(self, nodes: Nodes) -> Float[Tensor, "K *T P"]:
        return nodes.factor * torch.exp(-self.log_precision) + nodes.floor_var

    def _given_nodes(self, y: Tensor, signal: Marginals) -> tuple[Tensor, Tensor]:
        """log w N(y | m, v + noise) for each node, and the square of the noise without its floor over its factor."""
        nodes = self.nodes().aligned(signal.mean.dim())
        total = self._var(nodes) + signal.var
        square = (y - signal.mean).square()
        log_density = nodes.log_weight - 0.5 * (math.log(2 * math.pi) + total.log() + square / total)
        with torch.no_grad():
            own = nodes.factor * torch.exp(-self.log_precision)
            misfit = own_square(square, own / total, total - own) / nodes.factor
        return log_density, misfit


@dataclass(frozen=True)
class NormalLaw(ScaleMixtureLaw):
    """Normal noise of variance e^relative/β + f²: f is the floor, and `relative` may depend on x."""

    log_precision: Float[Tensor, "P"]
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
        """(y − m)² + v, less what the floor explains of it, over e^relative."""
        precision = torch.exp(self._log_mean_precision())
        square = (y - signal.mean).square() + signal.var
        own = own_square(square, 1 / (1 + self.floor_var * precision), self.floor_var)
        return own * torch.exp(self._log_mean_precision() - self.log_precision)

    def nodes(self) -> Nodes:
        """A single one."""
        factor = torch.exp(self.relative).unsqueeze(0)
        return Nodes(factor, self.floor_var.expand_as(factor), torch.zeros_like(factor))

    def _log_mean_precision(self) -> Float[Tensor, "*T P"]:
        """log E β e^−relative."""
        return self.log_precision - self.relative


@dataclass(frozen=True)
class LogNormalLaw(NormalLaw):
    """The same with a Normal log variance: `relative` is its mean and `spread` its variance.

    Without a floor, E log N(y | Φ, e^g) = −½ (log 2π + μ + e^{−μ + s/2} ((y − m)² + v)) for g ~ N(μ, s). With one, both
    parts of it are bounded by Jensen's inequality, from the side that keeps the whole a lower bound:

        E log(e^g + f²) ≤ μ + log(1 + f² e^{−μ + s/2})          E 1/(e^g + f²) ≤ 1/(e^{μ − s/2} + f²)

    Both are equalities for f = 0 and for s = 0.
    """

    spread: Float[Tensor, "*T P"]

    @property
    def var(self) -> Float[Tensor, "*T P"]:
        """E e^g + f²."""
        return torch.exp(self.relative + 0.5 * self.spread - self.log_precision) + self.floor_var

    def nodes(self) -> Nodes:
        """Gauss–Hermite nodes; scales of different outputs are taken to be independent given x."""
        shape = (-1, *(1,) * self.relative.dim())
        position, weight = (
            torch.as_tensor(part).to(self.relative).reshape(shape)
            for part in np.polynomial.hermite_e.hermegauss(_QUADRATURE_ORDER)
        )
        scale = self.spread.clamp_min(torch.finfo(self.spread.dtype).tiny).sqrt()  # at zero it would have no gradient
        factor = torch.exp(self.relative + scale * position)
        return Nodes(factor, self.floor_var.expand_as(factor), (weight / weight.sum()).log().expand_as(factor))

    def _log_mean_precision(self) -> Float[Tensor, "*T P"]:
        """log E β e^−relative."""
        return self.log_precision - self.relative + 0.5 * self.spread


def own_square(square: Tensor, share: Tensor, rest: Tensor) -> Tensor:
    """E e² given e + e′, whose square this is: e has this share of their variance, and e′ the variance `rest`.

    >>> own_square(torch.tensor(4.0), torch.tensor(0.5), torch.tensor(2.0))
    tensor(2.)
    """
    return share.square() * square + share * rest


def _aligned(part: Tensor, num_axes: int) -> Tensor:
    """With axes of size one behind the first, where there are fewer."""
    return part.reshape(part.shape[0], *(1,) * (num_axes + 1 - part.dim()), *part.shape[1:])
