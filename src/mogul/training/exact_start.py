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
from mogul.heads import BayesianMixing, ConstantNoise, HeavyTailed, Identity, StudentTNoise
from mogul.model import Model
from mogul.output_mean import SMALLEST_RESIDUAL, LinearOutputMean
from mogul.plan import NoiseName
from mogul.plane import PlaneUncertainty, generalised_least_squares
from mogul.priors import IndependentGPs, ScaledRBF
from mogul.training.exact import ExactGP
from mogul.training.residuals import fit_robust_gp

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
        relative_noise: the noise variance of each row over that of its output: above 1 for outliers.
        dof: degrees of freedom of each output's noise; None where it is Normal.
        varies: whether the noise of any output depends on the input.
    """

    gps: tuple[ExactGP, ...]
    batch: Batch
    mean: LinearOutputMean | None
    relative_noise: Float[Tensor, "N P"]
    dof: tuple[float | None, ...]
    varies: bool

    @staticmethod
    def of(batch: Batch, seed: int, *, plane: bool) -> "ExactStart":
        """Fit them; `plane` says whether a plane may be part of it."""
        rows = Batch(batch.x.double(), batch.y.double(), batch.observed, batch.index)
        rng = np.random.default_rng(seed)
        gps, dof, varies = [], [], False
        relative_noise = torch.ones_like(rows.y)
        for output, seen in enumerate(rows.observed.T):
            robust = fit_robust_gp(rows.x[seen].numpy(), rows.y[seen, output].numpy(), rng, plane=plane)
            relative_noise[seen, output] = torch.as_tensor(robust.relative_noise)
            gps.append(robust.gp)
            dof.append(robust.dof)
            varies = varies or robust.varies
        mean = _plane(gps, rows, relative_noise, rng)
        return ExactStart(tuple(gps), rows, mean, relative_noise, tuple(dof), varies)

    @property
    def noise(self) -> NoiseName:
        """The kind of noise that the residuals of rows left out ask for."""
        if any(dof is not None for dof in self.dof):
            return "gp-student-t" if self.varies else "student-t"
        return "gp" if self.varies else "constant"

    @property
    def scale(self) -> Float[Tensor, "P"]:
        """The unit of the head."""
        return torch.ones(len(self.gps), dtype=torch.float64) if self.mean is None else self.mean.scale.double()

    def inducing_points(self, most: int) -> Float[Tensor, "M D"]:
        """Rows from which all outputs are explained, or as many as are allowed: see `spread_out`."""
        x = self.batch.x.numpy()
        return self.batch.x[torch.as_tensor(spread_out(self.gps, x, most))]

    def plane_of(self, batch: Batch) -> LinearOutputMean:
        """The least-squares plane of all of many rows, with what is not known of it by these exact GPs."""
        y = torch.where(batch.observed, batch.y, math.nan)
        uncertainty = PlaneUncertainty.of(
            self.batch.x,
            self.batch.observed,
            *self._hyperparameters(),
            self.relative_noise * torch.tensor([gp.noise_var for gp in self.gps]).double(),
            torch.ones(len(self.gps), batch.x.shape[1] + 1),
        )
        return LinearOutputMean.fit(batch.x.double().numpy(), y.double().numpy(), uncertainty)

    def _hyperparameters(self) -> tuple[Float[Tensor, "P D"], Float[Tensor, "P"]]:
        lengthscale = torch.as_tensor(np.stack([gp.lengthscale for gp in self.gps]))
        return lengthscale, torch.tensor([gp.outputscale for gp in self.gps]).double()

    def solves(self, model: Model) -> bool:
        """Whether such a model starts at its optimum: a GP for each output, and the same noise for all x."""
        features, mixing, noise = model.head.features, model.head.mixing, model.head.noise
        independent = isinstance(features, Identity) and isinstance(mixing, BayesianMixing)
        one_each = isinstance(model.prior, IndependentGPs) and model.prior.num_latents == len(self.gps)
        return independent and one_each and isinstance(noise, ConstantNoise | StudentTNoise)

    @torch.no_grad()
    def apply(self, model: Model) -> None:
        """Put a model with a latent GP for each output where the exact GPs are."""
        prior, mixing = model.prior, model.head.mixing
        assert isinstance(prior, IndependentGPs)
        assert isinstance(mixing, BayesianMixing)
        noise_var = torch.tensor([gp.noise_var for gp in self.gps]).double() / self.scale.square()
        model.head.noise.log_precision.copy_(-noise_var.log())
        for output, dof in enumerate(self.dof):
            if dof is not None and isinstance(model.head.noise, HeavyTailed):
                model.head.noise.log_spare_dof[output] = math.log(dof - 2)
        self._set_kernels(prior)
        target = self.batch.y if self.mean is None else self.mean.residual(self.batch.y, self.batch.x)
        weight = self.batch.observed.double() / (noise_var * self.relative_noise)
        set_posterior(prior, self.batch.x, target, weight)
        mixing.mean.copy_(torch.eye(*mixing.mean.shape))
        features = prior(self.batch.x.to(mixing.mean), 1, torch.Generator())
        second = features.mean.square() + features.var
        mixing.log_scale.copy_(-0.5 * torch.log1p(weight.to(second).T @ second))

    def _set_kernels(self, prior: IndependentGPs) -> None:
        kernel = prior.kernel
        assert isinstance(kernel, ScaledRBF)
        lengthscale, outputscale = self._hyperparameters()
        like = kernel.base_kernel.raw_lengthscale
        kernel.base_kernel.lengthscale = lengthscale.reshape(like.shape).to(like)
        kernel.outputscale = (outputscale / self.scale.square()).to(like)


@torch.no_grad()
def set_posterior(
    prior: IndependentGPs,
    x: Float[Tensor, "N D"],
    target: Float[Tensor, "N L"],
    weight: Float[Tensor, "N L"],
) -> None:
    """q(v) of each latent GP at its optimum, where row n observes f + N(0, 1/weight): in closed form (Titsias 2009).

    With A = K_zz^{-1/2} K_zx and B = I + A W Aᵀ, q(v) = N(B⁻¹ A W (y − mean), B⁻¹).
    """
    like = prior.variational_mean
    rows = x.to(like)
    cross = prior.whitened_cross(rows).double()
    weighted = cross * weight.T.double().unsqueeze(-2)
    precision = weighted @ cross.mT
    precision.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor = torch.linalg.cholesky(precision)
    gap = (target - prior.mean(rows)).T.double().unsqueeze(-1)
    prior.variational_mean.copy_(torch.cholesky_solve(weighted @ gap, factor).squeeze(-1))
    prior.variational_root.copy_(torch.linalg.cholesky(torch.cholesky_inverse(factor)))


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


def _plane(
    gps: Sequence[ExactGP], rows: Batch, relative_noise: Float[Tensor, "N P"], rng: np.random.Generator
) -> LinearOutputMean | None:
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
        torch.tensor([gp.noise_var for gp in gps]).double() * relative_noise[some],
        torch.tensor(prior_var),
    )
    left = torch.where(rows.observed, rows.y - rows.x @ weights - bias, 0.0)
    scale = (left.square().sum(0) / rows.observed.sum(0).clamp_min(1)).sqrt().clamp_min(SMALLEST_RESIDUAL)
    return LinearOutputMean(weights, bias, scale, uncertainty)
