"""Base class of observation noise: a level per output, a floor, and a law at each x."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.errors import ConfigError, require_positive
from mogul.heads.noise.laws import NoiseLaw

# Least standard deviation of noise that depends on x, as a share of an output's scale. Without a floor, the noise
# variance goes to zero where recorded values repeat.
NOISE_FLOOR = 1e-4


@runtime_checkable
class NoiseParts(Protocol):
    """What a noise is built from: see `mogul.models.parts.Parts`."""

    x: Tensor  # standardised training inputs (N, D), or the start of latent inputs
    num_outputs: int
    latent: bool  # whether inputs are latent
    generator: torch.Generator  # draws the random start

    def option(self, name: str) -> Any:
        """The given value of an option, or its default."""
        ...

    def noise_floor(self, default: float) -> Float[Tensor, "P"]:
        """The requested or default floor, converted from a share of an output's scale to the head's units."""
        ...


class Noise(nn.Module, ABC):
    """Noise of P outputs, in the units of the head. Subclasses define how it depends on x.

    A user's noise defines `forward` and registers itself: see docs/howto/add_a_noise.md.

    Args:
        num_outputs: the number P of outputs.
        var: initial variance.
        floor: least standard deviation, for all outputs or for each.
    """

    floor_var: Tensor
    varies: ClassVar[bool] = False  # whether the law depends on x
    # Whether an exact GP for each output determines all its parameters; else it is trained from there.
    solved_by_exact_gps: ClassVar[bool] = False
    numbers_per_point: int = 0  # in memory per point during computation, beyond the law itself

    def __init__(self, num_outputs: int, *, var: float = 1.0, floor: float | Float[Tensor, "P"] = 0.0) -> None:
        super().__init__()
        require_positive(num_outputs=num_outputs)
        if not var > 0:
            raise ConfigError(f"var must be positive; got {var}. 1 suits standardised outputs.")
        self.num_outputs = num_outputs
        self.log_precision = nn.Parameter(torch.full((num_outputs,), -math.log(var)))
        least = floor if isinstance(floor, Tensor) else torch.tensor(float(floor))
        if not bool((least >= 0).all()):
            raise ConfigError(f"floor must be 0 or more; got {floor}. {NOISE_FLOOR} is a share of an output's scale.")
        self.register_buffer("floor_var", least.square().expand(num_outputs).clone(), persistent=False)

    @classmethod
    def from_parts(cls, parts: NoiseParts) -> "Noise":
        """The initial noise, with its options."""
        return cls(parts.num_outputs, floor=parts.noise_floor(NOISE_FLOOR))

    def start_tails(self, dof: Sequence[float | None]) -> None:
        """Set initial degrees of freedom of each output (None for Normal noise), if the law has any."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> NoiseLaw:
        """The law of the noise at x. The generator is for draws in training."""

    def kl(self) -> Float[Tensor, ""]:
        """KL of the noise's latent variables: zero by default."""
        return self.log_precision.new_zeros(())

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of parameters estimated by MAP: zero by default."""
        return self.log_precision.new_zeros(())
