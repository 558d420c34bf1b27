"""Functions to learn from few rows, generated: lengthscales, sizes, noises and units over decades."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mogul._typing import Array

NUM_TEST = 1000
KINDS = ("gp", "sines", "trend", "additive")
_NUM_WAVES = 1500

Function = Callable[[Float[Array, "N D"]], Float[Array, "N"]]


@dataclass(frozen=True)
class Problem:
    """Rows to train on, and others to be judged by."""

    kind: str
    x: Float[Array, "N D"]
    y: Float[Array, "N P"]
    test_x: Float[Array, "T D"]
    test_y: Float[Array, "T P"]


def problem(seed: int) -> Problem:
    """1 to 8 inputs, 60 to 500 rows, 1 to 5 outputs, lengthscales from a sixtieth of the range to all of it.

    A kind for each seed in turn: draws of GPs with inputs that do not matter, sines of projections, GPs on top of a
    plane, sums of functions of single inputs. Noise has a thousandth to half of the signal's standard deviation.
    """
    rng, kind = np.random.default_rng([seed, 11]), KINDS[seed % len(KINDS)]
    num_inputs, num_outputs = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    num_rows = int(np.exp(rng.uniform(np.log(60), np.log(500))))
    unit = rng.uniform(0, 1, (num_rows + NUM_TEST, num_inputs))
    signal = np.stack([_standardised(_function(kind, num_inputs, rng)(unit)) for _ in range(num_outputs)], axis=1)
    noise = 10.0 ** rng.uniform(-3, -0.3, num_outputs)
    outputs = (signal + noise * rng.standard_normal(signal.shape)) * 10.0 ** rng.uniform(-2, 2, num_outputs)
    inputs = (unit - 0.5) * 10.0 ** rng.uniform(-2, 2, num_inputs)
    rows, test = slice(None, num_rows), slice(num_rows, None)
    return Problem(kind, inputs[rows], outputs[rows], inputs[test], outputs[test])


def _function(kind: str, num_inputs: int, rng: np.random.Generator) -> Function:
    lengthscale = float(np.exp(rng.uniform(np.log(1 / 60), 0.0)))
    match kind:
        case "gp":
            scales = lengthscale * num_inputs**0.5 * np.exp(0.7 * rng.standard_normal(num_inputs))
            return _gp(np.where(rng.uniform(size=num_inputs) < 0.25, 50.0, 1.0) * scales, rng)
        case "sines":
            waves = [_sine(num_inputs, min(8.0, 0.3 / lengthscale), rng) for _ in range(3)]
            return lambda x: np.sum([wave(x) for wave in waves], axis=0)
        case "trend":
            smooth, slopes = (
                _gp(np.full(num_inputs, lengthscale * num_inputs**0.5), rng),
                rng.standard_normal(num_inputs),
            )
            steepness = rng.uniform(0, 6)
            return lambda x: smooth(x) + steepness * (x - 0.5) @ slopes
        case _:
            scales = np.maximum(1 / 60, lengthscale * np.exp(0.5 * rng.standard_normal(num_inputs)))
            parts = [_gp(scales[place : place + 1], rng) for place in range(num_inputs)]
            used = np.flatnonzero(rng.uniform(size=num_inputs) < 0.6)
            used = used if len(used) else np.array([0])
            return lambda x: np.sum([parts[place](x[:, place : place + 1]) for place in used], axis=0)


def _gp(lengthscale: Float[Array, "D"], rng: np.random.Generator) -> Function:
    """A draw of a GP with an RBF kernel, by random Fourier features."""
    frequency = rng.standard_normal((_NUM_WAVES, len(lengthscale))) / lengthscale
    phase, weight = rng.uniform(0, 2 * np.pi, _NUM_WAVES), rng.standard_normal(_NUM_WAVES)
    return lambda x: np.cos(x @ frequency.T + phase) @ weight * (2 / _NUM_WAVES) ** 0.5


def _sine(num_inputs: int, most_periods: float, rng: np.random.Generator) -> Function:
    direction = rng.standard_normal(num_inputs)
    direction /= np.linalg.norm(direction)
    periods, phase = rng.uniform(0.2, max(0.3, most_periods)), rng.uniform(0, 2 * np.pi)
    return lambda x: np.sin(2 * np.pi * periods * (x - 0.5) @ direction + phase)


def _standardised(values: Float[Array, "N"]) -> Float[Array, "N"]:
    result: Array = (values - values.mean()) / values.std()
    return result
