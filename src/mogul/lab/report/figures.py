"""Figures of results with the paper's axes, drawn without a screen: sweeps, and the lines of a table as dots."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mogul.lab.experiments.lines import Spread
from mogul.lab.report.frame import SECTIONS, Board, BoardRow, number
from mogul.plot.style import save_figure

AXES = {
    "num_hidden": "number of hidden units H",
    "num_train": "number of training rows N_data",
    "num_missing": "number of missing outputs per row",
}
PANELS = {"ll": "test LL", "mrmse": "test MRMSE", "train_ll": "training LL"}
# The paper's figures: MOGP dashed, DGP dotted. Of the baselines the one that every model must beat is drawn.
_DASHES = {"mogp": "dash", "dgp": "dot", "least-squares": "dashdot"}
_BASELINE = "least-squares"
_STYLES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_KINDS = {
    "model": ("ours", "tab:blue", "o"),
    "paper": ("the paper", "tab:purple", "D"),
    "baseline": ("baseline", "tab:brown", "s"),
}


@dataclass(frozen=True)
class Curve:
    """A label over the values of a setting.

    `is_level` where it has none, and is the same at all of them; `is_reference` for the paper's own MOGP and DGP, and
    for the baseline, which have no colour of their own.
    """

    label: str
    kind: str
    dash: str
    is_reference: bool
    is_level: bool
    points: tuple[tuple[float, BoardRow], ...]

    def values(self, metric: str) -> list[tuple[float, Spread]]:
        """Where this metric is known: the setting and the score."""
        return [(at, row.scores[metric]) for at, row in self.points if metric in row.scores]


@dataclass(frozen=True)
class Sweep:
    """All curves over one setting, and the panels that the paper draws of them."""

    setting: str
    curves: tuple[Curve, ...]
    panels: tuple[str, ...]

    @property
    def axis(self) -> str:
        """What the horizontal axis is called."""
        return AXES.get(self.setting, self.setting)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value of the setting."""
        values = [at for curve in self.curves if not curve.is_level for at, _ in curve.points]
        return min(values), max(values)


def sweep_of(board: Board) -> Sweep | None:
    """The sweep of a table whose jobs differ by a setting, if they do."""
    setting = _swept(board.rows)
    if setting is None:
        return None
    groups: dict[tuple[str, str, bool], list[tuple[float, BoardRow]]] = {}
    for row in board.rows:
        if not row.scores or row.kind == "paper" or (row.kind == "baseline" and row.model != _BASELINE):
            continue
        at = number(row.at) if row.sweep == setting else None
        groups.setdefault((row.label, row.kind, at is None), []).append((at or 0.0, row))
    curves = [
        Curve(
            label,
            kind,
            _DASHES.get(points[0][1].model, "solid"),
            kind == "baseline" or (points[0][1].model in _DASHES and points[0][1].is_plain),
            is_level,
            tuple(sorted(points, key=lambda point: point[0])),
        )
        for (label, kind, is_level), points in sorted(groups.items())
    ]
    panels = ("ll", "train_ll") if board.experiment == "small-data" else ("ll", "mrmse")
    known = tuple(panel for panel in panels if any(curve.values(panel) for curve in curves))
    return Sweep(setting, tuple(curves), known) if known else None


def _swept(rows: Sequence[BoardRow]) -> str | None:
    """The setting with most different values: a sweep may fix others."""
    values: dict[str, set[float]] = {}
    for row in rows:
        if row.scores and row.sweep and (at := number(row.at)) is not None:
            values.setdefault(row.sweep, set()).add(at)
    return max(values, key=lambda name: len(values[name]), default=None)


def write_figures(out: Path, boards: Sequence[Board]) -> list[Path]:
    """Draw each sweep and each table into OUT/figures, as PNG and SVG, and say where they are."""
    paths = []
    for board in boards:
        sweep = sweep_of(board)
        if sweep is not None:
            figure = sweep_figure(board, sweep)
        elif any("ll" in row.scores for row in board.rows):
            figure = table_figure(board)
        else:
            continue
        paths += save_figure(figure, out / "figures", re.sub(r"[^\w-]+", "-", board.key))
    return paths


def sweep_figure(board: Board, sweep: Sweep) -> Figure:
    """One panel for each metric against the setting: MOGP dashed, DGP dotted, the rest with a mark for each value."""
    figure = Figure(figsize=(4.2 * len(sweep.panels), 3.4), layout="constrained")
    panels = figure.subplots(1, len(sweep.panels), squeeze=False)[0]
    for panel, metric in zip(panels, sweep.panels, strict=True):
        colours = (f"C{number}" for number in itertools.count())
        for curve in sweep.curves:
            _draw(panel, curve, metric, "black" if curve.is_reference else next(colours))
        panel.set_xlabel(sweep.axis)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_ylabel(PANELS[metric])
    panels[0].legend(fontsize="small", frameon=False)
    figure.suptitle(
        _plain(f"{SECTIONS.get(board.experiment, (board.experiment, ''))[0]}: {board.name}\n{board.details}"),
        fontsize="medium",
    )
    return figure


def table_figure(board: Board) -> Figure:
    """The test LL of each line, best at the top, with one standard deviation; what is ours, the paper's, a baseline."""
    lines = [line for line in board.rows if "ll" in line.scores][::-1]
    figure = Figure(figsize=(6.4, 1.2 + 0.24 * len(lines)), layout="constrained")
    panel = figure.subplots()
    for kind, (word, colour, marker) in _KINDS.items():
        places = [place for place, line in enumerate(lines) if line.kind == kind]
        if places:
            scores = [lines[place].scores["ll"] for place in places]
            spreads = [score.sd or 0.0 for score in scores]
            hollow = "none" if kind == "paper" else colour
            panel.errorbar(
                [score.mean for score in scores], places, xerr=spreads, fmt=marker, color=colour, mfc=hollow, label=word
            )
    _point_to_stragglers(panel, lines, board.low_end)
    panel.set_yticks(range(len(lines)), [_plain(line.label) for line in lines])
    # Long labels of lines leave a narrow panel: what stands above and below it may begin to the left of it.
    panel.set_xlabel("test LL per datapoint" + (f", {board.units}" if board.units else ""), loc="right")
    title = _plain(f"{board.experiment}: {board.name}\n{board.num_rows}".strip())
    figure.suptitle(title, x=0.01, horizontalalignment="left", fontsize="medium")
    panel.grid(axis="x", alpha=0.3)
    panel.legend(fontsize="small", frameon=False)
    return figure


def _point_to_stragglers(panel: Axes, lines: list[BoardRow], low: float) -> None:
    """Begin the axis at the low end, with an arrow and the number for each line that is further down."""
    best = max(line.scores["ll"].mean for line in lines)
    if low == min(line.scores["ll"].mean for line in lines):
        return
    panel.set_xlim(low - 0.08 * (best - low), best + 0.08 * (best - low))
    for place, line in enumerate(lines):
        if (mean := line.scores["ll"].mean) < low:
            panel.text(low, place, f"← {mean:.1f}".replace("-", "−"), va="center", fontsize="small")


def _draw(panel: Axes, curve: Curve, metric: str, colour: str) -> None:
    values = curve.values(metric)
    style = _STYLES[curve.dash]
    if not values:
        return
    if curve.is_level:
        panel.axhline(values[0][1].mean, linestyle=style, color=colour, label=_plain(curve.label))
        return
    at, spreads = [place for place, _ in values], [spread.sd or 0.0 for _, spread in values]
    means = [spread.mean for _, spread in values]
    panel.errorbar(
        at, means, yerr=spreads, linestyle=style, color=colour, marker="o", ms=4, capsize=2, label=_plain(curve.label)
    )


def _plain(text: str) -> str:
    """matplotlib reads what stands between dollars as mathematics."""
    return text.replace("$", r"\$")
