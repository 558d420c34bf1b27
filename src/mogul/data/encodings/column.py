"""What every encoding of a column has, and the encoding of numbers and truth values, with gaps."""

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
GAPS = "number with gaps"


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
    def quantiles(
        self, ranks: Float[Array, "N"], mean: Float[Array, "K"], scale: Float[Array, "K"]
    ) -> Float[Array, "N K"]:
        """The numbers of values at these ranks, between 0 and 1, of a distribution like that of training rows.

        Of training rows only the mean and the standard deviation of each column of numbers are known.
        """

    @abstractmethod
    def plain(self) -> Plain:
        """All of it as JSON; `kind` says which encoding it is."""


def evenly_spread(ranks: Float[Array, "*N"], mean: Any, scale: Any) -> Float[Array, "*N"]:
    """Quantiles of the uniform distribution with this mean and standard deviation, on mean ± √3 scale.

    >>> evenly_spread(np.array([0.0, 0.5, 1.0]), 1.0, 1 / math.sqrt(3)).round(6).tolist()
    [0.0, 1.0, 2.0]
    """
    values: Array = mean + math.sqrt(3) * scale * (2 * ranks - 1)
    return values


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
        >>> Word(1, "n.d.", 0).remedy
        'Encode it as numbers, name it in missing (--missing) if it stands for a gap'
        """
        if looks_like_a_number(self.value):
            return "Encode it as numbers" + (", with a point for decimals and no commas" if "," in self.value else "")
        return "Encode it as numbers, name it in missing (--missing) if it stands for a gap"


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


@dataclass(frozen=True)
class Numbers(ColumnEncoding):
    """A column of numbers; where training rows had gaps, their mean in place of a gap, and a column that marks gaps.

    The mark lets a model learn what a gap means. Without one in training, a gap is refused: nothing is known of it.

    Args:
        name: of the column.
        fill: the mean of the known values; None where training rows had no gap.

    Example:
        >>> Numbers.of(pd.Series([1.0, None, 3.0], name="a"), "a table").apply(pd.Series([None, 5.0]), "a table")
        array([[2., 1.],
               [5., 0.]])
    """

    name: str
    fill: float | None = None

    @staticmethod
    def of(column: "pd.Series[Any]", source: str) -> "Numbers":
        """Fitted to training rows."""
        values = _finite(column, source)
        gaps = np.isnan(values)
        return Numbers(str(column.name), float(values[~gaps].mean()) if gaps.any() else None)

    @property
    def features(self) -> list[str]:
        """The column, and its gaps if there were any."""
        return [self.name] if self.fill is None else [self.name, f"{self.name} (missing)"]

    @property
    def words(self) -> str:
        """What becomes of the column, for a person."""
        return "number" if self.fill is None else GAPS

    def apply(self, column: "pd.Series[Any]", source: str) -> Float[Array, "N K"]:
        """The numbers, and 1 at a gap."""
        return fill_gaps(
            _finite(column, source)[:, None], None if self.fill is None else [self.fill], self.name, source
        )

    def quantiles(
        self, ranks: Float[Array, "N"], mean: Float[Array, "K"], scale: Float[Array, "K"]
    ) -> Float[Array, "N K"]:
        """Numbers spread evenly, with as large a share of gaps as in training."""
        if self.fill is None:
            return evenly_spread(ranks, mean[0], scale[0])[:, None]
        known, ranks = ranks_beyond_gaps(ranks, mean[-1])
        spread = scale[0] / np.sqrt(max(1 - mean[-1], np.finfo(np.float64).tiny))  # the fill has none
        return fill_gaps(np.where(known, evenly_spread(ranks, mean[0], spread), np.nan)[:, None], [self.fill], "", "")

    def plain(self) -> Plain:
        """As JSON."""
        return {"kind": "numbers", "name": self.name, "fill": self.fill}


def fill_gaps(values: Float[Array, "N K"], fill: list[float] | None, name: str, source: str) -> Float[Array, "N K1"]:
    """Values with gaps filled, and a column that marks them; refuses gaps where `fill` is None."""
    gaps: Flags = np.logical_or.reduce(np.isnan(values), axis=1)
    if fill is not None:
        return np.column_stack([np.where(gaps[:, None], fill, values), gaps.astype(np.float64)])
    if gaps.any():
        rows = np.flatnonzero(gaps)
        more = f" and {len(rows) - 1} more rows" if len(rows) > 1 else ""
        raise DataError(
            f"Inputs must be complete where they were in training; {name!r} of {source} is missing in row "
            f"{rows[0] + 1}{more}. Drop those rows, or fill them in."
        )
    return values


def ranks_beyond_gaps(ranks: Float[Array, "N"], share: float) -> tuple[Flags, Float[Array, "N"]]:
    """Which ranks are above the share of gaps, and the ranks of these among values that are known.

    >>> [part.tolist() for part in ranks_beyond_gaps(np.array([0.25, 0.75]), 0.5)]
    [[False, True], [0.0, 0.5]]
    """
    return ranks >= share, np.clip((ranks - share) / max(1 - share, np.finfo(np.float64).tiny), 0.0, 1.0)


def _finite(column: "pd.Series[Any]", source: str) -> Array:
    """The numbers, NaN where missing; anything else is refused."""
    if column.dtype.kind == "m":
        seconds: Array = column.dt.total_seconds().to_numpy(dtype=np.float64)
        return seconds
    values, word = as_numbers(column)
    if word is not None:
        raise refuse_word(str(column.name), source, word)
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise DataError(
            f"Inputs must be complete and finite; in {source} they are not, counting rows from 1: {column.name!r} in "
            f"row {infinite[0] + 1}. Drop those rows, fill them in, or leave the column out."
        )
    return values
