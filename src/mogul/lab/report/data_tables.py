"""Data sets and what was found in them, as tables for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mogul.lab.datasets.audit import Audit
from mogul.lab.datasets.entry import Entry, describe_sizes
from mogul.lab.datasets.simulated import simulators_installed

ZERO_SHARE_WORTH_SAYING = 0.05


def presence(entry: Entry, folder: Path | None) -> str:
    """Whether the data set can be used here and now."""
    if entry.is_simulated:
        return "simulated" if simulators_installed() else "needs mogul[robots]"
    return "yes" if entry.is_present(folder) else "no"


def catalogue_table(entries: Sequence[Entry], folder: Path | None) -> Group:
    """A line for each data set, and below the table, where there is room, what it is and is not."""
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


def audit_table(entry: Entry, found: Audit, checksums: Mapping[str, str]) -> Table:
    """What was found, line by line."""
    table = Table(title=f"{entry.name}: {entry.what}", caption=f"{entry.is_not}. Source: {entry.source}")
    table.add_column("looked for", no_wrap=True)
    table.add_column("found", overflow="fold")  # a checksum that is cut cannot be compared
    for label, value in audit_lines(entry, found, checksums):
        table.add_row(label, value)
    return table


def audit_lines(entry: Entry, found: Audit, checksums: Mapping[str, str]) -> list[tuple[str, str]]:
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


def _checksum_lines(entry: Entry, checksums: Mapping[str, str]) -> Iterator[str]:
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
