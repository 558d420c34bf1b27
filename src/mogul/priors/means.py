"""Mean functions of latent GPs."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul import registry
from mogul.registry import register_mean


@runtime_checkable
class Mean(Protocol):
    """A function from inputs to the means of L GPs."""

    def __call__(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N L"]:
        """The prior mean at x."""
        ...


class ConstantMean(nn.Module):
    """A constant per GP: learnt, or fixed at zero."""

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
    """x W, for the inner layers of a deep GP, which start as a projection of their inputs.

    Args:
        weights: (D, L), the initial value of W; `principal_directions` is a good choice.
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
    # All D directions, without an N × N matrix.
    directions = torch.linalg.svd(x - x.mean(0), full_matrices=len(x) < num_inputs).Vh.T[:, :num_latents]
    return torch.nn.functional.pad(directions, (0, num_latents - min(num_latents, num_inputs)))


def mean_by_name(name: str, x: Float[Tensor, "N D"], num_latents: int) -> Mean:
    """The mean function of this name for L GPs on inputs like x."""
    mean: Mean = registry.get("mean", name).make(x, num_latents)
    return mean


@register_mean("zero", "Zero.")
def zero(x: Float[Tensor, "N D"], num_latents: int) -> ConstantMean:
    """Zero for good."""
    return ConstantMean(x.new_zeros(num_latents), learnt=False)


@register_mean("constant", "A learnt constant per GP.")
def constant(x: Float[Tensor, "N D"], num_latents: int) -> ConstantMean:
    """A learnt constant that starts at zero."""
    return ConstantMean(x.new_zeros(num_latents))


@register_mean("linear", "A learnt linear map of the inputs.")
def linear(x: Float[Tensor, "N D"], num_latents: int) -> LinearMean:
    """A learnt linear map that starts at principal directions."""
    return LinearMean(principal_directions(x, num_latents))
