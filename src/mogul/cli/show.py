"""`mogul show`: the header of a model file."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text
from safetensors import SafetensorError, safe_open

from mogul.cli.words import (
    chain_words,
    choice_line,
    counted,
    epochs_words,
    kernels_words,
    named,
    objective_words,
    regressed_words,
    seconds_words,
    transforms_words,
)
from mogul.core.check import Check
from mogul.core.transforms import Chain, Transforms
from mogul.errors import FileError, MogulError
from mogul.models.families import mixture
from mogul.storage.header import choice_of_today, read_header, require_model_header

if TYPE_CHECKING:
    import pandas as pd
from mogul.storage.rules import without_remedy

_EPOCH = ("start", "elbo", "learning_rate")
_MOST_COLUMNS = 9  # of importances by output
_GROUPS, _LOADINGS = "calibration.groups", "model.head.correlation.loadings"  # as `mogul.fitted.files` calls them


@dataclass(frozen=True)
class MemberCard:
    """A member of a mixture, or the only model, and its training; `start` is the index of the kept start.

    `first_elbo` and `last_elbo` are totals over rows; None if not finite. Older files do not store the number of rows.
    """

    model: str
    options: dict[str, Any]
    start: int
    starts: int
    epochs: int
    first_elbo: float | None
    last_elbo: float | None
    num_rows: int | None
    regressed_outputs: list[str]


@dataclass(frozen=True)
class ModelCard:
    """The contents of a model file; `seconds` is the time of all trainings of a mixture.

    `input_columns` are the user's columns where inputs are encoded, each with what became of it.
    """

    path: str
    num_bytes: int
    format: int
    model: str
    kind: str
    input_names: list[str]
    input_columns: dict[str, str]
    output_names: list[str]
    precision: str
    members: list[MemberCard]
    kept: int
    objective: str
    seconds: float
    choice: dict[str, Any] | None
    calibration: dict[str, int] | None
    transforms: dict[str, str]
    autoregressive_outputs: dict[str, dict[str, float]]
    kernels: dict[str, float] | None
    noise_factors: int
    check: Check | None
    quick: bool
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain values; the first member's values are also at the top level."""
        return asdict(self.members[0]) | asdict(self)


def show_file(path: Path) -> ModelCard:
    """Read and check the header of a model file without loading the model's tensors."""
    header = read_header(path)
    try:
        require_model_header(header)
        return _card(path, header)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, SafetensorError) as error:
        raise FileError(
            f"A model file must describe its model; {path} does not: {_reason(error)}. Do not trust this file."
        ) from error


def _reason(error: Exception) -> str:
    return without_remedy(error) if isinstance(error, MogulError) else f"{type(error).__name__} {error}"


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
        input_columns=_columns(header),
        output_names=[str(name) for name in header["output_names"]],
        precision=str(header["precision"]),
        members=members,
        kept=len(members),
        objective=_objective(header["config"]),
        seconds=float(sum(sum(history["columns"]["seconds"]) for history in histories)),
        choice=_choice(choice_of_today(header.get("choice"), str(header["model"]))),
        calibration=_calibration(path),
        transforms=_transforms(header),
        autoregressive_outputs=_chain(header),
        kernels=_kernels(header["history"].get("kernels")),
        noise_factors=_noise_factors(path),
        quick=bool(header["history"].get("quick")),
        check=Check.from_plain(header["check"]) if "check" in header else None,
        versions={str(name): str(version) for name, version in header["versions"].items()},
    )


def _member(plain: dict[str, Any], header: dict[str, Any]) -> MemberCard:
    """Starts of one training share its history, and in older files its model too."""
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
        regressed_outputs=[str(name) for name in plain.get("regressed_outputs", [])],
    )


def _objective(config: dict[str, Any] | None) -> str:
    """The training objective; the ELBO if the file does not store it."""
    return str((config or {}).get("settings", {}).get("objective", "elbo"))


def _calibration(path: Path) -> dict[str, int] | None:
    """Numbers of calibration rows and groups; None if not calibrated."""
    with safe_open(path, "numpy") as tensors:
        if _GROUPS not in tensors.keys():  # noqa: SIM118  # a file of tensors has no other way to ask
            return None
        groups = tensors.get_tensor(_GROUPS)
    return {"num_rows": len(groups), "num_groups": len(np.unique(groups))}


def _transforms(header: dict[str, Any]) -> dict[str, str]:
    """The outputs that are transformed, and how."""
    plain = header["scaling"].get("transforms")
    return {} if plain is None else Transforms.from_plain(plain).words(header["output_names"])


def _chain(header: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The outputs that depend on others, with the weights of these."""
    plain = header["scaling"].get("chain")
    return {} if plain is None else Chain(np.array(plain, dtype=np.float64)).named(header["output_names"])


def _columns(header: dict[str, Any]) -> dict[str, str]:
    """The user's columns of inputs and what became of each; empty where inputs are numbers without gaps."""
    if "encoding" not in header:
        return {}
    from mogul.data.encodings.encoding import InputEncoding  # imports torch, which few headers need

    encoding = InputEncoding.from_plain(header["encoding"])
    return {name: encoding.words().get(name, "") for name in encoding.names}


def _encoding_words(columns: dict[str, str]) -> list[str]:
    """Columns with what became of them, those alike together."""
    kinds = dict.fromkeys(words for words in columns.values() if words)
    return [f"{named([name for name, own in columns.items() if own == kind])}: {kind}" for kind in kinds]


def _kernels(plain: dict[str, Any] | None) -> dict[str, float] | None:
    """The log evidence of each kernel that was tried."""
    return None if plain is None else {str(name): float(value) for name, value in plain.items()}


def _noise_factors(path: Path) -> int:
    """The number of factors of correlated noise; 0 without correlation."""
    with safe_open(path, "numpy") as tensors:
        if _LOADINGS not in tensors.keys():  # noqa: SIM118  # a file of tensors has no other way to ask
            return 0
        return int(tensors.get_slice(_LOADINGS).get_shape()[1])


def _choice(plain: dict[str, Any] | None) -> dict[str, Any] | None:
    """The candidates of automatic selection, with their scores."""
    if plain is None:
        return None
    tried = [_candidate(each) for each in plain["candidates"]]
    return {"chosen": _candidate(plain["chosen"]), "num_held_out": int(plain["num_held_out"]), "candidates": tried}


def _candidate(plain: dict[str, Any]) -> dict[str, Any]:
    score = None if plain["ll"] is None else float(plain["ll"])
    return {"model": str(plain["model"]), "noise": str(plain["noise"]), "ll": score}


def model_table(card: ModelCard) -> Table:
    """One line for each field of the header."""
    table = Table(title=card.path, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for label, value in card_lines(card):
        table.add_row(label, Text(value))
    return table


def importance_of(path: Path) -> "pd.DataFrame":
    """How much each input matters to each output: see `mogul.fitted.sensitivity.importance`."""
    from mogul.fitted.files import load  # imports torch, which a header does not need

    return load(path).importance().frame()


def importance_table(frame: "pd.DataFrame") -> Table:
    """A row for each input, of few outputs with a column each."""
    title = "Loss of R² where an input is that of another row, with a 95 % interval over draws"
    table = Table(title=title)
    shown = frame if len(frame.columns) <= _MOST_COLUMNS else frame.iloc[:, :3]
    for name in ("input", *shown.columns):
        table.add_column(Text(str(name)), justify="left" if name == "input" else "right")
    for name, row in shown.iterrows():
        table.add_row(Text(str(name)), *(f"{value:.3f}" for value in row))
    return table


def card_lines(card: ModelCard) -> list[tuple[str, str]]:
    """Labels and values of the table."""
    mixed = ", a mixture" if card.kept > 1 else ""
    return [
        ("model", f"{card.model}{mixed}, {card.kind} inputs, {card.precision}"),
        *_labelled("options", dict.fromkeys(_options(member, card) for member in card.members)),
        *([] if card.kernels is None else [("kernel", kernels_words(_kernel(card), card.kernels))]),
        *([("noise", f"correlated across outputs ({_factors(card.noise_factors)})")] if card.noise_factors else []),
        ("inputs", counted(list(card.input_columns) or card.input_names)),
        *_labelled("encoding", _encoding_words(card.input_columns)),
        ("outputs", counted(card.output_names)),
        *([("transform", transforms_words(card.transforms))] if card.transforms else []),
        *([("chain", chain_words(card.autoregressive_outputs))] if card.autoregressive_outputs else []),
        *_labelled("training", _training(card)),
        *([("quick", "a first answer by some of the rows")] if card.quick else []),
        *_labelled("check", ["none"] if card.check is None else card.check.lines()),
        ("calibration", _calibration_words(card.calibration)),
        *([] if card.choice is None else [("chosen", choice_line(card.choice))]),
        ("file", f"format {card.format}, {card.num_bytes:,} bytes, seal intact"),
        ("written with", ", ".join(f"{name} {version}" for name, version in card.versions.items())),
    ]


def _kernel(card: ModelCard) -> str:
    return str(card.members[0].options.get("kernel"))


def _labelled(label: str, values: Iterable[str]) -> list[tuple[str, str]]:
    """The label beside the first value only."""
    return [("" if place else label, value) for place, value in enumerate(values)]


def _options(member: MemberCard, card: ModelCard) -> str:
    given = ", ".join(f"{name} = {value}" for name, value in member.options.items()) or "the model's own"
    return f"{member.model}: {given}" if len({each.model for each in card.members}) > 1 else given


def _training(card: ModelCard) -> list[str]:
    """One line; for a mixture, one more for each member."""
    if card.kept == 1:
        (only,) = card.members
        return [f"{_course(only, card.objective, f'best of {only.starts} starts')}, {seconds_words(card.seconds)}"]
    each = [
        f"{member.model}: {_course(member, card.objective, f'start {member.start + 1} of {member.starts}')}"
        for member in card.members
    ]
    return [f"a mixture of {card.kept}, {seconds_words(card.seconds)}", *each]


def _course(member: MemberCard, objective: str, start: str) -> str:
    steps = f"{epochs_words(member.epochs)}, {start}" if member.epochs else "exact GPs, one for each output"
    steps += regressed_words(member.regressed_outputs)
    values = dict.fromkeys((member.first_elbo, member.last_elbo))
    ends = [f"{elbo / (member.num_rows or 1):,.2f}" for elbo in values if elbo is not None]
    unit = " per row" if member.num_rows else ""
    return f"{steps}, {objective_words(objective)} {' → '.join(ends)}{unit}" if ends else steps


def _factors(count: int) -> str:
    return f"{count} factor{'s' if count > 1 else ''}"


def _calibration_words(found: dict[str, int] | None) -> str:
    """Number of calibration rows, and of groups if rows are grouped."""
    if found is None:
        return "none"
    groups = "" if found["num_groups"] == found["num_rows"] else f" of {found['num_groups']:,} groups"
    return f"by {found['num_rows']:,} rows{groups}"
