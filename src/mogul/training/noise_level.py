"""The noise's level at its optimum over all rows: where closed-form updates by batches were bound for."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.data import Batch
from mogul.models.model import Model
from mogul.objective import Objective, RowMoments

# Where inner layers or inputs are drawn, so many rows times draws make the level right to a percent; nats that are lost
# by that do not grow with the rows.
_ENOUGH_DRAWS, _MOST_REPEATS = 10_000, 32
# Each round is two steps of expectation maximisation and a leap, at most ten times the last step.
_MOST_ROUNDS, _FASTEST = 20, 0.9
_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}


@dataclass(frozen=True)
class LevelSearch:
    """The level 1/β of each output at which an objective is largest, given all else.

    At the optimum 1/β is the mean of `Objective.misfit` over all rows where the output is observed. Where the misfit
    depends on β itself, replacing the one by the other is a step of expectation maximisation, and is repeated.

    Args:
        model: whose noise it is.
        objective: what it maximises.
        parts: moments of all rows, once or, where they are drawn, several times.
    """

    model: Model
    objective: Objective
    parts: list[RowMoments]

    @staticmethod
    @torch.no_grad()
    def of(
        model: Model, objective: Objective, rows: Batch, rows_at_once: int, generator: torch.Generator
    ) -> "LevelSearch":
        """One pass over the rows, in pieces; several where anything is drawn and rows are few."""

        def one_pass() -> Iterable[RowMoments]:
            return (objective.moments(model, piece, generator) for piece in rows.pieces(rows_at_once))

        before = generator.get_state()
        parts = list(one_pass())
        if not torch.equal(before, generator.get_state()):
            for _ in range(min(_MOST_REPEATS, math.ceil(_ENOUGH_DRAWS / len(rows))) - 1):
                parts.extend(one_pass())
        return LevelSearch(model, objective, parts)

    @torch.no_grad()
    def log_precision(self) -> Float[Tensor, "P"]:
        """log β at the optimum, or as it is where that is no better: an output without observations keeps its own."""
        given = self.model.head.noise.log_precision.detach()
        log_level = -given.double()
        for _ in range(_MOST_ROUNDS):
            step = self._step(log_level)
            if not float(step.abs().max()) > _TOLERANCE[given.dtype]:
                break
            log_level = log_level + step
            # Steps shrink by a factor: their sum is known before they are made (Aitken's extrapolation).
            following = self._step(log_level)
            shrinking = (following / step).nan_to_num(0.0).clamp(0.0, _FASTEST)
            log_level = log_level + following / (1 - shrinking)
        found = (-log_level).to(given)
        return found if self._fit(found) > self._fit(given) else given.clone()

    def _step(self, log_level: Float[Tensor, "P"]) -> Float[Tensor, "P"]:
        """log of the mean misfit over the level; none where nothing was observed, or where there is no misfit."""
        total, count = torch.zeros_like(log_level), torch.zeros_like(log_level)
        for part in self.parts:
            noise = part.noise.at_level((-log_level).to(part.target))
            misfit = self.objective.misfit(noise, part.target, part.batch.observed, part.signal)
            each = misfit.reshape(-1, *part.target.shape).mean(0)
            total += torch.where(part.batch.observed, each, 0.0).double().sum(0)
            count += part.batch.observed.double().sum(0)
        mean = total / count
        return torch.where((mean > 0) & torch.isfinite(mean), mean.log() - log_level, 0.0)

    def _fit(self, log_precision: Float[Tensor, "P"]) -> float:
        """The objective's part that depends on the level, over all parts."""
        total = 0.0
        for part in self.parts:
            noise = part.noise.at_level(log_precision)
            total += float(self.objective.row_fit(self.model, part.batch, part.signal, noise).double().sum())
        return total
