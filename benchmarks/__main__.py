"""`make bench`: run groups of benchmarks, print tables, keep the figures, write docs/performance.md.

`python -m benchmarks steps growth` runs these groups only; the figures of the others stay as they are.
`python -m benchmarks panel` sets the default beside its rivals: see `benchmarks.panel`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import describe
from benchmarks.report import missed, performance_page

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
# Each is a module with a function `run`, imported only when it is asked for.
GROUPS = {
    "steps": "Training steps: float32, 21 → 14, L = 7, M = 400, B = 500",
    "noises": "Kinds of noise over constant noise: training steps of N-SBGPRN, the same sizes",
    "solvers": "Krylov (CIQ) over Cholesky, one GP, forward and backward",
    "growth": "Growth of a training step, and its memory",
    "big": "Rows that stay on disk, and two workers",
    "prediction": "Mean and std: many rows, one row",
    "loop": "Control loops: exported programs, rollouts, updates",
    "small": "Few rows: the default beside scikit-learn's exact GPs",
    "robots": "Kuka and F-Baxter",
    "latents": "Latent inputs: classes of oil flow, and missing values of new rows",
    "precision": "Precision: N-SBGPRN, defaults, 10 epochs, random split of seed 0",
}


def main() -> None:
    """Run, print, write: after each group, so that a long run that is cut short leaves what it has."""
    if sys.argv[1:2] == ["panel"]:  # hours of work and options of its own: never a part of `make bench`
        import_module("benchmarks.panel").main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="group", help=f"any of {', '.join(GROUPS)}; all by default")
    groups = parser.parse_args().groups or list(GROUPS)
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        parser.error(f"unknown group {', '.join(unknown)}; choose from {', '.join(GROUPS)}")
    console = Console()
    for group in groups:
        measure: Callable[[], dict[str, float]] = import_module(f"benchmarks.{group}").run
        figures = measure()
        if figures:  # a group without its data has none
            console.print(_table(GROUPS[group], figures))
            keep(figures, RESULTS, PAGE)
    console.print(f"Figures in {RESULTS}, and the table in {PAGE}")
    for line in missed(json.loads(RESULTS.read_text(encoding="utf-8"))):
        console.print(f"missed: {line}")


def keep(figures: Mapping[str, float], results: Path, page: Path) -> None:
    """Merge into the results of other groups, and write the page anew."""
    known: dict[str, float | str] = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    known |= {name: round(value, 4) for name, value in figures.items()} | describe()
    results.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    page.write_text(performance_page(known), encoding="utf-8")


def _table(title: str, figures: Mapping[str, float]) -> Table:
    table = Table(title=title)
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        table.add_row(name, f"{value:.4g}")
    return table


if __name__ == "__main__":
    main()
