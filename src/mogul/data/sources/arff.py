"""Weka's ARFF: a line for each attribute, then rows. SciPy's reader refuses names with spaces, and question marks."""

import csv
import io
import re
from typing import Any

import numpy as np
import pandas as pd

from mogul.data.sources.table import Table, readable_as
from mogul.errors import DataError

_NUMBERS = ("numeric", "real", "integer")
_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:[^'\\]|\\.)*'|"[^"]*"|[^\s{]+)\s*(.*)""", re.IGNORECASE)


def read_arff(text: str, source: str) -> Table:
    """Columns by attribute: numbers, categories with the levels of their declaration, and text; ? is missing.

    >>> table = read_arff("@attribute size {S, L}\\n@attribute y numeric\\n@data\\nL, 1\\n?, 2\\n", "here")
    >>> list(table.columns["size"]), list(table.columns["y"])
    (['L', nan], [1.0, 2.0])
    """
    head, data = _parts(text, source)
    kinds: dict[str, str] = {}
    for line in head:
        found = _ATTRIBUTE.match(line)
        if found is None:
            continue
        name = found[1].strip("'\"").strip()
        if name in kinds:
            raise DataError(f"Columns must have different names; {name!r} is in {source} twice. Rename one of them.")
        kinds[name] = found[2].strip()
    if not kinds:
        raise DataError(f"ARFF must have @attribute lines; {source} has none. Is it the right file?")
    with readable_as("ARFF", source):
        rows = list(csv.reader(data, quotechar="'", skipinitialspace=True))
    for number, row in enumerate(rows, start=1):
        if len(row) != len(kinds) or (row and row[0].startswith("{")):
            raise DataError(
                f"Each row must have {len(kinds)} cells, one for each attribute; row {number} of {source} has "
                f"{len(row)}. Correct that row; sparse rows in braces are not read."
            )
    cells = np.array(rows, dtype=object).reshape(len(rows), len(kinds))
    return Table(source, {name: _column(cells[:, place], kind) for place, (name, kind) in enumerate(kinds.items())})


def _parts(text: str, source: str) -> tuple[list[str], list[str]]:
    """Lines before and after @data, without comments and empty lines."""
    lines = [line.strip() for line in io.StringIO(text)]
    lines = [line for line in lines if line and not line.startswith("%")]
    place = next((place for place, line in enumerate(lines) if line.lower().startswith("@data")), None)
    if place is None:
        raise DataError(f"{source} must be ARFF with an @data line; there is none. Is it the right file?")
    return lines[:place], lines[place + 1 :]


def _column(cells: "np.ndarray[tuple[int], np.dtype[np.object_]]", kind: str) -> "pd.Series[Any]":
    column = pd.Series(
        [None if (cell := text.strip().strip('"')) in ("?", "") else cell for text in cells], dtype=object
    )
    if kind.startswith("{"):
        levels = [level.strip().strip("'\"") for level in kind.strip("{} \t").split(",")]
        known = column.isin(levels) | column.isna()
        return column.astype(pd.CategoricalDtype(levels)) if known.all() else column
    if kind.lower().split(" ")[0] not in _NUMBERS:
        return column
    numbers = pd.to_numeric(column, errors="coerce")
    return column if (numbers.isna() & column.notna()).any() else numbers.astype(np.float64)
