"""Densities of Normals whose log variance is random: log ∫ p(w) N(e | 0, e^w + c) dw, right far out in the tails.

Where e is large, w is found far from where its prior has its mass, and a rule whose nodes do not depend on e misses it.
Here the nodes lie around the modes of the integrand. There are two of those where c, which holds the variance of the
signal, is well above the noise's: either the noise is as ever, and the signal is off, or the noise is large.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

# The trapezoidal rule with NODES nodes about each of two modes, STEP standard deviations apart and farther out more. The
# two grids are half a step apart, so that where both modes are one, they make a rule of twice as many nodes. Over the
# sweep of tests/heads/test_tails.py the largest error is 0.024 nat.
_NODES, _STEP, _STRETCH = 12, 0.9, 0.3
_NEWTON_STEPS = 8
_LEAST_LOG_GAMMA = -15.0  # of −log λ: nothing is left to the left of it
_LOG_2_PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class _Place:
    """A point of the log variance's line, by the coordinate u that the rule is even in."""

    log_var: Tensor
    pull: Tensor  # κ, the slope by which the prior holds the log variance back
    log_var_slope: Tensor  # dw/du
    pull_slope: Tensor  # dκ/du


@dataclass(frozen=True)
class LogScale:
    """The law of a variance e^w + f²: w = g − log λ with g ~ N(center, spread) and λ ~ Gamma(shape, shape).

    A shape of None is λ = 1, and a Normal w. A spread of 0 is Student's t with twice `shape` degrees of freedom.

    With both, the density of w is that of Laplace's method over how w splits into g and −log λ, to second order, right to
    0.002. It is explicit in the slope κ = (g − center)/spread = shape (1 − λ) that both parts have where it is largest:

        w = center + spread κ − log(1 − κ/shape)

    Args:
        center: mean of g.
        spread: variance of g.
        floor_var: f².
        shape: half of the degrees of freedom.
    """

    center: Float[Tensor, "*C P"]
    spread: Float[Tensor, "*V P"]
    floor_var: Float[Tensor, "*F P"]
    shape: Float[Tensor, "*G P"] | None = None

    def log_density(self, square: Float[Tensor, "*S P"], extra_var: Float[Tensor, "*S P"]) -> Float[Tensor, "*R P"]:
        """log ∫ p(w) N(e | 0, e^w + f² + extra_var) dw, number by number, for e² = square.

        The rule holds on any grid of its kind, so that nothing is lost by not learning from where its nodes are.
        """
        rest = self.floor_var + extra_var
        scale = self._with_some_spread()
        nodes, log_step = scale._nodes(square, rest)
        log_var, log_weight = scale._prior(nodes)
        total = torch.exp(log_var) + rest
        each = log_step + log_weight - 0.5 * (_LOG_2_PI + total.log() + square / total)
        return torch.logsumexp(each, 0)

    def _with_some_spread(self) -> "LogScale":
        """At a spread of zero a Normal would have no gradient."""
        if self.shape is not None:
            return self
        return replace(self, spread=self.spread.clamp_min(torch.finfo(self.spread.dtype).tiny))

    def _unit(self) -> Tensor:
        """What −log λ is multiplied by to have u: u is w in standard deviations from its center, near it."""
        assert self.shape is not None
        return self.shape * (self.spread + 1 / self.shape).sqrt()

    def _at(self, u: Tensor) -> _Place:
        if self.shape is None:
            scale = self.spread.sqrt()
            return _Place(self.center + scale * u, u / scale, scale, 1 / scale)
        unit = self._unit()
        log_gamma = (u / unit).clamp_min(_LEAST_LOG_GAMMA)
        pull, left = -self.shape * torch.expm1(-log_gamma), self.shape * torch.exp(-log_gamma)
        log_var = self.center + self.spread * pull + log_gamma
        return _Place(log_var, pull, (1 + self.spread * left) / unit, left / unit)

    def _prior(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """w, and the log of its density times dw/du."""
        if self.shape is None:
            return self.center + self.spread.sqrt() * u, -0.5 * (_LOG_2_PI + u.square())
        log_gamma = (u / self._unit()).clamp_min(_LEAST_LOG_GAMMA)
        pull, left = -self.shape * torch.expm1(-log_gamma), self.shape * torch.exp(-log_gamma)
        stiffness = 1 + self.spread * left
        share = self.spread * left / stiffness
        second_order = share.square() * (5 * share / 24 - 1 / 8) / left
        constant = -_stirling_remainder(self.shape) - 0.5 * (_LOG_2_PI + torch.log1p(self.spread * self.shape))
        exponent = -0.5 * self.spread * pull.square() - self.shape * log_gamma + pull
        log_var = self.center + self.spread * pull + log_gamma
        return log_var, exponent + 0.5 * stiffness.log() + second_order + constant

    @torch.no_grad()
    def _nodes(self, square: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
        """Nodes u about the modes, and the log of each one's step. The grids share the line by a smooth partition."""
        modes = self._modes(square, rest)
        widths = [self._width(mode, square, rest) for mode in modes]
        nodes, log_steps = [], []
        for own, other in ((0, 1), (1, 0)):
            step = self._steps(0.5 * own - 0.25, square)
            u = modes[own] + widths[own] * torch.sinh(_STRETCH * step) / _STRETCH
            near, far = (1 + ((u - modes[each]) / widths[each]).square() for each in (own, other))
            odds = widths[own] / widths[other] * (near / far).square()
            nodes.append(u)
            log_steps.append(torch.log(_STEP * torch.cosh(_STRETCH * step) * widths[own] / (1 + odds)))
        return torch.cat(nodes), torch.cat(log_steps)

    @staticmethod
    def _steps(shift: float, like: Tensor) -> Tensor:
        count = torch.arange(_NODES, dtype=like.dtype, device=like.device)
        return (_STEP * (count - 0.5 * (_NODES - 1) + shift)).reshape(-1, *(1,) * like.dim())

    def _width(self, mode: Tensor, square: Tensor, rest: Tensor) -> Tensor:
        """The integrand's standard deviation by its curvature, not much wider than the prior where it has none."""
        place = self._at(mode)
        _, push_slope = _push(place, square, rest)
        curvature = torch.maximum(place.pull_slope - push_slope, 0.4 * place.pull_slope)
        return (place.log_var_slope * curvature).rsqrt()

    def _modes(self, square: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the last mode, which may be one: there κ is ½ r (D − 1), see `_push`."""
        low, high = self._bounds(square, rest)
        last = self._root(high, low, high, square, rest, from_below=False)
        return self._root(torch.zeros_like(high), low, last, square, rest, from_below=True), last

    def _bounds(self, square: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
        """Of every mode: −½ ≤ κ, κ ≤ ½ D e^(center − w) and κ ≤ e²/8c, as r (1 − r) ≤ ¼."""
        tiny = torch.finfo(square.dtype).tiny
        distance = 0.5 * square * torch.exp(-self.center)
        of_normal = torch.log1p(self.spread * distance) / self.spread.clamp_min(tiny)
        most = torch.where(self.spread * distance > 1e-3, of_normal, distance)
        most = torch.minimum(most, square / (8 * rest.clamp_min(tiny)))
        if self.shape is None:
            scale = self.spread.sqrt()
            return (-0.5 * scale).expand_as(most), most * scale
        unit = self._unit()
        log_gamma = torch.minimum(-torch.log1p(-(most / self.shape).clamp_max(1)), torch.log1p(distance / self.shape))
        return (-torch.log1p(0.5 / self.shape) * unit).expand_as(log_gamma), log_gamma * unit

    def _root(self, u: Tensor, low: Tensor, high: Tensor, square: Tensor, rest: Tensor, *, from_below: bool) -> Tensor:
        """Where push and pull are equal, by Newton's steps in logarithms; halving where one would leave the bracket."""
        for _ in range(_NEWTON_STEPS):
            place = self._at(u)
            push, push_slope = _push(place, square, rest)
            gap = torch.log((1 + push) / (1 + place.pull))
            slope = push_slope / (1 + push) - place.pull_slope / (1 + place.pull)
            low, high = torch.where(gap > 0, u, low), torch.where(gap > 0, high, u)
            new = u - gap / slope.clamp_max(-1e-12)
            if from_below:  # past the last mode there is nothing to find
                new = torch.minimum(new, high)
            u = torch.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        return u


def _push(place: _Place, square: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The slope of log N(e | 0, e^w + c) in w, ½ r (D − 1) with r = e^w/(e^w + c) and D = e²/(e^w + c); its own in u."""
    own = torch.exp(place.log_var)
    total = own + rest
    share, distance = own / total, square / total
    slope = 0.5 * share * ((1 - share) * (distance - 1) - share * distance)
    return 0.5 * share * (distance - 1), slope * place.log_var_slope


def _stirling_remainder(shape: Tensor) -> Tensor:
    """log Γ(a) less Stirling's formula, in float64: for many degrees of freedom all but nothing is left."""
    wide = shape.double()
    return (torch.lgamma(wide) - (wide - 0.5) * wide.log() + wide - 0.5 * _LOG_2_PI).to(shape)
