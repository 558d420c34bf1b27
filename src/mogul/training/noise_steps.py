"""Noise that depends on x, beside signals in closed form: each is at its optimum given the other, by turns."""

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.models.model import Model
from mogul.priors import IndependentGPs
from mogul.training.part_starts import set_posterior

_ROUNDS, _STEPS, _RATE = 6, 40, 0.05


def alternate(model: Model, batch: Batch, generator: torch.Generator) -> None:
    """Coordinate ascent on the ELBO of a model with a latent GP for each output and the unit matrix to mix them.

    Given the signal's moments, the noise climbs by Adam: its GPs are few. Given the noise, a row observes its output
    with the precision −2 ∂E log p(y | f)/∂v, that of the Normal that touches the law (E λ/σ² where it is a scale
    mixture), and q(u) has a closed form.
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
    """The part of the ELBO that the noise has a part in."""
    noise = model.head.noise
    ell = noise(batch.x, generator).expected_log_density(target, batch.observed, signal).sum()
    objective: Tensor = ell - noise.kl() + noise.log_prior()
    return objective


def precision_of(
    model: Model, batch: Batch, target: Float[Tensor, "N P"], signal: Marginals, generator: torch.Generator
) -> Float[Tensor, "N P"]:
    """−2 ∂E log p(y | f)/∂v of each output of each row; 0 where it is missing."""
    var = signal.var.detach().clone().requires_grad_()
    law = model.head.noise(batch.x, generator)
    ell = law.expected_log_density(target, batch.observed, Marginals(signal.mean, var)).sum()
    (slope,) = torch.autograd.grad(ell, var)
    return -2 * slope
