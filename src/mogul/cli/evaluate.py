"""`mogul evaluate`: scores of a model file on the rows of a table, for all outputs together and for each."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from mogul.cli.predict import data_of_model, with_rows
from mogul.cli.words import floor_words, noise_words
from mogul.core.check import BAND, OutputScores, OutputSums
from mogul.data import Dataset
from mogul.data.sources.formats import read_table
from mogul.data.sources.reading import Reading
from mogul.data.sources.row_files import RowFiles, names_files
from mogul.errors import ConfigError
from mogul.fitted.files import load
from mogul.fitted.fitted import Fitted
from mogul.metrics import FEW_OUTER, NUM_INNER, Scores, ScoreSums
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
    """Score a model file on the rows of a table, or of several."""
    bar = bar or Bar(0)
    fitted = load(model)
    bar.stage(f"reading {path}")
    sums, of_outputs, num_rows, num_trained = ScoreSums(), OutputSums(), 0, 0
    for number, data in enumerate(_parts(fitted, path, inputs, targets, reading)):
        parts = fitted.predict_parts(data, FEW_OUTER * NUM_INNER, seed + 1_000_003 * number)
        for prediction, y in with_rows(bar, "scoring", num_rows, data.num_rows, parts):
            of_outputs.add(y, prediction.mean, prediction.cdf(y))
            units = fitted.scaling.outputs
            sums.add(prediction.standardised(units), units.apply(y))
        num_rows += data.num_rows
        if fitted.trained_rows is not None:
            num_trained += fitted.trained_rows.count(data.in_order(fitted.input_names, fitted.output_names))
    return Evaluation(
        model=str(model),
        source=str(path),
        num_rows=num_rows,
        scores=sums.scores,
        outputs=list(of_outputs.scores(fitted.output_names)),
        inferred_inputs=fitted.is_latent,
        noise=fitted.noise_name,
        noise_factors=fitted.noise_factors,
        noise_floor=fitted.noise_floor,
        num_trained=None if fitted.trained_rows is None else num_trained,
    )


def _parts(
    fitted: Fitted,
    path: Path,
    inputs: Sequence[str] | None,
    targets: Sequence[str] | None,
    reading: Reading | None,
) -> Iterator[Dataset]:
    """The rows of a table; of several files in parts, which are numbers."""
    if not names_files(path):
        table = read_table(path)
        if reading is not None and reading.long is not None:
            table, _ = reading.wide(table, targets, inputs or fitted.input_columns, None)
        yield data_of_model(fitted, table, inputs, targets)
        return
    if fitted.is_latent or fitted.encoding is not None or (reading is not None and reading.long is not None):
        raise ConfigError("Several files must have a row for each row of numbers; got more. Evaluate one table.")
    columns = inputs or fitted.input_names, targets or fitted.output_names
    for given, known in zip(columns, (fitted.input_names, fitted.output_names), strict=True):
        if len(given) != len(known):
            raise ConfigError(f"Columns must be the model's {len(known)}, in its order; got {len(given)}. Name others.")
    for part in RowFiles.of(path, columns[1], columns[0], prefix="--").parts():
        data = Dataset(part.values[:, : len(columns[0])], part.values[:, len(columns[0]) :], check_outputs=False)
        data.input_names, data.output_names = list(fitted.input_names), list(fitted.output_names)
        yield data


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
