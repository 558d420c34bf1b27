"""Tables for a terminal."""

import statistics
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from mogul.experiments import synthetic
from mogul.experiments.lines import NO_FLOOR
from mogul.experiments.paper import published
from mogul.report.experiment_tables import ExperimentTable
from mogul.report.noise_floors import describe_floors

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


def experiment_table(content: ExperimentTable) -> Table:
    """Baselines, then models, beside the paper's numbers for the same data."""
    table = Table(title=content.title, caption=content.note or None)
    for number, heading in enumerate(content.headings):
        table.add_column(heading, justify="right" if number else "left")
    for rows in content.sections.values():
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        table.add_section()
    return table


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
