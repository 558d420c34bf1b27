"""`make bench`: run every benchmark, print a table, keep the figures."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.steps import step_ratios

RESULTS = Path(__file__).parent / "results.json"


def main() -> None:
    """Run, print, write."""
    results = step_ratios()
    table = Table(title="mogul benchmarks: medians of interleaved repeats, float32, 21 → 14, L = 7, M = 400, B = 500")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in results.items():
        table.add_row(name, f"{value:.2f}")
    Console().print(table)
    RESULTS.write_text(json.dumps({name: round(value, 4) for name, value in results.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
