"""Which rows train, which validate and which calibrate: those asked for, whole groups, or rows drawn at random."""

import hashlib
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from mogul._typing import IntArray
from mogul.config import Stopping
from mogul.data import Dataset
from mogul.data.advice import order_advice
from mogul.errors import ConfigError, DataError, ShapeError, warn

# The share of the rows, or of the groups, that is held out where one must be and none was given.
HELD_OUT_SHARE = 0.2


@dataclass(frozen=True)
class Rows:
    """Rows with their places in the user's data and, where there are any, their groups.

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
        """The rows at the chosen places, with repetitions; all rows by default."""
        # In C order, whatever container they came in: sums then round in the same way.
        same = copy(data)
        same.x, same.y = np.ascontiguousarray(data.x), np.ascontiguousarray(data.y)
        rows = Rows(same, np.arange(data.num_rows), groups)
        return rows if chosen is None else rows.at(chosen)

    def at(self, index: Int[IntArray, "K"]) -> "Rows":
        """The rows at these places."""
        return Rows(self.data.rows(index), self.places[index], None if self.groups is None else self.groups[index])

    def units(self, num_rows: int) -> Int[IntArray, "M"]:
        """Numbers of these rows and of further ones, `num_rows` in all: groups or copies share a number."""
        own = self.places if self.groups is None else self.groups
        return np.concatenate([own, own.max(initial=0) + 1 + np.arange(num_rows - len(own))])

    def once_each(self) -> Dataset:
        """The rows without repetitions: copies of one row are no neighbours in time."""
        _, first = np.unique(self.places, return_index=True)
        return self.data if len(first) == len(self.places) else self.at(np.sort(first)).data

    def set_aside(self, share: float, seed: int) -> tuple["Rows", "Rows"]:
        """All but the calibration rows, and the calibration rows."""
        aside = self._draw(share, seed, "calibrate")
        rest = self.at(np.setdiff1d(np.arange(self.data.num_rows), aside))
        if self.groups is not None and len(np.unique(self.groups)) - len(np.unique(self.groups[aside])) < 2:
            raise DataError(
                f"calibrate must leave at least two groups, to train and to validate on; {share} of "
                f"{len(np.unique(self.groups))} groups leaves 1. Give a smaller share, or leave calibrate out."
            )
        return rest, self.at(aside)

    def validation_rows(self, share: float | None, seed: int) -> Int[IntArray, "W"] | None:
        """Places of validation rows: whole groups, a fifth of them by default, or all copies of some rows.

        None without groups where no share is given, or where no row has copies: the configuration draws them then.
        """
        if self.groups is None and (share is None or len(np.unique(self.places)) == len(self.places)):
            return None
        return self._draw(HELD_OUT_SHARE if share is None else share, seed, "validation")

    def _draw(self, share: float, seed: int, name: str) -> Int[IntArray, "W"]:
        """Places of a share of the rows: some groups, or rows at random; copies of a row stay together."""
        if self.groups is not None:
            return rows_of_some_groups(self.groups, share, seed)
        distinct = np.unique(self.places)
        drawn = distinct[rows_at_random(len(distinct), share, seed, name)]
        return np.flatnonzero(np.isin(self.places, drawn))


def split_rows(
    num_rows: int, stopping: Stopping | None, held_out: Int[IntArray, "W"] | None, seed: int
) -> tuple[Int[IntArray, "K"], Int[IntArray, "W"]]:
    """Places of the rows to train on, and of the validation rows.

    Args:
        num_rows: the number N of rows.
        stopping: has the share to hold out, where no places are given.
        held_out: places of validation rows.
        seed: of the draw, where no places are given.

    Example:
        >>> split_rows(5, None, np.array([4, 1]), seed=0)
        (array([0, 2, 3]), array([1, 4]))
    """
    if held_out is None:
        share = stopping.held_out if stopping else 0.0
        drawn = rows_at_random(num_rows, share, seed) if share else np.arange(0)
        return np.setdiff1d(np.arange(num_rows), drawn), drawn
    places = np.unique(np.asarray(held_out))
    if places.dtype.kind != "i" or places.ndim != 1 or not len(places):
        raise ConfigError(
            f"held_out must be places of rows, whole numbers; got {held_out!r}. Leave it out to hold out none."
        )
    if places[0] < 0 or places[-1] >= num_rows or len(places) == num_rows:
        raise ConfigError(
            f"held_out must be places of some of the {num_rows} rows, 0 to {num_rows - 1}, and not of all; got "
            f"{len(places)} from {places[0]} to {places[-1]}. Hold out fewer."
        )
    return np.setdiff1d(np.arange(num_rows), places), places


def held_out_share(stopping: Stopping | None, *, choosing: bool) -> float | None:
    """The share of the rows that training holds out: that of `stopping`, or a fifth where "auto" chooses by them.

    >>> held_out_share(Stopping(), choosing=True)
    0.2
    """
    asked = stopping.held_out if stopping else 0.0
    return asked or (HELD_OUT_SHARE if choosing else None)


def rows_at_random(num_rows: int, share: float, seed: int, name: str = "The share held out") -> Int[IntArray, "W"]:
    """Places of a share of the rows, drawn at random, sorted; error messages call the share `name`.

    >>> rows_at_random(10, 0.3, seed=0)
    array([2, 4, 6])
    """
    count = round(share * num_rows)
    if not 0 < count < num_rows:
        raise ConfigError(
            f"{name} must leave rows on both sides; {share} of {num_rows} rows is {count}. Give another share, or none."
        )
    return np.sort(np.random.default_rng(seed).permutation(num_rows)[:count])


def rows_of_some_groups(groups: Int[IntArray, "N"], share: float, seed: int) -> Int[IntArray, "W"]:
    """Places of all rows of a share of the groups, drawn at random: at least one group, and not all.

    >>> rows_of_some_groups(np.array([0, 0, 1, 1, 2]), 0.3, seed=0)
    array([4])
    """
    known = np.unique(groups)
    if len(known) < 2:
        raise DataError(
            f"At least two groups must be there, to hold one out; got {len(known)}. Leave groups out to hold out rows."
        )
    count = min(max(1, round(share * len(known))), len(known) - 1)
    chosen = np.random.default_rng(seed).choice(known, count, replace=False)
    return np.flatnonzero(np.isin(groups, chosen))


def with_validation(data: Dataset, own: Dataset) -> tuple[Dataset, Int[IntArray, "W"]]:
    """Training rows followed by the user's own validation rows, and the places of the latter."""
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
    both.encoding = data.encoding
    return both, np.arange(data.num_rows, both.num_rows)


def warn_of_order(data: Dataset) -> None:
    """Warn where rows are held out at random although they follow each other in time."""
    found = order_advice(data)
    if found is not None:
        warn(found.message)


def is_pair(validation: Any) -> bool:
    """Whether `validation` is a pair (X, Y) of the user's own rows."""
    return isinstance(validation, tuple | list) and len(validation) == 2


def share_of(value: Any, name: str = "validation", otherwise: str = ", or a pair (X, Y) of rows") -> float | None:
    """Check a share of the rows or groups; None where none was given.

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


def digest_of(places: Int[IntArray, "W"] | None) -> str | None:
    """A digest of places, short enough for the header of a checkpoint."""
    return None if places is None else hashlib.sha256(np.asarray(places).astype("<i8").tobytes()).hexdigest()
