"""Symmetric matrices as a diagonal and the entries above it: each pair of features once.

Members of pairs are picked by products with 0/1 matrices, which are exact: on a CPU, gradients of indexing cost more.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def selectors(size: int, like: Tensor) -> tuple[Float[Tensor, "H Q"], Float[Tensor, "H Q"]]:
    """0/1 matrices: values @ each gives the first and the second member of every pair.

    >>> first, second = selectors(3, torch.zeros(1))
    >>> torch.arange(3.0) @ first, torch.arange(3.0) @ second
    (tensor([0., 0., 1.]), tensor([1., 2., 2.]))
    """
    first, second = torch.triu_indices(size, size, offset=1, device=like.device)
    identity = torch.eye(size, dtype=like.dtype, device=like.device)
    return identity[:, first], identity[:, second]


def take_apart(matrix: Float[Tensor, "*S H H"]) -> tuple[Float[Tensor, "*S H"], Float[Tensor, "*S Q"]]:
    """The diagonal, and the entries above it row by row."""
    size = matrix.shape[-1]
    first, second = torch.triu_indices(size, size, offset=1, device=matrix.device)
    return matrix.diagonal(dim1=-2, dim2=-1), matrix[..., first, second]


def assemble(diagonal: Float[Tensor, "*S H"], pairs: Float[Tensor, "*S Q"]) -> Float[Tensor, "*S H H"]:
    """The symmetric matrix with this diagonal and these entries above and below it.

    >>> assemble(torch.ones(2), torch.tensor([0.5]))
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]])
    """
    size = diagonal.shape[-1]
    first, second = torch.triu_indices(size, size, offset=1, device=diagonal.device)
    place = torch.empty(size, size, dtype=torch.long, device=diagonal.device)
    place.diagonal().copy_(torch.arange(size))
    place[first, second] = place[second, first] = size + torch.arange(len(first), device=diagonal.device)
    # By index: a 0/1 matrix would have H⁴/2 entries.
    entries = torch.cat([diagonal, pairs], dim=-1).index_select(-1, place.flatten())
    return entries.reshape(*diagonal.shape, size)
