"""Predictions of transformed outputs, in the units of the outputs themselves."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri, roots_hermitenorm

from mogul._typing import Array, BoolArray, IntArray
from mogul.core.transforms import Transforms
from mogul.data import Standardiser
from mogul.prediction.conditional import Conditioned
from mogul.prediction.prediction import Prediction

# Levels beyond which moments take the quantile in place of the value.
_TAIL = 1e-4
# Gauss–Hermite nodes of each component, exact for polynomials of degree 39.
_NODES = 20
# Values that stand for a mixture in its CRPS, and draws behind a correlation.
_ATOMS, _DRAWS = 1000, 400


class Warped(Prediction):
    """The distribution of y where `modelled` is that of z = t(y), with t increasing.

    Densities have the factor t′(y), quantiles and draws are mapped back by t⁻¹. Mean and variance are those of y with
    values beyond its quantiles of 10⁻⁴ and 1 − 10⁻⁴ moved to these: e^z has no mean where the noise of z is Student-t,
    or Normal with a log-normal variance, and means of draws would then depend on the largest. For a log-normal y
    with σ = 1 this makes the mean less by 0.1 %. Integrals are Gauss–Hermite sums over the components of
    `Prediction.smoothed`, which have the moments of z in closed form.

    Args:
        modelled: the prediction of z.
        transforms: from y to z.

    Example:
        >>> from mogul.core.transforms import Log
        >>> z = Prediction(*np.zeros((2, 1, 1)), *np.full((2, 1, 1, 1), [[[[0.0]]], [[[1.0]]]]))
        >>> y = Warped(z, Transforms((Log(),)))
        >>> y.quantiles([0.5]).item(), round(y.mean.item(), 2)
        (1.0, 1.65)
    """

    def __init__(self, modelled: Prediction, transforms: Transforms) -> None:
        # Moments are computed when asked for: densities and quantiles need none.
        parts = {"modelled": modelled, "transforms": transforms, "joint": modelled.joint}
        for name, part in {**parts, "log_weight": modelled.log_weight, "density": modelled.density}.items():
            object.__setattr__(self, name, part)

    modelled: Prediction
    transforms: Transforms

    @cached_property
    def mean(self) -> Float[Array, "N P"]:
        """Mean of each output, by the law between its quantiles of 10⁻⁴ and 1 − 10⁻⁴."""
        return self._moments[0]

    @cached_property
    def var(self) -> Float[Array, "N P"]:
        """Variance in the same sense."""
        return self._moments[1]

    @cached_property
    def component_mean(self) -> Float[Array, "S N P"]:
        """Mean of each component in the same sense."""
        return self._components(self.modelled)[0]

    @cached_property
    def component_var(self) -> Float[Array, "S N P"]:
        """Variance of each component in the same sense."""
        return self._components(self.modelled)[1]

    @cached_property
    def _moments(self) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        smoothed = self.modelled.smoothed()
        means, variances = self._components(smoothed)
        mean = smoothed.average(means)
        var = smoothed.average(variances + np.square(means - mean))
        # What is known is known exactly, and t⁻¹(t(y)) is not quite y.
        var[self._known] = 0.0
        return mean, var

    def _components(self, mixture: Prediction) -> tuple[Float[Array, "S N P"], Float[Array, "S N P"]]:
        low, high = self._ends
        nodes, weights = roots_hermitenorm(_NODES)
        std = np.sqrt(mixture.component_var)
        center = self.transforms.undo(np.clip(mixture.component_mean, low, high))
        first, second = np.zeros_like(std), np.zeros_like(std)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            gap = self.transforms.undo(np.clip(mixture.component_mean + node * std, low, high)) - center
            first += weight * gap
            second += weight * np.square(gap)
        return center + first, np.maximum(second - np.square(first), 0.0)

    @cached_property
    def _ends(self) -> Float[Array, "2 N P"]:
        return self.modelled.quantiles((_TAIL, 1 - _TAIL))

    @property
    def _known(self) -> Bool[BoolArray, "N P"]:
        """Outputs that are known: they are not part of densities."""
        joint, shape = self.modelled.joint, self.modelled.mean.shape
        return joint.known if isinstance(joint, Conditioned) else np.zeros(shape, dtype=bool)

    def rescaled(self, units: Standardiser) -> "Warped":
        """For shift + scale ∘ y."""
        return Warped(self.modelled, self.transforms.rescaled(units.scale, units.shift))

    def stretched(self, factor: Float[Array, "P"]) -> "Warped":
        """With the standard deviation of each transformed output multiplied by `factor`."""
        return Warped(self.modelled.stretched(factor), self.transforms)

    def smoothed(self) -> "Warped":
        """With wider components of the transformed outputs."""
        return Warped(self.modelled.smoothed(), self.transforms)

    def rows(self, index: slice | Int[IntArray, "B"]) -> "Warped":
        """The prediction for some of the points."""
        return Warped(self.modelled.rows(index), self.transforms)

    def outputs(self, index: slice | Int[IntArray, "B"]) -> "Warped":
        """The prediction of some of the outputs."""
        return Warped(self.modelled.outputs(index), self.transforms.outputs(index))

    def given(self, y: Float[Array, "N P"], seed: int = 0) -> "Warped":
        """The prediction given outputs that are known in the same rows: see `Prediction.given`."""
        self.require_shape(y)
        self.transforms.require_support(y, [f"{place}" for place in range(y.shape[1])])
        return Warped(self.modelled.given(self.transforms.apply(y), seed), self.transforms)

    def component_log_density(self, y: Float[Array, "N P"]) -> Float[Array, "S N"]:
        """log p(y | draw) per draw and point, over the observed outputs."""
        z, log_slope = self._to_modelled(y)
        return self.modelled.component_log_density(z) + log_slope

    def log_density(self, y: Float[Array, "N P"]) -> Float[Array, "N"]:
        """log p(y) per point, joint over its observed outputs; −∞ where one is not a possible value."""
        z, log_slope = self._to_modelled(y)
        return self.modelled.log_density(z) + log_slope

    def _to_modelled(self, y: Float[Array, "N P"]) -> tuple[Float[Array, "N P"], Float[Array, "N"]]:
        """z, and Σ log t′(y) of each row over outputs that are observed and were not known."""
        self.require_shape(y)
        outside = ~self.transforms.supports(y) & ~self._known
        inside = np.where(self.transforms.supports(y), y, np.nan)
        each = self.transforms.log_slope(inside)
        log_slope = np.where(np.isnan(inside) | self._known, 0.0, each).sum(1)
        return self.transforms.apply(inside), np.where(outside.any(1), -np.inf, log_slope)

    def cdf(self, y: Float[Array, "N P"]) -> Float[Array, "N P"]:
        """P(output ≤ y), per point and output; NaN where y is missing."""
        self.require_shape(y)
        return self.modelled.cdf(self.transforms.apply(y))

    def quantiles(self, levels: Sequence[float] | Float[Array, "Q"]) -> Float[Array, "Q N P"]:
        """Quantiles of the mixture per output."""
        return self.transforms.undo(self.modelled.quantiles(levels))

    def sample(self, num_samples: int, seed: int | np.random.Generator | None = 0) -> Float[Array, "K N P"]:
        """Draws of the outputs: see `Prediction.sample`."""
        return self.transforms.undo(self.modelled.sample(num_samples, seed))

    def sample_components(self, num_samples: int, seed: int | np.random.Generator | None = 0) -> Float[Array, "K N P"]:
        """Draws from different components: see `Prediction.sample_components`."""
        return self.transforms.undo(self.modelled.sample_components(num_samples, seed))

    def correlations(self) -> Float[Array, "N P P"]:
        """Correlations of the outputs at each point, of draws within the law's ends."""
        low, high = self._ends
        draws = self.transforms.undo(np.clip(self.modelled.sample(_DRAWS), low, high))
        gap = (draws - draws.mean(0)).transpose(1, 2, 0)
        cov: Array = gap @ gap.swapaxes(1, 2)
        scale = np.sqrt(np.maximum(np.einsum("npp->np", cov), np.finfo(np.float64).tiny))
        cov /= scale[:, :, None] * scale[:, None, :]
        diagonal = np.arange(cov.shape[-1])
        cov[:, diagonal, diagonal] = 1.0
        return cov

    def crps(self, y: Float[Array, "N P"]) -> Float[Array, "N P"]:
        """E|Y − y| − ½ E|Y − Y′|, per point and output, of values that stand for equal shares of each component."""
        atoms, weight = self._atoms()
        to_truth = (weight * np.abs(atoms - y)).sum(0)
        order = np.argsort(atoms, axis=0)
        atoms, weight = np.take_along_axis(atoms, order, 0), np.take_along_axis(weight, order, 0)
        # ½ E|Y − Y′| = ∫ F (1 − F).
        reached = np.cumsum(weight, axis=0)[:-1]
        result: Array = to_truth - (reached * (1 - reached) * np.diff(atoms, axis=0)).sum(0)
        return result

    def _atoms(self) -> tuple[Float[Array, "A N P"], Float[Array, "A N P"]]:
        """Values of y and their weights: levels of components interlace, so that together they are dense."""
        means, std = self.modelled.component_mean, np.sqrt(self.modelled.component_var)
        per_component = -(-_ATOMS // len(means))
        # The golden ratio spreads offsets evenly, however many there are.
        offset = (0.5 + np.arange(len(means)) * 0.6180339887498949) % 1
        level = (np.arange(per_component)[:, None] + offset) / per_component
        low, high = self._ends
        z = np.clip(means + ndtri(level)[..., None, None] * std, low, high)
        log_weight = self.modelled.log_weight
        share = np.full(len(means), 1 / len(means)) if log_weight is None else np.exp(log_weight)
        weight = np.broadcast_to(share.reshape(len(means), -1, 1) / per_component, z.shape)
        flat = (-1, *z.shape[2:])
        return self.transforms.undo(z.reshape(flat)), weight.reshape(flat)

    def require_shape(self, y: Float[Array, "_ _"]) -> None:
        """Check that y has a row for each predicted point and a column for each output."""
        self.modelled.require_shape(y)
