"""Sealed files: tensors and a JSON header in one safetensors file, with a SHA-256 of all of it, written atomically."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mogul.errors import FileError
from mogul.storage.atomic import write_whole
from mogul.storage.seal import FORMAT, KEY, NO_DIGEST, checked_header, opened


def write_sealed(path: Path, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write all or nothing: a reader never sees half a file, and a failure leaves nothing behind."""
    from safetensors.torch import save

    text = json.dumps({"format": FORMAT, "sha256": NO_DIGEST, **header})
    # Copies, since tensors that share memory would be refused.
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    content = save(copies, {KEY: text})
    digest = hashlib.sha256(content).hexdigest()
    # The header comes first, and the digest first in it: the first place that looks like it is it.
    _write(path, content.replace(NO_DIGEST.encode(), digest.encode(), 1))


def read_sealed(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a sealed file; anything else is refused before memory is taken or anything is built."""
    from safetensors import SafetensorError
    from safetensors.torch import load

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
