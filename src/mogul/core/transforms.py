"""Transforms of outputs that are positive, skewed or counted: t(y) is modelled in place of y.

With t increasing, p(y) = p(t(y)) t′(y), and quantiles of y are t⁻¹ of those of t(y).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist

from mogul._typing import Array, BoolArray, IntArray
from mogul.errors import ConfigError, DataError, FileError, ShapeError, unknown_name

TransformName = Literal["log", "yeo-johnson", "auto"]
# One name for all outputs, or one for each: checked by `kinds_of`, as users give it.
TransformChoice = str | None | Mapping[str, str | None] | Sequence[str | None]

# Rows that a transform is chosen by; the cost is their third power.
_MOST_ROWS = 300
# "auto" leaves an output as it is below this gain in log likelihood. Under Normal residuals twice the gain of a power
# is about χ² with one degree of freedom, above 12 with a probability of 0.0005.
_LEAST_GAIN = 6.0
# Between these powers t is onto the real line; beyond, a Normal would have mass where no y is.
_POWERS = (0.0, 2.0)
# Kernels that residuals are of: lengthscales in standard deviations of an input, and shares of noise.
_LENGTHSCALES, _NOISES = (0.5, 1.5, 5.0), (0.003, 0.03, 0.3)


class Untransformed:
    """t(y) = y."""

    words = "none"

    def apply(self, y: Array) -> Array:
        """t(y)."""
        return y

    def undo(self, z: Array) -> Array:
        """t⁻¹(z)."""
        return z

    def log_slope(self, y: Array) -> Array:
        """log t′(y)."""
        return np.zeros_like(y)

    def supports(self, y: Array) -> BoolArray:
        """Where t is defined; at NaN, too."""
        return np.ones(y.shape, dtype=bool)


class Log(Untransformed):
    """t(y) = log y, for positive outputs."""

    words = "log"

    def apply(self, y: Array) -> Array:
        """−∞ at 0 and below, where no density is."""
        return np.log(np.where(y <= 0, 0.0, y), where=~(y <= 0), out=np.full(y.shape, -np.inf))

    def undo(self, z: Array) -> Array:
        """e^z."""
        result: Array = np.exp(z)
        return result

    def log_slope(self, y: Array) -> Array:
        """−log y."""
        return -self.apply(y)

    def supports(self, y: Array) -> BoolArray:
        """Where y is positive."""
        result: BoolArray = ~(y <= 0)
        return result


@dataclass(frozen=True)
class YeoJohnson(Untransformed):
    """Yeo and Johnson's power transform (2000) of y/scale, for any sign.

    t(y) = ((1 + y)^λ − 1)/λ for y ≥ 0, and −((1 − y)^(2 − λ) − 1)/(2 − λ) below 0: linear for λ = 1, and for λ = 0
    log(1 + y) where y ≥ 0.

    Example:
        >>> YeoJohnson(0.0, 1.0).apply(np.array([math.e - 1])).round(6)
        array([1.])
    """

    power: float
    scale: float

    @property
    def words(self) -> str:  # type: ignore[override]  # with its power
        """The name and the power."""
        return f"yeo-johnson (λ = {self.power:.2f})"

    def apply(self, y: Array) -> Array:
        """t(y)."""
        size, above = np.log1p(np.abs(y / self.scale)), ~(y < 0)
        return np.where(above, _grown(size, self.power), -_grown(size, 2 - self.power))

    def undo(self, z: Array) -> Array:
        """t⁻¹(z)."""
        size = np.abs(z)
        return self.scale * np.where(z < 0, -_shrunk(size, 2 - self.power), _shrunk(size, self.power))

    def log_slope(self, y: Array) -> Array:
        """(λ − 1) sign(y) log(1 + |y|/scale) − log scale."""
        result: Array = (self.power - 1) * np.sign(y) * np.log1p(np.abs(y / self.scale)) - math.log(self.scale)
        return result


@dataclass(frozen=True)
class Transforms:
    """The transform of each output, z = t((y − shift)/scale): `rescaled` changes units of y.

    Example:
        >>> transforms = Transforms((Log(), Untransformed()))
        >>> transforms.apply(np.array([[1.0, 2.0]])), transforms.undo(np.array([[0.0, 2.0]]))
        (array([[0., 2.]]), array([[1., 2.]]))
    """

    each: tuple[Untransformed, ...]
    shift: Float[Array, "P"] | float = 0.0
    scale: Float[Array, "P"] | float = 1.0

    @staticmethod
    def of(
        choice: TransformChoice, x: Float[Array, "N D"], y: Float[Array, "N P"], names: Sequence[str]
    ) -> "Transforms | None":
        """Those chosen, or found in training rows for "auto" and powers; None if all outputs stay as they are."""
        kinds = kinds_of(choice, names)
        if not any(kinds):
            return None
        each = tuple(_found(kind, x, column, name) for kind, column, name in zip(kinds, y.T, names, strict=True))
        return None if all(type(one) is Untransformed for one in each) else Transforms(each)

    def apply(self, y: Float[Array, "*S P"]) -> Float[Array, "*S P"]:
        """To what is modelled."""
        return self._by_output("apply", (y - self.shift) / self.scale)

    def undo(self, z: Float[Array, "*S P"]) -> Float[Array, "*S P"]:
        """Back to units of y."""
        return self.shift + self.scale * self._by_output("undo", z)

    def log_slope(self, y: Float[Array, "*S P"]) -> Float[Array, "*S P"]:
        """The log of dz/dy; NaN where y is missing."""
        return self._by_output("log_slope", (y - self.shift) / self.scale) - np.log(self.scale)

    def supports(self, y: Float[Array, "*S P"]) -> Bool[BoolArray, "*S P"]:
        """Where y is a possible value, or missing."""
        return self._by_output("supports", (y - self.shift) / self.scale).astype(bool)

    def rescaled(self, scale: Float[Array, "P"], shift: Float[Array, "P"]) -> "Transforms":
        """For shift + scale ∘ y in place of y."""
        return replace(self, shift=shift + scale * self.shift, scale=scale * self.scale)

    def outputs(self, index: slice | Int[IntArray, "B"]) -> "Transforms":
        """For some of the outputs."""
        places = np.arange(len(self.each))[index]
        shift, scale = (np.broadcast_to(part, len(self.each))[index] for part in (self.shift, self.scale))
        return Transforms(tuple(self.each[place] for place in places), shift, scale)

    def require_support(self, y: Float[Array, "N P"], names: Sequence[str]) -> None:
        """Check that each value can be transformed."""
        for name, column, inside in zip(names, y.T, self.supports(y).T, strict=True):
            if not inside.all():
                raise _not_positive(name, float(np.nanmin(column)))

    def words(self, names: Sequence[str]) -> dict[str, str]:
        """The outputs that are transformed, and how."""
        return {name: one.words for name, one in zip(names, self.each, strict=True) if type(one) is not Untransformed}

    def plain(self) -> list[dict[str, Any]]:
        """As JSON holds them, in units of training."""
        return [{"kind": _KIND_NAMES[type(one)], "settings": dict(vars(one))} for one in self.each]

    @staticmethod
    def from_plain(plain: Sequence[Mapping[str, Any]]) -> "Transforms":
        """What `plain` gave, checked."""
        return Transforms(tuple(_from_plain(one) for one in plain))

    def _by_output(self, part: str, values: Array) -> Array:
        columns = [getattr(one, part)(values[..., place]) for place, one in enumerate(self.each)]
        return np.stack(columns, axis=-1)


_KIND_NAMES = {Untransformed: "none", Log: "log", YeoJohnson: "yeo-johnson"}


def kinds_of(choice: Any, names: Sequence[str]) -> tuple[TransformName | None, ...]:
    """The kind for each output, from one for all, a mapping by names, or a sequence in their order.

    >>> kinds_of({"b": "log"}, ["a", "b"])
    (None, 'log')
    """
    if choice is None or isinstance(choice, str):
        chosen: list[Any] = [choice] * len(names)
    elif isinstance(choice, Mapping):
        for name in choice:
            if name not in names:
                raise unknown_name("output of transform", name, names)
        chosen = [choice.get(name) for name in names]
    elif isinstance(choice, Sequence):
        chosen = list(choice)
    else:
        raise ConfigError(
            f"transform must be a name, or one for each output; got {choice!r}. Try 'auto' or {{'y1': 'log'}}."
        )
    if len(chosen) != len(names):
        raise ShapeError(
            f"transform must have an entry for each of {len(names)} outputs; got {len(chosen)}. "
            "Name some of them by a dict."
        )
    for kind in chosen:
        if kind is not None and kind not in get_args(TransformName):
            raise unknown_name("transform", kind, get_args(TransformName))
    return tuple(chosen)


def _found(kind: TransformName | None, x: Float[Array, "N D"], y: Float[Array, "N"], name: str) -> Untransformed:
    """The transform of one output by maximum likelihood on these rows."""
    known = ~np.isnan(y)
    x, y = x[known], y[known]
    if kind is None or len(y) == 0:
        return Untransformed()
    if kind == "log":
        if y.min() <= 0:
            raise _not_positive(name, float(y.min()))
        return Log()
    if np.std(y) <= 1e-12 * np.abs(y).max():  # a constant says nothing about its law
        return Untransformed()
    places = np.random.default_rng(0).permutation(len(y))[:_MOST_ROWS]
    log_likelihood = _profile(x[places], y[places])
    scale = float(np.std(y))
    best = minimize_scalar(lambda power: -log_likelihood(YeoJohnson(power, scale)), bounds=_POWERS, method="bounded")
    power = YeoJohnson(float(best.x), scale)
    if kind == "yeo-johnson":
        return power
    candidates = [Log(), power] if y.min() > 0 else [power]
    return _best([Untransformed(), *candidates], log_likelihood)


def _best(candidates: Sequence[Untransformed], log_likelihood: Callable[[Untransformed], float]) -> Untransformed:
    """The simplest that none of the later ones beats by `_LEAST_GAIN`."""
    best, *others = candidates
    reached = log_likelihood(best)
    for one in others:
        if (value := log_likelihood(one)) > reached + _LEAST_GAIN:
            best, reached = one, value
    return best


def _profile(x: Float[Array, "N D"], y: Float[Array, "N"]) -> Callable[[Untransformed], float]:
    """The log likelihood of a transform by leave-one-out residuals of t(y), Normal with one variance; Box and Cox's.

    −N/2 log mean r² + Σ log t′(y), for the best of a few GPs: residuals and not outputs should be Normal.
    """
    smoothers = list(_smoothers(x))

    def log_likelihood(transform: Untransformed) -> float:
        z = transform.apply(y)
        centered = z - z.mean()
        squares = [np.mean(np.square(inverse @ centered / np.diag(inverse))) for inverse in smoothers]
        smallest = max(min(squares), float(np.finfo(np.float64).tiny))
        return float(-0.5 * len(y) * math.log(smallest) + transform.log_slope(y).sum())

    return log_likelihood


def _smoothers(x: Float[Array, "N D"]) -> Iterator[Float[Array, "N N"]]:
    """(K + noise)⁻¹ for a constant, a plane and functions of several lengthscales."""
    spread = np.std(x, axis=0)
    scaled = (x - x.mean(0)) / np.where(spread > 0, spread, 1.0) / math.sqrt(max(1, x.shape[1]))
    plane, eye = 10.0 + scaled @ scaled.T, np.eye(len(x))
    square = cdist(scaled, scaled, "sqeuclidean") if x.shape[1] else np.zeros((len(x), len(x)))
    for lengthscale in _LENGTHSCALES if x.shape[1] else _LENGTHSCALES[:1]:
        kernel = plane + np.exp(-0.5 * square / lengthscale**2)
        yield from (np.linalg.inv(kernel + noise * eye) for noise in _NOISES)


def _grown(log_size: Array, power: float) -> Array:
    """((1 + a)^power − 1)/power from log(1 + a)."""
    result: Array = log_size if power == 0 else np.expm1(power * log_size) / power
    return result


def _shrunk(size: Array, power: float) -> Array:
    """a from ((1 + a)^power − 1)/power."""
    result: Array = np.expm1(size if power == 0 else np.log1p(power * size) / power)
    return result


def _not_positive(name: str, value: float) -> DataError:
    return DataError(
        f"transform='log' needs positive values; output {name!r} has {value:g}. Use transform='yeo-johnson' or 'auto'."
    )


def _from_plain(plain: Mapping[str, Any]) -> Untransformed:
    kinds: dict[str, type[Untransformed]] = {name: kind for kind, name in _KIND_NAMES.items()}
    if plain["kind"] not in kinds:
        raise FileError(f"Transforms must be among {', '.join(kinds)}; got {plain['kind']!r}. Update mogul.")
    transform = kinds[plain["kind"]](**plain["settings"])
    if isinstance(transform, YeoJohnson) and not (
        _POWERS[0] <= transform.power <= _POWERS[1] and 0 < transform.scale < math.inf
    ):
        raise FileError(
            f"Powers must be between 0 and 2 beside a positive scale; got {transform}. Do not trust this file."
        )
    return transform


@dataclass(frozen=True)
class Chain:
    """Linear relations between outputs, in their units.

    Args:
        weights: w: row k has the weights of other outputs in the equation of output k; 0 for outputs that come later.

    Example:
        >>> chain = Chain(np.array([[0.0, 0.0], [2.0, 0.0]]))
        >>> chain.apply(np.array([[1.0, 5.0], [np.nan, 5.0]]))
        array([[ 1.,  3.],
               [nan, nan]])
        >>> chain.undo(np.array([[1.0, 3.0]]))
        array([[1., 5.]])
    """

    weights: Float[Array, "P P"]

    def __post_init__(self) -> None:
        square = self.weights.ndim == 2 and len({*self.weights.shape}) == 1
        reached = np.eye(len(self.weights), dtype=bool)
        for _ in self.weights if square else ():  # paths of P steps exist only in a cycle
            reached = (self.weights != 0) @ reached
        if not square or reached.any():
            raise FileError(
                f"Weights of outputs must be triangular in some order of outputs; got {self.weights.tolist()}. "
                "Do not trust this file."
            )

    @cached_property
    def matrix(self) -> Float[Array, "P P"]:
        """A = (I − W)⁻¹, with y = A z."""
        return np.asarray(np.linalg.inv(np.eye(len(self.weights)) - self.weights), dtype=np.float64)

    def apply(self, y: Float[Array, "*S P"]) -> Float[Array, "*S P"]:
        """To z; NaN where the output, or one that it needs, is missing."""
        missing = np.isnan(y)
        result: Array = y - np.where(missing, 0.0, y) @ self.weights.T
        result[missing @ (self.weights != 0).T] = np.nan
        return result

    def undo(self, z: Float[Array, "*S P"]) -> Float[Array, "*S P"]:
        """Back to y."""
        result: Array = z @ self.matrix.T
        return result

    def named(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """The outputs with a relation to others, and its weights by name."""
        rows = {name: row for name, row in zip(names, self.weights, strict=True) if row.any()}
        return {
            name: {other: float(weight) for other, weight in zip(names, row, strict=True) if weight}
            for name, row in rows.items()
        }
