"""The small neural nets of mixing, noise and deep kernels."""

from itertools import pairwise, zip_longest

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.moments import normal_log_density
from mogul.errors import ConfigError, require_positive


class TanhNet(nn.Module):
    """Hidden layers of tanh units and a linear output, started by an explicit generator.

    Args:
        num_inputs: size of the input.
        num_outputs: size of the output.
        generator: draws the weights.
        hidden: sizes of the hidden layers; the paper's are two of 50.
        output_scale: factor on the initial weights of the last layer; with a small one the net starts near zero.
        output_bias: whether the last layer has biases.
        dropout: share of hidden units dropped in training.
        weight_scale: standard deviation of the Normal prior on the weights (not on the biases).

    Example:
        >>> TanhNet(3, 2, torch.Generator())(torch.zeros(5, 3), torch.Generator()).shape
        torch.Size([5, 2])
    """

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        generator: torch.Generator,
        *,
        hidden: tuple[int, ...] = (50, 50),
        output_scale: float = 1.0,
        output_bias: bool = True,
        dropout: float = 0.0,
        weight_scale: float = 1.0,
    ) -> None:
        super().__init__()
        sizes = (num_inputs, *hidden, num_outputs)
        require_positive(**{f"size of layer {number}": size for number, size in enumerate(sizes)})
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout must be in [0, 1); got {dropout}. 0 turns it off.")
        self.dropout = dropout
        self.weight_scale = weight_scale
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            factor = output_scale if len(self.weights) == len(hidden) else 1.0
            self.weights.append(factor / fan_in**0.5 * torch.randn(fan_out, fan_in, generator=generator))
            if output_bias or len(self.weights) <= len(hidden):
                self.biases.append(torch.zeros(fan_out))

    def forward(self, x: Float[Tensor, "*S N D"], generator: torch.Generator | None = None) -> Float[Tensor, "*S N K"]:
        """The net's value; the generator draws dropped units, in training mode only."""
        *inner, last = zip_longest(self.weights, self.biases)
        for weight, bias in inner:
            x = self._drop(torch.tanh(nn.functional.linear(x, weight, bias)), generator)
        return nn.functional.linear(x, *last)

    def log_prior(self) -> Float[Tensor, ""]:
        """log N(weights | 0, weight_scale²): L2 regularisation as a proper prior."""
        return torch.stack([normal_log_density(weight, self.weight_scale) for weight in self.weights]).sum()

    def _drop(self, units: Tensor, generator: torch.Generator | None) -> Tensor:
        if not (self.training and self.dropout and generator is not None):
            return units
        kept = torch.rand(units.shape, generator=generator, dtype=units.dtype, device=units.device) >= self.dropout
        return units * kept / (1 - self.dropout)
