"""Matrices of real numbers in MATLAB's .mat files of version 5 to 7.

SciPy reads the whole format, but can crash the process on a corrupted file. Here every size is checked against the
available bytes before it is used. The layout follows MathWorks' "MAT-File Format": elements with a tag of type and
size; a matrix is an element that contains elements: flags, sizes, name, values.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mogul.data.sources.table import require_room
from mogul.errors import DataError

_HDF5 = b"\x89HDF\r\n\x1a\n"
_HEADER_BYTES, _TAG_BYTES = 128, 8
_NAME, _MATRIX, _COMPRESSED = 1, 14, 15  # types of elements
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_COMPLEX = 0x800  # a flag of a matrix
_CLASSES = {1: "a cell array", 2: "a struct", 3: "an object", 4: "text", 5: "sparse", 16: "a function", 17: "an object"}
_NUMERIC_CLASSES = range(6, 16)


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
    if kind not in _NUMBERS:
        raise ValueError(f"an element of type {kind} stands where numbers belong")
    return np.frombuffer(data, dtype=order + _NUMBERS[kind]).astype(_NUMBERS[kind])


def _text(data: memoryview) -> str:
    return bytes(data).decode("latin-1").rstrip("\0")
