"""Linear algebra over the inducing points: from K_zz and K_zx to the whitened cross-covariance."""

import warnings
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import gpytorch
import torch
from jaxtyping import Float
from linear_operator import to_linear_operator
from torch import Tensor

from mogul.errors import ConfigError, MogulWarning, NumericalError
from mogul.priors._fused import whitened_marginals
from mogul.registry import storable

# Jitter beyond so many times the least one is told: ten times changes no prediction, and float32 often needs it.
_TOLD = 20.0


@dataclass(frozen=True)
class Whitened:
    """A with AᵀA = K_xz K_zz⁻¹ K_zx, and the largest jitter that was added to K_zz's diagonal."""

    cross: Float[Tensor, "K M N"]
    jitter: float


@dataclass(frozen=True)
class Posterior:
    """q(v) = N(m, S Sᵀ) of the whitened inducing variables of L GPs; S is the lower triangle of `root`."""

    mean: Float[Tensor, "L M"]
    root: Float[Tensor, "L M M"]


@dataclass(frozen=True)
class Correction:
    """Change of mean and variance by q(v) at N points, Aᵀm and Σ(SᵀA)² − ΣA², and the jitter."""

    mean: Float[Tensor, "L N"]
    var: Float[Tensor, "L N"]
    jitter: float


@runtime_checkable
class Solver(Protocol):
    """How an inverse square root of K_zz is applied."""

    def whiten(self, kzz: Float[Tensor, "K M M"], kzx: Float[Tensor, "K M N"]) -> Whitened:
        """K_zz^{-1/2} K_zx, for any square root of K_zz."""
        ...

    def update(self, kzz: Float[Tensor, "K M M"], kzx: Float[Tensor, "K M N"], posterior: Posterior) -> Correction:
        """The change from prior to posterior marginals at N points."""
        ...


def with_more_jitter(solver: Solver, times: float, dtype: torch.dtype) -> Solver:
    """The same solver with `times` times its jitter, up to its limit; solvers without jitter are unchanged.

    >>> with_more_jitter(Cholesky(), 10.0, torch.float64)
    Cholesky(jitter=1e-07, max_jitter=0.01)
    """
    match solver:
        case Cholesky():
            return replace(solver, jitter=min(times * solver.start(dtype), solver.max_jitter))
        case CIQ():
            return replace(solver, jitter=times * solver.jitter)
        case _:
            return solver


def update_from(whitened: Whitened, posterior: Posterior) -> Correction:
    """The update by its formula, for solvers without a faster method."""
    cross = whitened.cross
    mean = (posterior.mean.unsqueeze(-2) @ cross).squeeze(-2)
    var = (posterior.root.tril().transpose(-1, -2) @ cross).square().sum(-2) - cross.square().sum(-2)
    return Correction(mean, var, whitened.jitter)


@storable()
@dataclass(frozen=True)
class Cholesky:
    """L⁻¹ K_zx with K_zz = L Lᵀ.

    The jitter, relative to the mean of the diagonal, starts at `jitter` (by default 1e-8 in float64, 1e-6 in float32)
    and grows tenfold, for those matrices that need it, up to `max_jitter`.
    """

    jitter: float | None = None
    max_jitter: float = 1e-2

    def __post_init__(self) -> None:
        if self.jitter is not None and not self.jitter > 0:
            raise ConfigError(f"jitter must be positive; got {self.jitter}. Try 1e-8: it grows only when needed.")

    def whiten(self, kzz: Float[Tensor, "K M M"], kzx: Float[Tensor, "K M N"]) -> Whitened:
        factor, jitter = self._factor(kzz)
        return Whitened(torch.linalg.solve_triangular(factor, kzx, upper=False), jitter)

    def update(self, kzz: Float[Tensor, "K M M"], kzx: Float[Tensor, "K M N"], posterior: Posterior) -> Correction:
        """By the fused Function, whose gradient does not go through the factorisation."""
        with torch.no_grad():
            factor, jitter = self._factor(kzz)
        return Correction(*whitened_marginals(kzz, kzx, factor, posterior.mean, posterior.root), jitter)

    def _factor(self, kzz: Float[Tensor, "K M M"]) -> tuple[Float[Tensor, "K M M"], float]:
        factor, jitter = self.factorise(kzz)
        start = self.start(kzz.dtype)
        if jitter > _TOLD * start:
            warnings.warn(
                f"The kernel matrix of the inducing points needed a jitter of {jitter:.0e} of its diagonal "
                f"(from {start:.0e}). Fewer inducing points or float64 would need less.",
                MogulWarning,
                stacklevel=2,
            )
        return factor, jitter

    def factorise(
        self, matrix: Float[Tensor, "*K M M"], name: str = "The kernel matrix of the inducing points"
    ) -> tuple[Float[Tensor, "*K M M"], float]:
        """The lower Cholesky factor, and the largest relative jitter it took."""
        start = self.start(matrix.dtype)
        size = matrix.diagonal(dim1=-2, dim2=-1).mean(-1).detach()
        growth = torch.ones_like(size)
        while True:
            with_jitter = matrix.clone()
            with_jitter.diagonal(dim1=-2, dim2=-1).add_((start * growth * size).unsqueeze(-1))
            factor, info = torch.linalg.cholesky_ex(with_jitter)
            failed = info > 0
            worst = start * float(growth.max())
            if not bool(failed.any()):
                _require_finite(factor.diagonal(dim1=-2, dim2=-1), name)  # NaN anywhere in a row reaches the diagonal
                return factor, worst
            _require_finite(matrix, name)
            if 10 * worst > self.max_jitter:
                raise NumericalError(
                    f"{name} must be positive definite; it is not, with a jitter of {worst:.0e}. "
                    "Standardise the inputs, use fewer inducing points, or compute in float64."
                )
            growth = torch.where(failed, 10 * growth, growth)

    def start(self, dtype: torch.dtype) -> float:
        """The initial jitter."""
        if self.jitter is None:
            return 1e-8 if dtype == torch.float64 else 1e-6
        return self.jitter


def _require_finite(matrix: Tensor, name: str) -> None:
    if not bool(torch.isfinite(matrix).all()):
        raise NumericalError(
            f"{name} must be finite; it holds NaN or infinity. "
            "Lower the learning rate, or look for extreme values in the inputs."
        )


@storable()
@dataclass(frozen=True)
class CIQ:
    """K_zz^{-1/2} K_zx by contour-integral quadrature: matrix products only, the paper's section 4.4.

    There is no factorisation; the cost is O(M²) per iteration of a Krylov method. It is never chosen automatically. Its
    error in the explained variance is about 1e-6 for inputs of many dimensions, and 1e-6, 2e-4 or 1e-3 at jitters of
    1e-2, 1e-3 or 1e-4 for M = 400 points in three dimensions.

    Args:
        jitter: relative to the mean of the diagonal; Krylov methods need a better-conditioned matrix than Cholesky.
        num_nodes: quadrature nodes.
        tolerance: tolerance of the Krylov method.
        max_iterations: maximum iterations of the Krylov method.
    """

    jitter: float = 1e-3
    num_nodes: int = 15
    tolerance: float = 1e-6
    max_iterations: int = 400

    def whiten(self, kzz: Float[Tensor, "K M M"], kzx: Float[Tensor, "K M N"]) -> Whitened:
        size = kzz.diagonal(dim1=-2, dim2=-1).mean(-1).detach()
        added = (self.jitter * size).unsqueeze(-1).expand(kzz.shape[:-1])
        operator = to_linear_operator(kzz + torch.diag_embed(added))
        with (
            gpytorch.settings.num_contour_quadrature(self.num_nodes),
            gpytorch.settings.minres_tolerance(self.tolerance),
            gpytorch.settings.max_cg_iterations(self.max_iterations),
        ):
            return Whitened(operator.sqrt_inv_matmul(kzx), self.jitter)

    def update(self, kzz: Float[Tensor, "K M M"], kzx: Float[Tensor, "K M N"], posterior: Posterior) -> Correction:
        """From the whitened cross-covariance."""
        return update_from(self.whiten(kzz, kzx), posterior)
