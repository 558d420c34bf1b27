"""Which columns of a table are inputs and outputs: as a user names them, or as a model knows them."""

import shlex
from collections.abc import Sequence

import pandas as pd

from mogul.data import Dataset
from mogul.data.table import Table, require_complete, require_no_infinity
from mogul.errors import ConfigError, DataError, ShapeError
from mogul.name_lists import as_list
from mogul.training.fitted import Fitted, FittedLatent


def training_data(
    table: Table, targets: Sequence[str], inputs: Sequence[str] | None, latent: bool, groups: str | None = None
) -> Dataset:
    """Outputs and inputs by name; without names of inputs, every column that is neither output nor group is one."""
    outputs = table.expand(targets, "--targets")
    if latent:
        if inputs is not None:
            raise ConfigError(
                f"--inputs must be left out for a model with latent inputs; got {', '.join(inputs)}. "
                "Leave -lvm out of the model's name to use them."
            )
        return Dataset(None, _outputs(table, outputs, "--targets"))
    aside = [] if groups is None else [groups]
    names = _all_others(table, outputs, aside) if inputs is None else table.expand(inputs, "--inputs")
    both = [name for name in names if name in outputs]
    if both:
        raise ConfigError(f"A column must be an input or a target; {both[0]!r} is both. Leave it out of one of them.")
    table.numbers([*outputs, *names])  # all of one length
    return Dataset(_inputs(table, names, "--inputs"), _outputs(table, outputs, "--targets"))


def group_labels(table: Table, name: str, taken: Sequence[str]) -> pd.Series:
    """The column that says which rows belong together: words or numbers, and none of the columns to learn from."""
    if name not in table.columns:
        table.expand([name], "--groups")
        raise ConfigError(f"--groups must name one column; {name!r} stands for several. Name one of them.")
    if name in table.expand(taken):
        raise ConfigError(
            f"--groups must be a column of its own; {name!r} is an input or a target, too. Leave it out of those."
        )
    return pd.Series(table.columns[name])


def data_of_model(
    fitted: Fitted, table: Table, inputs: Sequence[str] | None, targets: Sequence[str] | None = None
) -> Dataset:
    """The inputs and outputs of a model, by its own names or by those given in its order."""
    outputs = _in_models_order(table, fitted.output_names, targets, "--targets")
    if isinstance(fitted, FittedLatent):
        return Dataset(None, _outputs(table, outputs, "--targets"), check_outputs=False)
    names = _in_models_order(table, fitted.input_names, inputs, "--inputs")
    table.numbers([*dict.fromkeys([*outputs, *names])])
    data = Dataset(_inputs(table, names, "--inputs"), _outputs(table, outputs, "--targets"), check_outputs=False)
    data.input_names, data.output_names = fitted.input_names, fitted.output_names
    return data


def inputs_of_model(fitted: Fitted, table: Table, inputs: Sequence[str] | None) -> pd.DataFrame:
    """The inputs alone, for predictions."""
    names = _in_models_order(table, fitted.input_names, inputs, "--inputs")
    return _inputs(table, names, "--inputs").set_axis(fitted.input_names, axis=1)


def _all_others(table: Table, outputs: Sequence[str], aside: Sequence[str]) -> list[str]:
    names = [name for name in table.others(outputs) if name not in aside]
    if not names:
        raise DataError(
            f"A table must have columns to predict from; all of {table.source} are targets. "
            "Leave some out of --targets, or fit a model that ends in -lvm."
        )
    words = {name: word for name in names if (word := table.first_word(name)) is not None}
    if words:
        numbers = [name for name in names if name not in words]
        first, word = next(iter(words.items()))
        others = f" Or name the others: --inputs {shlex.quote(as_list(numbers))}." if numbers else ""
        raise DataError(
            f"Inputs must be numbers, and without --inputs all columns that are no targets are inputs; "
            f"{first!r} of {table.source} is not: it holds {word.value!r} in row {word.row}. {word.remedy}.{others}"
        )
    return names


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


def _inputs(table: Table, names: Sequence[str], option: str) -> pd.DataFrame:
    x = table.numbers(names, option)
    require_complete(x, table.source)
    return x


def _outputs(table: Table, names: Sequence[str], option: str) -> pd.DataFrame:
    y = table.numbers(names, option)
    require_no_infinity(y, table.source)
    return y
