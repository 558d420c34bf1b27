"""Malformed inputs of the command line: options that cannot be meant, and files broken in many ways.

Each kind of breakage is a function of a random generator and a folder: it writes what it needs and says what to type
and what the error must name, in this order: the rule, the value found, the remedy.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

NAMES = ["a", "b", "u", "v"]
FIT = ["--targets", "u,v", "--epochs", "1", "--out", "out.mogul"]


class Case(NamedTuple):
    """What to type, and what the error must say."""

    arguments: list[str]
    rule: str
    found: str
    remedy: str


Kind = Callable[[np.random.Generator, Path], Case]
KINDS: dict[str, Kind] = {}


def kind(function: Kind) -> Kind:
    """Put a function among the kinds."""
    KINDS[function.__name__] = function
    return function


def good(rng: np.random.Generator, num_rows: int = 12) -> pd.DataFrame:
    """Inputs a, b and outputs u, v."""
    return pd.DataFrame(rng.standard_normal((num_rows, 4)).round(3), columns=NAMES)


def fit(*arguments: str) -> list[str]:
    """The command that learns them."""
    return ["fit", *arguments, *FIT]


def pick(rng: np.random.Generator, *choices: str) -> str:
    """One of them."""
    return choices[rng.integers(len(choices))]
