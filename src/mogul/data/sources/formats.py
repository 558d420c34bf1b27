"""Table formats: CSV, Parquet, NumPy's .npz, MATLAB's .mat; CSV from standard input.

A file is read once, into memory, and never executed. Any exception of an external parser becomes one `DataError` that
names the file.
"""

import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from mogul.data.sources.array_files import read_mat, read_npz
from mogul.data.sources.table import MAX_BYTES, Table, readable_as, require_room
from mogul.errors import DataError, FileError, MogulError

STANDARD_INPUT = Path("-")
_DELIMITERS = (",", ";", "\t")


def read_table(path: Path) -> Table:
    """The table in this file, by its extension; `-` is CSV from standard input."""
    if path == STANDARD_INPUT:
        return read_csv(_standard_input(), "standard input")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"A table must be a file that ends in {', '.join(READERS)}; got {path}. Convert it, or pipe CSV into -."
        )
    return reader(_content(path), str(path))


def read_csv(content: bytes, source: str) -> Table:
    """Comma-separated values with a line of names; empty cells and NA are missing, and every row has all cells.

    >>> list(read_csv(b"a;b\\n1;2\\n", "a file").columns)
    ['a', 'b']
    """
    text = _decoded(content, source)
    delimiter = _delimiter(text)
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
    return _table(frame, source)


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
        require_room(8 * file.metadata.num_rows * file.metadata.num_columns, source)
        require_names(file.schema_arrow.names, source)
        frame = file.read().to_pandas(ignore_metadata=True)
    return _table(frame.loc[:, [not str(name).startswith("__index_level_") for name in frame.columns]], source)


READERS: dict[str, Callable[[bytes, str], Table]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".txt": read_csv,
    ".parquet": read_parquet,
    ".npz": read_npz,
    ".mat": read_mat,
}


def _table(frame: pd.DataFrame, source: str) -> Table:
    return Table(source, {str(name): frame[name] for name in frame.columns})


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
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    require_room(len(content), "standard input")
    return content


def _decoded(content: bytes, source: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"CSV must be text in UTF-8; byte {error.start} of {source} is 0x{content[error.start]:02x}, which is not. "
            "Save it as CSV UTF-8."
        ) from None
    if "\0" in text:
        raise DataError(
            f"CSV must be text; character {text.index(chr(0))} of {source} is a zero byte. Save it as CSV UTF-8."
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
    require_names(names, source)
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
    return names


def require_names(names: list[str], source: str) -> None:
    """Check that all columns have distinct names."""
    unnamed = [place for place, name in enumerate(names, start=1) if not name]
    if unnamed:
        raise DataError(
            f"Every column must have a name; column {unnamed[0]} of {len(names)} in {source} has none. Name it, or "
            "leave it out: pandas writes one for its index, but not with to_csv(…, index=False)."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"Columns must have different names; {twice[0]!r} is in {source} twice. Rename one of them.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
