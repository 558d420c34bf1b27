"""Observation noise that is Normal given its variance: one for all x, a net's, or Gaussian processes'."""

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.moments import Marginals, normal_log_density
from mogul.core.nets import TanhNet
from mogul.errors import ConfigError, require_positive
from mogul.heads.laws import LogNormalLaw, NoiseLaw, NormalLaw
from mogul.priors import IndependentGPs

# The least standard deviation of noise that may depend on x, as a share of an output's scale. Recorded values repeat,
# and where they do, a noise without a floor believes in them without limit.
NOISE_FLOOR = 1e-4


class Noise(nn.Module, ABC):
    """Noise of P outputs, in the units of the head. A subclass says what it depends on.

    Args:
        num_outputs: the number P of outputs.
        var: the variance's start.
        floor: a standard deviation that noise is never below, one for all outputs or one for each.
    """

    floor_var: Tensor
    varies: bool = False  # whether the law depends on x
    numbers_per_point: int = 0  # held for each point at work, beyond the law itself

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

    @abstractmethod
    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> NoiseLaw:
        """The law of the noise at x. The generator is for what is drawn in training."""

    def kl(self) -> Float[Tensor, ""]:
        """KL of latent variables held here: none."""
        return self.log_precision.new_zeros(())

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of what is estimated by MAP: nothing."""
        return self.log_precision.new_zeros(())


class ConstantNoise(Noise):
    """Independent Gaussian noise of precision β per output, the paper's.

    Example:
        >>> ConstantNoise(num_outputs=2, var=0.25).var
        tensor([0.2500, 0.2500], grad_fn=<AddBackward0>)
    """

    @property
    def var(self) -> Float[Tensor, "P"]:
        """The noise variance 1/β of each output, with its floor."""
        return self._law().var

    def forward(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> NormalLaw:
        """The same everywhere."""
        return self._law()

    def _law(self) -> NormalLaw:
        return NormalLaw(self.log_precision, torch.zeros_like(self.log_precision), self.floor_var)


class NetNoise(Noise):
    """Independent Gaussian noise whose log variance is a net's, with two hidden layers of 50 tanh units.

    It starts at the same variance everywhere. A net says something far from the data, too, without knowing: see
    `GPNoise`.

    Args:
        num_inputs: the number D of inputs.
        num_outputs: the number P of outputs.
        generator: draws the start.
        var: the variance's start.
        floor: the least standard deviation, of all outputs or of each.
        weight_scale: standard deviation of the Normal prior on the weights.

    Example:
        >>> noise = NetNoise(num_inputs=3, num_outputs=2, generator=torch.Generator())
        >>> noise(torch.zeros(5, 3), torch.Generator()).var.shape
        torch.Size([5, 2])
    """

    varies = True

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


class GPNoise(Noise):
    """Gaussian noise whose log variances mix a few sparse GPs: g(x) = W F(x) − log β, back to its prior far from data.

    Args:
        gps: the latent GPs F, with zero means: the level is theirs.
        num_outputs: the number P of outputs.
        generator: draws the start of W.
        var: the variance's start.
        floor: the least standard deviation, of all outputs or of each.
        weight_scale: standard deviation of the Normal prior on W.

    Example:
        >>> from mogul.priors import rbf
        >>> gps = IndependentGPs(rbf(3, 2), torch.randn(10, 3), num_latents=2, mean="zero")
        >>> GPNoise(gps, num_outputs=4, generator=torch.Generator())(torch.zeros(5, 3), torch.Generator()).var.shape
        torch.Size([5, 4])
    """

    varies = True

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
        """Of the weights, and of priors registered on the kernels."""
        return self.gps.log_prior() + normal_log_density(self.weights, self.weight_scale)
