"""Kernels: any of GPyTorch's; the paper's by default."""

import gpytorch
import torch


def rbf(num_inputs: int, num_latents: int, *, ard: bool = True) -> gpytorch.kernels.Kernel:
    """L scaled RBF kernels, with a lengthscale per input (regression) or one for all (latent inputs).

    Lengthscales start at √D: for standardised inputs that is the order of the distance between two points.

    >>> rbf(3, 2)(torch.zeros(5, 3)).to_dense().shape
    torch.Size([2, 5, 5])
    """
    batch = torch.Size([num_latents])
    base = gpytorch.kernels.RBFKernel(ard_num_dims=num_inputs if ard else None, batch_shape=batch)
    base.lengthscale = float(num_inputs) ** 0.5
    kernel = gpytorch.kernels.ScaleKernel(base, batch_shape=batch)
    kernel.outputscale = 1.0
    return kernel
