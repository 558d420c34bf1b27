"""A table of named columns, as a file holds it, and the numbers that are taken from it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from mogul.arrays import Array, IntArray
from mogul.errors import DataError, ShapeError

_NAMES_SHOWN, _ROWS_SHOWN, _COLUMNS_SHOWN = 12, 3, 3


@dataclass(frozen=True)
class Table:
    """Columns by name, from a file; they may differ in length until some are taken together.

    Args:
        source: where it comes from, for messages.
        columns: anything with one axis, by name.
        arrays: names that stand for several columns each: the array `X` of a .npz file for X0, X1, …
        unusable: what else the file holds, and why that is no column.

    Example:
        >>> table = Table("a file", {"X0": [1, 2], "X1": [3, None], "b": ["4", "5"]}, {"X": ["X0", "X1"]})
        >>> table.numbers(["X", "b"]).to_numpy()
        array([[ 1.,  3.,  4.],
               [ 2., nan,  5.]])
    """

    source: str
    columns: Mapping[str, Any]
    arrays: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unusable: Mapping[str, str] = field(default_factory=dict)

    def expand(self, names: Sequence[str], what: str = "names") -> list[str]:
        """The columns that these names stand for, each once."""
        found: list[str] = []
        for name in names:
            if name not in self:
                raise self._unknown(name, what)
            found += [name] if name in self.columns else self.arrays[name]
        twice = [name for name, count in Counter(found).items() if count > 1]
        if twice:
            raise DataError(f"{what} must name each column once; {twice[0]!r} is there twice. Leave one of them out.")
        return found

    def numbers(self, names: Sequence[str], what: str = "names") -> pd.DataFrame:
        """These columns in float64; what is missing is NaN, and anything but a number is refused."""
        columns = self.expand(names, what)
        lengths = {name: len(self.columns[name]) for name in columns}
        first = columns[0]
        for name, length in lengths.items():
            if length != lengths[first]:
                raise ShapeError(
                    f"Columns must have the same number of rows; {first!r} of {self.source} has {lengths[first]} and "
                    f"{name!r} {length}. Name those that belong together."
                )
        if not lengths[first]:
            raise ShapeError(f"A table must have at least one row; {self.source} has 0. Give some data.")
        return pd.DataFrame({name: self._as_float(name) for name in columns})

    def others(self, names: Sequence[str]) -> list[str]:
        """The columns with as many rows as these, and without them."""
        taken = dict.fromkeys(self.expand(names))
        length = len(self.columns[next(iter(taken))])
        return [name for name, column in self.columns.items() if name not in taken and len(column) == length]

    def __contains__(self, name: str) -> bool:
        return name in self.columns or name in self.arrays

    def is_numeric(self, name: str) -> bool:
        """Whether all values of this column are numbers or missing."""
        try:
            self._as_float(name)
        except DataError:
            return False
        return True

    def _as_float(self, name: str) -> Array:
        column = pd.Series(self.columns[name])
        if column.dtype.kind in "fiub":
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        values = column.map(_number)
        wrong = np.flatnonzero(values.isna() & column.notna())
        if len(wrong):
            raise DataError(
                f"Columns must be numbers; {name!r} of {self.source} holds {column.iloc[wrong[0]]!r} in row "
                f"{wrong[0] + 1}{_more(len(wrong) - 1, 'such values')}. Encode it as numbers, or leave the column out."
            )
        return values.to_numpy(dtype=np.float64)

    def _unknown(self, name: str, what: str) -> DataError:
        if name in self.unusable:
            return DataError(
                f"{what} must name columns of numbers; {name!r} of {self.source} is none: {self.unusable[name]}. "
                "Name another."
            )
        in_arrays = {column for columns in self.arrays.values() for column in columns}
        known = [*self.arrays, *(column for column in self.columns if column not in in_arrays)]
        close = get_close_matches(name, known, n=1)
        remedy = f"Did you mean {close[0]!r}?" if close else "Use one of those."
        return DataError(f"{what} must name columns of {self.source}; {name!r} is not among {_listed(known)}. {remedy}")


def require_complete(x: pd.DataFrame, source: str) -> None:
    """Inputs must all be there: the error says in which columns and rows they are not."""
    bad = ~np.isfinite(x.to_numpy())
    if not bad.any():
        return
    places = [
        f"{name!r} in {_rows(rows)}"
        for name, column in zip(x.columns, bad.T, strict=True)
        if len(rows := np.flatnonzero(column))
    ]
    more = f" and {len(places) - _COLUMNS_SHOWN} more columns" if len(places) > _COLUMNS_SHOWN else ""
    raise DataError(
        f"Inputs must be there and finite; in {source} they are not, counting rows from 1: "
        f"{'; '.join(places[:_COLUMNS_SHOWN])}{more}. "
        "Drop those rows, fill them in, or leave the columns out by --inputs."
    )


def require_no_infinity(y: pd.DataFrame, source: str) -> None:
    """Outputs may be missing, but not infinite."""
    infinite = np.argwhere(np.isinf(y.to_numpy()))
    if len(infinite):
        row, column = infinite[0]
        raise DataError(
            f"Outputs must be finite or missing; {y.columns[column]!r} of {source} holds {y.iloc[row, column]} in row "
            f"{row + 1}. Leave the cell empty where a value is unknown."
        )


def _rows(rows: IntArray) -> str:
    shown = ", ".join(str(row + 1) for row in rows[:_ROWS_SHOWN])
    return f"row{'s' if len(rows) > 1 else ''} {shown}" + _more(len(rows) - _ROWS_SHOWN, "rows")


def _more(count: int, what: str) -> str:
    return f" and {count} more {what}" if count > 0 else ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(str, names[:_NAMES_SHOWN]))
    return f"{shown}, … ({len(names)} in all)" if len(names) > _NAMES_SHOWN else shown


def _number(value: Any) -> float:
    """A number, or NaN for anything else."""
    if not isinstance(value, str | int | float | Decimal | np.integer | np.floating | np.bool_) or "_" in str(value):
        return np.nan  # Python takes 1_000 for a number
    try:
        return float(value)
    except (ValueError, OverflowError):
        return np.nan
