"""`mogul compare`: models against rivals, least squares and the mean, by cross-validation on a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from rich.table import Table

from mogul.comparison.crossval import Entry, Leaderboard, Trial, compare, folds, group_folds
from mogul.data.sources.formats import read_table
from mogul.data.sources.reading import ON_COMMAND_LINE, Reading
from mogul.data.splits import group_numbers
from mogul.heads.noise import NOISE_FLOOR
from mogul.metrics import LEVELS
from mogul.objective import ObjectiveName
from mogul.storage.atomic import write_whole
from mogul.training import FitRequest
from mogul.training.split import warn_of_order


@dataclass(frozen=True)
class Comparison:
    """A leaderboard, and the settings that reproduce it."""

    source: str
    num_rows: int
    input_names: list[str]
    output_names: list[str]
    missing_share: float
    num_folds: int
    groups: str | None
    kernel: str | None
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
    targets: Sequence[str] | None,
    inputs: Sequence[str] | None,
    models: Sequence[str],
    num_folds: int,
    request: FitRequest,
    on_trial: Callable[[int, Trial], None] = lambda split, trial: None,
    groups: str | None = None,
    rivals: Sequence[str] = (),
    reading: Reading | None = None,
) -> Comparison:
    """Cross-validate models on the columns of a file: every row is held out once, alone or with its group."""
    reading = reading or Reading(prefix=ON_COMMAND_LINE)
    table, columns = reading.select(read_table(path), targets, inputs, groups)
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
        input_names=data.input_columns,
        output_names=data.output_names,
        missing_share=data.num_missing / data.y.size,
        num_folds=num_folds,
        groups=groups,
        kernel=request.options.get("kernel"),
        objective=request.objective,
        epochs=request.settings.get("epochs"),
        seed=request.seed,
        leaderboard=compare(data, models, splits, request, on_trial, rivals),
    )


_TERMINAL_LEVELS = (0.8, 0.95)  # all levels do not fit into a line


def comparison_table(comparison: Comparison) -> Table:
    """The leaderboard, best first."""
    table = Table(
        title=title(comparison), caption=f"{units(comparison)} Percentages: how much of the truth is in such a band."
    )
    table.add_column("model", no_wrap=True)
    for heading in _headings(_TERMINAL_LEVELS):
        table.add_column(heading, justify="right", no_wrap=True)
    for entry in comparison.leaderboard.entries:
        table.add_row(entry.label, *_cells(entry, _TERMINAL_LEVELS))
    return table


def write_page(comparison: Comparison, path: Path) -> None:
    """Write the report atomically; its folder is created."""
    text = page(comparison)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def page(comparison: Comparison) -> str:
    """The leaderboard, the verdict and the settings, as HTML; all user text is escaped."""
    board = comparison.leaderboard
    trained = "the default preset" if comparison.epochs is None else f"at most {comparison.epochs} epochs"
    failed = [f"{label} failed: {reason}" for label, reason in board.failures.items()]
    settings = {
        "Inputs": ", ".join(comparison.input_names),
        "Outputs": f"{', '.join(comparison.output_names)} ({comparison.missing_share:.1%} missing)",
        "Splits": _splits(comparison),
        **({} if comparison.kernel is None else {"Kernel": comparison.kernel}),
        "Training": f"{trained}, objective {comparison.objective}; mogul {version('mogul')}",
    }
    template = Template(files("mogul.cli").joinpath("comparison.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(title(comparison)),
        verdict=escape(board.verdict),
        units=escape(units(comparison)),
        headings="".join(f'<th scope="col">{escape(heading)}</th>' for heading in _headings(LEVELS)),
        rows="\n".join(_html_row(entry) for entry in board.entries),
        bars="\n".join(_html_bar(*bar) for bar in _bars(board.entries)),
        notes="\n".join(f"<p>{escape(line)}</p>" for line in [*choices(comparison), *failed]),
        settings="\n".join(f"<dt>{label}</dt><dd>{escape(text)}</dd>" for label, text in settings.items()),
    )


def _html_row(entry: Entry) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in (entry.label, *_cells(entry, LEVELS)))
    return f"<tr>{cells}</tr>"


def _html_bar(label: str, share: float) -> str:
    bar = f'<span class="bar" style="width: {100 * share:.1f}%"></span>'
    return f'<tr><th scope="row">{escape(label)}</th><td style="text-align: left; width: 30rem">{bar}</td></tr>'


def units(comparison: Comparison) -> str:
    """Units and noise of the scores, as text."""
    over = "rows" if comparison.groups is None else "groups"
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


def _splits(comparison: Comparison) -> str:
    whole = "rows" if comparison.groups is None else f"whole groups, by {comparison.groups},"
    return f"{comparison.num_folds} folds of {whole} at random, seed {comparison.seed}; every row is held out once"


def title(comparison: Comparison) -> str:
    """Title of the comparison."""
    held_out = "rows" if comparison.groups is None else f"groups, by {comparison.groups}"
    return f"{comparison.source}: {comparison.num_rows:,} rows, {comparison.num_folds} folds, held-out {held_out}"


def _headings(levels: Sequence[float]) -> list[str]:
    return ["LL", "behind", "MRMSE", "CRPS", *(f"{level:.0%}" for level in levels), "s"]


def _cells(entry: Entry, levels: Sequence[float]) -> list[str]:
    behind = f"{entry.behind:.2f} ± {entry.behind_error:.2f}" if entry.behind_error else ""
    shares = [f"{entry.coverage[level]:.0%}" for level in levels]
    return [f"{entry.ll:.2f}", behind, f"{entry.mrmse:.3f}", f"{entry.crps:.3f}", *shares, f"{entry.seconds:.0f}"]


def _bars(entries: list[Entry]) -> list[tuple[str, float]]:
    """Gap of each to the best, as a share of the widest gap."""
    widest = max(entry.behind for entry in entries) or 1.0
    return [(entry.label, entry.behind / widest) for entry in entries]
