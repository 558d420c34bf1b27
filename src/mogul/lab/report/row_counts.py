"""How many rows were trained and tested on, which every table must tell: a set may be had in several sizes."""

from collections.abc import Collection, Iterable


def describe_rows(counts: Iterable[tuple[int, int]]) -> str:
    """The rows that jobs were trained and tested on, in words; from the fewest to the most where jobs differ.

    >>> describe_rows([(15068, 5000), (15068, 5000)])
    '15,068 training and 5,000 test rows'
    >>> describe_rows([(250, 2000), (4000, 2000)])
    '250 to 4,000 training and 2,000 test rows'
    """
    train, test = zip(*counts, strict=True)
    return f"{_range(train)} training and {_range(test)} test rows"


def _range(counts: Collection[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
