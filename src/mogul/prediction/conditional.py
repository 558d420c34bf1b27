"""Outputs of a row given others of the same row.

Draws of what outputs share, the latents F and the factors of correlated noise, are those of
`mogul.prediction.importance`: weighted by the density of the outputs that are known. Given such a draw z, the unknown
outputs are independent of the known ones, and Normal given the scale of their noise, which is drawn from its law. So
draws resampled by their weights are components of the exact conditional mixture, up to Monte Carlo error.

Mean and variance are weighted averages with the moments of a linear Normal model as control variate: for a signal that
is linear in F and noise of known variance they are exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mogul._typing import Array, BoolArray, IntArray
from mogul.core.joint import Independent, Index
from mogul.heads import NormalLaw
from mogul.prediction.importance import LatentDraws, RowOutputs, SignalLaw, draw


@dataclass(frozen=True)
class Conditional:
    """The distribution of all outputs at N points given those that are known: moments, and S components.

    Components have equal weights, and outputs are independent given one. Known outputs hold what a new measurement of
    them would be. `log_density` is that of the known outputs.
    """

    mean: Float[Array, "N P"]
    var: Float[Array, "N P"]
    component_mean: Float[Array, "S N P"]
    component_var: Float[Array, "S N P"]
    log_density: Float[Array, "N"]

    @staticmethod
    def joined(parts: "Sequence[Conditional]") -> "Conditional":
        """For the points of each, one after another."""
        return Conditional(
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.var for part in parts]),
            np.concatenate([part.component_mean for part in parts], axis=1),
            np.concatenate([part.component_var for part in parts], axis=1),
            np.concatenate([part.log_density for part in parts]),
        )

    @staticmethod
    def pooled(members: "Sequence[Conditional]", num_components: int, seed: int) -> "Conditional":
        """The mixture of models with equal prior weights, reweighted by the density of what is known."""
        log_density = np.stack([member.log_density for member in members])
        total = np.logaddexp.reduce(log_density, axis=0)
        share = np.exp(log_density - total)[..., None]
        means = np.stack([member.mean for member in members])
        mean = (share * means).sum(0)
        var = (share * (np.stack([member.var for member in members]) + np.square(means - mean))).sum(0)
        sizes = [len(member.component_mean) for member in members]
        each = np.repeat(share[..., 0] / np.array(sizes)[:, None], sizes, axis=0)
        generator = torch.Generator().manual_seed(seed)
        places = _systematic(torch.as_tensor(each), num_components, generator).numpy(), np.arange(len(mean))
        return Conditional(
            mean,
            var,
            np.concatenate([member.component_mean for member in members])[places],
            np.concatenate([member.component_var for member in members])[places],
            total - math.log(len(members)),
        )

    def affine(self, scale: Float[Array, "P"], shift: Float[Array, "N P"]) -> "Conditional":
        """Of shift + scale ∘ y; `log_density` stays as it is."""
        return Conditional(
            shift + scale * self.mean,
            scale**2 * self.var,
            shift + scale * self.component_mean,
            scale**2 * self.component_var,
            self.log_density,
        )

    def outputs(self, index: Index) -> "Conditional":
        """For some of the outputs."""
        mean, var = self.mean[:, index], self.var[:, index]
        return Conditional(mean, var, self.component_mean[..., index], self.component_var[..., index], self.log_density)

    def replaced(self, places: Tensor, other: "Conditional") -> "Conditional":
        """With another one at some of the points."""
        index = places.numpy()
        for own, new in ((self.mean, other.mean), (self.var, other.var), (self.log_density, other.log_density)):
            own[index] = new
        self.component_mean[:, index], self.component_var[:, index] = other.component_mean, other.component_var
        return self


@dataclass(frozen=True)
class Conditioned(Independent):
    """Components given some outputs of their row: independent, and known outputs are what they are.

    Rows of which nothing is known are as they were.

    Args:
        plain: how outputs belong together where nothing is known.
        known: which outputs are.
    """

    plain: Independent
    known: Bool[BoolArray, "N P"]

    def log_density(
        self, y: Float[Array, "N P"], mean: Float[Array, "S N P"], var: Float[Array, "S N P"]
    ) -> Float[Array, "S N"]:
        """log p(y | component) of each row over the observed outputs that are not known."""
        result = super().log_density(np.where(self.known, np.nan, y), mean, var)
        free = self._free
        result[:, free] = self.plain.rows(free).log_density(y[free], mean[:, free], var[:, free])
        return result

    def deviations(
        self,
        std: Float[Array, "S N P"],
        rng: np.random.Generator,
        component: Int[IntArray, "S #N"] | None = None,
    ) -> Float[Array, "S N P"]:
        """None of outputs that are known."""
        result = super().deviations(std, rng)
        result[:, self.known] = 0.0
        free = self._free
        some = component if component is None or component.shape[1] == 1 else component[:, free]
        result[:, free] = self.plain.rows(free).deviations(std[:, free], rng, some)
        return result

    def given(
        self,
        y: Float[Array, "N P"],
        mean: Float[Array, "S N P"],
        var: Float[Array, "S N P"],
        rng: np.random.Generator,
    ) -> tuple[Float[Array, "S N P"], Float[Array, "S N P"]]:
        """Where nothing was known, as there."""
        mean, var, free = mean.copy(), var.copy(), self._free
        mean[:, free], var[:, free] = self.plain.rows(free).given(y[free], mean[:, free], var[:, free], rng)
        return mean, var

    def cross_cov(self, num_outputs: int) -> Float[Array, "N P P"]:
        """None where something is known: the components' means have it."""
        result = np.zeros((len(self.known), num_outputs, num_outputs))
        free = self._free
        result[free] = self.plain.rows(free).cross_cov(num_outputs)
        return result

    def rescaled(self, scale: Float[Array, "P"]) -> "Conditioned":
        """For outputs multiplied by these."""
        return Conditioned(self.plain.rescaled(scale), self.known)

    def mean_var(self, var: Float[Array, "S N P"]) -> Float[Array, "N P"]:
        """Where nothing is known, as there."""
        result, free = super().mean_var(var), self._free
        result[free] = self.plain.rows(free).mean_var(var[:, free])
        return result

    def widened(self, var: Float[Array, "N P"]) -> "Conditioned":
        """For signals with so much more variance."""
        return Conditioned(self.plain.widened(var), self.known)

    def rows(self, index: Index) -> "Conditioned":
        """For some of the points."""
        return Conditioned(self.plain.rows(index), self.known[index])

    def outputs(self, index: Index) -> "Conditioned":
        """For some of the outputs."""
        return Conditioned(self.plain.outputs(index), self.known[:, index])

    def joined(self, others: "Sequence[Conditioned]") -> "Conditioned":
        """For the points of this and then of the others."""
        plain = self.plain.joined([other.plain for other in others])
        return Conditioned(plain, np.concatenate([self.known, *(other.known for other in others)]))

    @property
    def _free(self) -> Int[IntArray, "B"]:
        """Rows of which nothing is known."""
        return np.flatnonzero(~self.known.any(1))


def condition(
    signal: SignalLaw,
    rows: RowOutputs,
    num_draws: int,
    num_starts: int,
    num_components: int,
    generator: torch.Generator,
) -> tuple[Conditional, Float[Tensor, "N"]]:
    """All outputs given the observed ones of each row, in the units of the signal; and the effective number of draws.

    Args:
        signal: of the rows.
        rows: their outputs; those that are known are observed.
        num_draws: of z, for each component of the signal and row.
        num_starts: as in `mogul.prediction.importance.draw`.
        num_components: the number S of components of the result.
        generator: draws them.
    """
    draws = draw(signal, rows, num_draws, generator, num_starts)
    outputs = _Outputs.given(draws.z, signal, rows, generator)
    moments = _moments(draws, outputs, signal, rows)
    log_weight = draws.log_weight.flatten(0, 1)
    share = torch.softmax(log_weight, 0)
    chosen = _systematic(share, num_components, generator).unsqueeze(-1).expand(-1, -1, rows.y.shape[-1])
    mean, var = (part.numpy() for part in moments)
    means, variances = (
        part.flatten(0, 1).gather(0, chosen).numpy() for part in (outputs.drawn_mean, outputs.drawn_var)
    )
    evidence = torch.logsumexp(draws.log_density, 0) - math.log(signal.num_components)
    return Conditional(mean, var, means, variances, evidence.numpy()), 1 / share.square().sum(0)


@dataclass(frozen=True)
class _Outputs:
    """Mean and variance of outputs given z: for drawn scales of their noise, and averaged over these."""

    drawn_mean: Float[Tensor, "K T N P"]
    drawn_var: Float[Tensor, "K T N P"]
    mean: Float[Tensor, "K T N P"]
    var: Float[Tensor, "K T N P"]

    @staticmethod
    def given(
        z: Float[Tensor, "K T N E"], signal: SignalLaw, rows: RowOutputs, generator: torch.Generator
    ) -> "_Outputs":
        own, factors = rows.parts(z)
        here = signal.at(own)
        noise_var = rows.law.draw_var(here.mean.shape, generator).expand_as(here.mean)
        if rows.loadings is None:
            return _Outputs(here.mean, here.var + noise_var, here.mean, here.var + rows.law.var)
        shared, own_share = factors @ rows.loadings.T, 1 - rows.loadings.square().sum(-1)
        offset = _mean_std(rows) * shared
        return _Outputs(
            here.mean + noise_var.sqrt() * shared,
            here.var + noise_var * own_share,
            here.mean + offset,
            here.var + rows.law.var * (own_share + shared.square()) - offset.square(),
        )


def _moments(
    draws: LatentDraws, outputs: _Outputs, signal: SignalLaw, rows: RowOutputs
) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
    """Mean and variance over all draws, by their weights, with those of the linear model about the likeliest z."""
    slopes, level = _linear_outputs(draws.center, signal, rows)
    linear_mean, linear_var = draws.linear.posterior(slopes)
    _, weight, control, _ = (part.unsqueeze(-1) for part in draws.controlled())
    total = weight.mean(0)
    gap = outputs.mean - (level + linear_mean)
    linear_gap = torch.einsum("tnpe,ktne->ktnp", slopes, draws.z) - linear_mean
    shift = _controlled_mean(weight * gap, control * linear_gap) / total
    second = (
        _controlled_mean(weight * (gap.square() - linear_var), control * (linear_gap.square() - linear_var)) / total
    )
    within = (weight * outputs.var).mean(0) / total
    each_mean = level + linear_mean + shift
    each_var = within + (linear_var + second - shift.square()).clamp_min(0)
    share = torch.softmax(draws.log_density, 0).unsqueeze(-1)
    mean = (share * each_mean).sum(0)
    return mean, (share * (each_var + (each_mean - mean).square())).sum(0)


def _linear_outputs(
    center: Float[Tensor, "T N E"], signal: SignalLaw, rows: RowOutputs
) -> tuple[Float[Tensor, "T N P E"], Float[Tensor, "T N P"]]:
    """Slopes and intercept of E y in z about this z, of all outputs."""
    own, _ = rows.parts(center)
    jacobian = signal.jacobian(own)
    level = signal.at(own).mean - torch.einsum("tnpe,tne->tnp", jacobian, own)
    if rows.loadings is None:
        return jacobian, level
    of_factors = (_mean_std(rows).unsqueeze(-1) * rows.loadings).expand(*level.shape, -1)
    return torch.cat([jacobian, of_factors], -1), level


def _mean_std(rows: RowOutputs) -> Float[Tensor, "*N P"]:
    assert isinstance(rows.law, NormalLaw)  # others say themselves how outputs belong together
    return rows.law.mean_std()


def _controlled_mean(value: Float[Tensor, "K *N"], control: Float[Tensor, "K *N"]) -> Float[Tensor, "*N"]:
    """The mean over draws, corrected by a control whose mean is 0."""
    deviation = control - control.mean(0)
    tiny = torch.finfo(value.dtype).tiny
    slope = (deviation * value).sum(0) / deviation.square().sum(0).clamp_min(tiny)
    return value.mean(0) - slope * control.mean(0)


def _systematic(share: Float[Tensor, "K N"], count: int, generator: torch.Generator) -> Tensor:
    """Places (count, N) of draws with these shares, by systematic resampling for each point."""
    start = torch.rand((share.shape[1], 1), generator=generator, dtype=share.dtype)
    level = (torch.arange(count, dtype=share.dtype) + start) / count
    reached = share.cumsum(0).T.contiguous()
    return torch.searchsorted(reached, level * reached[:, -1:]).clamp_max(len(share) - 1).T
