"""What a model adds its head to: nothing, or a least-squares plane whose residual the head then models."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.arrays import Array
from mogul.errors import ConfigError
from mogul.marginals import Marginals

# The head's unit, in standard deviations of an output, where a plane fits better than this: below it is rounding.
SMALLEST_RESIDUAL = 1e-4


class OutputMean(nn.Module, ABC):
    """y = mean(x) + scale ∘ (what the head says): the head works on residuals of unit size."""

    scale: Tensor

    @abstractmethod
    def forward(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"]:
        """mean(x), for standardised x."""

    def residual(self, y: Float[Tensor, "N P"], x: Float[Tensor, "N _"]) -> Float[Tensor, "N P"]:
        """From outputs to the head's units."""
        return (y - self.forward(x)) / self.scale

    def restore(self, signal: Marginals, x: Float[Tensor, "*S N _"]) -> Marginals:
        """From the head's units to outputs."""
        mean, var = self.forward(x) + self.scale * signal.mean, self.scale.square() * signal.var
        return Marginals(mean, var, log_weight=signal.log_weight)


class ZeroMean(OutputMean):
    """None: the head models the outputs themselves, as the paper's models do."""

    zero: Tensor

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(num_outputs))
        self.register_buffer("zero", torch.zeros(num_outputs), persistent=False)

    def forward(self, x: Float[Tensor, "*S N _"]) -> Float[Tensor, "N P"]:
        """Zero everywhere."""
        return self.zero.expand(x.shape[-2], -1)


class LinearOutputMean(OutputMean):
    """x W + b by ridge regression, and the standard deviation of its residual, per output.

    Without that rescaling the plane would undo itself: a head of unit size drowns a residual of 1e-3.

    Example:
        >>> x = torch.arange(6.0)[:, None]
        >>> mean = LinearOutputMean.fit(x.double().numpy(), (2 * x + x % 2).double().numpy())
        >>> mean.double().forward(x.double()).shape
        torch.Size([6, 1])
    """

    weights: Tensor
    bias: Tensor

    def __init__(self, weights: Float[Tensor, "D P"], bias: Float[Tensor, "P"], scale: Float[Tensor, "P"]) -> None:
        super().__init__()
        self.register_buffer("weights", weights)
        self.register_buffer("bias", bias)
        self.register_buffer("scale", scale)

    @staticmethod
    def fit(x: Float[Array, "N D"], y: Float[Array, "N P"]) -> "LinearOutputMean":
        """Each output on the rows where it is observed (NaN is missing); the penalty by leave-one-out error.

        With rows to spare and inputs that differ the penalty is next to nothing, and this is least squares. With few
        rows it is at least so large that residuals of the rows trained on are like those of new ones.
        """
        import numpy as np
        from sklearn.linear_model import RidgeCV

        if not x.shape[1]:
            raise ConfigError("A linear mean needs inputs; there are none. Fit with mean='paper'.")
        weights, bias = np.zeros((x.shape[1], y.shape[1])), np.zeros(y.shape[1])
        scale = np.ones(y.shape[1])
        observed = ~np.isnan(y)
        # Outputs that are observed in the same rows share one decomposition.
        patterns, group = np.unique(observed, axis=1, return_inverse=True)
        for number, rows in enumerate(patterns.T):
            columns = np.flatnonzero(group == number)
            targets = y[np.ix_(rows, columns)]
            if rows.sum() < 3:
                bias[columns] = targets.mean(0) if rows.any() else 0.0
                continue
            plane = RidgeCV(_penalties(x[rows]), alpha_per_target=True).fit(x[rows], targets)
            weights[:, columns], bias[columns] = plane.coef_.reshape(len(columns), -1).T, plane.intercept_
            left_out = np.sqrt(-np.reshape(plane.best_score_, -1))
            scale[columns] = np.maximum(left_out, SMALLEST_RESIDUAL)
        return LinearOutputMean(torch.as_tensor(weights), torch.as_tensor(bias), torch.as_tensor(scale))

    def forward(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"]:
        """x W + b."""
        return x @ self.weights + self.bias


def _penalties(x: Float[Array, "N D"]) -> Float[Array, "K"]:
    """Ridge penalties to choose from: those that spend at most a quarter of the rows on the plane.

    A plane through all of its rows leaves no residual there, and a head trained on that believes in no noise at all.
    """
    import numpy as np

    num_rows = len(x)
    penalties: Array = num_rows * np.logspace(-8, 4, 25)
    centered = x - x.mean(0)
    gram = centered.T @ centered if x.shape[1] <= num_rows else centered @ centered.T
    sizes = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    spent = (sizes / (sizes + penalties[:, None])).sum(-1)
    allowed: Array = penalties[(spent <= num_rows / 4) | (penalties == penalties[-1])]
    return allowed
