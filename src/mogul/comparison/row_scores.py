"""Scores of a test set row by row, so that models can be compared on the same rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float

from mogul._typing import Array
from mogul.data import Dataset, Standardiser
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.metrics import FEW_OUTER, NUM_INNER, Part, Scores, score_rows

# How many numbers the draws of a part may hold: some 160 MB in float64.
_NUMBERS_AT_ONCE = 20_000_000


@dataclass(frozen=True)
class RowScores:
    """Scores of a test set, and the log density of each of its rows: NaN for rows without any known output."""

    scores: Scores
    log_density: Float[Array, "N"]


def predicted_parts(
    fitted: Fitted, data: Dataset, num_samples: int = FEW_OUTER * NUM_INNER, seed: int = 0
) -> Iterator[Part]:
    """Predictions beside the truth, in original units, for as many rows at a time as memory holds the draws of.

    A model with latent inputs infers them from the outputs that are there.
    """
    step = max(1, _NUMBERS_AT_ONCE // (fitted.num_members * num_samples * data.num_outputs))
    for number, first in enumerate(range(0, data.num_rows, step)):
        rows = slice(first, first + step)
        known: Any = data.y[rows] if isinstance(fitted, FittedLatent) else data.x[rows]
        predict = fitted.reconstruct if isinstance(fitted, FittedLatent) else fitted.predict
        yield predict(known, num_samples, seed + number), data.y[rows]


def row_scores(parts: Iterable[Part], units: Standardiser) -> RowScores:
    """All scores in standardised units."""
    return RowScores(*score_rows((prediction.standardised(units), units.apply(y)) for prediction, y in parts))
