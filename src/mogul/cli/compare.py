"""`mogul compare`: models beside least squares and the mean, by cross-validation on a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mogul.comparison.crossval import Leaderboard, Trial, compare, folds, group_folds
from mogul.data.sources.columns import ON_COMMAND_LINE, Columns
from mogul.data.sources.formats import read_table
from mogul.data.splits import group_numbers
from mogul.objective import ObjectiveName
from mogul.training import FitRequest
from mogul.training.split import warn_of_order


@dataclass(frozen=True)
class Comparison:
    """A leaderboard, and all that is needed to get it again."""

    source: str
    num_rows: int
    input_names: list[str]
    output_names: list[str]
    missing_share: float
    num_folds: int
    groups: str | None
    objective: ObjectiveName
    epochs: int | None
    seed: int
    leaderboard: Leaderboard

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        settings = {name: value for name, value in vars(self).items() if name != "leaderboard"}
        return {**settings, "units": "standardised", **self.leaderboard.to_json()}


def compare_file(
    path: Path,
    targets: Sequence[str],
    inputs: Sequence[str] | None,
    models: Sequence[str],
    num_folds: int,
    request: FitRequest,
    on_trial: Callable[[int, Trial], None] = lambda split, trial: None,
    groups: str | None = None,
) -> Comparison:
    """Cross-validate models on the columns of a file: every row is held out once, by itself or with its group."""
    table, columns = read_table(path), Columns(targets, inputs, groups, ON_COMMAND_LINE)
    labels = columns.labels(table)
    data = columns.data(table)
    if labels is None:
        warn_of_order(data)
        splits = folds(data.num_rows, num_folds, request.seed)
    else:
        numbers = group_numbers(labels, data.num_rows)
        request = replace(request, groups=numbers)
        splits = group_folds(numbers, num_folds, request.seed)
    return Comparison(
        source=str(path),
        num_rows=data.num_rows,
        input_names=data.input_names,
        output_names=data.output_names,
        missing_share=data.num_missing / data.y.size,
        num_folds=num_folds,
        groups=groups,
        objective=request.objective,
        epochs=request.settings.get("epochs"),
        seed=request.seed,
        leaderboard=compare(data, models, splits, request, on_trial),
    )
