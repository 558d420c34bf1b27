"""Splits as they are typed."""

import pytest

from mogul.errors import ConfigError
from mogul.experiments.split_choice import SplitChoice, make_split, whole_numbers
from small_jobs import small_arm


@pytest.mark.parametrize(
    ("splits", "seeds", "expected"),
    [
        (None, None, SplitChoice((0, 1, 2, 3))),
        ("2", None, SplitChoice((0, 1))),
        ("random:2", None, SplitChoice((0, 1))),
        ("random", None, SplitChoice((0, 1, 2, 3))),
        ("trajectory", None, SplitChoice((), by_trajectory=True)),
        ("random:1, trajectory", None, SplitChoice((0,), by_trajectory=True)),
        ("trajectory,3", None, SplitChoice((0, 1, 2), by_trajectory=True)),
        (None, "5", SplitChoice((5,))),
        ("random,trajectory", "7,2", SplitChoice((7, 2), by_trajectory=True)),
    ],
)
def test_words_name_splits(splits: str | None, seeds: str | None, expected: SplitChoice) -> None:
    assert SplitChoice.parse(splits, seeds, 4) == expected


@pytest.mark.parametrize(
    ("splits", "seeds", "message"),
    [
        ("0", None, "must be at least 1; got 0"),
        ("-1", None, "must be a number, random:NUMBER or trajectory; got '-1'"),
        ("random:x", None, "got 'random:x'"),
        ("trajectory:2", None, "got 'trajectory:2'"),
        ("", None, "got ''"),
        ("2,3", None, "must name random splits once"),
        ("3", "0,1", "must stand beside random splits without a number; got --splits 3"),
        ("trajectory", "0", "got --splits trajectory"),
        (None, "a", "--seeds must be different whole numbers"),
        (None, "1,1", "--seeds must be different whole numbers"),
    ],
)
def test_other_words_are_refused(splits: str | None, seeds: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SplitChoice.parse(splits, seeds, 4)


def test_a_split_is_that_of_the_data() -> None:
    grouped = small_arm()
    assert make_split(grouped, 3) == (grouped.random_split(3), "random 3")
    assert make_split(grouped, None) == (grouped.group_split(), "by trajectory")


def test_numbers_may_have_spaces() -> None:
    assert whole_numbers("--points", "4, 8,12") == (4, 8, 12)
