"""Numbers that stand for a gap, such as −200 or −9999, and values far from all others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mogul._typing import Array
from mogul.data.encodings.column import as_numbers
from mogul.data.encodings.encoding import Gaps, gaps_for
from mogul.data.sources.table import Table
from mogul.errors import as_list

_LEAST_ROWS = 5
# Distance from all other values, in robust standard deviations.
_FAR, _OUTLYING = 5.0, 20.0
_NORMAL = 1.4826  # standard deviations in a median absolute deviation of a Normal
_SHOWN = 3


@dataclass(frozen=True)
class Extreme:
    """A whole number that is the least or the largest of a column.

    Args:
        column: name of the column.
        value: the number.
        num_rows: rows that hold it.
        distance: to the nearest other value, in robust standard deviations of the others.
        ranges: the same in ranges of the others: the largest minus the least.
        is_only_negative: whether it is negative and all others are not.
    """

    column: str
    value: float
    num_rows: int
    distance: float
    ranges: float
    is_only_negative: bool

    @property
    def is_beyond_doubt(self) -> bool:
        """Whether it is farther from all others than these are from each other."""
        return self.num_rows >= _LEAST_ROWS and self.ranges > 1 and self.distance > _OUTLYING

    @property
    def is_suspect(self) -> bool:
        """Whether it is far from all others, or has another sign."""
        return self.distance > _FAR or (self.is_only_negative and self.distance > 1)


def with_gaps(table: Table, names: Sequence[str], missing: Sequence[str], option: str) -> Table:
    """The table with gaps in place of what stands for them, and a note of it; doubtful numbers are named in `doubts`.

    A number that is a gap beyond doubt in one column is one in every other where it is suspect, too.

    Args:
        table: the table.
        names: columns in use.
        missing: numbers and words that stand for gaps in any column, by the user.
        option: how `missing` is written, for the warning.

    Example:
        >>> values = [0.5, 1.5, 2.0, 1.0, 0.7] * 4 + [-200.0] * 6
        >>> with_gaps(Table("here", {"CO": values}), ["CO"], [], "--missing").missing
        {'CO': (-200.0,)}
    """
    if missing:
        return _with_given(table, names, missing)
    found = list(_extremes(table, names))
    certain = {extreme.value for extreme in found if extreme.is_beyond_doubt}
    gaps = [one for one in found if one.value in certain and (one.is_suspect or one.is_only_negative)]
    doubtful = [one for one in found if one.num_rows >= _LEAST_ROWS and one.is_suspect and one not in gaps]
    columns = dict(table.columns)
    for extreme in gaps:
        columns[extreme.column] = _without(table.columns[extreme.column], [extreme.value])
    notes = [_note(value, [extreme for extreme in gaps if extreme.value == value], option) for value in sorted(certain)]
    cleaned = replace(
        table,
        columns=columns,
        changes=tuple(notes),
        missing={extreme.column: (extreme.value,) for extreme in gaps},
    )
    return replace(cleaned, doubts=(*_doubt(doubtful, option), *_outliers(cleaned, names, option)))


def _with_given(table: Table, names: Sequence[str], missing: Sequence[str]) -> Table:
    numbers, _ = as_numbers(pd.Series([text.strip() for text in missing], dtype=object))
    gaps = [text.strip() for text in missing] + [float(number) for number in numbers if not np.isnan(number)]
    columns, found = dict(table.columns), {}
    for name in names:
        column = pd.Series(table.columns[name], name=name).reset_index(drop=True)
        columns[name] = gaps_for(column, gaps)
        if columns[name].isna().sum() > column.isna().sum():
            found[name] = tuple(gaps)
    return replace(table, columns=columns, missing=found)


def _extremes(table: Table, names: Sequence[str]) -> Iterator[Extreme]:
    for name in names:
        values = _numbers(table.columns[name])
        if values is None or len(values) <= _LEAST_ROWS:
            continue
        for value, sign in ((values.min(), 1.0), (values.max(), -1.0)):
            others = values[values != value]
            num_rows = len(values) - len(others)
            if not len(others) or not float(value).is_integer():
                continue
            gap = float(sign * (others.min() if sign > 0 else others.max()) - sign * value)
            spread, whole = _robust_scale(others), float(np.ptp(others))
            lone = bool(value < 0 <= others.min())
            few = len(np.unique(others[:1000])) < 3  # what is their spread?
            scales = (0.0, 0.0) if few or not spread else (gap / spread, gap / whole)
            yield Extreme(name, float(value), num_rows, *scales, lone)


def _outliers(table: Table, names: Sequence[str], option: str) -> list[str]:
    """Values beyond 20 robust standard deviations, in one warning."""
    found = []
    for name in names:
        column = table.columns[name]
        values = _numbers(column, keep_gaps=True)
        if values is None or not (scale := _robust_scale(values[np.isfinite(values)])):
            continue
        away = np.abs(values - np.nanmedian(values)) / scale
        far = np.flatnonzero((away > _OUTLYING) & np.isfinite(values))
        if 0 < len(far) <= 0.01 * len(values):  # more of them are a heavy tail, not mistakes
            row = far[np.argmax(away[far])]
            more = f" (and {len(far) - 1} more)" if len(far) > 1 else ""
            found.append(f"{name!r} is {values[row]:g} in row {row + 1}{more}")
    if not found:
        return []
    more = f"; and {len(found) - _SHOWN} more columns" if len(found) > _SHOWN else ""
    return [
        f"Values should be within {_OUTLYING:.0f} robust standard deviations of their median; in {table.source} "
        f"{'; '.join(found[:_SHOWN])}{more}. Kept: correct them if they are mistakes, or name them by {option}."
    ]


def _doubt(doubtful: list[Extreme], option: str) -> list[str]:
    """Numbers that may stand for a gap, in one warning."""
    if not doubtful:
        return []
    each = [f"{one.column!r} is {one.value:g} in {one.num_rows:,} rows" for one in doubtful[:_SHOWN]]
    more = f"; and {len(doubtful) - _SHOWN} more columns" if len(doubtful) > _SHOWN else ""
    values = [f"{value:g}" for value in sorted({one.value for one in doubtful})]
    return [
        f"A number far from all others may stand for a gap; {'; '.join(each)}{more}. "
        f"Kept; if it does: {_written(option, values)}."
    ]


def _note(value: float, gaps: list[Extreme], option: str) -> str:
    total = sum(extreme.num_rows for extreme in gaps)
    columns = f"{len(gaps)} columns" if len(gaps) > 1 else repr(gaps[0].column)
    keep = f"{_written(option, ['none'])} to keep them"
    return f"{value:g} is taken as missing: {total:,} values of {columns}, far from all else ({keep})"


def _written(option: str, values: list[str]) -> str:
    """The option with values, as on the command line or in Python.

    >>> _written("--missing", ["-9"]), _written("missing=", ["-9"])
    ('--missing -9', "missing=['-9']")
    """
    return f"{option}{values!r}" if option.endswith("=") else f"{option} {as_list(values)}"


def _without(column: Any, values: Sequence[float]) -> "pd.Series[Any]":
    numbers, _ = as_numbers(pd.Series(column).reset_index(drop=True))
    return pd.Series(np.where(np.isin(numbers, values), np.nan, numbers))


def _numbers(column: Any, *, keep_gaps: bool = False) -> Array | None:
    """The numbers of a column; None if it holds anything else, or only truth values."""
    series = pd.Series(column)
    if series.dtype.kind not in "fiuO" and str(series.dtype) not in ("str", "string"):
        return None
    if isinstance(series.dtype, pd.CategoricalDtype):
        return None
    values, word = as_numbers(series)
    if word is not None or np.isnan(values).all():
        return None
    return values if keep_gaps else values[np.isfinite(values)]


def _robust_scale(values: Array) -> float:
    """The standard deviation of a Normal with this median absolute deviation."""
    if not len(values):
        return 0.0
    return float(_NORMAL * np.median(np.abs(values - np.median(values))))


def missing_of(names: Sequence[str], missing: Mapping[str, Gaps]) -> dict[str, Gaps]:
    """Those of these columns."""
    return {name: missing[name] for name in names if name in missing}
