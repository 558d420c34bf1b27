"""`make bench`: run every benchmark, print a table, keep the figures."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.solvers import solver_ratios
from benchmarks.steps import step_ratios

RESULTS = Path(__file__).parent / "results.json"


def main() -> None:
    """Run, print, write."""
    console = Console()
    results = step_ratios()
    console.print(_table("Training steps: float32, 21 → 14, L = 7, M = 400, B = 500", results))
    solvers = solver_ratios()
    console.print(_table("Krylov (CIQ) over Cholesky, one GP, forward and backward", solvers))
    content = {name: round(value, 4) for name, value in (results | solvers).items()}
    RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    console.print(f"Medians of interleaved repeats, also in {RESULTS.relative_to(Path.cwd())}")


def _table(title: str, results: dict[str, float]) -> Table:
    table = Table(title=title)
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in results.items():
        table.add_row(name, f"{value:.2f}")
    return table


if __name__ == "__main__":
    main()
