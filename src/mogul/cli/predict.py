"""`mogul predict`: predictions of a model file for the rows of a table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array
from mogul.data import Dataset
from mogul.data.encodings.encoding import gaps_for
from mogul.data.sources.formats import read_table
from mogul.data.sources.reading import ON_COMMAND_LINE, finite_inputs, outputs_or_nan
from mogul.data.sources.table import Table, require_no_infinity
from mogul.errors import ConfigError, DataError, ShapeError, unknown_name
from mogul.fitted.files import load
from mogul.fitted.fitted import Fitted
from mogul.metrics import Part
from mogul.storage.atomic import write_whole
from mogul.terminal import Bar

NUM_SAMPLES = 250


@dataclass(frozen=True)
class Predictions:
    """Mean, standard deviation and quantiles of every output at every row, in original units.

    `interval` has the ends of intervals with this `coverage`, if requested. `kept` are columns of the table to repeat.
    """

    output_names: list[str]
    levels: list[float]
    mean: Float[Array, "N P"]
    std: Float[Array, "N P"]
    quantiles: Float[Array, "Q N P"]
    coverage: float | None = None
    interval: tuple[Float[Array, "N P"], Float[Array, "N P"]] | None = None
    kept: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def num_rows(self) -> int:
        """The number N of rows."""
        return len(self.mean)

    def frame(self) -> pd.DataFrame:
        """For each output `a` the columns a, a_std, for a level of 0.1 a_q0.1, for intervals a_low and a_high."""
        columns: list[tuple[str, Any]] = [(str(name), column) for name, column in self.kept.items()]
        for place, name in enumerate(self.output_names):
            columns += [(name, self.mean[:, place]), (f"{name}_std", self.std[:, place])]
            columns += [
                (f"{name}_q{level:g}", values[:, place])
                for level, values in zip(self.levels, self.quantiles, strict=True)
            ]
            columns += [(f"{name}_{end}", values[:, place]) for end, values in self._ends()]
        twice = [name for name, count in Counter(name for name, _ in columns).items() if count > 1]
        if twice:
            raise DataError(
                f"Columns of predictions must have different names; {twice[0]!r} is used twice. "
                "Leave it out of --keep. Use --json without --out, which keeps them apart."
            )
        return pd.DataFrame(dict(columns))

    def to_json(self) -> dict[str, Any]:
        """Lists by output and part; kept columns by their names."""
        kept = {str(name): [str(value) for value in column] for name, column in self.kept.items()}
        return {
            **({"kept": kept} if kept else {}),
            **self._outputs_to_json(),
        }

    def rounded(self, decimals: int) -> "Predictions":
        """All numbers to so many decimals."""
        ends = None if self.interval is None else (self.interval[0].round(decimals), self.interval[1].round(decimals))
        parts = {name: getattr(self, name).round(decimals) for name in ("mean", "std", "quantiles")}
        return replace(self, **parts, interval=ends)

    def _outputs_to_json(self) -> dict[str, Any]:
        return {
            name: {
                "mean": self.mean[:, place].tolist(),
                "std": self.std[:, place].tolist(),
                "quantiles": {
                    f"{level:g}": values[:, place].tolist()
                    for level, values in zip(self.levels, self.quantiles, strict=True)
                },
                **{end: values[:, place].tolist() for end, values in self._ends()},
            }
            for place, name in enumerate(self.output_names)
        }

    def _ends(self) -> list[tuple[str, Float[Array, "N P"]]]:
        return [] if self.interval is None else list(zip(("low", "high"), self.interval, strict=True))


def predict_file(
    model: Path,
    path: Path,
    inputs: Sequence[str] | None,
    levels: Sequence[float],
    seed: int = 0,
    coverage: float | None = None,
    given: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    bar: Bar | None = None,
) -> Predictions:
    """Predict every row of a table by a model file, given the outputs in some of its columns; keep other columns."""
    bar = bar or Bar(0)
    fitted = load(model)
    if coverage is not None:
        fitted.require_calibration().multiplier(coverage)  # or an error before any work
    bar.stage(f"reading {path}")
    table = read_table(path)
    kept = table.frame(keep, "--keep") if keep else pd.DataFrame()
    data = _rows_to_predict(fitted, table, inputs, given)
    means, stds, quantiles = [], [], []
    parts = with_rows(bar, "predicting", 0, data.num_rows, fitted.predict_parts(data, NUM_SAMPLES, seed))
    for plain, known in parts:
        prediction = plain if given is None else plain.given(known, seed)
        means.append(prediction.mean)
        stds.append(prediction.std)
        quantiles.append(prediction.quantiles(levels) if levels else np.empty((0, *prediction.mean.shape)))
    return Predictions(
        fitted.output_names,
        list(levels),
        np.concatenate(means),
        np.concatenate(stds),
        np.concatenate(quantiles, axis=1),
        coverage,
        None if coverage is None else fitted.interval(data.x, coverage),
        kept,
    )


def with_rows(bar: Bar, label: str, before: int, num_rows: int, parts: Iterable[Part]) -> Iterator[Part]:
    """The parts as they come, with the number of rows done on a bar, after those of earlier parts."""
    done = before
    bar.stage(f"{label}: {done:,} rows" if before else label)
    for prediction, y in parts:
        yield prediction, y
        done += len(y)
        bar.stage(f"{label}: {done:,} of {before + num_rows:,} rows")


def write_predictions(predictions: Predictions, out: Path) -> None:
    """Write a CSV file atomically; its folder is created."""
    frame = predictions.frame()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, lambda partial: frame.to_csv(partial, index=False))


def _rows_to_predict(
    fitted: Fitted, table: Table, inputs: Sequence[str] | None, given: Sequence[str] | None
) -> Dataset:
    """Inputs with outputs unknown but for those of --given; for latent inputs, the outputs that are there."""
    table = _with_gaps_of_model(fitted, table)
    if fitted.is_latent:
        if given is not None:
            raise ConfigError(
                f"--given must be left out for a model with latent inputs; got {', '.join(given)}. "
                "It uses all columns of outputs that are there, and fills in empty cells."
            )
        if inputs is not None:
            raise ConfigError(
                f"--inputs must be left out for a model with latent inputs; got {', '.join(inputs)}. "
                "Give the outputs that are known as columns: the others are filled in."
            )
        return data_of_model(fitted, table, None)
    x = inputs_of_model(fitted, table, inputs)
    known = np.full((len(x), len(fitted.output_names)), np.nan)
    for name in given or []:
        if name not in fitted.output_names:
            raise unknown_name("--given", name, fitted.output_names)
        column = table.numbers([name], "--given")
        require_no_infinity(column, table.source)
        known[:, fitted.output_names.index(name)] = column.to_numpy()[:, 0]
    return Dataset(x, known, check_outputs=False)


def data_of_model(
    fitted: Fitted, table: Table, inputs: Sequence[str] | None, targets: Sequence[str] | None = None
) -> Dataset:
    """Inputs and outputs of a model, by its column names or by given names in its order."""
    table = _with_gaps_of_model(fitted, table)
    outputs = _in_models_order(table, fitted.output_names, targets, "--targets")
    if fitted.is_latent:
        return Dataset(None, outputs_or_nan(table, outputs, ON_COMMAND_LINE), check_outputs=False)
    names = _in_models_order(table, fitted.input_columns, inputs, "--inputs")
    table.frame([*dict.fromkeys([*outputs, *names])])  # checks that lengths are equal
    x = inputs_of_model(fitted, table, inputs)
    data = Dataset(x, outputs_or_nan(table, outputs, ON_COMMAND_LINE), check_outputs=False)
    data.output_names = fitted.output_names
    return data


def inputs_of_model(fitted: Fitted, table: Table, inputs: Sequence[str] | None) -> pd.DataFrame:
    """Only the inputs, for predictions."""
    names = _in_models_order(table, fitted.input_columns, inputs, "--inputs")
    if fitted.encoding is None:
        return finite_inputs(table, names, ON_COMMAND_LINE).set_axis(fitted.input_names, axis=1)
    frame = table.frame(names, "--inputs").set_axis(fitted.input_columns, axis=1)
    return pd.DataFrame(fitted.encoding.apply(frame, table.source), columns=fitted.input_names)


def _with_gaps_of_model(fitted: Fitted, table: Table) -> Table:
    """Gaps where numbers or words stood for one in training; new tables may have too few of them to be found."""
    missing = {} if fitted.encoding is None else fitted.encoding.missing
    gaps = {
        name: gaps_for(pd.Series(table.columns[name]), own) for name, own in missing.items() if name in table.columns
    }
    return replace(table, columns={**table.columns, **gaps})


def _in_models_order(table: Table, known: Sequence[str], given: Sequence[str] | None, option: str) -> list[str]:
    if given is None:
        missing = [name for name in known if name not in table]
        if missing:
            raise DataError(
                f"A table must have the columns of training, {', '.join(known)}; {missing[0]!r} is not in "
                f"{table.source}. Name its columns in the model's order by {option}."
            )
        return list(known)
    names = table.expand(given, option)
    if len(names) != len(known):
        raise ShapeError(
            f"{option} must name {len(known)} columns, in the model's order; got {len(names)}. "
            f"The model's are {', '.join(known)}."
        )
    return names
