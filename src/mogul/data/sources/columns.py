"""Columns of a table that a user names as outputs, inputs and group labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mogul.data.dataset import Dataset
from mogul.data.encodings.encoding import Gaps, InputEncoding, MissingInputs, is_label, needs_encoding, rows_to_keep
from mogul.data.sources.sentinels import missing_of, with_gaps
from mogul.data.sources.table import Table, require_complete, require_no_infinity
from mogul.errors import ConfigError, DataError, warn

ON_COMMAND_LINE = "--"


@dataclass(frozen=True)
class Columns:
    """Names of columns, and the prefix of `targets`, `inputs` and `groups` in errors: "--" on a command line.

    Args:
        targets: columns to predict.
        inputs: columns to predict from; None for all that are neither targets nor groups.
        groups: a column of group labels.
        prefix: prefix of these arguments' names in errors.
        categories: inputs whose numbers are names of kinds, not amounts.
        missing: numbers and words that stand for a gap; by default numbers that do beyond doubt.
        missing_inputs: what to do with gaps in inputs.

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
    categories: Sequence[str] = ()
    missing: Sequence[str] = ()
    missing_inputs: MissingInputs = "mean"

    def prepared(self, table: Table, *, latent: bool = False) -> Table:
        """The table with gaps where numbers or words stand for one, and without rows that `missing_inputs` drops."""
        names = self._names(table, latent=latent)
        table = with_gaps(table, names, self.missing, self._option("missing"))
        if latent or self.missing_inputs == "mean":
            return table
        inputs = table.frame([name for name in names if name not in table.expand(self.targets)])
        keep = rows_to_keep(inputs, self.missing_inputs, table.source, self._option("missing-inputs"))
        return table if keep.all() else table.rows(keep)

    def data(self, table: Table, *, latent: bool = False) -> Dataset:
        """Outputs and inputs by name; only outputs if inputs are latent."""
        names = self._names(table, latent=latent)
        outputs = table.expand(self.targets, f"{self.prefix}targets")
        if latent:
            return Dataset(None, outputs_or_nan(table, outputs, self.prefix))
        inputs = [name for name in names if name not in outputs]
        table.frame([*outputs, *inputs])  # checks that lengths are equal
        y = outputs_or_nan(table, outputs, self.prefix)
        missing = missing_of([*inputs, *outputs], table.missing)
        x, encoding = encoded(table.frame(inputs), table.source, self.categories, missing)
        data = Dataset(x, y)
        data.encoding = encoding
        for doubt in [*self._left_out(table, outputs).values(), *table.doubts]:
            warn(doubt)
        return data

    def _names(self, table: Table, *, latent: bool) -> list[str]:
        """All columns in use: outputs, then inputs."""
        outputs = table.expand(self.targets, f"{self.prefix}targets")
        if latent:
            if self.inputs is not None:
                raise ConfigError(
                    f"{self.prefix}inputs must be left out for a model with latent inputs; got "
                    f"{', '.join(self.inputs)}. Leave -lvm out of the model's name to use them."
                )
            return outputs
        if self.inputs is None:
            return [*outputs, *self._all_others(table, outputs)]
        names = table.expand(self.inputs, f"{self.prefix}inputs")
        both = [name for name in names if name in outputs]
        if both:
            raise ConfigError(
                f"A column must be an input or a target; {both[0]!r} is both. Leave it out of one of them."
            )
        return [*outputs, *names]

    def _option(self, name: str) -> str:
        """An option as the user writes it."""
        return f"--{name}" if self.prefix == ON_COMMAND_LINE else f"{name.replace('-', '_')}="

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
        left_out = self._left_out(table, outputs)
        kept = [name for name in names if name not in left_out]
        if not kept:
            raise DataError(
                f"A table must have columns to predict from; those of {table.source} that are no targets are empty or "
                f"have a different text in each row. Name some by {self.prefix}inputs."
            )
        return kept

    def _left_out(self, table: Table, outputs: Sequence[str]) -> dict[str, str]:
        """Columns that nobody named and nothing can be learnt from, and why."""
        if self.inputs is not None:
            return {}
        reasons: dict[str, str] = {}
        for name in table.others(outputs):
            column = pd.Series(table.columns[name])
            if name == self.groups or not len(column):
                continue
            if column.isna().all():
                reasons[name] = f"Inputs should have values; {name!r} of {table.source} has none, and was left out."
            elif name not in self.categories and is_label(column, table.source):
                reasons[name] = (
                    f"Texts should come again to be learnt from; most rows of {name!r} of {table.source} have one of "
                    "their own, and it was left out."
                )
        return reasons


def encoded(
    frame: pd.DataFrame,
    source: str,
    categories: Sequence[str] = (),
    missing: Mapping[str, Gaps] | None = None,
) -> tuple[pd.DataFrame, InputEncoding | None]:
    """Inputs as numbers, and their encoding if they are anything but numbers without gaps."""
    if not missing and not needs_encoding(frame, categories):
        x = frame.astype(np.float64)
        require_complete(x, source)
        return x, None
    encoding = InputEncoding.of(frame, categories, source, missing)
    x = pd.DataFrame(encoding.apply(frame, source), columns=encoding.features)
    return x, None if encoding.is_plain else encoding


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
