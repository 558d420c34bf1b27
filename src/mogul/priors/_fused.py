"""The two most expensive computations of a sparse GP, each as one autograd Function of matrix products.

Triangular matrices are multiplied in 4 × 4 blocks. Skipping zero blocks saves three eighths of the operations;
smaller blocks are slower.

Both equal their plain formulas in value and gradient (tests/priors/test_fused.py); neither can be differentiated twice.
"""

import itertools
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from mogul.core.radial import Radial


def scaled_rbf(
    x1: Float[Tensor, "*S M D"],
    x2: Float[Tensor, "*T N D"],
    lengthscale: Float[Tensor, "*K 1 _"],
    outputscale: Float[Tensor, "*K"],
) -> Float[Tensor, "..."]:
    """s exp(−½ ‖(x₁ − x₂)/ℓ‖²) for each pair of rows; only the result is kept for the gradient.

    >>> scaled_rbf(torch.zeros(2, 3), torch.zeros(4, 3), torch.ones(1, 1), torch.tensor(2.0)).shape
    torch.Size([2, 4])
    """
    value: Tensor = _ScaledRBF.apply(x1, x2, lengthscale, outputscale)  # type: ignore[no-untyped-call]  # torch's own
    return value


class _ScaledRBF(torch.autograd.Function):
    """With E = Ḡ ∘ K, a = x₁/ℓ and b = x₂/ℓ: ā = E b − diag(E1) a, and the rest follows from it."""

    @staticmethod
    def forward(ctx: Any, x1: Tensor, x2: Tensor, lengthscale: Tensor, outputscale: Tensor) -> Tensor:
        # Centring does not change distances, and avoids cancellation for large coordinates.
        center = x1.mean(dim=-2, keepdim=True)
        first, second = (x1 - center) / lengthscale, (x2 - center) / lengthscale
        log_scale = outputscale.log()[..., None, None]
        # One product gives the whole exponent, a·b − ½|a|² − ½|b|² + log s: a pass over K costs as much as a product.
        left = _beside(first, -0.5 * first.square().sum(-1, keepdim=True), 1.0)
        right = _beside(second, 1.0, log_scale - 0.5 * second.square().sum(-1, keepdim=True))
        covariance = left @ right.transpose(-1, -2)
        covariance.clamp_(max=log_scale).exp_()
        if torch.equal(x1, x2):  # distances on the diagonal are exactly zero
            covariance.diagonal(dim1=-2, dim2=-1).copy_(outputscale.unsqueeze(-1))
        ctx.save_for_backward(first, second, lengthscale, outputscale, covariance)
        ctx.shapes = x1.shape, x2.shape
        return covariance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        first, second, lengthscale, outputscale, covariance = ctx.saved_tensors
        weighted = grad * covariance
        rows = weighted.sum(-1)
        pulled = _pull(ctx, weighted, rows, first, second, lengthscale)
        want_output = ctx.needs_input_grad[3]
        grad_output = (rows.sum(-1) / outputscale).sum_to_size(outputscale.shape) if want_output else None
        return *pulled, grad_output


def scaled_radial(
    radial: Radial,
    x1: Float[Tensor, "*S M D"],
    x2: Float[Tensor, "*T N D"],
    lengthscale: Float[Tensor, "*K 1 _"],
    outputscale: Float[Tensor, "*K"],
) -> Float[Tensor, "..."]:
    """s k(‖(x₁ − x₂)/ℓ‖²) for each pair of rows, for a radial kernel without a shape parameter.

    >>> from mogul.core.radial import RADIALS
    >>> scaled_radial(RADIALS["matern32"], torch.zeros(2, 3), torch.zeros(4, 3), torch.ones(1, 1), torch.ones(())).shape
    torch.Size([2, 4])
    """
    arguments = x1, x2, lengthscale, outputscale, radial
    value: Tensor = _ScaledRadial.apply(*arguments)  # type: ignore[no-untyped-call]  # torch's own
    return value


class _ScaledRadial(torch.autograd.Function):
    """As `_ScaledRBF`, with E = Ḡ ∘ W for the weights W = −2s ∂k/∂r²; K itself is kept for the gradient of s."""

    @staticmethod
    def forward(ctx: Any, x1: Tensor, x2: Tensor, lengthscale: Tensor, outputscale: Tensor, radial: Radial) -> Tensor:
        square, first, second = squared_distances(x1, x2, lengthscale)
        scale = outputscale[..., None, None]
        covariance: Tensor
        covariance, weights = (part.mul_(scale) for part in radial.parts(square, None))
        if torch.equal(x1, x2):  # a row and itself: the weight has no effect, and may be infinite
            weights.diagonal(dim1=-2, dim2=-1).zero_()
        ctx.save_for_backward(first, second, lengthscale, outputscale, covariance, weights)
        ctx.shapes = x1.shape, x2.shape
        return covariance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        first, second, lengthscale, outputscale, covariance, weights = ctx.saved_tensors
        weighted = grad * weights
        pulled = _pull(ctx, weighted, weighted.sum(-1), first, second, lengthscale)
        grad_output = None
        if ctx.needs_input_grad[3]:
            total = torch.linalg.vecdot(grad.flatten(-2), covariance.flatten(-2))
            grad_output = (total / outputscale).sum_to_size(outputscale.shape)
        return *pulled, grad_output, None


def squared_distances(
    x1: Float[Tensor, "*S M D"], x2: Float[Tensor, "*T N D"], lengthscale: Float[Tensor, "*K 1 _"]
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."], Float[Tensor, "..."]]:
    """‖a − b‖² for a = x₁/ℓ and b = x₂/ℓ by one product, and both, about the mean of x₁."""
    center = x1.mean(dim=-2, keepdim=True)
    first, second = (x1 - center) / lengthscale, (x2 - center) / lengthscale
    left = _beside(-2 * first, first.square().sum(-1, keepdim=True), 1.0)
    right = _beside(second, 1.0, second.square().sum(-1, keepdim=True))
    square: Tensor = (left @ right.transpose(-1, -2)).clamp_(min=0)
    if torch.equal(x1, x2):  # distances on the diagonal are exactly zero
        square.diagonal(dim1=-2, dim2=-1).zero_()
    return square, first, second


def _pull(
    ctx: Any, weighted: Tensor, rows: Tensor, first: Tensor, second: Tensor, lengthscale: Tensor
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of x₁, x₂ and ℓ from E, its row sums, a and b."""
    shape1, shape2 = ctx.shapes
    want1, want2, want_length = ctx.needs_input_grad[:3]
    columns = weighted.sum(-2)
    pulled = weighted @ second  # E b
    grad1 = grad2 = grad_length = None
    if want1:
        grad1 = ((pulled - rows.unsqueeze(-1) * first) / lengthscale).sum_to_size(shape1)
    if want2:
        pulled2 = weighted.transpose(-1, -2) @ first
        grad2 = ((pulled2 - columns.unsqueeze(-1) * second) / lengthscale).sum_to_size(shape2)
    if want_length:
        # Σ E (a − b)² per input, expanded; over ℓ.
        spread = (rows.unsqueeze(-1) * first.square() - 2 * first * pulled).sum(-2, keepdim=True)
        spread = spread + (columns.unsqueeze(-1) * second.square()).sum(-2, keepdim=True)
        grad_length = (spread / lengthscale).sum_to_size(lengthscale.shape)
    return grad1, grad2, grad_length


def _beside(x: Tensor, *columns: Tensor | float) -> Tensor:
    """x with these columns appended."""
    shape = (*x.shape[:-1], 1)
    wide = [column if isinstance(column, Tensor) else x.new_full(shape, column) for column in columns]
    return torch.cat([x, *(column.expand(shape) for column in wide)], dim=-1)


def whitened_marginals(
    kzz: Float[Tensor, "K M M"],
    kzx: Float[Tensor, "K M N"],
    factor: Float[Tensor, "K M M"],
    variational_mean: Float[Tensor, "L M"],
    variational_root: Float[Tensor, "L M M"],
) -> tuple[Float[Tensor, "L N"], Float[Tensor, "L N"]]:
    """Mean Aᵀm and variance Σ(SᵀA)² − ΣA² added by inducing variables, with A = L⁻¹ K_zx and K_zz = L Lᵀ.

    Args:
        kzz: covariance of the inducing variables, for a shared kernel (K = 1) or one kernel per GP (K = L).
        kzx: their covariance with the function values at N points.
        factor: the Cholesky factor L of K_zz, jitter included; the gradient with respect to it goes to `kzz`.
        variational_mean: m.
        variational_root: its lower triangle is S.
    """
    result: tuple[Tensor, Tensor] = _WhitenedMarginals.apply(  # type: ignore[no-untyped-call]  # torch's own
        kzz, kzx, factor.detach(), variational_mean, variational_root
    )
    return result


class _WhitenedMarginals(torch.autograd.Function):
    """Backward by hand. With C = L⁻¹, W = SᵀA, D the variance's gradient as a diagonal, Φ the lower half of a matrix:

        Ā = m μ̄ᵀ + 2(S W − A)D        K̄_zx = CᵀĀ        S̄ = 2 A D Wᵀ        K̄_zz = −Cᵀ Φ(ĀAᵀ) C

    The last is Cholesky's own backward: in the lower triangle, Lᵀ tril(CᵀĀAᵀ) is ĀAᵀ itself.
    """

    @staticmethod
    def forward(
        ctx: Any, kzz: Tensor, kzx: Tensor, factor: Tensor, variational_mean: Tensor, variational_root: Tensor
    ) -> tuple[Tensor, Tensor]:
        variational_root = variational_root.tril()
        inverse = lower_inverse(factor)
        cross = lower_times(inverse, kzx)
        scaled = lower_transposed_times(variational_root, cross)
        ctx.save_for_backward(inverse, cross, scaled, variational_mean, variational_root)
        mean = (variational_mean.unsqueeze(-2) @ cross).squeeze(-2)
        return mean, scaled.square().sum(-2) - cross.square().sum(-2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_mean: Tensor, grad_var: Tensor) -> tuple[Tensor | None, ...]:
        inverse, cross, scaled, variational_mean, variational_root = ctx.saved_tensors
        weights = 2 * grad_var.unsqueeze(-2)
        weighted = scaled * weights
        grad_root = lower_of_outer(cross, weighted)
        grad_cross = lower_times(variational_root, weighted)
        grad_cross.addcmul_(variational_mean.unsqueeze(-1), grad_mean.unsqueeze(-2))
        grad_cross.addcmul_(cross.expand_as(grad_cross), weights, value=-1)
        grad_m = (cross @ grad_mean.unsqueeze(-1)).squeeze(-1)
        grad_cross = grad_cross.sum_to_size(cross.shape)
        grad_kzx = lower_transposed_times(inverse, grad_cross)
        half = lower_of_outer(grad_cross, cross)
        half.diagonal(dim1=-2, dim2=-1).mul_(0.5)
        # Not symmetrised: K_zz is symmetric, so only the symmetric part of its gradient matters.
        grad_kzz = lower_transposed_times(inverse, lower_times_lower(half.neg_(), inverse))
        return grad_kzz, grad_kzx, None, grad_m, grad_root


_NUM_BLOCKS = 4
# Below this size blocks only add overhead.
_MIN_BLOCK = 48


def blocks(size: int) -> list[tuple[int, int]]:
    """First and last index of each block."""
    count = max(1, min(_NUM_BLOCKS, size // _MIN_BLOCK))
    edges = [size * number // count for number in range(count + 1)]
    return list(itertools.pairwise(edges))


def _batch(left: Tensor, right: Tensor) -> int:
    return max(len(left), len(right))


def lower_times(lower: Float[Tensor, "K M M"], right: Float[Tensor, "J M N"]) -> Float[Tensor, "L M N"]:
    """T X for lower triangular T; a batch of one is shared."""
    out = right.new_empty(_batch(lower, right), *right.shape[1:])
    for first, last in blocks(lower.shape[-1]):
        torch.matmul(lower[:, first:last, :last], right[:, :last], out=out[:, first:last])
    return out


def lower_transposed_times(lower: Float[Tensor, "K M M"], right: Float[Tensor, "J M N"]) -> Float[Tensor, "L M N"]:
    """Tᵀ X for lower triangular T; a batch of one is shared."""
    out = right.new_empty(_batch(lower, right), *right.shape[1:])
    for first, last in blocks(lower.shape[-1]):
        torch.matmul(lower[:, first:, first:last].mT, right[:, first:], out=out[:, first:last])
    return out


def lower_times_lower(left: Float[Tensor, "K M M"], right: Float[Tensor, "K M M"]) -> Float[Tensor, "K M M"]:
    """T R for lower triangular T and R: lower triangular."""
    out = torch.zeros_like(left)
    for first, last in blocks(left.shape[-1]):
        for start, stop in blocks(left.shape[-1]):
            if start <= first:
                torch.matmul(
                    left[:, first:last, start:last],
                    right[:, start:last, start:stop],
                    out=out[:, first:last, start:stop],
                )
    return out


def lower_of_outer(left: Float[Tensor, "K M N"], right: Float[Tensor, "J M N"]) -> Float[Tensor, "L M M"]:
    """The lower triangle of X Yᵀ; zero above it."""
    size = left.shape[1]
    out = left.new_zeros(_batch(left, right), size, size)
    for first, last in blocks(size):
        torch.matmul(left[:, first:last], right[:, :last].mT, out=out[:, first:last, :last])
    return out.tril_()


def lower_inverse(lower: Float[Tensor, "K M M"]) -> Float[Tensor, "K M M"]:
    """T⁻¹ for lower triangular T, by halves: [A 0; B C]⁻¹ = [A⁻¹ 0; −C⁻¹BA⁻¹ C⁻¹]."""
    size = lower.shape[-1]
    if size < 2 * _MIN_BLOCK:
        identity = torch.eye(size, dtype=lower.dtype, device=lower.device)
        inverse: Tensor = torch.linalg.solve_triangular(lower, identity, upper=False)
        return inverse
    half = size // 2
    top, bottom = lower_inverse(lower[:, :half, :half]), lower_inverse(lower[:, half:, half:])
    out = torch.zeros_like(lower)
    out[:, :half, :half], out[:, half:, half:] = top, bottom
    torch.matmul(-bottom, lower[:, half:, :half] @ top, out=out[:, half:, :half])
    return out
