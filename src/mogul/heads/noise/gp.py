"""Gaussian noise whose log variance at x mixes a few sparse GPs."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.moments import Marginals, normal_log_density
from mogul.heads.noise.base import NOISE_FLOOR, Noise, NoiseParts
from mogul.heads.noise.laws import LogNormalLaw
from mogul.priors import IndependentGPs, kmeans, randomise, rbf
from mogul.registry import Option, positive, register_noise

_GPS = "head.noise.gps.variational_mean"


def _numbers(sizes: Mapping[str, Any]) -> int:
    """Roots of q(u), or the weights W."""
    return int(sizes["num_noise_latents"] * max(sizes["num_noise_inducing"] ** 2, sizes["num_outputs"]))


@register_noise(
    "gp",
    "Gaussian, with a log variance by GPs of x.",
    {
        "num_noise_latents": Option(
            "The number of GPs of gp and gp-student-t noise; ⌈P/2⌉.",
            lambda parts: math.ceil(parts.num_outputs / 2),
            positive,
            stored=(_GPS, 0),
            numbers=_numbers,
        ),
        "num_noise_inducing": Option("The number of their inducing points.", 100, positive, (_GPS, 1), rows=True),
    },
)
class GPNoise(Noise):
    """Gaussian noise whose log variances mix a few sparse GPs: g(x) = W F(x) − log β; far from data, the prior.

    Args:
        gps: the latent GPs F, with zero means; the level −log β is the mean.
        num_outputs: the number P of outputs.
        generator: draws the start of W.
        var: initial variance.
        floor: least standard deviation, for all outputs or for each.
        weight_scale: standard deviation of the Normal prior on W.

    Example:
        >>> from mogul.priors import rbf
        >>> gps = IndependentGPs(rbf(3, 2), torch.randn(10, 3), num_latents=2, mean="zero")
        >>> GPNoise(gps, num_outputs=4, generator=torch.Generator())(torch.zeros(5, 3), torch.Generator()).var.shape
        torch.Size([5, 4])
    """

    varies = solved_by_exact_gps = True

    @classmethod
    def from_parts(cls, parts: NoiseParts) -> Noise:
        """GPs with zero means; the initial noise is constant."""
        num_latents = parts.option("num_noise_latents")
        points = kmeans(parts.x, parts.option("num_noise_inducing"), parts.generator)
        kernel = rbf(parts.x.shape[1], num_latents, ard=not parts.latent)
        gps = IndependentGPs(kernel, points, num_latents, mean="zero", solver=parts.option("solver"))
        start = randomise(gps, parts.generator, spread=0.0, scale=0.1)
        return cls(start, parts.num_outputs, parts.generator, floor=parts.noise_floor(NOISE_FLOOR))

    def __init__(
        self,
        gps: IndependentGPs,
        num_outputs: int,
        generator: torch.Generator,
        *,
        var: float = 1.0,
        floor: float | Float[Tensor, "P"] = NOISE_FLOOR,
        weight_scale: float = 1.0,
    ) -> None:
        super().__init__(num_outputs, var=var, floor=floor)
        self.gps = gps
        self.numbers_per_point = gps.variational_mean.numel()
        self.weight_scale = weight_scale
        start = torch.randn(num_outputs, gps.num_latents, generator=generator) / gps.num_latents**0.5
        self.weights = nn.Parameter(start)

    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> LogNormalLaw:
        """Mean and variance of g(x), relative to −log β."""
        q: Marginals = self.gps(x, 1, generator)
        return LogNormalLaw(
            self.log_precision, q.mean @ self.weights.T, self.floor_var, q.var @ self.weights.square().T
        )

    def kl(self) -> Float[Tensor, ""]:
        """KL of the GPs."""
        return self.gps.kl()

    def log_prior(self) -> Float[Tensor, ""]:
        """Log density of the weights and of priors registered on the kernels."""
        return self.gps.log_prior() + normal_log_density(self.weights, self.weight_scale)
