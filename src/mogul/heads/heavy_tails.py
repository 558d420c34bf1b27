"""Student-t noise, for outputs with outliers."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mogul.errors import ConfigError
from mogul.heads.laws import Nodes, ScaleMixtureLaw, own_square
from mogul.heads.noise import NOISE_FLOOR, Noise
from mogul.marginals import Marginals

# The trapezoidal rule in log λ, whose error falls exponentially: step and range in units of (ν/2)^{-1/2}, the order of
# its standard deviation. To the left the density falls slowly: outliers of 400 scales are still seen at ν = 2.
_STEP, _LEFT, _RIGHT = 0.8, 12.0, 4.8


@dataclass(frozen=True)
class StudentTLaw(ScaleMixtureLaw):
    """Student-t noise of scale s, s² = 1/β + f², as Normal noise of variance s²/λ with λ ~ Gamma(ν/2, ν/2).

    With q(λ) at its optimum, Gamma((ν + 1)/2, (ν + d)/2) for d = ((y − m)² + v)/s², the expected log density of a row
    less the KL of its λ is the log density of Student's t at √d.
    """

    log_precision: Float[Tensor, "P"]
    dof: Float[Tensor, "P"]
    floor_var: Float[Tensor, "P"]

    @property
    def var(self) -> Float[Tensor, "P"]:
        """s² ν/(ν − 2)."""
        return self._square_scale() * self.dof / (self.dof - 2)

    def expected_log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """log t(√d | ν) − log s, over the observed outputs."""
        square_scale = self._square_scale()
        distance = ((y - signal.mean).square() + signal.var) / square_scale
        constant = _log_gamma_ratio(self.dof) - 0.5 * torch.log(math.pi * self.dof * square_scale)
        log_density = constant - 0.5 * (self.dof + 1) * torch.log1p(distance / self.dof)
        return (log_density * observed).sum(-1)

    def misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """E λ ((y − m)² + v), less what the floor explains of it."""
        square = (y - signal.mean).square() + signal.var
        weight = (self.dof + 1) / (self.dof + square / self._square_scale())
        return own_square(weight * square, 1 / (1 + self.floor_var * torch.exp(self.log_precision)), self.floor_var)

    def nodes(self) -> Nodes:
        """Values of 1/λ on a grid that is even in log λ."""
        shape = 0.5 * self.dof.double()
        steps = torch.arange(-_LEFT, _RIGHT, _STEP, dtype=shape.dtype, device=shape.device).unsqueeze(-1)
        # The rule is as good on any grid of this kind, so that nothing is lost by not learning from the grid itself.
        log_scale = steps / shape.detach().sqrt()
        log_weight = torch.log_softmax(shape * (log_scale - torch.expm1(log_scale)), 0)
        factor = torch.exp(-log_scale).to(self.dof)
        return Nodes(factor, factor * self.floor_var, log_weight.to(self.dof))

    def _square_scale(self) -> Float[Tensor, "P"]:
        return torch.exp(-self.log_precision) + self.floor_var


class StudentTNoise(Noise):
    """Student-t noise with its scale and its degrees of freedom ν > 2 learnt for each output.

    Args:
        num_outputs: the number P of outputs.
        var: the squared scale's start.
        dof: the start of the degrees of freedom.
        floor: the least scale, of all outputs or of each.

    Example:
        >>> StudentTNoise(num_outputs=2, dof=4.0)(torch.zeros(5, 3), torch.Generator()).var
        tensor([2., 2.], grad_fn=<DivBackward0>)
    """

    def __init__(
        self,
        num_outputs: int,
        *,
        var: float = 1.0,
        dof: float = 10.0,
        floor: float | Float[Tensor, "P"] = NOISE_FLOOR,
    ) -> None:
        super().__init__(num_outputs, var=var, floor=floor)
        if not dof > 2:
            raise ConfigError(f"dof must be above 2, or there is no variance; got {dof}. Try 10.")
        self.log_spare_dof = nn.Parameter(torch.full((num_outputs,), math.log(dof - 2)))

    @property
    def dof(self) -> Float[Tensor, "P"]:
        """Degrees of freedom ν of each output."""
        return 2 + torch.exp(self.log_spare_dof)

    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> StudentTLaw:
        """The same everywhere."""
        return StudentTLaw(self.log_precision, self.dof, self.floor_var)


def _log_gamma_ratio(dof: Float[Tensor, "P"]) -> Float[Tensor, "P"]:
    """log Γ((ν + 1)/2) − log Γ(ν/2), in float64: for many degrees of freedom the two nearly cancel."""
    half = 0.5 * dof.double()
    return (torch.lgamma(half + 0.5) - torch.lgamma(half)).to(dof)
