"""Quantiles of mixtures of Normals, by Halley's method within brackets."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import ndtri
from torch import Tensor

from mogul._typing import Array, IntArray

# Numbers in a part of the work, so that it stays in a core's cache.
_NUMBERS_AT_ONCE = 50_000
# The last step: its error is of the order of the cube of this, in units of the mixture's standard deviation.
_LAST_STEP = 1e-6
# A bracket shrinks to the precision of its ends within so many halvings, from any width.
_MOST_STEPS = 200
_SQRT_TWO = math.sqrt(2.0)


def mixture_quantiles(
    means: Float[Array, "S K"],
    stds: Float[Array, "S K"],
    levels: Sequence[float] | Float[Array, "Q"],
    center: Float[Array, "K"],
    spread: Float[Array, "K"],
    weights: Float[Array, "S"] | Float[Array, "S K"] | None = None,
) -> Float[Array, "Q K"]:
    """Quantiles of each of K mixtures of S Normals.

    With the mixture's distribution function F, Φ⁻¹(F(y)) = Φ⁻¹(level) is solved by Halley's method, Newton's with the
    second derivative, from the quantile of a Normal. The left side is linear in y for one Normal. A step that leaves
    the bracket, or does not halve the one before it, is replaced by a halving of the bracket.

    Args:
        means: of the components.
        stds: their standard deviations.
        levels: between 0 and 1.
        center: mean of the Normal to start from, one for each mixture.
        spread: its standard deviation.
        weights: of the components, with the sum 1; None for equal ones.

    Example:
        >>> means, stds = np.array([[0.0], [0.0]]), np.array([[1.0], [1.0]])
        >>> mixture_quantiles(means, stds, [0.025, 0.975], np.zeros(1), np.ones(1)).round(6)
        array([[-1.959964],
               [ 1.959964]])
    """
    found = np.empty((len(levels), len(center)))
    size = max(1, _NUMBERS_AT_ONCE // len(means))
    for first in range(0, len(center), size):
        part = slice(first, first + size)
        own = weights if weights is None or weights.ndim == 1 else weights[:, part]
        mixtures = _Mixtures(means[:, part], stds[:, part], own)
        for place, level in enumerate(levels):
            found[place, part] = mixtures.quantile(level, center[part] + ndtri(level) * spread[part])
    return found


class _Mixtures:
    """Some mixtures, one in each row: components lie beside each other, so that sums do not depend on other rows."""

    def __init__(
        self,
        means: Float[Array, "S K"],
        stds: Float[Array, "S K"],
        weights: Float[Array, "S"] | Float[Array, "S K"] | None,
    ) -> None:
        self._means, self._stds = _rows(means), _rows(stds)
        self._rates = 1 / (_SQRT_TWO * self._stds)
        equal = np.full(len(means), 1 / len(means))
        self._weights = _rows((equal if weights is None else weights).reshape(len(means), -1))
        self._equal = weights is None

    def quantile(self, level: float, start: Float[Array, "K"]) -> Float[Array, "K"]:
        """The quantile at this level. Above the median both sides are mirrored: small tails keep their precision."""
        sign, target = (1.0, float(ndtri(level))) if level <= 0.5 else (-1.0, float(ndtri(1 - level)))
        # The mixture's quantile lies between the smallest and the largest quantile of its components.
        ends = torch.add(self._means, self._stds, alpha=sign * target)
        low, high = ends.amin(1).numpy(), ends.amax(1).numpy()
        y, before = np.clip(start, low, high), high - low
        scale = np.maximum(self._stds.amax(1).numpy(), before)
        (left,) = np.nonzero(before > 0)
        for _ in range(_MOST_STEPS):
            if not len(left):
                break
            here, (gap, step) = y[left], self._step(left, y[left], sign, target)
            is_low = sign * gap < 0
            bottom, top = np.where(is_low, here, low[left]), np.where(is_low, high[left], here)
            moved = here - step
            inside = (moved > bottom) & (moved < top)
            # In a stretch without probability the gap is rounding error: every value there is a quantile.
            ends_here = (np.abs(gap) <= _LAST_STEP) & ((np.abs(step) <= _LAST_STEP * scale[left]) | (gap == 0))
            narrow = top - bottom <= 4 * np.finfo(np.float64).eps * np.maximum(np.abs(bottom), np.abs(top))
            slow = ~inside | (np.abs(step) > 0.5 * before[left])
            y[left] = np.where(ends_here, np.where(inside, moved, here), np.where(slow, 0.5 * (bottom + top), moved))
            before[left] = np.where(slow, top - bottom, np.abs(step))
            low[left], high[left] = bottom, top
            left = left[~(ends_here | narrow)]
        return y

    def _step(
        self, rows: Int[IntArray, "B"], y: Float[Array, "B"], sign: float, target: float
    ) -> tuple[Float[Array, "B"], Float[Array, "B"]]:
        """g(y) − target with g = Φ⁻¹ ∘ F, and Halley's step. The slope is g′ = f/φ(g), and g″ = f′/φ(g) + g g′²."""
        index = slice(None) if len(rows) == len(self._means) else torch.as_tensor(rows)
        means, rates = self._means[index], self._rates[index]
        u = (means - torch.as_tensor(y)[:, None]).mul_(rates)  # −z / √2
        below, density = torch.erfc(u if sign > 0 else -u), torch.exp(-u.square()).mul_(rates)
        bent = u.mul_(density).mul_(rates)
        total, first, second = (self._sum(each, index).numpy() for each in (below, density, bent))
        g = ndtri(0.5 * total)
        gap = g - target
        with np.errstate(all="ignore"):  # where a density underflows, the step is no number: the bracket is halved
            unit = np.exp(0.5 * g**2)
            slope, bend = sign * _SQRT_TWO * first * unit, sign * 2 * _SQRT_TWO * second * unit
            bend = bend + g * slope**2
            step = gap / slope / np.clip(1 - 0.5 * gap * bend / slope**2, 0.5, 2.0)
        return gap, step

    def _sum(self, each: Float[Tensor, "B S"], index: slice | Tensor) -> Float[Tensor, "B"]:
        if self._equal:
            return each.sum(1).div_(each.shape[1])
        return each.mul_(self._weights if len(self._weights) == 1 else self._weights[index]).sum(1)


def _rows(values: Float[Array, "S K"]) -> Float[Tensor, "K S"]:
    return torch.as_tensor(np.ascontiguousarray(values.T))
