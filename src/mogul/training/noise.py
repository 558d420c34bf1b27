"""Optimal noise given the signal: its level in closed form, dependence on x by alternation, correlation of outputs.

Correlation has loadings U that are fitted to leave-one-out residuals, given each output's own noise. The residual of a
row left out is noise √n ζ plus an error of the signal of variance c. Its probability integral transform under the
output's own likelihood gives a standard Normal z; the share ρ = n/(n + c) of its variance is noise:

    z ~ N(0, I + √ρ (R − I) √ρ)          R = I − diag(U Uᵀ) + U Uᵀ

U maximises this density over all rows, each with its observed outputs, times a prior. The Bayesian information
criterion chooses its rank; with rank 0, outputs are independent.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.optimize import minimize
from torch import Tensor

from mogul._typing import Array
from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.heads import NoiseCorrelation
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
# More rows than this come in pieces; some of them stand for all when the noise and its correlation are fitted, in fewer
# rounds.
_MANY_ROWS, _NOISE_ROWS, _FEWER_ROUNDS = 2500, 1500, 2
# For the correlation of outputs.
_MOST_FACTORS, _MOST_STEPS = 6, 100
_NUM_SCALES = 256  # draws of the noise variance, for the probability of a residual
# Scale of the Normal prior on V; loadings are V/√(1 + |V|²) in each row, so each output keeps independent noise.
_PRIOR_SCALE = 2.0
_LEAST_CAVITY = 1e-3  # least share of the signal's precision that remains without a row
_LEAST_TAIL = 1e-12


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
    form, given all rows; of many rows, some stand for all when the noise is trained.
    """
    assert isinstance(model.prior, IndependentGPs)
    some = _some(batch, generator)
    rows, targets = (model.mean.residual(part.y, part.x).detach() for part in (some, batch))
    parameters = list(model.head.noise.parameters())
    optimiser = torch.optim.Adam(parameters, lr=_RATE)
    for _ in range(_ROUNDS if some is batch else _FEWER_ROUNDS):
        signal = signal_of(model, some, generator)
        for _ in range(_STEPS):
            optimiser.zero_grad()
            loss = -_noise_objective(model, some, rows, signal, generator, len(batch) / len(some)) / len(batch)
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own
            optimiser.step()
        set_posterior(model.prior, batch.x, targets, _precisions(model, batch, targets, generator))


def signal_of(model: Model, batch: Batch, generator: torch.Generator) -> Marginals:
    """Moments of the signal at the rows, in the units of the head."""
    with torch.no_grad():
        return model.head.moments(model.prior(batch.x, 1, generator), batch.x, generator)


def _some(batch: Batch, generator: torch.Generator) -> Batch:
    """Rows drawn at random where they are many; else all."""
    if len(batch) <= _MANY_ROWS:
        return batch
    return batch.rows(torch.randperm(len(batch), generator=generator)[:_NOISE_ROWS].sort().values)


def _precisions(
    model: Model, batch: Batch, target: Float[Tensor, "N P"], generator: torch.Generator
) -> Float[Tensor, "N P"]:
    """`precision_of` all rows, piece by piece."""
    pieces = list(batch.pieces(_MANY_ROWS))
    targets = torch.split(target, [len(piece) for piece in pieces])
    return torch.cat(
        [
            precision_of(model, piece, own, signal_of(model, piece, generator), generator)
            for piece, own in zip(pieces, targets, strict=True)
        ]
    )


def _noise_objective(
    model: Model,
    batch: Batch,
    target: Float[Tensor, "N P"],
    signal: Marginals,
    generator: torch.Generator,
    times: float,
) -> Float[Tensor, ""]:
    """The terms of the ELBO that depend on the noise; each of these rows stands for several."""
    noise = model.head.noise
    ell = noise(batch.x, generator).expected_log_density(target, batch.observed, signal).sum()
    objective: Tensor = times * ell - noise.kl() + noise.log_prior()
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


def correlate(model: Model, batch: Batch, generator: torch.Generator) -> None:
    """Set the noise correlation of a solved model, if leave-one-out residuals are correlated."""
    if batch.y.shape[1] > 1 and model.head.noise.solved_by_exact_gps:
        loadings = fit_loadings(NormalScores.of(model, _some(batch, generator), generator))
        if loadings.shape[1]:
            model.head.correlation = NoiseCorrelation(loadings.to(batch.x))


@dataclass(frozen=True)
class NormalScores:
    """Leave-one-out residuals as standard Normals.

    Args:
        z: residuals, transformed by each output's own likelihood; 0 where missing.
        noise_share: ρ.
        observed: False where missing.
    """

    z: Float[Tensor, "N P"]
    noise_share: Float[Tensor, "N P"]
    observed: Bool[Tensor, "N P"]

    @staticmethod
    @torch.no_grad()
    def of(model: Model, batch: Batch, generator: torch.Generator) -> "NormalScores":
        """NormalScores of a model whose q(u) is at its optimum."""
        gap, var = _left_out(model, batch, generator)
        noise = model.head.noise(batch.x, generator)
        noise_var = noise.draw_var(torch.Size([_NUM_SCALES, *gap.shape]), generator)
        total = noise_var + var.unsqueeze(0)
        tail = torch.special.ndtr(-gap.abs() / total.sqrt()).mean(0).clamp_min(_LEAST_TAIL)
        z = -gap.sign() * torch.special.ndtri(tail)
        share = (noise_var / total).mean(0)
        known = batch.observed
        return NormalScores(torch.where(known, z, 0.0).double(), torch.where(known, share, 0.0).double(), known)

    def log_density(self, loadings: Float[Tensor, "P R"]) -> Float[Tensor, "N"]:
        """log N(z | 0, I + √ρ (R − I) √ρ) of each row over its observed outputs, up to a constant."""
        own = 1 - self.noise_share * loadings.square().sum(1)
        scaled = self.noise_share.sqrt().unsqueeze(-1) * loadings
        precision = self.observed / own
        inner = torch.eye(loadings.shape[1]).to(loadings) + torch.einsum("np,npq,npr->nqr", precision, scaled, scaled)
        projected = torch.einsum("np,npr->nr", precision * self.z, scaled)
        root = torch.linalg.cholesky(inner)
        whitened = torch.linalg.solve_triangular(root, projected.unsqueeze(-1), upper=False).squeeze(-1)
        log_det = (self.observed * own.log()).sum(1) + 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(1)
        misfit = (precision * self.z.square()).sum(1) - whitened.square().sum(1)
        log_density: Tensor = -0.5 * (log_det + misfit)
        return log_density


def _left_out(
    model: Model, batch: Batch, generator: torch.Generator
) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
    """The leave-one-out residual of each row, and the variance of the signal without it.

    With the precision τ of a row's observation and the moments m and v of the GPs given all rows, the moments without
    it are m − v τ (y − m)/(1 − v τ) and v/(1 − v τ). Other uncertainty hardly depends on a single row.
    """
    target = model.mean.residual(batch.y, batch.x)
    signal = signal_of(model, batch, generator)
    with torch.enable_grad():
        precision = precision_of(model, batch, target, signal, generator)
    matrices = model.head.mixing.at(batch.x, generator).mean
    of_gps = (matrices.square() @ model.prior(batch.x, 1, generator).var.unsqueeze(-1)).squeeze(-1)
    left = (1 - of_gps * precision).clamp_min(_LEAST_CAVITY)
    var, of_plane = of_gps / left + signal.var - of_gps, model.mean.var(batch.x)
    if of_plane is not None:
        var = var + of_plane / model.mean.scale.square()
    return (target - signal.mean) / left, var


def fit_loadings(scores: NormalScores) -> Float[Tensor, "P R"]:
    """U, with the rank of the best criterion; without columns if outputs are independent.

    >>> z = torch.randn(300, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> shares, seen = torch.ones_like(z), torch.ones_like(z, dtype=torch.bool)
    >>> fit_loadings(NormalScores(z, shares, seen)).shape
    torch.Size([3, 0])
    >>> z[:, 1] = 0.6 * z[:, 0] + 0.8 * z[:, 1]
    >>> loadings = fit_loadings(NormalScores(z, shares, seen))
    >>> bool(abs((loadings @ loadings.T)[0, 1] - 0.6) < 0.1)
    True
    """
    together = scores.observed.sum(1) > 1
    if int(together.sum()) < 2:
        return scores.z.new_zeros(scores.z.shape[1], 0)
    scores = _of_unit_size(NormalScores(scores.z[together], scores.noise_share[together], scores.observed[together]))
    num_rows, num_outputs = scores.z.shape
    best = scores.z.new_zeros(num_outputs, 0)
    criterion = float(scores.log_density(best).sum())
    for rank in range(1, min(num_outputs - 1, _MOST_FACTORS) + 1):
        loadings = _of_rank(rank, scores)
        num_free = num_outputs * rank - rank * (rank - 1) / 2
        reached = float(scores.log_density(loadings).sum()) - 0.5 * num_free * math.log(num_rows)
        if not reached > criterion:
            break
        best, criterion = loadings, reached
    return best


def _of_unit_size(scores: NormalScores) -> NormalScores:
    """NormalScores scaled to unit variance: correlations must not correct an output's scale."""
    counts = scores.observed.sum(0).clamp_min(1)
    size = (scores.z.square().sum(0) / counts).sqrt()
    return NormalScores(scores.z / torch.where(size > 0, size, 1.0), scores.noise_share, scores.observed)


def _of_rank(rank: int, scores: NormalScores) -> Float[Tensor, "P R"]:
    """The maximum of density times prior, by L-BFGS from principal components."""

    def loss(flat: Float[Array, "K"]) -> tuple[float, Float[Array, "K"]]:
        raw = torch.as_tensor(flat.reshape(-1, rank)).requires_grad_()
        log_prior = -0.5 * (raw / _PRIOR_SCALE).square().sum()
        value = -(scores.log_density(_bounded(raw)).sum() + log_prior)
        (slope,) = torch.autograd.grad(value, raw)
        return float(value.detach()), slope.numpy().ravel()

    found = minimize(
        loss, _principal(rank, scores).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _MOST_STEPS}
    )
    return _bounded(torch.as_tensor(found.x.reshape(-1, rank)))


def _principal(rank: int, scores: NormalScores) -> Float[Array, "P R"]:
    """The largest principal components of the scores' correlations, over the noise's share."""
    seen = scores.observed.to(scores.z)
    cov = ((scores.z.T @ scores.z) / (seen.T @ seen).clamp_min(1)).numpy()
    share = np.sqrt((scores.noise_share.sum(0) / seen.sum(0).clamp_min(1)).clamp_min(0.1).numpy())
    cov = cov / np.outer(share, share)
    np.fill_diagonal(cov, 1.0)
    sizes, directions = np.linalg.eigh(cov)
    result: Array = directions[:, -rank:] * np.sqrt(np.maximum(sizes[-rank:] - 0.5, 0.1))
    return result


def _bounded(raw: Float[Tensor, "P R"]) -> Float[Tensor, "P R"]:
    """Rows of any norm, mapped to norms below 1."""
    return raw * torch.rsqrt(1 + raw.square().sum(1, keepdim=True))
