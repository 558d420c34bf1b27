"""Latent inputs of new rows: q(X*) is fitted with all else frozen."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.config import InferenceConfig
from mogul.core.moments import Marginals, standard_normal
from mogul.data import Batch
from mogul.errors import ConfigError
from mogul.fitted.encoder import Encoder
from mogul.models.model import Latent, Model
from mogul.objective import Expectation, row_log_likelihood

# Numbers in the largest tensor of a part: 130 MB in float32.
_NUMBERS_AT_ONCE = 2**25
# Draws that two searches of the same row are compared by.
_JUDGING_DRAWS = 50
# Draws of q that its evidence is estimated by; places of the training rows, of each and of all; rows at once.
_EVIDENCE_DRAWS, _PLACES_EACH, _MOST_PLACES, _ROWS_OF_PLACES = 200, 20, 20_000, 500


def infer_inputs(
    model: Model,
    known: Batch,
    new: Batch,
    config: InferenceConfig,
    generator: torch.Generator,
    encoder: Encoder | None = None,
) -> Latent:
    """q(X*) of new rows, by maximising their ELBO with everything but q(X*) frozen (appendix, Unsupervised Learning).

    Each row starts at the latent mean of the training row nearest to it in the outputs that both have observed. With an
    encoder it also starts there, and keeps the end with the larger bound: never less than that of the first start.

    Args:
        model: a trained model with latent inputs.
        known: the training rows.
        new: the new rows; missing outputs are left out.
        config: how to fit.
        generator: draws.
        encoder: gives a second start.
    """
    trained = model.inputs
    if not isinstance(trained, Latent):
        raise ConfigError("The model must have latent inputs; this one's are observed. Fit an '-lvm' model.")
    nearest = nearest_rows(known, new)
    scale = torch.exp(trained.log_scale.detach()).mean().item()
    start = Latent(trained.mean.detach()[nearest], scale=scale)
    if encoder is None:
        return _searched(model, start, new, config, generator)
    other = _searched(model, encoder.encode(new), new, config, _copied(generator))
    return _best_of(model, [_searched(model, start, new, config, generator), other], new, config, generator)


def _searched(model: Model, latent: Latent, new: Batch, config: InferenceConfig, generator: torch.Generator) -> Latent:
    """Gradient steps from a start; draws depend on the generator alone, not on the start or on other rows."""
    optimiser = torch.optim.Adam(latent.parameters(), lr=config.learning_rate)
    frozen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        for step in range(config.steps):
            share = 0.5 * (1 + math.cos(math.pi * step / config.steps))
            optimiser.param_groups[0]["lr"] = config.learning_rate * share
            optimiser.zero_grad()
            row_bounds(model, latent, new, config.expectation, generator).sum().neg().backward()  # type: ignore[no-untyped-call]  # torch's own
            optimiser.step()
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
    return latent


@torch.no_grad()
def _best_of(
    model: Model, tries: list[Latent], new: Batch, config: InferenceConfig, generator: torch.Generator
) -> Latent:
    """Of each row the try with the largest bound, by the same draws for all."""
    bounds = []
    for latent in tries:
        same = _copied(generator)
        draws = [row_bounds(model, latent, new, config.expectation, same) for _ in range(_JUDGING_DRAWS)]
        bounds.append(torch.stack(draws).mean(0))
    best = torch.stack(bounds).argmax(0)
    rows = torch.arange(len(new))
    chosen = Latent(torch.stack([latent.mean for latent in tries])[best, rows])
    chosen.log_scale.copy_(torch.stack([latent.log_scale for latent in tries])[best, rows])
    return chosen


def _copied(generator: torch.Generator) -> torch.Generator:
    """A generator of the same draws."""
    copy = torch.Generator()
    copy.set_state(generator.get_state())
    return copy


def row_bounds(
    model: Model, latent: Latent, batch: Batch, expectation: Expectation, generator: torch.Generator
) -> Float[Tensor, "N"]:
    """ELL − KL of each row: its share of the ELBO.

    All rows use the same Normal numbers for their draws of q(x), so a row's result does not depend on other rows.
    """
    mean, log_scale = latent.mean[batch.index], latent.log_scale[batch.index]
    x = mean + torch.exp(log_scale) * standard_normal(mean[:1].shape, generator, like=mean)
    signal = expectation.signal(model, x, generator)
    return row_log_likelihood(model, batch, signal, model.head.noise(x, generator)) - latent.kl(batch)


@torch.no_grad()
def importance_weighted_bound(
    model: Model, latent: Latent, batch: Batch, num_samples: int, generator: torch.Generator
) -> Float[Tensor, "N"]:
    """log (1/S) Σ p(y | x_s, f_s) p(x_s)/q(x_s) per row: at least the ELBO's row in expectation, and tighter with S."""
    q = latent.marginals()
    rows_at_once = max(1, _NUMBERS_AT_ONCE // model.numbers_per_row(num_samples, drawn_inputs=True))
    parts = torch.arange(len(batch)).split(rows_at_once)  # type: ignore[no-untyped-call]  # torch's own
    each = [
        _weighted_bound(model, Marginals(q.mean[rows], q.var[rows]), batch.rows(rows), num_samples, generator)
        for rows in parts
    ]
    return torch.cat(each)


@torch.no_grad()
def posterior_draws(
    model: Model, latent: Latent, known: Marginals, new: Batch, num_samples: int, generator: torch.Generator
) -> Float[Tensor, "S T D"]:
    """Draws of the latent inputs of new rows: of q(X*), and where outputs are missing also of where training rows lie.

    Observed outputs may suit several places, of which q has one. For rows with gaps x has two priors, each as likely as
    the other: the unit Normal, whose posterior is q, and the training rows' (1/N) Σ q(xₙ), whose posterior is
    proportional to p(y | x) among its draws. The evidence p(y) of both, by importance sampling, weighs the two.

    Args:
        model: a trained model with latent inputs.
        latent: q(X*).
        known: q(X) of the training rows.
        new: the new rows.
        num_samples: how many draws of each row.
        generator: draws.
    """
    draws = latent.marginals().sample(num_samples, generator)
    gaps = ~new.observed.all(1)
    if not bool(gaps.any()):
        return draws
    own = importance_weighted_bound(model, latent, new, _EVIDENCE_DRAWS, generator)[gaps]
    places, evidence = _at_training_rows(model, known, new.rows(gaps.nonzero()[:, 0]), num_samples, generator)
    there = torch.rand(num_samples, len(own), 1, generator=generator).to(own) < torch.sigmoid(evidence - own)[:, None]
    draws[:, gaps] = torch.where(there, places, draws[:, gaps])
    return draws


@torch.no_grad()
def _at_training_rows(
    model: Model, known: Marginals, new: Batch, num_samples: int, generator: torch.Generator
) -> tuple[Float[Tensor, "S T D"], Float[Tensor, "T"]]:
    """Draws of x from the training rows' q by p(y | x), its signal taken as Normal, and the log mean of p(y | x)."""
    some = torch.randperm(len(known.mean), generator=generator)[:_MOST_PLACES]
    each = max(1, min(_PLACES_EACH, _MOST_PLACES // len(some)))
    x = Marginals(known.mean[some], known.var[some]).sample(each, generator).flatten(0, 1)
    signal, noise = model.moments(x, 1, generator), model.head.noise(x, generator)
    precision = 1 / (signal.var + noise.pooled_var())
    seen, found, evidence = new.observed.to(x), [], []
    weighted, constant = signal.mean * precision, signal.mean.square() * precision - (precision / (2 * math.pi)).log()
    for part in torch.arange(len(new)).split(_ROWS_OF_PLACES):  # type: ignore[no-untyped-call]  # torch's own
        y, observed = new.y[part], seen[part]
        squares = (y.square() * observed) @ precision.T - 2 * (y * observed) @ weighted.T + observed @ constant.T
        log_density = -0.5 * squares
        total = torch.logsumexp(log_density, 1)
        weight = (log_density - total.unsqueeze(1)).exp()
        found.append(torch.multinomial(weight, num_samples, replacement=True, generator=generator))
        evidence.append(total - math.log(len(x)))
    return x[torch.cat(found).T], torch.cat(evidence)


def _weighted_bound(
    model: Model, q: Marginals, batch: Batch, num_samples: int, generator: torch.Generator
) -> Float[Tensor, "N"]:
    x = q.sample(num_samples, generator)
    f = model.prior(x, num_samples, generator).sample(num_samples, generator)
    signal = model.head.given_f(f, x, generator)
    # Models with latent inputs have no output mean: y is in the units of the head.
    log_likelihood = model.head.noise(x, generator).log_density(batch.y, batch.observed, signal)
    zero, one = torch.zeros_like(q.mean), torch.ones_like(q.var)
    log_weight = (_log_normal(x, zero, one) - _log_normal(x, q.mean, q.var)).sum(-1)
    return torch.logsumexp(log_likelihood + log_weight, dim=0) - math.log(num_samples)


def nearest_rows(known: Batch, new: Batch, rows_at_once: int = 1000) -> Tensor:
    """For each new row, the known row with the least mean squared difference over outputs observed in both."""
    found = []
    seen = known.observed.to(known.y)
    for first in range(0, len(new), rows_at_once):
        y, observed = new.y[first : first + rows_at_once], new.observed[first : first + rows_at_once].to(known.y)
        # Σ o o′ (y − y′)², expanded; a missing output is stored as zero.
        distance = (y.square() * observed) @ seen.T - 2 * y @ known.y.T + observed @ known.y.square().T
        shared = observed @ seen.T
        mean_distance = torch.where(shared > 0, distance / shared.clamp_min(1), math.inf)
        found.append(mean_distance.argmin(dim=1))
    return torch.cat(found)


def _log_normal(y: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return -0.5 * (math.log(2 * math.pi) + var.log() + (y - mean).square() / var)
