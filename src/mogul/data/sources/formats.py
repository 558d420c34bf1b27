"""Table formats by the ends of their files, compressed by gzip or not; CSV from standard input.

A file is read once, into memory, and never executed. Any exception of an external parser becomes one `DataError` that
names the file.
"""

import gzip
import io
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from mogul.data.sources.array_files import read_mat, read_npz
from mogul.data.sources.table import Table, max_bytes, readable_as, require_names, require_room
from mogul.data.sources.text_formats import decoded, read_arff, read_csv, read_json_lines
from mogul.errors import DataError, FileError, MogulError, import_extra

STANDARD_INPUT = Path("-")
_EXCEL_ERRORS = ("#N/A", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!")


def read_table(path: Path) -> Table:
    """The table in this file, by its extension; `-` is CSV from standard input."""
    if path == STANDARD_INPUT:
        return read_csv(_standard_input(), "standard input")
    packed = path.suffix.lower() == ".gz"
    reader = READERS.get(Path(path.stem).suffix.lower() if packed else path.suffix.lower())
    if reader is None:
        raise DataError(
            f"A table must be a file that ends in {', '.join(READERS)}, or one of these and .gz; got {path}. "
            "Convert it, or pipe CSV into -."
        )
    content = _content(path)
    return reader(_unpacked(content, str(path)) if packed else content, str(path))


def read_parquet(content: bytes, source: str) -> Table:
    """Apache Parquet: every column, including a named index."""
    pyarrow, parquet = (_arrow(source, module) for module in ("pyarrow", "pyarrow.parquet"))
    with readable_as("Parquet", source):
        file = parquet.ParquetFile(pyarrow.BufferReader(content))
        require_room(_parquet_bytes(file.metadata), source, num_columns=file.metadata.num_columns)
        require_names(file.schema_arrow.names, source)
        fields = [field for field in file.schema_arrow if not pyarrow.types.is_nested(field.type)]
        # As dictionaries: a text of a megabyte in a million rows is stored once, and must not be copied for each.
        texts = [field.name for field in fields if _is_text(field.type)]
        file = parquet.ParquetFile(pyarrow.BufferReader(content), read_dictionary=texts)
        frame = file.read([field.name for field in fields]).to_pandas(ignore_metadata=True)
        frame = frame.astype(dict.fromkeys(texts, object))
    kept = frame.loc[:, [not str(name).startswith("__index_level_") for name in frame.columns]]
    nested = set(file.schema_arrow.names) - {field.name for field in fields}
    return table_of_frame(kept, source, dict.fromkeys(sorted(nested), "it holds lists or objects"))


def _is_text(kind: Any) -> bool:
    """Whether an Arrow type is text or bytes of any length."""
    return str(kind) in ("string", "large_string", "binary", "large_binary")


def _parquet_bytes(metadata: Any) -> int:
    """The memory that the columns claim; runs of equal values may take next to none in the file."""
    total: int = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            values = max(column.num_values, group.num_rows, 0)
            total += max(8 * values, column.total_uncompressed_size)
    return max(total, 8 * int(metadata.num_rows) * int(metadata.num_columns))


def read_feather(content: bytes, source: str) -> Table:
    """Apache Arrow's Feather: every column."""
    pyarrow = _arrow(source, "pyarrow")
    with readable_as("Feather", source):
        file = pyarrow.ipc.open_file(pyarrow.BufferReader(content))
        require_room(0, source, num_columns=len(file.schema.names))
        require_names(file.schema.names, source)
        batches, room = [], 0
        for place in range(file.num_record_batches):
            batches.append(file.get_batch(place))
            room += batches[-1].nbytes
            require_room(room, source)
        frame = pyarrow.Table.from_batches(batches, file.schema).to_pandas(ignore_metadata=True)
    return table_of_frame(frame, source)


def _arrow(source: str, module: str) -> Any:
    return import_extra(f"Reading {source}", "parquet", module, ", or convert the file to CSV", FileError)


def table_of_frame(frame: pd.DataFrame, source: str, unusable: Mapping[str, str] | None = None) -> Table:
    """A frame's columns as a table."""
    return Table(source, {str(name): frame[name] for name in frame.columns}, unusable=unusable or {})


def read_xlsx(content: bytes, source: str) -> Table:
    """Excel's .xlsx, the first sheet that has cells: a line of names, then rows.

    Values are as last computed, not formulas; empty cells and errors such as #N/A are missing.
    """
    openpyxl = import_extra(f"Reading {source}", "excel", "openpyxl", ", or save the sheet as CSV", FileError)
    with readable_as(".xlsx", source):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            require_room(sum(member.file_size for member in archive.infolist()), source)
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        sheets = {sheet.title: _sheet_rows(sheet) for sheet in book.worksheets}
    found = {title: rows for title, rows in sheets.items() if rows}
    if not found:
        raise DataError(f"A table must have a line of names; no sheet of {source} has cells. Give some data.")
    title, rows = next(iter(found.items()))
    notes = (f"sheet {title!r}, the first of {len(found)}",) if len(found) > 1 else ()
    return _table_of_rows(rows, source, notes)


def _sheet_rows(sheet: Any) -> list[tuple[Any, ...]]:
    """Rows of values, without empty ones at either end."""
    rows = [tuple(_cell_value(cell) for cell in row) for row in sheet.iter_rows(values_only=True)]
    full = [place for place, row in enumerate(rows) if any(value is not None for value in row)]
    return rows[full[0] : full[-1] + 1] if full else []


def _cell_value(cell: Any) -> Any:
    return None if isinstance(cell, str) and (not cell.strip() or cell.strip() in _EXCEL_ERRORS) else cell


def _table_of_rows(rows: list[tuple[Any, ...]], source: str, notes: tuple[str, ...]) -> Table:
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


def _of_text(read: Callable[[str, str], Table]) -> Callable[[bytes, str], Table]:
    """The same reader for bytes in UTF-8."""
    return lambda content, source: read(decoded(content, source, "A table in text"), source)


READERS: dict[str, Callable[[bytes, str], Table]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".txt": read_csv,
    ".parquet": read_parquet,
    ".npz": read_npz,
    ".mat": read_mat,
    ".xlsx": read_xlsx,
    ".feather": read_feather,
    ".arrow": read_feather,
    ".jsonl": _of_text(read_json_lines),
    ".arff": _of_text(read_arff),
}


def _content(path: Path) -> bytes:
    if path.is_dir():
        raise FileError(f"A table must be a file; {path} is a folder. Name a file in it.")
    if not path.exists():
        raise FileError(f"The table must exist; {path} is not a file. Check its path.")
    if not path.is_file():
        raise FileError(f"A table must be an ordinary file; {path} is not. Pipe CSV into - instead.")
    try:
        require_room(path.stat().st_size, str(path))
        return path.read_bytes()
    except OSError as error:
        if isinstance(error, MogulError):
            raise
        raise FileError(f"The table must be readable; {path} is not: {error.strerror}. Check it.") from error


def _standard_input() -> bytes:
    if sys.stdin.isatty():
        raise DataError(
            "Standard input must be a file or a pipe; it is a terminal. Try: mogul … - < data.csv, or name the file."
        )
    content = sys.stdin.buffer.read(max_bytes() + 1)
    require_room(len(content), "standard input")
    return content


def _unpacked(content: bytes, source: str) -> bytes:
    """What gzip packed, up to the largest size of a table."""
    with readable_as("gzip", source), gzip.open(io.BytesIO(content)) as file:
        unpacked = file.read(max_bytes() + 1)
        require_room(len(unpacked), source)
    return unpacked
