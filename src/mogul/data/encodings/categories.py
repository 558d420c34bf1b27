"""Text and categories as inputs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array
from mogul.data.encodings.column import ColumnEncoding, Plain
from mogul.errors import DataError, warn

ONE_HOT_LEVELS = 10
# Of random codes: distances between levels then differ by a quarter from each other.
_CODE_LENGTH = 8
_CANDIDATES, _FARTHER = 1000, 1.5  # drawn for an unseen level, and how much farther out it is
_MISSING = ""  # the level of gaps, if training rows have any; a text cannot be it
_SHOWN = 3


@dataclass(frozen=True)
class Categories(ColumnEncoding):
    """A point for each level; no order among levels, and no use of outputs.

    Up to ten levels have a column each, 1 for the level and 0 elsewhere. More levels have random points on the unit
    sphere in a few dimensions: nearly equidistant, so that a kernel treats all levels alike, with a number of
    lengthscales that does not grow with that of levels.

    An unseen level is one more such point. With a column each, it is the further corner of the regular simplex whose
    corners are the K levels, −(√(K + 1) − 1)/K in every column: as far from each level as levels are from each other,
    so that a GP is as uncertain about it as about a level without rows. (Zeros, which many encoders give, are nearer to
    each level than levels are to each other, and the answer is most certain where nothing is known.) Among random
    points it is one far from all levels.

    Args:
        name: of the column.
        levels: those of training rows; "" stands for gaps, if there were any.
        codes: a point for each level and one for an unseen level, or None for a column each.

    Example:
        >>> sites = Categories.of(pd.Series(["north", "south", "north"], name="site"), "a table")
        >>> sites.features
        ['site=north', 'site=south']
        >>> sites.apply(pd.Series(["south", "north"], name="site"), "a table")
        array([[0., 1.],
               [1., 0.]])
    """

    name: str
    levels: tuple[str, ...]
    codes: tuple[tuple[float, ...], ...] | None = None

    @staticmethod
    def of(column: "pd.Series[Any]", source: str) -> "Categories":
        """Fitted to training rows."""
        levels = tuple(sorted(set(as_levels(column, source))))
        return Categories(str(column.name), levels, _codes(len(levels)) if len(levels) > ONE_HOT_LEVELS else None)

    @property
    def features(self) -> list[str]:
        """A name for each level, or numbered ones."""
        if self.codes is None:
            return [f"{self.name}={level or '(missing)'}" for level in self.levels]
        return [f"{self.name} (code {place + 1})" for place in range(len(self.codes[0]))]

    @property
    def words(self) -> str:
        """What becomes of the column, for a person."""
        return f"{len(self.levels)} level{'s' if len(self.levels) > 1 else ''}"

    def apply(self, column: "pd.Series[Any]", source: str) -> Float[Array, "N K"]:
        """The points of the levels; a warning names unseen levels."""
        known = {level: place for place, level in enumerate(self.levels)}
        found = as_levels(column, source)
        places = np.array([known.get(level, len(self.levels)) for level in found], dtype=np.int64)
        if (places == len(self.levels)).any():
            unseen = dict.fromkeys(level for level in found if level not in known)
            rows = int((places == len(self.levels)).sum())
            shown = ", ".join(repr(level) if level else "a gap" for level in list(unseen)[:_SHOWN])
            more = f" and {len(unseen) - _SHOWN} more" if len(unseen) > _SHOWN else ""
            warn(
                f"Levels of {self.name!r} should be those of training; {shown}{more} in {rows:,} rows of {source} "
                f"{'are' if len(unseen) > 1 else 'is'} not. Predicted as a new level, with a wider spread."
            )
        return self._points()[places]

    def quantiles(
        self, ranks: Float[Array, "N"], mean: Float[Array, "K"], scale: Float[Array, "K"]
    ) -> Float[Array, "N K"]:
        """Levels as often as in training, or, of more than ten levels, each as often as the others."""
        shares = mean if self.codes is None else np.full(len(self.levels), 1 / len(self.levels))
        places = np.searchsorted(np.cumsum(shares), ranks * shares.sum(), side="right")
        values: Array = self._points()[np.minimum(places, len(self.levels) - 1)]
        return values

    def _points(self) -> Float[Array, "K1 K"]:
        """The points of all levels, and that of an unseen one."""
        if self.codes is not None:
            return np.array(self.codes)
        count = len(self.levels)
        return np.vstack([np.eye(count), np.full(count, (1 - np.sqrt(count + 1)) / count)])

    def plain(self) -> Plain:
        """As JSON."""
        codes = None if self.codes is None else [list(code) for code in self.codes]
        return {"kind": "categories", "name": self.name, "levels": list(self.levels), "codes": codes}


def as_levels(column: "pd.Series[Any]", source: str) -> list[str]:
    """Values as text; whole numbers without decimals, so that 2 and 2.0 are one level, and gaps as "".

    >>> as_levels(pd.Series([1.0, None, " red "]), "a table")
    ['1', '', 'red']
    """
    missing = column.isna()
    return [
        _MISSING if gap else as_level(value, column.name, source) for value, gap in zip(column, missing, strict=True)
    ]


def as_level(value: Any, name: Any, source: str) -> str:
    """A value as text; lists and bytes are refused."""
    if isinstance(value, list | dict | set | tuple | np.ndarray | bytes):
        raise DataError(
            f"Inputs must be numbers, text or dates; {name!r} of {source} holds a {type(value).__name__}. "
            "Give each part a column, or leave it out."
        )
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value).strip()


def _codes(num_levels: int) -> tuple[tuple[float, ...], ...]:
    """Random points on the unit sphere, the same for the same number of levels, and one more that is far from all."""
    points = np.random.default_rng(num_levels).standard_normal((num_levels + _CANDIDATES, _CODE_LENGTH))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    levels, others = points[:num_levels], points[num_levels:]
    farthest = _FARTHER * others[(others @ levels.T).max(axis=1).argmin()]
    return tuple(tuple(point) for point in np.vstack([levels, farthest]).round(6).tolist())
