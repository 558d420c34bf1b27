"""A comparison of models as a table for a terminal, and as one HTML page that needs nothing else."""

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from rich.table import Table

from mogul.commands.compare import Comparison
from mogul.experiments.comparison import Entry
from mogul.files import write_whole

UNITS = "In units of each output's standard deviation in training; ± is one standard error over rows."


def comparison_table(comparison: Comparison) -> Table:
    """The leaderboard, best first."""
    table = Table(title=title(comparison), caption=UNITS)
    table.add_column("model", no_wrap=True)
    for heading in _headings(comparison):
        table.add_column(heading, justify="right")
    for entry in comparison.leaderboard.entries:
        table.add_row(entry.label, *_cells(entry))
    return table


def write_page(comparison: Comparison, path: Path) -> None:
    """Write the report, whole or not at all; its folder is made."""
    text = page(comparison)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def page(comparison: Comparison) -> str:
    """The leaderboard, the verdict and the settings, as HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("mogul.report").joinpath("comparison.html").read_text(encoding="utf-8"))
    entries = comparison.leaderboard.entries
    return template.render(
        title=title(comparison),
        comparison=comparison,
        verdict=comparison.leaderboard.verdict,
        headings=_headings(comparison),
        rows=[(entry.label, _cells(entry)) for entry in entries],
        bars=_bars(entries),
        units=UNITS,
        version=version("mogul"),
    )


def title(comparison: Comparison) -> str:
    """What was compared on what."""
    return f"{comparison.source}: {comparison.num_rows:,} rows, {comparison.num_folds} folds, held-out rows"


def _headings(comparison: Comparison) -> list[str]:
    levels = comparison.leaderboard.entries[0].coverage
    return ["LL per row", "behind the best", "MRMSE", "CRPS", *(f"in {level:.0%} band" for level in levels), "seconds"]


def _cells(entry: Entry) -> list[str]:
    behind = f"{entry.behind:.2f} ± {entry.behind_error:.2f}" if entry.behind_error else ""
    shares = [f"{share:.0%}" for share in entry.coverage.values()]
    return [f"{entry.ll:.2f}", behind, f"{entry.mrmse:.3f}", f"{entry.crps:.4f}", *shares, f"{entry.seconds:.1f}"]


def _bars(entries: list[Entry]) -> list[tuple[str, float]]:
    """How far each is behind the best, as a share of the widest gap."""
    widest = max(entry.behind for entry in entries) or 1.0
    return [(entry.label, entry.behind / widest) for entry in entries]
