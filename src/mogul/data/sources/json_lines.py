"""JSON lines: an object of names and values in each line."""

import json
from typing import Any

import pandas as pd

from mogul.data.sources.table import Table
from mogul.errors import DataError


def read_json_lines(text: str, source: str) -> Table:
    """One row for each line; a name that a line lacks, and null, are missing.

    >>> table = read_json_lines('{"a": 1, "b": "x"}\\n{"a": 2}\\n', "here")
    >>> list(table.columns["a"]), table.columns["b"].isna().tolist()
    ([1, 2], [False, True])
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"Each line must be a JSON object; line {number} of {source} is not: {error}. Correct that line."
            ) from None
        if not isinstance(row, dict):
            raise DataError(
                f"Each line must be a JSON object, names with values; line {number} of {source} holds a "
                f"{type(row).__name__}. Write {{...}} in each line."
            )
        nested = [name for name, value in row.items() if isinstance(value, dict | list)]
        if nested:
            raise DataError(
                f"Values must be numbers, text or null; {nested[0]!r} in line {number} of {source} holds a "
                f"{type(row[nested[0]]).__name__}. Give each part a name of its own."
            )
        rows.append(row)
    if not rows:
        raise DataError(f"A table must have at least one row; {source} is empty. Give some data.")
    names = dict.fromkeys(name for row in rows for name in row)
    return Table(source, {name: pd.Series([row.get(name) for row in rows]) for name in names})
