"""What a user says about rows, as a data set to learn from: which count, which are watched, which are set aside."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from mogul.arrays import IntArray
from mogul.data import Dataset
from mogul.errors import ConfigError, DataError, ShapeError
from mogul.training.held_out import HELD_OUT_SHARE, rows_of_some_groups
from mogul.training.stopping import Stopping


@dataclass(frozen=True)
class Rows:
    """Rows to learn from, with the groups that they belong to, if they do, and where they come from.

    Example:
        >>> rows = Rows.of(Dataset(np.arange(10.0)[:, None], np.ones((10, 1))), chosen=None, groups=None)
        >>> rest, aside = rows.set_aside(0.2, seed=0)
        >>> rest.data.num_rows, aside.data.num_rows
        (8, 2)
    """

    data: Dataset
    places: Int[IntArray, "N"]
    groups: Int[IntArray, "N"] | None

    @staticmethod
    def of(data: Dataset, chosen: Int[IntArray, "K"] | None, groups: Int[IntArray, "N"] | None) -> "Rows":
        """These of the rows, each as often as it is chosen; all of them if none are."""
        rows = Rows(data, np.arange(data.num_rows), groups)
        return rows if chosen is None else rows.at(chosen)

    def at(self, index: Int[IntArray, "K"]) -> "Rows":
        """The rows at these places."""
        return Rows(self.data.rows(index), self.places[index], None if self.groups is None else self.groups[index])

    def set_aside(self, share: float, seed: int) -> tuple["Rows", "Rows"]:
        """All but a share, and that share: some groups, or the ends of stretches; copies of a row stay together."""
        if self.groups is None:
            distinct = np.unique(self.places)
            _, ends = Stopping(held_out=share).divide(len(distinct))
            chosen = np.isin(self.places, distinct[ends.numpy()])
        else:
            chosen = np.zeros(self.data.num_rows, dtype=bool)
            chosen[rows_of_some_groups(self.groups, share, seed)] = True
        return self.at(np.flatnonzero(~chosen)), self.at(np.flatnonzero(chosen))

    def watched(self, share: float | None, seed: int) -> Int[IntArray, "W"] | None:
        """Places of whole groups to hold out; None where there are no groups, and a configuration holds out rows."""
        if self.groups is None:
            return None
        return rows_of_some_groups(self.groups, HELD_OUT_SHARE if share is None else share, seed)


def with_validation(data: Dataset, own: Dataset) -> tuple[Dataset, Int[IntArray, "W"]]:
    """Rows to train on and rows of a user's own to watch, and the places of the latter."""
    if own.num_outputs != data.num_outputs:
        raise ShapeError(
            f"validation must have outputs like Y, {data.num_outputs} columns; got {own.num_outputs}. "
            f"The columns are {', '.join(data.output_names)}."
        )
    if np.isnan(own.y).all():
        raise DataError("validation must have some known outputs; all are NaN. Give rows with known outputs.")
    own = own.in_order(data.input_names, data.output_names)
    both = Dataset(np.vstack([data.x, own.x]), np.vstack([data.y, own.y]), check_outputs=False)
    both.input_names, both.output_names = data.input_names, data.output_names
    return both, np.arange(data.num_rows, both.num_rows)


def is_pair(validation: Any) -> bool:
    """Whether these are rows of a user's own, inputs and outputs."""
    return isinstance(validation, tuple | list) and len(validation) == 2


def share_of(value: Any, name: str = "validation", otherwise: str = ", or a pair (X, Y) of rows") -> float | None:
    """A share of the rows, or of the groups; None where nobody gave one.

    >>> share_of(0.1)
    0.1
    """
    if value is None or (otherwise and is_pair(value)):
        return None
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or not 0 < value < 1:
        found = value if is_number else type(value).__name__
        raise ConfigError(f"{name} must be a share of the rows, between 0 and 1{otherwise}; got {found}. Try 0.1.")
    return float(value)
