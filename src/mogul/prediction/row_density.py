"""Joint density of whole rows of outputs, shared latents included, as held by a prediction."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp
from torch import Tensor, nn

from mogul._typing import Array, IntArray
from mogul.core.joint import Index
from mogul.core.moments import Marginals
from mogul.heads import Features, NoiseLaw
from mogul.heads.mixing import Matrices
from mogul.models.model import Model
from mogul.prediction.conditional import Conditional, condition
from mogul.prediction.importance import RowOutputs, log_density


@dataclass(frozen=True)
class _Effort:
    """Draws per row, starts of the search, and least draws per component of a deep model."""

    num_draws: int
    num_starts: int
    fewest: int


# A signal that is linear in its latents has a single mode of z given y; hidden units may give several. Rows whose
# effective number of draws is below a quarter are estimated again with more.
_LINEAR, _CURVED, _HARD = _Effort(32, 1, 4), _Effort(64, 2, 4), _Effort(512, 4, 4)
# For means over many rows, computed after each epoch.
_QUICK_LINEAR, _QUICK_CURVED, _QUICK_HARD = _Effort(16, 1, 2), _Effort(24, 1, 2), _Effort(128, 2, 2)
_MOST_COMPONENTS = 32
# For conditional predictions, which are made of the draws themselves: at least so many, and so many more than
# components. Rows where draws are as good as fewer than these are looked at once more, with so many times the draws.
_GIVEN_DRAWS, _GIVEN_RATIO, _GIVEN_FEWEST, _GIVEN_EFFECTIVE, _GIVEN_MORE = 256, 2, 8, 64, 4
# How many numbers a part may hold at work: some 30 MB in float64, a few times over.
_NUMBERS_AT_ONCE = 4_000_000


@runtime_checkable
class RowDensity(Protocol):
    """log p(y) of rows, joint over outputs, with the transformations of a prediction."""

    def log_density(self, y: Float[Array, "N P"], seed: int = 0) -> Float[Array, "N"]:
        """log p(y) per row over its observed outputs; NaN is missing."""
        ...

    def given(self, y: Float[Array, "N P"], num_components: int, seed: int = 0) -> Conditional:
        """All outputs given these ones, as a mixture of so many components; NaN is not known."""
        ...

    def affine(self, scale: Float[Array, "P"], shift: Float[Array, "*N P"]) -> "RowDensity":
        """Density of shift + scale ∘ y."""
        ...

    def rows(self, index: Index) -> "RowDensity":
        """For some of the points."""
        ...

    def outputs(self, index: Index) -> "RowDensity":
        """For some of the outputs."""
        ...


@dataclass(frozen=True)
class PooledDensity:
    """Density of a mixture with equal weights."""

    members: tuple[RowDensity, ...]

    def log_density(self, y: Float[Array, "N P"], seed: int = 0) -> Float[Array, "N"]:
        """The log of the mean over members."""
        each = [member.log_density(y, seed) for member in self.members]
        result: Array = logsumexp(each, axis=0) - math.log(len(each))
        return result

    def given(self, y: Float[Array, "N P"], num_components: int, seed: int = 0) -> Conditional:
        """Members are weighted by the density that each gives to what is known."""
        each = [member.given(y, num_components, seed + place) for place, member in enumerate(self.members)]
        return Conditional.pooled(each, num_components, seed)

    def affine(self, scale: Float[Array, "P"], shift: Float[Array, "*N P"]) -> "PooledDensity":
        """Density of shift + scale ∘ y."""
        return PooledDensity(tuple(member.affine(scale, shift) for member in self.members))

    def rows(self, index: Index) -> "PooledDensity":
        """For some of the points."""
        return PooledDensity(tuple(member.rows(index) for member in self.members))

    def outputs(self, index: Index) -> "PooledDensity":
        """For some of the outputs."""
        return PooledDensity(tuple(member.outputs(index) for member in self.members))


@dataclass(frozen=True)
class GivenDensity:
    """That of the unknown outputs given the known ones: log p(all) − log p(known). Known outputs count as missing."""

    density: RowDensity
    known: Float[Array, "N P"]  # NaN is not known

    def log_density(self, y: Float[Array, "N P"], seed: int = 0) -> Float[Array, "N"]:
        """log p(y | known) per row over its observed outputs that are not known."""
        result: Array = self.density.log_density(self._with(y), seed) - self.density.log_density(self.known, seed)
        return result

    def given(self, y: Float[Array, "N P"], num_components: int, seed: int = 0) -> Conditional:
        """Given these outputs too."""
        return self.density.given(self._with(y), num_components, seed)

    def affine(self, scale: Float[Array, "P"], shift: Float[Array, "*N P"]) -> "GivenDensity":
        """Of shift + scale ∘ y."""
        return GivenDensity(self.density.affine(scale, shift), shift + scale * self.known)

    def rows(self, index: Index) -> "GivenDensity":
        """For some of the points."""
        return GivenDensity(self.density.rows(index), self.known[index])

    def outputs(self, index: Index) -> "GivenOutputs":
        """For some of the outputs: all of the known ones still count."""
        return GivenOutputs(self, np.arange(self.known.shape[1])[index])

    def _with(self, y: Float[Array, "N P"]) -> Float[Array, "N P"]:
        return np.where(np.isnan(self.known), y, self.known)


@dataclass(frozen=True)
class GivenOutputs:
    """That of some of the outputs, by their places, where others are known."""

    density: GivenDensity
    places: Int[IntArray, "Q"]

    def log_density(self, y: Float[Array, "N Q"], seed: int = 0) -> Float[Array, "N"]:
        """With the others missing."""
        return self.density.log_density(self._spread(y), seed)

    def given(self, y: Float[Array, "N Q"], num_components: int, seed: int = 0) -> Conditional:
        """Given these outputs too."""
        whole = self.density.given(self._spread(y), num_components, seed)
        return whole.outputs(self.places)

    def affine(self, scale: Float[Array, "Q"], shift: Float[Array, "*N Q"]) -> "GivenOutputs":
        """Of shift + scale ∘ y; the others stay as they are."""
        every, added = np.ones(self.density.known.shape[1]), np.zeros(self.density.known.shape)
        every[self.places], added[:, self.places] = scale, shift
        return GivenOutputs(self.density.affine(every, added), self.places)

    def rows(self, index: Index) -> "GivenOutputs":
        """For some of the points."""
        return GivenOutputs(self.density.rows(index), self.places)

    def outputs(self, index: Index) -> "GivenOutputs":
        """For some of the outputs."""
        return GivenOutputs(self.density, self.places[index])

    def _spread(self, y: Float[Array, "N Q"]) -> Float[Array, "N P"]:
        whole = np.full(self.density.known.shape, np.nan)
        whole[:, self.places] = y
        return whole


@dataclass(frozen=True)
class _HeadSignal:
    """M h(F) for F = mean + √var ∘ z and the random part of the features, with M integrated out."""

    q: Marginals
    features: Features
    matrices: Matrices
    extra_var: Float[Tensor, "N P"]

    @property
    def num_components(self) -> int:
        return len(self.q.mean)

    @property
    def num_random(self) -> int:
        return self.q.mean.shape[-1] + self.features.num_random

    def at(self, z: Float[Tensor, "*K T N E"]) -> Marginals:
        signal = self.matrices.given(self.features.given(*self._parts(z)))
        return Marginals(signal.mean, signal.var + self.extra_var)

    def jacobian(self, z: Float[Tensor, "T N E"]) -> Float[Tensor, "T N P E"]:
        of_latents, of_rest = self.features.slopes(*self._parts(z))
        slopes = torch.cat([of_latents * self.q.var.sqrt().unsqueeze(-2), of_rest], -1)
        return self.matrices.mean @ slopes

    def rows(self, index: Int[Tensor, "B"]) -> "_HeadSignal":
        q = Marginals(self.q.mean[:, index], self.q.var[:, index])
        return _HeadSignal(q, self.features, self.matrices.rows(index), self.extra_var[index])

    def _parts(self, z: Tensor) -> tuple[Tensor, Tensor]:
        num_latents = self.q.mean.shape[-1]
        latents, rest = z[..., :num_latents], z[..., num_latents:]
        return self.q.mean + self.q.var.sqrt() * latents, rest


@dataclass(frozen=True)
class HeadDensity:
    """y = shift + scale ∘ (M h(F) + noise) for F ~ q at N points: q has T components, draws of a deep model's layers.

    All in float64 and copied: further training of the model does not change it.
    """

    q: Marginals
    features: Features
    matrices: Matrices
    law: NoiseLaw
    extra_var: Float[Tensor, "N P"]  # variance of the output mean, in the head's units
    shift: Float[Tensor, "N P"]
    scale: Float[Tensor, "P"]
    loadings: Float[Tensor, "P R"] | None = None  # loadings of correlated noise

    @staticmethod
    def of(model: Model, q: Marginals, x: Float[Tensor, "N D"], generator: torch.Generator) -> "HeadDensity":
        """The model's density at x, given the marginals of its latents there."""
        mean, var = (part.detach().double() for part in (q.mean, q.var))
        mean, var = (part.reshape(-1, *part.shape[-2:])[:_MOST_COMPONENTS] for part in (mean, var))
        zero = torch.zeros(len(x), model.head.mixing.num_outputs).to(q.mean)
        base = model.mean.restore(Marginals(zero, zero), x)
        scale, correlation = model.mean.scale.double(), model.head.correlation
        return HeadDensity(
            Marginals(mean, var),
            _in_double(model.head.features),
            model.head.mixing.at(x, generator).double(),
            model.head.noise(x, generator).double(),
            base.var.double() / scale.square(),
            base.mean.double(),
            scale,
            None if correlation is None else correlation.loadings.double(),
        )

    def independent_signal(self) -> Marginals:
        """Moments of the signal in units of `scale`, shift included, of a model with one latent GP for each output."""
        assert len(self.q.mean) == 1
        assert self.loadings is None
        mean, var = self.q.mean[0], self.q.var[0]
        weights, spread = self.matrices.mean, self.matrices.var
        signal_var = var @ weights.square().T + self.extra_var
        if spread is not None:
            signal_var = signal_var + (mean.square() + var) @ spread.T
        return Marginals(mean @ weights.T + self.shift / self.scale, signal_var)

    @torch.no_grad()
    def log_density(self, y: Float[Array, "N P"], seed: int = 0, *, quick: bool = False) -> Float[Array, "N"]:
        """log p(y) per row over its observed outputs; NaN is missing. `quick` is enough for a mean over rows."""
        efforts = self._efforts(quick)
        target, observed = self._targets(y)
        generator = torch.Generator().manual_seed(seed)
        step = max(1, _NUMBERS_AT_ONCE // self._numbers_per_row())
        parts = [
            self.rows(np.arange(first, min(first + step, len(y))))._log_density(
                target[first : first + step], observed[first : first + step], generator, efforts
            )
            for first in range(0, len(y), step)
        ]
        log_scale = observed.double() @ self.scale.log()
        result: Array = (torch.cat(parts) - log_scale).numpy() if parts else np.zeros(0)
        return result

    @torch.no_grad()
    def given(self, y: Float[Array, "N P"], num_components: int, seed: int = 0) -> Conditional:
        """All outputs given these ones, as a mixture of so many components; NaN is not known."""
        target, observed = self._targets(y)
        generator = torch.Generator().manual_seed(seed)
        num_draws = max(_GIVEN_DRAWS, _GIVEN_RATIO * num_components)
        step = max(1, _NUMBERS_AT_ONCE // self._numbers_per_draw(num_draws))
        parts = []
        for first in range(0, len(y), step):
            some = slice(first, first + step)
            own = self.rows(some)
            part = own._given(target[some], observed[some], num_draws, num_components, generator)
            parts.append(part.affine(self.scale.numpy(), own.shift.numpy()))
        whole = Conditional.joined(parts)
        return replace(whole, log_density=whole.log_density - (observed.double() @ self.scale.log()).numpy())

    def _given(
        self,
        y: Float[Tensor, "N P"],
        observed: Bool[Tensor, "N P"],
        num_draws: int,
        num_components: int,
        generator: torch.Generator,
    ) -> Conditional:
        law, loadings = self.law.factored()
        rows = RowOutputs(y, observed, law, None, self.loadings if loadings is None else loadings)
        signal = _HeadSignal(self.q, self.features, self.matrices, self.extra_var)
        each = max(_GIVEN_FEWEST, num_draws // len(self.q.mean))
        effort = self._efforts(quick=False)[0]
        result, effective = condition(signal, rows, each, effort.num_starts, num_components, generator)
        hard = torch.nonzero(effective < _GIVEN_EFFECTIVE)[:, 0]
        if not len(hard):
            return result
        again = signal.rows(hard), rows.rows(hard), _GIVEN_MORE * each, _HARD.num_starts
        return result.replaced(hard, condition(*again, num_components, generator)[0])

    def _targets(self, y: Float[Array, "N P"]) -> tuple[Float[Tensor, "N P"], Bool[Tensor, "N P"]]:
        """Outputs in the units of the head, zero where they are missing; and where they are not."""
        values = torch.as_tensor(np.ascontiguousarray(y))
        observed = ~values.isnan()
        return torch.where(observed, (values - self.shift) / self.scale, 0.0), observed

    def _log_density(
        self,
        y: Float[Tensor, "N P"],
        observed: Bool[Tensor, "N P"],
        generator: torch.Generator,
        efforts: tuple[_Effort, _Effort],
    ) -> Float[Tensor, "N"]:
        num_components, (first, more) = len(self.q.mean), efforts
        each, effective = self._estimate(y, observed, generator, first)
        result = torch.logsumexp(each, 0) - math.log(num_components)
        hard = torch.nonzero(effective[0] < first.num_draws / 4)[:, 0]
        if num_components == 1 and len(hard):
            again, _ = self.rows(hard.numpy())._estimate(y[hard], observed[hard], generator, more)
            result[hard] = again[0]
        return result

    def _estimate(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], generator: torch.Generator, effort: _Effort
    ) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"]]:
        unit = torch.ones_like(self.scale)
        cross = torch.as_tensor(self.law.joint(torch.zeros_like(y)[None], unit).cross_cov(len(unit)))
        signal = _HeadSignal(self.q, self.features, self.matrices, self.extra_var)
        rows = RowOutputs(y, observed, self.law, cross if bool(cross.any()) else None, self.loadings)
        num_draws = max(effort.fewest, effort.num_draws // len(self.q.mean))
        return log_density(signal, rows, num_draws, generator, effort.num_starts)

    def _efforts(self, quick: bool) -> tuple[_Effort, _Effort]:
        """Effort for all rows, and for rows where that is not enough."""
        if quick:
            return _QUICK_CURVED if self.features.num_random else _QUICK_LINEAR, _QUICK_HARD
        return _CURVED if self.features.num_random else _LINEAR, _HARD

    def affine(self, scale: Float[Array, "P"], shift: Float[Array, "*N P"]) -> "HeadDensity":
        """Density of shift + scale ∘ y."""
        factor, added = torch.as_tensor(scale), torch.as_tensor(shift)
        return replace(self, shift=added + factor * self.shift, scale=factor * self.scale)

    def rows(self, index: Index) -> "HeadDensity":
        """For some of the points."""
        places = torch.as_tensor(np.arange(len(self.shift))[index])
        q = Marginals(self.q.mean[:, places], self.q.var[:, places])
        return replace(
            self,
            q=q,
            matrices=self.matrices.rows(places),
            law=self.law.rows(places),
            extra_var=self.extra_var[places],
            shift=self.shift[places],
        )

    def outputs(self, index: Index) -> "HeadDensity":
        """For some of the outputs."""
        places = torch.as_tensor(np.arange(len(self.scale))[index])
        return replace(
            self,
            matrices=self.matrices.outputs(places),
            law=self.law.outputs(places),
            extra_var=self.extra_var[:, places],
            shift=self.shift[:, places],
            scale=self.scale[places],
            loadings=None if self.loadings is None else self.loadings[places],
        )

    def joined(self, others: "Sequence[HeadDensity]") -> "HeadDensity":
        """Concatenate the points of this and of the others."""
        every = [self, *others]
        q = Marginals(*(torch.cat([getattr(part.q, name) for part in every], 1) for name in ("mean", "var")))
        matrices = self.matrices.joined([part.matrices for part in others])
        law = self.law.joined([part.law for part in others])
        extra_var, shift = (torch.cat([getattr(part, name) for part in every]) for name in ("extra_var", "shift"))
        return HeadDensity(q, self.features, matrices, law, extra_var, shift, self.scale, self.loadings)

    def _numbers_per_row(self) -> int:
        effort, _ = self._efforts(quick=False)
        return self._numbers_per_draw(effort.num_draws, effort.fewest)

    def _numbers_per_draw(self, draws: int, fewest: int = _GIVEN_FEWEST) -> int:
        """At work for each row, with so many draws."""
        num_outputs, num_random = len(self.scale), self.q.mean.shape[-1] + self.features.num_random
        num_random += 0 if self.loadings is None else self.loadings.shape[1]
        num_draws = max(fewest, draws // len(self.q.mean))
        each = num_draws * (num_random + 4 * num_outputs) + num_outputs * (num_random + 3 * num_outputs)
        return len(self.q.mean) * each


def _in_double(features: Features) -> Features:
    copied = copy.deepcopy(features)
    assert isinstance(copied, nn.Module)
    copied.double().requires_grad_(False)
    return copied


def has_shared_draws(q: Marginals, x: Float[Tensor, "*S N D"]) -> bool:
    """Whether a prediction is a mixture over draws of latents, not over learnt sites or latent inputs.

    A model with sites was trained as that mixture. Latent inputs are inferred from the outputs themselves.
    """
    return q.log_weight is None and x.dim() == 2
