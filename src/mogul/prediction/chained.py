"""Predictions of autoregressive outputs y = A z, where the model is one of z, with outputs that are independent.

Given the variances of its noise, z is Normal, and so are y, and y given some of its entries. Variances of heavy-tailed
noise are drawn. An output with a known z, where it and all outputs that it needs are known, takes no draws.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from mogul._typing import Array, BoolArray, IntArray
from mogul.core.joint import Independent, Index
from mogul.core.moments import Marginals
from mogul.core.transforms import Chain
from mogul.heads import NoiseLaw
from mogul.prediction.conditional import Conditional
from mogul.prediction.prediction import Prediction
from mogul.prediction.row_density import HeadDensity

# Draws of the noise variances: at least so many, and so many for each component.
_DRAWS, _RATIO = 256, 2
# The share of an unknown output's variance that a component keeps where others are unknown too: components are
# independent over outputs, and means of components have the rest of the covariance.
_KEPT = 0.05
# Numbers of a covariance of known outputs at work.
_NUMBERS_AT_ONCE = 4_000_000


def chained(z: Prediction, chain: Chain) -> Prediction:
    """The prediction of y = A z."""
    square = np.square(chain.matrix).T
    return Prediction(
        chain.undo(z.mean),
        z.var @ square,
        chain.undo(z.component_mean),
        z.component_var @ square,
        joint=ChainedJoint(z.joint, z.component_var, chain.matrix),
        log_weight=z.log_weight,
        density=ChainedDensity.of(z.density, chain) if isinstance(z.density, HeadDensity) else None,
    )


@dataclass(frozen=True)
class ChainedJoint(Independent):
    """Outputs C z for independent z, given a component with drawn variances.

    Args:
        own: how entries of z belong together, for their mean variances.
        var: variances of z.
        matrix: C: rows of A, scaled.
        added: further variance of each output.
    """

    own: Independent
    var: Float[Array, "S N P"]
    matrix: Float[Array, "Q P"]
    added: Float[Array, "N Q"] | None = None

    def log_density(
        self, y: Float[Array, "N Q"], mean: Float[Array, "S N Q"], var: Float[Array, "S N Q"]
    ) -> Float[Array, "S N"]:
        """Given the drawn variances; random variances need many draws, see `Prediction.density`."""
        result = np.zeros(mean.shape[:2])
        for rows, seen in _patterns(~np.isnan(y), len(mean) * y.shape[1] ** 2):
            matrix = self.matrix[seen]
            cov = np.einsum("qp,snp,rp->snqr", matrix, self.var[:, rows], matrix, optimize=True)
            if self.added is not None:
                cov += self.added[rows][:, seen, None] * np.eye(len(seen))
            result[:, rows] = _log_normal(y[rows][:, seen] - mean[:, rows][..., seen], np.linalg.cholesky(cov))
        return result

    def deviations(
        self,
        std: Float[Array, "S N Q"],
        rng: np.random.Generator,
        component: Int[IntArray, "S #N"] | None = None,
    ) -> Float[Array, "S N Q"]:
        """C times draws of z."""
        points = np.arange(self.var.shape[1])
        var = self.var if component is None else self.var[component, points]
        result: Array = (np.sqrt(var) * rng.standard_normal(var.shape)) @ self.matrix.T
        if self.added is not None:
            result += np.sqrt(self.added) * rng.standard_normal(std.shape)
        return result

    def cross_cov(self, num_outputs: int) -> Float[Array, "N Q Q"]:
        """C E[var] Cᵀ off its diagonal, at each point."""
        cov: Array = np.einsum("qp,np,rp->nqr", self.matrix, self.var.mean(0), self.matrix, optimize=True)
        cov[:, np.arange(num_outputs), np.arange(num_outputs)] = 0.0
        return cov

    def rescaled(self, scale: Float[Array, "Q"]) -> "ChainedJoint":
        """For outputs multiplied by `scale`."""
        added = None if self.added is None else self.added * scale**2
        return replace(self, matrix=self.matrix * scale[:, None], added=added)

    def mean_var(self, var: Float[Array, "S N Q"]) -> Float[Array, "N Q"]:
        """Without the error of drawn variances."""
        result: Array = self.own.mean_var(self.var) @ np.square(self.matrix).T
        return result if self.added is None else result + self.added

    def widened(self, var: Float[Array, "N Q"]) -> "ChainedJoint":
        """For signals with `var` added to their variance."""
        return replace(self, added=var if self.added is None else self.added + var)

    def rows(self, index: Index) -> "ChainedJoint":
        """For some of the points."""
        added = None if self.added is None else self.added[index]
        return replace(self, own=self.own.rows(index), var=self.var[:, index], added=added)

    def outputs(self, index: Index) -> "ChainedJoint":
        """For some of the outputs."""
        added = None if self.added is None else self.added[:, index]
        return replace(self, matrix=self.matrix[index], added=added)


@dataclass(frozen=True)
class ChainedDensity:
    """Outputs shift + scale ∘ A z at N points, or those at some places; z has independent entries.

    Args:
        signal: moments of z without its noise.
        law: of the noise of z.
        unit: what the noise of z is multiplied by.
        chain: from outputs to z.
        shift: of all outputs.
        scale: of all outputs.
        places: of the outputs that are asked for.
    """

    signal: Marginals
    law: NoiseLaw
    unit: Float[Array, "P"]
    chain: Chain
    shift: Float[Array, "N P"]
    scale: Float[Array, "P"]
    places: Int[IntArray, "Q"]

    @staticmethod
    def of(density: HeadDensity, chain: Chain) -> "ChainedDensity":
        """From the density of z, of a model with one latent GP for each output."""
        signal = density.independent_signal()
        shape = tuple(signal.mean.shape)
        return ChainedDensity(
            signal,
            density.law,
            density.scale.numpy(),
            chain,
            np.zeros(shape),
            np.ones(shape[1]),
            np.arange(shape[1]),
        )

    def log_density(self, y: Float[Array, "N Q"], seed: int = 0) -> Float[Array, "N"]:
        """log p(y) per row over its observed outputs; NaN is missing."""
        known = self._known(y)
        result: Array = known.log_density - (~np.isnan(y) @ np.log(np.abs(self.scale[self.places])))
        for part in self._hard(known, _DRAWS, seed):
            result[part.rows] += logsumexp(part.log_weight, axis=0) - math.log(len(part.log_weight))
        return result

    def given(self, y: Float[Array, "N Q"], num_components: int, seed: int = 0) -> Conditional:
        """All outputs given these ones, as a mixture of so many components; NaN is not known."""
        known, rng = self._known(y), np.random.default_rng(seed)
        mean, var = np.empty(known.y.shape), np.empty(known.y.shape)
        means, variances = (np.empty((num_components, *known.y.shape)) for _ in range(2))
        log_density = known.log_density - (~np.isnan(y) @ np.log(np.abs(self.scale[self.places])))
        for part in self._parts(known, max(_DRAWS, _RATIO * num_components), seed):
            rows, own = part.rows, part.conditional(num_components, rng)
            mean[rows], var[rows], means[:, rows], variances[:, rows] = own
            log_density[rows] += logsumexp(part.log_weight, axis=0) - math.log(len(part.log_weight))
        whole = Conditional(mean, var, means, variances, log_density).affine(self.scale, self.shift)
        return whole.outputs(self.places)

    def affine(self, scale: Float[Array, "Q"], shift: Float[Array, "*N Q"]) -> "ChainedDensity":
        """Density of shift + scale ∘ y."""
        factor, added = np.ones(len(self.scale)), np.zeros(self.shift.shape)
        factor[self.places], added[:, self.places] = scale, shift
        return replace(self, shift=added + factor * self.shift, scale=factor * self.scale)

    def rows(self, index: Index) -> "ChainedDensity":
        """For some of the points."""
        places = torch.as_tensor(np.arange(len(self.shift))[index])
        signal = Marginals(self.signal.mean[places], self.signal.var[places])
        return replace(self, signal=signal, law=self.law.rows(places), shift=self.shift[index])

    def outputs(self, index: Index) -> "ChainedDensity":
        """For some of the outputs."""
        return replace(self, places=self.places[index])

    def _known(self, y: Float[Array, "N Q"]) -> "_Known":
        """Outputs in units of the chain, and the density of those whose z is known."""
        whole = np.full(self.shift.shape, np.nan)
        whole[:, self.places] = y
        whole = (whole - self.shift) / self.scale
        z = self.chain.apply(whole)
        settled = ~np.isnan(z)
        with torch.no_grad():
            scaled = torch.as_tensor(np.where(settled, z / self.unit, 0.0))
            head = self.law.log_density(scaled, torch.as_tensor(settled), self.signal).numpy()
        return _Known(whole, settled, head - settled @ np.log(self.unit))

    def _hard(self, known: "_Known", num_draws: int, seed: int) -> Iterator["_Part"]:
        """Rows with known outputs whose z is not known."""
        hard = np.flatnonzero((~np.isnan(known.y) & ~known.settled).any(1))
        if len(hard):
            for part in self.rows(hard)._parts(known.at(hard), num_draws, seed):
                yield replace(part, rows=hard[part.rows])

    def _parts(self, known: "_Known", num_draws: int, seed: int) -> Iterator["_Part"]:
        """Rows with the same known outputs, with draws of the variances of z."""
        generator = torch.Generator().manual_seed(seed)
        num_draws = num_draws if self.law.is_drawn else 1
        num_outputs = known.y.shape[1]
        mean, var = (part.numpy() for part in (self.signal.mean, self.signal.var))
        for rows, seen in _patterns(~np.isnan(known.y), num_draws * num_outputs**2, known.settled):
            law = self.law.rows(torch.as_tensor(rows))
            drawn = law.draw_var(torch.Size([num_draws, len(rows), num_outputs]), generator).numpy()
            noise = np.broadcast_to(drawn, (num_draws, len(rows), num_outputs))
            own = self.unit * mean[rows], self.unit**2 * (var[rows] + noise)
            yield _Part.of(rows, known.at(rows), seen, *own, self.chain)


@dataclass(frozen=True)
class _Known:
    """Outputs in units of the chain, which of their z are known, and the log density of these."""

    y: Float[Array, "N P"]
    settled: Bool[BoolArray, "N P"]
    log_density: Float[Array, "N"]

    def at(self, rows: Int[IntArray, "B"]) -> "_Known":
        return _Known(self.y[rows], self.settled[rows], self.log_density[rows])


@dataclass(frozen=True)
class _Part:
    """Rows with the same known outputs: y of outputs that are not settled is mean + G (z − E z), given variances.

    Args:
        rows: their places.
        y: outputs, NaN where unknown.
        left: outputs whose z is not known; `seen` are places among them of those that are known themselves.
        mean: of outputs left, given what is settled.
        var: of z left, for each draw of the noise.
        mixing: G.
        root: Cholesky factor of the covariance of what is known of them.
        log_weight: the log density of that.
    """

    rows: Int[IntArray, "B"]
    y: Float[Array, "B P"]
    left: Int[IntArray, "R"]
    seen: Int[IntArray, "K"]
    mean: Float[Array, "B R"]
    var: Float[Array, "T B R"]
    mixing: Float[Array, "R R"]
    root: Float[Array, "T B K K"]
    log_weight: Float[Array, "T B"]

    @staticmethod
    def of(
        rows: Int[IntArray, "B"],
        known: _Known,
        observed: Int[IntArray, "_"],
        mean: Float[Array, "B P"],
        var: Float[Array, "T B P"],
        chain: Chain,
    ) -> "_Part":
        """With the mean and variances of z."""
        settled = known.settled[0]
        left = np.flatnonzero(~settled)
        seen = np.flatnonzero(np.isin(left, observed))
        weights = chain.weights[np.ix_(left, left)]
        mixing = np.asarray(np.linalg.inv(np.eye(len(left)) - weights), dtype=np.float64)
        of_settled = known.y[:, settled] @ chain.weights[np.ix_(left, np.flatnonzero(settled))].T
        own_mean, own_var = (mean[:, left] + of_settled) @ mixing.T, var[..., left]
        cov = np.einsum("kr,tbr,lr->tbkl", mixing[seen], own_var, mixing[seen], optimize=True)
        root: Array = np.linalg.cholesky(cov)
        log_weight = _log_normal(known.y[:, left[seen]] - own_mean[:, seen], root)
        return _Part(rows, known.y, left, seen, own_mean, own_var, mixing, root, log_weight)

    def conditional(self, num_components: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
        """Mean, variance, and those of components: of all outputs, known ones without variance."""
        gap = self.y[:, self.left[self.seen]] - self.mean[:, self.seen]
        share = np.exp(self.log_weight - logsumexp(self.log_weight, axis=0))
        means = self.mean + self._updated(gap[None])
        explained = np.linalg.solve(self.root, self._cross.swapaxes(-1, -2))
        var = self.var @ np.square(self.mixing).T - np.square(explained).sum(-2)
        var[..., self.seen] = 0.0
        mean = (share[..., None] * means).sum(0)
        total = (share[..., None] * (np.maximum(var, 0.0) + np.square(means - mean))).sum(0)
        chosen = _resampled(share, num_components, rng), np.arange(len(self.y))
        drawn = self._drawn(gap, chosen, rng)
        kept = 1.0 if len(self.left) - len(self.seen) == 1 else _KEPT
        centre = means[chosen]
        parts = mean, total, centre + math.sqrt(1 - kept) * (drawn - centre), kept * np.maximum(var[chosen], 0.0)
        filled = self.y, np.zeros(self.y.shape), self.y, np.zeros(self.y.shape)
        result = []
        for own, base in zip(parts, filled, strict=True):
            whole = np.broadcast_to(base, (*own.shape[:-1], base.shape[-1])).copy()
            whole[..., self.left] = own
            result.append(whole)
        return result[0], result[1], result[2], result[3]

    @property
    def _cross(self) -> Float[Array, "T B R K"]:
        """Covariance of outputs left with those known of them."""
        cross: Array = np.einsum("qr,tbr,kr->tbqk", self.mixing, self.var, self.mixing[self.seen], optimize=True)
        return cross

    def _updated(self, gap: Float[Array, "#T B K"]) -> Float[Array, "T B R"]:
        """What the outputs left differ by from their mean, for this difference of those known of them."""
        every = np.broadcast_to(gap, self.root.shape[:-1])[..., None]
        solved = np.linalg.solve(self.root @ self.root.swapaxes(-1, -2), every)
        result: Array = (self._cross @ solved)[..., 0]
        return result

    def _drawn(
        self, gap: Float[Array, "B K"], chosen: tuple[IntArray, IntArray], rng: np.random.Generator
    ) -> Float[Array, "S B R"]:
        """Draws of outputs left given what is known of them, by Matheron's rule."""
        var = self.var[chosen]
        free = (np.sqrt(var) * rng.standard_normal(var.shape)) @ self.mixing.T
        part = replace(self, var=var, root=self.root[chosen], log_weight=self.log_weight[chosen])
        result: Array = self.mean + free + part._updated(gap - free[..., self.seen])
        return result


def _patterns(
    observed: Bool[BoolArray, "N P"], per_row: int, also: Bool[BoolArray, "N P"] | None = None
) -> Iterator[tuple[Int[IntArray, "B"], Int[IntArray, "K"]]]:
    """Rows with the same observed outputs, in parts that fit into memory, and these outputs."""
    both = observed if also is None else np.concatenate([observed, also], axis=1)
    kinds, kind = np.unique(both, axis=0, return_inverse=True)
    step = max(1, _NUMBERS_AT_ONCE // per_row)
    for number, pattern in enumerate(kinds):
        every = np.flatnonzero(kind.ravel() == number)
        seen = np.flatnonzero(pattern[: observed.shape[1]])
        for first in range(0, len(every), step):
            yield every[first : first + step], seen


def _log_normal(gap: Float[Array, "*T K"], root: Float[Array, "*S K K"]) -> Float[Array, "*S"]:
    """log N(gap | 0, root rootᵀ)."""
    whitened = np.linalg.solve(root, np.broadcast_to(gap, root.shape[:-1])[..., None])[..., 0]
    log_det = np.log(np.einsum("...kk->...k", root)).sum(-1)
    result: Array = -0.5 * np.square(whitened).sum(-1) - log_det - 0.5 * gap.shape[-1] * math.log(2 * math.pi)
    return result


def _resampled(share: Float[Array, "T B"], count: int, rng: np.random.Generator) -> Int[IntArray, "S B"]:
    """Places of draws with these shares, by systematic resampling for each row."""
    level = (np.arange(count)[:, None] + rng.random(share.shape[1])) / count
    reached = np.cumsum(share, axis=0)
    result: IntArray = (level[:, None] > (reached / reached[-1])[None]).sum(1)
    return np.minimum(result, len(share) - 1)
