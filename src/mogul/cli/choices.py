"""A choice between models and kinds of noise in a line of text."""

from collections.abc import Mapping
from typing import Any


def choice_line(choice: Mapping[str, Any]) -> str:
    """What was chosen, and by which scores; what all candidates have in common goes without saying.

    >>> tried = [{"model": "mogp", "noise": "gp", "ll": 1.0}, {"model": "mogp", "noise": "constant", "ll": None}]
    >>> choice_line({"chosen": tried[0], "num_held_out": 20, "candidates": tried})
    'gp noise, by LL per row on 20 held out: gp 1.00, constant none'
    >>> tried[1] = {"model": "sbgprn", "noise": "gp", "ll": 0.5}
    >>> choice_line({"chosen": tried[0], "num_held_out": 20, "candidates": tried})
    'mogp, by LL per row on 20 held out: mogp 1.00, sbgprn 0.50'
    """
    candidates = choice["candidates"]
    varying = [part for part in ("model", "noise") if len({candidate[part] for candidate in candidates}) > 1]

    def name(candidate: Mapping[str, Any], between: str = " ") -> str:
        return between.join(candidate[part] for part in varying or ["noise"])

    scores = [
        f"{name(candidate)} {'none' if candidate['ll'] is None else format(candidate['ll'], '.2f')}"
        for candidate in candidates
    ]
    kind = "" if varying == ["model"] else " noise"
    kept = name(choice["chosen"], between=" with ")
    return f"{kept}{kind}, by LL per row on {choice['num_held_out']:,} held out: {', '.join(scores)}"
