"""From users' data to finite matrices with column names, or an error with a remedy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mogul._typing import Array
from mogul.errors import DataError, ShapeError

_LARGEST = 1e100


def as_matrix(values: Any, name: str) -> tuple[Array, list[str]]:
    """A 2-D float64 array and its column names, from an array, a tensor, a list of lists or a DataFrame."""
    columns = getattr(values, "columns", None)
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values  # NumPy has no bfloat16
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    if columns is not None and hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if hasattr(values, "tocsr"):
        raise ShapeError(f"{name} must be dense; got a {type(values).__name__}. Give {name}.toarray().")
    try:
        raw = np.asarray(values)
    except ValueError:
        raise ShapeError(
            f"{name} must be (rows, columns); got rows of different lengths. Give every row the same number of values."
        ) from None
    if raw.ndim != 2:
        remedy = f"For one column use {name}[:, None], for one row {name}[None]."
        remedy = remedy if raw.ndim == 1 else "Flatten it to two axes."
        raise ShapeError(f"{name} must be (rows, columns); got shape {raw.shape}. {remedy}")
    if 0 in raw.shape:
        raise ShapeError(f"{name} must have at least one row and one column; got shape {raw.shape}. Give some data.")
    names = [str(column) for column in columns] if columns is not None else numbered_names(name, raw.shape[1])
    return _as_float(raw, name, names), names


def in_order(values: Any, names: list[str], kind: str) -> Any:
    """A frame's columns in the order of `names`; data without names, or trained without names, unchanged."""
    columns = getattr(values, "columns", None)
    if columns is None or names == numbered_names(kind, len(names)):
        return values
    places = {str(column): place for place, column in enumerate(columns)}
    missing = [name for name in names if name not in places]
    if missing:
        raise DataError(
            f"{kind} must have the columns of training; {missing[0]!r} is not among {', '.join(places)}. "
            "Name the columns as in training, or pass an array in their order."
        )
    return values.iloc[:, [places[name] for name in names]]


def require_columns(matrix: Array, names: list[str], kind: str) -> None:
    """Check the number of columns against training."""
    if matrix.shape[1] != len(names):
        raise ShapeError(
            f"{kind} must have {len(names)} columns, as in training; got {matrix.shape[1]}. "
            f"The columns are {', '.join(names)}."
        )


def require_finite_inputs(x: Array, names: list[str]) -> None:
    """Check that inputs are finite; missing inputs are not supported."""
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"Inputs must be finite; column {names[column]!r} holds {x[row, column]} in row {row} "
            f"({len(bad)} such values in all). Drop those rows, or fill them in."
        )


def require_no_infinity(y: Array, names: list[str]) -> None:
    """Check that outputs are finite or missing (NaN)."""
    infinite = np.argwhere(np.isinf(y))
    if len(infinite):
        row, column = infinite[0]
        raise DataError(
            f"Outputs must be finite or NaN (missing); column {names[column]!r} holds {y[row, column]} in row {row}. "
            "Put NaN where a value is unknown."
        )


def require_squares(values: Array, names: list[str]) -> None:
    """Check that squares of numbers do not overflow, as sums and variances need them."""
    large = np.argwhere((values > _LARGEST) | (values < -_LARGEST))
    if len(large):
        row, column = large[0]
        raise DataError(
            f"Numbers must be within ±{_LARGEST:g}; column {names[column]!r} holds {values[row, column]:g}. "
            "Give it in another unit, or its logarithm."
        )


def require_some_of_each(y: Array, names: list[str]) -> None:
    """Check that each output has at least one value."""
    empty = [name for name, column in zip(names, y.T, strict=True) if np.isnan(column).all()]
    if empty:
        raise DataError(
            f"Each output must have at least one value; column {empty[0]!r} is NaN in all {len(y)} rows. "
            "Drop that column."
        )


def numbered_names(name: str, count: int) -> list[str]:
    """Default names of unnamed columns."""
    return [f"{name.lower()}{column}" for column in range(count)]


def _as_float(raw: npt.NDArray[Any], name: str, names: list[str]) -> Array:
    if raw.dtype.kind in "fiub":
        return raw.astype(np.float64)
    if raw.dtype.kind == "O":
        for column, label in enumerate(names):
            for row, value in enumerate(raw[:, column]):
                if isinstance(value, str | bytes) or not _is_number(value):
                    raise DataError(
                        f"{name} must be numbers; column {label!r} holds {value!r} in row {row}. "
                        f"{_remedy(value)}, or leave the column out."
                    )
        return np.array([[np.nan if _is_missing(value) else float(value) for value in row] for row in raw])
    raise DataError(
        f"{name} must be real numbers; column {names[0]!r} holds {raw[0, 0]!r} in row 0, {raw.dtype} data. "
        "Encode it as numbers, or leave the column out."
    )


def _remedy(value: Any) -> str:
    """What to do with a value that is not a number: texts of numbers are easily converted."""
    try:
        float(str(value))
    except ValueError:
        return "Encode it as numbers"
    return "Convert it by pd.to_numeric"


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def _is_number(value: Any) -> bool:
    return _is_missing(value) or isinstance(value, int | float | np.integer | np.floating | np.bool_)
