"""From how many inducing points the Krylov route pays: a step of each, forward and backward."""

from collections.abc import Callable

import torch

from benchmarks.timing import interleaved
from mogul.priors import CIQ, Cholesky, IndependentGPs, Solver, rbf

NUM_INPUTS, BATCH = 21, 200


def pass_through(num_inducing: int, solver: Solver) -> Callable[[], None]:
    """Marginals of one GP at a batch, and their gradient."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(num_inducing, NUM_INPUTS, generator=generator)
    gps = IndependentGPs(rbf(NUM_INPUTS, 1), points, 1, solver=solver)
    x = torch.randn(BATCH, NUM_INPUTS, generator=generator)

    def step() -> None:
        gps.zero_grad()
        q = gps(x, 1, generator)
        (q.mean.sum() + q.var.sum()).backward()

    return step


def run() -> dict[str, float]:
    """The group's figures."""
    return solver_ratios()


def solver_ratios(sizes: tuple[int, ...] = (200, 400), repeats: int = 3) -> dict[str, float]:
    """Seconds of CIQ over seconds of Cholesky at each number of inducing points; below one, CIQ pays."""
    results = {}
    for size in sizes:
        steps = {"cholesky": pass_through(size, Cholesky()), "ciq": pass_through(size, CIQ())}
        seconds = interleaved(steps, repeats, warm_up=1)
        results[f"ciq_over_cholesky_m{size}"] = seconds["ciq"] / seconds["cholesky"]
    return results
