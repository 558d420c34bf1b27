"""Tables in several files with the same columns, read in parts: Parquet, Arrow and CSV of any size.

Only a part of the rows is in memory at a time. Columns must be numbers, but for that of group labels.
"""

import csv
import glob
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array
from mogul.data.checks import require_finite_inputs, require_no_infinity, require_squares
from mogul.data.sources.formats import read_table
from mogul.data.sources.table import max_bytes, readable_as, require_names
from mogul.errors import ConfigError, DataError, FileError, import_extra

ROWS_AT_ONCE = 2**16
_WILDCARDS = "*?["
_CSV, _ARROW = (".csv", ".tsv", ".txt"), (".feather", ".arrow")
SUFFIXES = (".parquet", *_ARROW, *_CSV)
_BUFFER = 2**20  # bytes of a file that are read at once
_HEAD = 2**20  # bytes of a text file that its number of rows is estimated from
_COPIES = 3  # that a table read whole is held in while it is checked, scaled and trained on

Where = str | PathLike[str] | Sequence[str | PathLike[str]]


def names_files(where: Any) -> bool:
    """Whether this names several tables: a pattern with * ? or [, a folder, or a list of paths.

    >>> names_files("rows/*.parquet"), names_files("jura.csv"), names_files([[0.0]]), names_files(["a.csv", "b.csv"])
    (True, False, False, True)
    """
    if isinstance(where, str | PathLike):
        path = Path(where)
        return path.is_dir() or (any(sign in str(path) for sign in _WILDCARDS) and not path.is_file())
    return isinstance(where, list | tuple) and bool(where) and all(isinstance(each, str | PathLike) for each in where)


def paths_of(where: Where) -> tuple[Path, ...]:
    """The files of a pattern, of a folder or of a list, each once, in order of their names within a pattern."""
    each = [where] if isinstance(where, str | PathLike) else list(where)
    found: dict[Path, None] = {}
    for one in each:
        found |= dict.fromkeys(_paths_of(Path(one)))
    for path in found:
        if path.suffix.lower() not in SUFFIXES:
            raise DataError(
                f"Tables that are read in parts must end in {', '.join(SUFFIXES)}; got {path}. Convert it, or name "
                "other files."
            )
    return tuple(found)


def _paths_of(path: Path) -> list[Path]:
    if path.is_dir():
        paths = sorted(each for each in path.iterdir() if each.is_file() and each.suffix.lower() in SUFFIXES)
    elif path.is_file():
        paths = [path]
    else:
        paths = sorted(Path(each) for each in glob.glob(str(path), recursive=True) if Path(each).is_file())
    if not paths and path.is_dir():
        raise FileError(
            f"A folder must have tables in it; {path} has none. Name one with files that end in {', '.join(SUFFIXES)}."
        )
    if not paths:
        raise FileError(
            f"A pattern must match at least one table; {str(path)!r} matches none. Check the folder, and the ending: "
            f"{', '.join(SUFFIXES)}."
        )
    return paths


def stays_on_disk(where: Any, stream: bool | None) -> bool:
    """Whether the rows of files stay on disk: where this is asked for, or where memory has no room for several files.

    >>> stays_on_disk("jura.csv", None)
    False
    """
    if stream is None:
        return names_files(where) and not fits_into_memory(paths_of(where))
    if stream and not isinstance(where, str | PathLike | list | tuple):
        raise ConfigError(f"stream needs the path of a table, or several; got {type(where).__name__}. Leave it out.")
    return stream


def fits_into_memory(paths: Sequence[Path]) -> bool:
    """Whether all rows, with the copies that training makes of them, stay below the limit of memory."""
    columns = len(_columns_of(paths[0]))
    return 8 * _COPIES * columns * sum(map(_about_rows, paths)) <= max_bytes()


def whole_frame(where: Where) -> pd.DataFrame:
    """All rows of several files in memory, with columns of any type."""
    paths = paths_of(where)
    _require_same_names({path: _columns_of(path) for path in paths})
    tables = [read_table(path) for path in paths]
    return pd.concat([table.frame(list(table.columns)) for table in tables], ignore_index=True)


@dataclass(frozen=True)
class FilePart:
    """Consecutive rows of one file: the columns asked for, in float64, and group labels.

    Args:
        values: columns in the order asked for; NaN where a value is missing.
        labels: group labels of the rows; None where none were asked for.
        path: the file.
        first: the number of the first row in the file, from 0.
        frame: further columns as they are.
    """

    values: Float[Array, "N K"]
    labels: Any
    path: Path
    first: int
    frame: pd.DataFrame | None = None


@dataclass(frozen=True)
class RowFiles:
    """Columns of several files, with the same columns each.

    Args:
        paths: the files.
        targets: columns to predict; none where only inputs are read.
        inputs: columns to predict from.
        groups: the column of group labels.
        kept: further columns of any type.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     for name in ("a", "b"):
        ...         pd.DataFrame({"x": [0.0, 1.0], "y": [2.0, None]}).to_csv(f"{folder}/{name}.csv", index=False)
        ...     files = RowFiles.of(f"{folder}/*.csv", ["y"])
        ...     files.inputs, sum(len(part.values) for part in files.parts())
        (('x',), 4)
    """

    paths: tuple[Path, ...]
    targets: tuple[str, ...]
    inputs: tuple[str, ...]
    groups: str | None = None
    kept: tuple[str, ...] = ()

    @staticmethod
    def of(
        where: Where,
        targets: Sequence[str],
        inputs: Sequence[str] | None = None,
        groups: str | None = None,
        kept: Sequence[str] = (),
        prefix: str = "",
    ) -> "RowFiles":
        """Files whose columns are checked: the same names in each, and types that are numbers.

        `prefix` is that of arguments' names in errors: "--" on a command line.
        """
        paths = paths_of(where)
        kinds = {path: _columns_of(path) for path in paths}
        first = kinds[paths[0]]
        own = [name for name in (groups, *kept) if name is not None]
        for option, names in (("targets", targets), ("inputs", inputs or ()), ("groups", own[:1] if groups else ())):
            for path in paths:
                _require_columns(names, kinds[path], path, f"{prefix}{option}")
        if inputs is None:
            inputs = [name for name in first if name not in targets and name != groups]
            _require_same_names(kinds)
        both = sorted(set(inputs) & set(targets))
        if both:
            raise ConfigError(f"A column must be an input or a target; {both[0]!r} is both. Leave it out of one.")
        if not inputs:
            raise DataError(
                f"Files must have columns to predict from; all of {paths[0]} are targets. Leave some out of "
                f"{prefix}targets."
            )
        for path, columns in kinds.items():
            _require_columns(kept, columns, path, f"{prefix}keep")
            _require_numbers([*inputs, *targets], columns, path, prefix)
        return RowFiles(paths, tuple(targets), tuple(inputs), groups, tuple(kept))

    @property
    def about_rows(self) -> int:
        """The number of rows: from the files' own records, or estimated for text."""
        return sum(_about_rows(path) for path in self.paths)

    def num_rows_of(self, path: Path) -> int:
        """The number of rows of one file; of text by reading it."""
        if path.suffix.lower() in _CSV:
            return sum(len(part.values) for part in self.parts_of(path))
        return _about_rows(path)

    def rows_of(self, path: Path, first: int, last: int, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[FilePart]:
        """The rows of one file from `first` on and before `last`, at most so many at once."""
        for part in self.parts_of(path, rows_at_once, first):
            begin, end = max(first - part.first, 0), min(last - part.first, len(part.values))
            if part.first >= last:
                return
            if end > begin:
                labels = None if part.labels is None else part.labels[begin:end]
                frame = None if part.frame is None else part.frame[begin:end]
                yield FilePart(part.values[begin:end], labels, path, part.first + begin, frame)

    def only_groups(self) -> "RowFiles":
        """The same files for the column of group labels alone."""
        return replace(self, targets=(), inputs=(), kept=())

    def parts(self, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[FilePart]:
        """All rows, file by file, in their order."""
        for path in self.paths:
            yield from self.parts_of(path, rows_at_once)

    def parts_of(self, path: Path, rows_at_once: int = ROWS_AT_ONCE, after: int = 0) -> Iterator[FilePart]:
        """The rows of one file in their order, checked: inputs finite, outputs finite or missing.

        Some of the rows before `after` may be left out.
        """
        names = [*self.inputs, *self.targets]
        groups, first = _groups_after(path, after)
        others = [name for name in dict.fromkeys((self.groups, *self.kept)) if name is not None]
        for values, frame in _read(path, names, others, rows_at_once, groups):
            with _located(path, first):
                require_finite_inputs(values[:, : len(self.inputs)], list(self.inputs))
                require_no_infinity(values[:, len(self.inputs) :], list(self.targets))
                require_squares(values, names)
            labels = None if self.groups is None else frame[self.groups].to_numpy()
            yield FilePart(values, labels, path, first, frame[list(self.kept)])
            first += len(values)


@contextmanager
def _located(path: Path, first: int) -> Iterator[None]:
    """Say in an error about rows which file they are from."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{error} Rows are counted from row {first} of {path}.") from None


def _columns_of(path: Path) -> dict[str, str]:
    """Names of a file's columns and their types; for text, whose types are not known, an empty one."""
    with readable_as(path.suffix, str(path)):
        if path.suffix.lower() in _CSV:
            names = _header(path)[1]
            require_names(names, str(path))
            return dict.fromkeys(names, "")
        schema = _schema(path)
    require_names(schema.names, str(path))
    return {field.name: str(field.type) for field in schema if not field.name.startswith("__index_level_")}


def _schema(path: Path) -> Any:
    if path.suffix.lower() == ".parquet":
        with _arrow(path, "pyarrow.parquet").ParquetFile(path) as file:
            return file.schema_arrow
    pyarrow = _arrow(path, "pyarrow")
    with pyarrow.memory_map(str(path)) as file:
        return pyarrow.ipc.open_file(file).schema


def _arrow(path: Path, module: str) -> Any:
    return import_extra(f"Reading {path}", "parquet", module, ", or convert the files to CSV", FileError)


def _header(path: Path) -> tuple[str, list[str]]:
    """The delimiter of a text file, the one of , ; and tab that its first line has most of, and its names."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline()
    delimiter = max(",;\t", key=line.count)
    return delimiter, [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]


def _about_rows(path: Path) -> int:
    with readable_as(path.suffix, str(path)):
        if path.suffix.lower() == ".parquet":
            with _arrow(path, "pyarrow.parquet").ParquetFile(path) as file:
                return int(file.metadata.num_rows)
        if path.suffix.lower() in _ARROW:
            pyarrow = _arrow(path, "pyarrow")
            with pyarrow.memory_map(str(path)) as source:
                batches = pyarrow.ipc.open_file(source)
                return sum(batches.get_batch(place).num_rows for place in range(batches.num_record_batches))
        with path.open("rb") as text:
            head = text.read(_HEAD)
        lines = max(1, head.count(b"\n"))
        return round(lines * path.stat().st_size / max(1, len(head)))


def _read(
    path: Path, names: list[str], others: list[str], rows_at_once: int, groups: list[int] | None
) -> Iterator[tuple[Float[Array, "N K"], pd.DataFrame]]:
    """Numbers of some columns, and others as they are."""
    suffix = path.suffix.lower()
    with readable_as(suffix, str(path)):
        if suffix == ".parquet":
            yield from _read_parquet(path, names, others, rows_at_once, groups)
        else:
            yield from (_read_text if suffix in _CSV else _read_arrow)(path, names, others, rows_at_once)


def _read_text(
    path: Path, names: list[str], others: list[str], rows_at_once: int
) -> Iterator[tuple[Float[Array, "N K"], pd.DataFrame]]:
    delimiter, header = _header(path)
    kinds = dict.fromkeys(names, "float64") | {name: "object" for name in others if name not in names}
    wanted = [*names, *(name for name in others if name not in names)]
    chunks = pd.read_csv(
        path,
        sep=delimiter,
        names=header,
        header=0,
        index_col=False,
        usecols=wanted,
        dtype=kinds,
        chunksize=rows_at_once,
        encoding="utf-8-sig",
    )
    with chunks:
        for chunk in chunks:
            yield np.ascontiguousarray(chunk[names].to_numpy(np.float64)), chunk[others].reset_index(drop=True)


def _groups_after(path: Path, after: int) -> tuple[list[int] | None, int]:
    """The groups of rows of a Parquet file that are not before a row, and the number of their first row."""
    if not after or path.suffix.lower() != ".parquet":
        return None, 0
    with _arrow(path, "pyarrow.parquet").ParquetFile(path) as file:
        sizes = [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)]
    ends = np.cumsum(sizes)
    left = int(np.searchsorted(ends, after, side="right"))
    return list(range(left, len(sizes))), int(ends[left - 1]) if left else 0


def _read_parquet(
    path: Path, names: list[str], others: list[str], rows_at_once: int, groups: list[int] | None
) -> Iterator[tuple[Float[Array, "N K"], pd.DataFrame]]:
    # Through a buffer: otherwise whole columns of a group of rows are read at once.
    module = _arrow(path, "pyarrow.parquet")
    with module.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
        columns = list(dict.fromkeys([*names, *others]))
        for batch in file.iter_batches(rows_at_once, groups, columns, use_threads=False):
            yield _numbers(batch, names, path), _frame(batch, others)


def _read_arrow(
    path: Path, names: list[str], others: list[str], rows_at_once: int
) -> Iterator[tuple[Float[Array, "N K"], pd.DataFrame]]:
    pyarrow = _arrow(path, "pyarrow")
    with pyarrow.memory_map(str(path)) as source:
        file = pyarrow.ipc.open_file(source)
        for place in range(file.num_record_batches):
            whole = file.get_batch(place)
            for first in range(0, whole.num_rows, rows_at_once):
                batch = whole.slice(first, rows_at_once)
                yield _numbers(batch, names, path), _frame(batch, others)


def _numbers(batch: Any, names: list[str], path: Path) -> Float[Array, "N K"]:
    compute = _arrow(path, "pyarrow.compute")
    values = np.empty((batch.num_rows, len(names)))
    for place, name in enumerate(names):
        column = compute.cast(batch.column(name), "float64", safe=False)
        values[:, place] = column.to_numpy(zero_copy_only=False)
    return values


def _frame(batch: Any, names: list[str]) -> pd.DataFrame:
    return pd.DataFrame({name: batch.column(name).to_pandas() for name in names}, index=range(batch.num_rows))


def _require_columns(names: Iterable[str], columns: dict[str, str], path: Path, option: str) -> None:
    for name in names:
        if name not in columns:
            raise DataError(
                f"{option} must name columns of every file; {name!r} is not in {path}, which has "
                f"{', '.join(columns)}. Leave that file or that column out."
            )


def _require_same_names(kinds: dict[Path, dict[str, str]]) -> None:
    (first, columns), *others = kinds.items()
    for path, own in others:
        different = sorted(set(columns) ^ set(own))
        if different:
            with_it, without = (first, path) if different[0] in columns else (path, first)
            raise DataError(
                f"Files must have the same columns; {different[0]!r} is in {with_it} and not in {without}. Name the "
                "inputs, or leave one of these files out."
            )


def _require_numbers(names: Iterable[str], columns: dict[str, str], path: Path, prefix: str) -> None:
    for name in names:
        kind = columns[name]
        if kind and not kind.startswith(("int", "uint", "float", "half", "double", "bool", "decimal", "null")):
            raise DataError(
                f"Columns of files that are read in parts must be numbers; {name!r} of {path} holds {kind}. Leave it "
                f"out by {prefix}inputs, encode it as numbers, or read the files whole: a larger limit of memory."
            )
