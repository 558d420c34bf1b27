"""The page of `mogul compare`: one HTML file that needs nothing from elsewhere, pictures included."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np
from jaxtyping import Float

from mogul._typing import Array
from mogul.cli.compare import Comparison, choices, leaderboard_cells, leaderboard_headings, title, units
from mogul.comparison.crossval import LEAST_SQUARES, MEAN, Entry
from mogul.core.check import BAND
from mogul.metrics import LEVELS
from mogul.storage.atomic import write_whole
from mogul.terminal import printable

# Pictures of predicted against true, and points in each.
_PICTURES, _POINTS = 12, 300
_SIDE, _MARGIN, _EDGE = 240.0, 50.0, 8.0  # of a picture, in pixels
# Lines of the picture of calibration: colours that colour-blind readers can tell apart.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
_CURVE = np.linspace(0.05, 0.95, 19)
_OUTPUTS = 200  # rows of a table


def write_page(comparison: Comparison, path: Path) -> None:
    """Write the page atomically; its folder is created."""
    text = page(comparison)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def page(comparison: Comparison) -> str:
    """What to use, the leaderboard, each output, calibration, predicted against true; all user text is escaped."""
    board = comparison.leaderboard
    failed = [f"{label} failed: {reason}" for label, reason in board.failures.items()]
    template = Template(files("mogul.cli").joinpath("comparison.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=_text(title(comparison)),
        in_words=_text(board.in_words),
        verdict=_text(board.verdict),
        command=_text(comparison.next_command or ""),
        units=_text(units(comparison)),
        headings=_headings(leaderboard_headings(LEVELS)),
        rows=_rows((entry.label, *leaderboard_cells(entry, LEVELS)) for entry in board.entries),
        bars="\n".join(_bar(entry.label, share) for entry, share in _gaps(board.entries)),
        outputs=_outputs(comparison),
        calibration=_calibration(comparison),
        pictures=_pictures(comparison),
        importance=_importance(comparison),
        notes="\n".join(f"<p>{_text(line)}</p>" for line in [*choices(comparison), *failed]),
        settings="\n".join(f"<dt>{label}</dt><dd>{_text(text)}</dd>" for label, text in _settings(comparison).items()),
    )


def _settings(comparison: Comparison) -> dict[str, str]:
    trained = "the default preset" if comparison.epochs is None else f"at most {comparison.epochs} epochs"
    return {
        "Inputs": ", ".join(comparison.input_names),
        "Outputs": f"{', '.join(comparison.output_names)} ({comparison.missing_share:.1%} missing)",
        "Splits": comparison.splits_words,
        **({} if comparison.kernel is None else {"Kernel": comparison.kernel}),
        "Training": f"{trained}, objective {comparison.objective}; mogul {version('mogul')}",
    }


def _text(text: str) -> str:
    return escape(printable(text))


def _headings(names: Iterable[str]) -> str:
    return "".join(f'<th scope="col">{_text(name)}</th>' for name in names)


def _rows(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    return (
        f'<div class="wide"><table><caption>{_text(caption)}</caption><thead><tr>{_headings(headings)}</tr></thead>\n'
        f"<tbody>\n{_rows(rows)}\n</tbody></table></div>"
    )


def _bar(label: str, share: float) -> str:
    bar = f'<span class="bar" style="width: {100 * share:.1f}%"></span>'
    return f'<tr><th scope="row">{_text(label)}</th><td style="text-align: left; width: 30rem">{bar}</td></tr>'


def _gaps(entries: list[Entry]) -> list[tuple[Entry, float]]:
    """Gap of each to the best, as a share of the widest gap."""
    widest = max(entry.behind for entry in entries) or 1.0
    return [(entry, entry.behind / widest) for entry in entries]


def _outputs(comparison: Comparison) -> str:
    """A row for each output: errors of all competitors, and how good the recommended one is."""
    board, used = comparison.leaderboard, comparison.leaderboard.recommended
    headings = ["output", "known", f"R² of {used.label}", *(entry.label for entry in board.entries), f"in {BAND:.0%}"]
    rows = []
    for place, own in enumerate(used.outputs[:_OUTPUTS]):
        errors = [_figure(entry.outputs[place].rmse) for entry in board.entries]
        shares = "" if own.in_band is None else f"{own.in_band:.0%}"
        rows.append([own.name, f"{own.num_known:,}", "" if own.r2 is None else f"{own.r2:.2f}", *errors, shares])
    caption = (
        "Root mean squared error of each method, in the output's own units, over all held-out rows: the typical "
        f"size of an error. R² is the share of the output's variance that {used.label} explains; the last column is "
        f"the share of true values inside its {BAND:.0%} bands."
    )
    more = len(used.outputs) - _OUTPUTS
    return _table(headings, rows, caption) + (f"<p>And {more:,} more outputs: --json has them.</p>" if more > 0 else "")


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _calibration(comparison: Comparison) -> str:
    """How much of the truth is inside bands of each probability: the best, the best rival, least squares, the mean."""
    board = comparison.leaderboard
    used = board.recommended.label
    labels = dict.fromkeys([used, *(entry.label for entry in board.entries), LEAST_SQUARES, MEAN])
    axes = _Axes((0.0, 1.0), (0.0, 1.0))
    drawn = [axes.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "#999")]
    key = []
    for label, colour in zip(list(labels)[: len(_COLOURS)], _COLOURS, strict=False):
        pit = board.unseen[label].pit
        inside = 2 * np.abs(pit[~np.isnan(pit)] - 0.5)
        drawn.append(axes.line(_CURVE, np.array([np.mean(inside <= level) for level in _CURVE]), colour))
        key.append(f'<span style="color: {colour}">■</span> {_text(label)}')
    return f"<figure>{axes.svg(drawn, 'band', 'truth inside')}<figcaption>{' '.join(key)}</figcaption></figure>"


def _pictures(comparison: Comparison) -> str:
    """Predicted against true for the first outputs, of the recommended method."""
    unseen = comparison.leaderboard.unseen[comparison.leaderboard.recommended.label]
    shown = []
    for name, mean, y in list(zip(comparison.output_names, unseen.mean.T, comparison.truth.T, strict=True))[:_PICTURES]:
        rows = np.flatnonzero(~np.isnan(y))
        if not len(rows):
            continue
        if len(rows) > _POINTS:
            rows = np.random.default_rng(0).choice(rows, _POINTS, replace=False)
        ends = float(min(y[rows].min(), mean[rows].min())), float(max(y[rows].max(), mean[rows].max()))
        axes = _Axes(ends, ends)
        diagonal = axes.line(np.array(ends), np.array(ends), "#999")
        drawn = axes.svg([diagonal, axes.dots(y[rows], mean[rows])], "true", "predicted")
        shown.append(f"<figure>{drawn}<figcaption>{_text(name)}</figcaption></figure>")
    return "\n".join(shown)


def _importance(comparison: Comparison) -> str:
    found = comparison.leaderboard.importance
    if found is None:
        return ""
    frame = found.frame()
    frame = frame if len(frame.columns) <= _PICTURES else frame.iloc[:, :3]
    rows = [[str(name), *(f"{value:.3f}" for value in row)] for name, row in frame.iterrows()]
    caption = (
        f"Loss of R² of {comparison.leaderboard.entries[0].label} at the rows of the last fold where an input is that "
        "of another row, with a 95 % interval over draws. Inputs that go together share their importance."
    )
    heading = "<h2>Which inputs matter</h2>\n"
    return heading + _table(["input", *map(str, frame.columns)], rows, caption)


class _Axes:
    """A square picture of numbers, as SVG without any reference to elsewhere."""

    def __init__(self, x_ends: tuple[float, float], y_ends: tuple[float, float]) -> None:
        self._ends = x_ends, y_ends
        self._x = self._scale(x_ends, _MARGIN, _SIDE - _EDGE)
        self._y = self._scale(y_ends, _SIDE - _MARGIN, _EDGE)

    @staticmethod
    def _scale(ends: tuple[float, float], first: float, last: float) -> Callable[[Array], Array]:
        span = ends[1] - ends[0] or 1.0
        return lambda values: first + (last - first) * (values - ends[0]) / span

    def line(self, x: Float[Array, "N"], y: Float[Array, "N"], colour: str) -> str:
        """A line through points."""
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(self._x(x), self._y(y), strict=True))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'

    def dots(self, x: Float[Array, "N"], y: Float[Array, "N"]) -> str:
        """A dot for each point."""
        places = zip(self._x(x), self._y(y), strict=True)
        return "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2" fill="#0072b2" opacity="0.5"/>' for a, b in places)

    def svg(self, drawn: Sequence[str], x_name: str, y_name: str) -> str:
        """The picture with its axes, their ends and their names."""
        low, high = _MARGIN, _SIDE - _MARGIN
        frame = f'<path d="M{low:.0f} {_EDGE:.0f} V{high:.0f} H{_SIDE - _EDGE:.0f}" fill="none" stroke="#444"/>'
        (left, right), (bottom, top) = self._ends
        words = [
            (low, high + 13, "start", f"{left:.3g}"),
            (_SIDE - _EDGE, high + 13, "end", f"{right:.3g}"),
            ((low + _SIDE) / 2, high + 26, "middle", x_name),
            (low - 4, high, "end", f"{bottom:.3g}"),
            (low - 4, 2 * _EDGE, "end", f"{top:.3g}"),
        ]
        texts = [f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{end}">{_text(each)}</text>' for x, y, end, each in words]
        turned = (
            f'<text transform="translate(10 {(_EDGE + high) / 2:.0f}) rotate(-90)" text-anchor="middle">{y_name}</text>'
        )
        name = f"{y_name} against {x_name}"
        inside = "".join([frame, *drawn, *texts, turned])
        size = f'viewBox="0 0 {_SIDE:.0f} {_SIDE:.0f}" width="{_SIDE:.0f}"'
        return f'<svg {size} role="img" aria-label="{name}">{inside}</svg>'
