"""Student-t noise, as a mixture of Normals."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from scipy.special import gammaincinv, gammaln

from mogul._typing import Array, IntArray
from mogul.comparison.least_squares import SMALLEST_VAR, mean_square
from mogul.prediction import Prediction

# Not a multiple of 50: the paper's estimator would take the log of the mean over 50 components at a time.
NUM_COMPONENTS = 128
# Below 2 there is no variance, and near 1 no CRPS.
DEGREES = (2.1, 200.0)


@dataclass(frozen=True)
class StudentT:
    """y = mean + √(scale²/g) ∘ ε with g ~ Gamma(ν/2, ν/2) for the row, ε Normal: a multivariate Student-t.

    Each output is a Student-t with ν degrees of freedom, and a row that is off in one output may be off in others.

    Example:
        >>> from scipy.stats import t
        >>> found = StudentT(3.0, np.array([4.0])).around(np.zeros((1, 1))).log_density(np.array([[1.0]]))
        >>> bool(abs(found[0] - t.logpdf(1.0, 3.0, scale=2.0)) < 0.01)
        True
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
            before, degrees = degrees, _likeliest_degrees(distance, count)
            weight = (degrees + count) / (degrees + distance)
            scale_var = np.maximum(np.nanmean(weight[:, None] * np.square(residual), axis=0), SMALLEST_VAR)
            if abs(degrees - before) < 1e-4 * before:
                break
        return StudentT(degrees, scale_var)

    def around(self, mean: Float[Array, "N P"], num_components: int = NUM_COMPONENTS) -> Prediction:
        """This noise about these means, g at the middles of bins of equal probability: a little light far out."""
        levels = (np.arange(num_components) + 0.5) / num_components
        shares = gammaincinv(self.degrees / 2, levels) * 2 / self.degrees
        each = self.scale_var / shares[:, None]
        shape = (num_components, *mean.shape)
        return Prediction(
            mean,
            np.broadcast_to(self.scale_var * self.degrees / (self.degrees - 2), mean.shape),
            np.broadcast_to(mean, shape),
            np.broadcast_to(each[:, None], shape),
        )


def _likeliest_degrees(distance: Float[Array, "N"], count: Int[IntArray, "N"]) -> float:
    """ν of the highest likelihood, given Σ r²/s² and the number of observed outputs of each row."""

    def loss(log_degrees: float) -> float:
        degrees = float(np.exp(log_degrees))
        half = 0.5 * (degrees + count)
        each = gammaln(half) - gammaln(0.5 * degrees) - 0.5 * count * np.log(degrees)
        return -float((each - half * np.log1p(distance / degrees)).sum())

    low, high = np.log(DEGREES)
    return float(np.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x))
