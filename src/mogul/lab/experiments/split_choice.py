"""Which splits were asked for, in words that can be typed."""

from dataclasses import dataclass

from mogul.data.splits import GroupedData, Split
from mogul.errors import ConfigError

RANDOM, TRAJECTORY = "random", "trajectory"
BY_TRAJECTORY = "by trajectory"
_REMEDY = "Try --splits 3, or --splits random:3,trajectory:3."


@dataclass(frozen=True)
class ChosenSplit:
    """One split: random rows by the seed, or by trajectory, where the seed is that of training alone."""

    seed: int
    by_trajectory: bool = False

    def of(self, grouped: GroupedData) -> Split:
        """The split of these data."""
        return grouped.group_split() if self.by_trajectory else grouped.random_split(self.seed)

    @property
    def label(self) -> str:
        """What is printed."""
        if not self.by_trajectory:
            return f"{RANDOM} {self.seed}"
        return BY_TRAJECTORY if self.seed == 0 else f"{BY_TRAJECTORY}, seed {self.seed}"

    @property
    def words(self) -> str:
        """What is typed."""
        return f"{f'--splits {TRAJECTORY} ' if self.by_trajectory else ''}--seeds {self.seed}"


@dataclass(frozen=True)
class SplitChoice:
    """Random splits by their seeds, and the split by trajectory with seeds of training.

    Example:
        >>> SplitChoice.parse("random:2,trajectory", None, 10)
        SplitChoice(random=(0, 1), trajectory=(0,))
        >>> SplitChoice.parse(None, "3,7", 10)
        SplitChoice(random=(3, 7), trajectory=())
    """

    random: tuple[int, ...]
    trajectory: tuple[int, ...] = ()

    @staticmethod
    def parse(splits: str | None, seeds: str | None, default: int) -> "SplitChoice":
        """From `--splits` (`3`, `random:3`, `random`, `trajectory`, `trajectory:3`) and `--seeds` (`0,1,2`)."""
        words = [RANDOM] if splits is None else [word.strip() for word in splits.split(",")]
        given = None if seeds is None else whole_numbers("--seeds", seeds)
        chosen: dict[str, tuple[int, ...]] = {}
        for word in words:
            name, count = _name_and_count(word)
            if name in chosen:
                raise ConfigError(f"--splits must name {name} splits once; got {splits!r}. {_REMEDY}")
            if count and given is not None:
                raise ConfigError(
                    f"--seeds must stand beside splits without a number; got --splits {splits}. Drop one of them."
                )
            if count and int(count) < 1:
                raise ConfigError(f"--splits must be at least 1; got {count}. {_REMEDY}")
            number = int(count) if count else default if name == RANDOM else 1
            chosen[name] = tuple(range(number)) if given is None else given
        return SplitChoice(chosen.get(RANDOM, ()), chosen.get(TRAJECTORY, ()))

    @property
    def each(self) -> list[ChosenSplit]:
        """All of them."""
        by_trajectory = [ChosenSplit(seed, by_trajectory=True) for seed in self.trajectory]
        return [ChosenSplit(seed) for seed in self.random] + by_trajectory


def _name_and_count(word: str) -> tuple[str, str]:
    """`random:3` → random and 3; a bare number is one of random splits."""
    if word.isdecimal():
        return RANDOM, word
    name, colon, count = word.partition(":")
    if name not in {RANDOM, TRAJECTORY} or (colon and not count.isdecimal()):
        raise ConfigError(
            f"--splits must be a number, random, trajectory, or one of these with :NUMBER; got {word!r}. {_REMEDY}"
        )
    return name, count


def whole_numbers(option: str, words: str) -> tuple[int, ...]:
    """A list of different whole numbers, 0 or more.

    >>> whole_numbers("--seeds", "0, 2")
    (0, 2)
    """
    parts = [word.strip() for word in words.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise ConfigError(f"{option} must be different whole numbers with commas; got {words!r}. Try {option} 0,1,2.")
    return tuple(int(part) for part in parts)
