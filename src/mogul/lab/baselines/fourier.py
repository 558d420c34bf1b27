"""Random Fourier features: a Gaussian process with an RBF kernel, by ridge regression on random waves."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mogul._typing import Array
from mogul.comparison.least_squares import normal_prediction
from mogul.data import Dataset, Standardiser
from mogul.lab.baselines.ridge import Ridge
from mogul.prediction import Prediction

NUM_WAVES = 800
# In units of √D: the distance of two standardised rows is about √(2D).
LENGTHSCALES = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class FourierFeatures:
    """The inputs themselves, and √(2/F) cos(xΩ + φ) with Normal frequencies Ω and uniform phases φ."""

    units: Standardiser
    frequencies: Float[Array, "D F"]
    phases: Float[Array, "F"]

    @staticmethod
    def draw(x: Float[Array, "N D"], lengthscale: float, seed: int, num_waves: int = NUM_WAVES) -> "FourierFeatures":
        """Frequencies of the RBF kernel of this lengthscale, in units of √D, on standardised inputs."""
        rng = np.random.default_rng(seed)
        num_inputs = x.shape[1]
        frequencies = rng.standard_normal((num_inputs, num_waves)) / (lengthscale * np.sqrt(num_inputs))
        return FourierFeatures(Standardiser.of(x), frequencies, rng.uniform(0, 2 * np.pi, num_waves))

    def __call__(self, x: Float[Array, "N D"]) -> Float[Array, "N E"]:
        """The features of these rows."""
        inputs = self.units.apply(x)
        waves = np.sqrt(2 / len(self.phases)) * np.cos(inputs @ self.frequencies + self.phases)
        return np.concatenate([inputs, waves], axis=1)


def predict_fourier(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The lengthscale and penalties with the least leave-one-out error, which is also the noise."""
    candidates = [FourierFeatures.draw(train.x, lengthscale, seed) for lengthscale in LENGTHSCALES]
    fits = [Ridge.fit(features, train.x, train.y) for features in candidates]
    best = min(range(len(fits)), key=lambda number: float(np.log(fits[number].left_out).sum()))
    return normal_prediction(fits[best].predict(candidates[best], test.x), fits[best].left_out)
