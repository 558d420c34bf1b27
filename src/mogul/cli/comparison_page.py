"""A comparison of models as a table for a terminal, and as one HTML page that needs nothing else."""

from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from rich.table import Table

from mogul.cli.compare import Comparison
from mogul.comparison.crossval import Entry
from mogul.heads.noise import NOISE_FLOOR
from mogul.metrics import LEVELS
from mogul.storage.atomic import write_whole

_TERMINAL_LEVELS = (0.8, 0.95)  # all of them would not fit into a line


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
    """Write the report, whole or not at all; its folder is made."""
    text = page(comparison)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def page(comparison: Comparison) -> str:
    """The leaderboard, the verdict and the settings, as HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("mogul.cli").joinpath("comparison.html").read_text(encoding="utf-8"))
    entries = comparison.leaderboard.entries
    return template.render(
        title=title(comparison),
        comparison=comparison,
        verdict=comparison.leaderboard.verdict,
        headings=_headings(LEVELS),
        rows=[(entry.label, _cells(entry, LEVELS)) for entry in entries],
        bars=_bars(entries),
        units=units(comparison),
        splits=_splits(comparison),
        choices=choices(comparison),
        version=version("mogul"),
    )


def units(comparison: Comparison) -> str:
    """What the numbers mean."""
    over = "rows" if comparison.groups is None else "groups"
    return (
        f"In units of each output's standard deviation in training; ± is one standard error over {over}. Residuals "
        f"choose the noise of models (at least {NOISE_FLOOR:g} such units where it depends on the inputs); that of "
        "least squares and the mean is constant, and correlated across outputs by the same rule."
    )


def choices(comparison: Comparison) -> list[str]:
    """What held-out rows chose, a line for each that left it to them."""
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
    """What was compared on what."""
    held_out = "rows" if comparison.groups is None else f"groups, by {comparison.groups}"
    return f"{comparison.source}: {comparison.num_rows:,} rows, {comparison.num_folds} folds, held-out {held_out}"


def _headings(levels: Sequence[float]) -> list[str]:
    return ["LL", "behind", "MRMSE", "CRPS", *(f"{level:.0%}" for level in levels), "s"]


def _cells(entry: Entry, levels: Sequence[float]) -> list[str]:
    behind = f"{entry.behind:.2f} ± {entry.behind_error:.2f}" if entry.behind_error else ""
    shares = [f"{entry.coverage[level]:.0%}" for level in levels]
    return [f"{entry.ll:.2f}", behind, f"{entry.mrmse:.3f}", f"{entry.crps:.3f}", *shares, f"{entry.seconds:.0f}"]


def _bars(entries: list[Entry]) -> list[tuple[str, float]]:
    """How far each is behind the best, as a share of the widest gap."""
    widest = max(entry.behind for entry in entries) or 1.0
    return [(entry.label, entry.behind / widest) for entry in entries]
