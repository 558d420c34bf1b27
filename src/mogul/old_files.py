"""What headers of old model files lack, filled in: whoever reads a header sees today's."""

from typing import Any


def choice_of_today(choice: dict[str, Any] | None, model: str) -> dict[str, Any] | None:
    """A choice as headers have it; those of old were between noises of one model, and named the chosen noise alone.

    >>> old = {"chosen": "gp", "candidates": [{"noise": "gp", "ll": 1.0}], "num_held_out": 9}
    >>> choice_of_today(old, "mogp")["chosen"]
    {'model': 'mogp', 'noise': 'gp', 'll': 1.0}
    """
    if choice is None or not isinstance(choice["chosen"], str):
        return choice
    candidates = [{"model": model} | candidate for candidate in choice["candidates"]]
    (chosen,) = (candidate for candidate in candidates if candidate["noise"] == choice["chosen"])
    return choice | {"chosen": chosen, "candidates": candidates}
