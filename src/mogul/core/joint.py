"""Joint distribution of the outputs given one component of a predictive mixture.

A component's mean and variance per output determine each output's marginal. Densities and draws of whole rows, and
covariances between outputs, are computed here.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int

from mogul._typing import Array, IntArray
from mogul.core.scale_mixture import LogScale

Index = slice | Int[IntArray, "B"]
Kind = TypeVar("Kind", bound="Independent")


@dataclass(frozen=True)
class Independent:
    """Independent Normals: the base class."""

    def log_density(
        self, y: Float[Array, "N P"], mean: Float[Array, "S N P"], var: Float[Array, "S N P"]
    ) -> Float[Array, "S N"]:
        """log p(y | component) of each row over its observed outputs; NaN is missing."""
        observed = ~np.isnan(y)
        each = log_normal(np.where(observed, y, 0.0) - mean, var)
        result: Array = np.where(observed, each, 0.0).sum(-1)
        return result

    def deviations(
        self,
        std: Float[Array, "S N P"],
        rng: np.random.Generator,
        component: Int[IntArray, "S #N"] | None = None,
    ) -> Float[Array, "S N P"]:
        """Draws around a component's mean, with these standard deviations.

        Args:
            std: of each draw.
            rng: draws them.
            component: the index of each draw's component; by default one draw of each component, in order.
        """
        result: Array = std * rng.standard_normal(std.shape)
        return result

    def cross_cov(self, num_outputs: int) -> Float[Array, "*N P P"]:
        """The noise's covariance between different outputs, with a zero diagonal: once for all points, or per point."""
        return np.zeros((num_outputs, num_outputs))

    def given(
        self,
        y: Float[Array, "N P"],
        mean: Float[Array, "S N P"],
        var: Float[Array, "S N P"],
        rng: np.random.Generator,
    ) -> tuple[Float[Array, "S N P"], Float[Array, "S N P"]]:
        """Mean and variance of components given what their outputs share, drawn given the known outputs y.

        Outputs are then independent; the weights of components are for the caller to change, by `log_density`.
        """
        return mean, var

    def rescaled(self: Kind, scale: Float[Array, "P"]) -> Kind:
        """For outputs multiplied by `scale`."""
        return self

    def mean_var(self, var: Float[Array, "S N P"]) -> Float[Array, "N P"]:
        """Mean over components of their variances `var`."""
        result: Array = var.mean(0)
        return result

    def widened(self: Kind, var: Float[Array, "N P"]) -> Kind:
        """For signals with `var` added to their variance; the components' variances already include it."""
        return self

    def rows(self: Kind, index: Index) -> Kind:
        """For some of the points."""
        return self

    def outputs(self: Kind, index: Index) -> Kind:
        """For some of the outputs."""
        return self

    def joined(self: Kind, others: Sequence[Kind]) -> Kind:
        """Concatenate the points of this and of the others."""
        return self


@dataclass(frozen=True)
class ScaleMixture(Independent):
    """Independent outputs, each with a random noise variance; a component's variance includes one draw of it.

    The density of a row integrates over the variance of each output; averaging over single draws would need many of
    them. The variance is e^g/λ + floor_var, g ~ N(center, spread): `mogul.core.scale_mixture.LogScale`.

    Args:
        signal_var: variance of the component without its noise.
        center: mean of g; T is 1 (shared by all components) or S (one law per component).
        spread: variance of g.
        floor_var: the constant part of the variance.
        shape: shape of λ's Gamma law; infinite where λ = 1.
    """

    signal_var: Float[Array, "S N P"]
    center: Float[Array, "T N P"]
    spread: Float[Array, "T N P"]
    floor_var: Float[Array, "T N P"]
    shape: Float[Array, "T N P"]

    def log_density(
        self, y: Float[Array, "N P"], mean: Float[Array, "S N P"], var: Float[Array, "S N P"]
    ) -> Float[Array, "S N"]:
        """log Π E N(y | mean, signal_var + noise_var) over the observed outputs."""
        observed = ~np.isnan(y)
        square = np.where(observed, y, 0.0) - mean
        np.square(square, out=square)
        center, spread, floor_var, shape = (torch.from_numpy(part) for part in self._parts()[1:])
        noise = LogScale(center, spread, floor_var, None if bool(shape.isinf().all()) else shape)
        each = noise.log_density(torch.from_numpy(square), torch.from_numpy(self.signal_var)).numpy()
        result: Array = np.einsum("snp,np->sn", each, observed.astype(each.dtype))
        return result

    def rescaled(self, scale: Float[Array, "P"]) -> "ScaleMixture":
        """For outputs multiplied by `scale`."""
        square = scale**2
        center = self.center + np.log(square)
        return ScaleMixture(self.signal_var * square, center, self.spread, self.floor_var * square, self.shape)

    def mean_var(self, var: Float[Array, "S N P"]) -> Float[Array, "N P"]:
        """Without the error of drawn scales: E e^g/λ = e^(center + spread/2) shape/(shape − 1)."""
        of_tails = np.where(np.isinf(self.shape), 1.0, 1 / (1 - 1 / self.shape))
        noise = np.exp(self.center + 0.5 * self.spread) * of_tails + self.floor_var
        result: Array = self.signal_var.mean(0) + noise.mean(0)
        return result

    def widened(self, var: Float[Array, "N P"]) -> "ScaleMixture":
        """For signals with `var` added to their variance."""
        _, *noise = self._parts()
        return ScaleMixture(self.signal_var + var, *noise)

    def rows(self, index: Index) -> "ScaleMixture":
        """For some of the points."""
        return ScaleMixture(*(part[:, index] for part in self._parts()))

    def outputs(self, index: Index) -> "ScaleMixture":
        """For some of the outputs."""
        return ScaleMixture(*(part[..., index] for part in self._parts()))

    def joined(self, others: "Sequence[ScaleMixture]") -> "ScaleMixture":
        """Concatenate the points of this and of the others."""
        columns = zip(*(part._parts() for part in (self, *others)), strict=True)
        return ScaleMixture(*(np.concatenate(each, axis=1) for each in columns))

    def _parts(self) -> tuple[Array, ...]:
        return self.signal_var, self.center, self.spread, self.floor_var, self.shape


@dataclass(frozen=True)
class Correlated(Independent):
    """Normal with the covariance D + U Uᵀ; a component's variances are the whole diagonal, U Uᵀ included."""

    loadings: Float[Array, "P R"]

    def log_density(
        self, y: Float[Array, "N P"], mean: Float[Array, "S N P"], var: Float[Array, "S N P"]
    ) -> Float[Array, "S N"]:
        """Row by row over its observed outputs."""
        return low_rank_log_density(y, mean, var - np.square(self.loadings).sum(-1), self.loadings)

    def deviations(
        self,
        std: Float[Array, "S N P"],
        rng: np.random.Generator,
        component: Int[IntArray, "S #N"] | None = None,
    ) -> Float[Array, "S N P"]:
        """Independent part of each output plus the shared part."""
        own = np.sqrt(np.square(std) - np.square(self.loadings).sum(-1))
        shared = rng.standard_normal((*std.shape[:-1], self.loadings.shape[1])) @ self.loadings.T
        result: Array = own * rng.standard_normal(std.shape) + shared
        return result

    def given(
        self,
        y: Float[Array, "N P"],
        mean: Float[Array, "S N P"],
        var: Float[Array, "S N P"],
        rng: np.random.Generator,
    ) -> tuple[Float[Array, "S N P"], Float[Array, "S N P"]]:
        """With a draw of the factors behind U."""
        own = var - np.square(self.loadings).sum(-1)
        return mean + _shared_given(y, mean, own, self.loadings, rng), own

    def cross_cov(self, num_outputs: int) -> Float[Array, "P P"]:
        """U Uᵀ off its diagonal."""
        cov = self.loadings @ self.loadings.T
        result: Array = cov - np.diag(np.diag(cov))
        return result

    def rescaled(self, scale: Float[Array, "P"]) -> "Correlated":
        """For outputs multiplied by `scale`."""
        return Correlated(self.loadings * scale[:, None])

    def outputs(self, index: Index) -> "Correlated":
        """For some of the outputs."""
        return Correlated(self.loadings[index])


@dataclass(frozen=True)
class ScaledCorrelation(Independent):
    """Outputs whose noises are correlated given their variances n: a component has the covariance V + √n R √n.

    V is diagonal: the component's variances minus n. R = I − diag(U Uᵀ) + U Uᵀ: `mogul.heads.NoiseCorrelation`.

    Args:
        marginals: the distribution of each output alone.
        noise_var: n, drawn for each component.
        loadings: U.
    """

    marginals: Independent
    noise_var: Float[Array, "S N P"]
    loadings: Float[Array, "P R"]

    def log_density(
        self, y: Float[Array, "N P"], mean: Float[Array, "S N P"], var: Float[Array, "S N P"]
    ) -> Float[Array, "S N"]:
        """Given the drawn variances; random variances need many draws, see `Prediction.density`."""
        loadings = np.sqrt(self.noise_var)[..., None] * self.loadings
        return low_rank_log_density(y, mean, var - np.square(loadings).sum(-1), loadings)

    def deviations(
        self,
        std: Float[Array, "S N P"],
        rng: np.random.Generator,
        component: Int[IntArray, "S #N"] | None = None,
    ) -> Float[Array, "S N P"]:
        """Independent part of each output plus the shared part."""
        points = np.arange(self.noise_var.shape[1])
        noise_var = self.noise_var if component is None else self.noise_var[component, points]
        own = np.sqrt(np.maximum(np.square(std) - noise_var * np.square(self.loadings).sum(-1), 0.0))
        shared = rng.standard_normal((*std.shape[:-1], self.loadings.shape[1])) @ self.loadings.T
        result: Array = own * rng.standard_normal(std.shape) + np.sqrt(noise_var) * shared
        return result

    def given(
        self,
        y: Float[Array, "N P"],
        mean: Float[Array, "S N P"],
        var: Float[Array, "S N P"],
        rng: np.random.Generator,
    ) -> tuple[Float[Array, "S N P"], Float[Array, "S N P"]]:
        """With a draw of the factors behind U."""
        loadings = np.sqrt(self.noise_var)[..., None] * self.loadings
        own = var - np.square(loadings).sum(-1)
        return mean + _shared_given(y, mean, own, loadings, rng), own

    def cross_cov(self, num_outputs: int) -> Float[Array, "N P P"]:
        """E √n √nᵀ ∘ R off its diagonal, at each point."""
        shared = self.loadings @ self.loadings.T
        root = np.sqrt(self.noise_var).transpose(1, 2, 0)
        result: Array = (root @ root.swapaxes(1, 2)) / root.shape[-1] * (shared - np.diag(np.diag(shared)))
        return result

    def rescaled(self, scale: Float[Array, "P"]) -> "ScaledCorrelation":
        """For outputs multiplied by `scale`."""
        signed = np.sign(scale)[:, None] * self.loadings
        return ScaledCorrelation(self.marginals.rescaled(scale), self.noise_var * scale**2, signed)

    def mean_var(self, var: Float[Array, "S N P"]) -> Float[Array, "N P"]:
        """The marginals' mean variance."""
        return self.marginals.mean_var(var)

    def widened(self, var: Float[Array, "N P"]) -> "ScaledCorrelation":
        """For signals with `var` added to their variance."""
        return ScaledCorrelation(self.marginals.widened(var), self.noise_var, self.loadings)

    def rows(self, index: Index) -> "ScaledCorrelation":
        """For some of the points."""
        return ScaledCorrelation(self.marginals.rows(index), self.noise_var[:, index], self.loadings)

    def outputs(self, index: Index) -> "ScaledCorrelation":
        """For some of the outputs."""
        return ScaledCorrelation(self.marginals.outputs(index), self.noise_var[..., index], self.loadings[index])

    def joined(self, others: "Sequence[ScaledCorrelation]") -> "ScaledCorrelation":
        """Concatenate the points of this and of the others."""
        marginals = self.marginals.joined([other.marginals for other in others])
        noise_var = np.concatenate([self.noise_var, *(other.noise_var for other in others)], axis=1)
        return ScaledCorrelation(marginals, noise_var, self.loadings)


@dataclass(frozen=True)
class Pooled(Independent):
    """K interleaved mixtures: component i belongs to mixture i mod K."""

    members: tuple[Independent, ...]

    def log_density(
        self, y: Float[Array, "N P"], mean: Float[Array, "S N P"], var: Float[Array, "S N P"]
    ) -> Float[Array, "S N"]:
        """From the mixture that each component belongs to."""
        result = np.empty(mean.shape[:2])
        for turn, member in self._turns():
            result[turn] = member.log_density(y, mean[turn], var[turn])
        return result

    def deviations(
        self,
        std: Float[Array, "S N P"],
        rng: np.random.Generator,
        component: Int[IntArray, "S #N"] | None = None,
    ) -> Float[Array, "S N P"]:
        """From the mixture that each component belongs to."""
        places = np.arange(len(std))[:, None] if component is None else component
        of_member = np.broadcast_to(places % len(self.members), std.shape[:2])
        result = np.empty(std.shape)
        for number, member in enumerate(self.members):
            mine = of_member == number
            result[mine] = member.deviations(std, rng, places // len(self.members))[mine]
        return result

    def given(
        self,
        y: Float[Array, "N P"],
        mean: Float[Array, "S N P"],
        var: Float[Array, "S N P"],
        rng: np.random.Generator,
    ) -> tuple[Float[Array, "S N P"], Float[Array, "S N P"]]:
        """By the mixture that a component comes from."""
        mean, var = mean.copy(), var.copy()
        for turn, member in self._turns():
            mean[turn], var[turn] = member.given(y, mean[turn], var[turn], rng)
        return mean, var

    def cross_cov(self, num_outputs: int) -> Float[Array, "*N P P"]:
        """The mean over mixtures."""
        total = np.zeros((num_outputs, num_outputs))
        for member in self.members:  # some have one matrix for all points
            total = total + member.cross_cov(num_outputs)
        result: Array = total / len(self.members)
        return result

    def rescaled(self, scale: Float[Array, "P"]) -> "Pooled":
        """For outputs multiplied by `scale`."""
        return Pooled(tuple(member.rescaled(scale) for member in self.members))

    def mean_var(self, var: Float[Array, "S N P"]) -> Float[Array, "N P"]:
        """The mean over mixtures."""
        result: Array = np.mean([member.mean_var(var[turn]) for turn, member in self._turns()], axis=0)
        return result

    def widened(self, var: Float[Array, "N P"]) -> "Pooled":
        """For signals with `var` added to their variance."""
        return Pooled(tuple(member.widened(var) for member in self.members))

    def rows(self, index: Index) -> "Pooled":
        """For some of the points."""
        return Pooled(tuple(member.rows(index) for member in self.members))

    def outputs(self, index: Index) -> "Pooled":
        """For some of the outputs."""
        return Pooled(tuple(member.outputs(index) for member in self.members))

    def joined(self, others: "Sequence[Pooled]") -> "Pooled":
        """Concatenate the points of this and of the others."""
        columns = zip(*(pooled.members for pooled in (self, *others)), strict=True)
        return Pooled(tuple(first.joined(rest) for first, *rest in columns))

    def _turns(self) -> Iterator[tuple[slice, Independent]]:
        count = len(self.members)
        yield from ((slice(number, None, count), member) for number, member in enumerate(self.members))


def low_rank_log_density(
    y: Float[Array, "N P"], mean: Float[Array, "S N P"], own: Float[Array, "S N P"], loadings: Float[Array, "*T P R"]
) -> Float[Array, "S N"]:
    """log N(y | mean, diag(own) + U Uᵀ) of each row over its observed outputs, by Woodbury; NaN is missing."""
    observed = ~np.isnan(y)
    precision = observed / own
    gap = np.where(observed, y, 0.0) - mean
    # I + Uᵀ D⁻¹ U and Uᵀ D⁻¹ (y − m), of the observed outputs.
    inner = np.eye(loadings.shape[-1]) + np.einsum("...p,...pq,...pr->...qr", precision, loadings, loadings)
    projected = np.einsum("...p,...pr->...r", precision * gap, loadings)
    explained = (projected * np.linalg.solve(inner, projected[..., None])[..., 0]).sum(-1)
    misfit = (precision * np.square(gap)).sum(-1) - explained
    log_det = np.where(observed, np.log(own), 0.0).sum(-1) + np.linalg.slogdet(inner)[1]
    result: Array = -0.5 * (observed.sum(-1) * math.log(2 * math.pi) + log_det + misfit)
    return result


def _shared_given(
    y: Float[Array, "N P"],
    mean: Float[Array, "S N P"],
    own: Float[Array, "S N P"],
    loadings: Float[Array, "*T P R"],
    rng: np.random.Generator,
) -> Float[Array, "S N P"]:
    """U ξ for a draw of ξ given y = mean + U ξ + noise of the variances `own`, over the observed outputs."""
    observed = ~np.isnan(y)
    precision = observed / own
    gap = np.where(observed, y, 0.0) - mean
    inner = np.eye(loadings.shape[-1]) + np.einsum("...p,...pq,...pr->...qr", precision, loadings, loadings)
    projected = np.einsum("...p,...pr->...r", precision * gap, loadings)[..., None]
    root = np.linalg.cholesky(inner)  # of the precision of ξ
    drawn = rng.standard_normal(projected.shape)
    factors = np.linalg.solve(root.swapaxes(-1, -2), np.linalg.solve(root, projected) + drawn)
    result: Array = (loadings @ factors)[..., 0]
    return result


def log_normal(gap: Array, var: Array) -> Array:
    """log N(gap | 0, var), number by number."""
    result: Array = -0.5 * (math.log(2 * math.pi) + np.log(var) + np.square(gap) / var)
    return result
