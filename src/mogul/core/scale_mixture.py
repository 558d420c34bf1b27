"""Densities of Normals whose log variance is random: log ∫ p(w) N(e | 0, e^w + c) dw, accurate far into the tails.

For e within a few standard deviations the quadrature nodes are fixed: they depend only on the prior of w. For large e,
the posterior of w lies far from the prior's mass, and fixed nodes miss it. Nodes then lie around the modes of the
integrand. There are two modes where c, which includes the signal's variance, exceeds the noise variance: either the
signal is wrong or the noise is large.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def _stretched_nodes(places: Iterable[float], step: float, stretch: float) -> list[tuple[float, float]]:
    """Nodes of the trapezoidal rule and their weights, on a grid that widens away from 0."""
    return [(math.sinh(stretch * at) / stretch, step * math.cosh(stretch * at)) for at in places]


def _gauss_hermite(order: int) -> list[tuple[float, float]]:
    """Nodes and weights such that Σ weight e^(−u²/2) f(u) is ∫ e^(−u²/2) f(u) du."""
    at, weight = np.polynomial.hermite_e.hermegauss(order)
    return list(zip(at.tolist(), (weight * np.exp(0.5 * at**2)).tolist(), strict=True))


# Nodes of the fixed rule, in standard deviations of w, with more nodes towards large noise. For Normal log scales of
# spread up to 0.1 and 0.4, 6 and 8 Gauss–Hermite nodes suffice.
_FIXED = _stretched_nodes((0.8 * (number - 4.5) for number in range(12)), 0.8, 0.25)
_FIXED_NORMAL = {0.1: _gauss_hermite(6), 0.4: _gauss_hermite(8)}
# Where the fixed rule is accurate to 0.01 nat, measured for dof of 2.1 and more: the largest spread; the limit on
# squared standard deviations of noise and signal for Normal log scales; the same for Student's t, where the limit also
# depends on dof and on the noise's share.
_WIDEST_SPREAD, _NEAR_NORMAL, _NEAR_T = 1.0, 28.0, 14.0
# Nodes around a single mode, and around each of two modes. The two grids are half a step apart: they interleave where
# the modes coincide. tests/heads/test_tails.py asserts errors below 0.05 nat up to 30 scales, below 2 % beyond.
_ONE_MODE = _stretched_nodes((0.7 * (number - 6.5) for number in range(14)), 0.7, 0.3)
_TWO_MODES = [_stretched_nodes((0.9 * (number + 0.5 * own - 5.75) for number in range(12)), 0.9, 0.3) for own in (0, 1)]
_NEWTON_STEPS = 8
# The evenly spaced rule, for partly shared noise: its margin beyond the modes, in standard deviations of w; the usual
# largest mode; the largest step, in widths of the integrand, √own_share; the largest number of nodes.
_EVEN_START, _EVEN_MODE, _EVEN_STEP, _MOST_EVEN = -5.0, 7.0, 1.0, 400
# Densities computed at a time: arrays of this size fit into caches.
_AT_ONCE = 8000
# Student's t is expanded to first order in the added variance where that variance times the dof is below this share.
_NEGLIGIBLE = 0.1
_LEAST_LOG_GAMMA = -15.0  # lower limit of −log λ; the integrand is negligible below it
_LOG_2_PI = math.log(2 * math.pi)


_Rule = Callable[["LogScale", Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class _Place:
    """A value of the log variance w, given by the coordinate u in which nodes are evenly spaced."""

    log_var: Tensor
    pull: Tensor  # κ, the slope of the prior's log density
    log_var_slope: Tensor  # dw/du
    pull_slope: Tensor  # dκ/du


@dataclass(frozen=True)
class LogScale:
    """The law of a variance e^w + f²: w = g − log λ with g ~ N(center, spread) and λ ~ Gamma(shape, shape).

    A shape of None is λ = 1, and a Normal w. A spread of 0 is Student's t with twice `shape` degrees of freedom.

    With both, the density of w comes from Laplace's method over the split of w into g and −log λ, to second order,
    accurate to 0.002. It is explicit in κ = (g − center)/spread = shape (1 − λ), the slope of both at the maximum:

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
        """log ∫ p(w) N(e | 0, e^w + f² + extra_var) dw, elementwise, for e² = square.

        The positions of the nodes are detached; the rule is accurate for nearby grids too, so gradients stay accurate.
        """
        return self._log_density(square, self.floor_var + extra_var)

    def log_density_given(
        self,
        gap: Float[Tensor, "*S P"],
        extra_var: Float[Tensor, "*S P"],
        shared: Float[Tensor, "*S P"],
        own_share: Float[Tensor, "P"],
    ) -> Float[Tensor, "*R P"]:
        """log ∫ p(w) N(gap | √n shared, n own_share + extra_var) dw for n = e^w + f², elementwise.

        Where noise is mostly shared, the integrand is narrow in w; the trapezoidal rule's step is chosen to match.
        """
        every = gap + extra_var + shared
        gap, extra_var, shared = (part.expand_as(every) for part in (gap, extra_var, shared))
        scale = self._with_some_spread()
        _, mode = scale._bounds(2 * gap.square() / own_share, self.floor_var + extra_var, scale._unit())
        most = torch.full((1,) * gap.dim(), _EVEN_MODE).to(gap)
        result = scale._by_even_nodes(gap, extra_var, shared, own_share, most)
        far = (mode > _EVEN_MODE).nonzero(as_tuple=True)
        if not len(far[0]):
            return result
        given = [part.expand_as(every)[far] for part in (gap, extra_var, shared, own_share, mode)]
        return result.index_put(far, scale._at_places(far, every)._by_even_nodes(*given))

    def _at_places(self, places: tuple[Tensor, ...], like: Tensor) -> "LogScale":
        """The law at some indices of a tensor, as a vector."""
        center, spread, floor_var = (
            part.expand_as(like)[places] for part in (self.center, self.spread, self.floor_var)
        )
        return LogScale(center, spread, floor_var, None if self.shape is None else self.shape.expand_as(like)[places])

    def _by_even_nodes(self, gap: Tensor, extra_var: Tensor, shared: Tensor, own_share: Tensor, mode: Tensor) -> Tensor:
        """The evenly spaced rule, for a given largest mode."""
        unit, width = self._unit(), mode - 2 * _EVEN_START
        widest = (self.spread + (0.0 if self.shape is None else 1 / self.shape)).amax().sqrt()
        finest = torch.clamp(_EVEN_STEP * own_share.amin().sqrt() / widest, max=0.5)
        count = min(_MOST_EVEN, math.ceil(float(width.amax() / finest)))
        numbers, total = torch.arange(count + 1).to(gap), torch.full_like(gap, -math.inf)
        for some in numbers.split(max(1, _AT_ONCE // gap.numel())):  # type: ignore[no-untyped-call]  # torch's own
            u = _EVEN_START + some.reshape(-1, *(1,) * gap.dim()) * (width / count)
            log_var, exponent, factor = self._prior(u, unit)
            log_weight = exponent if factor is None else exponent + factor.log()
            noise_var = torch.exp(log_var) + self.floor_var
            var = own_share * noise_var + extra_var
            misfit = (gap - noise_var.sqrt() * shared).square() / var
            each = log_weight - 0.5 * (var.log() + misfit)
            total = torch.logaddexp(total, torch.logsumexp(each, 0) if len(each) > 1 else each[0])
        return total + (width / count).log() + self._log_constant()

    def _log_density(self, square: Tensor, rest: Tensor) -> Tensor:
        """Closed form for Student's t with little added variance, else the cheapest accurate rule."""
        if self.shape is None or bool(self.spread.any()):
            return self._by_nodes(square, rest)
        square = square.expand_as(square + rest + self.center)
        alone = (rest * (2 * self.shape + 1) <= _NEGLIGIBLE * torch.exp(self.center)) & (square >= 0)
        if not bool(alone.any()):
            return self._by_nodes(square, rest)
        return self._elsewhere(~alone, LogScale._by_nodes, self._students_t(square, rest), square, rest)

    def _by_nodes(self, square: Tensor, rest: Tensor) -> Tensor:
        near = self._is_near(square, rest)
        # Far values are replaced by values with finite gradients.
        narrow = replace(self, spread=self.spread.clamp_max(_WIDEST_SPREAD))
        result = narrow._fixed_in_parts(torch.where(near, square, 0.0), rest)
        return self._elsewhere(~near, LogScale._far_out, result, square, rest)

    def _fixed_in_parts(self, square: Tensor, rest: Tensor) -> Tensor:
        """In parts to save memory; all at once where gradients are needed."""
        every, num_rows = (square, rest, *self._law()), square.shape[-2] if square.dim() > 1 else 1
        step = max(1, _AT_ONCE * num_rows // max(1, square.numel()))
        if step >= num_rows or (torch.is_grad_enabled() and any(part.requires_grad for part in every)):
            return self._by_fixed_nodes(square, rest)
        result = torch.empty_like(square)
        for first in range(0, num_rows, step):
            some_square, some_rest, *law = (_rows(part, first, step) for part in every)
            result[..., first : first + step, :] = _law_of(law)._by_fixed_nodes(some_square, some_rest)
        return result

    def _elsewhere(self, here: Tensor, rule: _Rule, result: Tensor, *given: Tensor) -> Tensor:
        """`result`, with the values of `rule` where `here` is true, computed in parts."""
        places = here.nonzero(as_tuple=True)
        if not len(places[0]):
            return result
        every = [part.expand(here.shape) for part in (*given, *self._law())]
        found = []
        for first in range(0, len(places[0]), _AT_ONCE):
            some = tuple(place[first : first + _AT_ONCE] for place in places)
            square, rest, *law = (part[some] for part in every)
            found.append(rule(_law_of(law), square, rest))
        return result.index_put(places, torch.cat(found))

    def _law(self) -> tuple[Tensor, ...]:
        """All parameters except the floor."""
        return (self.center, self.spread) if self.shape is None else (self.center, self.spread, self.shape)

    def _students_t(self, square: Tensor, rest: Tensor) -> Tensor:
        """To first order in c: log t(e) + ½ c E λ (λ e² − 1) for λ given e, in units of the scale."""
        assert self.shape is not None
        dof, precision = 2 * self.shape, torch.exp(-self.center)
        distance, extra = square * precision, (rest * precision).clamp_max(_NEGLIGIBLE)
        mean = (dof + 1) / (dof + distance)
        first_order = 0.5 * extra * mean * (distance * (dof + 3) / (dof + distance) - 1)
        constant = _stirling_remainder(self.shape + 0.5) - _stirling_remainder(self.shape)
        constant = constant + self.shape * torch.log1p(0.5 / self.shape) - 0.5
        return constant - 0.5 * (_LOG_2_PI + self.center + (dof + 1) * torch.log1p(distance / dof)) + first_order

    @torch.no_grad()
    def _is_near(self, square: Tensor, rest: Tensor) -> Tensor:
        """Where the fixed rule is accurate."""
        noise = torch.exp(self.center)
        share = noise / (noise + rest)
        most: Tensor | float = _NEAR_NORMAL
        if self.shape is not None:
            most = (2 + 2.4 * self.shape).clamp_max(_NEAR_T) + 25 * share.square()
        return (square * share < most * noise) & (self.spread <= _WIDEST_SPREAD)

    def _by_fixed_nodes(self, square: Tensor, rest: Tensor) -> Tensor:
        scale = self._with_some_spread()
        at, step = torch.tensor(scale._fixed_nodes(), dtype=torch.float64).to(square).unbind(1)
        axes = (-1, *(1,) * max(part.dim() for part in scale._law()))
        log_var, exponent, factor = scale._prior(at.reshape(axes), scale._unit())
        log_weight = exponent + step.log().reshape(axes)
        log_weight = log_weight if factor is None else log_weight + factor.log()
        half, total = -0.5 * square, torch.zeros_like(square)
        for own, weight in zip(torch.exp(log_var), log_weight, strict=True):  # faster than all at once
            precision = (own + rest).reciprocal()
            total = torch.addcmul(total, precision.sqrt(), torch.addcmul(weight, half, precision).exp())
        return total.log() + scale._log_constant()

    def _fixed_nodes(self) -> list[tuple[float, float]]:
        if self.shape is None:
            widest = float(self.spread.detach().amax()) if self.spread.numel() else 0.0
            return next((nodes for limit, nodes in _FIXED_NORMAL.items() if widest <= limit), _FIXED)
        return _FIXED

    def _far_out(self, square: Float[Tensor, "K"], rest: Float[Tensor, "K"]) -> Float[Tensor, "K"]:
        """Nodes around the modes: one mode where the noise variance exceeds the rest and e² exceeds both.

        Then log p(w) has a larger slope than −log N(e | 0, e^w + c) up to the center, and falls faster beyond.
        """
        scale, noise = self._with_some_spread(), torch.exp(self.center.detach())
        single = (rest <= noise) & (square > noise + rest)
        result = scale._elsewhere(single, LogScale._around_one, torch.zeros_like(square), square, rest)
        return scale._elsewhere(~single, LogScale._around_two, result, square, rest)

    def _around_one(self, square: Tensor, rest: Tensor) -> Tensor:
        unit = self._unit()
        with torch.no_grad():
            low, high = self._bounds(square, rest, unit)
            mode = self._root(high, (low, high), square, rest, unit, from_below=False)
            width = self._width(mode, square, rest, unit)
        largest = self._integrand(mode, square, rest, unit)[0].detach()
        total = torch.zeros_like(largest)
        for offset, step in _ONE_MODE:
            exponent, factor = self._integrand(mode + offset * width, square, rest, unit)
            total = total + step * factor * torch.exp(exponent - largest)
        return (width * total).log() + largest + self._log_constant()

    def _around_two(self, square: Tensor, rest: Tensor) -> Tensor:
        unit = self._unit()
        grids = self._grids(square, rest, unit)
        largest = torch.maximum(*(self._integrand(mode, square, rest, unit)[0].detach() for mode, _ in grids))
        most = 0.9 * math.log(torch.finfo(square.dtype).max)
        total = torch.zeros_like(largest)
        for own, places in enumerate(_TWO_MODES):
            for offset, step in places:  # one by one: faster, and with 1/24 of the memory
                u, share = _node(grids[own], grids[1 - own], offset)
                exponent, factor = self._integrand(u, square, rest, unit)
                total = total + step * share * factor * torch.exp((exponent - largest).clamp_max(most))
        return total.log() + largest + self._log_constant()

    def _with_some_spread(self) -> "LogScale":
        """With a positive spread: at spread zero a Normal has no gradient."""
        if self.shape is not None:
            return self
        return replace(self, spread=self.spread.clamp_min(torch.finfo(self.spread.dtype).tiny))

    def _unit(self) -> Tensor:
        """Unit of u, the distance of w from its center in standard deviations: the factor on u or on −log λ."""
        return self.spread.sqrt() if self.shape is None else self.shape * (self.spread + 1 / self.shape).sqrt()

    def _at(self, u: Tensor, unit: Tensor) -> _Place:
        if self.shape is None:
            return _Place(self.center + unit * u, u / unit, unit, 1 / unit)
        log_gamma = (u / unit).clamp_min(_LEAST_LOG_GAMMA)
        pull, left = -self.shape * torch.expm1(-log_gamma), self.shape * torch.exp(-log_gamma)
        log_var = self.center + self.spread * pull + log_gamma
        return _Place(log_var, pull, (1 + self.spread * left) / unit, left / unit)

    def _integrand(self, u: Tensor, square: Tensor, rest: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
        """p(w) dw/du N(e | 0, e^w + c): its exponent and a factor, without terms constant in u."""
        log_var, exponent, factor = self._prior(u, unit)
        precision = 1 / (torch.exp(log_var) + rest)
        root = precision.sqrt()
        return exponent - 0.5 * square * precision, root if factor is None else root * factor

    def _prior(self, u: Tensor, unit: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """w, and its density times dw/du as exponent and factor (see `_integrand`)."""
        if self.shape is None:
            return self.center + unit * u, -0.5 * u.square(), None
        log_gamma = (u / unit).clamp_min(_LEAST_LOG_GAMMA)
        pull, left = -self.shape * torch.expm1(-log_gamma), self.shape * torch.exp(-log_gamma)
        stiffness = 1 + self.spread * left
        share = self.spread * left / stiffness
        second_order = share.square() * (5 * share / 24 - 1 / 8) / left
        exponent = pull * (1 - 0.5 * self.spread * pull) - self.shape * log_gamma + second_order
        return self.center + self.spread * pull + log_gamma, exponent, stiffness.sqrt()

    def _log_constant(self) -> Tensor | float:
        """Log of the factors of prior and Normal that are constant in u."""
        if self.shape is None:
            return -_LOG_2_PI
        return -_stirling_remainder(self.shape) - _LOG_2_PI - 0.5 * torch.log1p(self.spread * self.shape)

    @torch.no_grad()
    def _grids(self, square: Tensor, rest: Tensor, unit: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Center and unit of length of each of the two grids."""
        return [(mode, self._width(mode, square, rest, unit)) for mode in self._modes(square, rest, unit)]

    def _width(self, mode: Tensor, square: Tensor, rest: Tensor, unit: Tensor) -> Tensor:
        """The integrand's standard deviation from its curvature, which is at least 0.4 times the prior's."""
        place = self._at(mode, unit)
        _, push_slope = _push(place, square, rest)
        curvature = torch.maximum(place.pull_slope - push_slope, 0.4 * place.pull_slope)
        return (place.log_var_slope * curvature).rsqrt()

    def _modes(self, square: Tensor, rest: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the last mode, which may coincide; at a mode κ = ½ r (D − 1), see `_push`."""
        low, high = self._bounds(square, rest, unit)
        last = self._root(high, (low, high), square, rest, unit, from_below=False)
        return self._root(torch.zeros_like(high), (low, last), square, rest, unit, from_below=True), last

    def _bounds(self, square: Tensor, rest: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of every mode: −½ ≤ κ, κ ≤ ½ D e^(center − w) and κ ≤ e²/8c, as r (1 − r) ≤ ¼."""
        tiny = torch.finfo(square.dtype).tiny
        distance = 0.5 * square * torch.exp(-self.center)
        of_normal = torch.log1p(self.spread * distance) / self.spread.clamp_min(tiny)
        most = torch.where(self.spread * distance > 1e-3, of_normal, distance)
        most = torch.minimum(most, square / (8 * rest.clamp_min(tiny)))
        if self.shape is None:
            return (-0.5 * unit).expand_as(most), most * unit
        log_gamma = torch.minimum(-torch.log1p(-(most / self.shape).clamp_max(1)), torch.log1p(distance / self.shape))
        return (-torch.log1p(0.5 / self.shape) * unit).expand_as(log_gamma), log_gamma * unit

    def _root(
        self,
        u: Tensor,
        bracket: tuple[Tensor, Tensor],
        square: Tensor,
        rest: Tensor,
        unit: Tensor,
        *,
        from_below: bool,
    ) -> Tensor:
        """Where push and pull are equal: Newton steps in logarithms, bisection where a step leaves the bracket."""
        low, high = bracket
        for _ in range(_NEWTON_STEPS):
            place = self._at(u, unit)
            push, push_slope = _push(place, square, rest)
            gap = torch.log((1 + push) / (1 + place.pull))
            slope = push_slope / (1 + push) - place.pull_slope / (1 + place.pull)
            low, high = torch.where(gap > 0, u, low), torch.where(gap > 0, high, u)
            new = u - gap / slope.clamp_max(-1e-12)
            if from_below:  # there is no root beyond the last mode
                new = torch.minimum(new, high)
            u = torch.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        return u


def _rows(part: Tensor, first: int, count: int) -> Tensor:
    """A slice of the points; unchanged where there is only one."""
    return part[..., first : first + count, :] if part.dim() > 1 and part.shape[-2] > 1 else part


def _law_of(parts: Sequence[Tensor]) -> LogScale:
    """The law with these parameters and no floor."""
    center, spread, *shape = parts
    return LogScale(center, spread, torch.zeros_like(center), *shape)


@torch.no_grad()
def _node(own: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], offset: float) -> tuple[Tensor, Tensor]:
    """A node of a grid and its weight; a smooth partition of unity combines the two grids."""
    u = own[0] + own[1] * offset
    far = ((u - other[0]) / other[1]).square() + 1
    odds = own[1] / other[1] * ((1 + offset**2) / far).square()
    return u, own[1] / (1 + odds)


def _push(place: _Place, square: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """d/dw log N(e | 0, e^w + c), and its derivative in u.

    It is ½ r (D − 1) with r = e^w/(e^w + c) and D = e²/(e^w + c).
    """
    own = torch.exp(place.log_var)
    total = own + rest
    share, distance = own / total, square / total
    slope = 0.5 * share * ((1 - share) * (distance - 1) - share * distance)
    return 0.5 * share * (distance - 1), slope * place.log_var_slope


def _stirling_remainder(shape: Tensor) -> Tensor:
    """log Γ(a) minus Stirling's formula, in float64: the difference is tiny for many degrees of freedom."""
    wide = shape.double()
    return (torch.lgamma(wide) - (wide - 0.5) * wide.log() + wide - 0.5 * _LOG_2_PI).to(shape)
