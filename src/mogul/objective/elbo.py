"""Training objectives in named terms: the evidence lower bound (ELBO) and its variants."""

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
# On Kuka's left-out rows ½ lowers errors by 1.4 % and LL by 2.4; ¼ lowers them by 0.9 % and 1.0 (docs/defaults.md).
_BALANCE = 0.25


@dataclass(frozen=True)
class ElboTerms:
    """Estimates for the whole data set, never per datum."""

    ell: Float[Tensor, ""]
    kl_local: Float[Tensor, ""]
    kl_global: Float[Tensor, ""]
    log_prior: Float[Tensor, ""]
    misfit: Float[Tensor, "*S N P"]  # of the batch's outputs, detached; the optimal noise level 1/β is its mean

    def total(self, kl_weight: float = 1.0) -> Float[Tensor, ""]:
        """ELL − w·KL + log prior: at w = 1 the lower bound plus the log prior of MAP parameters."""
        return self.ell - kl_weight * (self.kl_local + self.kl_global) + self.log_prior

    @staticmethod
    def of_pieces(pieces: Sequence["ElboTerms"]) -> "ElboTerms":
        """Terms of a batch from the terms of its pieces: means over rows, detached."""
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
    """Inputs of an objective for some rows: moments of the signal, the noise and the target."""

    batch: Batch
    signal: Marginals
    noise: NoiseLaw
    target: Float[Tensor, "N P"]  # in the units of the head


@runtime_checkable
class Expectation(Protocol):
    """How to compute the signal's moments under q, which a Gaussian expected log likelihood needs."""

    @property
    def num_samples(self) -> int:
        """Draws per expectation."""
        ...

    def signal(self, model: Model, x: Float[Tensor, "N D"], generator: torch.Generator) -> Marginals:
        """Moments of the head's signal, in the head's units; a leading axis holds draws to average over."""
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
        """The signal and the noise at the rows of a batch, random parts drawn."""
        x = model.inputs.draw(batch, generator)
        signal = self.signal(model, x, generator)
        return RowMoments(batch, signal, model.head.noise(x, generator), model.mean.residual(batch.y, batch.x))

    def signal(self, model: Model, x: Float[Tensor, "N D"], generator: torch.Generator) -> Marginals:
        """Moments of the head's signal, for a known output mean."""
        # A random linear mean is used at its expectation: on training rows the head corrects its error.
        return self.expectation.signal(model, x, generator)

    @abstractmethod
    def row_fit(self, model: Model, batch: Batch, signal: Marginals, noise: NoiseLaw) -> Float[Tensor, "N"]:
        """How well each row's observed outputs are explained."""

    @abstractmethod
    def misfit(
        self, noise: NoiseLaw, target: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """The optimal noise level 1/β is the mean of this."""


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
        """The misfit of the expected log likelihood."""
        misfit = noise.misfit(target, observed, signal)
        return misfit if signal.log_weight is None else signal.average(misfit)


@dataclass(frozen=True)
class Balanced(Elbo):
    """The ELBO with gradients reweighted so that low-noise rows do not dominate, after β-NLL (Seitzer et al. 2022).

    Where noise depends on x, a row's weight for the signal is the inverse of its noise variance σ², so one row almost
    without noise can outweigh thousands. Here the gradient of a row with respect to the signal's mean and variance is
    multiplied by (σ² / mean σ²)^¼; the gradient of the noise is unchanged. Errors become smaller, densities a little
    lower. Low-noise rows also count less against the KL. Unlike here, β-NLL also weights the noise's gradient and does
    not divide by the mean. The mean is over the rows of the batch, or of the piece that fits into memory.

    The value equals the ELBO, so early stopping and the comparison of starts are unchanged. The gradient is unchanged
    too where noise does not depend on x.

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
        """E log p(y | signal), with a weighted gradient for the signal."""
        if not model.head.noise.varies:
            return super().row_fit(model, batch, signal, noise)
        weight = _balancing_weight(noise.var.detach(), batch.observed)
        mean, var = (_weighted_gradient(moment, weight) for moment in (signal.mean, signal.var))
        return super().row_fit(model, batch, replace(signal, mean=mean, var=var), noise)


@dataclass(frozen=True)
class Predictive(Objective):
    """The predictive log likelihood in place of the expected one (PPGPR, Jankowiak et al. 2020), with the same KL.

    A row's fit is log E p(y | signal), for a Normal signal with the expectation's moments: the test log likelihood's
    quantity. It is not a bound on the evidence. Draws of a deep prior's inner layers form a mixture; so do learnt
    sites, with their weights (DSPP: `mogul.priors.Sites`).

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
        """Includes the variance of the output mean, as predictions do."""
        return model.mean.widened(self.expectation.signal(model, x, generator), x)

    def row_fit(self, model: Model, batch: Batch, signal: Marginals, noise: NoiseLaw) -> Float[Tensor, "N"]:
        """log E p(y | signal)."""
        return row_log_predictive(model, batch, signal, noise)

    def misfit(
        self, noise: NoiseLaw, target: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """The misfit of the predictive log likelihood: draws are weighted by their likelihood of the row."""
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

    The signal's variance includes the variance of the output mean: see `OutputMean.widened`.
    """
    target = model.mean.residual(batch.y, batch.x)
    each = noise.log_density(target, batch.observed, signal).reshape(-1, len(batch))
    log_density = signal.log_mean(each)
    return log_density - _log_unit(model, batch, log_density)


def _balancing_weight(var: Float[Tensor, "*T N P"], observed: Bool[Tensor, "N P"]) -> Float[Tensor, "*T N P"]:
    """(σ² / mean σ²)^¼, with the mean over the rows where an output was observed."""
    # In logarithms, since variances may overflow; unobserved outputs are excluded.
    log_var = torch.where(observed, var.log(), -math.inf)
    log_level = log_var.logsumexp(-2, keepdim=True) - observed.to(var).sum(-2, keepdim=True).clamp_min(1).log()
    # Unobserved outputs have no gradient; any weight will do.
    return torch.where(observed, _BALANCE * (log_var - log_level), 0).exp()


def _weighted_gradient(value: Float[Tensor, "*S N P"], weight: Float[Tensor, "*T N P"]) -> Float[Tensor, "*R N P"]:
    """`value` unchanged, with its gradient multiplied by `weight`."""
    still = value.detach()
    return still + weight * (value - still)


def _log_unit(model: Model, batch: Batch, like: Tensor) -> Float[Tensor, "N"]:
    """Change of log density from the head's residuals to y."""
    return batch.observed.to(like) @ model.mean.scale.log()
