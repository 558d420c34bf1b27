"""Named arrays in files, NumPy's .npz and MATLAB's .mat, as tables. Sizes are checked before memory is allocated."""

import io
import math
import zipfile
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mogul.data.sources.mat_files import read_matrices
from mogul.data.sources.table import Table, readable_as, require_room
from mogul.errors import DataError

_NUMBERS = "fiub"  # NumPy kinds: floats, integers, booleans


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
