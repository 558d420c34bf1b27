"""Gaussian noise whose log variance is a neural net of x."""

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.core.nets import TanhNet
from mogul.heads.noise.base import NOISE_FLOOR, Noise, NoiseParts
from mogul.heads.noise.laws import NormalLaw
from mogul.registry import register_noise


@register_noise("net", "Gaussian, with a log variance by a neural net of x.")
class NetNoise(Noise):
    """Independent Gaussian noise whose log variance is a net with two hidden layers of 50 tanh units.

    The initial variance is constant. A net extrapolates without uncertainty far from the data: see `GPNoise`.

    Args:
        num_inputs: the number D of inputs.
        num_outputs: the number P of outputs.
        generator: draws the start.
        var: initial variance.
        floor: least standard deviation, for all outputs or for each.
        weight_scale: standard deviation of the Normal prior on the weights.

    Example:
        >>> noise = NetNoise(num_inputs=3, num_outputs=2, generator=torch.Generator())
        >>> noise(torch.zeros(5, 3), torch.Generator()).var.shape
        torch.Size([5, 2])
    """

    varies = solved_by_exact_gps = True

    @classmethod
    def from_parts(cls, parts: NoiseParts) -> Noise:
        """A net of all inputs."""
        return cls(parts.x.shape[1], parts.num_outputs, parts.generator, floor=parts.noise_floor(NOISE_FLOOR))

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        generator: torch.Generator,
        *,
        var: float = 1.0,
        floor: float | Float[Tensor, "P"] = NOISE_FLOOR,
        weight_scale: float = 1.0,
    ) -> None:
        super().__init__(num_outputs, var=var, floor=floor)
        # The level is the output's bias.
        self.net = TanhNet(
            num_inputs, num_outputs, generator, output_scale=0.01, output_bias=False, weight_scale=weight_scale
        )

    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> NormalLaw:
        """log var = net(x) − log β."""
        return NormalLaw(self.log_precision, self.net(x, generator), self.floor_var)

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of the weights."""
        return self.net.log_prior()
