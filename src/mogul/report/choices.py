"""A choice between kinds of noise in a line of text."""

from collections.abc import Mapping
from typing import Any


def choice_line(choice: Mapping[str, Any]) -> str:
    """What was chosen, and by which scores.

    >>> tried = [{"noise": "constant", "ll": 1.0}, {"noise": "gp", "ll": None}]
    >>> choice_line({"chosen": "constant", "num_held_out": 20, "candidates": tried})
    'constant, by LL per row on 20 held out: constant 1.00, gp none'
    """
    scores = [
        f"{candidate['noise']} {'none' if candidate['ll'] is None else format(candidate['ll'], '.2f')}"
        for candidate in choice["candidates"]
    ]
    return f"{choice['chosen']}, by LL per row on {choice['num_held_out']:,} held out: {', '.join(scores)}"
