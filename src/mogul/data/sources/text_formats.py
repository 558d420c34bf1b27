"""Tables in text: CSV, JSON lines, and Weka's ARFF."""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from mogul.data.sources.table import NO_NAME, Table, readable_as, require_names, require_room
from mogul.errors import DataError

_DELIMITER_WORDS = {",": "commas", ";": "semicolons between cells", "\t": "tabs between cells"}
_DELIMITERS = tuple(_DELIMITER_WORDS)
_DECIMAL_COMMA = r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?"
# Bytes that no text in Windows-1252 is likely to have: control characters, and letters of other encodings.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ARFF_NUMBERS = ("numeric", "real", "integer")
_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:[^'\\]|\\.)*'|"[^"]*"|[^\s{]+)\s*(.*)""", re.IGNORECASE)


def read_csv(content: bytes, source: str) -> Table:
    """Comma-separated values with a line of names; empty cells and NA are missing, and every row has all cells.

    Semicolons and tabs may stand for commas, and numbers may then have decimal commas. Columns without name and value,
    a first one without name that counts the rows, lines of comments before the names, and rows without value at the end
    are left out.

    >>> table = read_csv(b"a;b;\\n1,5;2;\\n;;\\n", "a file")
    >>> list(table.columns), list(table.columns["a"])
    (['a', 'b'], [1.5])
    >>> table.notes
    ('semicolons between cells, decimal commas; 1 empty column and 1 empty row at the end left out',)
    """
    text, notes = _text_of(content, source)
    delimiter = _delimiter(text)
    require_room(8 * (text.count(delimiter) + text.count("\n") + 1), source)
    with readable_as("CSV", source):
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        names, counts_rows = _checked_rows(rows, source)
    notes += ["a first column that counts the rows left out"] if counts_rows else []
    with readable_as("CSV", source):
        frame = pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            header=0,
            names=names,
            index_col=False,
            skipinitialspace=True,
            low_memory=False,
        )
    return _tidied(frame, delimiter, source, notes)


def _text_of(content: bytes, source: str) -> tuple[str, list[str]]:
    """The text without comments before the names, and notes of what was done."""
    notes = []
    try:
        text = decoded(content, source)
    except DataError:
        if _CONTROL.search(content):
            raise
        text = content.decode("cp1252")  # as spreadsheets in Europe write it
        notes.append("letters of Windows-1252, not of UTF-8")
    lines = text.lstrip().splitlines(keepends=True)
    count = next((place for place, line in enumerate(lines) if not line.startswith("#")), 0)
    if not count or any(lines[count - 1].count(sign) == lines[count].count(sign) > 0 for sign in _DELIMITERS):
        return text, notes  # no comments, or the last one has a name for each column
    plural = "s" if count > 1 else ""
    return "".join(lines[count:]), [*notes, f"{count} line{plural} of comments left out"]


def decoded(content: bytes, source: str, what: str = "CSV") -> str:
    """Text in UTF-8, or an error that names the byte that is not."""
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


def _checked_rows(rows: Iterator[list[str]], source: str) -> tuple[list[str], bool]:
    """The names in the first line, and whether the first column only counts the rows, as pandas and R write it.

    Every row is checked to have the same number of cells.
    """
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
    counted: dict[int, int] = {}  # rows less their number in the first column
    for number, row in enumerate((row for row in rows if row), start=1):
        if len(row) != len(names):
            raise DataError(
                f"Each row must have {len(names)} cells, one for each name; row {number} of {source} has "
                f"{len(row)}. Correct that row; empty cells are missing values."
            )
        if not names[0] and row[0].strip().isdecimal():
            difference = number - int(row[0])
            counted[difference] = counted.get(difference, 0) + 1
        empty -= {place for place in empty if row[place].strip()}
    counts_rows = list(counted.items()) in ([(1, number)], [(0, number)]) if counted else False
    empty |= {0} if counts_rows else set()
    require_names([name or (NO_NAME if place in empty else "") for place, name in enumerate(names)], source)
    return [f"{NO_NAME}{place}" if place in empty else name for place, name in enumerate(names)], counts_rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _tidied(frame: pd.DataFrame, delimiter: str, source: str, notes: list[str]) -> Table:
    """Without empty columns and rows at the end, with decimal commas as points, and a note of it."""
    names = [name for name in frame.columns if not str(name).startswith(NO_NAME)]
    num_empty = int(frame[frame.columns.difference(names)].isna().all().sum())
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
        for count, what in ((num_empty, "column"), (len(frame) - num_rows, "row"))
        if count and num_rows
    ]
    told = [", ".join(kind)] if commas or left or notes else []
    parts = [*told, *notes, *([f"{' and '.join(left)} at the end left out"] if left else [])]
    note = "; ".join(part for part in parts if part)
    return Table(source, columns, notes=(note,) if note else ())


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


def read_arff(text: str, source: str) -> Table:
    """Weka's ARFF: a line for each attribute, then rows. SciPy's reader refuses names with spaces, and question marks.

    Columns are by attribute: numbers, categories with the levels of their declaration, and text; ? is missing.

    >>> table = read_arff("@attribute size {S, L}\\n@attribute y numeric\\n@data\\nL, 1\\n?, 2\\n", "here")
    >>> list(table.columns["size"]), list(table.columns["y"])
    (['L', nan], [1.0, 2.0])
    """
    head, data = _arff_parts(text, source)
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
    return Table(
        source, {name: _arff_column(cells[:, place], kind) for place, (name, kind) in enumerate(kinds.items())}
    )


def _arff_parts(text: str, source: str) -> tuple[list[str], list[str]]:
    """Lines before and after @data, without comments and empty lines."""
    lines = [line.strip() for line in io.StringIO(text)]
    lines = [line for line in lines if line and not line.startswith("%")]
    place = next((place for place, line in enumerate(lines) if line.lower().startswith("@data")), None)
    if place is None:
        raise DataError(f"{source} must be ARFF with an @data line; there is none. Is it the right file?")
    return lines[:place], lines[place + 1 :]


def _arff_column(cells: "np.ndarray[tuple[int], np.dtype[np.object_]]", kind: str) -> "pd.Series[Any]":
    column = pd.Series(
        [None if (cell := text.strip().strip('"')) in ("?", "") else cell for text in cells], dtype=object
    )
    if kind.startswith("{"):
        levels = [level.strip().strip("'\"") for level in kind.strip("{} \t").split(",")]
        known = column.isin(levels) | column.isna()
        return column.astype(pd.CategoricalDtype(levels)) if known.all() else column
    if kind.lower().split(" ")[0] not in _ARFF_NUMBERS:
        return column
    numbers = pd.to_numeric(column, errors="coerce")
    return column if (numbers.isna() & column.notna()).any() else numbers.astype(np.float64)
