"""The evidence lower bound, in named terms."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.data.batches import Batch
from mogul.errors import require_positive
from mogul.marginals import Marginals
from mogul.model import Model


@dataclass(frozen=True)
class ElboTerms:
    """Estimates for the whole data set, never per datum."""

    ell: Float[Tensor, ""]
    kl_local: Float[Tensor, ""]
    kl_global: Float[Tensor, ""]
    log_prior: Float[Tensor, ""]
    target: Float[Tensor, "N P"]  # the batch's outputs in the head's units, and
    signal: Marginals  # what the head says of them, detached: closed-form updates start from these

    def total(self, kl_weight: float = 1.0) -> Float[Tensor, ""]:
        """ELL − w·KL + log prior: at w = 1 the lower bound, plus the log prior of what is estimated by MAP."""
        return self.ell - kl_weight * (self.kl_local + self.kl_global) + self.log_prior


@runtime_checkable
class Expectation(Protocol):
    """How the signal's moments under q, all that a Gaussian expected log likelihood needs, are computed."""

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


def row_log_likelihood(model: Model, batch: Batch, signal: Marginals) -> Float[Tensor, "N"]:
    """The expected log likelihood of each row over its observed outputs, averaged over the signal's draws."""
    target = model.mean.residual(batch.y, batch.x)
    ell = model.head.noise.expected_log_density(target, batch.observed, signal).reshape(-1, len(batch)).mean(0)
    # The density of y, not of the residual that the head sees.
    return ell - batch.observed.to(ell) @ model.mean.scale.log()


@dataclass(frozen=True)
class Elbo:
    """The evidence lower bound, estimated from a minibatch: (N/B) Σ (ELL − local KL) − KL + log prior.

    Example:
        >>> from mogul.models import build
        >>> x, y = torch.randn(20, 3), torch.randn(20, 2)
        >>> model = build("mogp", x, num_outputs=2, generator=torch.Generator())
        >>> terms = Elbo(Analytic(), num_data=20)(model, Batch.of(x, y), torch.Generator())
        >>> bool(terms.kl_global >= 0)
        True
    """

    expectation: Expectation
    num_data: int

    def __post_init__(self) -> None:
        require_positive(num_data=self.num_data)

    def __call__(self, model: Model, batch: Batch, generator: torch.Generator) -> ElboTerms:
        rescale = self.num_data / len(batch)
        x = model.inputs.draw(batch, generator)
        signal = self.expectation.signal(model, x, generator)
        return ElboTerms(
            ell=rescale * row_log_likelihood(model, batch, signal).sum(),
            kl_local=rescale * model.inputs.kl(batch).sum(),
            kl_global=model.kl(),
            log_prior=model.log_prior(),
            target=model.mean.residual(batch.y, batch.x).detach(),
            signal=Marginals(signal.mean.detach(), signal.var.detach()),
        )
