"""Rows to learn from, with what is known of each: which are watched, and which are set aside."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from mogul._typing import IntArray
from mogul.data import Dataset
from mogul.errors import DataError
from mogul.training.held_out import HELD_OUT_SHARE, rows_at_random, rows_of_some_groups


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
        """All but a share to calibrate by, and that share."""
        aside = self._some(share, seed, "calibrate")
        rest = self.at(np.setdiff1d(np.arange(self.data.num_rows), aside))
        if self.groups is not None and len(np.unique(self.groups)) - len(np.unique(self.groups[aside])) < 2:
            raise DataError(
                f"calibrate must leave two groups or more, to train on and to watch; {share} of "
                f"{len(np.unique(self.groups))} groups leaves 1. Give a smaller share, or leave calibrate out."
            )
        return rest, self.at(aside)

    def watched(self, share: float | None, seed: int) -> Int[IntArray, "W"] | None:
        """Places of rows to hold out: whole groups, a fifth of them by default, or all copies of some rows.

        None where there are no groups, and a configuration holds out any rows: none have copies, or none are wanted.
        """
        if self.groups is None and (share is None or len(np.unique(self.places)) == len(self.places)):
            return None
        return self._some(HELD_OUT_SHARE if share is None else share, seed, "validation")

    def _some(self, share: float, seed: int, name: str) -> Int[IntArray, "W"]:
        """Places of a share of the rows: some groups, or rows at random; copies of a row stay together."""
        if self.groups is not None:
            return rows_of_some_groups(self.groups, share, seed)
        distinct = np.unique(self.places)
        drawn = distinct[rows_at_random(len(distinct), share, seed, name)]
        return np.flatnonzero(np.isin(self.places, drawn))
