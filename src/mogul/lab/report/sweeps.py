"""A metric against what a sweep varies: the curves of the paper's figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mogul.lab.report.leaderboard import Board, Line, Spread
from mogul.lab.report.records import number

AXES = {
    "num_hidden": "number of hidden units H",
    "num_train": "number of training rows N_data",
    "num_missing": "number of missing outputs per row",
}
PANELS = {"ll": "test LL", "mrmse": "test MRMSE", "train_ll": "training LL"}
# The paper's figures: MOGP dashed, DGP dotted. Of the baselines the one that every model must beat is drawn.
_DASHES = {"mogp": "dash", "dgp": "dot", "least-squares": "dashdot"}
_BASELINE = "least-squares"


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
    points: tuple[tuple[float, Line], ...]

    def values(self, metric: str) -> list[tuple[float, Spread]]:
        """Where this metric is known: the setting and the score."""
        return [(at, line.scores[metric]) for at, line in self.points if metric in line.scores]


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
    setting = _swept(board.lines)
    if setting is None:
        return None
    groups: dict[tuple[str, str, bool], list[tuple[float, Line]]] = {}
    for line in board.lines:
        if not line.scores or line.kind == "paper" or (line.kind == "baseline" and _model(line) != _BASELINE):
            continue
        at = number(dict(line.settings).get(setting))
        groups.setdefault((line.label, line.kind, at is None), []).append((at or 0.0, line))
    curves = [
        Curve(
            label,
            kind,
            _DASHES.get(_model(points[0][1]), "solid"),
            kind == "baseline" or (_model(points[0][1]) in _DASHES and label.lower() == _model(points[0][1])),
            is_level,
            tuple(sorted(points, key=lambda point: point[0])),
        )
        for (label, kind, is_level), points in sorted(groups.items())
    ]
    panels = ("ll", "train_ll") if board.experiment == "small-data" else ("ll", "mrmse")
    known = tuple(panel for panel in panels if any(curve.values(panel) for curve in curves))
    return Sweep(setting, tuple(curves), known) if known else None


def _swept(lines: Sequence[Line]) -> str | None:
    """The setting with most different values: a sweep may fix others."""
    values: dict[str, set[Any]] = {}
    for line in lines:
        for name, value in line.settings:
            if line.scores and number(value) is not None:
                values.setdefault(name, set()).add(number(value))
    return max(values, key=lambda name: len(values[name]), default=None)


def _model(line: Line) -> str:
    """What the job calls its model or baseline."""
    return str(line.jobs[0].content.get("model") or line.label).lower()
