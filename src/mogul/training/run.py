"""One model in training."""

import math
import time
from collections.abc import Callable

import torch
from torch import nn

from mogul.data import Batch
from mogul.errors import NumericalError
from mogul.model import Model
from mogul.objective import Elbo, ElboTerms
from mogul.training.config import TrainingConfig
from mogul.training.history import EpochRecord


class Run:
    """A model with its optimiser, its random generator and its history; `train` may be called again to go on."""

    def __init__(
        self, model: Model, data: Batch, config: TrainingConfig, generator: torch.Generator, start: int = 0
    ) -> None:
        self.model = model
        self.start = start
        self.records: list[EpochRecord] = []
        self._data = data
        self._config = config
        self._generator = generator
        self._elbo = Elbo(config.expectation, num_data=len(data))
        owned = {parameter for update in config.updates for parameter in update.owns(model)}
        free = [parameter for parameter in model.parameters() if parameter not in owned]
        self._optimiser = torch.optim.Adam(free, lr=config.learning_rate)

    def train(self, until: int, on_epoch: Callable[[EpochRecord], None]) -> None:
        """Go on until so many epochs have been done in all."""
        self.model.train()
        for epoch in range(len(self.records), until):
            self.records.append(self._epoch(epoch))
            on_epoch(self.records[-1])
        self.model.eval()

    @property
    def objective(self) -> float:
        """The training objective in the last epoch, with the full weight of the KL: what starts are compared by."""
        return self.records[-1].elbo

    def _epoch(self, epoch: int) -> EpochRecord:
        began = time.perf_counter()
        rate, kl_weight = self._config.rate_at(epoch), self._config.kl_weight_at(epoch)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        sums = torch.zeros(4, dtype=torch.float64)
        for batch in self._data.minibatches(self._config.batch_size, self._generator):
            terms = self._step(batch, kl_weight, epoch)
            # Weighting by rows makes the epoch's mean that of the whole data set, whatever the size of the last batch.
            sums += len(batch) / len(self._data) * _values(terms)
        elbo, ell, kl, log_prior = sums.tolist()
        return EpochRecord(
            start=self.start,
            epoch=epoch,
            elbo=elbo,
            ell=ell,
            kl=kl,
            log_prior=log_prior,
            learning_rate=rate,
            kl_weight=kl_weight,
            jitter=self.model.jitter,
            seconds=time.perf_counter() - began,
        )

    def _step(self, batch: Batch, kl_weight: float, epoch: int) -> ElboTerms:
        self._optimiser.zero_grad()
        terms = self._elbo(self.model, batch, self._generator)
        # Per datum here only: Adam's ε should mean the same for every size of data set.
        loss = -terms.total(kl_weight) / len(self._data)
        self._require_finite(loss.item(), "The training objective", epoch)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        self._require_finite(float(nn.utils.get_total_norm(gradients)), "The gradient's norm", epoch)
        self._optimiser.step()
        for update in self._config.updates:
            update.apply(self.model, batch, terms)
        return terms

    def _require_finite(self, value: float, name: str, epoch: int) -> None:
        if not math.isfinite(value):
            raise NumericalError(
                f"{name} must be finite; it is {value} in epoch {epoch + 1}. "
                f"Lower learning_rate (now {self._config.rate_at(epoch):.2g}), or train in float64."
            )


def _values(terms: ElboTerms) -> torch.Tensor:
    """ELBO, ELL, KL and log prior as numbers."""
    kl = terms.kl_local + terms.kl_global
    return torch.stack([terms.total(), terms.ell, kl, terms.log_prior]).detach().double()
