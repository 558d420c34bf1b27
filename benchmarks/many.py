"""Thousands of rows: the default beside n-sbgprn, boosted trees and a forest, on generated functions.

`OMP_NUM_THREADS=1 python -m benchmarks.many` prints a table. Lengths, sizes and rules of the default were chosen on
seed 0 of these functions, and on SARCOS and rf1.
"""

import time
import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from benchmarks.small import one_thread
from mogul import MultiOutputGPRegressor
from mogul._typing import Array
from mogul.comparison.crossval import predict_baseline
from mogul.data import Dataset, Scaling
from mogul.errors import MogulWarning
from mogul.metrics import score
from mogul.training.defaults import MeanName

SEEDS = (1, 2)
NUM_TEST = 1000
Rows = tuple[Float[Array, "N D"], Float[Array, "N P"]]


def smooth(rng: np.random.Generator, num_rows: int) -> Rows:
    """Three smooth functions of three inputs, noise of standard deviation 0.01."""
    x = rng.uniform(-1, 1, (num_rows, 3))
    columns = np.sin(5 * x[:, 0] + 2 * x[:, 1]), np.exp(-4 * np.square(x).sum(1)), x[:, 0] * x[:, 2]
    return x, np.stack(columns, axis=1) + 0.01 * rng.standard_normal((num_rows, 3))


def arm(rng: np.random.Generator, num_rows: int) -> Rows:
    """Torques of a planar arm of two links from angles, speeds and accelerations, with 2 % of noise."""
    q = rng.uniform(-np.pi, np.pi, (num_rows, 2))
    speed, acceleration = 2 * rng.standard_normal((num_rows, 2)), 4 * rng.standard_normal((num_rows, 2))
    cosine, sine, both = np.cos(q[:, 1]), np.sin(q[:, 1]), 9.8 * np.cos(q.sum(1))
    first = (3 + 2 * cosine) * acceleration[:, 0] + (1 + cosine) * acceleration[:, 1] + both
    first += 19.6 * np.cos(q[:, 0]) - sine * (2 * speed[:, 0] * speed[:, 1] + speed[:, 1] ** 2)
    second = (1 + cosine) * acceleration[:, 0] + acceleration[:, 1] + sine * speed[:, 0] ** 2 + both
    torques = np.stack([first, second], axis=1)
    noise = 0.02 * torques.std(0) * rng.standard_normal(torques.shape)
    return np.hstack([q, speed, acceleration]), torques + noise


def steps(rng: np.random.Generator, num_rows: int) -> Rows:
    """Jumps, kinks and products of twelve inputs, noise of standard deviation 0.3: what trees are good at."""
    x = rng.standard_normal((num_rows, 12))
    jumps = np.where(x[:, 0] > 0, x[:, 1], -x[:, 2]) + 2 * (x[:, 3] > 1)
    kinks = np.abs(x[:, 4]) * x[:, 5] + (x[:, 6] > x[:, 7])
    y = np.stack([jumps, kinks, x[:, :3].sum(1)], axis=1)
    return x, y + 0.3 * rng.standard_normal(y.shape)


PROBLEMS: dict[str, tuple[Callable[[np.random.Generator, int], Rows], int]] = {
    "smooth, 3 → 3": (smooth, 4000),
    "arm, 6 → 2": (arm, 5000),
    "jumps, 12 → 3": (steps, 8000),
}
METHODS = {"default": None, "n-sbgprn": "n-sbgprn", "boosted trees": "boosting", "forest": "trees"}


def main() -> None:
    """Print log likelihood for each output, error and processor time of each method on each problem."""
    warnings.simplefilter("ignore", MogulWarning)
    with one_thread():
        for name, (draw, num_rows) in PROBLEMS.items():
            for seed in SEEDS:
                x, y = draw(np.random.default_rng(seed), num_rows + NUM_TEST)
                train = Dataset(x[:num_rows], y[:num_rows])
                for method in METHODS:
                    print(f"{name}, {num_rows} rows, seed {seed}, {method}: {_scored(method, train, x, y)}", flush=True)


def _scored(method: str, train: Dataset, x: Float[Array, "N D"], y: Float[Array, "N P"]) -> str:
    test_x, test_y = x[train.num_rows :], y[train.num_rows :]
    began, model = time.process_time(), METHODS[method]
    if method in ("default", "n-sbgprn"):
        mean: MeanName | None = None if model is None else "auto"
        fitted = MultiOutputGPRegressor(model, mean=mean, random_state=0).fit(train.x, train.y).fitted_
        seconds = time.process_time() - began
        prediction = fitted.predict(test_x, 100)
        method = fitted.model_name
    else:
        assert model is not None
        prediction = predict_baseline(model, train, test_x, seed=0)
        seconds = time.process_time() - began
    units = Scaling.of(train).outputs
    scores = score([(prediction.standardised(units), units.apply(test_y))])
    ll = scores.ll / y.shape[1]
    return f"{method} LL {ll:.3f} MRMSE {scores.mrmse:.4f} 95% {scores.coverage[0.95]:.3f} ({seconds:.0f} s)"


if __name__ == "__main__":
    main()
