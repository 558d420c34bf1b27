"""Table formats by the ends of their files, compressed by gzip or not; CSV from standard input.

A file is read once, into memory, and never executed. Any exception of an external parser becomes one `DataError` that
names the file.
"""

import csv
import gzip
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mogul.data.sources.arff import read_arff
from mogul.data.sources.array_files import read_mat, read_npz
from mogul.data.sources.json_lines import read_json_lines
from mogul.data.sources.sheets import read_xlsx
from mogul.data.sources.table import Table, max_bytes, readable_as, require_room
from mogul.errors import DataError, FileError, MogulError

STANDARD_INPUT = Path("-")
_DELIMITER_WORDS = {",": "commas", ";": "semicolons between cells", "\t": "tabs between cells"}
_DELIMITERS = tuple(_DELIMITER_WORDS)
_EMPTY = "\0"  # before the number of a column without name and values; no name has it
_DECIMAL_COMMA = r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?"


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


def read_csv(content: bytes, source: str) -> Table:
    """Comma-separated values with a line of names; empty cells and NA are missing, and every row has all cells.

    Semicolons and tabs may stand for commas, and numbers may then have decimal commas. Columns without name and value,
    and rows without value at the end, are left out.

    >>> table = read_csv(b"a;b;\\n1,5;2;\\n;;\\n", "a file")
    >>> list(table.columns), list(table.columns["a"])
    (['a', 'b'], [1.5])
    >>> table.notes
    ('semicolons between cells, decimal commas; 1 empty column and 1 empty row at the end left out',)
    """
    text = _decoded(content, source)
    delimiter = _delimiter(text)
    require_room(8 * (text.count(delimiter) + text.count("\n") + 1), source)
    with readable_as("CSV", source):
        names = _checked_rows(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), source)
        frame = pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            header=0,
            names=names,
            index_col=False,
            skipinitialspace=True,
            low_memory=False,
        )
    return _tidied(frame, delimiter, source)


def read_parquet(content: bytes, source: str) -> Table:
    """Apache Parquet: every column, including a named index."""
    try:
        import pyarrow  # comes with the extra mogul[parquet] only
        from pyarrow import parquet
    except ImportError:
        raise FileError(
            f"Reading Parquet needs pyarrow; {source} cannot be read without it. "
            'Install it by pip install "mogul[parquet]", or convert the file to CSV.'
        ) from None
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
    return _table(kept, source, dict.fromkeys(sorted(nested), "it holds lists or objects"))


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
    try:
        import pyarrow  # comes with the extra mogul[parquet] only
    except ImportError:
        raise FileError(
            f"Reading Feather needs pyarrow; {source} cannot be read without it. "
            'Install it by pip install "mogul[parquet]", or convert the file to CSV.'
        ) from None
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
    return _table(frame, source)


def _of_text(read: Callable[[str, str], Table]) -> Callable[[bytes, str], Table]:
    """The same reader for bytes in UTF-8."""
    return lambda content, source: read(_decoded(content, source, "A table in text"), source)


READERS: dict[str, Callable[[bytes, str], Table]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".txt": read_csv,
    ".parquet": read_parquet,
    ".npz": read_npz,
    ".mat": read_mat,
    ".xlsx": read_xlsx,
    ".feather": read_feather,
    ".jsonl": _of_text(read_json_lines),
    ".arff": _of_text(read_arff),
}


def _table(frame: pd.DataFrame, source: str, unusable: Mapping[str, str] | None = None) -> Table:
    return Table(source, {str(name): frame[name] for name in frame.columns}, unusable=unusable or {})


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


def _decoded(content: bytes, source: str, what: str = "CSV") -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{what} must be text in UTF-8; byte {error.start} of {source} is 0x{content[error.start]:02x}, which is "
            "not. Save it as CSV UTF-8."
        ) from None
    if "\0" in text:
        raise DataError(
            f"{what} must be text; character {text.index(chr(0))} of {source} is a zero byte. Save it as CSV UTF-8."
        )
    return text


def _delimiter(text: str) -> str:
    """The most frequent delimiter in the line of names; a comma if there is none."""
    line = text.lstrip().partition("\n")[0]
    return max(_DELIMITERS, key=line.count)


def _checked_rows(rows: Iterator[list[str]], source: str) -> list[str]:
    """The names in the first line, after checking that every row has the same number of cells."""
    header = next((row for row in rows if row), None)
    if header is None:
        raise DataError(f"A table must have a line of names; {source} is empty. Give some data.")
    names = [name.strip() for name in header]
    require_room(0, source, num_columns=len(names))
    empty = {place for place, name in enumerate(names) if not name}
    if all(map(_is_number, names)):
        raise DataError(
            f"The first line must name the columns; in {source} it holds numbers: {', '.join(names[:4])}. "
            "Put a line of names before it."
        )
    for number, row in enumerate((row for row in rows if row), start=1):
        if len(row) != len(names):
            raise DataError(
                f"Each row must have {len(names)} cells, one for each name; row {number} of {source} has "
                f"{len(row)}. Correct that row; empty cells are missing values."
            )
        empty -= {place for place in empty if row[place].strip()}
    require_names([name or (_EMPTY if place in empty else "") for place, name in enumerate(names)], source)
    return [f"{_EMPTY}{place}" if place in empty else name for place, name in enumerate(names)]


def _tidied(frame: pd.DataFrame, delimiter: str, source: str) -> Table:
    """Without empty columns and rows at the end, with decimal commas as points, and a note of it."""
    names = [name for name in frame.columns if not str(name).startswith(_EMPTY)]
    full = np.flatnonzero(frame[names].notna().any(axis=1))
    num_rows = int(full[-1]) + 1 if len(full) else 0
    body, commas = frame[names].iloc[:num_rows], False
    columns: dict[str, pd.Series[Any]] = {str(name): body[name] for name in names}
    if delimiter != ",":
        pointed = {name: with_points(column) for name, column in columns.items()}
        commas = any(column is not None for column in pointed.values())
        columns = {name: column if (own := pointed[name]) is None else own for name, column in columns.items()}
    kind = [_DELIMITER_WORDS[delimiter], *(["decimal commas"] if commas else [])] if delimiter != "," else []
    left = [
        f"{count:,} empty {what}{'s' if count > 1 else ''}"
        for count, what in ((len(frame.columns) - len(names), "column"), (len(frame) - num_rows, "row"))
        if count and num_rows
    ]
    parts = [", ".join(kind), *([f"{' and '.join(left)} at the end left out"] if left else [])]
    note = "; ".join(part for part in parts if part)
    return Table(source, columns, notes=(note,) if note and (commas or left) else ())


def with_points(column: "pd.Series[Any]") -> "pd.Series[Any] | None":
    """Numbers from texts with decimal commas; None where most are something else, or some have decimal points.

    >>> list(with_points(pd.Series(["1,5", "2", "high"])))
    ['1.5', '2', 'high']
    """
    if column.dtype.kind in "fiubM":
        return None
    texts = column.astype("string").str.strip()
    decimal = texts.str.fullmatch(_DECIMAL_COMMA).fillna(False)
    pointed = texts.str.fullmatch(_DECIMAL_COMMA.replace(",", r"\.")).fillna(False) & ~decimal
    if pointed.any() or not (decimal & texts.str.contains(",")).any() or 2 * decimal.sum() <= texts.notna().sum():
        return None
    found = texts.where(~decimal, texts.str.replace(",", "."))
    if (decimal | texts.isna()).all():
        return found.astype("Float64").astype(np.float64)
    return found.astype(object).where(texts.notna(), None)


def require_names(names: list[str], source: str) -> None:
    """Check that all columns have distinct names."""
    unnamed = [place for place, name in enumerate(names, start=1) if not name]
    if unnamed:
        raise DataError(
            f"Every column must have a name; column {unnamed[0]} of {len(names)} in {source} has none. Name it, or "
            "leave it out: pandas writes one for its index, but not with to_csv(…, index=False)."
        )
    twice = [name for name, count in Counter(names).items() if count > 1 and name != _EMPTY]
    if twice:
        raise DataError(f"Columns must have different names; {twice[0]!r} is in {source} twice. Rename one of them.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
