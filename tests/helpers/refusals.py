"""Errors that say the rule, the value found and the remedy, in this order; and small things to provoke them with."""

from collections.abc import Callable

import numpy as np
import pytest

from mogul.errors import MogulError
from mogul.prediction import Prediction

NAN, INF = float("nan"), float("inf")
X, Y = np.arange(6.0).reshape(3, 2), np.arange(3.0).reshape(3, 1)


def prediction(num_draws: int = 4) -> Prediction:
    """Of three rows and two outputs."""
    ones = np.ones((num_draws, 3, 2))
    return Prediction(ones[0], ones[0], ones, ones)


def check_refusal(call: Callable[[], object], error: type[MogulError], rule: str, found: str, remedy: str) -> None:
    """The call ends in exactly this error, and its message has the three parts."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    message = str(caught.value)
    places = [message.find(part) for part in (rule, found, remedy)]
    assert -1 not in places, message
    assert places == sorted(places), message
    assert "\n" not in message
