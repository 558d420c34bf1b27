"""One pass over the predictions of a test set: the scores, and what figures are drawn from."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mogul._typing import Array, IntArray
from mogul.metrics import LEVELS, Part, coverage, score
from mogul.prediction import Prediction

NUM_BINS = 20
CALIBRATION_LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))
MAX_ROWS = 150
DIGITS = 6


@dataclass(frozen=True)
class Measured:
    """Scores and the raw matter of figures, as plain values."""

    metrics: dict[str, float]
    per_output: dict[str, list[Any]]
    calibration: dict[str, list[Any]]
    predictions: dict[str, list[Any]]


class _Seen:
    """What is kept of each part while it passes by: the draws of a whole test set would not fit into memory."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Array]] = []

    def passing(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The same parts, looked at."""
        for prediction, y in parts:
            self._parts.append(
                {
                    "true": y,
                    "mean": prediction.mean,
                    "std": prediction.std,
                    "pit": prediction.cdf(y),
                    "ll": output_log_densities(prediction, y),
                }
            )
            # Tables hold the nested estimator: nothing else is computed here.
            yield replace(prediction, density=None), y

    def __getitem__(self, name: str) -> Float[Array, "N P"]:
        return np.concatenate([part[name] for part in self._parts])


def measure(parts: Iterable[Part], output_names: Sequence[str]) -> Measured:
    """All that is reported of predictions that come in parts: as "ll" the paper's nested estimator, `ll_nested`."""
    seen = _Seen()
    scores = score(seen.passing(parts), nested=True)
    assert scores.ll_nested is not None
    pit = seen["pit"]
    known = pit[~np.isnan(pit)]
    rmse = np.sqrt(np.nanmean(np.square(seen["true"] - seen["mean"]), axis=0))
    rows = evenly_spaced(len(pit), MAX_ROWS)
    return Measured(
        metrics={"ll": scores.ll_nested, "mrmse": scores.mrmse, "crps": scores.crps}
        | {f"coverage_{round(100 * level)}": scores.coverage[level] for level in LEVELS},
        per_output={
            "names": list(output_names),
            "rmse": rounded(rmse),
            "ll": rounded(np.nanmean(seen["ll"], axis=0)),
        },
        calibration={
            "pit_counts": np.histogram(known, bins=NUM_BINS, range=(0.0, 1.0))[0].tolist(),
            "levels": list(CALIBRATION_LEVELS),
            "covered": rounded(np.array([coverage(pit, level) for level in CALIBRATION_LEVELS])),
        },
        predictions={name: rounded(seen[name][rows]) for name in ("true", "mean", "std")},
    )


def output_log_densities(prediction: Prediction, y: Float[Array, "N P"]) -> Float[Array, "N P"]:
    """log p(y_k) of each output alone, by all draws of the mixture; NaN where it is missing."""
    columns = range(y.shape[1])
    each = [prediction.outputs(slice(k, k + 1)).mixture_log_density(y[:, k : k + 1]) for k in columns]
    return np.where(np.isnan(y), np.nan, np.stack(each, axis=1))


def rounded(values: Float[Array, "*S"]) -> list[Any]:
    """To a few significant digits, as nested lists; None where there is no number.

    >>> rounded(np.array([[0.12345678, np.nan]]))
    [[0.123457, None]]
    """
    if values.ndim > 1:
        return [rounded(row) for row in values]
    return [None if np.isnan(value) else float(f"{value:.{DIGITS}g}") for value in values.tolist()]


def evenly_spaced(num_rows: int, most: int) -> Int[IntArray, "K"]:
    """At most so many places, from the first row to the last."""
    return np.linspace(0, num_rows - 1, min(num_rows, most)).round().astype(int)
