"""A table of named columns from a file, and its conversion to numbers."""

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from mogul._typing import Array, IntArray
from mogul.data.encodings.column import Flags, as_numbers, refuse_word
from mogul.errors import ConfigError, DataError, MogulError, ShapeError, as_list

NO_NAME = "\0"  # before the number of a column without name and values; no name has it
_NAMES_SHOWN, _ROWS_SHOWN, _COLUMNS_SHOWN = 12, 3, 3


@dataclass(frozen=True)
class Table:
    """Columns by name, from a file; lengths may differ between columns that are not used together.

    Args:
        source: name of the source, for messages.
        columns: anything with one axis, by name.
        arrays: names of groups of columns: the array `X` of a .npz file for X0, X1, …
        unusable: other contents of the file, and why they are not columns.
        notes: what was found in reading, for a person.
        changes: values that were taken as gaps, for a person.
        doubts: what looks wrong and was left as it is: warnings, given once the data are known to be usable.
        missing: numbers and words that stood for gaps, by column; they are gaps already.

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
    notes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    missing: Mapping[str, Sequence[float | str]] = field(default_factory=dict)

    def expand(self, names: Sequence[str], what: str = "names") -> list[str]:
        """The columns of these names, arrays expanded, each once."""
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
        """These columns in float64; missing values are NaN, and anything but a number is an error."""
        return pd.DataFrame({name: self._as_float(name) for name in self._of_one_length(names, what)})

    def frame(self, names: Sequence[str], what: str = "names") -> pd.DataFrame:
        """These columns as they are; rows are numbered from 0."""
        columns = self._of_one_length(names, what)
        return pd.DataFrame({name: pd.Series(self.columns[name]).reset_index(drop=True) for name in columns})

    def _of_one_length(self, names: Sequence[str], what: str) -> list[str]:
        """The columns of these names, after checking that all have the same number of rows, and some."""
        columns = self.expand(names, what)
        lengths = {name: len(self.columns[name]) for name in columns}
        first = columns[0]
        for name, length in lengths.items():
            if length != lengths[first]:
                raise ShapeError(
                    f"Columns must have the same number of rows; {first!r} of {self.source} has {lengths[first]} and "
                    f"{name!r} {length}. Name columns of equal length."
                )
        if not lengths[first]:
            raise ShapeError(f"A table must have at least one row; {self.source} has 0. Give some data.")
        return columns

    def rows(self, which: Flags) -> "Table":
        """Some of the rows; columns of another length are left out."""
        columns = {name: pd.Series(column)[which] for name, column in self.columns.items() if len(column) == len(which)}
        arrays = {name: own for name, own in self.arrays.items() if all(each in columns for each in own)}
        return replace(self, columns=columns, arrays=arrays)

    def others(self, names: Sequence[str]) -> list[str]:
        """The other columns with the same number of rows."""
        taken = dict.fromkeys(self.expand(names))
        length = len(self.columns[next(iter(taken))])
        return [name for name, column in self.columns.items() if name not in taken and len(column) == length]

    def __contains__(self, name: str) -> bool:
        return name in self.columns or name in self.arrays

    def _as_float(self, name: str) -> Array:
        values, word = as_numbers(pd.Series(self.columns[name]))
        if word is not None:
            raise refuse_word(name, self.source, word)
        return values

    def _unknown(self, name: str, what: str) -> DataError:
        if name in self.unusable:
            return DataError(
                f"{what} must name columns of numbers; {name!r} of {self.source} is none: {self.unusable[name]}. "
                "Name another."
            )
        in_arrays = {column for columns in self.arrays.values() for column in columns}
        known = [*self.arrays, *(column for column in self.columns if column not in in_arrays)]
        close = get_close_matches(name, known, n=1)
        remedy = f"Did you mean {as_list(close)!r}?" if close else "Use one of those."
        return DataError(f"{what} must name columns of {self.source}; {name!r} is not among {_listed(known)}. {remedy}")


def require_complete(x: pd.DataFrame, source: str, option: str = "--inputs") -> None:
    """Check that inputs are complete; the error names columns and rows of missing values."""
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
        f"Inputs must be complete and finite; in {source} they are not, counting rows from 1: "
        f"{'; '.join(places[:_COLUMNS_SHOWN])}{more}. "
        f"Drop those rows, fill them in, or leave the columns out by {option}."
    )


def require_no_infinity(y: pd.DataFrame, source: str) -> None:
    """Check that outputs are finite or missing."""
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
    shown = ", ".join(as_list([name]) for name in names[:_NAMES_SHOWN])
    return f"{shown}, … ({len(names)} in all)" if len(names) > _NAMES_SHOWN else shown


# The most columns: each is an object of its own, whatever its length.
MAX_COLUMNS = 50_000
# A table is held a few times over while it is read and checked.
_SHARE_OF_MEMORY, _MOST_BYTES = 8, 8 * 2**30
# The limit of the current call, in bytes; a context of its own in each thread. It is not an argument of every reader,
# which has no other use for it.
_limit: ContextVar[int | None] = ContextVar("_limit", default=None)


@contextmanager
def memory_limit(gibibytes: float | None) -> Iterator[None]:
    """The memory that one table may take, in GiB; None for an eighth of the machine's, at most 8.

    >>> with memory_limit(0.5):
    ...     max_bytes()
    536870912
    """
    if gibibytes is not None and not (isinstance(gibibytes, int | float) and 0 < gibibytes < math.inf):
        raise ConfigError(f"max_memory must be a positive number of GiB; got {gibibytes!r}. Try 4.")
    token = _limit.set(None if gibibytes is None else int(gibibytes * 2**30))
    try:
        yield
    finally:
        _limit.reset(token)


def max_bytes() -> int:
    """The memory that one table may take."""
    chosen = _limit.get()
    if chosen is not None:
        return chosen
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        return _MOST_BYTES
    return min(_MOST_BYTES, memory // _SHARE_OF_MEMORY)


def require_room(num_bytes: int, source: str, num_columns: int = 0) -> None:
    """Check a size that a file claims, before memory is taken for it: a file of a few bytes may claim any."""
    if num_bytes > max_bytes():
        raise DataError(
            f"A table must take at most {max_bytes() / 2**30:.3g} GiB in memory; {source} would take "
            f"{num_bytes / 2**30:,.3g}. Take fewer rows or columns, or raise the limit: --max-memory on the command "
            "line, max_memory in Python."
        )
    if num_columns > MAX_COLUMNS:
        raise DataError(
            f"A table must have at most {MAX_COLUMNS:,} columns; {source} has {num_columns:,}. Leave some out."
        )


@contextmanager
def readable_as(kind: str, source: str) -> Iterator[None]:
    """Convert any exception of a parser into a `DataError`."""
    try:
        yield
    except MogulError:
        raise
    except Exception as error:  # parsers do not document what they raise
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise DataError(
            f"The file must be readable as {kind}; {source} is not: {reason}. Is it complete, and of that kind?"
        ) from error


def require_names(names: list[str], source: str) -> None:
    """Check that all columns have distinct names."""
    unnamed = [place for place, name in enumerate(names, start=1) if not name]
    if unnamed:
        raise DataError(
            f"Every column must have a name; column {unnamed[0]} of {len(names)} in {source} has none. Name it, or "
            "leave it out: pandas writes one for its index, but not with to_csv(…, index=False)."
        )
    twice = [name for name, count in Counter(names).items() if count > 1 and name != NO_NAME]
    if twice:
        raise DataError(f"Columns must have different names; {twice[0]!r} is in {source} twice. Rename one of them.")
