"""Closed-form updates inside stochastic training: where an optimum is known, no gradient step is needed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, get_args, runtime_checkable

import torch
from torch import Tensor, nn

from mogul.core.posteriors import HoldsPosteriors, NormalPosterior, PosteriorName
from mogul.data import Batch
from mogul.errors import ConfigError, require_natural, unknown_name
from mogul.models.model import Model
from mogul.objective import ElboTerms


@dataclass(frozen=True)
class Step:
    """A completed training step: its number, its batch, the terms of the ELBO, and the number of rows in the data.

    The parameters hold the gradients of −objective/num_data. Where several workers train together, batch and misfit are
    this worker's, and `total` sums statistics over all workers.
    """

    number: int
    batch: Batch
    terms: ElboTerms
    num_data: int
    total: Callable[[Tensor], Tensor] = lambda values: values


@runtime_checkable
class Update(Protocol):
    """Sets some parameters after each step; the optimiser does not change them."""

    def owns(self, model: Model) -> list[nn.Parameter]:
        """The parameters that are set here."""
        ...

    def apply(self, model: Model, step: Step) -> None:
        """Move them towards their optimum, given this step."""
        ...


@dataclass(frozen=True)
class NoiseUpdate:
    """Moves the noise level 1/β towards its optimum, a mean over observed outputs, by an exponential moving average.

    For the paper's noise the optimum is the mean of (y − m)² + v; other kinds of noise define their own. The level is
    itself the moving average, so the update has no state. At the end of training a pass over all rows sets it to its
    optimum: see `LevelSearch`.

    Args:
        rate: the weight of the newest batch.
    """

    rate: float = 0.3

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ConfigError(f"rate must be in (0, 1]; got {self.rate}. Try 0.3.")

    def owns(self, model: Model) -> list[nn.Parameter]:
        """The precisions."""
        return [model.head.noise.log_precision]

    @torch.no_grad()
    def apply(self, model: Model, step: Step) -> None:
        """One step of the average, for each output observed in the batch."""
        batch, terms = step.batch, step.terms
        misfit = terms.misfit.reshape(-1, *batch.y.shape).mean(0)
        sums = step.total(torch.stack([(misfit * batch.observed).sum(0), batch.observed.sum(0).to(misfit)]))
        newest, count = sums[0] / sums[1].clamp_min(1), sums[1]
        level = torch.exp(-model.head.noise.log_precision)
        moved = torch.where(count > 0, level + self.rate * (newest - level), level)
        model.head.noise.log_precision.copy_(-moved.log())


@dataclass(frozen=True)
class NaturalGradient:
    """Natural-gradient steps for Normal posteriors: q(u), q(M), q(b).

    A step that would make the covariance indefinite is halved until it does not.

    Args:
        rate: the step's length once the ramp is over; 1 would jump to the optimum of a
            conjugate model, where q has a full covariance; means of a diagonal q take a step of rate/H.
        ramp_steps: steps over which the length rises geometrically from `rate`/1000 to `rate`, since the first
            gradients come from random features.
        parts: which posteriors; the others stay with the optimiser.
    """

    rate: float = 0.1
    ramp_steps: int = 100
    parts: tuple[PosteriorName, ...] = ("inducing", "mixing", "biases")

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ConfigError(f"rate must be in (0, 1]; got {self.rate}. Try 0.1.")
        require_natural(ramp_steps=self.ramp_steps)
        for part in self.parts:
            if part not in get_args(PosteriorName):
                raise unknown_name("part", part, get_args(PosteriorName))

    def owns(self, model: Model) -> list[nn.Parameter]:
        """Means and scales of the posteriors."""
        return [parameter for posterior in self._posteriors(model) for parameter in vars(posterior).values()]

    def apply(self, model: Model, step: Step) -> None:
        """One step each."""
        share = min(1.0, (step.number + 1) / (self.ramp_steps + 1))
        for posterior in self._posteriors(model):
            posterior.step(self.rate * 1000 ** (share - 1), step.num_data)

    def _posteriors(self, model: Model) -> list[NormalPosterior]:
        holders = [module for module in model.modules() if isinstance(module, HoldsPosteriors)]
        found = [(name, posterior) for holder in holders for name, posterior in holder.posteriors().items()]
        return [posterior for name, posterior in found if name in self.parts]
