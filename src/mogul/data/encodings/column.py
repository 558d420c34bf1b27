"""What every encoding of a column has, and what a column of a table holds."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array
from mogul.errors import DataError

Plain = dict[str, Any]
Flags = npt.NDArray[np.bool_]


class ColumnEncoding(ABC):
    """From one column of a table to K columns of numbers; fitted to training rows, and plain enough for JSON."""

    name: str

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """Names of the K columns of numbers; each begins with the name of the column."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What becomes of the column, for a person."""

    @abstractmethod
    def apply(self, column: "pd.Series[Any]", source: str) -> Float[Array, "N K"]:
        """The numbers; `source` names the table in errors."""

    @abstractmethod
    def plain(self) -> Plain:
        """All of it as JSON; `kind` says which encoding it is."""


@dataclass(frozen=True)
class Word:
    """A value that is not a number, its row counted from 1, and the number of further ones in its column."""

    row: int
    value: Any
    others: int

    @property
    def remedy(self) -> str:
        """The remedy for an error message.

        >>> Word(1, "1.234,5", 0).remedy
        'Encode it as numbers, with a point for decimals and no commas'
        """
        commas = isinstance(self.value, str) and "," in self.value
        return "Encode it as numbers" + (
            ", with a point for decimals and no commas" if commas and looks_like_a_number(self.value) else ""
        )


def as_numbers(column: "pd.Series[Any]") -> tuple[Array, Word | None]:
    """The values in float64, NaN where there is none, and the first value that is neither a number nor missing.

    >>> as_numbers(pd.Series(["1", None, "red"]))[1].value
    'red'
    """
    if column.dtype.kind in "fiub":
        return column.to_numpy(dtype=np.float64, na_value=np.nan), None
    values = column.map(_number).astype(np.float64)
    wrong = np.flatnonzero(values.isna() & column.notna())
    word = Word(int(wrong[0]) + 1, column.iloc[wrong[0]], len(wrong) - 1) if len(wrong) else None
    return np.asarray(values, dtype=np.float64), word


def looks_like_a_number(value: Any) -> bool:
    """Whether a text is a number but for its commas and points.

    >>> looks_like_a_number("1.234,5"), looks_like_a_number("B12")
    (True, False)
    """
    return isinstance(value, str) and not math.isnan(_number(value.replace(".", "").replace(",", "")))


def refuse_word(name: str, source: str, word: Word) -> DataError:
    """The error for a value that should be a number."""
    more = f" and {word.others} more such values" if word.others else ""
    return DataError(
        f"Columns must be numbers; {name!r} of {source} holds {word.value!r} in row {word.row}{more}. {word.remedy}, "
        "or leave the column out."
    )


def _number(value: Any) -> float:
    """The number, or NaN for anything else."""
    if not isinstance(value, str | int | float | Decimal | np.integer | np.floating | np.bool_) or "_" in str(value):
        return np.nan  # Python would accept 1_000
    try:
        return float(value)
    except (ValueError, OverflowError):
        return np.nan
