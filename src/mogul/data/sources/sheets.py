"""Excel's .xlsx: the first sheet that has cells; a line of names, then rows."""

import io
import zipfile
from typing import Any

import pandas as pd

from mogul.data.sources.table import Table, readable_as, require_room
from mogul.errors import DataError, FileError

_ERRORS = ("#N/A", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!")


def read_xlsx(content: bytes, source: str) -> Table:
    """Values as last computed, not formulas; empty cells and errors such as #N/A are missing."""
    try:
        import openpyxl  # type: ignore[import-untyped]  # comes with the extra mogul[excel] only
    except ImportError:
        raise FileError(
            f"Reading .xlsx needs openpyxl; {source} cannot be read without it. "
            'Install it by pip install "mogul[excel]", or save the sheet as CSV.'
        ) from None
    with readable_as(".xlsx", source):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            require_room(sum(member.file_size for member in archive.infolist()), source)
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        sheets = {sheet.title: _rows(sheet) for sheet in book.worksheets}
    found = {title: rows for title, rows in sheets.items() if rows}
    if not found:
        raise DataError(f"A table must have a line of names; no sheet of {source} has cells. Give some data.")
    title, rows = next(iter(found.items()))
    notes = (f"sheet {title!r}, the first of {len(found)}",) if len(found) > 1 else ()
    return _table(rows, source, notes)


def _rows(sheet: Any) -> list[tuple[Any, ...]]:
    """Rows of values, without empty ones at either end."""
    rows = [tuple(_value(cell) for cell in row) for row in sheet.iter_rows(values_only=True)]
    full = [place for place, row in enumerate(rows) if any(value is not None for value in row)]
    return rows[full[0] : full[-1] + 1] if full else []


def _value(cell: Any) -> Any:
    return None if isinstance(cell, str) and (not cell.strip() or cell.strip() in _ERRORS) else cell


def _table(rows: list[tuple[Any, ...]], source: str, notes: tuple[str, ...]) -> Table:
    width = max(len(row) for row in rows)
    padded = [row + (None,) * (width - len(row)) for row in rows]
    names, body = padded[0], padded[1:]
    columns: dict[str, pd.Series[Any]] = {}
    for place in range(width):
        column = pd.Series([row[place] for row in body], dtype=object).infer_objects()
        name = "" if names[place] is None else str(names[place]).strip()
        if not name and column.isna().all():
            continue  # an empty column
        if not name:
            raise DataError(
                f"Every column must have a name; column {place + 1} of {width} in {source} has none. Name it, or "
                "leave it out."
            )
        if name in columns:
            raise DataError(f"Columns must have different names; {name!r} is in {source} twice. Rename one of them.")
        columns[name] = column
    if names and all(isinstance(name, int | float) for name in names if name is not None):
        raise DataError(
            f"The first line must name the columns; in {source} it holds numbers: "
            f"{', '.join(str(name) for name in names[:4])}. Put a line of names before it."
        )
    return Table(source, columns, notes=notes)
