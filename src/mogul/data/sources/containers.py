"""Containers of users' data, for input and output: arrays, tensors and frames."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from mogul._typing import Array, IntArray
from mogul.data import Dataset
from mogul.data.checks import as_matrix, require_finite_inputs, require_no_infinity, require_squares
from mogul.errors import ConfigError, DataError, ShapeError

FrameKind = Literal["pandas", "polars"]
_MOST_COPIES = 100  # of a row on average, for weights that are no whole numbers


@dataclass(frozen=True)
class Outputs:
    """Outputs as given: a matrix, its column names if any, and the container to return."""

    values: Float[Array, "N P"]
    names: list[str] | None
    frame: FrameKind | None
    single: bool

    @staticmethod
    def of(y: Any, owner: str) -> "Outputs":
        """From a frame, an array, a tensor or nested lists; a 1-D array is one output.

        >>> Outputs.of([1.0, 2.0], "an estimator").values.shape
        (2, 1)
        """
        if y is None:
            raise DataError(f"{owner} requires y to be passed, but the target y is None. Give the outputs as Y.")
        frame = frame_kind(y)
        if frame is not None:
            values, names = as_matrix(y, "Y")
            return Outputs(np.ascontiguousarray(values), names, frame, single=False)
        array = as_array(y)
        single = np.ndim(array) == 1
        values, _ = as_matrix(array[:, None] if single else array, "Y")
        return Outputs(np.ascontiguousarray(values), None, None, single)


def as_array(values: Any) -> Any:
    """Tensors, masked arrays and lists as plain arrays; frames unchanged."""
    if frame_kind(values) is not None:
        return values
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        return (values.double() if values.is_floating_point() else values).numpy()  # NumPy has no bfloat16
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.filled(values.astype(np.float64), np.nan)
    if hasattr(values, "tocsr"):  # sparse: refused later by scikit-learn's checks
        return values
    try:
        return np.asarray(values)
    except ValueError:
        raise ShapeError(
            "Rows must have the same number of values each; got rows of different lengths. Fill in NaN."
        ) from None


def frame_kind(values: Any) -> FrameKind | None:
    """The library of a DataFrame; None for other data."""
    package = type(values).__module__.partition(".")[0]
    if not hasattr(values, "columns"):
        return None
    return "pandas" if package == "pandas" else "polars" if package == "polars" else None


def as_frame(values: Float[Array, "N K"], names: list[str], kind: FrameKind, like: Any = None) -> Any:
    """A frame with these column names, and the index of `like` if it has one."""
    if kind == "polars":
        import polars  # optional; installed if the user passes a polars frame

        return polars.DataFrame(values, schema=names)
    index = like.index if frame_kind(like) == "pandas" and len(like) == len(values) else None
    return pd.DataFrame(values, columns=names, index=index)


def named_dataset(x: Float[Array, "N D"] | None, x_names: list[str] | None, y: Outputs) -> Dataset:
    """A data set with the known column names, by which errors name columns."""
    if x is not None and x_names is not None:
        require_finite_inputs(x, x_names)
        require_squares(x, x_names)
    if y.names is not None:
        require_no_infinity(y.values, y.names)
        require_squares(y.values, y.names)
    data = Dataset(x, y.values, check_outputs=False)  # only training needs a value of each output
    # Not through frames: their memory layout differs, and sums would round differently.
    data.input_names = data.input_names if x_names is None else x_names
    data.output_names = data.output_names if y.names is None else y.names
    return data


def require_same_index(X: Any, Y: Any) -> None:
    """Check that rows of two pandas containers belong together: their order counts, and not their index.

    >>> require_same_index(pd.Series([1.0, 2.0]), pd.Series([1.0, 2.0], index=[1, 0]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    mogul.errors.DataError: X and Y must have the same index; row 0 is 0 in X and 1 in Y. Align them by ...
    """
    if not (isinstance(X, pd.DataFrame | pd.Series) and isinstance(Y, pd.DataFrame | pd.Series)):
        return
    if len(X) != len(Y) or X.index.equals(Y.index):
        return
    pairs = list(zip(X.index.tolist(), Y.index.tolist(), strict=True))
    row = next((place for place, (one, other) in enumerate(pairs) if one != other), 0)
    raise DataError(
        f"X and Y must have the same index; row {row} is {pairs[row][0]!r} in X and {pairs[row][1]!r} in Y. "
        "Align them by Y.loc[X.index], or give Y.to_numpy() if rows match as they are."
    )


def copies(weights: Any, num_rows: int, seed: int = 0) -> Int[IntArray, "K"] | None:
    """Indices of training rows, each repeated by its weight; None if all weights are one.

    A row of weight 2 is two rows with the same values. Other weights are met on average, by systematic resampling
    (Kitagawa 1996): row n comes ⌊W_n + u⌋ − ⌊W_{n−1} + u⌋ times, with W the cumulative sum in an order drawn at random
    and u one uniform number. A count differs from its weight by less than one, and the sum of all from theirs, too.

    >>> copies([1, 0, 2], 3)
    array([0, 2, 2])
    >>> np.bincount(copies([0.5, 0.5, 3.2, 1.8], 4), minlength=4).sum()
    np.int64(6)
    """
    if weights is None:
        return None
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (num_rows,):
        raise ShapeError(f"sample_weight must be ({num_rows},), one for each row; got {values.shape}. Give one each.")
    wrong = values[~((values >= 0) & np.isfinite(values))]
    if len(wrong):
        raise ConfigError(
            f"sample_weight must be 0 or more: how often a row counts; got {wrong[0]}. Leave such rows out."
        )
    if not values.any():
        raise ConfigError("sample_weight must leave some rows; all weights are zero. Leave it out.")
    whole = values == np.floor(values)
    if not whole.all():
        _require_few_copies(values)
        values = _resampled(values, seed)
    if not values.any():
        raise ConfigError(
            f"sample_weight must leave some rows; the sum of all is {np.sum(weights):.3g}. Divide by their mean."
        )
    return None if (values == 1).all() else np.repeat(np.arange(num_rows), values.astype(np.int64))


def _require_few_copies(weights: Float[Array, "N"]) -> None:
    """Refuse weights that are no counts, such as 1/σ² in small units, before memory is taken for the copies."""
    if weights.sum() > _MOST_COPIES * len(weights):
        raise ConfigError(
            f"sample_weight is how often a row counts, {_MOST_COPIES} times on average at most; got "
            f"{weights.mean():.3g} on average. Divide by their mean."
        )


def _resampled(weights: Float[Array, "N"], seed: int) -> Float[Array, "N"]:
    """Whole numbers with these means."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(weights))
    ends = np.floor(np.cumsum(weights[order]) + rng.uniform())
    counts = np.empty(len(weights))
    counts[order] = np.diff(ends, prepend=0.0)
    return counts
