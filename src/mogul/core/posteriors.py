"""Normal posteriors and their natural-gradient steps, from ordinary gradients of the ELBO.

For q = N(m, S Sᵀ) with S lower triangular, let g and T be the ELBO's gradients with respect to m and S (T lower
triangular, too) and X the symmetric matrix with the lower triangle of SᵀT. A step of length γ along the natural
gradient of the ELBO takes the precision P to P − 2γ ∂ELBO/∂Σ, which is S⁻ᵀ(I − γX)S⁻¹. So, with I − γX = U Uᵀ,

    S ← S U⁻ᵀ          m ← m + γ S Sᵀ g       (with the new S)

for an upper triangular U. For a conjugate model and γ = 1 this is the exact posterior. A diagonal q uses the same
formulas elementwise, except that its means take a step of γ/H: all H means of a row move at the same time.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# Maximum halvings of a step that leaves the cone of positive definite matrices; after that the step is skipped.
_MAX_HALVINGS = 10
# Close to the cone's boundary a variance grows without bound; this limits a step to 1000 times the standard deviation.
_SMALLEST_PIVOT = 1e-3


@dataclass(frozen=True)
class FullNormal:
    """A batch of posteriors N(m, S Sᵀ), by their parameters; S is the lower triangle of `root`."""

    mean: nn.Parameter
    root: nn.Parameter

    @torch.no_grad()
    def step(self, rate: float, num_data: int) -> None:
        """One step, from the gradients of −ELBO/num_data that the parameters hold."""
        mean_gradient, root_gradient = _ascent(self.mean, num_data), _ascent(self.root, num_data).tril()
        root = self.root.tril()
        product = (root.transpose(-1, -2) @ root_gradient).tril()
        symmetric = product + product.tril(-1).transpose(-1, -2)
        upper, rates = _factor_within_cone(symmetric, rate)
        # S U⁻ᵀ solves Z Uᵀ = S.
        moved = torch.linalg.solve_triangular(upper.transpose(-1, -2), root, upper=False, left=False)
        direction = moved @ (moved.transpose(-1, -2) @ mean_gradient.unsqueeze(-1))
        self.root.copy_(moved)
        # Where no step is possible the gradient may hold any value, including NaN.
        moves = (rates > 0)[..., None]
        self.mean.add_(torch.where(moves, rates[..., None] * direction.squeeze(-1), 0.0))


@dataclass(frozen=True)
class DiagonalNormal:
    """Independent posteriors N(m, s²), by m and log s."""

    mean: nn.Parameter
    log_scale: nn.Parameter

    @torch.no_grad()
    def step(self, rate: float, num_data: int) -> None:
        """One step, from the gradients of −ELBO/num_data that the parameters hold."""
        mean_gradient, scale_gradient = _ascent(self.mean, num_data), _ascent(self.log_scale, num_data)
        # 1 − γ x must stay positive: where it would fall below a half, the step is shortened.
        rates = torch.minimum(torch.full_like(scale_gradient, rate), 0.5 / scale_gradient.clamp_min(1e-30))
        self.log_scale.sub_(0.5 * torch.log1p(-rates * scale_gradient))
        # All H means of a row move at the same time, so together they may overshoot H-fold.
        self.mean.add_(rates / self.mean.shape[-1] * torch.exp(2 * self.log_scale) * mean_gradient)


def full_normal_kl(mean: Float[Tensor, "*K M"], root: Float[Tensor, "*K M M"]) -> Float[Tensor, ""]:
    """KL(N(m, S Sᵀ) ‖ N(0, I)) = ½ (‖m‖² + ‖S‖² − M) − Σ log |Sᵢᵢ|, summed; S is the lower triangle of `root`.

    >>> round(full_normal_kl(torch.ones(1), torch.eye(1)).item(), 3)
    0.5
    """
    value: Tensor = _FullNormalKL.apply(mean, root)  # type: ignore[no-untyped-call]  # torch's own
    return value


class _FullNormalKL(torch.autograd.Function):
    """m̄ = m and S̄ = S − diag(1/Sᵢᵢ): one pass over S each way, where autograd would take six."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, root: Tensor) -> Tensor:
        lower = root.tril()
        ctx.save_for_backward(mean, lower)
        log_det = lower.diagonal(dim1=-2, dim2=-1).abs().log().sum()
        squares = torch.linalg.vector_norm(mean).square() + torch.linalg.vector_norm(lower).square()
        kl: Tensor = 0.5 * (squares - mean.numel()) - log_det
        return kl

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        mean, lower = ctx.saved_tensors
        grad_root = grad * lower
        pivots = lower.diagonal(dim1=-2, dim2=-1)
        grad_root.diagonal(dim1=-2, dim2=-1).sub_(grad / pivots)
        return grad * mean, grad_root


NormalPosterior = FullNormal | DiagonalNormal
PosteriorName = Literal["inducing", "mixing", "biases"]


@runtime_checkable
class HoldsPosteriors(Protocol):
    """A module with Normal posteriors that natural gradients may train."""

    def posteriors(self) -> dict[PosteriorName, NormalPosterior]:
        """Posteriors held by this module, without its submodules."""
        ...


def _ascent(parameter: nn.Parameter, num_data: int) -> Tensor:
    """Gradient of the ELBO, from the gradient of the loss."""
    return torch.zeros_like(parameter) if parameter.grad is None else -num_data * parameter.grad


def _factor_within_cone(
    symmetric: Float[Tensor, "*K M M"], rate: float
) -> tuple[Float[Tensor, "*K M M"], Float[Tensor, "*K"]]:
    """Upper triangular U with U Uᵀ = I − γX, and the γ used for each matrix: halved until U exists."""
    identity = torch.eye(symmetric.shape[-1]).to(symmetric)
    rates = symmetric.new_full(symmetric.shape[:-2], rate)
    for _ in range(_MAX_HALVINGS):
        target = identity - rates[..., None, None] * symmetric
        # Cholesky of the matrix with rows and columns in reverse gives the upper factor.
        factor, info = torch.linalg.cholesky_ex(target.flip(-2, -1))
        pivots = factor.diagonal(dim1=-2, dim2=-1)
        failed = (info > 0) | ~(pivots > _SMALLEST_PIVOT).all(-1)  # NaN fails too
        if not bool(failed.any()):
            return factor.flip(-2, -1), rates
        rates = torch.where(failed, 0.5 * rates, rates)
    rates = torch.where(failed, 0.0, rates)
    return torch.where(failed[..., None, None], identity, factor.flip(-2, -1)), rates
