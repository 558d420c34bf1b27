"""Which splits were asked for, in words that can be typed."""

from dataclasses import dataclass

from mogul.data.grouped import GroupedData
from mogul.data.splits import Split
from mogul.errors import ConfigError

RANDOM, TRAJECTORY = "random", "trajectory"
_REMEDY = "Try --splits 3, or --splits random:3,trajectory."


@dataclass(frozen=True)
class SplitChoice:
    """Random splits by their seeds, and whole trajectories for testing or not.

    Example:
        >>> SplitChoice.parse("random:2,trajectory", None, 10)
        SplitChoice(seeds=(0, 1), by_trajectory=True)
        >>> SplitChoice.parse(None, "3,7", 10)
        SplitChoice(seeds=(3, 7), by_trajectory=False)
    """

    seeds: tuple[int, ...]
    by_trajectory: bool = False

    @staticmethod
    def parse(splits: str | None, seeds: str | None, default: int) -> "SplitChoice":
        """From `--splits` (`3`, `random:3`, `random`, `trajectory`, several with commas) and `--seeds` (`0,1,2`)."""
        words = ["random"] if splits is None else [word.strip() for word in splits.split(",")]
        chosen = None if seeds is None else whole_numbers("--seeds", seeds)
        counts, by_trajectory = [], False
        for word in words:
            name, _, count = word.partition(":")
            if word == TRAJECTORY:
                by_trajectory = True
            elif word.isdecimal() or (name == RANDOM and (count.isdecimal() or word == RANDOM)):
                counts.append(word if word.isdecimal() else count)
            else:
                raise ConfigError(f"--splits must be a number, random:NUMBER or trajectory; got {word!r}. {_REMEDY}")
        if len(counts) > 1:
            raise ConfigError(f"--splits must name random splits once; got {splits!r}. {_REMEDY}")
        if chosen is not None and (not counts or counts[0]):
            found = f"--splits {splits}"
            raise ConfigError(
                f"--seeds must stand beside random splits without a number; got {found}. Drop one of them."
            )
        if counts and counts[0] and int(counts[0]) < 1:
            raise ConfigError(f"--splits must be at least 1; got {counts[0]}. {_REMEDY}")
        number = int(counts[0]) if counts and counts[0] else default
        return SplitChoice(chosen if chosen is not None else tuple(range(number)) if counts else (), by_trajectory)


def make_split(grouped: GroupedData, seed: int | None) -> tuple[Split, str]:
    """The split of a seed, or by trajectory for None, and its label."""
    if seed is None:
        return grouped.group_split(), "by trajectory"
    return grouped.random_split(seed), f"random {seed}"


def whole_numbers(option: str, words: str) -> tuple[int, ...]:
    """A list of different whole numbers, 0 or more.

    >>> whole_numbers("--seeds", "0, 2")
    (0, 2)
    """
    parts = [word.strip() for word in words.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise ConfigError(f"{option} must be different whole numbers with commas; got {words!r}. Try {option} 0,1,2.")
    return tuple(int(part) for part in parts)
