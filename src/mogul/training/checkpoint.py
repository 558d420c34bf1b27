"""Checkpoints: training that was killed resumes from its last file, bit for bit.

States are those between two epochs, without an order of rows or half a sum to keep: being killed costs the current
epoch, and the epochs since the file was last written.
"""

import hashlib
import json
import math
import reprlib
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mogul.data import Dataset
from mogul.data.stored import Sample
from mogul.errors import ConfigError, FileError, MogulError, warn
from mogul.fitted.history import EpochRecord
from mogul.storage.atomic import remove_partials, require_folder
from mogul.storage.container import decode, encode, read_sealed, write_sealed
from mogul.training.loop import Run
from mogul.training.recovery import RunState, WholeState
from mogul.training.restarts import Restarts
from mogul.training.team import ALONE, Team

FILE_NAME = "training.mogul-checkpoint"
Plain = dict[str, Any]
Tensors = dict[str, Tensor]


class Checkpoint:
    """The file of one training, in its own folder; the file of another training is never overwritten.

    It stays when training has ended: the same call then gives the same model at once.

    Args:
        folder: of the file; made when there is something to write.
        identity: the data and settings of this training, as plain JSON: see `identity_of`.
        seconds: the time between two writings; 0 writes after every epoch.
        team: the workers of this training; the first reads and writes.
    """

    def __init__(self, folder: Path, identity: Plain, seconds: float = 60.0, team: Team = ALONE) -> None:
        if not 0 <= seconds < math.inf:
            raise ConfigError(f"checkpoint_seconds must be 0 or more, and finite; got {seconds}. Try 60.")
        require_folder(folder)
        self.path = folder / FILE_NAME
        self._identity = identity
        self._seconds = seconds
        self._written_at = time.monotonic()
        self._team = team
        self._found = team.first(lambda: self._read() if self.path.exists() else None)

    def restore(self, restarts: Restarts) -> None:
        """Resume starts that were just built from the file, if there is one."""
        if self._team.is_first:
            remove_partials(self.path)
        if self._found is None:
            return
        header, tensors = self._found
        try:
            restarts.scores |= {int(start): score for start, score in header["scores"].items()}
            restarts.given_up |= {int(start): reason for start, reason in header["given_up"].items()}
            for start, plain in header["runs"].items():
                _restore_run(restarts.runs[int(start)], plain, tensors, f"{start}.")
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise FileError(
                f"A checkpoint must fit the models of this version of mogul; {self.path} does not: {error!r}. "
                "Use the version that wrote it, or delete it to train from the beginning."
            ) from error

    def save_if_due(self, restarts: Restarts) -> None:
        """Write, if enough time has passed since the last time."""
        if time.monotonic() - self._written_at >= self._seconds:
            self.save(restarts)

    def save(self, restarts: Restarts) -> None:
        """Write, all or nothing; where that fails, warn and continue."""
        if not self._team.is_first:
            return
        tensors: Tensors = {}
        going_on = [run for run in restarts.runs if run.start not in restarts.given_up]
        whole = {run: state for run in going_on if (state := run.recovery.whole(run)).now.num_epochs}
        header = {
            "identity": self._identity,
            "scores": restarts.scores,
            "given_up": restarts.given_up,
            "runs": {run.start: _plain_run(run, state, tensors, f"{run.start}.") for run, state in whole.items()},
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_sealed(self.path, header, tensors)
        except OSError as error:
            warn(f"The checkpoint was not written; training continues without it. {error}")
        self._written_at = time.monotonic()

    def _read(self) -> tuple[Plain, Tensors]:
        try:
            header, tensors = read_sealed(self.path)
        except FileError as error:
            raise FileError(
                f"The checkpoint in a folder must be whole; this one is damaged. {error} "
                f"Or delete {self.path} to train from the beginning."
            ) from error
        place, there, here = _first_difference(
            _identity_of_today(header.get("identity")), json.loads(json.dumps(self._identity))
        )
        if there != here:
            raise FileError(
                f"A checkpoint must be of the same training; {self.path} is of another: {place} is "
                f"{reprlib.repr(there)} there and {reprlib.repr(here)} here. "
                "Give another folder, or delete that file to train from the beginning."
            )
        return header, tensors


def identity_of(data: Dataset, **settings: Any) -> Plain:
    """The data, by their names and a digest, and the settings: a checkpoint is for the same ones only.

    >>> identity_of(Dataset([[0.0]], [[1.0]]), model="mogp")["model"]
    'mogp'
    """

    digest = hashlib.sha256()
    for values in (data.x, np.where(np.isnan(data.y), np.nan, data.y)):  # every NaN is the same
        digest.update(repr(values.shape).encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    if isinstance(data, Sample):
        settings["rows"] = data.everything.digest
    return {
        "data": digest.hexdigest(),
        "input_names": data.input_names,
        "output_names": data.output_names,
        **{name: encode(value, name) for name, value in settings.items()},
    }


def _identity_of_today(identity: Any) -> Any:
    """The identity in an older file, with settings that it does not name at their defaults."""
    try:
        return identity | {"config": encode(decode(identity["config"]), "config")}
    except (MogulError, LookupError, TypeError, ValueError, AttributeError):
        return identity  # not one of ours: it will differ


def _first_difference(there: Any, here: Any, place: str = "") -> tuple[str, Any, Any]:
    """Where two plain settings first differ, and both values; equal values where they do not."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in [*here, *there]:
            if there.get(key) != here.get(key):
                name = place if key == "settings" else f"{place}.{key}".strip(".")
                return _first_difference(there.get(key), here.get(key), name)
    return place, there, here


def _plain_run(run: Run, state: WholeState, tensors: Tensors, prefix: str) -> Plain:
    """A run in this state as plain JSON; its tensors are added to `tensors` under this prefix."""
    good = state.good
    return {
        "records": [list(asdict(record).values()) for record in run.records[: state.now.num_epochs]],
        "rollbacks": state.rollbacks,
        "now": _plain_state(state.now, tensors, f"{prefix}now."),
        "good": None if good is None else _plain_state(good, tensors, f"{prefix}good."),
    }


def _restore_run(run: Run, plain: Plain, tensors: Tensors, prefix: str) -> None:
    good = plain["good"]
    run.recovery.resume(run, plain["rollbacks"], None if good is None else _state(good, tensors, f"{prefix}good."))
    run.records[:] = [EpochRecord(*values) for values in plain["records"]]
    run.restore(_state(plain["now"], tensors, f"{prefix}now."))


def _plain_state(state: RunState, tensors: Tensors, prefix: str) -> Plain:
    tensors.update({prefix + name: tensor for name, tensor in state.tensors.items()})
    tensors.update({f"{prefix}best.{name}": tensor for name, tensor in state.best.items()})
    return {
        "num_epochs": state.num_epochs,
        "num_steps": state.num_steps,
        "clock": state.clock,
        "watched": list(state.watched),
        "best_score": state.best_score if state.best else None,
        "best_epochs": state.best_epochs,
    }


def _state(plain: Plain, tensors: Tensors, prefix: str) -> RunState:
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return RunState(
        tensors={name: tensor for name, tensor in own.items() if not name.startswith("best.")},
        num_epochs=plain["num_epochs"],
        num_steps=plain["num_steps"],
        clock=plain["clock"],
        watched=tuple(plain["watched"]),
        best_score=-math.inf if plain["best_score"] is None else plain["best_score"],
        best_epochs=plain["best_epochs"],
        best={name.removeprefix("best."): tensor for name, tensor in own.items() if name.startswith("best.")},
    )
