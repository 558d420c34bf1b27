"""`mogul reproduce`: an experiment of the paper, as a table beside the paper's own."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from mogul.data.robots import data_folder, load
from mogul.errors import require_natural, require_positive
from mogul.experiments import regression
from mogul.models import Name
from mogul.report.files import write_json
from mogul.report.tables import regression_table


def run_regression(
    dataset: str, models: Sequence[str], epochs: int, seed: int, folder: Path | None, json_file: Path | None
) -> None:
    """Check everything first; then fit each model, saying how it went; then the table."""
    for model in models:
        Name.parse(model)
    require_positive(epochs=epochs)
    require_natural(seed=seed)
    robot = load(dataset, data_folder(folder))
    console = Console()
    rows = []
    for row in regression.run(robot, models, epochs, seed):
        rows.append(row)
        took = "" if row.seconds is None else f"  ({row.seconds:.0f} s)"
        console.print(f"{row.label:16s} LL {row.ll:7.2f}  MRMSE {row.mrmse:.3f}{took}")
        if json_file is not None:
            write_json(json_file, [asdict(row) for row in rows])
    console.print(regression_table(dataset, rows, epochs, seed))
