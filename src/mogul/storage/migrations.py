"""What headers of old model files lack, filled in, and what they no longer need, left out: today's are what is read."""

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


def settings_of_today(part: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a part as it is now; rows were once held out in stretches, which say nothing of a trained model.

    >>> settings_of_today("Stopping", {"patience": 4, "num_stretches": 5})
    {'patience': 4}
    """
    gone = {"num_stretches"} if part == "Stopping" else set()
    return {name: value for name, value in settings.items() if name not in gone}
