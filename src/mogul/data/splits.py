"""Splits of rows into training and test rows, stored with results so that they can be reproduced."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Int

from mogul._typing import IntArray
from mogul.data.dataset import Dataset
from mogul.errors import ConfigError, DataError, ShapeError, require_natural

TEST_SHARE_OF_GROUPS = 0.2


@dataclass(frozen=True)
class Split:
    """A split of the rows of a data set, by a seed or by the held-out groups.

    `digest` is the SHA-256 of the test rows' indices. It detects a stored split applied to other rows or with a changed
    random generator.

    Example:
        >>> split = random_split("demo", num_rows=10, num_test=3, seed=0)
        >>> Split.from_json(split.to_json()) == split
        True
    """

    dataset: str
    kind: Literal["random", "groups"]
    num_train: int
    num_test: int
    digest: str
    seed: int | None = None
    test_groups: tuple[int, ...] = ()

    def rows(self, groups: Int[IntArray, "N"]) -> tuple[IntArray, IntArray]:
        """Indices of training and test rows, checked against the stored digest."""
        if self.seed is None:
            train, test = _rows_by_group(groups, self.test_groups)
        else:
            train, test = _random_rows(len(groups), self.num_test, self.seed)
        if (len(train), _digest(test)) != (self.num_train, self.digest):
            raise DataError(
                f"A split needs the rows it was made for, {self.num_train} + {self.num_test} of {self.dataset}; "
                f"on these rows it gives {len(train)} + {len(test)}, or others. Load the same data, or split anew."
            )
        return train, test

    def to_json(self) -> dict[str, Any]:
        """Plain values, to be stored with the results."""
        return asdict(self) | {"test_groups": list(self.test_groups)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "Split":
        """The split that was stored."""
        try:
            return Split(**{**content, "test_groups": tuple(content["test_groups"])})
        except (KeyError, TypeError):
            raise DataError(
                f"A stored split must have the fields of Split; got {', '.join(map(str, content))}. "
                "Read what Split.to_json wrote."
            ) from None


def random_split(dataset: str, num_rows: int, num_test: int, seed: int) -> Split:
    """Random rows: neighbours in time fall on both sides, so this tests interpolation."""
    require_natural(seed=seed)
    if not 0 < num_test < num_rows:
        raise ConfigError(
            f"num_test must leave rows on both sides; got {num_test} of {num_rows} rows. Choose between 1 and "
            f"{num_rows - 1}."
        )
    train, test = _random_rows(num_rows, num_test, seed)
    return Split(dataset, "random", len(train), len(test), _digest(test), seed=seed)


def group_split(dataset: str, groups: Int[IntArray, "N"], test_groups: Sequence[int] | None = None) -> Split:
    """Whole groups for testing, by default the last fifth of them: this tests generalisation."""
    known = np.unique(groups)
    if len(known) < 2:
        raise DataError(
            f"A split by group needs at least two groups; {dataset} has {len(known)}. Split at random instead."
        )
    if test_groups is None:
        test_groups = [int(group) for group in known[-max(1, round(TEST_SHARE_OF_GROUPS * len(known))) :]]
    unknown = sorted(set(test_groups) - set(known.tolist()))
    if unknown or not 0 < len(set(test_groups)) < len(known):
        found = f"{unknown[0]} is not one" if unknown else f"got {len(set(test_groups))} of them"
        raise ConfigError(
            f"test_groups must be some and not all of the {len(known)} groups {known[0]} … {known[-1]} of {dataset}; "
            f"{found}. Name others."
        )
    train, test = _rows_by_group(groups, test_groups)
    return Split(dataset, "groups", len(train), len(test), _digest(test), test_groups=tuple(test_groups))


def _random_rows(num_rows: int, num_test: int, seed: int) -> tuple[IntArray, IntArray]:
    order = np.random.default_rng(seed).permutation(num_rows)
    return order[num_test:], order[:num_test]


def _rows_by_group(groups: IntArray, test_groups: Sequence[int]) -> tuple[IntArray, IntArray]:
    held_out = np.isin(groups, list(test_groups))
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _digest(rows: IntArray) -> str:
    """SHA-256 of these indices, the same on every platform."""
    return hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()


@dataclass(frozen=True)
class GroupedData:
    """A data set, the group of each row, and the number of test rows of a random split."""

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
        """Whole groups for testing, by default the last fifth of them."""
        return group_split(self.name, self.groups, test_groups)

    def divide(self, split: Split) -> tuple[Dataset, Dataset]:
        """The training and the test rows of a split."""
        train, test = split.rows(self.groups)
        return self.data.rows(train), self.data.rows(test)

    def split(self, seed: int) -> tuple[Dataset, Dataset]:
        """Random rows for training and testing; neighbours in time fall on both sides, see `split_by_trajectory`."""
        return self.divide(self.random_split(seed))

    def split_by_trajectory(self, test: tuple[int, ...] | None = None) -> tuple[Dataset, Dataset]:
        """Whole groups for training and testing: this tests generalisation."""
        return self.divide(self.group_split(test))


def group_numbers(groups: Any, num_rows: int) -> Int[IntArray, "N"]:
    """Labels of any type, one per row, as numbers in order of first appearance.

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
