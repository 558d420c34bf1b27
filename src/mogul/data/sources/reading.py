"""How a table is to be read: categories, what stands for gaps, and long tables."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mogul.data.encodings.categories import as_levels
from mogul.data.encodings.encoding import MissingInputs, as_pandas, needs_encoding
from mogul.data.sources.columns import ON_COMMAND_LINE, Columns
from mogul.data.sources.containers import as_array, frame_kind
from mogul.data.sources.table import Table
from mogul.errors import ConfigError, DataError, as_list

_COLUMNS_SHOWN = 40


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
