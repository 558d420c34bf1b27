"""Arguments of `mogul.fit` as a data set: from a data set, arrays, frames, or the path of a table."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mogul.data.checks import as_matrix
from mogul.data.dataset import Dataset
from mogul.data.encodings.encoding import InputEncoding, rows_to_keep, warn_of_filled
from mogul.data.sources.containers import Outputs, as_array, frame_kind, named_dataset, require_same_index
from mogul.data.sources.formats import read_table
from mogul.data.sources.grids import Grid, is_grid
from mogul.data.sources.reading import Columns, Reading
from mogul.data.sources.table import Table, require_names
from mogul.errors import ConfigError, DataError, ShapeError, warn


def given_data(
    X: Any,
    Y: Any = None,
    targets: str | Sequence[str] | None = None,
    inputs: str | Sequence[str] | None = None,
    groups: Any = None,
    *,
    latent: bool = False,
    reading: Reading | None = None,
) -> tuple[Dataset, Any]:
    """Inputs and outputs, and a group label for each row, if given.

    Args:
        X: a data set; inputs, with Y; or a frame or the path of a table, whose outputs `targets` names.
        Y: outputs, if X has only inputs.
        targets: a column to predict, or several.
        inputs: columns to predict from; None for all that are neither targets nor groups.
        groups: labels, or the column of X that holds them.
        latent: whether the model has latent inputs; a table's inputs are then left out.
        reading: categories, gaps and the layout of the table.

    Example:
        >>> given_data([[0.0], [1.0]], [2.0, 3.0])[0].num_outputs
        1
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"a": [0.0, 1.0], "b": [2.0, 3.0], "run": ["x", "y"]})
        >>> data, labels = given_data(frame, targets="b", groups="run")
        >>> data.input_names, data.output_names, list(labels)
        (['a'], ['b'], ['x', 'y'])
        >>> given_data(frame[["a", "run"]], frame["b"], groups="run")[0].input_names
        ['a']
    """
    is_path, reading = isinstance(X, str | PathLike), reading or Reading()
    if is_grid(X):
        X, targets = _cells(X, Y, targets)
    if isinstance(X, Dataset):
        _require_absent("a Dataset, which has outputs of its own", Y=Y, targets=targets, inputs=inputs)
        return X, groups
    if Y is None and (is_path or targets is not None or reading.long is not None):
        return _from_table(_table(X), targets, inputs, groups, latent, reading)
    if is_path:
        raise ConfigError(
            f"Y must be left out beside the path of a table, {X!r}; got {type(Y).__name__}. Name columns by targets."
        )
    if Y is None:
        raise DataError(f"There must be outputs to learn; got {_kind(X)} alone. Give them as Y, or name them: targets.")
    _require_absent("Y, which has the outputs", targets=targets, inputs=inputs, long=reading.long)
    if isinstance(groups, str):
        X, groups = _without_groups(X, groups)
    return _from_arrays(X, Y, groups, reading)


def validation_rows(X: Any, Y: Any, like: Dataset, *, latent: bool = False) -> Dataset:
    """A user's own rows of inputs and outputs, with inputs encoded as those of the training rows are."""
    if like.encoding is None:
        return given_data(X, Y, latent=latent)[0]
    return named_dataset(like.encoding.apply(as_array(X)), like.input_names, Outputs.of(Y, "mogul.fit"))


def _from_arrays(X: Any, Y: Any, groups: Any, reading: Reading) -> tuple[Dataset, Any]:
    outputs = Outputs.of(Y, "mogul.fit")
    if X is None:
        return named_dataset(None, None, outputs), groups
    require_same_index(X, Y)
    frame = reading.frame_to_encode(X)
    if frame is None:
        values, names = as_matrix(as_array(X), "X")
        return named_dataset(np.ascontiguousarray(values), None if frame_kind(X) is None else names, outputs), groups
    if len(frame) != len(outputs.values):
        raise ShapeError(
            f"X and Y must have the same number of rows; got {len(frame)} and {len(outputs.values)}. "
            "Row i of X belongs to row i of Y."
        )
    keep = rows_to_keep(frame, reading.missing_inputs or "mean", "X", "missing_inputs=")
    if not keep.all():
        frame = frame[keep].reset_index(drop=True)
        outputs = replace(outputs, values=outputs.values[keep])
        groups = None if groups is None else as_array(groups)[keep]
    encoding = InputEncoding.of(frame, reading.categories, "X")
    if reading.missing_inputs is None:
        warn_of_filled(encoding)
    data = named_dataset(encoding.apply(frame), encoding.features, outputs)
    data.encoding = None if encoding.is_plain else encoding
    return data, groups


def _cells(X: Any, Y: Any, targets: str | Sequence[str] | None) -> tuple[Any, list[str]]:
    """A grid as a frame with a row for each cell where some target is known, and its targets."""
    if Y is not None:
        raise ConfigError(
            f"A grid holds inputs and outputs; got {_kind(Y)} as Y, too. Put them into one Dataset, and name targets."
        )
    grid = Grid.of(X)
    wanted = _names(targets) if targets is not None else grid.variables if len(grid.variables) == 1 else []
    if not wanted:
        raise ConfigError(
            f"targets must name the variables to predict; got none. The grid has {', '.join(grid.variables)}. "
            f"Try targets={grid.variables[-1:]!r}."
        )
    return grid.known(wanted), wanted


def _without_groups(X: Any, column: str) -> tuple[Any, Any]:
    """The other columns of a frame, and this column of group labels."""
    if frame_kind(X) is None:
        raise ConfigError(
            f"groups names a column of a DataFrame; got {column!r} and {_kind(X)} as X. Give a label for each row."
        )
    labels = Columns([], groups=column).labels(_table(X))
    others = [place for place, name in enumerate(X.columns) if str(name) != column]
    return X.iloc[:, others] if frame_kind(X) == "pandas" else X[:, others], labels


def _from_table(
    table: Table,
    targets: str | Sequence[str] | None,
    inputs: str | Sequence[str] | None,
    groups: Any,
    latent: bool,
    reading: Reading,
) -> tuple[Dataset, Any]:
    column = groups if isinstance(groups, str) else None
    named = None if inputs is None else _names(inputs)
    wanted = None if targets is None else _names(targets)
    prepared, columns = reading.select(table, wanted, named, column, latent=latent)
    for change in prepared.changes:
        warn(f"{change}.")
    labels = columns.labels(prepared)
    data = columns.data(prepared, latent=latent)
    if data.encoding is not None and reading.missing_inputs is None:
        warn_of_filled(data.encoding)
    return data, groups if labels is None else labels


def _table(X: Any) -> Table:
    if isinstance(X, str | PathLike):
        return read_table(Path(X))
    kind = frame_kind(X)
    if kind is None:
        raise ConfigError(
            f"targets names columns of a DataFrame or of a file; got {_kind(X)} as X. Give the outputs as Y instead."
        )
    names = [str(name) for name in X.columns]
    require_names(names, "X")
    columns = [
        X.iloc[:, place].reset_index(drop=True) if kind == "pandas" else X[:, place].to_numpy()
        for place in range(len(names))
    ]
    return Table("X", dict(zip(names, columns, strict=True)))


def _names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else [str(name) for name in given]


def _kind(values: Any) -> str:
    return "None" if values is None else f"a {type(values).__name__}"


def _require_absent(beside: str, **given: Any) -> None:
    for name, value in given.items():
        if value is None:
            continue
        found = repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
        remedy = f"To name a model, write model={value!r}" if name == "Y" and isinstance(value, str) else "Leave it out"
        raise ConfigError(f"{name} must be left out beside {beside}; got {found}. {remedy}.")
