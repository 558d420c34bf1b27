"""The header of a file, read and checked without torch: `mogul show` needs no more.

Numbers of outputs and inputs are bounded by the lists of names and of scalings beside them, which are in the file;
other fields are checked by who reads them.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from mogul.core.check import HOW
from mogul.errors import DataError, FileError
from mogul.storage import rules

# Files with transformed outputs, encoded inputs or a chain of outputs have formats of their own: older versions would
# overlook them.
FORMAT, FORMAT_WITH_TRANSFORMS, FORMAT_WITH_ENCODING, FORMAT_WITH_CHAIN = 1, 2, 3, 4
KEY = "mogul"
_LENGTH_BYTES = 8  # of safetensors: the length of its header comes first
NO_DIGEST = "0" * 64  # stands where the digest will be while it is computed
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_HEADER = 100_000_000  # safetensors' own limit
_BLOCK = 2**20
# Terms of an epoch may be NaN or infinite where training broke down.
_COLUMNS = {
    **dict.fromkeys(("elbo", "ell", "kl", "log_prior", "jitter"), rules.each(rules.any_number)),
    **dict.fromkeys(("learning_rate", "kl_weight", "seconds"), rules.each(rules.number)),
    **dict.fromkeys(("start", "epoch"), rules.each(rules.whole)),
}
_HISTORY = rules.both(
    rules.having(chosen_start=rules.whole, columns=rules.having(**_COLUMNS)),
    rules.with_optional(
        held_out=rules.or_none(rules.any_number),
        interrupted=rules.flag,
        num_rows=rules.or_none(rules.whole),
        kept_epochs=rules.or_none(rules.whole),
        retrained=rules.flag,
        quick=rules.flag,
    ),
)
_LAYOUTS = rules.values(rules.each(rules.whole))
_STANDARDISER = rules.having(shift=rules.each(rules.number), scale=rules.each(rules.number))
_SCALING = rules.both(
    rules.having(inputs=_STANDARDISER, outputs=_STANDARDISER),
    rules.with_optional(chain=rules.each(rules.each(rules.number)), chained=_STANDARDISER),
)
_CANDIDATE = rules.with_optional(
    model=rules.text, noise=rules.text, ll=rules.or_none(rules.any_number), epochs=rules.whole, seconds=rules.number
)
_CHOICE = rules.having(candidates=rules.each(_CANDIDATE), num_held_out=rules.whole, chosen=rules.plain)
_MEMBER = rules.both(
    rules.having(options=rules.values(rules.plain), layouts=_LAYOUTS, chosen_start=rules.whole),
    rules.having(held_out=rules.or_none(rules.any_number)),
    rules.with_optional(model=rules.text, history=rules.or_none(_HISTORY), config=rules.or_none(rules.plain)),
)
_SCORES = rules.having(
    name=rules.text,
    num_known=rules.whole,
    **dict.fromkeys(("rmse", "r2", "in_band"), rules.or_none(rules.any_number)),
)
_CHECK = rules.having(
    how=rules.one_of(*HOW),
    num_rows=rules.whole,
    **dict.fromkeys(("model", "least_squares", "mean"), rules.each(_SCORES)),
)
_HEADER = rules.both(
    rules.having(
        kind=rules.one_of("observed", "latent"),
        model=rules.plain,
        options=rules.values(rules.plain),
        num_inputs=rules.whole,
        num_outputs=rules.whole,
        precision=rules.one_of("float32", "float64"),
        config=rules.or_none(rules.plain),
        input_names=rules.each(rules.text),
        output_names=rules.each(rules.text),
        scaling=_SCALING,
        layouts=_LAYOUTS,
        history=_HISTORY,
        versions=rules.values(rules.text),
    ),
    rules.with_optional(members=rules.each(_MEMBER), choice=rules.or_none(_CHOICE), extra=rules.plain),
    rules.with_optional(check=_CHECK, num_trained=rules.whole),
)


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
    if header["format"] > FORMAT_WITH_CHAIN:
        raise FileError(
            f"A model file must have format {FORMAT_WITH_CHAIN} or older; {path} has format {header['format']}. "
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


def require_model_header(header: Mapping[str, Any]) -> None:
    """Check the header of a model file.

    >>> require_model_header({"kind": "odd"})
    Traceback (most recent call last):
        ...
    mogul.errors.DataError: kind must be one of observed, latent; got 'odd'. Was the file changed?
    """
    _HEADER(header, "")
    for place, history in [("history", header["history"]), *_histories_of_members(header)]:
        lengths = {len(column) for column in history["columns"].values()}
        rules.require(len(lengths) == 1 and lengths != {0}, f"{place}.columns", "lists of equal lengths", lengths)
        starts = history["columns"]["start"]
        rules.require(history["chosen_start"] in starts, f"{place}.chosen_start", "a start of its", sorted(set(starts)))
    for side in ("inputs", "outputs"):
        scale = header["scaling"][side]["scale"]
        if not all(value > 0 for value in scale):
            raise DataError(f"scaling.{side}.scale must be positive; got {scale}. Was the file changed?")


def _histories_of_members(header: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    members = header.get("members", [])
    return [
        (f"members[{place}].history", member["history"])
        for place, member in enumerate(members)
        if member.get("history")
    ]


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
