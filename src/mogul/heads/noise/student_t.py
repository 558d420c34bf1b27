"""Student-t noise, for outputs with outliers: with a constant scale, or a scale by GPs of x."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mogul.core.moments import Marginals, normal_log_density
from mogul.core.scale_mixture import LogScale
from mogul.errors import ConfigError
from mogul.heads.noise.base import NOISE_FLOOR, Noise
from mogul.heads.noise.gp import GPNoise
from mogul.heads.noise.laws import LogNormalLaw, Nodes, NormalLaw
from mogul.priors import IndependentGPs
from mogul.registry import register_noise

# Grid of log λ for draws, evenly spaced: step and range in units of (ν/2)^{-1/2}, the order of its standard deviation.
# To the left the density falls slowly: outliers of 400 scales are still drawn at ν = 2.
_STEP, _LEFT, _RIGHT = 0.8, 12.0, 4.8
_LOG_SPARE_DOF, _LOG_SPARE_SCALE = math.log(5.0), 1.0  # mean and scale of log(ν − 2): ν from 3 to 40
# Initial degrees of freedom where noise looks Normal; with fewer, its variance would exceed the exact GP's.
_NORMAL_DOF = 50.0
_WEIGHT_STEPS = 12  # seven digits, except where the noise is as small as its floor


@dataclass(frozen=True)
class StudentTLaw(NormalLaw):
    """Student-t noise above a Normal floor: the variance is e^relative/(βλ) + f² with λ ~ Gamma(ν/2, ν/2).

    Each observed output has a q(λ). Without a floor its optimum is Gamma((ν + 1)/2, (ν + d)/2) for d = P R, where
    P = β e^−relative and R = (y − m)² + v, and the expected log density less its KL is the log density of Student's t
    at √d. With a floor, Jensen's inequality, as in `LogNormalLaw`, bounds the loss, for x = E λ, by the concave

        h(x) = ½ (log(1 + f² P x) + P R x/(1 + f² P x))

    and the tangent of −h at any x is a bound whose optimal q(λ) is Gamma((ν + 1)/2, ν/2 + h′(x)). The best x is its
    mean.
    """

    dof: Float[Tensor, "P"]

    @property
    def var(self) -> Float[Tensor, "*T P"]:
        """E e^relative/β ν/(ν − 2) + f²."""
        return (super().var - self.floor_var) * self.dof / (self.dof - 2) + self.floor_var

    def expected_log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """log E √λ e^−h′(x)λ − h(x) + x h′(x) − ½ (log 2π + relative − log β), over the observed outputs."""
        square, shape = (y - signal.mean).square() + signal.var, 0.5 * self.dof
        precision = torch.exp(self._log_mean_precision())
        weight = self._mean_weight(square, precision)
        floored = 1 + self.floor_var * precision * weight
        slope = self._slope(weight, square, precision)
        lost = 0.5 * (floored.log() + precision * square * weight / floored) - weight * slope
        log_mean = _log_gamma_ratio(self.dof) - 0.5 * shape.log() - (shape + 0.5) * torch.log1p(slope / shape)
        log_density = log_mean - lost - 0.5 * (math.log(2 * math.pi) + self.relative - self.log_precision)
        return (log_density * observed).sum(-1)

    def misfit(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N P"]:
        """E λ ((y − m)² + v) over e^relative, minus the part explained by the floor: outliers have less weight."""
        square = (y - signal.mean).square() + signal.var
        precision = torch.exp(self._log_mean_precision())
        weight = self._mean_weight(square, precision)
        return 2 * weight * self._slope(weight, square, precision) * torch.exp(-self.log_precision)

    def draw_var(self, shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "*S P"]:
        """Draws of λ, and of `relative` where it is random."""
        unfloored = super().draw_var(shape, generator) - self.floor_var
        return unfloored * self._inverse_gammas().draw(shape, generator) + self.floor_var

    def variance_nodes(self) -> Nodes:
        """All pairs of a value without heavy tails and a value of 1/λ."""
        own, tails = self.nodes(), self._inverse_gammas()
        # (K, 1, *T, P) beside (1, J, 1…, P)
        shape = (1, len(tails.value), *(1,) * (own.value.dim() - 2), tails.value.shape[-1])
        unfloored = (own.value - self.floor_var).unsqueeze(1) * tails.value.reshape(shape)
        log_weight = own.log_weight.unsqueeze(1) + tails.log_weight.reshape(shape)
        return Nodes((unfloored + self.floor_var).flatten(0, 1), log_weight.flatten(0, 1))

    def log_scale(self) -> LogScale:
        """relative − log β − log λ."""
        center = self.relative - self.log_precision
        return LogScale(center, self._spread(), self.floor_var, 0.5 * self.dof)

    def _spread(self) -> Float[Tensor, "*T P"]:
        """The variance of `relative`."""
        return torch.zeros_like(self.relative)

    @torch.no_grad()
    def _mean_weight(
        self, square: Float[Tensor, "*S N P"], precision: Float[Tensor, "*T P"]
    ) -> Float[Tensor, "*S N P"]:
        """x = E λ at its optimum. Each step raises the bound; without a floor, one step suffices."""
        weight = (self.dof + 1) / (self.dof + precision * (square + self.floor_var))
        for _ in range(_WEIGHT_STEPS if bool((self.floor_var > 0).any()) else 0):
            weight = (self.dof + 1) / (self.dof + 2 * self._slope(weight, square, precision))
        return weight

    def _slope(
        self,
        weight: Float[Tensor, "*S N P"],
        square: Float[Tensor, "*S N P"],
        precision: Float[Tensor, "*T P"],
    ) -> Float[Tensor, "*S N P"]:
        """h′(x)."""
        floored = 1 + self.floor_var * precision * weight
        return 0.5 * precision * (self.floor_var + square / floored) / floored

    def _inverse_gammas(self) -> Nodes:
        """Values of 1/λ on an evenly spaced grid of log λ."""
        shape = 0.5 * self.dof.double()
        # By NumPy, so that it is a constant where a program is traced.
        steps = torch.as_tensor(np.arange(-_LEFT, _RIGHT, _STEP), dtype=shape.dtype, device=shape.device).unsqueeze(-1)
        log_scale = steps / shape.sqrt()
        log_weight = torch.log_softmax(shape * (log_scale - torch.expm1(log_scale)), 0)
        return Nodes(torch.exp(-log_scale).to(self.dof), log_weight.to(self.dof))


@dataclass(frozen=True)
class LogNormalStudentTLaw(StudentTLaw, LogNormalLaw):
    """The same where `relative` is Normal with the variance `spread`, as in `LogNormalLaw`: P = E β e^−relative."""

    def _spread(self) -> Float[Tensor, "*T P"]:
        return self.spread


class HeavyTailed(Noise):
    """Noise with degrees of freedom ν > 2, learnt for each output."""

    solved_by_exact_gps = True
    log_spare_dof: nn.Parameter

    @property
    def dof(self) -> Float[Tensor, "P"]:
        """Degrees of freedom ν of each output."""
        return 2 + torch.exp(self.log_spare_dof)

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density: log(ν − 2) is Normal. Few rows cannot rule out a nearly infinite variance."""
        return super().log_prior() + normal_log_density(self.log_spare_dof - _LOG_SPARE_DOF, _LOG_SPARE_SCALE)

    def start_tails(self, dof: Sequence[float | None]) -> None:
        """Set initial degrees of freedom: many where noise looks Normal."""
        start = [math.log((each or _NORMAL_DOF) - 2) for each in dof]
        self.log_spare_dof.data.copy_(torch.tensor(start, dtype=torch.float64))

    def _start_dof(self, dof: float) -> None:
        if not dof > 2:
            raise ConfigError(f"dof must be above 2, or there is no variance; got {dof}. Try 10.")
        self.log_spare_dof = nn.Parameter(torch.full((self.num_outputs,), math.log(dof - 2)))


@register_noise("student-t", "Student-t, for outliers: heavy tails, one scale per output.")
class StudentTNoise(HeavyTailed):
    """Student-t noise with scale and degrees of freedom ν > 2 learnt for each output.

    Args:
        num_outputs: the number P of outputs.
        var: initial squared scale.
        dof: initial degrees of freedom.
        floor: least scale, for all outputs or for each.

    Example:
        >>> StudentTNoise(num_outputs=2, dof=4.0)(torch.zeros(5, 3), torch.Generator()).var.detach()
        tensor([2., 2.])
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
        self._start_dof(dof)

    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> StudentTLaw:
        """The same everywhere."""
        return StudentTLaw(self.log_precision, torch.zeros_like(self.log_precision), self.floor_var, self.dof)


@register_noise("gp-student-t", "Student-t, with a log scale by GPs of x: the options of gp.")
class GPStudentTNoise(HeavyTailed, GPNoise):
    """Student-t noise whose log squared scale is given by GPs of x, as in `GPNoise`.

    Args:
        gps: the latent GPs F of the log scale, with zero means.
        num_outputs: the number P of outputs.
        generator: draws the start of W.
        var: initial squared scale.
        dof: initial degrees of freedom.
        floor: least scale, for all outputs or for each.
        weight_scale: standard deviation of the Normal prior on W.

    Example:
        >>> from mogul.priors import rbf
        >>> gps = IndependentGPs(rbf(3, 2), torch.randn(10, 3), num_latents=2, mean="zero")
        >>> noise = GPStudentTNoise(gps, num_outputs=4, generator=torch.Generator())
        >>> noise(torch.zeros(5, 3), torch.Generator()).var.shape
        torch.Size([5, 4])
    """

    def __init__(
        self,
        gps: IndependentGPs,
        num_outputs: int,
        generator: torch.Generator,
        *,
        var: float = 1.0,
        dof: float = 10.0,
        floor: float | Float[Tensor, "P"] = NOISE_FLOOR,
        weight_scale: float = 1.0,
    ) -> None:
        super().__init__(gps, num_outputs, generator, var=var, floor=floor, weight_scale=weight_scale)
        self._start_dof(dof)

    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> LogNormalStudentTLaw:
        """The law of `GPNoise` with heavy tails."""
        scale = super().forward(x, generator)
        return LogNormalStudentTLaw(
            scale.log_precision, scale.relative, scale.floor_var, spread=scale.spread, dof=self.dof
        )


def _log_gamma_ratio(dof: Float[Tensor, "P"]) -> Float[Tensor, "P"]:
    """log Γ((ν + 1)/2) − log Γ(ν/2), in float64: for many degrees of freedom the two nearly cancel."""
    half = 0.5 * dof.double()
    return (torch.lgamma(half + 0.5) - torch.lgamma(half)).to(dof)
