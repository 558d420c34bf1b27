"""Figures of results with the paper's axes, for print: sweeps, and the lines of a table as dots."""

import itertools

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mogul.lab.report.leaderboard import SECTIONS, Board, Line
from mogul.lab.report.sweeps import PANELS, Curve, Sweep

_STYLES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_KINDS = {
    "model": ("ours", "tab:blue", "o"),
    "paper": ("the paper", "tab:purple", "D"),
    "baseline": ("baseline", "tab:brown", "s"),
}


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
    lines = [line for line in board.lines if "ll" in line.scores][::-1]
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
    title = _plain(f"{board.experiment}: {board.name}\n{board.rows}".strip())
    figure.suptitle(title, x=0.01, horizontalalignment="left", fontsize="medium")
    panel.grid(axis="x", alpha=0.3)
    panel.legend(fontsize="small", frameon=False)
    return figure


def _point_to_stragglers(panel: Axes, lines: list[Line], low: float) -> None:
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
