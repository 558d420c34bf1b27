"""Data with a known truth."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mogul._typing import Array
from mogul.data.dataset import Dataset


@dataclass(frozen=True)
class RadialCosine:
    """The paper's synthetic experiment, section 5.1: g_k(x) = cos(4‖x‖) for x in the unit ball of ℝ⁵, k = 1 … 8.

    Example:
        >>> RadialCosine().draw(10, np.random.default_rng(0)).num_outputs
        8
    """

    num_inputs: int = 5
    num_outputs: int = 8
    noise_scale: float = 0.1

    def truth(self, x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        """The noise-free outputs."""
        wave = np.cos(4 * np.linalg.norm(x, axis=1, keepdims=True))
        return np.repeat(wave, self.num_outputs, axis=1)

    def draw(self, num_rows: int, rng: np.random.Generator) -> Dataset:
        """Inputs uniform in the unit ball, outputs with Normal noise."""
        x = self.direction(num_rows, rng) * rng.uniform(size=(num_rows, 1)) ** (1 / self.num_inputs)
        noise = self.noise_scale * rng.standard_normal((num_rows, self.num_outputs))
        return Dataset(x, self.truth(x) + noise)

    def direction(self, num_rows: int, rng: np.random.Generator) -> Float[Array, "N D"]:
        """Points uniform on the unit sphere."""
        x = rng.standard_normal((num_rows, self.num_inputs))
        unit: Array = x / np.linalg.norm(x, axis=1, keepdims=True)
        return unit
