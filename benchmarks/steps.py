"""What a training step costs, at the size of the paper's Kuka experiment."""

from collections.abc import Callable

import torch

from benchmarks.timing import interleaved
from mogul.data import Batch
from mogul.models import build
from mogul.objective import Analytic, Elbo, Expectation, MonteCarlo

# Kuka: 21 → 14, L = 7, M = 400, batches of 500.
NUM_INPUTS, NUM_OUTPUTS, NUM_INDUCING, BATCH, NUM_DATA = 21, 14, 400, 500, 15_068


def training_step(name: str, ell: Expectation, dtype: torch.dtype) -> Callable[[], None]:
    """One step of Adam on a fixed batch."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, NUM_INPUTS, generator=generator, dtype=dtype)
    y = torch.randn(BATCH, NUM_OUTPUTS, generator=generator, dtype=dtype)
    model = build(name, x, NUM_OUTPUTS, generator, num_inducing=NUM_INDUCING)
    elbo, batch = Elbo(ell, num_data=NUM_DATA), Batch.of(x, y)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimiser.zero_grad()
        loss = -elbo(model, batch, generator).total() / NUM_DATA
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimiser.step()

    return step


def step_ratios(repeats: int = 15) -> dict[str, float]:
    """Milliseconds per step of MOGP and N-MOGP, and the second over the first."""
    results: dict[str, float] = {}
    for ell in (Analytic(), MonteCarlo(250)):
        label = type(ell).__name__.lower()
        steps = {name: training_step(name, ell, torch.float32) for name in ("mogp", "n-mogp")}
        seconds = interleaved(steps, repeats)
        for name, value in seconds.items():
            results[f"{name}_{label}_ms"] = 1e3 * value
        results[f"n_mogp_step_ratio_{label}"] = seconds["n-mogp"] / seconds["mogp"]
    results["n_mogp_step_ratio"] = results["n_mogp_step_ratio_analytic"]
    return results
