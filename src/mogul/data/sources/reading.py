"""How a table is read: columns of outputs, inputs and group labels, categories, what stands for gaps, long tables."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mogul.data.dataset import Dataset
from mogul.data.encodings.categories import as_levels
from mogul.data.encodings.encoding import (
    Gaps,
    InputEncoding,
    MissingInputs,
    as_pandas,
    is_label,
    needs_encoding,
    rows_to_keep,
)
from mogul.data.sources.containers import as_array, frame_kind
from mogul.data.sources.sentinels import missing_of, with_gaps
from mogul.data.sources.table import Table, require_complete, require_no_infinity
from mogul.errors import ConfigError, DataError, as_list, warn

ON_COMMAND_LINE = "--"
_COLUMNS_SHOWN = 40


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
                    f"{name!r} of {table.source} was left out: most of its texts are in one row only, so nothing can "
                    "be learnt from them."
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


@dataclass(frozen=True)
class Reading:
    """Choices of the user's about a table that are not columns to predict or to predict from.

    Args:
        categories: inputs whose numbers are names of kinds, not amounts.
        missing: numbers and words that stand for a gap; by default numbers that do beyond doubt.
        missing_inputs: "mean" of the column for gaps in inputs, beside a column that marks them; "drop" their rows; or
            "refuse". None: the mean for tables and frames, and arrays are refused.
        long: columns of tasks and of values, if the table has a row for each value.
        prefix: prefix of these arguments' names in errors.
    """

    categories: Sequence[str] = ()
    missing: Sequence[str] = ()
    missing_inputs: MissingInputs | None = None
    long: tuple[str, str] | None = None
    prefix: str = ""

    def columns(self, targets: Sequence[str], inputs: Sequence[str] | None, groups: str | None) -> Columns:
        """Columns to predict and to predict from, with these choices."""
        policy = self.missing_inputs or "mean"
        return Columns(targets, inputs, groups, self.prefix, self.categories, self.missing, policy)

    def select(
        self,
        table: Table,
        targets: Sequence[str] | None,
        inputs: Sequence[str] | None,
        groups: str | None,
        *,
        latent: bool = False,
    ) -> tuple[Table, Columns]:
        """The table with a column for each output and with gaps where they belong, and its columns in use."""
        if self.long is not None:
            table, targets = self.wide(table, targets, inputs, groups)
        if not targets:
            known = list(table.columns)
            more = f", … ({len(known)} in all)" if len(known) > _COLUMNS_SHOWN else ""
            shown = ", ".join(as_list([name]) for name in known[:_COLUMNS_SHOWN])
            raise ConfigError(
                f"{self.prefix}targets must name the columns to predict; got none. {table.source} has {shown}{more}. "
                f"Try {self._written('targets', known[-1])}."
            )
        columns = self.columns(targets, inputs, groups)
        return columns.prepared(table, latent=latent), columns

    def _written(self, option: str, value: str) -> str:
        """An option with a value as the user writes it."""
        if self.prefix == ON_COMMAND_LINE:
            return f"--{option} {shlex.quote(as_list([value]))}"
        return f"{option}={[value]!r}"

    def as_options(self) -> str:
        """These choices as options of a command line."""
        given: dict[str, list[str]] = {
            "--long": list(self.long or ()),
            "--categories": list(self.categories),
            "--missing": list(self.missing),
            "--missing-inputs": [] if self.missing_inputs in (None, "mean") else [self.missing_inputs],
        }
        return "".join(f" {option} {shlex.quote(as_list(values))}" for option, values in given.items() if values)

    def frame_to_encode(self, X: Any) -> pd.DataFrame | None:
        """Inputs as a frame, if they are more than numbers without gaps; None for those that need no encoding."""
        if frame_kind(X) is not None:
            frame = as_pandas(X)
        elif self.missing_inputs is not None or self.categories:
            values = pd.DataFrame(as_array(X))
            frame = values.set_axis([f"x{place}" for place in range(values.shape[1])], axis=1)
        else:
            return None
        return frame if len(frame) and needs_encoding(frame, self.categories) else None

    def wide(
        self, table: Table, targets: Sequence[str] | None, inputs: Sequence[str] | None, groups: str | None
    ) -> tuple[Table, list[str]]:
        """A long table as a table with a column for each task, and the tasks to predict.

        Values that share their inputs share a row; tasks need not have the same inputs. A second value of a task at the
        same inputs is a row of its own.

        Example:
            >>> long = Table("here", {"x": [0, 0, 1], "task": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
            >>> wide, tasks = Reading(long=("task", "value")).wide(long, None, None, None)
            >>> wide.numbers(["x", *tasks]).to_numpy()
            array([[ 0.,  1.,  2.],
                   [ 1.,  3., nan]])
        """
        assert self.long is not None
        task, value = self.long
        option = f"{self.prefix}long"
        table.frame([task, value], option)
        if inputs is not None and {task, value} & set(inputs):
            raise ConfigError(
                f"{self.prefix}inputs must not name the columns of {option}; got {', '.join(inputs)}. Leave them out."
            )
        others = table.others([task, value])
        names = [name for name in others if inputs is None or name in table.expand(inputs, f"{self.prefix}inputs")]
        names += [groups] if groups is not None and groups in others and groups not in names else []
        if not names:
            raise DataError(f"A long table must have inputs beside task and value; {table.source} has none. Add some.")
        frame = table.frame([*names, task, value])
        tasks = sorted(set(as_levels(frame[task], table.source)))
        _require_tasks(tasks, names, targets, table.source, option)
        keyed = frame.assign(**{task: as_levels(frame[task], table.source)})
        keyed["\0again"] = keyed.groupby([*names, task], dropna=False, sort=False).cumcount()
        keys = [*names, "\0again"]
        rows = keyed.groupby(keys, dropna=False, sort=False).ngroup()
        first = keyed.loc[~rows.duplicated()].reset_index(drop=True)
        values = keyed.assign(row=rows).pivot(index="row", columns=task, values=value).reset_index(drop=True)
        columns = {**{name: first[name] for name in names}, **{name: values[name] for name in tasks}}
        note = f"{len(frame):,} values of {len(tasks)} outputs in {len(first):,} rows of different inputs"
        return Table(table.source, columns, notes=(*table.notes, note)), list(targets or tasks)


def _require_tasks(tasks: list[str], names: list[str], targets: Sequence[str] | None, source: str, option: str) -> None:
    """Check that tasks can be columns, and that targets are tasks."""
    if "" in tasks:
        raise DataError(f"Each row of a long table must name its task; some of {source} do not. Fill them in.")
    both = [name for name in tasks if name in names]
    if both:
        raise DataError(f"Tasks must be named unlike inputs; {both[0]!r} of {source} is both. Rename one of them.")
    unknown = [name for name in targets or [] if name not in tasks]
    if unknown:
        raise DataError(
            f"Targets must be tasks of {source} beside {option}; {unknown[0]!r} is not among {', '.join(tasks[:12])}. "
            "Leave targets out for all tasks."
        )
