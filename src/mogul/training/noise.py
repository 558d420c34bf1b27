"""Optimal noise given the signal: its level in closed form, and noise that depends on x by alternation."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.models.model import Model
from mogul.objective import Objective, RowMoments
from mogul.priors import IndependentGPs
from mogul.training.part_starts import set_posterior

# Rows times draws for the level, if inner layers or inputs are drawn: accurate to a percent; the loss in nats does not
# grow with the number of rows.
_ENOUGH_DRAWS, _MOST_REPEATS = 10_000, 32
# Each round is two steps of expectation maximisation and an extrapolation, at most ten times the last step.
_MOST_ROUNDS, _FASTEST = 20, 0.9
_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}
# For noise that depends on x: alternations, and Adam's steps and learning rate in each.
_ROUNDS, _STEPS, _RATE = 6, 40, 0.05


@dataclass(frozen=True)
class LevelSearch:
    """The level 1/β of each output that maximises an objective, given all else.

    At the optimum 1/β is the mean of `Objective.misfit` over all rows where the output is observed. Where the misfit
    depends on β itself, setting 1/β to that mean is a step of expectation maximisation, and is repeated.

    Args:
        model: the model with this noise.
        objective: the training objective.
        parts: moments of all rows: once, or several times if they are drawn.
    """

    model: Model
    objective: Objective
    parts: list[RowMoments]

    @staticmethod
    @torch.no_grad()
    def of(
        model: Model, objective: Objective, rows: Batch, rows_at_once: int, generator: torch.Generator
    ) -> "LevelSearch":
        """One pass over the rows, in pieces; several passes if moments are drawn and rows are few."""

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
        """log β at the optimum; unchanged if that is no better, and for outputs without observations."""
        given = self.model.head.noise.log_precision.detach()
        log_level = -given.double()
        for _ in range(_MOST_ROUNDS):
            step = self._step(log_level)
            if not float(step.abs().max()) > _TOLERANCE[given.dtype]:
                break
            log_level = log_level + step
            # Steps shrink geometrically, so their sum is known in advance (Aitken's extrapolation).
            following = self._step(log_level)
            shrinking = (following / step).nan_to_num(0.0).clamp(0.0, _FASTEST)
            log_level = log_level + following / (1 - shrinking)
        found = (-log_level).to(given)
        return found if self._fit(found) > self._fit(given) else given.clone()

    def _step(self, log_level: Float[Tensor, "P"]) -> Float[Tensor, "P"]:
        """log(mean misfit / level); 0 without observations or misfit."""
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
        """The terms of the objective that depend on the level, over all parts."""
        total = 0.0
        for part in self.parts:
            noise = part.noise.at_level(log_precision)
            total += float(self.objective.row_fit(self.model, part.batch, part.signal, noise).double().sum())
        return total


def alternate(model: Model, batch: Batch, generator: torch.Generator) -> None:
    """Coordinate ascent on the ELBO of a model with one latent GP for each output and the identity as mixing.

    Given the signal's moments, Adam trains the noise. Given the noise, a row observes its output with the precision
    −2 ∂E log p(y | f)/∂v of the Normal tangent to the likelihood (E λ/σ² for a scale mixture), and q(u) has a closed
    form.
    """
    assert isinstance(model.prior, IndependentGPs)
    target = model.mean.residual(batch.y, batch.x).detach()
    parameters = list(model.head.noise.parameters())
    optimiser = torch.optim.Adam(parameters, lr=_RATE)
    for _ in range(_ROUNDS):
        signal = signal_of(model, batch, generator)
        for _ in range(_STEPS):
            optimiser.zero_grad()
            loss = -_noise_objective(model, batch, target, signal, generator) / len(batch)
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own
            optimiser.step()
        set_posterior(model.prior, batch.x, target, precision_of(model, batch, target, signal, generator))


def signal_of(model: Model, batch: Batch, generator: torch.Generator) -> Marginals:
    """Moments of the signal at the rows, in the units of the head."""
    with torch.no_grad():
        return model.head.moments(model.prior(batch.x, 1, generator), batch.x, generator)


def _noise_objective(
    model: Model, batch: Batch, target: Float[Tensor, "N P"], signal: Marginals, generator: torch.Generator
) -> Float[Tensor, ""]:
    """The terms of the ELBO that depend on the noise."""
    noise = model.head.noise
    ell = noise(batch.x, generator).expected_log_density(target, batch.observed, signal).sum()
    objective: Tensor = ell - noise.kl() + noise.log_prior()
    return objective


def precision_of(
    model: Model, batch: Batch, target: Float[Tensor, "N P"], signal: Marginals, generator: torch.Generator
) -> Float[Tensor, "N P"]:
    """−2 ∂E log p(y | f)/∂v for each output of each row; 0 where it is missing."""
    var = signal.var.detach().clone().requires_grad_()
    law = model.head.noise(batch.x, generator)
    ell = law.expected_log_density(target, batch.observed, Marginals(signal.mean, var)).sum()
    (slope,) = torch.autograd.grad(ell, var)
    return -2 * slope
