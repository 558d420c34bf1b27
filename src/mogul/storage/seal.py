"""The outside of a sealed file: its header and its SHA-256, checked without taking its tensors into memory."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from mogul.errors import FileError

FORMAT = 1
KEY = "mogul"
_LENGTH_BYTES = 8  # of safetensors: the length of its header comes first
NO_DIGEST = "0" * 64  # stands where the digest will be while it is computed
_MAX_HEADER = 100_000_000  # safetensors' own limit
_BLOCK = 2**20


def read_header(path: Path) -> dict[str, Any]:
    """Our part of the header of a file that is whole and unchanged since it was sealed; anything else is refused."""
    with opened(path) as file:
        return checked_header(path, file)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file to read from, or an error that says why there is none."""
    if not path.is_file():
        raise FileError(f"The model file must be there; {path} is no file. Check its path.")
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"The model file must be readable; {path} is not: {error.strerror}. Check it.") from error


def checked_header(path: Path, file: BinaryIO) -> dict[str, Any]:
    """The same of an open file, whose tensors are only passed through the digest."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(_LENGTH_BYTES + 1)
    length = int.from_bytes(start[:_LENGTH_BYTES], "little")
    if start[_LENGTH_BYTES:] != b"{":
        _refuse(path, f"its first bytes are {start!r}")
    if length > min(size - _LENGTH_BYTES, _MAX_HEADER):
        _refuse(path, f"its header would take {length:,} bytes of {size:,}")
    start += file.read(length - 1)
    header = _parsed(path, start[_LENGTH_BYTES:], size - len(start))
    found = str(header.get("sha256"))
    digest = hashlib.sha256(start.replace(found.encode(), NO_DIGEST.encode(), 1))
    while block := file.read(_BLOCK):
        digest.update(block)
    if len(found) != len(NO_DIGEST) or digest.hexdigest() != found:
        raise FileError(
            f"A model file must have the SHA-256 that it was sealed with; {path} has changed since. "
            "Copy it again from where it was written."
        )
    return header


def _parsed(path: Path, text: bytes, num_bytes: int) -> dict[str, Any]:
    """Our part of safetensors' header, of a format we know, with all of its tensors in the file."""
    try:
        outer = json.loads(text)
        promised = max((entry["data_offsets"][1] for name, entry in outer.items() if name != "__metadata__"), default=0)
        header = json.loads(outer["__metadata__"][KEY])
        known = isinstance(header["format"], int) and isinstance(promised, int)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        known = False
    if not known:
        _refuse(path, "its header is not one of mogul's")
    if header["format"] > FORMAT:
        raise FileError(
            f"A model file must have format {FORMAT} or older; {path} has format {header['format']}. Update mogul."
        )
    if promised != num_bytes:
        raise FileError(
            f"A model file must be complete; {path} holds {num_bytes:,} bytes of tensors where {promised:,} belong. "
            "Copy it again from where it was written."
        )
    return dict(header)


def _refuse(path: Path, found: str) -> NoReturn:
    raise FileError(f"A model file must be one that mogul wrote; {path} is not: {found}. Give a file made by save.")
