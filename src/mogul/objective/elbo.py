"""What training maximises, in named terms: the evidence lower bound, or a relative of it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mogul.core.moments import Marginals
from mogul.data.dataset import Batch
from mogul.errors import require_positive, unknown_name
from mogul.heads import NoiseLaw
from mogul.models.model import Model

ObjectiveName = Literal["elbo", "balanced", "predictive"]
# On Kuka's left-out rows ½ would lower errors by 1.4 % and LL by 2.4, where ¼ has 0.9 % and 1.0 (docs/defaults.md).
_BALANCE = 0.25


@dataclass(frozen=True)
class ElboTerms:
    """Estimates for the whole data set, never per datum."""

    ell: Float[Tensor, ""]
    kl_local: Float[Tensor, ""]
    kl_global: Float[Tensor, ""]
    log_prior: Float[Tensor, ""]
    misfit: Float[Tensor, "*S N P"]  # of the batch's outputs, detached: what the noise's level is the mean of at best

    def total(self, kl_weight: float = 1.0) -> Float[Tensor, ""]:
        """ELL − w·KL + log prior: at w = 1 the lower bound, plus the log prior of what is estimated by MAP."""
        return self.ell - kl_weight * (self.kl_local + self.kl_global) + self.log_prior

    @staticmethod
    def of_pieces(pieces: Sequence["ElboTerms"]) -> "ElboTerms":
        """Those of a batch from those of its pieces: means over rows, as values without a graph."""
        if len(pieces) == 1:
            return pieces[0]
        rows = torch.tensor([float(piece.misfit.shape[-2]) for piece in pieces], dtype=torch.float64)

        def mean(values: list[Tensor]) -> Float[Tensor, ""]:
            return ((rows / rows.sum()) @ torch.stack(values).detach().double()).to(values[0])

        return ElboTerms(
            mean([piece.ell for piece in pieces]),
            mean([piece.kl_local for piece in pieces]),
            mean([piece.kl_global for piece in pieces]),
            mean([piece.log_prior for piece in pieces]),
            torch.cat([piece.misfit for piece in pieces], dim=-2),
        )


@dataclass(frozen=True)
class RowMoments:
    """What an objective needs to know of some rows: moments of the signal, the noise and what both should explain."""

    batch: Batch
    signal: Marginals
    noise: NoiseLaw
    target: Float[Tensor, "N P"]  # in the units of the head


@runtime_checkable
class Expectation(Protocol):
    """How the signal's moments under q, all that a Gaussian expected log likelihood needs, are computed."""

    @property
    def num_samples(self) -> int:
        """Draws per expectation."""
        ...

    def signal(self, model: Model, x: Float[Tensor, "N D"], generator: torch.Generator) -> Marginals:
        """Moments of the head's signal, in its units; a leading axis holds draws to average over."""
        ...


@dataclass(frozen=True)
class Analytic:
    """Closed-form, section 4.2.2; deep priors draw their inner layers `num_samples` times."""

    num_samples: int = 1

    def __post_init__(self) -> None:
        require_positive(num_samples=self.num_samples)

    def signal(self, model: Model, x: Float[Tensor, "N D"], generator: torch.Generator) -> Marginals:
        """Features and mixing integrated out."""
        return model.head.moments(model.prior(x, self.num_samples, generator), x, generator)


@dataclass(frozen=True)
class MonteCarlo:
    """Average over draws of F and b, section 4.2.1 (the paper draws 250); M is integrated out."""

    num_samples: int = 250

    def __post_init__(self) -> None:
        require_positive(num_samples=self.num_samples)

    def signal(self, model: Model, x: Float[Tensor, "N D"], generator: torch.Generator) -> Marginals:
        """Moments of the empirical distribution of the draws: see `FeatureMoments.of_samples`."""
        f = model.prior(x, self.num_samples, generator).sample(self.num_samples, generator)
        return model.head.sampled_moments(f, x, generator)


@dataclass(frozen=True)
class Objective(ABC):
    """An objective estimated from a minibatch: (N/B) Σ (each row's fit − local KL) − KL + log prior."""

    expectation: Expectation
    num_data: int

    def __post_init__(self) -> None:
        require_positive(num_data=self.num_data)

    def __call__(self, model: Model, batch: Batch, generator: torch.Generator) -> ElboTerms:
        """The terms, for the whole data set."""
        rescale = self.num_data / len(batch)
        rows = self.moments(model, batch, generator)
        with torch.no_grad():
            misfit = self.misfit(rows.noise, rows.target, batch.observed, rows.signal)
        return ElboTerms(
            ell=rescale * self.row_fit(model, batch, rows.signal, rows.noise).sum(),
            kl_local=rescale * model.inputs.kl(batch).sum(),
            kl_global=model.kl(),
            log_prior=model.log_prior(),
            misfit=misfit,
        )

    def moments(self, model: Model, batch: Batch, generator: torch.Generator) -> RowMoments:
        """The signal and the noise at the rows of a batch, with what is drawn there."""
        x = model.inputs.draw(batch, generator)
        signal = self.signal(model, x, generator)
        return RowMoments(batch, signal, model.head.noise(x, generator), model.mean.residual(batch.y, batch.x))

    def signal(self, model: Model, x: Float[Tensor, "N D"], generator: torch.Generator) -> Marginals:
        """Moments of the head's signal, for a mean of the outputs that is known."""
        # A plane that is random is taken at its mean: at rows trained on, the head makes up for what it is off by.
        return self.expectation.signal(model, x, generator)

    @abstractmethod
    def row_fit(self, model: Model, batch: Batch, signal: Marginals, noise: NoiseLaw) -> Float[Tensor, "N"]:
        """How well each row's observed outputs are explained."""

    @abstractmethod
    def misfit(
        self, noise: NoiseLaw, target: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """What the noise's level is the mean of where the fit is best."""


@dataclass(frozen=True)
class Elbo(Objective):
    """The evidence lower bound: a row's fit is its expected log likelihood.

    Example:
        >>> from mogul.models import build
        >>> x, y = torch.randn(20, 3), torch.randn(20, 2)
        >>> model = build("mogp", x, num_outputs=2, generator=torch.Generator())
        >>> terms = Elbo(Analytic(), num_data=20)(model, Batch.of(x, y), torch.Generator())
        >>> bool(terms.kl_global >= 0)
        True
    """

    def row_fit(self, model: Model, batch: Batch, signal: Marginals, noise: NoiseLaw) -> Float[Tensor, "N"]:
        """E log p(y | signal)."""
        return row_log_likelihood(model, batch, signal, noise)

    def misfit(
        self, noise: NoiseLaw, target: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """That of the expected log likelihood."""
        misfit = noise.misfit(target, observed, signal)
        return misfit if signal.log_weight is None else signal.average(misfit)


@dataclass(frozen=True)
class Balanced(Elbo):
    """The evidence lower bound, climbed so that quiet rows do not drown the others: after β-NLL (Seitzer et al. 2022).

    Where noise depends on x, a row counts for the signal by the inverse of its noise's variance σ², and a row that is
    all but free of noise for as much as thousands. Here what an output's signal, its mean and its spread, learns from a
    row is multiplied by (σ² / mean σ²)^¼, while the noise learns as ever: errors become smaller, densities a little
    lower. Quiet rows then count for less against the KL, too, and loud ones hardly for more. β-NLL weighs the noise's
    gradient as well, and divides by no mean; the mean is over the rows at hand, a batch or the piece of one that memory
    allows.

    The value is that of the bound: what ends a training, and what starts are compared by, is the bound as ever. So is
    the gradient where noise does not depend on x.

    Example:
        >>> from mogul.models import build
        >>> x, y = torch.randn(20, 3), torch.randn(20, 2)
        >>> model = build("mogp", x, num_outputs=2, generator=torch.Generator(), noise="gp")
        >>> batch = Batch.of(x, y)
        >>> each = [kind(Analytic(), num_data=20)(model, batch, torch.Generator()).ell for kind in (Elbo, Balanced)]
        >>> bool(each[0] == each[1])
        True
    """

    def row_fit(self, model: Model, batch: Batch, signal: Marginals, noise: NoiseLaw) -> Float[Tensor, "N"]:
        """E log p(y | signal), whose gradient reaches the signal by weight."""
        if not model.head.noise.varies:
            return super().row_fit(model, batch, signal, noise)
        weight = _balancing_weight(noise.var.detach(), batch.observed)
        mean, var = (_weighted_gradient(moment, weight) for moment in (signal.mean, signal.var))
        return super().row_fit(model, batch, replace(signal, mean=mean, var=var), noise)


@dataclass(frozen=True)
class Predictive(Objective):
    """The predictive log likelihood in place of the expected one (PPGPR, Jankowiak et al. 2020), with the same KL.

    A row's fit is log E p(y | signal), for a Normal signal with the moments that the expectation gives: what the model
    is judged by afterwards. It is no bound on the evidence. Draws of a deep prior's inner layers make a mixture; so do
    learnt sites, with their weights (DSPP: `mogul.priors.Sites`).

    Example:
        >>> from mogul.models import build
        >>> x, y = torch.randn(20, 3), torch.randn(20, 2)
        >>> model = build("mogp", x, num_outputs=2, generator=torch.Generator())
        >>> batch, generator = Batch.of(x, y), torch.Generator()
        >>> each = [kind(Analytic(), num_data=20)(model, batch, generator).ell for kind in (Elbo, Predictive)]
        >>> bool(each[0] < each[1])
        True
    """

    def signal(self, model: Model, x: Float[Tensor, "N D"], generator: torch.Generator) -> Marginals:
        """With the variance of the mean of the outputs, as predictions have it."""
        return model.mean.widened(self.expectation.signal(model, x, generator), x)

    def row_fit(self, model: Model, batch: Batch, signal: Marginals, noise: NoiseLaw) -> Float[Tensor, "N"]:
        """log E p(y | signal)."""
        return row_log_predictive(model, batch, signal, noise)

    def misfit(
        self, noise: NoiseLaw, target: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """That of the predictive log likelihood, where draws count by what they say of the row."""
        each = noise.log_density(target, observed, signal).reshape(-1, len(target))
        misfit = noise.predictive_misfit(target, observed, signal).reshape(-1, *target.shape)
        return (torch.softmax(signal.weighted(each), 0).unsqueeze(-1) * misfit).sum(0)


_OBJECTIVES: dict[str, type[Objective]] = {"elbo": Elbo, "balanced": Balanced, "predictive": Predictive}


def objective_by_name(name: object) -> type[Objective]:
    """The objective of this name.

    >>> objective_by_name("elbo").__name__
    'Elbo'
    """
    for known, objective in _OBJECTIVES.items():
        if name == known:
            return objective
    raise unknown_name("objective", name, _OBJECTIVES)


def require_objective(name: str) -> ObjectiveName:
    """Check the name of an objective."""
    objective_by_name(name)
    return cast(ObjectiveName, name)


def row_log_likelihood(model: Model, batch: Batch, signal: Marginals, noise: NoiseLaw) -> Float[Tensor, "N"]:
    """The expected log likelihood of each row over its observed outputs, averaged over the signal's components."""
    target = model.mean.residual(batch.y, batch.x)
    ell = signal.average(noise.expected_log_density(target, batch.observed, signal).reshape(-1, len(batch)))
    return ell - _log_unit(model, batch, ell)


def row_log_predictive(model: Model, batch: Batch, signal: Marginals, noise: NoiseLaw) -> Float[Tensor, "N"]:
    """The log predictive density of each row over its observed outputs, for the mixture of the signal's components.

    The signal's variance holds that of the mean of the outputs: see `OutputMean.widened`.
    """
    target = model.mean.residual(batch.y, batch.x)
    each = noise.log_density(target, batch.observed, signal).reshape(-1, len(batch))
    log_density = signal.log_mean(each)
    return log_density - _log_unit(model, batch, log_density)


def _balancing_weight(var: Float[Tensor, "*T N P"], observed: Bool[Tensor, "N P"]) -> Float[Tensor, "*T N P"]:
    """(σ² / mean σ²)^¼, with the mean over the rows where an output was observed."""
    # In logarithms: a variance may be as large as its exponential allows, and what was not observed has no say.
    log_var = torch.where(observed, var.log(), -math.inf)
    log_level = log_var.logsumexp(-2, keepdim=True) - observed.to(var).sum(-2, keepdim=True).clamp_min(1).log()
    # What was not observed learns nothing, whatever its weight.
    return torch.where(observed, _BALANCE * (log_var - log_level), 0).exp()


def _weighted_gradient(value: Float[Tensor, "*S N P"], weight: Float[Tensor, "*T N P"]) -> Float[Tensor, "*R N P"]:
    """This value, with its gradient multiplied by this weight."""
    still = value.detach()
    return still + weight * (value - still)


def _log_unit(model: Model, batch: Batch, like: Tensor) -> Float[Tensor, "N"]:
    """From densities of the residuals that the head sees to those of y."""
    return batch.observed.to(like) @ model.mean.scale.log()
