"""Start of a model with latent inputs: q(X) and all parts from the maximum of the collapsed bound."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from sklearn.manifold import Isomap
from torch import Tensor

from mogul._typing import Array
from mogul.data import Batch
from mogul.heads import BayesianMixing, Identity
from mogul.models.model import Latent, Model, principal_scores
from mogul.priors import IndependentGPs, ScaledRBF, kmeans
from mogul.training.collapsed import CollapsedGPLVM
from mogul.training.part_starts import ExactSignal, rank_of, start_parts

# Rows and inducing points that the bound is maximised with, at most: a step takes 8 ms with so many.
_MOST_ROWS, _MOST_POINTS = 1000, 50
# Steps of L-BFGS between two moves of rows; rounds of both on trial, and to the end.
_STEPS, _TRIAL_ROUNDS, _ROUNDS = 75, 2, 12
# A round that gains less, in nats per observed value, is the last.
_SMALL_GAIN = 1e-3
# Rounds with a noise variance for each output, and steps that place further rows.
_LAST_ROUNDS, _PLACING_STEPS = 4, 50
# Neighbours in the graphs of Isomap's two starts; the spread of further starts around principal components.
_NEIGHBOURS, _SPREAD = (10, 6), 0.2
# Rounds of filling in missing values by principal components.
_FILLING_ROUNDS = 30


@dataclass(frozen=True)
class LatentStart:
    """A GP latent-variable model at the maximum of its collapsed bound.

    Args:
        gplvm: q(X) of all rows, inducing points, kernel, and a noise variance for each output.
        batch: the standardised rows, in double precision.
    """

    gplvm: CollapsedGPLVM
    batch: Batch

    @staticmethod
    def of(
        batch: Batch, num_inputs: int, num_inducing: int, *, num_starts: int, seed: int, ard: bool = True
    ) -> "LatentStart":
        """Maximise the bound from several starts: each on trial, the best to the end.

        Args:
            batch: standardised rows; missing outputs are left out.
            num_inputs: the number of latent inputs.
            num_inducing: the number of inducing points.
            num_starts: how many starts: see `starting_means`.
            seed: of k-means and perturbations.
            ard: whether each latent input has a lengthscale.
        """
        # Copies: rounding of products depends on memory alignment, which NumPy does not fix.
        rows = replace(batch, y=batch.y.to(torch.float64, copy=True))
        rng = np.random.default_rng(seed)
        some = rows
        if len(rows) > _MOST_ROWS:
            some = rows.rows(torch.as_tensor(np.sort(rng.permutation(len(rows))[:_MOST_ROWS])))
        points = min(num_inducing, _MOST_POINTS)
        tried = []
        for mean in starting_means(some, num_inputs, num_starts, rng):
            start = CollapsedGPLVM.start(mean, points, int(rng.integers(2**31)), ard=ard)
            tried.append(_searched(start, some, _TRIAL_ROUNDS))
        best = max(tried, key=lambda gplvm: float(gplvm.bound(some)))
        best = _searched(best, some, _ROUNDS)
        own_noise = replace(best, log_noise_var=best.log_noise_var.repeat(rows.y.shape[1]))
        best = _searched(own_noise, some, _LAST_ROUNDS)
        if some is not rows:
            best = best.posterior(some).placed(rows, best, _PLACING_STEPS)
        return LatentStart(_with_points(best, num_inducing, seed), rows)

    @property
    def inducing_points(self) -> Float[Tensor, "M D"]:
        """Those of the bound."""
        return self.gplvm.points

    def solves(self, model: Model) -> bool:
        """Whether the model starts at its optimum: one GP per output, one RBF kernel, and independent noise."""
        features, mixing, prior, noise = model.head.features, model.head.mixing, model.prior, model.head.noise
        independent = isinstance(features, Identity) and isinstance(mixing, BayesianMixing)
        if not (independent and isinstance(prior, IndependentGPs) and isinstance(prior.kernel, ScaledRBF)):
            return False
        return prior.num_latents == self.batch.y.shape[1] and noise.solved_by_exact_gps

    @torch.no_grad()
    def apply(self, model: Model, generator: torch.Generator) -> None:
        """Set q(X) and the parameters of all parts: see `part_starts`."""
        inputs = model.inputs
        assert isinstance(inputs, Latent)
        inputs.mean.copy_(self.gplvm.mean)
        inputs.log_scale.copy_(0.5 * self.gplvm.log_var)
        start_parts(model, self._signal(rank_of(model), generator), generator)
        if self.solves(model):
            self._set_posterior(model)

    def _signal(self, rank: int, generator: torch.Generator) -> ExactSignal:
        """The rows at two opposite points of q(x) each, μ ± σ with random signs, with half of their weight."""
        num_rows, num_outputs = self.batch.y.shape
        mean, scale = self.gplvm.mean, (0.5 * self.gplvm.log_var).exp()
        step = scale * (2.0 * torch.randint(2, scale.shape, generator=generator) - 1.0)
        return ExactSignal.of(
            torch.cat([mean - step, mean + step]),
            self.batch.y.repeat(2, 1),
            self.batch.observed.repeat(2, 1),
            self.gplvm.noise_var,
            torch.full((2 * num_rows, num_outputs), 2.0, dtype=torch.float64),
            self.gplvm.lengthscale.expand(num_outputs, -1),
            self.gplvm.log_outputscale.exp().expand(num_outputs),
            None,
            rank,
        )

    def _set_posterior(self, model: Model) -> None:
        """The best q(v) of each output: precision I + K^{-½} Ψ₂ K^{-½}/σ², in place of the two points' of `_signal`."""
        prior, noise_var = model.prior, self.gplvm.noise_var
        assert isinstance(prior, IndependentGPs)
        psi, like = self.gplvm.psi(self.batch.observed), prior.variational_root

        def whitened(values: Float[Tensor, "P M T"]) -> Float[Tensor, "P M T"]:
            return prior.whitened(values.to(like)).double()

        two = whitened(whitened(psi.two.expand(len(noise_var), -1, -1)).mT)
        sizes, directions = torch.linalg.eigh(0.5 * (two + two.mT))
        # Where K_zz is nearly singular, rounding leaves some below zero.
        var = 1 / (1 + sizes.clamp_min(0.0) / noise_var.unsqueeze(-1))
        cov = (directions * var.unsqueeze(-2)) @ directions.mT
        projected = whitened((psi.one.T @ self.batch.y / noise_var).T.unsqueeze(-1))
        prior.variational_mean.copy_((cov @ projected).squeeze(-1))
        prior.variational_root.copy_(torch.linalg.cholesky(0.5 * (cov + cov.mT)))


def _searched(gplvm: CollapsedGPLVM, batch: Batch, rounds: int) -> CollapsedGPLVM:
    """Rounds of L-BFGS and moves of rows, until a round gains little."""
    enough = _SMALL_GAIN * int(batch.observed.sum())
    before = float(gplvm.bound(batch))
    for _ in range(rounds):
        gplvm = gplvm.moved(batch).improved(batch, _STEPS)
        after = float(gplvm.bound(batch))
        if after - before < enough:
            break
        before = after
    return gplvm


def starting_means(
    batch: Batch, num_inputs: int, num_starts: int, rng: np.random.Generator
) -> Iterator[Float[Array, "N D"]]:
    """Means of q(X) to start from: principal components, Isomap twice, and principal components with noise.

    Isomap unrolls what principal components fold. Where rows are too few for its graph, there is noise in its place.
    """
    y = filled(batch, num_inputs)
    linear = principal_scores(y, num_inputs).numpy()
    yield linear
    for number in range(num_starts - 1):
        unrolled = _isomap(y.numpy(), num_inputs, _NEIGHBOURS[number]) if number < len(_NEIGHBOURS) else None
        yield linear + _SPREAD * rng.standard_normal(linear.shape) if unrolled is None else unrolled


def filled(batch: Batch, rank: int) -> Float[Tensor, "N P"]:
    """The outputs with missing ones replaced by those of their leading principal components."""
    y, rank = batch.y, min(rank, min(batch.y.shape) - 1)
    if bool(batch.observed.all()) or rank < 1:
        return y
    for _ in range(_FILLING_ROUNDS):
        mean = y.mean(0)
        left, size, right = torch.linalg.svd(y - mean, full_matrices=False)
        y = torch.where(batch.observed, batch.y, mean + (left[:, :rank] * size[:rank]) @ right[:rank])
    return y


def _isomap(y: Float[Array, "N P"], num_inputs: int, neighbours: int) -> Float[Array, "N D"] | None:
    """Isomap's components, each of unit variance; None where there are too few rows."""
    if len(y) < max(2 * neighbours, num_inputs + 2):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a graph in several pieces is joined
        found: Array = Isomap(n_neighbors=neighbours, n_components=num_inputs).fit_transform(y)
    scale = found.std(0)
    return found / np.where(scale > 1e-6 * scale.max(), scale, 1.0) if np.isfinite(found).all() else None


def _with_points(gplvm: CollapsedGPLVM, num_inducing: int, seed: int) -> CollapsedGPLVM:
    """With further inducing points at k-means centres of q(X), up to the number asked for."""
    missing = min(num_inducing, len(gplvm.mean)) - len(gplvm.points)
    if missing <= 0:
        return gplvm
    more = kmeans(gplvm.mean, missing, torch.Generator().manual_seed(seed))
    return replace(gplvm, points=torch.cat([gplvm.points, more]))
