"""Dates and times of day as inputs: a trend, and the cycles that the rows resolve."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array
from mogul.data.encodings.column import ColumnEncoding, Plain, evenly_spread, fill_gaps, ranks_beyond_gaps
from mogul.errors import DataError

ISO = "ISO8601"
_TIMES = {"%H:%M:%S": "hour:minute:second", "%H:%M": "hour:minute", "%H.%M.%S": "hour.minute.second"}
_DAYS = {
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%Y": "month/day/year",
    "%d.%m.%Y": "day.month.year",
    "%d-%m-%Y": "day-month-year",
    "%Y/%m/%d": "year/month/day",
}
# Forms of text, and words for them. Times of day alone are told apart by their lack of a year.
FORMS: Mapping[str, str] = {
    ISO: "year-month-day",
    **_DAYS,
    **{f"{day} {time}": f"{words} {_TIMES[time]}" for day, words in _DAYS.items() for time in _TIMES},
    **_TIMES,
}
_AMBIGUOUS = {form: form.replace("%d/%m", "%m/%d") for form in FORMS if form.startswith("%d/%m")}
_BEGIN = r"\s*\d{1,4}[-/.:]\d"  # of any form
_TRIED = 50  # rows that a form must fit before all are read

_DAY = 86_400.0
# Periods in days, and the least span of rows, in days, that tells a cycle from the trend.
_CYCLES = {"hour": (1.0, 2.0), "weekday": (7.0, 14.0), "day of year": (365.2425, 365.0)}


@dataclass(frozen=True)
class Dates(ColumnEncoding):
    """Days since the first row, and sine and cosine of hour, weekday and day of year, as far as rows resolve them.

    A cycle is used if rows span it (two days, two weeks, a year) and fall on three places of it or more. Times of day
    alone are the cycle of hours.

    Args:
        name: of the column.
        form: of text, one of `FORMS`; None for a column of dates.
        origin: the first date, in ISO form; None for times of day.
        cycles: names of cycles.
        fill: means of the columns, for gaps; None where training rows had no gap.

    Example:
        >>> Dates.of(pd.Series(["2024-01-01", "2024-03-01", "2024-02-01"], name="date"), ISO, "a table").features
        ['date (days)', 'date (weekday, sin)', 'date (weekday, cos)']
    """

    name: str
    form: str | None
    origin: str | None
    cycles: tuple[str, ...]
    fill: tuple[float, ...] | None = None

    @staticmethod
    def of(column: "pd.Series[Any]", form: str | None, source: str) -> "Dates":
        """Fitted to training rows."""
        days = _days(column, form, source)
        known = days[~np.isnan(days)]
        if form in _TIMES:
            bare = Dates(str(column.name), form, None, ("hour",))
        else:
            first, span = float(known.min()), float(np.ptp(known))
            resolved = [
                name
                for name, (period, least) in _CYCLES.items()
                if span >= least and len(np.unique((known % period / period * 12).round() % 12)) > 2
            ]
            origin = pd.Timestamp(first * _DAY, unit="s").isoformat()
            bare = Dates(str(column.name), form, origin, tuple(resolved))
        if len(known) == len(days):
            return bare
        means = tuple(bare._numbers(known).mean(axis=0).tolist())
        return Dates(bare.name, bare.form, bare.origin, bare.cycles, means)

    @property
    def features(self) -> list[str]:
        """The trend, two names for each cycle, and gaps if there were any."""
        trend = [] if self.origin is None else ["days"]
        cycles = [f"{cycle}, {wave}" for cycle in self.cycles for wave in ("sin", "cos")]
        gaps = [] if self.fill is None else ["missing"]
        return [f"{self.name} ({part})" for part in [*trend, *cycles, *gaps]]

    @property
    def words(self) -> str:
        """What becomes of the column, for a person."""
        trend = [] if self.origin is None else ["trend"]
        form = "" if self.form is None else f"{FORMS[self.form]}: "
        return f"{form}{', '.join([*trend, *self.cycles])}{'' if self.fill is None else ', with gaps'}"

    def apply(self, column: "pd.Series[Any]", source: str) -> Float[Array, "N K"]:
        """The trend, the cycles, and 1 at a gap."""
        fill = None if self.fill is None else list(self.fill)
        return fill_gaps(self._numbers(_days(column, self.form, source)), fill, self.name, source)

    def quantiles(
        self, ranks: Float[Array, "N"], mean: Float[Array, "K"], scale: Float[Array, "K"]
    ) -> Float[Array, "N K"]:
        """Dates spread evenly over the time of training rows, or over the day, with as large a share of gaps."""
        known, ranks = ranks_beyond_gaps(ranks, 0.0 if self.fill is None else mean[-1])
        days = ranks if self.origin is None else evenly_spread(ranks, mean[0], scale[0]) + self._first_day
        numbers = self._numbers(np.where(known, days, np.nan))
        return numbers if self.fill is None else fill_gaps(numbers, list(self.fill), self.name, "")

    @property
    def _first_day(self) -> float:
        return 0.0 if self.origin is None else pd.Timestamp(self.origin).timestamp() / _DAY

    def _numbers(self, days: Float[Array, "N"]) -> Float[Array, "N K"]:
        trend = [] if self.origin is None else [days - self._first_day]
        phases = [2 * np.pi * days / _CYCLES[cycle][0] for cycle in self.cycles]
        return np.column_stack([*trend, *(wave(phase) for phase in phases for wave in (np.sin, np.cos))])

    def plain(self) -> Plain:
        """As JSON."""
        fill = None if self.fill is None else list(self.fill)
        own = {"form": self.form, "origin": self.origin, "cycles": list(self.cycles), "fill": fill}
        return {"kind": "dates", "name": self.name, **own}


def form_of(column: "pd.Series[Any]") -> str | None:
    """The form of dates or times that texts of this column have; None if they are something else.

    Where day and month could be either, the reading with the smaller steps from row to row.

    >>> form_of(pd.Series(["10/03/2004", "11/03/2004"])), form_of(pd.Series(["03/10/2004", "03/11/2004"]))
    ('%d/%m/%Y', '%m/%d/%Y')
    >>> form_of(pd.Series(["18.00.00"])), form_of(pd.Series(["red"]))
    ('%H.%M.%S', None)
    """
    texts = column[column.notna()]
    few = texts.iloc[:: max(1, len(texts) // _TRIED)]
    if 2 * few.astype("string").str.match(_BEGIN).sum() <= len(few):
        return None
    best = max(FORMS, key=lambda form: _parsed(few, form).notna().sum())
    if 2 * _parsed(few, best).notna().sum() <= len(few):
        return None
    other = _AMBIGUOUS.get(best)
    if other is not None:
        steps = {form: _parsed(texts, form) for form in (best, other)}
        if steps[other].notna().all() and _steps(steps[other]) < _steps(steps[best]):
            return other
    return best


def _steps(dates: "pd.Series[Any]") -> float:
    return float(dates.diff().abs().dt.total_seconds().sum())


def _days(column: "pd.Series[Any]", form: str | None, source: str) -> Float[Array, "N"]:
    """Days since 1970, by the clock on the wall; NaN where missing."""
    if column.dtype.kind == "M":
        dates = column if getattr(column.dt, "tz", None) is None else column.dt.tz_localize(None)
    else:
        dates = _parsed(column, ISO if form is None else form)
    wrong = np.flatnonzero(dates.isna() & column.notna())
    if len(wrong):
        more = f" and {len(wrong) - 1} more such values" if len(wrong) > 1 else ""
        raise DataError(
            f"Dates must be of one form, here {FORMS[form or ISO]}; {column.name!r} of {source} holds "
            f"{column.iloc[wrong[0]]!r} in row {wrong[0] + 1}{more}. Correct it, or leave the cell empty."
        )
    seconds: Array = np.asarray((dates - pd.Timestamp(0)).dt.total_seconds(), dtype=np.float64)
    days: Array = (seconds % _DAY if form in _TIMES else seconds) / _DAY
    return days


def _parsed(column: "pd.Series[Any]", form: str) -> "pd.Series[Any]":
    texts = column.astype("string").str.strip()
    dates = pd.to_datetime(texts, format=form, errors="coerce", utc=form == ISO)
    if form != ISO:
        return dates
    # ISO 8601 lets bare years and numbers pass: a date has a day.
    dated = texts.str.match(r"^\d{4}-\d{1,2}-\d{1,2}([T ]|$)").fillna(False)
    return dates.where(dated).dt.tz_localize(None)
