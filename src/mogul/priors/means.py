"""Mean functions of latent GPs."""

from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.errors import unknown_name

MeanName = Literal["zero", "constant", "linear"]


@runtime_checkable
class Mean(Protocol):
    """A function from inputs to the means of L GPs."""

    def __call__(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N L"]:
        """The prior mean at x."""
        ...


class ConstantMean(nn.Module):
    """A constant per GP: learnt, or zero for good."""

    constant: Tensor

    def __init__(self, start: Float[Tensor, "L"], *, learnt: bool = True) -> None:
        super().__init__()
        if learnt:
            self.constant = nn.Parameter(start.detach().clone())
        else:
            self.register_buffer("constant", start)

    def forward(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N L"]:
        """The same everywhere."""
        return self.constant.expand(*x.shape[:-1], -1)


class LinearMean(nn.Module):
    """x W, for the inner layers of a deep GP: a layer that starts as a projection loses nothing.

    Args:
        weights: (D, L), where the learnt matrix starts; `principal_directions` is a good choice.
    """

    def __init__(self, weights: Float[Tensor, "D L"]) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights.detach().clone())

    def forward(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N L"]:
        """x W."""
        return x @ self.weights


def principal_directions(x: Float[Tensor, "N D"], num_latents: int) -> Float[Tensor, "D L"]:
    """The leading principal directions of x as columns; zero columns where L > D.

    >>> principal_directions(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), 1).abs()
    tensor([[1.],
            [0.]])
    """
    num_inputs = x.shape[-1]
    # All D directions, without a matrix of N × N.
    directions = torch.linalg.svd(x - x.mean(0), full_matrices=len(x) < num_inputs).Vh.T[:, :num_latents]
    return torch.nn.functional.pad(directions, (0, num_latents - min(num_latents, num_inputs)))


def mean_by_name(name: MeanName, x: Float[Tensor, "N D"], num_latents: int) -> Mean:
    """The mean function of this name for L GPs on inputs like x."""
    match name:
        case "zero":
            return ConstantMean(x.new_zeros(num_latents), learnt=False)
        case "constant":
            return ConstantMean(x.new_zeros(num_latents))
        case "linear":
            return LinearMean(principal_directions(x, num_latents))
        case _:
            raise unknown_name("mean", name, get_args(MeanName))
