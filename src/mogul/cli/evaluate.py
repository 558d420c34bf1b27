"""`mogul evaluate`: how well a model file predicts the rows of a table, all outputs together and each."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mogul._typing import Array
from mogul.cli.columns import data_of_model
from mogul.comparison.crossval import row_scores
from mogul.data.sources.formats import read_table
from mogul.fitted.files import load
from mogul.metrics import FEW_OUTER, NUM_INNER, Part, Scores, coverage

BAND = 0.95


@dataclass(frozen=True)
class OutputScores:
    """One output in its own units; None where too few values are known to say."""

    name: str
    num_known: int
    rmse: float | None
    r2: float | None
    in_band: float | None


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a table: of all outputs in standardised units, of each in its own.

    `noise_floor` is the least standard deviation that the model's noise may have, as a share of an output's scale.
    `noise_factors` counts what outputs share in their noise: 0 where it is not correlated.
    """

    model: str
    source: str
    num_rows: int
    scores: Scores
    outputs: list[OutputScores]
    inferred_inputs: bool
    noise: str
    noise_factors: int
    noise_floor: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def evaluate_file(
    model: Path, path: Path, inputs: Sequence[str] | None, targets: Sequence[str] | None, seed: int = 0
) -> Evaluation:
    """Score a model file on the rows of a table."""
    fitted = load(model)
    data = data_of_model(fitted, read_table(path), inputs, targets)
    means: list[Array] = []
    pits: list[Array] = []

    def noted() -> Iterator[Part]:
        for prediction, y in fitted.predict_parts(data, FEW_OUTER * NUM_INNER, seed):
            means.append(prediction.mean)
            pits.append(prediction.cdf(y))
            yield prediction, y

    scores = row_scores(noted(), fitted.scaling.outputs).scores
    columns = zip(data.output_names, data.y.T, np.concatenate(means).T, np.concatenate(pits).T, strict=True)
    return Evaluation(
        model=str(model),
        source=str(path),
        num_rows=data.num_rows,
        scores=scores,
        outputs=[_output_scores(*column) for column in columns],
        inferred_inputs=fitted.is_latent,
        noise=fitted.noise_name,
        noise_factors=fitted.noise_factors,
        noise_floor=fitted.noise_floor,
    )


def _output_scores(name: str, y: Array, mean: Array, pit: Array) -> OutputScores:
    known = ~np.isnan(y)
    if not known.any():
        return OutputScores(name, 0, None, None, None)
    squares = np.square(y - mean)[known]
    total = np.square(y[known] - y[known].mean()).sum()
    return OutputScores(
        name,
        num_known=int(known.sum()),
        rmse=float(np.sqrt(squares.mean())),
        r2=float(1 - squares.sum() / total) if total > 0 else None,
        in_band=coverage(pit[known][:, None], BAND),
    )
