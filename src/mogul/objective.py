"""The evidence lower bound, in named terms."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.data.batches import Batch
from mogul.errors import require_positive
from mogul.model import Model


@dataclass(frozen=True)
class ElboTerms:
    """Estimates for the whole data set, never per datum."""

    ell: Float[Tensor, ""]
    kl_local: Float[Tensor, ""]
    kl_global: Float[Tensor, ""]
    log_prior: Float[Tensor, ""]

    def total(self, kl_weight: float = 1.0) -> Float[Tensor, ""]:
        """ELL − w·KL + log prior: at w = 1 the lower bound, plus the log prior of what is estimated by MAP."""
        return self.ell - kl_weight * (self.kl_local + self.kl_global) + self.log_prior


@runtime_checkable
class ExpectedLogLikelihood(Protocol):
    """How E_q log p(y | F) is computed, per datapoint."""

    def __call__(
        self, model: Model, x: Float[Tensor, "N D"], batch: Batch, generator: torch.Generator
    ) -> Float[Tensor, "N"]:
        """The expected log likelihood of each row of the batch, over its observed outputs."""
        ...


@dataclass(frozen=True)
class Analytic:
    """Closed-form, section 4.2.2; deep priors draw their inner layers `num_samples` times."""

    num_samples: int = 1

    def __post_init__(self) -> None:
        require_positive(num_samples=self.num_samples)

    def __call__(
        self, model: Model, x: Float[Tensor, "N D"], batch: Batch, generator: torch.Generator
    ) -> Float[Tensor, "N"]:
        q = model.prior(x, self.num_samples, generator)
        ell = model.head.noise.expected_log_density(batch.y, batch.observed, model.head.moments(q, x))
        return ell.reshape(-1, len(x)).mean(0)


@dataclass(frozen=True)
class MonteCarlo:
    """Average over draws of F and b, section 4.2.1 (the paper draws 250); M is integrated out."""

    num_samples: int = 250

    def __post_init__(self) -> None:
        require_positive(num_samples=self.num_samples)

    def __call__(
        self, model: Model, x: Float[Tensor, "N D"], batch: Batch, generator: torch.Generator
    ) -> Float[Tensor, "N"]:
        f = model.prior(x, self.num_samples, generator).sample(self.num_samples, generator)
        signal = model.head.sampled_moments(f, x, generator)
        return model.head.noise.expected_log_density(batch.y, batch.observed, signal)


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

    ell: ExpectedLogLikelihood
    num_data: int

    def __post_init__(self) -> None:
        require_positive(num_data=self.num_data)

    def __call__(self, model: Model, batch: Batch, generator: torch.Generator) -> ElboTerms:
        rescale = self.num_data / len(batch.y)
        x = model.inputs.draw(batch, generator)
        return ElboTerms(
            ell=rescale * self.ell(model, x, batch, generator).sum(),
            kl_local=rescale * model.inputs.kl(batch).sum(),
            kl_global=model.kl(),
            log_prior=model.log_prior(),
        )
