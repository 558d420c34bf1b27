"""`mogul reproduce`: an experiment of the paper, as a table beside the paper's own."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from mogul.data.robots import data_folder, load
from mogul.errors import DataError, require_natural, require_positive
from mogul.experiments import regression
from mogul.files import write_json
from mogul.models import Name
from mogul.report.tables import regression_table


def run_regression(
    dataset: str, models: Sequence[str], epochs: int, seed: int, folder: Path | None, json_file: Path | None
) -> None:
    """Check everything first; then fit each model, saying how it went; then the table."""
    for model in models:
        Name.parse(model)
    require_positive(epochs=epochs)
    require_natural(seed=seed)
    settings: dict[str, str | int] = {"dataset": dataset, "epochs": epochs, "seed": seed}
    done = _read_done(json_file, settings) if json_file is not None else {}
    robot = load(dataset, data_folder(folder))
    console = Console()
    rows = []
    for row in regression.run(robot, models, epochs, seed, done):
        rows.append(row)
        took = "" if row.seconds is None else f"  ({row.seconds:.0f} s)"
        console.print(f"{row.label:16s} LL {row.ll:7.2f}  MRMSE {row.mrmse:.3f}{took}")
        done[row.label] = row
        if json_file is not None:
            write_json(json_file, settings | {"rows": [asdict(each) for each in done.values()]})
    console.print(regression_table(dataset, rows, epochs, seed))


def _read_done(path: Path, settings: dict[str, str | int]) -> dict[str, regression.Row]:
    """The rows of an earlier run with the same settings, by label: an interrupted table goes on where it stopped."""
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = {row["label"]: regression.Row(**row) for row in content.pop("rows")}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DataError(f"{path} must be a file of this command's own; it is not. Choose another name.") from None
    if content != settings:
        raise DataError(f"{path} must hold results of {settings}; it holds {content}. Choose another name.")
    return rows
