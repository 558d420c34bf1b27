"""Sealed files: tensors and settings in one safetensors file, with a SHA-256 of all of it, written atomically.

Settings are plain JSON: numbers, names, and mogul's own small parts by name and parameters, nothing else.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from mogul import registry
from mogul.config import InferenceConfig, Stopping, TrainingConfig
from mogul.errors import FileError
from mogul.objective import Analytic, MonteCarlo
from mogul.objective.updates import NaturalGradient, NoiseUpdate
from mogul.storage.atomic import write_whole
from mogul.storage.header import FORMAT, KEY, NO_DIGEST, checked_header, opened

Tensors = dict[str, Tensor]
for _kind in (Analytic, InferenceConfig, MonteCarlo, NaturalGradient, NoiseUpdate, Stopping, TrainingConfig):
    registry.storable()(_kind)  # parts of models say so themselves
# What would take all memory, or for ever: quadrature rules are computed when a part is made, draws in predictions.
_MOST = {"order": 1000, "num_samples": 10_000, "steps": 100_000, "num_nodes": 1000, "max_iterations": 100_000}
_LARGEST = 1e18


def write_sealed(path: Path, header: dict[str, Any], tensors: Tensors) -> None:
    """Write all or nothing: a reader never sees half a file, and a failure leaves nothing behind."""
    text = json.dumps({"format": FORMAT, "sha256": NO_DIGEST, **header})
    # Copies, since tensors that share memory would be refused.
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = save(copies, {KEY: text})
    digest = hashlib.sha256(content).hexdigest()
    # The header comes first, and the digest first in it: the first place that looks like it is it.
    _write(path, content.replace(NO_DIGEST.encode(), digest.encode(), 1))


def read_sealed(path: Path) -> tuple[dict[str, Any], Tensors]:
    """Header and tensors of a sealed file; anything else is refused before memory is taken or anything is built."""
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


def encode(value: Any, name: str) -> Any:
    """What JSON can hold of a setting of this name, or an error: code is never stored.

    >>> from mogul.nonlinearities import Erf
    >>> encode((Erf(shift=1.0), 3), "option")
    [{'part': 'Erf', 'settings': {'shift': 1.0}}, 3]
    """
    if isinstance(value, np.generic):  # numbers from a grid of settings
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [encode(item, name) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"settings": {key: encode(item, f"{name}[{key!r}]") for key, item in value.items()}}
    if (settings := registry.stored_settings(value)) is not None:
        plain = {field: encode(item, f"{name}.{field}") for field, item in settings.items()}
        return {"part": type(value).__name__, "settings": plain}
    raise FileError(
        f"{name} must be made of numbers, names and mogul's own parts to be saved; got {value!r}. "
        "A file holds no code: use one of mogul's own, or keep this model in memory."
    )


def decode(plain: Any) -> Any:
    """The setting that was encoded; lists come back as tuples.

    >>> from mogul.nonlinearities import Erf
    >>> decode([{"part": "Erf", "settings": {"shift": 1.0}}, 3])
    (Erf(shift=1.0), 3)
    """
    if isinstance(plain, list):
        return tuple(decode(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    settings = {key: decode(item) for key, item in plain["settings"].items()}
    if "part" not in plain:
        return settings
    if (kind := registry.stored_class(plain["part"])) is None:
        raise FileError(
            f"Parts in a model file must be among {', '.join(registry.storable_classes())}; got {plain['part']!r}. "
            "Update mogul."
        )
    settings = settings_of_today(plain["part"], settings)
    _require_possible(kind, settings)
    return kind(**settings)


def _require_possible(kind: type, settings: Mapping[str, Any]) -> None:
    """Check types and ranges of a part's settings, before it is made."""
    hints = get_type_hints(kind if is_dataclass(kind) else vars(kind)["__init__"])
    for name, value in settings.items():
        if name in hints and not _is(value, hints[name]):
            raise FileError(f"{name} of {kind.__name__} must be {_words(hints[name])}; got {value!r}. Do not trust it.")
        if value is not None and name in _MOST and value > _MOST[name]:
            raise FileError(f"{name} must be at most {_MOST[name]} in a model file; got {value}. Do not trust it.")


def _is(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; numbers must be finite."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_is(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        return isinstance(value, tuple) and all(_is(item, parts[0]) for item in value)
    if hint in (int, float):
        allowed = int if hint is int else int | float
        return isinstance(value, allowed) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST
    return isinstance(value, hint)


def _words(hint: Any) -> str:
    return str(getattr(hint, "__name__", hint)).replace("typing.", "")


def settings_of_today(part: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a part as it is now; rows were once held out in stretches, which say nothing of a trained model.

    >>> settings_of_today("Stopping", {"patience": 4, "num_stretches": 5})
    {'patience': 4}
    """
    gone = {"num_stretches"} if part == "Stopping" else set()
    return {name: value for name, value in settings.items() if name not in gone}
