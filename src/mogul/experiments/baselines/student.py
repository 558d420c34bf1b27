"""Student-t noise, as a mixture of Normals."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.special import gammaincinv, gammaln

from mogul.arrays import Array
from mogul.experiments.baselines.base import SMALLEST_VAR, mean_square
from mogul.prediction import Prediction

# Not a multiple of 50: the paper's estimator would take the log of the mean over 50 components at a time.
NUM_COMPONENTS = 64


@dataclass(frozen=True)
class StudentT:
    """y = mean + √(scale²/g) ∘ ε with g ~ Gamma(ν/2, ν/2) for the row, ε Normal: a multivariate Student-t.

    Each output is a Student-t with ν degrees of freedom, and a row that is off in one output may be off in others.
    """

    degrees: float
    scale_var: Float[Array, "P"]

    @staticmethod
    def fit(residual: Float[Array, "N P"]) -> "StudentT":
        """By maximum likelihood: scales in turn with ν, over what is observed (NaN is missing)."""
        scale_var, degrees = mean_square(residual), 5.0
        count = (~np.isnan(residual)).sum(1)
        for _ in range(100):
            distance = np.nansum(np.square(residual) / scale_var, axis=1)
            found = minimize_scalar(
                lambda log_degrees: -_log_likelihood(float(np.exp(log_degrees)), distance, count),
                bounds=(np.log(0.2), np.log(200.0)),
                method="bounded",
            )
            before, degrees = degrees, float(np.exp(found.x))
            weight = (degrees + count) / (degrees + distance)
            scale_var = np.maximum(np.nanmean(weight[:, None] * np.square(residual), axis=0), SMALLEST_VAR)
            if abs(degrees - before) < 1e-4 * before:
                break
        return StudentT(degrees, scale_var)

    def around(self, mean: Float[Array, "N P"], num_components: int = NUM_COMPONENTS) -> Prediction:
        """This noise about these means."""
        levels = (np.arange(num_components) + 0.5) / num_components
        shares = gammaincinv(self.degrees / 2, levels) * 2 / self.degrees
        each = self.scale_var / shares[:, None]
        shape = (num_components, *mean.shape)
        return Prediction(
            mean,
            np.broadcast_to(each.mean(0), mean.shape),
            np.broadcast_to(mean, shape),
            np.broadcast_to(each[:, None], shape),
        )


def _log_likelihood(degrees: float, distance: Float[Array, "N"], count: Float[Array, "N"]) -> float:
    """The part of Σ log t(residual) that ν is in, given Σ r²/s² and the number of outputs of each row."""
    half = 0.5 * (degrees + count)
    each = gammaln(half) - gammaln(0.5 * degrees) - 0.5 * count * np.log(degrees) - half * np.log1p(distance / degrees)
    return float(each.sum())
