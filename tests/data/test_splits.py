"""Splits: every row on one side, the same for a seed, whole groups, and stored so that they can be done again."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mogul.data import Dataset
from mogul.data.splits import GroupedData, Split, group_split, random_split
from mogul.errors import ConfigError, DataError

GROUPS = np.repeat(np.arange(1, 11), 6)


@pytest.fixture
def grouped() -> GroupedData:
    """Sixty rows whose numbers tell which row they are, in ten groups."""
    x = np.arange(60.0)[:, None]
    return GroupedData("demo", Dataset(x, 2 * x), GROUPS, num_test=15)


def test_a_random_split_puts_every_row_on_one_side() -> None:
    split = random_split("demo", num_rows=60, num_test=15, seed=3)
    train, test = split.rows(GROUPS)
    assert (split.num_train, split.num_test) == (len(train), len(test)) == (45, 15)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(60))


def test_each_seed_has_another_split(grouped: GroupedData) -> None:
    splits = [grouped.random_split(seed) for seed in range(10)]
    assert [split.seed for split in splits] == list(range(10))
    assert len({split.digest for split in splits}) == 10


def test_a_group_is_never_on_both_sides(grouped: GroupedData) -> None:
    split = grouped.group_split()
    train, test = split.rows(GROUPS)
    assert split.test_groups == (9, 10)
    assert set(GROUPS[train]) | set(GROUPS[test]) == set(range(1, 11))
    assert not set(GROUPS[train]) & set(GROUPS[test])


def test_groups_can_be_named(grouped: GroupedData) -> None:
    train, test = grouped.divide(grouped.group_split([1, 4]))
    assert train.num_rows == 48
    np.testing.assert_array_equal(test.x[:, 0], [*range(6), *range(18, 24)])
    np.testing.assert_array_equal(test.y, 2 * test.x)


@pytest.mark.parametrize("kind", ["random", "groups"])
def test_a_stored_split_gives_the_same_rows_again(grouped: GroupedData, kind: str) -> None:
    split = grouped.random_split(seed=2) if kind == "random" else grouped.group_split()
    again = Split.from_json(json.loads(json.dumps(split.to_json())))
    assert again == split
    for side, same in zip(grouped.divide(split), grouped.divide(again), strict=True):
        np.testing.assert_array_equal(side.x, same.x)


def test_a_stored_split_of_other_rows_is_refused(grouped: GroupedData) -> None:
    split = grouped.random_split(seed=0)
    with pytest.raises(DataError, match=r"needs the rows it was made for, 45 \+ 15 of demo; .* 39 \+ 15"):
        split.rows(GROUPS[:54])
    with pytest.raises(DataError, match="needs the rows it was made for"):
        replace(split, seed=1).rows(GROUPS)


@pytest.mark.parametrize("content", [{}, {"kind": "random", "test_groups": []}, {"test_groups": [], "colour": 1}])
def test_what_is_no_split_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(DataError, match="must have the fields of Split"):
        Split.from_json(content)


@pytest.mark.parametrize("num_test", [0, 60, 61])
def test_a_split_must_leave_rows_on_both_sides(num_test: int) -> None:
    with pytest.raises(ConfigError, match=f"rows on both sides; got {num_test} of 60 rows"):
        random_split("demo", 60, num_test, seed=0)


def test_one_group_cannot_be_split_by_group() -> None:
    with pytest.raises(DataError, match=r"at least two groups; demo has 1\. Split at random"):
        group_split("demo", np.ones(5, dtype=np.int64))


@pytest.mark.parametrize(("test_groups", "found"), [([11], "11 is not one"), (range(1, 11), "got 10"), ([], "got 0")])
def test_some_and_not_all_groups_are_for_testing(test_groups: list[int], found: str) -> None:
    with pytest.raises(ConfigError, match=f"groups 1 … 10 of demo; {found}"):
        group_split("demo", GROUPS, list(test_groups))
