"""Which rows are held out of training: those asked for, whole groups, or rows drawn at random."""

import hashlib
import warnings

import numpy as np
from jaxtyping import Int

from mogul._typing import IntArray
from mogul.config import Stopping
from mogul.data import Dataset
from mogul.data.order import order_advice
from mogul.errors import ConfigError, DataError, MogulWarning

# Of the rows, or of the groups, where some must be held out and nobody says how many.
HELD_OUT_SHARE = 0.2


def held_out_share(stopping: Stopping | None, *, choosing: bool) -> float | None:
    """The share of the rows that a training holds out by itself: its stopping's, or a fifth to choose by.

    >>> held_out_share(Stopping(), choosing=True)
    0.2
    """
    asked = stopping.held_out if stopping else 0.0
    return asked or (HELD_OUT_SHARE if choosing else None)


def divided(
    num_rows: int, stopping: Stopping | None, held_out: Int[IntArray, "W"] | None, seed: int
) -> tuple[Int[IntArray, "K"], Int[IntArray, "W"]]:
    """Places of the rows to train on, and of those to watch.

    Args:
        num_rows: how many rows there are.
        stopping: says how many to hold out, where none are given.
        held_out: places of rows to hold out.
        seed: of the draw, where none are given.

    Example:
        >>> divided(5, None, np.array([4, 1]), seed=0)
        (array([0, 2, 3]), array([1, 4]))
    """
    if held_out is None:
        share = stopping.held_out if stopping else 0.0
        watched = rows_at_random(num_rows, share, seed) if share else np.arange(0)
        return np.setdiff1d(np.arange(num_rows), watched), watched
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


def rows_at_random(num_rows: int, share: float, seed: int, name: str = "The share held out") -> Int[IntArray, "W"]:
    """Places of this share of the rows, drawn at random, in their order; errors call the share by this name.

    >>> rows_at_random(10, 0.3, seed=0)
    array([2, 4, 6])
    """
    count = round(share * num_rows)
    if not 0 < count < num_rows:
        raise ConfigError(
            f"{name} must leave rows on both sides; {share} of {num_rows} rows is {count}. Give another share, or none."
        )
    return np.sort(np.random.default_rng(seed).permutation(num_rows)[:count])


def warn_of_order(data: Dataset, stacklevel: int = 2) -> None:
    """Say where rows that are held out at random follow each other in time."""
    found = order_advice(data)
    if found is not None:
        warnings.warn(found.message, MogulWarning, stacklevel=stacklevel + 1)


def rows_of_some_groups(groups: Int[IntArray, "N"], share: float, seed: int) -> Int[IntArray, "W"]:
    """Places of all rows of some groups, drawn at random: this share of the groups, at least one and not all.

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


def digest_of(places: Int[IntArray, "W"] | None) -> str | None:
    """A name for these places that a file can hold, however many they are."""
    return None if places is None else hashlib.sha256(np.asarray(places).astype("<i8").tobytes()).hexdigest()
