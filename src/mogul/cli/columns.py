"""Which columns of a table are inputs and outputs of a model: by its own names, or by those given in its order."""

from collections.abc import Sequence

import pandas as pd

from mogul.data import Dataset
from mogul.data.sources.columns import ON_COMMAND_LINE, finite_inputs, outputs_or_nan
from mogul.data.sources.table import Table
from mogul.errors import DataError, ShapeError
from mogul.fitted.fitted import Fitted


def data_of_model(
    fitted: Fitted, table: Table, inputs: Sequence[str] | None, targets: Sequence[str] | None = None
) -> Dataset:
    """The inputs and outputs of a model, by its own names or by those given in its order."""
    outputs = _in_models_order(table, fitted.output_names, targets, "--targets")
    if fitted.is_latent:
        return Dataset(None, outputs_or_nan(table, outputs, ON_COMMAND_LINE), check_outputs=False)
    names = _in_models_order(table, fitted.input_names, inputs, "--inputs")
    table.numbers([*dict.fromkeys([*outputs, *names])])
    data = Dataset(
        finite_inputs(table, names, ON_COMMAND_LINE),
        outputs_or_nan(table, outputs, ON_COMMAND_LINE),
        check_outputs=False,
    )
    data.input_names, data.output_names = fitted.input_names, fitted.output_names
    return data


def inputs_of_model(fitted: Fitted, table: Table, inputs: Sequence[str] | None) -> pd.DataFrame:
    """The inputs alone, for predictions."""
    names = _in_models_order(table, fitted.input_names, inputs, "--inputs")
    return finite_inputs(table, names, ON_COMMAND_LINE).set_axis(fitted.input_names, axis=1)


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
