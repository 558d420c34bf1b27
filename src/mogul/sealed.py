"""Sealed files: tensors and a JSON header in one safetensors file, with a SHA-256 of all of it, written atomically."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from mogul.errors import FileError
from mogul.files import write_whole

FORMAT = 1
_KEY = "mogul"
_LENGTH_BYTES = 8  # of safetensors: the length of its header comes first
_MAX_HEADER = 100_000_000  # safetensors' own limit
_NO_DIGEST = "0" * 64  # stands where the digest will be while it is computed


def write_sealed(path: Path, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write all or nothing: a reader never sees half a file, and a failure leaves nothing behind."""
    from safetensors.torch import save

    text = json.dumps({"format": FORMAT, "sha256": _NO_DIGEST, **header})
    # Copies, since tensors that share memory would be refused.
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    content = save(copies, {_KEY: text})
    # The header comes first, and the digest first in it: the first place that looks like it is it.
    _write(path, content.replace(_NO_DIGEST.encode(), _digest(content).encode(), 1))


def read_sealed(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a sealed file; anything else is refused before memory is taken or anything is built."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = _read(path)
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = _header(path, content[_LENGTH_BYTES : _LENGTH_BYTES + length], len(content) - _LENGTH_BYTES - length)
    found = str(header.get("sha256"))
    if len(found) != len(_NO_DIGEST) or _digest(content.replace(found.encode(), _NO_DIGEST.encode(), 1)) != found:
        raise FileError(
            f"A model file must have the SHA-256 that it was sealed with; {path} has changed since. "
            "Copy it again from where it was written."
        )
    try:
        # Cloned, tensors lie where torch aligns them: sums of unaligned ones may round in another order.
        return header, {name: tensor.clone() for name, tensor in load(content).items()}
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise FileError(f"Tensors in a model file must be readable; {path}: {error}. Do not trust it.") from error


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, lambda partial: partial.write_bytes(content))
    except OSError as error:
        raise FileError(
            f"The file must be writable; {path} is not: {error.strerror}. Choose a folder that exists and has room."
        ) from error


def _read(path: Path) -> bytes:
    """The whole file, once its first bytes say that it can be one of ours."""
    if not path.is_file():
        raise FileError(f"The model file must be there; {path} is no file. Check its path.")
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(_LENGTH_BYTES + 1)
            length = int.from_bytes(start[:_LENGTH_BYTES], "little")
            if start[_LENGTH_BYTES:] != b"{":
                _refuse(path, f"its first bytes are {start!r}")
            if length > min(size - _LENGTH_BYTES, _MAX_HEADER):
                _refuse(path, f"its header would take {length:,} bytes of {size:,}")
            return start + file.read()
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"The model file must be readable; {path} is not: {error.strerror}. Check it.") from error


def _header(path: Path, text: bytes, num_bytes: int) -> dict[str, Any]:
    """Our part of safetensors' header, of a format we know, with all of its tensors in the file."""
    try:
        outer = json.loads(text)
        promised = max((entry["data_offsets"][1] for name, entry in outer.items() if name != "__metadata__"), default=0)
        header = json.loads(outer["__metadata__"][_KEY])
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


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
