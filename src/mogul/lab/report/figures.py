"""Figures, drawn without a screen."""

import re
from pathlib import Path

from matplotlib.figure import Figure

from mogul.lab.experiments.synthetic import Slice
from mogul.lab.report.leaderboard import boards
from mogul.lab.report.records import read_paper, read_records
from mogul.lab.report.result_figures import sweep_figure, table_figure
from mogul.lab.report.sweeps import sweep_of
from mogul.plot.style import draw_band


def synthetic_figure(slices: dict[str, Slice]) -> Figure:
    """The paper's figure of section 5.1: truth, mean and 10–90 % band along a ray, one panel per model."""
    figure = Figure(figsize=(6.4, 2.6 * len(slices)), layout="constrained")
    panels = figure.subplots(len(slices), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for panel, (name, line) in zip(panels, slices.items(), strict=True):
        draw_band(panel, line.radius, line.mean, line.low, line.high, label="10–90 %")
        panel.plot(line.radius, line.truth, ":", color="black", label="truth")
        panel.axvspan(1.0, float(line.radius[-1]), color="0.5", alpha=0.12, lw=0, label="no data: extrapolation")
        panel.set_title(name.upper(), loc="left", fontsize="medium")
        panel.set_ylabel("output")
    panels[-1].set_xlabel("distance ‖x‖ from the origin")
    panels[-1].set_xlim(0.0, 1.5)
    panels[0].legend(loc="lower left", fontsize="small", frameon=False)
    return figure


def write_figures(out: Path) -> list[Path]:
    """Draw each sweep and each table of OUT/jobs into OUT/figures, as PNG and SVG, and say where they are."""
    paths = []
    for board in boards(read_records(out), read_paper(out)):
        sweep = sweep_of(board)
        if sweep is not None:
            figure = sweep_figure(board, sweep)
        elif any("ll" in line.scores for line in board.lines):
            figure = table_figure(board)
        else:
            continue
        paths += save_figure(figure, out / "figures", re.sub(r"[^\w-]+", "-", board.key))
    return paths


def save_figure(figure: Figure, folder: Path, stem: str) -> list[Path]:
    """Write a figure as PNG and SVG, and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.png", folder / f"{stem}.svg"]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
