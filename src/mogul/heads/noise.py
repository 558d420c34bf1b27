"""Observation noise."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mogul.errors import ConfigError, require_positive
from mogul.marginals import Marginals


class GaussianNoise(nn.Module):
    """Independent Gaussian noise of precision β per output, the paper's.

    Example:
        >>> GaussianNoise(num_outputs=2, var=0.25).var
        tensor([0.2500, 0.2500], grad_fn=<ExpBackward0>)
    """

    def __init__(self, num_outputs: int, var: float = 1.0) -> None:
        super().__init__()
        require_positive(num_outputs=num_outputs)
        if not var > 0:
            raise ConfigError(f"var must be positive; got {var}. 1 suits standardised outputs.")
        self.log_precision = nn.Parameter(torch.full((num_outputs,), -math.log(var)))

    @property
    def var(self) -> Float[Tensor, "P"]:
        """The noise variance 1/β of each output."""
        return torch.exp(-self.log_precision)

    def expected_log_density(
        self, y: Float[Tensor, "N P"], observed: Bool[Tensor, "N P"], signal: Marginals
    ) -> Float[Tensor, "*S N"]:
        """E log N(y | Φ, 1/β) per datapoint, over the observed outputs: Eq. (regressorell).

        Missing outputs must hold a finite stand-in: what is multiplied by zero must have a gradient.
        """
        misfit = (y - signal.mean).square() + signal.var
        log_density = 0.5 * (self.log_precision - math.log(2 * math.pi) - torch.exp(self.log_precision) * misfit)
        return (log_density * observed).sum(-1)
