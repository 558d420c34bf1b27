"""Predictive distributions at new points: a mixture and its moments."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import logsumexp, ndtr

from mogul._typing import Array, IntArray
from mogul.core.joint import Independent, Pooled
from mogul.data import Standardiser
from mogul.errors import ConfigError, ShapeError, require_positive
from mogul.models.model import Model
from mogul.prediction.conditional import Conditioned
from mogul.prediction.quantiles import mixture_quantiles
from mogul.prediction.row_density import GivenDensity, HeadDensity, PooledDensity, RowDensity, has_shared_draws

# Numbers per tensor while a part of a prediction is computed: about 160 MB in float64, for a few tensors.
_NUMBERS_AT_ONCE = 20_000_000
# The variance of a known output in components, where zero would make their distribution functions 0/0.
_NO_VAR = 1e-200


@dataclass(frozen=True)
class Prediction:
    """The predictive distribution of the outputs, noise included, at N points.

    It is a mixture of S Normals: one for each draw of the latent functions, with equal weights, or one for each learnt
    site of a deep model, with the weights of `log_weight`. Given a component, outputs are independent unless `joint`
    says otherwise. `mean` and `var` are the mixture's moments, in closed form where the model has one.

    Outputs that share latent functions would need far more draws than S for the density of a whole row: `density` has
    it by importance sampling around what explains y, where a model made the prediction from inputs that were given.

    `given` is the same distribution given some outputs of each row.
    """

    mean: Float[Array, "N P"]
    var: Float[Array, "N P"]
    component_mean: Float[Array, "S N P"]
    component_var: Float[Array, "S N P"]
    joint: Independent = field(default_factory=Independent, kw_only=True)
    # Of all points, or of each; None: all components count the same.
    log_weight: Float[Array, "S"] | Float[Array, "S N"] | None = field(default=None, kw_only=True)
    density: RowDensity | None = field(default=None, kw_only=True)  # None: that of the mixture

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
            log_weight=_rows_of(self.log_weight, index),
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

    def given(self, y: Float[Array, "N P"], seed: int = 0) -> "Prediction":
        """The prediction given outputs that are known in the same rows: exact within the model up to Monte Carlo error.

        What outputs share, latent functions and factors of correlated noise, is drawn anew for each row by importance
        sampling around what explains its known outputs (`mogul.prediction.conditional`). Components have equal
        weights; outputs are independent given one. Heavy-tailed noise of known outputs is integrated out, and that of
        unknown ones has its scale drawn. A prediction without `density`, such as that of learnt sites, keeps its
        components: each is conditioned, and weighted by the density of what is known.

        Known outputs have their value, and no variance. In `log_density` they count as missing: it is
        log p(unknown | known). Rows of which nothing is known stay as they are.

        Args:
            y: known outputs, in the units of the prediction; NaN is not known.
            seed: of the draws.
        """
        self.require_shape(y)
        if isinstance(self.joint, Conditioned):  # what was known stays so
            y = np.where(self.joint.known, self.mean, y)
        known = ~np.isnan(y)
        if not known.any():
            return self
        some = np.flatnonzero(known.any(1) & ~known.all(1))
        part = self.rows(some)._conditional(y[some], seed) if len(some) else self.rows(some)
        mean, var, means, variances = self._with_rows(some, part)
        log_weight = part.log_weight
        if log_weight is not None:
            whole = np.full(means.shape[:2], -math.log(len(means)))
            if self.log_weight is not None:
                whole[:] = _aligned(self.log_weight, 2)
            whole[:, some] = _aligned(log_weight, 2)
            log_weight = whole
        mean[known], var[known] = y[known], 0.0
        means[:, known], variances[:, known] = y[known], _NO_VAR
        return Prediction(
            mean,
            var,
            means,
            variances,
            joint=Conditioned(self.joint, known),
            log_weight=log_weight,
            density=self.density and GivenDensity(self.density, y),
        )

    def _conditional(self, y: Float[Array, "N P"], seed: int) -> "Prediction":
        """Of rows of which something is known, as if it could be measured once more."""
        if self.density is not None:
            found = self.density.given(y, len(self.component_mean), seed)
            return Prediction(found.mean, found.var, found.component_mean, found.component_var)
        means, variances = self.joint.given(y, self.component_mean, self.component_var, np.random.default_rng(seed))
        log_weight = self.component_log_density(y)
        if self.log_weight is not None:
            log_weight = log_weight + _aligned(self.log_weight, 2)
        log_weight = log_weight - logsumexp(log_weight, axis=0)
        mixture = Prediction(self.mean, self.var, means, variances, log_weight=log_weight)
        mean = mixture.average(means)
        return replace(mixture, mean=mean, var=mixture.average(variances + np.square(means - mean)))

    def _with_rows(self, some: Int[IntArray, "B"], part: "Prediction") -> tuple[Array, Array, Array, Array]:
        """Moments, and means and variances of components, with those of another prediction at some points."""
        own = self.mean.copy(), self.var.copy(), self.component_mean.copy(), self.component_var.copy()
        own[0][some], own[1][some] = part.mean, part.var
        own[2][:, some], own[3][:, some] = part.component_mean, part.component_var
        return own

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
            result = logsumexp(each + _aligned(self.log_weight, 2), axis=0)
        return result

    def average(self, each: Float[Array, "S *N"]) -> Float[Array, "*N"]:
        """The mean over components, by their weights, of something that each has."""
        if self.log_weight is None:
            result: Array = each.mean(0)
        elif self.log_weight.ndim == 1:
            result = np.tensordot(np.exp(self.log_weight), each, 1)
        else:
            result = (_aligned(np.exp(self.log_weight), each.ndim) * each).sum(0)
        return result

    def cov_of_means(self) -> Float[Array, "N P P"]:
        """The covariance of the components' means at each point."""
        centered = (self.component_mean - self.average(self.component_mean)).transpose(1, 2, 0)
        if self.log_weight is None:
            result: Array = centered @ centered.swapaxes(1, 2) / centered.shape[-1]
        else:
            weight = np.exp(self.log_weight)  # (S,), or (S, N)
            result = (centered * (weight if weight.ndim == 1 else weight.T[:, None])) @ centered.swapaxes(1, 2)
        return result

    def correlations(self) -> Float[Array, "N P P"]:
        """Correlations of the outputs at each point, from the covariance of component means plus their variances."""
        cov = self.cov_of_means()
        cov += self.joint.cross_cov(cov.shape[-1])
        diagonal = np.arange(cov.shape[-1])
        cov[:, diagonal, diagonal] += self.average(self.component_var)
        scale = np.sqrt(cov[:, diagonal, diagonal])
        cov /= scale[:, :, None] * scale[:, None, :]
        cov[:, diagonal, diagonal] = 1.0  # exactly, so that covariances' diagonals equal variances
        return cov

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
        weights = self.log_weight if self.log_weight is None else np.exp(self.log_weight)
        if weights is not None and weights.ndim == 2:
            weights = np.repeat(weights, self.mean.shape[1], axis=1)
        flat = (len(self.component_mean), -1)
        means, stds = self.component_mean.reshape(flat), np.sqrt(self.component_var).reshape(flat)
        found = mixture_quantiles(means, stds, levels, self.mean.reshape(-1), self.std.reshape(-1), weights)
        return found.reshape(len(levels), *self.mean.shape)

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
        elif self.log_weight.ndim == 1:
            components = rng.choice(num_components, size=size, p=np.exp(self.log_weight))
        else:
            level, components = rng.random(size), np.zeros(size, dtype=np.int64)
            for reached in np.cumsum(np.exp(self.log_weight), axis=0)[:-1]:
                components += level > reached
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
    result: Array = np.stack(given, axis=1).reshape(-1, *given[0].shape[1:]) - math.log(len(given))
    return result


def _pooled_density(each: Sequence[RowDensity | None]) -> PooledDensity | None:
    """Pooled density of the members; None if any of them has none."""
    given = [density for density in each if density is not None]
    return PooledDensity(tuple(given)) if len(given) == len(each) else None


def _aligned(weight: Array, num_axes: int) -> Array:
    """With axes of size one at its end, up to so many."""
    return weight.reshape(*weight.shape, *(1,) * (num_axes - weight.ndim))


def _rows_of(log_weight: "Array | None", index: slice | Int[IntArray, "B"]) -> "Array | None":
    """Weights of components at some of the points, where each has its own."""
    return log_weight if log_weight is None or log_weight.ndim == 1 else log_weight[:, index]


def _numpy(values: torch.Tensor) -> Array:
    return values.double().cpu().numpy()


def _normalised(log_weight: torch.Tensor) -> Array:
    """Normalised in double precision, so that probabilities sum to one."""
    return _numpy(torch.log_softmax(log_weight.double(), 0))
