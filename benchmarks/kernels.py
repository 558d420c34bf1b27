"""kernel="auto" beside the RBF, on few rows: `python -m benchmarks.kernels [kernel …]`.

Smooth functions are those of `benchmarks.functions`; rough ones are made here: draws of GPs with Matérn kernels of
smoothness 1/2 and 3/2, steps, and absolute values. Nothing was chosen on rows that scores are of.
"""

import sys
import time
import warnings
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from benchmarks.functions import Problem, problem
from mogul import fit
from mogul._typing import Array
from mogul.core.radial import RADIALS
from mogul.errors import MogulWarning

SEEDS, NUM_TEST = range(48), 400
ROUGH = ("matern12", "matern32", "steps", "absolute")


def rough_problem(seed: int) -> Problem:
    """1 to 8 inputs, of which some may not matter, 60 to 500 rows, 1 to 3 outputs; a kind for each seed in turn."""
    rng, kind = np.random.default_rng([seed, 12]), ROUGH[seed % len(ROUGH)]
    num_inputs, num_outputs = int(rng.integers(1, 9)), int(rng.integers(1, 4))
    num_rows = int(np.exp(rng.uniform(np.log(60), np.log(500))))
    x = rng.uniform(0, 1, (num_rows + NUM_TEST, num_inputs))
    signal = np.stack([_rough(kind, x, rng) for _ in range(num_outputs)], axis=1)
    signal = (signal - signal.mean(0)) / signal.std(0)
    y = signal + 10.0 ** rng.uniform(-3, -0.3, num_outputs) * rng.standard_normal(signal.shape)
    return Problem(kind, x[:num_rows], y[:num_rows], x[num_rows:], y[num_rows:])


def _rough(kind: str, x: Float[Array, "N D"], rng: np.random.Generator) -> Float[Array, "N"]:
    if kind in RADIALS:
        scales = np.exp(rng.uniform(np.log(0.1), np.log(2.0))) * np.exp(0.5 * rng.standard_normal(x.shape[1]))
        scales = scales * x.shape[1] ** 0.5 * np.where(rng.uniform(size=x.shape[1]) < 0.25, 50.0, 1.0)
        square = np.square((x[:, None] - x[None]) / scales).sum(-1)
        root = np.linalg.cholesky(RADIALS[kind].value(square) + 1e-8 * np.eye(len(x)))
        draw: Array = root @ rng.standard_normal(len(x))
        return draw
    total = np.zeros(len(x))
    for _ in range(int(rng.integers(1, 4))):
        direction = np.eye(x.shape[1])[rng.integers(x.shape[1])] + 0.3 * rng.standard_normal(x.shape[1])
        along = x @ direction
        bend = along - rng.choice(along)
        total += rng.standard_normal() * (np.sign(bend) if kind == "steps" else np.abs(bend) * 3)
    return total if total.std() > 0 else x[:, 0]


def scores(task: Problem, kernel: str) -> tuple[Float[Array, "P"], float, float, str]:
    """RMSE of each output, log density per row and output, seconds of the processor, and the kernel."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MogulWarning)
        fitted = fit(task.x, task.y, kernel=kernel, mean="linear")
    seconds = time.process_time() - started
    x, y = task.test_x[:NUM_TEST], task.test_y[:NUM_TEST]
    errors = np.sqrt(np.square(fitted.predict(x).mean - y).mean(0))
    density = float(fitted.log_density(x, y).mean()) / y.shape[1]
    assert fitted.blueprint is not None
    return errors, density, seconds, str(fitted.blueprint.options["kernel"])


Row = tuple[float, float, float, str]


def beside_rbf(task: Problem, kernels: Sequence[str]) -> dict[str, Row]:
    """By the kernel: RMSE over the RBF's, nats above it, seconds over its, what was chosen."""
    errors, density, seconds, _ = scores(task, "rbf")
    found = {}
    for kernel in kernels:
        own, own_density, own_seconds, chosen = scores(task, kernel)
        ratio = float(np.exp(np.log(own / errors).mean()))
        found[kernel] = ratio, own_density - density, own_seconds / seconds, chosen
    return found


def main(kernels: Sequence[str]) -> None:
    """Print each problem as it is done, then a table in Markdown."""
    torch.set_num_threads(1)
    found: dict[tuple[str, str], list[Row]] = {}
    with threadpool_limits(1):
        scores(problem(0), "rbf")  # what is imported at the first fit is no part of any
        for seed in SEEDS:
            for group, task in (("smooth, all", problem(seed)), ("rough, all", rough_problem(seed))):
                for kernel, row in beside_rbf(task, kernels).items():
                    size = f"{len(task.x)} rows, {task.x.shape[1]} → {task.y.shape[1]}"
                    told = f"RMSE × {row[0]:.3f}, {row[1]:+.3f} nat, time × {row[2]:.2f}"
                    print(f"{seed} {task.kind}, {size}, {kernel} ({row[3]}): {told}", file=sys.stderr, flush=True)
                    for name in (task.kind, group):
                        found.setdefault((name, kernel), []).append(row)
    print("| functions | kernel | RMSE ratio: mean, worst | nats: mean, worst | time ratio: median | chosen |")
    print("|---|---|---|---|---|---|")
    for (name, kernel), rows in found.items():
        print(_line(name, kernel, rows))


def _line(name: str, kernel: str, rows: Sequence[Row]) -> str:
    ratio, gain, times = (np.array([row[place] for row in rows]) for place in range(3))
    names = [row[3] for row in rows]
    chosen = ", ".join(f"{names.count(each)} {each}" for each in sorted(set(names)))
    return (
        f"| {name} ({len(rows)}) | {kernel} | {np.exp(np.log(ratio).mean()):.3f}, {ratio.max():.2f} | "
        f"{gain.mean():+.3f}, {gain.min():+.2f} | {np.median(times):.2f} | {chosen} |"
    )


if __name__ == "__main__":
    main(sys.argv[1:] or ["auto"])
