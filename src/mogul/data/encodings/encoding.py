"""The encoding of all inputs of a table: fitted to training rows, applied to new ones, stored as plain JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array
from mogul.data.encodings.categories import ONE_HOT_LEVELS, Categories, as_level, as_levels
from mogul.data.encodings.column import (
    ColumnEncoding,
    Flags,
    Numbers,
    Plain,
    as_numbers,
    looks_like_a_number,
    refuse_word,
)
from mogul.data.encodings.dates import Dates, form_of
from mogul.errors import DataError, ShapeError, unknown_name, warn

Gaps = Sequence[float | str]  # numbers and words that stand for a gap
MissingInputs = Literal["mean", "drop", "refuse"]
_COLUMNS_SHOWN, _ROWS_SHOWN = 3, 3


def require_missing_inputs(name: object, option: str = "missing_inputs") -> MissingInputs:
    """What to do with gaps in inputs, checked.

    >>> require_missing_inputs("drop")
    'drop'
    """
    for known in get_args(MissingInputs):
        if name == known:
            return known  # type: ignore[no-any-return]  # one of them
    raise unknown_name(option, name, get_args(MissingInputs))


@dataclass(frozen=True)
class InputEncoding:
    """From columns of a table, by their names, to a matrix of numbers: see `Numbers`, `Categories`, `Dates`.

    Outputs play no part in it, so that rows may be held out after it as before.

    Args:
        columns: an encoding for each column, in the order of inputs.
        missing: numbers and words that stand for gaps, by column; those of outputs, too.

    Example:
        >>> frame = pd.DataFrame({"site": ["b", "a", "b"], "depth": [1.0, None, 3.0]})
        >>> encoding = InputEncoding.of(frame)
        >>> encoding.features
        ['site=a', 'site=b', 'depth', 'depth (missing)']
        >>> encoding.apply(frame)
        array([[0., 1., 1., 0.],
               [1., 0., 2., 1.],
               [0., 1., 3., 0.]])
    """

    columns: tuple[ColumnEncoding, ...]
    missing: Mapping[str, Gaps] = field(default_factory=dict)

    @staticmethod
    def of(
        frame: pd.DataFrame,
        categories: Sequence[str] = (),
        source: str = "X",
        missing: Mapping[str, Gaps] | None = None,
    ) -> "InputEncoding":
        """Fitted to training rows.

        Args:
            frame: the inputs, one column each; what stands for a gap is NaN already.
            categories: columns whose numbers are names of kinds, not amounts.
            source: the name of the table, for errors.
            missing: numbers and words that stand for gaps, by column.
        """
        unknown = [name for name in categories if name not in frame.columns]
        if unknown:
            raise unknown_name("categories", unknown[0], [str(name) for name in frame.columns])
        columns = tuple(_fitted(frame[name], name in categories, source) for name in frame.columns)
        return InputEncoding(columns, dict(missing or {}))

    @property
    def names(self) -> list[str]:
        """The user's columns."""
        return [column.name for column in self.columns]

    @property
    def features(self) -> list[str]:
        """Names of the columns of numbers."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers without gaps, and nothing needs to be remembered."""
        return not self.missing and all(isinstance(each, Numbers) and each.fill is None for each in self.columns)

    @property
    def derived(self) -> Flags:
        """Which columns of numbers are not a column of the user's."""
        names = set(self.names)
        return np.array([feature not in names for feature in self.features])

    def words(self) -> dict[str, str]:
        """What becomes of each column that is not just a number, for a person."""
        return {
            column.name: column.words
            for column in self.columns
            if not (isinstance(column, Numbers) and column.fill is None)
        }

    def apply(self, x: Any, source: str = "X") -> Float[Array, "N D"]:
        """The matrix of numbers of a frame with these columns, or of an array in their order.

        A matrix of numbers that is encoded already, of as many columns, is returned as it is.
        """
        if not hasattr(x, "columns"):
            values = np.asarray(x)
            if values.ndim == 2 and values.dtype.kind in "fiub" and values.shape[1] == len(self.features):
                return values.astype(np.float64)
            if values.ndim != 2 or values.shape[1] != len(self.columns):
                raise ShapeError(
                    f"X must have the {len(self.columns)} columns of training, {', '.join(self.names)}; got shape "
                    f"{values.shape}. Give a DataFrame with these columns."
                )
            x = pd.DataFrame(values, columns=self.names)
        frame = as_pandas(x)
        missing = [name for name in self.names if name not in frame.columns]
        if missing and set(self.features) <= set(frame.columns):
            return frame[self.features].to_numpy(dtype=np.float64)  # encoded already
        if missing:
            raise DataError(
                f"{source} must have the columns of training, {', '.join(self.names)}; {missing[0]!r} is not there. "
                "Name the columns as in training."
            )
        each = [gaps_for(frame[name], self.missing.get(name, ())) for name in self.names]
        return np.hstack([own.apply(column, source) for own, column in zip(self.columns, each, strict=True)])

    def plain(self) -> Plain:
        """As JSON."""
        missing = {name: list(values) for name, values in self.missing.items()}
        return {"columns": [column.plain() for column in self.columns], "missing": missing}

    @staticmethod
    def from_plain(plain: Plain) -> "InputEncoding":
        """The inverse of `plain`; anything else raises LookupError, TypeError or ValueError.

        >>> encoding = InputEncoding.of(pd.DataFrame({"site": ["b", "a", None]}))
        >>> InputEncoding.from_plain(encoding.plain()) == encoding
        True
        """
        columns = tuple(_KINDS[column["kind"]](column) for column in plain["columns"])
        missing = {
            str(name): tuple(value if isinstance(value, str) else float(value) for value in values)
            for name, values in plain["missing"].items()
        }
        return InputEncoding(columns, missing)


def as_pandas(frame: Any) -> pd.DataFrame:
    """A frame of pandas or polars with names as text, and rows numbered from 0."""
    if isinstance(frame, pd.DataFrame):
        return frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)
    return pd.DataFrame({str(name): pd.Series(frame[name].to_numpy()) for name in frame.columns})


def gaps_for(column: "pd.Series[Any]", missing: Gaps) -> "pd.Series[Any]":
    """The column with gaps in place of these numbers and words.

    >>> gaps_for(pd.Series([1.0, -200.0]), [-200.0]).tolist(), gaps_for(pd.Series(["a", "?"]), ["?"]).isna().tolist()
    ([1.0, nan], [False, True])
    """
    words = [value for value in missing if isinstance(value, str)]
    numbers = [value for value in missing if not isinstance(value, str)]
    if words and column.dtype.kind not in "fiubmM":
        texts = column.astype("string").str.strip()
        column = column.astype(object).where(~texts.isin(words).fillna(False).astype(bool))
    if not numbers:
        return column
    values, word = as_numbers(column)
    return (
        column if word is not None else pd.Series(np.where(np.isin(values, numbers), np.nan, values), name=column.name)
    )


def needs_encoding(frame: pd.DataFrame, categories: Sequence[str] = ()) -> bool:
    """Whether a frame has anything but numbers without gaps; quick for frames that have not."""
    if categories:
        return True
    return any(column.dtype.kind not in "fiub" or column.isna().any() for _, column in frame.items())


def rows_to_keep(frame: pd.DataFrame, missing: MissingInputs, source: str, option: str) -> Flags:
    """Which rows are used: all, or those without gaps for "drop"; "refuse" raises where there are gaps."""
    gaps: Flags = np.logical_or.reduce(frame.isna().to_numpy(dtype=bool), axis=1)
    rows: Flags = np.ones(len(frame), dtype=bool) if missing == "mean" else ~gaps
    if rows.all():
        return rows
    if missing == "refuse":
        raise DataError(
            f"Inputs must be complete and finite; in {source} they are not, counting rows from 1: {_places(frame)}. "
            f"Drop those rows, fill them in, or choose {option} mean or drop."
        )
    if not rows.any():
        raise DataError(
            f"Some row must have all inputs; none of the {len(frame)} rows of {source} has: {_places(frame)}. "
            f"Leave columns out, or choose {option} mean."
        )
    warn(
        f"Rows should have all inputs; {int((~rows).sum()):,} of {len(rows):,} of {source} have not, and were dropped."
    )
    return rows


def warn_of_filled(encoding: InputEncoding) -> None:
    """Name the columns whose gaps were filled."""
    names = [column.name for column in encoding.columns if getattr(column, "fill", None) is not None]
    if names:
        more = f" and {len(names) - _COLUMNS_SHOWN} more" if len(names) > _COLUMNS_SHOWN else ""
        shown = ", ".join(repr(name) for name in names[:_COLUMNS_SHOWN])
        warn(
            f"Inputs should be complete; {shown}{more} {'have' if len(names) > 1 else 'has'} gaps. Filled by the mean, "
            "beside a column that marks them; missing_inputs='drop' drops those rows, 'refuse' stops."
        )


def _places(frame: pd.DataFrame) -> str:
    """Columns and rows of gaps."""
    places = []
    for name, column in frame.items():
        rows = np.flatnonzero(column.isna())
        if len(rows):
            more = f" and {len(rows) - _ROWS_SHOWN} more rows" if len(rows) > _ROWS_SHOWN else ""
            shown = ", ".join(str(row + 1) for row in rows[:_ROWS_SHOWN])
            places.append(f"{name!r} in row{'s' if len(rows) > 1 else ''} {shown}{more}")
    more = f" and {len(places) - _COLUMNS_SHOWN} more columns" if len(places) > _COLUMNS_SHOWN else ""
    return "; ".join(places[:_COLUMNS_SHOWN]) + more


def _fitted(column: "pd.Series[Any]", is_category: bool, source: str) -> ColumnEncoding:
    """The encoding that suits what the column holds."""
    if column.isna().all():
        raise DataError(
            f"Inputs must have some value; {column.name!r} of {source} is missing in all {len(column)} rows. "
            "Leave the column out."
        )
    if is_category or isinstance(column.dtype, pd.CategoricalDtype):
        return Categories.of(column, source)
    if column.dtype.kind in "fiubm":
        return Numbers.of(column, source)
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if column.dtype.kind == "M" or _holds(column, date):
        return Dates.of(_as_dates(column), None, source)
    values, word = as_numbers(column)
    if word is None:
        return Numbers.of(column, source)
    if 2 * np.count_nonzero(~np.isnan(values)) > column.notna().sum():
        raise refuse_word(str(column.name), source, word)
    as_level(word.value, column.name, source)  # or an error
    texts = column.astype("string") if _holds(column, time) else column
    form = form_of(texts)
    if form is not None:
        return Dates.of(texts, form, source)
    if looks_like_a_number(word.value):
        raise refuse_word(str(column.name), source, word)
    require_repeated_levels(column, source)
    return Categories.of(column, source)


def require_repeated_levels(column: "pd.Series[Any]", source: str) -> None:
    """Check that levels come again, so that something can be learnt of them."""
    num_levels = len(set(as_levels(column, source)))
    if are_labels(num_levels, len(column)):
        raise DataError(
            f"Texts must come again to be learnt from; {column.name!r} of {source} has {num_levels} different ones in "
            f"{len(column)} rows. Leave the column out."
        )


def are_labels(num_levels: int, num_rows: int) -> bool:
    """Whether texts are labels of rows, such as numbers of samples, and not categories.

    >>> are_labels(300, 300), are_labels(30, 300), are_labels(5, 8)
    (True, False, False)
    """
    return num_levels > ONE_HOT_LEVELS and 2 * num_levels > num_rows


def is_label(column: "pd.Series[Any]", source: str) -> bool:
    """Whether a column holds a different text in most rows, and neither numbers nor dates."""
    if column.dtype.kind in "fiubmM" or isinstance(column.dtype, pd.CategoricalDtype | pd.PeriodDtype):
        return False
    values, word = as_numbers(column)
    if word is None or not np.isnan(values[column.notna()]).all() or looks_like_a_number(word.value):
        return False
    return are_labels(len(set(as_levels(column, source))), len(column)) and form_of(column) is None


def _holds(column: "pd.Series[Any]", kind: type) -> bool:
    """Whether the first value is of this class."""
    return column.dtype.kind == "O" and isinstance(column[column.notna()].iloc[0], kind)


def _as_dates(column: "pd.Series[Any]") -> "pd.Series[Any]":
    return column if column.dtype.kind == "M" else pd.to_datetime(column)


def _numbers(plain: Plain) -> Numbers:
    fill = plain["fill"]
    return Numbers(str(plain["name"]), None if fill is None else float(fill))


def _categories(plain: Plain) -> Categories:
    levels, codes = tuple(str(level) for level in plain["levels"]), plain["codes"]
    if codes is None:
        return Categories(str(plain["name"]), levels)
    points = np.array(codes, dtype=np.float64)
    if points.ndim != 2 or len(points) != len(levels) + 1 or not np.isfinite(points).all():
        raise ValueError(f"codes of {plain['name']!r} must be a point for each of {len(levels)} levels, and one more")
    return Categories(str(plain["name"]), levels, tuple(tuple(point) for point in points.tolist()))


def _dates(plain: Plain) -> Dates:
    fill = plain["fill"]
    origin = None if plain["origin"] is None else pd.Timestamp(plain["origin"]).isoformat()
    return Dates(
        str(plain["name"]),
        plain["form"],
        origin,
        tuple(plain["cycles"]),
        None if fill is None else tuple(float(value) for value in fill),
    )


_KINDS: Mapping[str, Callable[[Plain], ColumnEncoding]] = {
    "numbers": _numbers,
    "categories": _categories,
    "dates": _dates,
}
