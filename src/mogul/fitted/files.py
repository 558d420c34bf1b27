"""Fitted models in files: one safetensors file with a JSON header, no pickle, written atomically."""

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from mogul.config import InferenceConfig, TrainingConfig
from mogul.core.check import Check
from mogul.core.transforms import Chain, Transforms
from mogul.data import Batch, Scaling, Standardiser
from mogul.data.encodings.encoding import InputEncoding
from mogul.errors import FileError, MogulError, UnknownNameError
from mogul.fitted.blueprint import Blueprint, Layouts, layouts_of, rebuilt
from mogul.fitted.calibration import Calibration
from mogul.fitted.encoder import Encoder
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.fitted.history import Candidate, Choice, EpochRecord, History, TrainedRows
from mogul.fitted.mixture import FittedMixture
from mogul.models.families import Name
from mogul.models.model import Latent, Model
from mogul.registry import Kind, require_savable
from mogul.storage.container import decode, encode, read_sealed, write_sealed
from mogul.storage.header import (
    FORMAT,
    FORMAT_WITH_CHAIN,
    FORMAT_WITH_ENCODING,
    FORMAT_WITH_TRANSFORMS,
    choice_of_today,
    read_header,
    require_model_header,
)
from mogul.storage.rules import without_remedy

Header = dict[str, Any]

_MODEL, _KNOWN_Y, _KNOWN_OBSERVED = "model.", "training.y", "training.observed"
_MEMBER, _CALIBRATION, _ROWS, _ENCODER = "member", "calibration.", "trained_rows", "encoder."
_OF_A_TRAINING = ("held_out", "interrupted", "num_rows", "kept_epochs", "retrained", "kernels", "quick")
_REGISTERED = (*get_args(Kind), "option")  # what a module of a user's may have added
_PACKAGES = ("mogul", "torch", "gpytorch", "linear_operator", "numpy", "scikit-learn", "safetensors")


def save(fitted: Fitted, path: str | PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to one file, atomically.

    Args:
        fitted: what `fit` returned.
        path: path of the file; an existing file is replaced once the new one is complete.
        extra: plain settings to store with the model.

    Example:
        >>> import mogul, tempfile
        >>> data = mogul.Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> fitted = mogul.fit(data, model="mogp", config=mogul.TrainingConfig(epochs=2, num_starts=1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(fitted, f"{folder}/model.mogul")
        ...     again = load(f"{folder}/model.mogul")
        >>> bool((again.predict([[0.5]]).mean == fitted.predict([[0.5]]).mean).all())
        True
    """
    for member in fitted.single_models:
        if (regressor := member.model.mean.unstorable) is not None:
            raise FileError(
                f"A regressor as the mean must be a forest or HistGradientBoosting to be saved; got {regressor}. "
                "A file holds no code: fit with mean='trees' or 'boosting', or keep this model in memory."
            )
    state = fitted.model.state_dict()
    header = {**_header(fitted, layouts_of(state)), "extra": encode(dict(extra or {}), "extra")}
    tensors = {_MODEL + name: tensor for name, tensor in state.items()}
    if isinstance(fitted, FittedLatent):
        tensors |= {_KNOWN_Y: fitted.training.y, _KNOWN_OBSERVED: fitted.training.observed}
        if fitted.encoder is not None:
            tensors |= {_ENCODER + name: tensor for name, tensor in fitted.encoder.state_dict().items()}
    for place, member in enumerate(_others(fitted), start=1):
        tensors |= {f"{_MEMBER}{place}.{name}": tensor for name, tensor in member.model.state_dict().items()}
    if fitted.calibration is not None:
        tensors |= {_CALIBRATION + name: torch.as_tensor(part) for name, part in vars(fitted.calibration).items()}
    if fitted.trained_rows is not None:
        tensors |= {_ROWS: torch.as_tensor(fitted.trained_rows.digests)}
    write_sealed(Path(path), header, tensors)


def load(path: str | PathLike[str]) -> Fitted:
    """Read a fitted model; its predictions equal the saved model's bit for bit. Nothing in a file is executed."""
    return load_with_extra(path)[0]


def load_with_extra(path: str | PathLike[str]) -> tuple[Fitted, dict[str, Any]]:
    """A fitted model, and the plain settings stored with it."""
    header, tensors = read_sealed(Path(path))
    with _described_by(header, path):
        require_model_header(header)
        return _fitted(header, tensors), dict(decode(header["extra"]))


def describe(path: str | PathLike[str]) -> Header:
    """The header of a model file, checked: model, options, names, scaling, training, versions, as plain JSON."""
    return read_header(Path(path))


def _header(fitted: Fitted, layouts: Layouts) -> Header:
    blueprint = fitted.blueprint
    if blueprint is None:
        raise FileError(
            "A model must have a blueprint to be saved; this one has none, so it was not made by fit. "
            "Fit it with mogul.fit, or give its Fitted a Blueprint."
        )
    for each in fitted.single_models:
        if each.blueprint is not None:
            require_savable(Name.parse(each.blueprint.model).family)
    latent = isinstance(fitted, FittedLatent)
    return {
        "format": _format(fitted),
        "kind": "latent" if latent else "observed",
        "model": blueprint.model,
        "options": {name: encode(value, name) for name, value in blueprint.options.items()},
        "num_inputs": blueprint.num_inputs,
        "num_outputs": blueprint.num_outputs,
        "precision": blueprint.precision,
        "config": encode(blueprint.config, "config"),
        "inference": encode(fitted.inference, "inference") if isinstance(fitted, FittedLatent) else None,
        "input_names": fitted.input_names,
        "output_names": fitted.output_names,
        **({} if fitted.encoding is None else {"encoding": fitted.encoding.plain()}),
        "scaling": _plain_scaling(fitted.scaling),
        "layouts": layouts,
        "history": _plain_history(fitted.history),
        "regressed_outputs": fitted.single_models[0].regressed_outputs,
        "members": [_plain_member(member, fitted) for member in _others(fitted)],
        "choice": None if fitted.choice is None else asdict(fitted.choice),
        **({} if fitted.check is None else {"check": fitted.check.to_json()}),
        **({} if fitted.trained_rows is None else {"num_trained": fitted.trained_rows.num_rows}),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
    }


def _fitted(header: Header, tensors: dict[str, Tensor]) -> Fitted:
    blueprint = Blueprint(
        header["model"],
        {name: decode(value) for name, value in header["options"].items()},
        header["num_inputs"],
        header["num_outputs"],
        header["precision"],
        decode(header["config"]),
    )
    if not isinstance(blueprint.config, TrainingConfig | None):
        raise FileError(f"config must be a TrainingConfig; got {blueprint.config!r}. Do not trust this file.")
    names = header["input_names"], header["output_names"]
    scaling = _scaling(header["scaling"])
    encoding = InputEncoding.from_plain(header["encoding"]) if "encoding" in header else None
    _require_sizes(blueprint, names, scaling, encoding)
    model = rebuilt(blueprint, _named(tensors, _MODEL), header["layouts"])
    history = _history(header["history"])
    if header["kind"] != "latent":
        best = Fitted(model, scaling, *names, history, blueprint=blueprint, encoding=encoding)
        others = [
            _member(best, plain, _named(tensors, f"{_MEMBER}{place}."))
            for place, plain in enumerate(header.get("members", []), start=1)
        ]
        whole = FittedMixture.of([best, *others]) if others else best
        calibration = _calibration(_named(tensors, _CALIBRATION), blueprint)
        return replace(
            whole,
            choice=_choice(choice_of_today(header.get("choice"), header["model"])),
            calibration=calibration,
            check=Check.from_plain(header["check"]) if "check" in header else None,
            trained_rows=_trained_rows(header, tensors),
        )
    inference = decode(header["inference"])
    if not isinstance(inference, InferenceConfig):
        raise FileError(f"inference must be an InferenceConfig; got {inference!r}. Do not trust this file.")
    known = _known_rows(tensors, model, blueprint)
    stored = _named(tensors, _ENCODER)
    sizes = blueprint.num_outputs, blueprint.num_inputs
    encoder = Encoder.stored(stored, *sizes, known.y) if stored else None
    return FittedLatent(model, scaling, *names, history, known, inference, encoder=encoder, blueprint=blueprint)


def _trained_rows(header: Header, tensors: dict[str, Tensor]) -> TrainedRows | None:
    """Digests of training rows; older files have none."""
    if _ROWS not in tensors or "num_trained" not in header:
        return None
    digests = tensors[_ROWS]
    if digests.dtype != torch.int64 or digests.ndim != 1:
        raise FileError(f"{_ROWS} must be a list of int64; got {digests.dtype}. Do not trust this file.")
    return TrainedRows(digests.numpy(), header["num_trained"])


def _known_rows(tensors: dict[str, Tensor], model: Model, blueprint: Blueprint) -> Batch:
    """The training rows of a model with latent inputs."""
    y, observed, latent = tensors[_KNOWN_Y], tensors[_KNOWN_OBSERVED], model.inputs
    assert isinstance(latent, Latent)
    shape = len(latent.mean), blueprint.num_outputs
    if y.shape != shape or observed.shape != shape or observed.dtype != torch.bool or y.dtype != latent.mean.dtype:
        raise FileError(
            f"Training rows must be {shape} numbers of the model's precision; got {tuple(y.shape)} of {y.dtype}. "
            "Do not trust this file."
        )
    if not bool(torch.isfinite(y[observed]).all()):
        raise FileError("Training rows must be finite; they hold NaN or infinity. Do not trust this file.")
    return Batch(y.new_zeros(len(y), 0), y, observed, torch.arange(len(y)))


def _format(fitted: Fitted) -> int:
    """The oldest format that has all of it."""
    if fitted.scaling.chain is not None:
        return FORMAT_WITH_CHAIN
    if fitted.encoding is not None:
        return FORMAT_WITH_ENCODING
    return FORMAT if fitted.scaling.transforms is None else FORMAT_WITH_TRANSFORMS


def _require_sizes(
    blueprint: Blueprint, names: tuple[list[str], list[str]], scaling: Scaling, encoding: InputEncoding | None
) -> None:
    if encoding is not None and encoding.features != names[0]:
        raise FileError("Inputs in a header must be those of its encoding; they are not. Do not trust this file.")
    found = [
        (blueprint.num_inputs, len(names[0]), len(scaling.inputs.shift), len(scaling.inputs.scale)),
        (blueprint.num_outputs, len(names[1]), len(scaling.outputs.shift), len(scaling.outputs.scale)),
    ]
    if scaling.transforms is not None:
        own = scaling.unchained
        found.append((blueprint.num_outputs, len(scaling.transforms.each), len(own.shift), len(own.scale)))
    if scaling.chain is not None:
        own = scaling.modelled
        found.append((blueprint.num_outputs, len(scaling.chain.weights), len(own.shift), len(own.scale)))
    for sizes in found:
        if len(set(sizes)) > 1:
            raise FileError(f"Sizes, names and scaling in a header must agree; got {sizes}. Do not trust this file.")


def _plain_scaling(scaling: Scaling) -> Header:
    """Standardisers and, where there are any, transforms and the chain of outputs."""
    plain: Header = {side: _plain_standardiser(getattr(scaling, side)) for side in ("inputs", "outputs")}
    if scaling.transforms is not None:
        plain |= {"transforms": scaling.transforms.plain(), "transformed": _plain_standardiser(scaling.unchained)}
    if scaling.chain is not None:
        plain |= {"chain": scaling.chain.weights.tolist(), "chained": _plain_standardiser(scaling.modelled)}
    return plain


def _scaling(plain: Header) -> Scaling:
    scaling = Scaling(_standardiser(plain["inputs"]), _standardiser(plain["outputs"]))
    if "transforms" in plain:
        transforms = Transforms.from_plain(plain["transforms"])
        scaling = replace(scaling, transforms=transforms, transformed=_standardiser(plain["transformed"]))
    if "chain" in plain:
        chain = Chain(np.array(plain["chain"], dtype=np.float64))
        scaling = replace(scaling, chain=chain, chained=_standardiser(plain["chained"]))
    return scaling


def _plain_standardiser(standardiser: Standardiser) -> dict[str, list[float]]:
    return {"shift": standardiser.shift.tolist(), "scale": standardiser.scale.tolist()}


def _standardiser(plain: dict[str, list[float]]) -> Standardiser:
    return Standardiser(*(np.array(plain[part], dtype=np.float64) for part in ("shift", "scale")))


def _plain_history(history: History) -> Header:
    """Column by column, so that names are stored once."""
    records = [asdict(record) for record in history.records]
    columns = {field.name: [record[field.name] for record in records] for field in fields(EpochRecord)}
    whole = {name: getattr(history, name) for name in _OF_A_TRAINING}
    return {"chosen_start": history.chosen_start, **whole, "columns": columns}


def _history(plain: Header) -> History:
    columns = plain["columns"]
    rows = zip(*columns.values(), strict=True)
    records = tuple(EpochRecord(**dict(zip(columns, row, strict=True))) for row in rows)
    whole = {name: plain[name] for name in _OF_A_TRAINING if name in plain}  # older files have none of them
    return History(records, plain["chosen_start"], **whole)


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, with the prefix removed."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _others(fitted: Fitted) -> tuple[Fitted, ...]:
    """Members of a mixture except the best."""
    return fitted.members[1:] if isinstance(fitted, FittedMixture) else ()


def _plain_member(member: Fitted, best: Fitted) -> Header:
    """Fields in which a member differs from the best; starts of one training share a history."""
    assert member.blueprint is not None  # the best has one too
    shared = member.history.records == best.history.records
    return {
        "model": member.blueprint.model,
        "options": {name: encode(value, name) for name, value in member.blueprint.options.items()},
        "precision": member.blueprint.precision,
        "config": encode(member.blueprint.config, "config"),
        "layouts": layouts_of(member.model.state_dict()),
        "history": None if shared else _plain_history(member.history),
        "chosen_start": member.history.chosen_start,
        "held_out": member.history.held_out,
        "regressed_outputs": member.regressed_outputs,
    }


def _member(best: Fitted, plain: Header, state: dict[str, Tensor]) -> Fitted:
    """A member of a mixture. In older files members are starts of one model with the same config and history."""
    assert best.blueprint is not None
    blueprint = replace(
        best.blueprint,
        model=plain.get("model", best.blueprint.model),
        options={name: decode(value) for name, value in plain["options"].items()},
        precision=plain.get("precision", best.blueprint.precision),
        config=decode(plain["config"]) if "config" in plain else best.blueprint.config,
    )
    own = plain.get("history")
    history = best.history if own is None else _history(own)
    history = replace(history, chosen_start=plain["chosen_start"], held_out=plain["held_out"])
    return replace(best, model=rebuilt(blueprint, state, plain["layouts"]), history=history, blueprint=blueprint)


def _calibration(tensors: dict[str, Tensor], blueprint: Blueprint) -> Calibration | None:
    if not tensors:
        return None
    parts: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    # Older files do not store the calibration seed; it was the training seed.
    parts["seed"] = int(parts.get("seed", blueprint.config.seed if blueprint.config else 0))
    calibration = Calibration(**parts)
    if len(calibration.stretch) != blueprint.num_outputs:
        raise FileError(
            f"Calibration must be of the model's {blueprint.num_outputs} outputs; got {len(calibration.stretch)}. "
            "Do not trust this file."
        )
    return calibration


def _choice(plain: Header | None) -> Choice | None:
    if plain is None:
        return None
    candidates = tuple(Candidate(**candidate) for candidate in plain["candidates"])
    return Choice(Candidate(**plain["chosen"]), candidates, plain["num_held_out"])


@contextmanager
def _described_by(header: Header, path: str | PathLike[str]) -> Iterator[None]:
    """Report a header that this version cannot build a model from as a `FileError`."""
    try:
        yield
    except (MogulError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        written_by = ascii(header.get("versions"))[:300]
        reason = without_remedy(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = f"Written with {written_by}: use those versions, or fit the model again."
        if isinstance(error, UnknownNameError) and isinstance(error.name, str) and error.kind in _REGISTERED:
            reason = reason.rpartition(". ")[0]  # without its remedy
            remedy = "Import the module that registers it before you load the file; on the command line by --import."
        raise FileError(
            f"A model file must describe a model that mogul {version('mogul')} knows; {path} does not: {reason}. "
            f"{remedy}"
        ) from error
