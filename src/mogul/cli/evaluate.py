"""`mogul evaluate`: scores of a model file on the rows of a table, for all outputs together and for each."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from mogul._typing import Array
from mogul.cli.predict import data_of_model, with_rows
from mogul.cli.words import floor_words, noise_words
from mogul.comparison.crossval import row_scores
from mogul.core.check import BAND, OutputScores, output_scores
from mogul.data.sources.formats import read_table
from mogul.data.sources.reading import Reading
from mogul.fitted.files import load
from mogul.metrics import FEW_OUTER, NUM_INNER, Part, Scores
from mogul.terminal import Bar


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a table: of all outputs in standardised units, of each in original units.

    `noise_floor` is the least standard deviation of the noise, as a share of an output's scale. `noise_factors` is the
    number of factors of correlated noise: 0 without correlation. `num_trained` is the number of rows that the model was
    trained on, where the file tells: an estimate for more than 1,000 rows of training.
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
    num_trained: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def evaluate_file(
    model: Path,
    path: Path,
    inputs: Sequence[str] | None,
    targets: Sequence[str] | None,
    seed: int = 0,
    reading: Reading | None = None,
    bar: Bar | None = None,
) -> Evaluation:
    """Score a model file on the rows of a table."""
    bar = bar or Bar(0)
    fitted = load(model)
    bar.stage(f"reading {path}")
    table = read_table(path)
    if reading is not None and reading.long is not None:
        table, _ = reading.wide(table, targets, inputs or fitted.input_columns, None)
    data = data_of_model(fitted, table, inputs, targets)
    means: list[Array] = []
    pits: list[Array] = []

    def noted() -> Iterator[Part]:
        parts = fitted.predict_parts(data, FEW_OUTER * NUM_INNER, seed)
        for prediction, y in with_rows(bar, "scoring", data.num_rows, parts):
            means.append(prediction.mean)
            pits.append(prediction.cdf(y))
            yield prediction, y

    ordered = data.in_order(fitted.input_names, fitted.output_names)
    scores = row_scores(noted(), fitted.scaling.outputs).scores
    columns = zip(data.output_names, data.y.T, np.concatenate(means).T, np.concatenate(pits).T, strict=True)
    return Evaluation(
        model=str(model),
        source=str(path),
        num_rows=data.num_rows,
        scores=scores,
        outputs=[output_scores(*column) for column in columns],
        inferred_inputs=fitted.is_latent,
        noise=fitted.noise_name,
        noise_factors=fitted.noise_factors,
        noise_floor=fitted.noise_floor,
        num_trained=None if fitted.trained_rows is None else fitted.trained_rows.count(ordered),
    )


def evaluation_tables(evaluation: Evaluation) -> list[Any]:
    """All outputs together, then each."""
    scores = evaluation.scores
    together = Table(
        title=f"{evaluation.model} on {evaluation.num_rows:,} rows of {evaluation.source}",
        caption="In units of each output's standard deviation in training: MRMSE 1 is what its mean scores. "
        f"Noise: {noise_words(evaluation.noise, evaluation.noise_factors)}, {floor_words(evaluation.noise_floor)}.",
    )
    levels = [f"in {level:.0%} band" for level in scores.coverage]
    for heading in ("LL per row", "MRMSE", "CRPS", *levels):
        together.add_column(heading, justify="right")
    shares = [f"{share:.0%}" for share in scores.coverage.values()]
    together.add_row(f"{scores.ll:.2f}", f"{scores.mrmse:.3f}", f"{scores.crps:.4f}", *shares)
    note = ["Latent inputs were inferred from the outputs that are scored here."] if evaluation.inferred_inputs else []
    return [together, _output_table(evaluation), *note, *_trained_words(evaluation)]


def _trained_words(evaluation: Evaluation) -> list[str]:
    if not evaluation.num_trained:
        return []
    share = min(1.0, evaluation.num_trained / evaluation.num_rows)
    which = "All of these rows" if share > 0.995 else f"About {max(share, 0.01):.0%} of these rows"
    shown = f"mogul show {evaluation.model}" if evaluation.model else "mogul show"
    return [f"{which} were trained on, which flatters these scores. Those of rows that were not: {shown}"]


def _output_table(evaluation: Evaluation) -> Table:
    table = Table(title="Each output, in its own units")
    table.add_column("output")
    for heading in ("known", "RMSE", "R²", f"in {BAND:.0%} band"):
        table.add_column(heading, justify="right")
    for each in evaluation.outputs:
        table.add_row(
            Text(each.name),
            f"{each.num_known:,}",
            "" if each.rmse is None else f"{each.rmse:.4g}",
            "" if each.r2 is None else f"{each.r2:.3f}",
            "" if each.in_band is None else f"{each.in_band:.0%}",
        )
    return table
