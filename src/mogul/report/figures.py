"""Figures, drawn without a screen."""

from pathlib import Path

from matplotlib.figure import Figure

from mogul.experiments.synthetic import Slice
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


def save_figure(figure: Figure, folder: Path, stem: str) -> list[Path]:
    """Write a figure as PNG and SVG, and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.png", folder / f"{stem}.svg"]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
