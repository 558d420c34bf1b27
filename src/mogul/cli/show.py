"""`mogul show`: what a model file says of itself in its header."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from mogul.errors import FileError
from mogul.models.families import mixture
from mogul.storage.container import choice_of_today, read_header

_EPOCH = ("start", "elbo", "learning_rate")
_GROUPS, _LOADINGS = "calibration.groups", "model.head.correlation.loadings"  # as `mogul.fitted.files` calls them


@dataclass(frozen=True)
class MemberCard:
    """A member of a mixture, or the only model, and how its training went; `start` is the one that was kept of all.

    `first_elbo` and `last_elbo` are of all rows; None where they were not finite. Old files do not count their rows.
    """

    model: str
    options: dict[str, Any]
    start: int
    starts: int
    epochs: int
    first_elbo: float | None
    last_elbo: float | None
    num_rows: int | None


@dataclass(frozen=True)
class ModelCard:
    """A model file in words and sizes; of a mixture, `seconds` is the time of all trainings."""

    path: str
    num_bytes: int
    format: int
    model: str
    kind: str
    input_names: list[str]
    output_names: list[str]
    precision: str
    members: list[MemberCard]
    kept: int
    objective: str
    seconds: float
    choice: dict[str, Any] | None
    calibration: dict[str, int] | None
    noise_factors: int
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain values; those of the first member also beside those of the whole."""
        return asdict(self.members[0]) | asdict(self)


def show_file(path: Path) -> ModelCard:
    """Read and check the header of a model file; the tensors of its model stay on disk."""
    header = read_header(path)
    try:
        return _card(path, header)
    except (LookupError, TypeError, ValueError, AttributeError, SafetensorError) as error:
        raise FileError(
            f"A model file must describe its model; {path} does not: {type(error).__name__} {error}. "
            "Do not trust this file."
        ) from error


def _card(path: Path, header: dict[str, Any]) -> ModelCard:
    others = header.get("members", [])
    members = [_member(each, header) for each in (header, *others)]
    histories = [header["history"], *(each["history"] for each in others if each.get("history") is not None)]
    return ModelCard(
        path=str(path),
        num_bytes=path.stat().st_size,
        format=int(header["format"]),
        model=mixture(dict.fromkeys(member.model for member in members)),
        kind=str(header["kind"]),
        input_names=[str(name) for name in header["input_names"]],
        output_names=[str(name) for name in header["output_names"]],
        precision=str(header["precision"]),
        members=members,
        kept=len(members),
        objective=_objective(header["config"]),
        seconds=float(sum(sum(history["columns"]["seconds"]) for history in histories)),
        choice=_choice(choice_of_today(header.get("choice"), str(header["model"]))),
        calibration=_calibration(path),
        noise_factors=_noise_factors(path),
        versions={str(name): str(version) for name, version in header["versions"].items()},
    )


def _member(plain: dict[str, Any], header: dict[str, Any]) -> MemberCard:
    """Starts of one training have its history in common, and in files of old its model, too."""
    history = plain.get("history") or header["history"]
    starts, elbos, rates = (list(history["columns"][name]) for name in _EPOCH)
    start = plain.get("chosen_start", history["chosen_start"])
    own = [(float(elbo), float(rate)) for elbo, rate, of in zip(elbos, rates, starts, strict=True) if of == start]
    finite = [elbo for elbo, _ in own if math.isfinite(elbo)]
    return MemberCard(
        model=str(plain.get("model", header["model"])),
        options=dict(plain["options"]),
        start=int(start),
        starts=len(set(starts)),
        epochs=sum(rate > 0 for _, rate in own),
        first_elbo=finite[0] if finite else None,
        last_elbo=finite[-1] if finite else None,
        num_rows=history.get("num_rows"),
    )


def _objective(config: dict[str, Any] | None) -> str:
    """What training maximised: the bound, where a file does not say."""
    return str((config or {}).get("settings", {}).get("objective", "elbo"))


def _calibration(path: Path) -> dict[str, int] | None:
    """How many rows, and groups of them, the model is calibrated by; None where it is not."""
    with safe_open(path, "numpy") as tensors:
        if _GROUPS not in tensors.keys():  # noqa: SIM118  # a file of tensors has no other way to ask
            return None
        groups = tensors.get_tensor(_GROUPS)
    return {"num_rows": len(groups), "num_groups": len(np.unique(groups))}


def _noise_factors(path: Path) -> int:
    """The number of factors that outputs share in their noise; 0 where it is not correlated."""
    with safe_open(path, "numpy") as tensors:
        if _LOADINGS not in tensors.keys():  # noqa: SIM118  # a file of tensors has no other way to ask
            return 0
        return int(tensors.get_slice(_LOADINGS).get_shape()[1])


def _choice(plain: dict[str, Any] | None) -> dict[str, Any] | None:
    """Models and kinds of noise that were tried, with their scores."""
    if plain is None:
        return None
    tried = [_candidate(each) for each in plain["candidates"]]
    return {"chosen": _candidate(plain["chosen"]), "num_held_out": int(plain["num_held_out"]), "candidates": tried}


def _candidate(plain: dict[str, Any]) -> dict[str, Any]:
    score = None if plain["ll"] is None else float(plain["ll"])
    return {"model": str(plain["model"]), "noise": str(plain["noise"]), "ll": score}
