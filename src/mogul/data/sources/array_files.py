"""Named arrays in files, NumPy's .npz and MATLAB's .mat, as tables. Sizes are checked before memory is allocated."""

import io
import math
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mogul.data.sources.table import Table, readable_as, require_room
from mogul.errors import DataError

_NUMBERS = "fiub"  # NumPy kinds: floats, integers, booleans
# Of .mat files.
_HDF5 = b"\x89HDF\r\n\x1a\n"
_HEADER_BYTES, _TAG_BYTES = 128, 8
_NAME, _MATRIX, _COMPRESSED = 1, 14, 15  # types of elements
_NUMBER_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_COMPLEX = 0x800  # a flag of a matrix
_CLASSES = {1: "a cell array", 2: "a struct", 3: "an object", 4: "text", 5: "sparse", 16: "a function", 17: "an object"}
_NUMERIC_CLASSES = range(6, 16)


def read_npz(content: bytes, source: str) -> Table:
    """Arrays as `numpy.savez` writes them; one of (N, K) becomes K columns, and nothing is unpickled."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    unusable: dict[str, str] = {}
    with readable_as(".npz", source), zipfile.ZipFile(io.BytesIO(content)) as archive:
        require_room(0, source, num_columns=len(archive.infolist()))
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        _require_different([member.filename.removesuffix(".npy") for member in archive.infolist()], source)
        require_room(sum(member.file_size for member in members.values()), source)
        for name, member in members.items():
            reason = _refused(archive, member, source)
            if reason is None:
                with archive.open(member) as file:
                    arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
            else:
                unusable[name] = reason
    return _table(arrays, unusable, source)


def _refused(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str) -> str | None:
    """Why this member cannot be a table, from its first bytes; raises if its size differs from its header."""
    if not member.filename.endswith(".npy"):
        return "it is not an array"
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            return "it has fields with names"
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        stored = member.file_size - file.tell()
    reason = _no_columns(shape, dtype)
    claimed = math.prod(shape) * dtype.itemsize
    if reason is None and claimed != stored:
        raise DataError(
            f"Arrays must have the size in their header; {member.filename} in {source} claims {shape} of {dtype}, "
            f"{claimed:,} bytes, and holds {stored:,}. Do not trust this file."
        )
    if reason is None:
        _require_room_for([shape], source)
    return reason


def read_mat(content: bytes, source: str) -> Table:
    """Matrices as MATLAB's `save -v7` writes them; cells, structs and text are ignored."""
    with readable_as(".mat", source):
        found = list(read_matrices(content, source))
    _require_different([matrix.name for matrix in found], source)
    unusable = {matrix.name: matrix.refused for matrix in found if matrix.refused is not None}
    matrices = {matrix.name: matrix.values for matrix in found if matrix.values is not None}
    reasons = {name: _no_columns(matrix.shape, matrix.dtype) for name, matrix in matrices.items()}
    unusable |= {name: reason for name, reason in reasons.items() if reason is not None}
    tables = {name: matrix for name, matrix in matrices.items() if reasons[name] is None}
    _require_room_for([matrix.shape for matrix in tables.values()], source)
    return _table(_standing(tables), unusable, source)


def _standing(matrices: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Row vectors as columns, where their lengths match: MATLAB stores vectors as rows."""
    shapes = {matrix.shape for matrix in matrices.values()}
    longest = max((shape[0] for shape in shapes), default=0)
    only_vectors = len(matrices) > 1 and len(shapes) == 1 and longest == 1
    num_rows = max(shapes)[1] if only_vectors else longest
    return {name: matrix.T if matrix.shape == (1, num_rows) else matrix for name, matrix in matrices.items()}


def _no_columns(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str | None:
    """Why an array has no columns of numbers; None if it has."""
    if dtype.kind not in _NUMBERS:
        return f"its values are {dtype}, not real numbers"
    if len(shape) not in (1, 2) or 0 in shape[1:]:
        return f"its shape is {shape}, not (rows,) or (rows, columns)"
    return None


def _require_room_for(shapes: list[tuple[int, ...]], source: str) -> None:
    """Check the sizes of arrays; an array without rows may still claim any number of columns."""
    num_columns = sum(shape[1] if len(shape) == 2 else 1 for shape in shapes)
    require_room(8 * sum(math.prod(shape) for shape in shapes), source, num_columns)


def _table(arrays: Mapping[str, npt.NDArray[Any]], unusable: Mapping[str, str], source: str) -> Table:
    """One column per vector, and numbered columns per matrix."""
    _require_room_for([array.shape for array in arrays.values()], source)
    columns: dict[str, npt.NDArray[Any]] = {}
    several: dict[str, list[str]] = {}
    for name, array in arrays.items():
        if array.ndim == 1 or array.shape[1] == 1:
            parts = {name: array.reshape(-1)}
        else:
            parts = {f"{name}{place}": column for place, column in enumerate(array.T)}
            several[name] = list(parts)
        _require_different([*(columns.keys() & parts), *parts], source)
        columns |= parts
    if not columns:
        found = "; ".join(f"{name!r}: {reason}" for name, reason in list(unusable.items())[:3]) or "it is empty"
        raise DataError(f"A table must hold at least one array of numbers; {source} does not: {found}. Give some data.")
    return Table(source, columns, several, unusable)


def _require_different(names: list[str], source: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"Columns of arrays must have different names; {twice[0]!r} is in {source} twice. Rename an array."
        )


class Matrix(NamedTuple):
    """A variable: its numbers, or why it cannot be a column of a table."""

    name: str
    values: npt.NDArray[Any] | None
    refused: str | None


def read_matrices(content: bytes, source: str) -> Iterator[Matrix]:
    """The variables of a file, except MATLAB's internal ones, whose names begin with two underscores."""
    order = _byte_order(content, source)
    room = 0
    for kind, data in _elements(memoryview(content)[_HEADER_BYTES:], order):
        if kind == _COMPRESSED:
            kind, data = _next(_elements(memoryview(_inflated(data, order, source)), order), "tag")
        room += len(data)
        require_room(room, source)
        if kind != _MATRIX:
            raise ValueError(f"an element of type {kind} stands where a matrix belongs")
        matrix = _matrix(data, order)
        if matrix.name and not matrix.name.startswith("__"):
            yield matrix


def _byte_order(content: bytes, source: str) -> str:
    """Byte order from the mark in the file's header, which also identifies the format."""
    remedy = "Save it again in MATLAB by save(…, '-v7')."
    if content.startswith(_HDF5) or content[512:520] == _HDF5:
        raise DataError(f"A .mat file must be of version 5 to 7; {source} is of version 7.3, which is HDF5. {remedy}")
    mark = content[_HEADER_BYTES - 2 : _HEADER_BYTES]
    if mark not in (b"IM", b"MI"):
        found = f"its first bytes are {content[:8]!r}"
        raise DataError(f"A .mat file must be of version 5 to 7; {source} is not: {found}. {remedy}")
    return "<" if mark == b"IM" else ">"


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Types and contents of consecutive elements; small elements are stored inside the tag."""
    while len(data):
        if len(data) < _TAG_BYTES:
            raise ValueError(f"it ends within a tag, after {len(data)} bytes of {_TAG_BYTES}")
        kind, size = struct.unpack(f"{order}II", data[:_TAG_BYTES])
        start, end = _TAG_BYTES, _TAG_BYTES + size
        if small := kind >> 16:
            kind, start, end = kind & 0xFFFF, _TAG_BYTES // 2, _TAG_BYTES // 2 + small
            if end > _TAG_BYTES:
                raise ValueError(f"an element within a tag claims {small} bytes of {_TAG_BYTES // 2}")
        if end > len(data):
            raise ValueError(f"an element claims {end - start:,} bytes where {len(data) - start:,} are")
        yield kind, data[start:end]
        padded = end if kind == _COMPRESSED else end + -end % _TAG_BYTES
        data = data[padded:]


def _inflated(data: memoryview, order: str, source: str) -> bytes:
    """The element inside a compressed one, up to the size in its tag."""
    stream = zlib.decompressobj()
    tag = stream.decompress(data, _TAG_BYTES)
    size = struct.unpack(f"{order}II", tag)[1]
    require_room(size, source)
    rest = stream.decompress(stream.unconsumed_tail, size + 1)
    stream.decompress(stream.unconsumed_tail, 1)  # up to the checksum
    if len(rest) != size or not stream.eof:
        raise ValueError(f"a compressed matrix claims {size:,} bytes, and is cut or longer")
    return tag + rest


def _matrix(data: memoryview, order: str) -> Matrix:
    parts = _elements(data, order)
    flags = struct.unpack(f"{order}I", _next(parts, "flags")[1][:4])[0]
    if flags & 0xFF not in _NUMERIC_CLASSES:
        name = next((_text(part) for kind, part in parts if kind == _NAME), "")
        return Matrix(name, None, f"it is {_CLASSES.get(flags & 0xFF, 'of an unknown class')}")
    shape = tuple(int(size) for size in _values(*_next(parts, "sizes"), order))
    name = _text(_next(parts, "name")[1])
    if flags & _COMPLEX:
        return Matrix(name, None, "its values are complex, not real numbers")
    values = _values(*_next(parts, "values"), order)
    if min(shape, default=0) < 0 or math.prod(shape) != len(values):
        raise ValueError(f"{name!r} claims the shape {shape} and holds {len(values)} numbers")
    return Matrix(name, values.reshape(shape, order="F"), None)


def _next(parts: Iterator[tuple[int, memoryview]], what: str) -> tuple[int, memoryview]:
    part = next(parts, None)
    if part is None:
        raise ValueError(f"a matrix ends before its {what}")
    return part


def _values(kind: int, data: memoryview, order: str) -> npt.NDArray[Any]:
    if kind not in _NUMBER_TYPES:
        raise ValueError(f"an element of type {kind} stands where numbers belong")
    return np.frombuffer(data, dtype=order + _NUMBER_TYPES[kind]).astype(_NUMBER_TYPES[kind])


def _text(data: memoryview) -> str:
    return bytes(data).decode("latin-1").rstrip("\0")
