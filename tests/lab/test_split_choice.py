"""Splits as they are typed."""

import pytest
from tests.helpers.small_jobs import small_arm

from mogul.errors import ConfigError
from mogul.lab.experiments.request import ChosenSplit, SplitChoice, whole_numbers


@pytest.mark.parametrize(
    ("splits", "seeds", "expected"),
    [
        (None, None, SplitChoice((0, 1, 2, 3))),
        ("2", None, SplitChoice((0, 1))),
        ("random:2", None, SplitChoice((0, 1))),
        ("random", None, SplitChoice((0, 1, 2, 3))),
        ("trajectory", None, SplitChoice((), (0,))),
        ("random:1, trajectory", None, SplitChoice((0,), (0,))),
        ("trajectory,3", None, SplitChoice((0, 1, 2), (0,))),
        ("trajectory:2,random:1", None, SplitChoice((0,), (0, 1))),
        ("trajectory", "4", SplitChoice((), (4,))),
        (None, "5", SplitChoice((5,))),
        ("random,trajectory", "7,2", SplitChoice((7, 2), (7, 2))),
    ],
)
def test_words_name_splits(splits: str | None, seeds: str | None, expected: SplitChoice) -> None:
    assert SplitChoice.parse(splits, seeds, 4) == expected


@pytest.mark.parametrize(
    ("splits", "seeds", "message"),
    [
        ("0", None, "must be at least 1; got 0"),
        ("-1", None, "must be a number, random, trajectory, or one of these with :NUMBER; got '-1'"),
        ("random:x", None, "got 'random:x'"),
        ("trajectory:", None, "got 'trajectory:'"),
        ("trajectory:0", None, "must be at least 1; got 0"),
        ("trajectory,trajectory:2", None, "must name trajectory splits once"),
        ("", None, "got ''"),
        ("2,3", None, "must name random splits once"),
        ("3", "0,1", "must stand beside splits without a number; got --splits 3"),
        (None, "a", "--seeds must be different whole numbers"),
        (None, "1,1", "--seeds must be different whole numbers"),
    ],
)
def test_other_words_are_refused(splits: str | None, seeds: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SplitChoice.parse(splits, seeds, 4)


def test_a_split_is_that_of_the_data() -> None:
    grouped = small_arm()
    assert ChosenSplit(3).of(grouped) == grouped.random_split(3)
    assert ChosenSplit(3, by_trajectory=True).of(grouped) == grouped.group_split()
    assert [chosen.label for chosen in SplitChoice((3,), (0, 3)).each] == [
        "random 3",
        "by trajectory",
        "by trajectory, seed 3",
    ]


@pytest.mark.parametrize("chosen", SplitChoice((3,), (0, 3)).each)
def test_what_is_typed_for_one_split_names_it(chosen: ChosenSplit) -> None:
    words = dict(zip(chosen.words.split()[::2], chosen.words.split()[1::2], strict=True))
    assert SplitChoice.parse(words.get("--splits"), words["--seeds"], 4).each == [chosen]


def test_numbers_may_have_spaces() -> None:
    assert whole_numbers("--points", "4, 8,12") == (4, 8, 12)
