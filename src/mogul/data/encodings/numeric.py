"""Numbers and truth values as inputs, with gaps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array
from mogul.data.encodings.column import ColumnEncoding, Flags, Plain, as_numbers, refuse_word
from mogul.errors import DataError

GAPS = "number with gaps"


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
