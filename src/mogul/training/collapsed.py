"""The collapsed bound of a GP latent-variable model (Titsias and Lawrence 2010), and its maximum over q(X).

P outputs are independent GPs of one RBF kernel on latent inputs x ~ N(0, 1), with q(x) = N(μ, σ²) for each row. The
expectations Ψ of the kernel under q(X) are closed-form, and so is the best q(u). What is left is a function of q(X),
inducing points, kernel and noise, which L-BFGS maximises without draws.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import minimize
from sklearn.cluster import KMeans
from torch import Tensor

from mogul._typing import Array
from mogul.data import Batch

# Added to K_zz, relative to its diagonal.
_JITTER = 1e-6
# Numbers of Ψ₂ at once: 1 MB, which stays in the cache.
_NUMBERS_AT_ONCE = 2**17
# The least noise variance: without noise, Ψ₂ over it is all rounding.
_LEAST_NOISE = 1e-6
# Variances of q(X) and of the noise at the start; standardised outputs have unit variance.
_INPUT_VAR, _NOISE_VAR = 0.1, 0.1
# Pairs in the memory of L-BFGS, and its value where K_zz cannot be factorised.
_MEMORY, _TROUBLE = 20, 1e15
# Rows that are placed together.
_ROWS_AT_ONCE = 1000
# The least gain of a row that moves, in nats.
_ROW_GAIN = 1.0


@dataclass(frozen=True)
class Psi:
    """Expectations of the kernel under q(X), over the rows where an output is observed.

    Args:
        zero: Σ E k(x, x), for each output.
        one: E k(x_n, z_m) of each row.
        two: Σ E k(z, x) k(x, z), for each output; one matrix for all where nothing is missing.
    """

    zero: Float[Tensor, "P"]
    one: Float[Tensor, "N M"]
    two: Float[Tensor, "K M M"]


@dataclass(frozen=True)
class CollapsedGPLVM:
    """What the collapsed bound depends on, in double precision.

    Args:
        mean: means of q(X).
        log_var: logarithms of its variances.
        points: inducing points.
        log_lengthscale: of each latent input, or one for all.
        log_outputscale: of the kernel's variance.
        log_noise_var: of each output, or one for all; above a floor.

    Example:
        >>> y = torch.sin(torch.linspace(0, 6, 30, dtype=torch.float64)[:, None] + torch.arange(3))
        >>> batch = Batch.of(torch.zeros(30, 0), y)
        >>> start = CollapsedGPLVM.start(y[:, :1].numpy(), num_inducing=10, seed=0)
        >>> bool(start.improved(batch, steps=20).bound(batch) > start.bound(batch))
        True
    """

    mean: Float[Tensor, "N D"]
    log_var: Float[Tensor, "N D"]
    points: Float[Tensor, "M D"]
    log_lengthscale: Float[Tensor, "E"]
    log_outputscale: Float[Tensor, ""]
    log_noise_var: Float[Tensor, "K"]

    @staticmethod
    def start(mean: Float[Array, "N D"], num_inducing: int, seed: int, *, ard: bool = False) -> "CollapsedGPLVM":
        """At these means of q(X), with k-means centres as inducing points."""
        num_inputs = mean.shape[1]
        points = np.unique(mean, axis=0)
        if len(points) > num_inducing:
            points = KMeans(num_inducing, n_init=1, max_iter=50, random_state=seed).fit(mean).cluster_centers_
        like = torch.zeros((), dtype=torch.float64)
        return CollapsedGPLVM(
            torch.as_tensor(mean).to(like),
            like.new_full(mean.shape, math.log(_INPUT_VAR)),
            torch.as_tensor(points).to(like),
            like.new_full((num_inputs if ard else 1,), 0.5 * math.log(max(1.0, num_inputs / 2))),
            like,
            like.new_full((1,), math.log(_NOISE_VAR)),
        )

    @property
    def lengthscale(self) -> Float[Tensor, "D"]:
        """Of each latent input."""
        return self.log_lengthscale.exp().expand(self.mean.shape[1])

    @property
    def noise_var(self) -> Float[Tensor, "K"]:
        """Of each output, or one for all, with its floor."""
        return self.log_noise_var.exp() + _LEAST_NOISE

    def kernel(self) -> Float[Tensor, "M M"]:
        """K_zz with its jitter."""
        scaled = self.points / self.lengthscale
        gap = (scaled.unsqueeze(1) - scaled).square().sum(-1)
        return self.log_outputscale.exp() * (torch.exp(-0.5 * gap) + _JITTER * torch.eye(len(gap)).to(gap))

    def psi(self, observed: Bool[Tensor, "N P"]) -> Psi:
        """Ψ₀, Ψ₁ and Ψ₂."""
        seen = observed.to(self.mean)
        rows = seen.new_ones(1, len(seen)) if bool(observed.all()) else seen.T
        pairs, places = self._pairs()
        sums: Tensor = _SumOfExponentials.apply(*self._exponents(*pairs), rows)  # type: ignore[no-untyped-call]  # torch's own
        return Psi(seen.sum(0) * self.log_outputscale.exp(), self._psi_one(), sums[:, places])

    def _pairs(self) -> tuple[Int[Tensor, "2 Q"], Int[Tensor, "M M"]]:
        """The pairs of inducing points, each once, and the place among them of each entry of an M × M matrix."""
        size = len(self.points)
        pairs = torch.tril_indices(size, size)
        places = torch.zeros(size, size, dtype=torch.long)
        places[pairs[0], pairs[1]] = places[pairs[1], pairs[0]] = torch.arange(pairs.shape[1])
        return pairs, places

    def _psi_one(self) -> Float[Tensor, "N M"]:
        """Ψ₁ = s Π_d √(ℓ²/(ℓ² + σ²)) exp(−½ (μ − z)²/(ℓ² + σ²))."""
        var, square = self.log_var.exp(), self.lengthscale.square()
        weight = 1 / (square + var)
        alone = -0.5 * (torch.log1p(var / square) + self.mean.square() * weight).sum(1) + self.log_outputscale
        rows = torch.cat([self.mean * weight, -0.5 * weight, alone.unsqueeze(1)], 1)
        z = self.points
        return torch.exp(rows @ torch.cat([z, z.square(), torch.ones_like(z[:, :1])], 1).T)

    def _exponents(
        self, first: Int[Tensor, "Q"], second: Int[Tensor, "Q"]
    ) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F Q"]]:
        """log Ψ₂ of a row and a pair z, z′ as the product of two matrices; with z̄ = (z + z′)/2,

        log Ψ₂ = 2 log s − Σ_d ½ log(1 + 2σ²/ℓ²) + (μ − z̄)²/(ℓ² + 2σ²) + (z − z′)²/(4ℓ²).
        """
        var, square = self.log_var.exp(), self.lengthscale.square()
        weight = 1 / (square + 2 * var)
        alone = -(0.5 * torch.log1p(2 * var / square) + self.mean.square() * weight).sum(1, keepdim=True)
        middle = 0.5 * (self.points[first] + self.points[second])
        gap = (self.points[first] - self.points[second]).square()
        apart = 2 * self.log_outputscale - 0.25 * (gap / square).sum(1, keepdim=True)
        rows = torch.cat([2 * self.mean * weight, -weight, alone, torch.ones_like(alone)], 1)
        columns = torch.cat([middle, middle.square(), torch.ones_like(apart), apart], 1)
        return rows, columns.T.contiguous()

    def bound(self, batch: Batch) -> Float[Tensor, ""]:
        """Σ_p log N(y_p | 0, Q_p + σ_p² I) − (Ψ₀ − tr K⁻¹Ψ₂)/(2σ_p²) − KL(q(X)), by matrices of M rows."""
        psi, root = self.psi(batch.observed), torch.linalg.cholesky(self.kernel())
        two = _solved(root, _solved(root, psi.two).mT)
        noise_var = self.noise_var
        inner = two / noise_var.reshape(-1, 1, 1) + torch.eye(len(root)).to(root)
        factor = torch.linalg.cholesky(inner)
        projected = _solved(root, psi.one.T @ batch.y)  # (M, P)
        if len(factor) == 1:
            explained = _solved(factor[0], projected).square().sum(0)
        else:
            explained = _solved(factor, projected.T.unsqueeze(-1)).square().sum((1, 2))
        count = batch.observed.sum(0)
        log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) + count * noise_var.log()
        left = psi.zero - two.diagonal(dim1=-2, dim2=-1).sum(-1)
        misfit = batch.y.square().sum(0) - explained / noise_var + left
        twice = (count * math.log(2 * math.pi) + log_det + misfit / noise_var).sum()
        bound: Tensor = -0.5 * twice - self.kl().sum()
        return bound

    def kl(self) -> Float[Tensor, "N"]:
        """KL(q(x) ‖ N(0, 1)) of each row."""
        return 0.5 * (self.log_var.exp() + self.mean.square() - 1 - self.log_var).sum(1)

    def improved(self, batch: Batch, steps: int, only: tuple[str, ...] | None = None) -> "CollapsedGPLVM":
        """After at most so many steps of L-BFGS, in all parts or in those named."""
        parts = {part.name: getattr(self, part.name) for part in fields(self) if only is None or part.name in only}
        return replace(self, **maximum(lambda given: replace(self, **given).bound(batch), parts, steps))

    @torch.no_grad()
    def moved(self, batch: Batch) -> "CollapsedGPLVM":
        """Rows that another row's q(x) would explain better are moved there: where gradients cannot take them.

        Given q(u), each row's part of the bound is known at each q(x) in closed form, so that no move lowers the bound.
        """
        scores = self.posterior(batch).row_bounds(batch, self)
        best, place = scores.max(1)
        place = torch.where(best > scores.diagonal() + _ROW_GAIN, place, torch.arange(len(place)))
        return replace(self, mean=self.mean[place], log_var=self.log_var[place])

    def posterior(self, batch: Batch) -> "InducingPosterior":
        """The best q(u)."""
        psi, kernel, noise_var = self.psi(batch.observed), self.kernel(), self.noise_var
        inner = kernel + psi.two / noise_var.reshape(-1, 1, 1)
        projected = (psi.one.T @ batch.y / noise_var).T.unsqueeze(-1)
        weights = torch.linalg.solve(inner, projected).squeeze(-1).T
        return InducingPosterior(weights, torch.linalg.inv(kernel) - torch.linalg.inv(inner))


@dataclass(frozen=True)
class InducingPosterior:
    """q(u) of all outputs.

    Args:
        weights: K⁻¹ E u.
        reduction: K⁻¹ − K⁻¹ Cov(u) K⁻¹, for each output or one for all.
    """

    weights: Float[Tensor, "M P"]
    reduction: Float[Tensor, "K M M"]

    def moments(self, gplvm: CollapsedGPLVM) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
        """E f and E f² of each output, under each q(x)."""
        pairs, _ = gplvm._pairs()
        rows, columns = gplvm._exponents(*pairs)
        outer = self.weights.T.unsqueeze(-1) * self.weights.T.unsqueeze(-2) - self.reduction
        twice = torch.where(pairs[0] == pairs[1], 1.0, 2.0)  # each pair stands for two entries
        entries = (outer[:, pairs[0], pairs[1]] * twice).T
        second = [torch.exp(rows[some] @ columns) @ entries for some in _slices(len(rows), len(twice))]
        return gplvm._psi_one() @ self.weights, gplvm.log_outputscale.exp() + torch.cat(second)

    def row_bounds(self, batch: Batch, gplvm: CollapsedGPLVM) -> Float[Tensor, "N C"]:
        """The part of the bound of each row of the batch at each q(x) of the model."""
        mean, second = self.moments(gplvm)
        seen, noise_var = batch.observed.to(mean), gplvm.noise_var
        return (batch.y / noise_var) @ mean.T - 0.5 * (seen / noise_var) @ second.T - gplvm.kl()

    def placed(self, batch: Batch, gplvm: CollapsedGPLVM, steps: int) -> CollapsedGPLVM:
        """The model with q(X) of the rows of this batch, given q(u): from the best q(x) it has, by L-BFGS."""
        means, log_vars = [], []
        for some in batch.pieces(_ROWS_AT_ONCE):
            with torch.no_grad():
                place = self.row_bounds(some, gplvm).argmax(1)
            there = {"mean": gplvm.mean[place], "log_var": gplvm.log_var[place]}
            found = maximum(partial(self._own_bound, some, gplvm), there, steps)
            means.append(found["mean"])
            log_vars.append(found["log_var"])
        return replace(gplvm, mean=torch.cat(means), log_var=torch.cat(log_vars))

    def _own_bound(self, batch: Batch, gplvm: CollapsedGPLVM, inputs: dict[str, Tensor]) -> Float[Tensor, ""]:
        """The sum of the rows' parts of the bound, each at its own q(x)."""
        here = replace(gplvm, **inputs)
        mean, second = self.moments(here)
        seen, noise_var = batch.observed.to(mean), gplvm.noise_var
        return ((batch.y * mean - 0.5 * seen * second) / noise_var).sum() - here.kl().sum()


class _SumOfExponentials(torch.autograd.Function):
    """W exp(A B) for N × Q exponents A B, some rows at a time."""

    @staticmethod
    def forward(
        ctx: Any, rows: Float[Tensor, "N F"], columns: Float[Tensor, "F Q"], weights: Float[Tensor, "K N"]
    ) -> Float[Tensor, "K Q"]:
        """Σ_n W_kn exp(A B)_nq; the exponentials are kept where a gradient follows."""
        kept = []
        total = rows.new_zeros(len(weights), columns.shape[1])
        for some in _slices(len(rows), columns.shape[1]):
            exponentials = torch.mm(rows[some], columns).exp_()
            total.addmm_(weights[:, some], exponentials)
            if any(ctx.needs_input_grad):
                kept.append(exponentials)
        ctx.save_for_backward(rows, columns, weights, *kept)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """With G = exp(A B) ∘ (Wᵀ gradient): G Bᵀ and Aᵀ G."""
        rows, columns, weights, *kept = ctx.saved_tensors
        (gradient,) = gradients
        by_rows, by_columns = torch.empty_like(rows), torch.zeros_like(columns)
        for some, exponentials in zip(_slices(len(rows), columns.shape[1]), kept, strict=True):
            weighted = exponentials * (weights[:, some].T @ gradient)
            torch.mm(weighted, columns.T, out=by_rows[some])
            by_columns.addmm_(rows[some].T, weighted)
        return by_rows, by_columns, None


def _slices(num_rows: int, numbers_per_row: int) -> list[slice]:
    step = max(1, _NUMBERS_AT_ONCE // numbers_per_row)
    return [slice(first, first + step) for first in range(0, num_rows, step)]


def _solved(root: Float[Tensor, "... M M"], values: Float[Tensor, "... M T"]) -> Float[Tensor, "... M T"]:
    """L⁻¹ values, for a lower triangle L."""
    solved: Tensor = torch.linalg.solve_triangular(root, values, upper=False)
    return solved


def maximum(function: Callable[[dict[str, Tensor]], Tensor], start: dict[str, Tensor], steps: int) -> dict[str, Tensor]:
    """Parts where the function is larger, by L-BFGS from here."""
    sizes = [part.numel() for part in start.values()]

    def apart(flat: Float[Array, "T"]) -> dict[str, Tensor]:
        each = torch.as_tensor(flat).split(sizes)  # type: ignore[no-untyped-call]  # torch's own
        return {name: values.reshape(part.shape) for (name, part), values in zip(start.items(), each, strict=True)}

    def loss(flat: Float[Array, "T"]) -> tuple[float, Float[Array, "T"]]:
        given = {name: part.clone().requires_grad_() for name, part in apart(flat).items()}
        try:
            value = function(given)
        except RuntimeError:  # torch's LinAlgError is one
            return _TROUBLE, np.zeros_like(flat)
        gradient = torch.autograd.grad(-value, list(given.values()))
        return -value.item(), torch.cat([part.flatten() for part in gradient]).numpy()

    flat = torch.cat([part.flatten() for part in start.values()]).numpy()
    found = minimize(
        loss, flat, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": _MEMORY}
    )
    return apart(found.x)
