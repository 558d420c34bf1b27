"""Tables for a terminal."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mogul.lab.experiments import synthetic
from mogul.lab.experiments.lines import NO_FLOOR
from mogul.lab.experiments.paper import published
from mogul.lab.report.experiment_tables import ExperimentTable
from mogul.lab.report.noise_floors import describe_floors

# What a narrow terminal goes without, in this order: our LL stays, and the paper's and the difference beside it.
_SPARED = ("the paper's MRMSE", "in 80 % band", "CRPS", "seconds", "MRMSE", "training LL", "runs")
_SHORT_HEADINGS = {
    "in 80 % band": "in 80 %\nband",
    "training LL": "training\nLL",
    "the paper's LL": "paper's\nLL",
    "the paper's MRMSE": "paper's\nMRMSE",
    "LL above it, in its sd": "above,\nin sd",
}
_ANY_WIDTH = 10_000

_LABELS = {"oracle": "oracle (true function and noise)", "least squares": "least squares (baseline)"}


def synthetic_table(rows: Sequence[synthetic.Row]) -> Table:
    """Oracle, the paper's figures, the baseline and our models: means over seeds."""
    seeds = sorted({row.seed for row in rows})
    title = f"g(x) = cos(4‖x‖), ℝ⁵ → ℝ⁸, 1000 rows, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    table = Table(title=title, caption=describe_floors((row.model, NO_FLOOR) for row in rows))
    table.add_column("model")
    for heading in ("test LL", "MRMSE", "CRPS", "in 80 % band", "seconds"):
        table.add_column(heading, justify="right")
    ours = list(dict.fromkeys(row.model for row in rows))
    for model in ours:
        if model in synthetic.MODELS:
            continue
        _add(table, _LABELS.get(model, model), [row for row in rows if row.model == model])
    for model in synthetic.MODELS:
        ll, mrmse = (published("synthetic", synthetic.DATASET, model.upper(), name) for name in ("ll", "mrmse"))
        if ll is not None and mrmse is not None:
            table.add_row(f"{model.upper()}, the paper", f"{ll.mean:.2f}", f"{mrmse.mean:.3f}", "", "", "")
    for model in ours:
        if model in synthetic.MODELS:
            _add(table, f"{model.upper()}, mogul", [row for row in rows if row.model == model])
    return table


@dataclass(frozen=True)
class TerminalTable:
    """Baselines, then models, beside the paper's numbers for the same data: as many columns as the terminal has room.

    Names of models are never cut; columns that are left out are told of below the table.
    """

    content: ExperimentTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """The fullest table that fits, or the smallest there is."""
        unlimited = options.update(width=_ANY_WIDTH)
        for table in self._ever_narrower():
            if Measurement.get(console, unlimited, table).maximum <= options.max_width:
                break
        yield table

    def _ever_narrower(self) -> Iterator[Table]:
        headings = self.content.headings
        yield self._with(headings, headings)
        spared = [heading for heading in _SPARED if heading in headings]
        for count in range(len(spared) + 1):
            kept = [heading for heading in headings if heading not in spared[:count]]
            yield self._with(kept, [_SHORT_HEADINGS.get(heading, heading) for heading in kept])

    def _with(self, kept: Sequence[str], printed: Sequence[str]) -> Table:
        """The table with these of its columns, under headings as they are printed."""
        table = Table(
            title=Text(self.content.title, style="table.title"),
            caption=Text(self._note(kept), style="table.caption"),
            box=box.HORIZONTALS,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for number, heading in enumerate(printed):
            table.add_column(heading, justify="right" if number else "left", no_wrap=number == 0)
        places = [self.content.headings.index(heading) for heading in kept]
        for rows in self.content.sections.values():
            for row in rows:
                table.add_row(*(Text(row[place]) for place in places))
            table.add_section()
        return table

    def _note(self, kept: Sequence[str]) -> str:
        left_out = [heading for heading in self.content.headings if heading not in kept]
        words = [f"Not shown in so narrow a terminal: {', '.join(left_out)} (see tables.md)."] if left_out else []
        return " ".join([self.content.note, *words]).strip()


def _add(table: Table, label: str, rows: Sequence[synthetic.Row]) -> None:
    ll = f"{statistics.fmean(row.ll for row in rows):.2f}"
    if len(rows) > 1:
        ll += f" ± {statistics.stdev(row.ll for row in rows):.2f}"
    table.add_row(
        label,
        ll,
        f"{statistics.fmean(row.mrmse for row in rows):.3f}",
        f"{statistics.fmean(row.crps for row in rows):.4f}",
        f"{statistics.fmean(row.coverage for row in rows):.0%}",
        "" if rows[0].seconds is None else f"{statistics.fmean(row.seconds or 0.0 for row in rows):.0f}",
    )
