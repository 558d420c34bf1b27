"""Stationary kernels as functions of the squared distance r² of scaled inputs: one formula for arrays and tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# Arrays of NumPy or tensors; the shape parameter broadcasts with r².
_Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Radial:
    """A correlation k(r²) with k(0) = 1, for r² = ‖(x − x′)/ℓ‖².

    Args:
        name: as users type it.
        parts: from r² and the shape parameter to k and −2 ∂k/∂r², the weight of (x − x′)²/ℓ² in ∂k/∂log ℓ.
        shape_slope: from r² and the shape parameter to ∂k/∂log(shape); None without such a parameter.

    Example:
        >>> [round(float(RADIALS[name].value(np.array(1.0), 2.0)), 3) for name in ("rbf", "matern12", "rq")]
        [0.607, 0.368, 0.64]
    """

    name: str
    parts: Callable[[Any, Any], _Pair]
    shape_slope: Callable[[Any, Any], Any] | None = None

    def value(self, square: Any, shape: Any = None) -> Any:
        """k(r²), with a gradient that is finite at 0."""
        if isinstance(square, torch.Tensor):
            square = square.clamp_min(torch.finfo(square.dtype).tiny)
        return self.parts(square, shape)[0]


def radial_of(kernel: object) -> Radial:
    """The radial function of this name; the RBF for any other kernel, of which it is a stand-in.

    >>> radial_of("matern32").name, radial_of("rbf+periodic").name
    ('matern32', 'rbf')
    """
    name = kernel.strip() if isinstance(kernel, str) else "rbf"
    return RADIALS.get(name, RADIALS["rbf"])


def _rbf(square: Any, shape: Any) -> _Pair:
    value = _library(square).exp(-0.5 * square)
    return value, value


def _matern12(square: Any, shape: Any) -> _Pair:
    library = _library(square)
    distance = library.sqrt(square)
    value = library.exp(-distance)
    # At 0 the slope is infinite, and its product with (x − x′)² is 0. The bound, about 1e-6 in double precision, leaves
    # that product negligible; a larger slope would multiply rounding errors of the distance.
    return value, value / library.clip(distance, library.finfo(square.dtype).eps ** 0.375, None)


def _matern32(square: Any, shape: Any) -> _Pair:
    library = _library(square)
    distance = library.sqrt(3.0 * square)
    decay = library.exp(-distance)
    return (1.0 + distance) * decay, 3.0 * decay


def _matern52(square: Any, shape: Any) -> _Pair:
    library = _library(square)
    distance = library.sqrt(5.0 * square)
    decay = library.exp(-distance)
    slope = (1.0 + distance) * decay
    return slope + (5.0 / 3.0) * square * decay, (5.0 / 3.0) * slope


def _rq(square: Any, shape: Any) -> _Pair:
    base = 1.0 + square / (2.0 * shape)
    value = base**-shape
    return value, value / base


def _rq_shape_slope(square: Any, shape: Any) -> Any:
    base = 1.0 + square / (2.0 * shape)
    return shape * base**-shape * (1.0 - 1.0 / base - _library(square).log(base))


def _library(values: Any) -> Any:
    return torch if isinstance(values, torch.Tensor) else np


RADIALS = {
    radial.name: radial
    for radial in (
        Radial("rbf", _rbf),
        Radial("matern12", _matern12),
        Radial("matern32", _matern32),
        Radial("matern52", _matern52),
        Radial("rq", _rq, _rq_shape_slope),
    )
}
