"""Audit of a data set: repeated rows, leaks across splits, constant columns, missing values, zeros; as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mogul._typing import Array, IntArray
from mogul.data.splits import GroupedData
from mogul.lab.datasets.catalogue import CatalogueEntry, describe_sizes
from mogul.lab.datasets.simulated import simulators_installed

AUDIT_SEED = 0


@dataclass(frozen=True)
class Audit:
    """Counts over the rows of a data set; shares are by column."""

    num_rows: int
    num_inputs: int
    num_outputs: int
    num_groups: int
    repeated_rows: int
    rows_with_a_twin: int
    rows_with_an_input_twin: int
    test_rows: int
    test_rows_with_a_twin_in_training: int
    test_rows_with_an_input_twin_in_training: int
    test_rows_with_a_twin_across_groups: int
    missing_values: int
    constant_columns: tuple[str, ...]
    zero_shares: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"constant_columns": list(self.constant_columns)}


def audit(grouped: GroupedData) -> Audit:
    """Look through all rows; leaks are counted on the random split of seed 0, and between any two groups."""
    data = grouped.data
    values, names = np.column_stack([data.x, data.y]), data.input_names + data.output_names
    kinds = _kinds(values)
    # Without inputs there is nothing for two rows to share but all of it.
    input_kinds = _kinds(data.x) if data.num_inputs else kinds
    train, test = grouped.random_split(AUDIT_SEED).rows(grouped.groups)
    return Audit(
        num_rows=data.num_rows,
        num_inputs=data.num_inputs,
        num_outputs=data.num_outputs,
        num_groups=len(np.unique(grouped.groups)),
        repeated_rows=data.num_rows - len(np.unique(kinds)),
        rows_with_a_twin=int(_has_twin(kinds).sum()),
        rows_with_an_input_twin=int(_has_twin(input_kinds).sum()),
        test_rows=len(test),
        test_rows_with_a_twin_in_training=int(np.isin(kinds[test], kinds[train]).sum()),
        test_rows_with_an_input_twin_in_training=int(np.isin(input_kinds[test], input_kinds[train]).sum()),
        test_rows_with_a_twin_across_groups=_twins_across_groups(kinds, grouped),
        missing_values=data.num_missing,
        constant_columns=_constant(values, names),
        zero_shares={name: float(share) for name, share in zip(names, (values == 0).mean(0), strict=True)},
    )


def _kinds(values: Float[Array, "N K"]) -> Int[IntArray, "N"]:
    """An index for each row, equal for equal rows; missing values equal each other."""
    # Adding zero makes −0 the same bytes as 0.
    rows = np.ascontiguousarray(np.where(np.isnan(values), np.nan, values) + 0.0)
    return np.unique(rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel(), return_inverse=True)[1]


def _has_twin(kinds: Int[IntArray, "N"]) -> Bool[np.ndarray, "N"]:
    """Whether another row is the same."""
    _, place, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    return np.asarray(counts[place] > 1)


def _twins_across_groups(kinds: Int[IntArray, "N"], grouped: GroupedData) -> int:
    """Test rows of the split by group that equal a training row; 0 with a single group."""
    if len(np.unique(grouped.groups)) < 2:
        return 0
    train, test = grouped.group_split().rows(grouped.groups)
    return int(np.isin(kinds[test], kinds[train]).sum())


def _constant(values: Float[Array, "N K"], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name, column in zip(names, values.T, strict=True) if np.nanmin(column) == np.nanmax(column))


ZERO_SHARE_WORTH_SAYING = 0.05


def presence(entry: CatalogueEntry, folder: Path | None) -> str:
    """Whether the data set is available here."""
    if entry.is_simulated:
        return "simulated" if simulators_installed() else "needs mogul[robots]"
    return "yes" if entry.is_present(folder) else "no"


def catalogue_table(entries: Sequence[CatalogueEntry], folder: Path | None) -> Group:
    """A line for each data set, and below the table a description of each."""
    where = (
        "no data folder: set MOGUL_DATA, or pass --data-dir"
        if folder is None
        else f"data folder: {escape(str(folder))}"
    )
    table = Table(title="mogul's data sets", caption=f"{where}. `mogul data check NAME` says more of one.")
    table.add_column("name", no_wrap=True)
    for heading in ("rows", "inputs", "outputs"):
        table.add_column(heading, justify="right")
    for heading in ("groups", "here"):
        table.add_column(heading)
    for entry in entries:
        sizes = (f"{entry.num_rows:,}", str(entry.num_inputs), str(entry.num_outputs))
        table.add_row(entry.name, *sizes, entry.groups, escape(presence(entry, folder)))
    notes = [Text.assemble("\n", (entry.name, "bold"), f": {entry.what}; {entry.is_not}.") for entry in entries]
    return Group(table, *notes)


def audit_table(entry: CatalogueEntry, found: Audit, checksums: Mapping[str, str]) -> Table:
    """What was found, line by line."""
    table = Table(title=f"{entry.name}: {entry.what}", caption=f"{entry.is_not}. Source: {entry.source}")
    table.add_column("looked for", no_wrap=True)
    table.add_column("found", overflow="fold")  # a checksum that is cut cannot be compared
    for label, value in audit_lines(entry, found, checksums):
        table.add_row(label, value)
    return table


def audit_lines(entry: CatalogueEntry, found: Audit, checksums: Mapping[str, str]) -> list[tuple[str, str]]:
    """Labels and values of the table."""
    across = "" if found.num_groups > 1 else " (there is one group)"
    zeros = [f"{name} {share:.0%}" for name, share in found.zero_shares.items() if share > ZERO_SHARE_WORTH_SAYING]
    return [
        ("shape", describe_sizes(found.num_rows, found.num_inputs, found.num_outputs)),
        ("groups", f"{found.num_groups} ({entry.groups})" if found.num_groups > 1 else "none"),
        ("SHA-256", "\n".join(_checksum_lines(entry, checksums))),
        ("repeated rows", f"{found.repeated_rows} ({found.rows_with_a_twin} rows have a twin)"),
        ("rows with equal inputs", str(found.rows_with_an_input_twin)),
        (
            "leaks, random split",
            f"{found.test_rows_with_a_twin_in_training} of {found.test_rows} test rows have a twin in training, "
            f"{found.test_rows_with_an_input_twin_in_training} one with equal inputs",
        ),
        ("leaks, split by group", f"{found.test_rows_with_a_twin_across_groups}{across}"),
        ("constant columns", ", ".join(found.constant_columns) or "none"),
        ("missing values", str(found.missing_values)),
        (f"zeros above {ZERO_SHARE_WORTH_SAYING:.0%}", ", ".join(zeros) or "none"),
    ]


def _checksum_lines(entry: CatalogueEntry, checksums: Mapping[str, str]) -> Iterator[str]:
    """Each checksum and how it compares with the one recorded; files that differ have been refused before."""
    recorded = entry.recorded_checksums()
    for place, found in checksums.items():
        if recorded[place] is None:
            verdict = "none is recorded"
        elif recorded[place] == found:
            verdict = "as recorded"
        else:  # Other versions and processors round otherwise, and contacts make that grow.
            verdict = "another than recorded: other versions or processor"
        yield f"{place}: {found} ({verdict})"
