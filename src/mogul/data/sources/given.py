"""Arguments of `mogul.fit` as a data set: from a data set, arrays, frames, or the path of a table."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mogul.data.checks import as_matrix
from mogul.data.dataset import Dataset
from mogul.data.sources.columns import Columns
from mogul.data.sources.containers import Outputs, as_array, frame_kind, named_dataset
from mogul.data.sources.formats import read_table, require_names
from mogul.data.sources.table import Table
from mogul.errors import ConfigError, DataError


def given_data(
    X: Any,
    Y: Any = None,
    targets: str | Sequence[str] | None = None,
    inputs: str | Sequence[str] | None = None,
    groups: Any = None,
    *,
    latent: bool = False,
) -> tuple[Dataset, Any]:
    """Inputs and outputs, and a group label for each row, if given.

    Args:
        X: a data set; inputs, with Y; or a frame or the path of a table, whose outputs `targets` names.
        Y: outputs, if X has only inputs.
        targets: a column to predict, or several.
        inputs: columns to predict from; None for all that are neither targets nor groups.
        groups: labels, or the column of X that holds them.
        latent: whether the model has latent inputs; a table's inputs are then left out.

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
    is_path = isinstance(X, str | PathLike)
    if isinstance(X, Dataset):
        _require_absent("a Dataset, which has outputs of its own", Y=Y, targets=targets, inputs=inputs)
        return X, groups
    if Y is None and (is_path or targets is not None):
        return _from_table(_table(X), targets, inputs, groups, latent)
    if is_path:
        raise ConfigError(
            f"Y must be left out beside the path of a table, {X!r}; got {type(Y).__name__}. Name columns by targets."
        )
    if Y is None:
        raise DataError(f"There must be outputs to learn; got {_kind(X)} alone. Give them as Y, or name them: targets.")
    _require_absent("Y, which has the outputs", targets=targets, inputs=inputs)
    if isinstance(groups, str):
        X, groups = _without_groups(X, groups)
    return _from_arrays(X, Y), groups


def _from_arrays(X: Any, Y: Any) -> Dataset:
    outputs = Outputs.of(Y, "mogul.fit")
    if X is None:
        return named_dataset(None, None, outputs)
    values, names = as_matrix(as_array(X), "X")
    return named_dataset(np.ascontiguousarray(values), None if frame_kind(X) is None else names, outputs)


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
) -> tuple[Dataset, Any]:
    if targets is None or not len(targets):
        known = ", ".join(list(table.columns)[:8])
        raise ConfigError(f"targets must name the columns to predict; got {targets!r}. {table.source} has {known}.")
    column = groups if isinstance(groups, str) else None
    columns = Columns(_names(targets), None if inputs is None else _names(inputs), column)
    labels = columns.labels(table)
    return columns.data(table, latent=latent), groups if labels is None else labels


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
    columns = [X.iloc[:, place] if kind == "pandas" else X[:, place].to_numpy() for place in range(len(names))]
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
