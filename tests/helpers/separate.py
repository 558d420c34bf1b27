"""Trainings in processes of their own, to be killed and interrupted; they share one import of mogul."""

import json
import multiprocessing
import os
import resource
import signal
import time
import warnings
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mogul import Dataset, MultiOutputGPRegressor, TrainingConfig, fit
from mogul.training import Fitted, Stopping

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["mogul.training", "mogul.estimators", "safetensors.torch", "sklearn.cluster", "sklearn.linear_model", "pytest"]
)
# Three starts, rows held out of training whose likelihood is watched, and units dropped at random.
CONFIG = TrainingConfig(
    epochs=60,
    batch_size=13,
    num_starts=3,
    start_epochs=25,
    stopping=Stopping(held_out=0.2, tolerance=-100.0),
)
FOR_EVER = TrainingConfig(epochs=1_000_000, num_starts=2, start_epochs=3)


def waves() -> Dataset:
    """Two noisy waves; some values are missing."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (32, 1))
    y = np.hstack([np.sin(2 * x), np.cos(x)]) + rng.normal(0, 0.1, (32, 2))
    y[::5, 0] = np.nan
    return Dataset(x, y)


def begin(function: Any, *arguments: Any) -> tuple[Any, Event]:
    """Start a training; the event is set when its first epoch has ended."""
    begun = CONTEXT.Event()
    process = CONTEXT.Process(target=_heeding_ctrl_c, args=(function, begun, *arguments), daemon=True)
    process.start()
    return process, begun


def _heeding_ctrl_c(function: Any, *arguments: Any) -> None:
    """Programs that a shell starts in the background are born deaf to it, and so are their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    function(*arguments)


def train_briefly(begun: Event, out: Path, folder: Path | None) -> None:
    """A fifth of that training."""
    train(begun, out, folder, replace(CONFIG, epochs=14, num_starts=2, start_epochs=4))


def train(begun: Event, out: Path, folder: Path | None, config: TrainingConfig = CONFIG) -> None:
    """To the end, with a checkpoint after every epoch, and no epoch of less than 10 ms."""
    torch.set_num_threads(1)

    def on_epoch(record: Any, model: Any) -> None:
        begun.set()
        time.sleep(0.01)

    fitted = fit(
        waves(),
        model="n-sbgprn",
        config=config,
        noise="constant",
        num_inducing=6,
        dropout=0.1,
        on_epoch=on_epoch,
        checkpoint=folder,
        checkpoint_seconds=0.0,
    )
    fitted.save(out)


def train_for_ever(begun: Event, out: Path, folder: Path | None) -> None:
    """Until somebody interrupts; what was said then is written beside the model."""
    torch.set_num_threads(1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fitted = fit(
            waves(),
            model="mogp",
            config=FOR_EVER,
            noise="constant",
            num_inducing=6,
            on_epoch=lambda *_: begun.set(),
            checkpoint=folder,
        )
    fitted.save(out)
    out.with_suffix(".json").write_text(json.dumps([str(each.message) for each in said]))


def fit_for_ever(begun: Event, out: Path, folder: Path) -> None:
    """The same through the estimator; a checkpoint shows that an epoch has ended."""
    torch.set_num_threads(1)
    data = waves()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        regressor = MultiOutputGPRegressor("mogp", config=FOR_EVER, num_inducing=6)
        regressor.fit(data.x, data.y, checkpoint=folder, checkpoint_seconds=0.0)
    regressor.save(out)
    out.with_suffix(".json").write_text(json.dumps([str(each.message) for each in said]))


def train_on_full_disk(begun: Event, out: Path, folder: Path) -> None:
    """The same on a disk that is full from some epoch on, until the model is saved."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))

    _train_through(fill, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits), begun, out, folder)


def train_in_closed_folder(begun: Event, out: Path, folder: Path) -> None:
    """The same in a folder that becomes read-only; tests may run as root, whom nothing stops."""
    plain = os.replace

    def refuse(*arguments: Any) -> None:
        raise PermissionError(13, "Permission denied")

    _train_through(lambda: setattr(os, "replace", refuse), lambda: setattr(os, "replace", plain), begun, out, folder)


def _train_through(begin_trouble: Any, end_trouble: Any, begun: Event, out: Path, folder: Path) -> None:
    """Train with trouble from the tenth of 18 epochs on; what was said is written beside the model."""
    waits = iter([None] * 9 + [begin_trouble])

    class Trouble:
        def set(self) -> None:
            begun.set()
            if (trouble := next(waits, None)) is not None:
                trouble()

    saved = Fitted.save

    def save(fitted: Fitted, path: Any, **more: Any) -> None:
        end_trouble()
        saved(fitted, path, **more)

    Fitted.save = save  # type: ignore[method-assign]  # in this process alone
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train_briefly(Trouble(), out, folder)  # type: ignore[arg-type]  # it can be set
    out.with_suffix(".json").write_text(json.dumps([str(each.message) for each in said]))
