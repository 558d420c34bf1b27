"""Columns of a table that a user names as outputs, inputs and group labels."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from mogul.data.dataset import Dataset
from mogul.data.sources.table import Table, require_complete, require_no_infinity
from mogul.errors import ConfigError, DataError, as_list

ON_COMMAND_LINE = "--"


@dataclass(frozen=True)
class Columns:
    """Names of columns, and the prefix of `targets`, `inputs` and `groups` in errors: "--" on a command line.

    Args:
        targets: columns to predict.
        inputs: columns to predict from; None for all that are neither targets nor groups.
        groups: a column of group labels.
        prefix: prefix of these arguments' names in errors.

    Example:
        >>> table = Table("a file", {"a": [1, 2], "b": [3, None], "run": ["x", "y"]})
        >>> columns = Columns(["b"], groups="run")
        >>> columns.data(table).input_names, list(columns.labels(table))
        (['a'], ['x', 'y'])
    """

    targets: Sequence[str]
    inputs: Sequence[str] | None = None
    groups: str | None = None
    prefix: str = ""

    def data(self, table: Table, *, latent: bool = False) -> Dataset:
        """Outputs and inputs by name; only outputs if inputs are latent."""
        outputs = table.expand(self.targets, f"{self.prefix}targets")
        if latent:
            if self.inputs is not None:
                raise ConfigError(
                    f"{self.prefix}inputs must be left out for a model with latent inputs; got "
                    f"{', '.join(self.inputs)}. Leave -lvm out of the model's name to use them."
                )
            return Dataset(None, outputs_or_nan(table, outputs, self.prefix))
        named = self.inputs is not None
        names = table.expand(self.inputs or [], f"{self.prefix}inputs") if named else self._all_others(table, outputs)
        both = [name for name in names if name in outputs]
        if both:
            raise ConfigError(
                f"A column must be an input or a target; {both[0]!r} is both. Leave it out of one of them."
            )
        table.numbers([*outputs, *names])  # checks that lengths are equal
        return Dataset(finite_inputs(table, names, self.prefix), outputs_or_nan(table, outputs, self.prefix))

    def labels(self, table: Table) -> pd.Series | None:
        """The column of group labels, text or numbers; it must not be an input or a target."""
        if self.groups is None:
            return None
        option = f"{self.prefix}groups"
        if self.groups not in table.columns:
            table.expand([self.groups], option)
            raise ConfigError(f"{option} must name one column; {self.groups!r} stands for several. Name one of them.")
        if self.groups in table.expand([*self.targets, *(self.inputs or [])]):
            raise ConfigError(
                f"{option} must be a separate column; {self.groups!r} is also an input or a target. "
                "Leave it out of those."
            )
        return pd.Series(table.columns[self.groups])

    def _all_others(self, table: Table, outputs: Sequence[str]) -> list[str]:
        names = [name for name in table.others(outputs) if name != self.groups]
        if not names:
            raise DataError(
                f"A table must have columns to predict from; all of {table.source} are targets. "
                f"Leave some out of {self.prefix}targets, or fit a model that ends in -lvm."
            )
        words = {name: word for name in names if (word := table.first_word(name)) is not None}
        if words:
            numbers = [name for name in names if name not in words]
            first, word = next(iter(words.items()))
            others = f" Or name the others: {self._naming(numbers)}." if numbers else ""
            raise DataError(
                f"Inputs must be numbers, and without {self.prefix}inputs all columns except targets are inputs; "
                f"{first!r} of {table.source} is not: it holds {word.value!r} in row {word.row}. {word.remedy}.{others}"
            )
        return names

    def _naming(self, names: list[str]) -> str:
        """These inputs as a user would write them."""
        if self.prefix == ON_COMMAND_LINE:
            return f"--inputs {shlex.quote(as_list(names))}"
        return f"inputs={names!r}"


def finite_inputs(table: Table, names: Sequence[str], prefix: str = "") -> pd.DataFrame:
    """These columns, without missing values."""
    x = table.numbers(names, f"{prefix}inputs")
    require_complete(x, table.source, f"{prefix}inputs")
    return x


def outputs_or_nan(table: Table, names: Sequence[str], prefix: str = "") -> pd.DataFrame:
    """These columns; values may be missing."""
    y = table.numbers(names, f"{prefix}targets")
    require_no_infinity(y, table.source)
    return y
