"""`mogul compare`: which of models, rivals, least squares and the mean to use, by cross-validation on a table."""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.table import Table

from mogul._typing import Array
from mogul.comparison.cost import estimated_seconds, time_in_words
from mogul.comparison.crossval import (
    LEAST_SQUARES,
    MEAN,
    Entry,
    Leaderboard,
    Split,
    Trial,
    compare,
    folds,
    group_folds,
    time_folds,
)
from mogul.comparison.rivals import RIVALS
from mogul.core.check import HELD_OUT, Check
from mogul.data import Dataset
from mogul.data.encodings.dates import Dates
from mogul.data.sources.formats import read_table
from mogul.data.sources.reading import ON_COMMAND_LINE, Reading
from mogul.data.splits import group_numbers
from mogul.errors import as_list
from mogul.heads.noise import NOISE_FLOOR
from mogul.objective import ObjectiveName
from mogul.training import FitRequest
from mogul.training.split import warn_of_order

ORDER = "the order of rows"
# With fewer rows nothing but exact GPs competes where no models are named: nets have too little to learn from.
_FEW = 500


@dataclass(frozen=True)
class Comparison:
    """A leaderboard, and the settings that reproduce it.

    `time` is what rows are ordered by where models are trained on the past: a column, or `ORDER`. `truth` has the
    held-out rows in the order of predictions. `next_command` fits what is recommended, where that is a model.
    """

    source: str
    num_rows: int
    input_names: list[str]
    output_names: list[str]
    missing_share: float
    num_folds: int
    groups: str | None
    time: str | None
    kernel: str | None
    objective: ObjectiveName
    epochs: int | None
    seed: int
    next_command: str | None
    truth: Float[Array, "K P"]
    leaderboard: Leaderboard

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        settings = {name: value for name, value in vars(self).items() if name not in ("leaderboard", "truth")}
        return {**settings, "units": "standardised", **self.leaderboard.to_json()}

    @property
    def splits_words(self) -> str:
        """How rows were held out."""
        if self.time is not None:
            return f"{self.num_folds} parts, by {self.time}; each is predicted from all rows before it"
        whole = "rows" if self.groups is None else f"whole groups, by {self.groups},"
        return f"{self.num_folds} folds of {whole} at random, seed {self.seed}; every row is held out once"


def compare_file(
    path: Path,
    targets: Sequence[str] | None,
    inputs: Sequence[str] | None,
    models: Sequence[str] | None,
    num_folds: int,
    request: FitRequest,
    on_trial: Callable[[int, Trial], None] = lambda split, trial: None,
    groups: str | None = None,
    rivals: Sequence[str] = (),
    reading: Reading | None = None,
    *,
    by_time: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> Comparison:
    """Cross-validate models on the columns of a file: every row is held out once, alone or with its group.

    Args:
        path: path of the table.
        targets: columns to predict.
        inputs: columns to predict from; None for all others.
        models: names of models; None for those that suit the number of rows.
        num_folds: the number of parts that are held out.
        request: how to train each model.
        on_trial: called after each trial, with the number of its split.
        groups: a column of group labels; groups are held out as a whole.
        rivals: names of rivals.
        reading: categories, gaps and the layout of the table.
        by_time: whether each part is predicted from the rows before it, in order of a date among the inputs, or of
            rows.
        say: receives what is about to be done, and how long that takes.
    """
    reading = reading or Reading(prefix=ON_COMMAND_LINE)
    table, columns = reading.select(read_table(path), targets, inputs, groups)
    labels = columns.labels(table)
    data = columns.data(table)
    order, together = None, None
    if by_time:
        order, times = _times(data)
        splits = time_folds(times, num_folds)
        together = np.zeros(data.num_rows, dtype=np.int64)
        for number, (_, held_out) in enumerate(splits):
            together[held_out] = number
    elif labels is None:
        warn_of_order(data)
        splits = folds(data.num_rows, num_folds, request.seed)
    else:
        numbers = group_numbers(labels, data.num_rows)
        request = replace(request, groups=numbers)
        splits = group_folds(numbers, num_folds, request.seed)
    default = request.model_for(data)
    if models is None:
        models = _suited(default, max(len(kept) for kept, _ in splits))
    say(_plan(data, models, rivals, splits))
    started = time.perf_counter()

    def note(split: int, trial: Trial) -> None:
        on_trial(split, trial)
        if split == 0 and trial.label == MEAN:  # the last of the first fold
            first, rest = (estimated_seconds(data, models, rivals, part) for part in (splits[:1], splits[1:]))
            say(f"Compare  {time_in_words((time.perf_counter() - started) * rest / first)} more")

    board = compare(data, models, splits, request, note, rivals, together)
    return Comparison(
        source=str(path),
        num_rows=data.num_rows,
        input_names=data.input_columns,
        output_names=data.output_names,
        missing_share=data.num_missing / data.y.size,
        num_folds=num_folds,
        groups=groups,
        time=order,
        kernel=request.options.get("kernel"),
        objective=request.objective,
        epochs=request.settings.get("epochs"),
        seed=request.seed,
        next_command=_next(board, path, data, groups, inputs, request, reading, default),
        truth=data.y[next(iter(board.unseen.values())).places],
        leaderboard=board,
    )


def _times(data: Dataset) -> tuple[str, Float[Array, "N"]]:
    """What rows are ordered by: the first date among the inputs, or their places."""
    if data.encoding is not None:
        for column in data.encoding.columns:
            if isinstance(column, Dates) and column.origin is not None:
                return column.name, data.x[:, data.input_names.index(column.features[0])]
    return ORDER, np.arange(data.num_rows, dtype=np.float64)


def _suited(default: str, num_rows: int) -> list[str]:
    """The default, and others where there are rows enough for them.

    >>> _suited("mogp", 100), _suited("mogp", 1000), _suited("n-sbgprn", 9000)
    (['mogp'], ['mogp', 'n-sbgprn'], ['n-sbgprn', 'mogp'])
    """
    others = [] if num_rows < _FEW else ["mogp", "n-sbgprn"]
    return list(dict.fromkeys([default, *others]))


def _plan(data: Dataset, models: Sequence[str], rivals: Sequence[str], splits: Sequence[Split]) -> str:
    """What is about to be done, and roughly how long it takes."""
    labels = [*models, *(RIVALS[name].label for name in rivals), LEAST_SQUARES, MEAN]
    seconds = estimated_seconds(data, models, rivals, splits)
    return f"Compare  {', '.join(labels)} on {len(splits)} folds of {data.num_rows:,} rows: {time_in_words(seconds)}"


def _next(
    board: Leaderboard,
    path: Path,
    data: Dataset,
    groups: str | None,
    inputs: Sequence[str] | None,
    request: FitRequest,
    reading: Reading,
    default: str,
) -> str | None:
    """The command that fits what is recommended; None for a line, the mean, and rivals that are no mean of a model."""
    label = board.recommended.label
    means = {RIVALS[name].label: name for name in ("trees", "boosting")}
    others = {rival.label for rival in RIVALS.values()} | {LEAST_SQUARES, MEAN}
    if str(path) == "-" or (label in others and label not in means):
        return None
    targets = [] if reading.long is not None else ["--targets", as_list(data.output_names)]
    given = {
        "--inputs": None if inputs is None else as_list(inputs),
        "--groups": groups,
        "--model": None if label == default or label in means else label,
        "--mean": means.get(label),
        "--kernel": request.options.get("kernel"),
        "--noise": request.options.get("noise"),
    }
    options = [part for option, value in given.items() if value is not None for part in (option, str(value))]
    out = f"{path.name.split('.')[0] or 'model'}.mogul"
    return shlex.join(["mogul", "fit", str(path), *targets, *options, "--out", out]) + reading.as_options()


_TERMINAL_LEVELS = (0.8, 0.95)  # all levels do not fit into a line


def comparison_table(comparison: Comparison) -> Table:
    """The leaderboard, best first."""
    table = Table(
        title=title(comparison), caption=f"{units(comparison)} Percentages: how much of the truth is in such a band."
    )
    table.add_column("model", no_wrap=True)
    for heading in leaderboard_headings(_TERMINAL_LEVELS):
        table.add_column(heading, justify="right", no_wrap=True)
    for entry in comparison.leaderboard.entries:
        table.add_row(entry.label, *leaderboard_cells(entry, _TERMINAL_LEVELS))
    return table


def output_lines(comparison: Comparison) -> list[str]:
    """Errors of what is recommended in each output's own units, beside least squares and the mean."""
    board = comparison.leaderboard
    used, line, mean = (entry.outputs for entry in (board.recommended, board[LEAST_SQUARES], board[MEAN]))
    known = len(comparison.truth)
    table = Check(HELD_OUT, known, used, line, mean).lines()
    return [f"{board.recommended.label} on {table[0]}", *(f"  {line}" for line in table[1:])]


def units(comparison: Comparison) -> str:
    """Units and noise of the scores, as text."""
    over = "parts" if comparison.time is not None else "rows" if comparison.groups is None else "groups"
    return (
        f"In units of each output's standard deviation in training; ± is one standard error over {over}. Residuals "
        f"choose the noise of models (at least {NOISE_FLOOR:g} such units where it depends on the inputs); least "
        "squares, the mean and trees have constant noise, correlated across outputs by the same rule, of trees by rows "
        "that they were not fitted to."
    )


def choices(comparison: Comparison) -> list[str]:
    """The choices of automatic selection, one line for each model."""
    lines = []
    for entry in comparison.leaderboard.entries:
        counts = [f"{words} in {count} of {comparison.num_folds} folds" for words, count in entry.chosen.items()]
        if counts:
            lines.append(f"{entry.label} chose {', '.join(counts)}.")
    return lines


def title(comparison: Comparison) -> str:
    """Title of the comparison."""
    if comparison.time is not None:
        return (
            f"{comparison.source}: {comparison.num_rows:,} rows, {comparison.num_folds} parts predicted from the past"
        )
    held_out = "rows" if comparison.groups is None else f"groups, by {comparison.groups}"
    return f"{comparison.source}: {comparison.num_rows:,} rows, {comparison.num_folds} folds, held-out {held_out}"


def leaderboard_headings(levels: Sequence[float]) -> list[str]:
    """Headings of the leaderboard, without the first."""
    return ["LL", "behind", "MRMSE", "CRPS", *(f"{level:.0%}" for level in levels), "s"]


def leaderboard_cells(entry: Entry, levels: Sequence[float]) -> list[str]:
    """A line of the leaderboard, without its label."""
    behind = f"{entry.behind:.2f} ± {entry.behind_error:.2f}" if entry.behind_error else ""
    shares = [f"{entry.coverage[level]:.0%}" for level in levels]
    return [f"{entry.ll:.2f}", behind, f"{entry.mrmse:.3f}", f"{entry.crps:.3f}", *shares, f"{entry.seconds:.0f}"]
