"""Closed-form updates inside stochastic training: where an optimum is known, no gradient step is needed."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from mogul.data import Batch
from mogul.errors import ConfigError
from mogul.model import Model
from mogul.objective import ElboTerms


@runtime_checkable
class Update(Protocol):
    """Sets some parameters after each step; the optimiser leaves them alone."""

    def owns(self, model: Model) -> list[nn.Parameter]:
        """The parameters that are set here."""
        ...

    def apply(self, model: Model, batch: Batch, terms: ElboTerms) -> None:
        """Move them towards their optimum, given this batch."""
        ...


@dataclass(frozen=True)
class NoiseUpdate:
    """1/β towards its optimum, the mean of (y − m)² + v over what is observed, as an exponential average over batches.

    The variance itself is the running average, so there is no state beside the model.

    Args:
        rate: the weight of the newest batch.
    """

    rate: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ConfigError(f"rate must be in (0, 1]; got {self.rate}. Try 0.05.")

    def owns(self, model: Model) -> list[nn.Parameter]:
        """The precisions."""
        return [model.head.noise.log_precision]

    @torch.no_grad()
    def apply(self, model: Model, batch: Batch, terms: ElboTerms) -> None:
        """One step of the average, for each output that is observed in the batch."""
        misfit = (batch.y - terms.signal.mean).square() + terms.signal.var
        misfit = misfit.reshape(-1, *batch.y.shape).mean(0)
        count = batch.observed.sum(0)
        newest = (misfit * batch.observed).sum(0) / count.clamp_min(1)
        var = model.head.noise.var
        moved = torch.where(count > 0, var + self.rate * (newest - var), var)
        model.head.noise.log_precision.copy_(-moved.log())
