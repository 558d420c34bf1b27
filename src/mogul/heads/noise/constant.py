"""Gaussian noise of one variance for all x: the paper's."""

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.heads.noise.base import Noise, NoiseParts
from mogul.heads.noise.laws import NormalLaw
from mogul.registry import register_noise


@register_noise("constant", "Gaussian, one variance per output: the paper's.")
class ConstantNoise(Noise):
    """Independent Gaussian noise of precision β per output, the paper's.

    Example:
        >>> ConstantNoise(num_outputs=2, var=0.25).var
        tensor([0.2500, 0.2500], grad_fn=<AddBackward0>)
    """

    solved_by_exact_gps = True

    @classmethod
    def from_parts(cls, parts: NoiseParts) -> Noise:
        """Without a floor unless requested."""
        return cls(parts.num_outputs, floor=parts.noise_floor(0.0))

    @property
    def var(self) -> Float[Tensor, "P"]:
        """The noise variance 1/β of each output, with its floor."""
        return self._law().var

    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> NormalLaw:
        """The same everywhere."""
        return self._law()

    def _law(self) -> NormalLaw:
        return NormalLaw(self.log_precision, torch.zeros_like(self.log_precision), self.floor_var)
