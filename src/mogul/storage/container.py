"""Sealed files: tensors and a JSON header in one safetensors file, with a SHA-256 of all of it, written atomically.

A header is read and checked without torch: `mogul show` needs no more.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from mogul.errors import FileError
from mogul.storage.atomic import write_whole

# Files with transformed outputs or encoded inputs have formats of their own: older versions would overlook them.
FORMAT, FORMAT_WITH_TRANSFORMS, FORMAT_WITH_ENCODING = 1, 2, 3
Tensors = dict[str, Any]  # torch.Tensor by name
KEY = "mogul"
_LENGTH_BYTES = 8  # of safetensors: the length of its header comes first
NO_DIGEST = "0" * 64  # stands where the digest will be while it is computed
_DIGEST = re.compile(r"[0-9a-f]{64}")
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
    found = header.get("sha256")
    if not (isinstance(found, str) and _DIGEST.fullmatch(found)):
        _refuse(path, f"its SHA-256 is {ascii(found)[:80]}")
    digest = hashlib.sha256(start.replace(found.encode(), NO_DIGEST.encode(), 1))
    while block := file.read(_BLOCK):
        digest.update(block)
    if digest.hexdigest() != found:
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
    if header["format"] > FORMAT_WITH_ENCODING:
        raise FileError(
            f"A model file must have format {FORMAT_WITH_ENCODING} or older; {path} has format {header['format']}. "
            "Update mogul."
        )
    if promised != num_bytes:
        raise FileError(
            f"A model file must be complete; {path} holds {num_bytes:,} bytes of tensors where {promised:,} belong. "
            "Copy it again from where it was written."
        )
    return dict(header)


def _refuse(path: Path, found: str) -> NoReturn:
    raise FileError(f"A model file must be one that mogul wrote; {path} is not: {found}. Give a file made by save.")


def write_sealed(path: Path, header: dict[str, Any], tensors: Tensors) -> None:
    """Write all or nothing: a reader never sees half a file, and a failure leaves nothing behind."""
    from safetensors.torch import save  # headers are read without torch

    text = json.dumps({"format": FORMAT, "sha256": NO_DIGEST, **header})
    # Copies, since tensors that share memory would be refused.
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = save(copies, {KEY: text})
    digest = hashlib.sha256(content).hexdigest()
    # The header comes first, and the digest first in it: the first place that looks like it is it.
    _write(path, content.replace(NO_DIGEST.encode(), digest.encode(), 1))


def read_sealed(path: Path) -> tuple[dict[str, Any], Tensors]:
    """Header and tensors of a sealed file; anything else is refused before memory is taken or anything is built."""
    from safetensors import SafetensorError
    from safetensors.torch import load  # headers are read without torch

    with opened(path) as file:
        header = checked_header(path, file)
        file.seek(0)
        content = file.read()
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


def choice_of_today(choice: dict[str, Any] | None, model: str) -> dict[str, Any] | None:
    """A choice as headers have it; those of old were between noises of one model, and named the chosen noise alone.

    >>> old = {"chosen": "gp", "candidates": [{"noise": "gp", "ll": 1.0}], "num_held_out": 9}
    >>> choice_of_today(old, "mogp")["chosen"]
    {'model': 'mogp', 'noise': 'gp', 'll': 1.0}
    """
    if choice is None or not isinstance(choice["chosen"], str):
        return choice
    candidates = [{"model": model} | candidate for candidate in choice["candidates"]]
    (chosen,) = (candidate for candidate in candidates if candidate["noise"] == choice["chosen"])
    return choice | {"chosen": chosen, "candidates": candidates}


def settings_of_today(part: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a part as it is now; rows were once held out in stretches, which say nothing of a trained model.

    >>> settings_of_today("Stopping", {"patience": 4, "num_stretches": 5})
    {'patience': 4}
    """
    gone = {"num_stretches"} if part == "Stopping" else set()
    return {name: value for name, value in settings.items() if name not in gone}
