"""Predictive distributions at new points: a mixture and its moments."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import logsumexp, ndtr, ndtri

from mogul._typing import Array, IntArray
from mogul.core.joint import Independent, Pooled
from mogul.data import Standardiser
from mogul.errors import ConfigError, ShapeError, require_positive
from mogul.models.model import Model
from mogul.prediction.row_density import HeadDensity, PooledDensity, RowDensity, has_shared_draws

# Numbers per tensor while a part of a prediction is computed: about 160 MB in float64, for a few tensors.
_NUMBERS_AT_ONCE = 20_000_000


@dataclass(frozen=True)
class Prediction:
    """The predictive distribution of the outputs, noise included, at N points.

    It is a mixture of S Normals: one for each draw of the latent functions, with equal weights, or one for each learnt
    site of a deep model, with the weights of `log_weight`. Given a component, outputs are independent unless `joint`
    says otherwise. `mean` and `var` are the mixture's moments, in closed form where the model has one.

    For outputs that share latent functions, the density of a whole row would need far more draws than S. `density`
    computes it by importance sampling, for predictions of a model at given inputs.
    """

    mean: Float[Array, "N P"]
    var: Float[Array, "N P"]
    component_mean: Float[Array, "S N P"]
    component_var: Float[Array, "S N P"]
    joint: Independent = field(default_factory=Independent, kw_only=True)
    log_weight: Float[Array, "S"] | None = field(default=None, kw_only=True)  # None: equal weights
    density: RowDensity | None = field(default=None, kw_only=True)  # None: the mixture's density

    @staticmethod
    def pooled(members: "Sequence[Prediction]") -> "Prediction":
        """Mixture of mixtures of S components each, with equal weights; components are interleaved."""
        means = np.stack([member.mean for member in members])
        of_means = [member.component_mean for member in members]
        of_vars = [member.component_var for member in members]
        shape = (-1, *means.shape[1:])
        return Prediction(
            means.mean(0),
            np.mean([member.var for member in members], axis=0) + means.var(0),
            np.stack(of_means, axis=1).reshape(shape),
            np.stack(of_vars, axis=1).reshape(shape),
            joint=Pooled(tuple(member.joint for member in members)),
            log_weight=_pooled_weights([member.log_weight for member in members]),
            density=_pooled_density([member.density for member in members]),
        )

    @property
    def std(self) -> Float[Array, "N P"]:
        """Standard deviation per point and output."""
        return np.sqrt(self.var)

    def rescaled(self, units: Standardiser) -> "Prediction":
        """From standardised to original units."""
        return Prediction(
            units.undo(self.mean),
            self.var * units.scale**2,
            units.undo(self.component_mean),
            self.component_var * units.scale**2,
            joint=self.joint.rescaled(units.scale),
            log_weight=self.log_weight,
            density=self.density and self.density.affine(units.scale, units.shift),
        )

    def standardised(self, units: Standardiser) -> "Prediction":
        """From original to standardised units."""
        return self.rescaled(Standardiser(-units.shift / units.scale, 1 / units.scale))

    def stretched(self, factor: Float[Array, "P"]) -> "Prediction":
        """The same mean, with the standard deviation of each output multiplied by `factor`."""
        return Prediction(
            self.mean,
            self.var * factor**2,
            self.mean + factor * (self.component_mean - self.mean),
            self.component_var * factor**2,
            joint=self.joint.rescaled(factor),
            log_weight=self.log_weight,
            density=self.density and self.density.affine(factor, (1 - factor) * self.mean),
        )

    def smoothed(self) -> "Prediction":
        """The mixture with wider components and means shrunk towards its mean, for densities of single outputs.

        With few draws and little noise the mixture's density has separate peaks. Each component is widened by h² times
        the variance of the means, with h from Silverman's rule, and the means are moved so that the mixture has the
        moments `mean` and `var` (West 1993, Approximating Posterior Distributions by Mixture). Normals stay Normal.
        """
        num_draws = len(self.component_mean)
        if self.log_weight is not None or num_draws < 3:  # learnt sites are not random draws
            return self
        widening = (4 / (3 * num_draws)) ** 0.4
        of_draws = self.component_mean.var(0)
        known = of_draws > 0
        wanted = self.var - self.joint.mean_var(self.component_var)
        ratio = np.where(known, np.clip(wanted / np.where(known, of_draws, 1.0), 0.5, 2.0), 1.0)
        added = widening * ratio * of_draws
        offset = self.component_mean - self.component_mean.mean(0)
        return Prediction(
            self.mean,
            self.var,
            self.mean + np.sqrt((1 - widening) * ratio) * offset,
            self.component_var + added,
            joint=self.joint.widened(added),
        )

    def rows(self, index: slice | Int[IntArray, "B"]) -> "Prediction":
        """The prediction for some of the points."""
        return Prediction(
            self.mean[index],
            self.var[index],
            self.component_mean[:, index],
            self.component_var[:, index],
            joint=self.joint.rows(index),
            log_weight=self.log_weight,
            density=self.density and self.density.rows(index),
        )

    def outputs(self, index: slice | Int[IntArray, "B"]) -> "Prediction":
        """The prediction of some of the outputs."""
        return Prediction(
            self.mean[:, index],
            self.var[:, index],
            self.component_mean[..., index],
            self.component_var[..., index],
            joint=self.joint.outputs(index),
            log_weight=self.log_weight,
            density=self.density and self.density.outputs(index),
        )

    def component_log_density(self, y: Float[Array, "N P"]) -> Float[Array, "S N"]:
        """log p(y | draw) per draw and point, over the observed outputs."""
        self.require_shape(y)
        return self.joint.log_density(y, self.component_mean, self.component_var)

    def log_density(self, y: Float[Array, "N P"]) -> Float[Array, "N"]:
        """log p(y) per point, joint over its observed outputs."""
        self.require_shape(y)
        return self.mixture_log_density(y) if self.density is None else self.density.log_density(y)

    def mixture_log_density(self, y: Float[Array, "N P"]) -> Float[Array, "N"]:
        """Log of the mean density of the components: too low where outputs share latent draws."""
        return self.log_mean(self.component_log_density(y))

    def log_mean(self, each: Float[Array, "S N"]) -> Float[Array, "N"]:
        """Log of the weighted mean over components, from the logs in `each`."""
        if self.log_weight is None:
            result: Float[Array, N] = logsumexp(each, axis=0) - math.log(len(each))
        else:
            result = logsumexp(each + self.log_weight[:, None], axis=0)
        return result

    def average(self, each: Float[Array, "S *N"]) -> Float[Array, "*N"]:
        """Weighted mean of `each` over components."""
        result: Array = each.mean(0) if self.log_weight is None else np.tensordot(np.exp(self.log_weight), each, 1)
        return result

    def cov_of_means(self) -> Float[Array, "N P P"]:
        """The covariance of the components' means at each point."""
        centered = (self.component_mean - self.average(self.component_mean)).transpose(1, 2, 0)
        if self.log_weight is None:
            result: Array = centered @ centered.swapaxes(1, 2) / centered.shape[-1]
        else:
            result = (centered * np.exp(self.log_weight)) @ centered.swapaxes(1, 2)
        return result

    def cdf(self, y: Float[Array, "N P"]) -> Float[Array, "N P"]:
        """P(output ≤ y), per point and output; NaN where y is missing."""
        self.require_shape(y)
        return self.average(ndtr((y - self.component_mean) / np.sqrt(self.component_var)))

    def quantiles(self, levels: Sequence[float] | Float[Array, "Q"]) -> Float[Array, "Q N P"]:
        """Quantiles of the mixture per output, not of a Normal with the same mean and variance."""
        if not len(levels):
            raise ConfigError(f"At least one level must be given; got {levels}. The median is 0.5.")
        for level in levels:
            if not 0 < level < 1:
                raise ConfigError(f"Each level must be between 0 and 1; got {level}. The median is 0.5.")
        return np.stack([self._quantile(level) for level in levels])

    def sample(self, num_samples: int, seed: int | np.random.Generator | None = 0) -> Float[Array, "K N P"]:
        """Draws of the outputs, noise included, independent over points; reproducible for a fixed seed.

        With a generator or None, each call returns different draws.
        """
        require_positive(num_samples=num_samples)
        rng = np.random.default_rng(seed)
        num_components, num_points, _ = self.component_mean.shape
        size = num_samples, num_points
        if self.log_weight is None:
            components = rng.integers(num_components, size=size)
        else:
            components = rng.choice(num_components, size=size, p=np.exp(self.log_weight))
        return self._drawn(components, rng)

    def sample_components(self, num_samples: int, seed: int | np.random.Generator | None = 0) -> Float[Array, "K N P"]:
        """Draws like `sample`, each from a different component, if there are enough and their weights are equal.

        Sampling with replacement would use some components twice and others never.
        """
        num_components, num_points, _ = self.component_mean.shape
        if self.log_weight is not None or num_samples > num_components:
            return self.sample(num_samples, seed)
        rng = np.random.default_rng(seed)
        every = np.arange(num_components)[:, None]
        if num_samples < num_components:  # at random for each point: neighbouring components may be alike
            every = rng.permuted(np.repeat(every, num_points, axis=1), axis=0)[:num_samples]
        return self._drawn(every, rng)

    def _drawn(self, component: Int[IntArray, "K #N"], rng: np.random.Generator) -> Float[Array, "K N P"]:
        chosen = component, np.arange(len(self.mean))
        deviations = self.joint.deviations(np.sqrt(self.component_var[chosen]), rng, component)
        result: Array = self.component_mean[chosen] + deviations
        return result

    def _quantile(self, level: float) -> Float[Array, "N P"]:
        # The mixture's quantile lies between the smallest and the largest quantile of its components.
        each = self.component_mean + ndtri(level) * np.sqrt(self.component_var)
        low: Array = each.min(0)
        high: Array = each.max(0)
        for _ in range(40):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def require_shape(self, y: Float[Array, "_ _"]) -> None:
        """Check that y has a row for each predicted point and a column for each output."""
        if y.shape != self.mean.shape:
            raise ShapeError(
                f"Y must have the shape of the prediction, {self.mean.shape}; got {y.shape}. "
                "Give one row for each predicted point and one column for each output."
            )


@torch.no_grad()
def predict(model: Model, x: Float[torch.Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Prediction:
    """The predictive distribution at standardised inputs, in standardised units.

    Args:
        model: a trained model.
        x: standardised inputs, or S draws of latent ones.
        num_samples: the number S of draws that make up the mixture; a model with learnt sites has one component per
            site, and draws only the random part of its noise.
        generator: draws them.
    """
    require_positive(num_samples=num_samples)
    per_row = model.numbers_per_row(num_samples, drawn_inputs=x.dim() > 2)
    rows = x.split(max(1, _NUMBERS_AT_ONCE // per_row), dim=-2)  # type: ignore[no-untyped-call]  # torch's own
    parts = [_predict_rows(model, some, num_samples, generator) for some in rows]
    first, *others = [part.joint for part in parts]
    densities = [part.density for part in parts if isinstance(part.density, HeadDensity)]
    return Prediction(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.var for part in parts]),
        np.concatenate([part.component_mean for part in parts], axis=1),
        np.concatenate([part.component_var for part in parts], axis=1),
        joint=first.joined(others),
        log_weight=parts[0].log_weight,
        density=densities[0].joined(densities[1:]) if densities else None,
    )


def _predict_rows(
    model: Model, x: Float[torch.Tensor, "*S N D"], num_samples: int, generator: torch.Generator
) -> Prediction:
    q = model.prior(x, num_samples, generator)
    components = model.components_given(q, x, num_samples, generator)
    # With draws in q there is no closed form, and the components' moments are as good as a second pass.
    moments = model.outputs(q, x, generator) if q.mean.dim() == 2 else components.pooled()
    noise, unit = model.head.noise(x, generator), model.mean.scale
    if components.log_weight is not None and noise.is_drawn:
        components = components.repeated(math.ceil(num_samples / len(components.mean)))
    drawn = unit.square() * noise.draw_var(components.mean.shape, generator)
    return Prediction(
        _numpy(moments.mean),
        _numpy(moments.var + unit.square() * noise.pooled_var()),
        _numpy(components.mean),
        _numpy(components.var + drawn),
        joint=model.head.joint(noise, components.var, drawn, unit),
        log_weight=None if components.log_weight is None else _normalised(components.log_weight),
        density=HeadDensity.of(model, q, x, generator) if has_shared_draws(q, x) else None,
    )


def _pooled_weights(each: "Sequence[Float[Array, 'S'] | None]") -> "Float[Array, 'T'] | None":
    """Log weights of interleaved components, with the same total weight for each mixture."""
    given = [log_weight for log_weight in each if log_weight is not None]
    if not given:
        return None
    result: Array = np.stack(given, axis=1).reshape(-1) - math.log(len(given))
    return result


def _pooled_density(each: Sequence[RowDensity | None]) -> PooledDensity | None:
    """Pooled density of the members; None if any of them has none."""
    given = [density for density in each if density is not None]
    return PooledDensity(tuple(given)) if len(given) == len(each) else None


def _numpy(values: torch.Tensor) -> Array:
    return values.double().cpu().numpy()


def _normalised(log_weight: torch.Tensor) -> Array:
    """Normalised in double precision, so that probabilities sum to one."""
    return _numpy(torch.log_softmax(log_weight.double(), 0))
