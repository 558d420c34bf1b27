"""How good a fit is: errors and coverage of each output at rows that it was not trained on, in the user's units."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from mogul._typing import Array, IntArray

if TYPE_CHECKING:
    import pandas as pd

BAND = 0.95
LEFT_OUT, HELD_OUT, VALIDATION, CALIBRATION, SHORTER = "left out", "held out", "validation", "calibration", "shorter"
# The rows of a check and how they are predicted.
HOW = {
    LEFT_OUT: "rows, each predicted from the others",
    HELD_OUT: "rows held out",
    VALIDATION: "validation rows, which decided when to stop, by the model not trained on them",
    CALIBRATION: "rows set aside to calibrate by, before calibration",
    SHORTER: "rows held out, by a second fit without them, in a third of the epochs",
}
# Errors that differ by less than this share are the same.
_TIE = 0.02
_SHOWN, _LONGEST_NAME = 8, 24
_BETWEEN = "Rows follow each other: these scores are of rows between others. Of the future: mogul compare --folds time"


@dataclass(frozen=True)
class OutputScores:
    """Scores of one output in its original units, over its known values; None with too few of them."""

    name: str
    num_known: int
    rmse: float | None
    r2: float | None
    in_band: float | None


def output_scores(name: str, y: Float[Array, "N"], mean: Float[Array, "N"], pit: Float[Array, "N"]) -> OutputScores:
    """Scores of predictions, given their means and P(output ≤ y); NaN in y is missing.

    >>> y, mean, pit = np.array([[0.0, 2.0, np.nan], [0.0, 1.0, 5.0], [0.5, 0.99, 0.5]])
    >>> scores = output_scores("Cd", y, mean, pit)
    >>> scores.num_known, scores.r2, scores.in_band
    (2, 0.5, 0.5)
    """
    sums = OutputSums()
    sums.add(y[:, None], mean[:, None], pit[:, None])
    return sums.scores([name])[0]


@dataclass
class OutputSums:
    """Sums behind the scores of each output, of rows that come in parts: of any number of them."""

    known: Float[Array, "P"] = field(default_factory=lambda: np.zeros(0))
    _mean: Float[Array, "P"] = field(default_factory=lambda: np.zeros(0))  # of the outputs
    _spread: Float[Array, "P"] = field(default_factory=lambda: np.zeros(0))  # Σ (y − mean)²
    _squares: Float[Array, "P"] = field(default_factory=lambda: np.zeros(0))  # Σ (y − m)²
    _inside: Float[Array, "P"] = field(default_factory=lambda: np.zeros(0))

    def add(self, y: Float[Array, "N P"], mean: Float[Array, "N P"], pit: Float[Array, "N P"]) -> None:
        """Take in some rows, with their predicted means and P(output ≤ y); NaN in y is missing."""
        if not len(self.known):
            self.known, self._mean, self._spread, self._squares, self._inside = (np.zeros(y.shape[1]) for _ in range(5))
        known = ~np.isnan(y)
        count = known.sum(0)
        own = np.where(known, y, 0.0).sum(0) / np.maximum(count, 1)
        both, gap = np.maximum(self.known + count, 1), own - self._mean
        # Means and spreads of two parts together (Chan, Golub and LeVeque 1979).
        self._spread += np.where(known, np.square(y - own), 0.0).sum(0) + np.square(gap) * self.known * count / both
        self._mean += gap * count / both
        self.known += count
        self._squares += np.where(known, np.square(y - mean), 0.0).sum(0)
        self._inside += np.where(known, np.abs(pit - 0.5) <= 0.5 * BAND, False).sum(0)

    def scores(self, names: Sequence[str]) -> tuple[OutputScores, ...]:
        """Of each output."""
        sums = zip(names, self.known, self._squares, self._spread, self._inside, strict=True)
        return tuple(
            OutputScores(
                name,
                num_known=int(count),
                rmse=math.sqrt(squares / count) if count else None,
                r2=float(1 - squares / spread) if spread > 0 else None,
                in_band=float(inside / count) if count else None,
            )
            for name, count, squares, spread, inside in sums
        )


@dataclass(frozen=True)
class Unseen:
    """Predictions of rows that a model was not trained on: their places in the data, means, and P(output ≤ y)."""

    how: str
    places: Int[IntArray, "K"]
    mean: Float[Array, "K P"]
    pit: Float[Array, "K P"]

    @staticmethod
    def pooled(parts: "Sequence[Unseen | None]") -> "Unseen | None":
        """The mixture with equal weights, at the rows that all have; None if one has none."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or not parts:
            return None
        places = known[0].places[np.logical_and.reduce([np.isin(known[0].places, part.places) for part in known])]
        same = [part._at(places) for part in known]
        least = min(known, key=lambda part: len(part.places))
        mean, pit = (np.mean([getattr(part, name) for part in same], axis=0) for name in ("mean", "pit"))
        return Unseen(least.how, places, mean, pit) if len(places) else None

    def _at(self, places: Int[IntArray, "L"]) -> "Unseen":
        order = np.argsort(self.places, kind="stable")
        own = order[np.searchsorted(self.places[order], places)]
        return replace(self, places=places, mean=self.mean[own], pit=self.pit[own])

    def scores(self, names: Sequence[str], y: Float[Array, "K P"]) -> tuple[OutputScores, ...]:
        """Of each output, given the true values of these rows."""
        return tuple(output_scores(*column) for column in zip(names, y.T, self.mean.T, self.pit.T, strict=True))


@dataclass(frozen=True)
class Check:
    """Scores of each output at rows that were not trained on, beside least squares and the mean.

    Args:
        how: how these rows were predicted, one of `HOW`.
        num_rows: their number.
        model: scores of the model, output by output.
        least_squares: those of least squares, fitted without these rows too.
        mean: those of the mean.
        in_order: whether rows follow each other in time, and those checked lie between others.

    Example:
        >>> errors = {1.0: 0.75, 1.9: 0.1, 2.0: 0.0}
        >>> own, line, mean = (OutputScores("Cd", 50, rmse, r2, 0.94) for rmse, r2 in errors.items())
        >>> check = Check("left out", 50, (own,), (line,), (mean,))
        >>> print("\\n".join(check.lines()))
        50 rows, each predicted from the others:
        output    R²   RMSE  least squares   mean  in 95 % band
        Cd      0.75  1.000          1.900  2.000          94 %
        Smaller errors than least squares for Cd.
    """

    how: str
    num_rows: int
    model: tuple[OutputScores, ...]
    least_squares: tuple[OutputScores, ...]
    mean: tuple[OutputScores, ...]
    in_order: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Check":
        """From what `to_json` gave."""
        known = [field.name for field in fields(OutputScores)]
        own, line, mean = (
            tuple(OutputScores(**{name: each[name] for name in known}) for each in plain[side])
            for side in ("model", "least_squares", "mean")
        )
        return Check(plain["how"], plain["num_rows"], own, line, mean, bool(plain.get("in_order", False)))

    def frame(self) -> "pd.DataFrame":
        """One row per output."""
        import pandas as pd  # slow, and `mogul show` needs no frames

        return pd.DataFrame(
            {
                "output": [each.name for each in self.model],
                "r2": [each.r2 for each in self.model],
                "rmse": [each.rmse for each in self.model],
                "in_band": [each.in_band for each in self.model],
                "rmse_least_squares": [each.rmse for each in self.least_squares],
                "rmse_mean": [each.rmse for each in self.mean],
            }
        )

    @property
    def rows_words(self) -> str:
        """The rows, and how they were predicted."""
        return f"{self.num_rows:,} {HOW[self.how]}"

    def lines(self) -> list[str]:
        """A table of the first outputs, and whether a line would do, as text."""
        shown = zip(self.model[:_SHOWN], self.least_squares, self.mean, strict=False)
        heading = ("output", "R²", "RMSE", "least squares", "mean", f"in {BAND * 100:.0f} % band")
        cells = [heading, *(_cells(*each) for each in shown)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(heading))]
        table = [
            "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(pairs))
            for pairs in (zip(row, widths, strict=True) for row in cells)
        ]
        more = len(self.model) - _SHOWN
        rest = [f"and {more} more outputs: check.frame() in Python, --json on the command line"] if more > 0 else []
        return [f"{self.rows_words}:", *table, *rest, *self.verdict]

    @property
    def verdict(self) -> list[str]:
        """For which outputs the model has smaller errors than least squares, and which ones it cannot predict."""
        better, line, hopeless = [], [], []
        for own, other, mean in zip(self.model, self.least_squares, self.mean, strict=True):
            if own.rmse is None or other.rmse is None or mean.rmse is None:
                continue
            if min(own.rmse, other.rmse) >= (1 - _TIE) * mean.rmse:
                hopeless.append(own.name)
            elif own.rmse >= (1 - _TIE) * other.rmse:
                line.append(own.name)
            else:
                better.append(own.name)
        every = len(self.model)
        return [
            *([f"Smaller errors than least squares for {_named(better, every)}."] if better else []),
            *([f"Least squares is as good for {_named(line, every)}: a line would do."] if line else []),
            *([f"Nothing here beats the mean for {_named(hopeless, every)}."] if hopeless else []),
            *([_BETWEEN] if self.in_order else []),
        ]


def _cells(own: OutputScores, line: OutputScores, mean: OutputScores) -> tuple[str, ...]:
    name = own.name if len(own.name) <= _LONGEST_NAME else f"{own.name[: _LONGEST_NAME - 1]}…"
    r2 = "" if own.r2 is None else f"{own.r2:.2f}"
    band = "" if own.in_band is None else f"{100 * own.in_band:.0f} %"
    return name, r2, *(_figure(each.rmse) for each in (own, line, mean)), band


def _figure(value: float | None) -> str:
    """Four digits, as `#` keeps zeros at the end.

    >>> _figure(1.0), _figure(12345.0), _figure(None)
    ('1.000', '1.234e+04', '')
    """
    return "" if value is None else f"{value:#.4g}".rstrip(".")


def _named(names: list[str], every: int) -> str:
    """These outputs; the number where there are many."""
    if len(names) == every > 1:
        return f"all {every} outputs"
    return ", ".join(names) if len(names) <= _SHOWN else f"{len(names)} of {every} outputs"
