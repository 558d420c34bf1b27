"""Rows that belong together: a data set with the group, such as a trajectory, of each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from mogul._typing import IntArray
from mogul.data.dataset import Dataset
from mogul.data.splits import Split, group_split, random_split
from mogul.errors import DataError, ShapeError


@dataclass(frozen=True)
class GroupedData:
    """A data set, the group that each row belongs to, and how many rows a random split tests on."""

    name: str
    data: Dataset
    groups: Int[IntArray, "N"]
    num_test: int

    def frame(self) -> pd.DataFrame:
        """Inputs, outputs and group as one table with names."""
        names = [*self.data.input_names, *self.data.output_names]
        return pd.DataFrame(np.column_stack([self.data.x, self.data.y]), columns=names).assign(group=self.groups)

    def random_split(self, seed: int) -> Split:
        """Random rows as in the paper: its number of test rows, the rest for training."""
        return random_split(self.name, self.data.num_rows, self.num_test, seed)

    def group_split(self, test_groups: Sequence[int] | None = None) -> Split:
        """Whole groups for testing, the last fifth of them unless named."""
        return group_split(self.name, self.groups, test_groups)

    def divide(self, split: Split) -> tuple[Dataset, Dataset]:
        """The training and the test rows of a split."""
        train, test = split.rows(self.groups)
        return self.data.rows(train), self.data.rows(test)

    def split(self, seed: int) -> tuple[Dataset, Dataset]:
        """Random rows for training and testing; neighbours in time fall on both sides, see `split_by_trajectory`."""
        return self.divide(self.random_split(seed))

    def split_by_trajectory(self, test: tuple[int, ...] | None = None) -> tuple[Dataset, Dataset]:
        """Whole groups for training and testing: this asks for generalisation."""
        return self.divide(self.group_split(test))


def group_numbers(groups: Any, num_rows: int) -> Int[IntArray, "N"]:
    """Labels of any kind, one for each row, as numbers in the order in which they first appear.

    >>> group_numbers(["b", "a", "b"], 3)
    array([0, 1, 0])
    """
    labels = np.asarray(groups)
    if labels.shape != (num_rows,):
        raise ShapeError(f"groups must be ({num_rows},), a label for each row; got {labels.shape}. Give one each.")
    numbers, _ = pd.factorize(labels)
    unlabelled = np.flatnonzero(numbers < 0)
    if len(unlabelled):
        raise DataError(
            f"Each row must have a group; row {unlabelled[0]} has {labels[unlabelled[0]]}. Give it a label of its own."
        )
    return numbers.astype(np.int64)
