"""What a model adds its head to: nothing, or a plane whose residual the head then models."""

import math
from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from sklearn.linear_model import RidgeCV
from torch import Tensor, nn

from mogul._typing import Array
from mogul.core.base_samples import Normals
from mogul.core.moments import Marginals
from mogul.errors import ConfigError, ShapeError
from mogul.means.plane import FrozenPlaneUncertainty, PathwisePlane, PlaneUncertainty

# The head's unit, in standard deviations of an output, where a plane fits better than this: below it is rounding.
SMALLEST_RESIDUAL = 1e-4
_LEAST_PENALTY = 1e-8  # of a ridge regression, for each row


class OutputMean(nn.Module, ABC):
    """y = mean(x) + scale ∘ (what the head says): the head works on residuals of unit size."""

    scale: Tensor

    @property
    def outputs(self) -> list[int]:
        """The outputs that a regressor predicts; none by default."""
        return []

    @property
    def unstorable(self) -> str | None:
        """The part that a model file cannot hold, if there is one."""
        return None

    @abstractmethod
    def forward(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"]:
        """mean(x), for standardised x."""

    def var(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"] | None:
        """The variance of mean(x) where it is random, in units of y²; None where it is known."""
        return None

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "*S N P"]:
        """Draws of the whole function mean(x); mean(x) itself where it is known."""
        return self.forward(x)

    @property
    def numbers_per_row(self) -> int:
        """How many numbers a variance at one row takes while it is made."""
        return 0

    def residual(self, y: Float[Tensor, "N P"], x: Float[Tensor, "N _"]) -> Float[Tensor, "N P"]:
        """From outputs to the head's units."""
        return (y - self.forward(x)) / self.scale

    def restore(self, signal: Marginals, x: Float[Tensor, "*S N _"]) -> Marginals:
        """From the head's units to outputs, with the variance of this mean."""
        mean, var = self.forward(x) + self.scale * signal.mean, self.scale.square() * signal.var
        own = self.var(x)
        return Marginals(mean, var if own is None else var + own, log_weight=signal.log_weight)

    def widened(self, signal: Marginals, x: Float[Tensor, "*S N _"]) -> Marginals:
        """The head's signal in its own units, with the variance of this mean: for densities of residuals."""
        own = self.var(x)
        return signal if own is None else replace(signal, var=signal.var + own / self.scale.square())


class ZeroMean(OutputMean):
    """None: the head models the outputs themselves, as the paper's models do, or residuals in units of `scale`."""

    zero: Tensor

    def __init__(self, num_outputs: int, scale: Float[Tensor, "P"] | None = None) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(num_outputs) if scale is None else scale)
        self.register_buffer("zero", torch.zeros(num_outputs), persistent=False)

    def forward(self, x: Float[Tensor, "*S N _"]) -> Float[Tensor, "N P"]:
        """Zero everywhere."""
        return self.zero.expand(x.shape[-2], -1)


class LinearOutputMean(OutputMean):
    """x W + b by ridge regression, and the standard deviation of its residual, per output.

    Without that rescaling the plane would undo itself: a head of unit size drowns a residual of 1e-3.

    Args:
        weights: W.
        bias: b.
        scale: the head's unit, in units of y.
        uncertainty: how far W and b may be off, where the head cannot make up for it; None takes them for known.

    Example:
        >>> x = torch.arange(6.0)[:, None]
        >>> mean = LinearOutputMean.fit(x.double().numpy(), (2 * x + x % 2).double().numpy())
        >>> mean.double().forward(x.double()).shape
        torch.Size([6, 1])
    """

    weights: Tensor
    bias: Tensor
    uncertainty: PlaneUncertainty | FrozenPlaneUncertainty | None

    def __init__(
        self,
        weights: Float[Tensor, "D P"],
        bias: Float[Tensor, "P"],
        scale: Float[Tensor, "P"],
        uncertainty: PlaneUncertainty | None = None,
    ) -> None:
        super().__init__()
        if uncertainty is not None and uncertainty.lengthscale.mT.shape != weights.shape:
            raise ShapeError(
                f"uncertainty must be of a plane of shape (D, P) = {tuple(weights.shape)}; "
                f"got {tuple(uncertainty.lengthscale.mT.shape)}. Make both from the same rows."
            )
        self.register_buffer("weights", weights)
        self.register_buffer("bias", bias)
        self.register_buffer("scale", scale)
        self.uncertainty = uncertainty

    @staticmethod
    def fit(
        x: Float[Array, "N D"], y: Float[Array, "N P"], uncertainty: PlaneUncertainty | None = None
    ) -> "LinearOutputMean":
        """Each output on the rows where it is observed (NaN is missing); the penalty by leave-one-out error.

        With rows to spare and inputs that differ the penalty is next to nothing, and this is least squares. With few
        rows it is at least so large that residuals of the rows trained on are like those of new ones.

        How far the plane may be off depends on what the head can take up: with a GP's hyperparameters at hand, give
        `PlaneUncertainty.of` these rows, or take its own plane from `generalised_least_squares`.
        """
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
        return LinearOutputMean(
            torch.as_tensor(weights), torch.as_tensor(bias), torch.as_tensor(scale), uncertainty=uncertainty
        )

    @staticmethod
    def of_sums(
        gram: Float[Array, "P K K"], cross: Float[Array, "P K"], square: Float[Array, "P"]
    ) -> "LinearOutputMean":
        """By normal equations, from sums over many rows: Σ aaᵀ, Σ a y and Σ y² of each output, with a = (x, 1).

        The penalty is the smallest of `fit`: with rows to spare it hardly matters. Generalised cross-validation stands
        in for the error of rows left out.
        """
        num_inputs, num_outputs = gram.shape[1] - 1, len(gram)
        weights, bias, scale = np.zeros((num_inputs, num_outputs)), np.zeros(num_outputs), np.ones(num_outputs)
        for output, (every, own, total) in enumerate(zip(gram, cross, square, strict=True)):
            count = every[-1, -1]
            if count < 3:
                bias[output] = own[-1] / max(count, 1.0)
                continue
            x_mean, y_mean = every[-1, :-1] / count, own[-1] / count
            inner = every[:-1, :-1] - count * np.outer(x_mean, x_mean)
            outer = own[:-1] - count * y_mean * x_mean
            ridge = inner + _LEAST_PENALTY * count * np.eye(num_inputs)
            plane = np.linalg.solve(ridge, outer)
            left = total - count * y_mean**2 - 2 * plane @ outer + plane @ inner @ plane
            spent = 1 + float(np.trace(np.linalg.solve(ridge, inner)))
            weights[:, output], bias[output] = plane, y_mean - x_mean @ plane
            left_out = math.sqrt(max(left / count, 0.0)) / max(1 - spent / count, 0.5)
            scale[output] = max(left_out, SMALLEST_RESIDUAL)
        return LinearOutputMean(torch.as_tensor(weights), torch.as_tensor(bias), torch.as_tensor(scale))

    def forward(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"]:
        """x W + b."""
        return x @ self.weights + self.bias

    def var(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"] | None:
        """That of the coefficients, where the head cannot make up for it."""
        return None if self.uncertainty is None else self.uncertainty.var(x)

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "*S N P"]:
        """x W + b, with one deviation of W and b for each draw."""
        if not isinstance(self.uncertainty, PlaneUncertainty | PathwisePlane):  # frozen, it has variances alone
            return self.forward(x)
        return self.forward(x) + self.uncertainty.sample_joint(x, normals)

    @property
    def numbers_per_row(self) -> int:
        """Those of the uncertainty."""
        return 0 if self.uncertainty is None else self.uncertainty.numbers_per_row


def _penalties(x: Float[Array, "N D"]) -> Float[Array, "K"]:
    """Ridge penalties to choose from: those that spend at most a quarter of the rows on the plane.

    A plane through all of its rows leaves no residual there, and a head trained on that believes in no noise at all.
    """
    num_rows = len(x)
    penalties: Array = num_rows * np.logspace(math.log10(_LEAST_PENALTY), 4, 25)
    centered = x - x.mean(0)
    gram = centered.T @ centered if x.shape[1] <= num_rows else centered @ centered.T
    sizes = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    spent = (sizes / (sizes + penalties[:, None])).sum(-1)
    allowed: Array = penalties[(spent <= num_rows / 4) | (penalties == penalties[-1])]
    return allowed
