"""How the cost of a training step grows with each size, with N up to ten million rows, and what it takes in memory."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import peak_alone
from benchmarks.mapped import MappedRows, write_rows
from benchmarks.peer import peer_step
from benchmarks.problem import Sizes
from benchmarks.steps import kuka_sizes, train_on, training_run, training_step
from benchmarks.timing import interleaved
from mogul.objective import Analytic

# One size at a time departs from Kuka's; H grows in N-MOGP, the others in MOGP.
CURVES: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "m": ("mogp", "num_inducing", (100, 200, 400, 800)),
    "l": ("mogp", "num_latents", (3, 7, 14, 28)),
    "p": ("mogp", "num_outputs", (14, 100, 1000)),
    "h": ("n-mogp", "num_hidden", (14, 28, 56, 112)),
    "b": ("mogp", "batch", (250, 500, 1000, 2000)),
}
FEW_ROWS, MANY_ROWS = 10_000, 10_000_000
# Few columns, so that ten million rows take 320 MB of disk.
MAPPED_INPUTS, MAPPED_OUTPUTS = 4, 4
WIDE = Sizes(num_inducing=400, batch=500, num_outputs=10_000, num_latents=20)


def run() -> dict[str, float]:
    """The group's figures."""
    return curves() | growth_with_rows() | peaks()


def curves(repeats: int = 7, sizes: Sizes | None = None, shrink: int = 1) -> dict[str, float]:
    """Milliseconds per step along each curve; `shrink` divides the values, for a quick look."""
    sizes = sizes or kuka_sizes()
    results: dict[str, float] = {}
    for axis, (model, field, values) in CURVES.items():
        steps = {
            f"growth_{axis}_{value}_ms": training_step(
                model, Analytic(), sizes=_changed(sizes, field, max(1, value // shrink))
            )
            for value in values
        }
        results |= {name: 1e3 * seconds for name, seconds in interleaved(steps, repeats).items()}
    return results


def growth_with_rows(
    repeats: int = 15, sizes: Sizes | None = None, few: int = FEW_ROWS, many: int = MANY_ROWS
) -> dict[str, float]:
    """Step time and peak memory with many memory-mapped rows over those with few; the batch is gathered each time.

    Memory is the process's own. The resident figure counts the pages of the file that were read too: up to all of it.
    """
    sizes = replace(sizes or kuka_sizes(), num_inputs=MAPPED_INPUTS, num_outputs=MAPPED_OUTPUTS)
    with TemporaryDirectory() as folder:
        files = {"few": Path(folder) / "few.bin", "many": Path(folder) / "many.bin"}
        rows = {
            name: write_rows(files[name], number, MAPPED_INPUTS, MAPPED_OUTPUTS)
            for name, number in (("few", few), ("many", many))
        }
        seconds = interleaved({name: _mapped_step(rows[name], sizes) for name in rows}, repeats)
        peaks = {
            name: peak_alone(
                "benchmarks.growth",
                "mapped_steps",
                path=str(files[name]),
                num_inducing=sizes.num_inducing,
                batch=sizes.batch,
                num_latents=sizes.num_latents,
            )
            for name in rows
        }
    return {
        "n_growth_few_ms": 1e3 * seconds["few"],
        "n_growth_many_ms": 1e3 * seconds["many"],
        "n_growth": seconds["many"] / seconds["few"],
        "n_growth_memory": peaks["many"].private / peaks["few"].private,
        "n_growth_resident": peaks["many"].resident / peaks["few"].resident,
    }


def mapped_steps(path: str, num_inducing: int, batch: int, num_latents: int, steps: int = 5) -> None:
    """Some steps on the rows of a file, alone in a process."""
    sizes = Sizes(num_inducing, batch, MAPPED_INPUTS, MAPPED_OUTPUTS, num_latents)
    step = _mapped_step(MappedRows(Path(path), MAPPED_INPUTS, MAPPED_OUTPUTS), sizes)
    for _ in range(steps):
        step()


def peaks(sizes: Sizes | None = None, wide: Sizes = WIDE) -> dict[str, float]:
    """Peak memory of a process that makes training steps and nothing else, in GB of 10⁹ bytes."""
    sizes = sizes or kuka_sizes()
    return {
        "wide_peak_gb": _peak_gb("our_steps", wide),
        "step_peak_gb": _peak_gb("our_steps", sizes),
        "peer_step_peak_gb": _peak_gb("peer_steps", sizes),
    }


def our_steps(steps: int = 2, **sizes: int) -> None:
    """Some MOGP steps, alone in a process; the optimiser has its state only after the first."""
    step = training_step("mogp", Analytic(), sizes=Sizes(**sizes))
    for _ in range(steps):
        step()


def peer_steps(steps: int = 2, **sizes: int) -> None:
    """Some steps of the peer, alone in a process."""
    step = peer_step(Sizes(**sizes))
    for _ in range(steps):
        step()


def _peak_gb(function: str, sizes: Sizes) -> float:
    given = {name: value for name, value in vars(sizes).items() if value is not None}
    return peak_alone("benchmarks.growth", function, **given).resident / 1e9


def _mapped_step(rows: MappedRows, sizes: Sizes) -> Callable[[], None]:
    # Inducing points need a sample of the rows only, however many there are.
    run = training_run("mogp", rows.random_batch(max(sizes.batch, 2 * sizes.num_inducing)), sizes, Analytic())
    return lambda: train_on(run, rows.random_batch(sizes.batch))


def _changed(sizes: Sizes, field: str, value: int) -> Sizes:
    return Sizes(**(vars(sizes) | {field: value}))
