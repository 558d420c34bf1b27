"""A training that is killed again and again ends where one that is left in peace does, bit for bit."""

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sameness import same_training
from tests.helpers.separate import CONFIG, begin, fit_for_ever, train, train_for_ever, waves

import mogul
from mogul import MultiOutputGPRegressor
from mogul.training.checkpoint import FILE_NAME

# Long fits, whose lines quicker tests run too: tracing them would cost as much again.
pytestmark = pytest.mark.no_cover

NUM_KILLS = 10
PATIENCE = 60  # seconds until something must have happened


def test_killed_at_ten_random_moments_training_ends_in_the_same_parameters(tmp_path: Path):
    undisturbed, _ = begin(train, tmp_path / "undisturbed", None)
    moments, folder = random.Random(0), tmp_path / "checkpoint"
    for number in range(NUM_KILLS):
        life, begun = begin(train, tmp_path / "killed", folder)
        assert begun.wait(PATIENCE), number
        time.sleep(moments.uniform(0.0, 0.1))  # ten of these are less than 110 epochs of 10 ms
        life.kill()
        life.join(PATIENCE)
        assert life.exitcode == -signal.SIGKILL
        assert not (tmp_path / "killed").exists()
    assert (folder / FILE_NAME).is_file()
    last, _ = begin(train, tmp_path / "killed", folder)
    for process in (last, undisturbed):
        process.join(PATIENCE)
        assert process.exitcode == 0
    assert same_training(mogul.load(tmp_path / "undisturbed"), mogul.load(tmp_path / "killed"))
    assert len(mogul.load(tmp_path / "killed").history.records) == CONFIG.epochs + 2 * CONFIG.start_epochs
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]
    # Once it is done, the same call trains nothing.
    again, begun = begin(train, tmp_path / "again", folder)
    again.join(PATIENCE)
    assert not begun.is_set()
    assert same_training(mogul.load(tmp_path / "again"), mogul.load(tmp_path / "killed"))


@pytest.mark.parametrize("folder", [None, "checkpoint"])
def test_ctrl_c_keeps_what_was_learnt(tmp_path: Path, folder: str | None):
    place = None if folder is None else tmp_path / folder
    process, begun = begin(train_for_ever, tmp_path / "model", place)
    assert begun.wait(PATIENCE)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGINT)
    process.join(PATIENCE)
    assert process.exitcode == 0
    fitted = mogul.load(tmp_path / "model")
    assert len(fitted.history.elbo) >= 1
    assert np.isfinite(fitted.predict(waves().x).var).all()
    (said,) = json.loads((tmp_path / "model.json").read_text())
    assert said.startswith(f"Training was interrupted after {len(fitted.history.elbo)} of at")
    assert said.endswith(
        "Give checkpoint=, a folder, to resume next time."
        if place is None
        else f"The same call resumes from {place / FILE_NAME}."
    )
    assert (tmp_path / "checkpoint").exists() == (place is not None)


def test_ctrl_c_through_the_estimator(tmp_path: Path):
    process, _ = begin(fit_for_ever, tmp_path / "model", tmp_path)
    until = time.monotonic() + PATIENCE
    while not (tmp_path / FILE_NAME).exists() and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert np.isfinite(MultiOutputGPRegressor.load(tmp_path / "model").predict(waves().x)).all()
    assert "interrupted" in (tmp_path / "model.json").read_text()
