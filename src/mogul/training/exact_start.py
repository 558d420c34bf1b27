"""From exact GPs to a model: its plane, inducing points, kernels, posteriors and noise start where those ended."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mogul.arrays import Array, IntArray
from mogul.data import Batch
from mogul.model import Model
from mogul.output_mean import SMALLEST_RESIDUAL, LinearOutputMean
from mogul.plane import generalised_least_squares
from mogul.training.exact import ExactGP, fit_exact_gp
from mogul.training.part_starts import Signal, rank_of, start_parts

# Reference rows of a plane's uncertainty: more would hardly change what a GP can take up between them.
_PLANE_ROWS = 400
# Inducing points are added until what they leave unexplained costs each output's bound less than this, in nats.
_BOUND_LOSS = 0.05


@dataclass(frozen=True)
class ExactStart:
    """An exact GP for each output, fitted to the rows (or some of them) where it is observed.

    Args:
        gps: one for each output.
        batch: the standardised rows, in double precision.
        mean: the plane that some of them have; None where none has.
    """

    gps: tuple[ExactGP, ...]
    batch: Batch
    mean: LinearOutputMean | None

    @staticmethod
    def of(batch: Batch, seed: int, *, plane: bool) -> "ExactStart":
        """Fit them; `plane` says whether a plane may be part of it."""
        rows = Batch(batch.x.double(), batch.y.double(), batch.observed, batch.index)
        rng = np.random.default_rng(seed)
        gps = tuple(_fitted(rows, output, rng, plane=plane) for output in range(rows.y.shape[1]))
        return ExactStart(gps, rows, _plane(gps, rows, rng))

    @property
    def scale(self) -> Float[Tensor, "P"]:
        """The unit of the head."""
        return torch.ones(len(self.gps), dtype=torch.float64) if self.mean is None else self.mean.scale.double()

    def inducing_points(self, most: int) -> Float[Tensor, "M D"]:
        """Rows from which all outputs are explained, or as many as are allowed: see `spread_out`."""
        x = self.batch.x.numpy()
        return self.batch.x[torch.as_tensor(spread_out(self.gps, x, most))]

    def apply(self, model: Model, generator: torch.Generator) -> None:
        """Put a model where the exact GPs are, part by part: see `part_starts`."""
        start_parts(model, self._signal(rank_of(model)), generator)

    def _signal(self, rank: int) -> Signal:
        """In the units of the head."""
        x, observed = self.batch.x, self.batch.observed
        target = self.batch.y if self.mean is None else self.mean.residual(self.batch.y, x)
        lengthscale = torch.as_tensor(np.stack([gp.lengthscale for gp in self.gps]))
        outputscale, noise_var = (
            torch.tensor(each).double() / self.scale.square()
            for each in ([gp.outputscale for gp in self.gps], [gp.noise_var for gp in self.gps])
        )
        return Signal.of(x, target, observed, noise_var, lengthscale, outputscale, rank)


def spread_out(gps: Sequence[ExactGP], x: Float[Array, "N D"], most: int) -> Int[IntArray, "M"]:
    """Rows to be inducing points: the one that is least explained by those chosen, for each output by turns.

    This is Cholesky with pivots of each kernel matrix (Burt et al. 2020). It ends where the trace of what is left costs
    the bound of every output less than a twentieth of a nat, or at `most` rows.

    >>> gp = ExactGP(np.array([10.0]), 1.0, 0.0, 0.1, 0.0)
    >>> len(spread_out([gp], np.linspace(-1, 1, 200)[:, None], most=100)) < 10
    True
    """
    pivoted = [_Pivoted.of(gp, x, most) for gp in gps]
    chosen: list[int] = []
    while len(chosen) < min(most, len(x)):
        worst = max(pivoted, key=lambda one: one.loss)
        place = int(worst.left.argmax())
        if worst.loss < _BOUND_LOSS or worst.left[place] <= 1e-10 * worst.gp.outputscale:
            break
        chosen.append(place)
        for one in pivoted:
            one.add(place)
    return np.sort(np.array(chosen or [0]))


@dataclass
class _Pivoted:
    """The kernel matrix of an output, factored as far as rows have been chosen."""

    gp: ExactGP
    x: Float[Array, "N D"]
    columns: Float[Array, "M N"]
    left: Float[Array, "N"]  # of the diagonal, unexplained
    size: int = 0

    @staticmethod
    def of(gp: ExactGP, x: Float[Array, "N D"], most: int) -> "_Pivoted":
        return _Pivoted(gp, x, np.zeros((min(most, len(x)), len(x))), np.full(len(x), gp.outputscale))

    @property
    def loss(self) -> float:
        """What the bound loses: the trace of what is left over twice the noise."""
        return float(self.left.sum()) / (2 * self.gp.noise_var)

    def add(self, place: int) -> None:
        """One row of the factor: nothing where that row is explained already."""
        pivot = self.left[place]
        if pivot > 1e-10 * self.gp.outputscale:
            known = self.columns[: self.size]
            column = self.gp.kernel(self.x, self.x[place : place + 1])[:, 0] - known[:, place] @ known
            self.columns[self.size] = column / math.sqrt(pivot)
            self.left = np.maximum(self.left - self.columns[self.size] ** 2, 0.0)
            self.size += 1
        self.left[place] = 0.0


def _fitted(rows: Batch, output: int, rng: np.random.Generator, *, plane: bool) -> ExactGP:
    seen = rows.observed[:, output]
    return fit_exact_gp(rows.x[seen].numpy(), rows.y[seen, output].numpy(), rng, plane=plane)


def _plane(gps: Sequence[ExactGP], rows: Batch, rng: np.random.Generator) -> LinearOutputMean | None:
    """The posterior of all planes by generalised least squares; the head's unit is what they leave."""
    if not any(gp.plane_var for gp in gps):
        return None
    some = torch.as_tensor(rng.permutation(len(rows.x))[:_PLANE_ROWS])
    prior_var = [[gp.plane_var] * rows.x.shape[1] + [gp.bias_var] for gp in gps]
    weights, bias, uncertainty = generalised_least_squares(
        rows.x[some],
        rows.y[some],
        rows.observed[some],
        torch.as_tensor(np.stack([gp.lengthscale for gp in gps])),
        torch.tensor([gp.outputscale for gp in gps]),
        torch.tensor([gp.noise_var for gp in gps]),
        torch.tensor(prior_var),
    )
    left = torch.where(rows.observed, rows.y - rows.x @ weights - bias, 0.0)
    scale = (left.square().sum(0) / rows.observed.sum(0).clamp_min(1)).sqrt().clamp_min(SMALLEST_RESIDUAL)
    return LinearOutputMean(weights, bias, scale, uncertainty)
