"""Kernels: any GPyTorch kernel; the paper's RBF by default."""

from copy import deepcopy
from typing import Any

import gpytorch
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from mogul import registry
from mogul.core.nets import TanhNet
from mogul.errors import ConfigError
from mogul.priors._fused import scaled_rbf
from mogul.registry import register_kernel


@register_kernel("rbf", "Squared exponential, a lengthscale per input: the default.")
def rbf(num_inputs: int, num_latents: int | None = None, *, ard: bool = True) -> Kernel:
    """L scaled RBF kernels, or one, with a lengthscale per input, or a single one for latent inputs.

    Lengthscales start at √D, the order of the distance between two points of standardised inputs.

    >>> rbf(3, 2)(torch.zeros(5, 3)).to_dense().shape
    torch.Size([2, 5, 5])
    """
    batch = torch.Size([] if num_latents is None else [num_latents])
    base = gpytorch.kernels.RBFKernel(
        ard_num_dims=num_inputs if ard else None, batch_shape=batch, lengthscale_constraint=_positive()
    )
    base.lengthscale = float(num_inputs) ** 0.5
    kernel = ScaledRBF(base, batch_shape=batch, outputscale_constraint=_positive())
    kernel.outputscale = 1.0
    return kernel


def _positive() -> gpytorch.constraints.Positive:
    """Positive constraint by the logarithm: a step of Adam then changes a scale by a factor.

    With GPyTorch's default softplus, lengthscales far above one move so slowly that they prolong training.
    """
    return gpytorch.constraints.Positive(transform=torch.exp, inv_transform=torch.log)


def kernel_by_name(name: str, num_inputs: int, num_latents: int) -> Kernel:
    """The registered kernel of this name, for L GPs.

    >>> kernel_by_name("rbf", 3, 2).batch_shape
    torch.Size([2])
    """
    return registry.get("kernel", name).make(num_inputs, num_latents)


def own_kernel(kernel: object, x: Tensor) -> Kernel:
    """A copy of a GPyTorch kernel in the precision of x, after checking that it accepts such inputs.

    >>> own_kernel(gpytorch.kernels.MaternKernel(), torch.zeros(5, 3).double()).lengthscale.dtype
    torch.float64
    """
    if not isinstance(kernel, Kernel):
        raise ConfigError(f"kernel must be a gpytorch.kernels.Kernel; got {kernel!r}. Build one, or leave it out.")
    copy: Kernel = deepcopy(kernel).to(x)
    try:
        copy(x[:1]).to_dense()
    except (RuntimeError, IndexError) as error:
        raise ConfigError(
            f"kernel must take inputs of {x.shape[1]} columns; {type(kernel).__name__} does not: {error} "
            "Look at its ard_num_dims and active_dims."
        ) from error
    return copy


class ScaledRBF(gpytorch.kernels.ScaleKernel):  # type: ignore[misc]  # GPyTorch has no types
    """GPyTorch's scaled RBF with the same parameters, priors and constraints, by one fused Function."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **options: Any) -> Any:
        """s exp(−½ ‖(x₁ − x₂)/ℓ‖²)."""
        if diag or options.get("last_dim_is_batch"):
            return super().forward(x1, x2, diag=diag, **options)
        return scaled_rbf(x1, x2, self.base_kernel.lengthscale, self.outputscale)


class DeepKernel(Kernel):  # type: ignore[misc]  # GPyTorch has no types
    """A kernel on warped inputs x ⊙ (1 + net(x)): the paper's multiplicative form, near the identity at the start.

    Example:
        >>> kernel = DeepKernel(rbf(3, 2), num_inputs=3, generator=torch.Generator())
        >>> kernel(torch.zeros(5, 3)).to_dense().shape
        torch.Size([2, 5, 5])
    """

    def __init__(self, kernel: Kernel, num_inputs: int, generator: torch.Generator) -> None:
        super().__init__(batch_shape=kernel.batch_shape)
        self.kernel = kernel
        self.net = TanhNet(num_inputs, num_inputs, generator, output_scale=0.1)

    def warp(self, x: Tensor) -> Tensor:
        """x ⊙ (1 + net(x))."""
        warped: Tensor = x * (1 + self.net(x))
        return warped

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **options: Any) -> Any:
        """The inner kernel between warped inputs."""
        # By __call__, which respects the inner kernel's active_dims.
        covariance = self.kernel(self.warp(x1), self.warp(x2), diag=diag, **options)
        return covariance if diag else covariance.to_dense()
