"""Tables for a terminal."""

import statistics
from collections.abc import Sequence

from rich.table import Table

from mogul.experiments import regression, synthetic

_LABELS = {"oracle": "oracle (true function and noise)", "least squares": "least squares (baseline)"}


def synthetic_table(rows: Sequence[synthetic.Row]) -> Table:
    """Oracle, the paper's figures, the baseline and our models: means over seeds."""
    seeds = sorted({row.seed for row in rows})
    title = f"g(x) = cos(4‖x‖), ℝ⁵ → ℝ⁸, 1000 rows, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    table = Table(title=title)
    table.add_column("model")
    for heading in ("test LL", "MRMSE", "CRPS", "in 80 % band", "seconds"):
        table.add_column(heading, justify="right")
    ours = list(dict.fromkeys(row.model for row in rows))
    for model in ours:
        if model in synthetic.PAPER:
            continue
        _add(table, _LABELS.get(model, model), [row for row in rows if row.model == model])
    for model, (ll, mrmse) in synthetic.PAPER.items():
        table.add_row(f"{model.upper()}, the paper", f"{ll:.2f}", f"{mrmse:.3f}", "", "", "")
    for model in ours:
        if model in synthetic.PAPER:
            _add(table, f"{model.upper()}, mogul", [row for row in rows if row.model == model])
    return table


def regression_table(dataset: str, rows: Sequence[regression.Row], epochs: int, seed: int) -> Table:
    """Our models, least squares among them, beside the paper's figures for the same data."""
    table = Table(title=f"{dataset}, random split, seed {seed}, {epochs} epochs, standardised units, no noise floor")
    table.add_column("model")
    for heading in ("test LL", "MRMSE", "CRPS", "seconds", "the paper's LL", "MRMSE"):
        table.add_column(heading, justify="right")
    for row in rows:
        theirs = regression.PAPER[dataset].get(row.label)
        table.add_row(
            row.label,
            f"{row.ll:.2f}",
            f"{row.mrmse:.3f}",
            f"{row.crps:.4f}",
            "" if row.seconds is None else f"{row.seconds:.0f}",
            *(("", "") if theirs is None else (f"{theirs[0]:.2f}", f"{theirs[1]:.3f}")),
        )
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
