"""Trainings that are disturbed at random moments: resumed, they end where one that is left in peace does."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_reproduce import NUM_TEST, NUM_TRAIN, SMALL
from tests.helpers.sameness import same_training
from tests.helpers.separate import begin, train, train_briefly, train_in_closed_folder, train_on_full_disk

import mogul
from mogul.training.checkpoint import FILE_NAME

pytestmark = pytest.mark.no_cover
PATIENCE = 120
SIGNALS = {
    "killed": [signal.SIGKILL],
    "terminated": [signal.SIGTERM],
    "interrupted": [signal.SIGINT],
    "interrupted twice": [signal.SIGINT, signal.SIGINT],
}


def in_peace(function: Any, factory: pytest.TempPathFactory) -> mogul.Fitted:
    out = factory.mktemp("undisturbed") / "model"
    process, begun = begin(function, out, None)
    process.join(PATIENCE)
    assert begun.is_set()
    return mogul.load(out)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> mogul.Fitted:
    return in_peace(train_briefly, tmp_path_factory)


@pytest.fixture(scope="module")
def undisturbed_for_long(tmp_path_factory: pytest.TempPathFactory) -> mogul.Fitted:
    return in_peace(train, tmp_path_factory)


def disturb(kind: str, folder: Path, moments: random.Random, function: Any = train_briefly) -> None:
    """One life of a training that gets these signals, the second a moment after the first."""
    life, begun = begin(function, folder / "model", folder / "checkpoint")
    assert begun.wait(PATIENCE)
    time.sleep(moments.uniform(0.0, 0.15 if function is train_briefly else 1.0))
    for number in SIGNALS[kind]:
        if life.is_alive():
            os.kill(life.pid, number)
        time.sleep(moments.uniform(0.0, 0.01))
    life.join(PATIENCE)
    assert life.exitcode is not None


def resumed(folder: Path, function: Any = train_briefly) -> mogul.Fitted:
    life, _begun = begin(function, folder / "resumed", folder / "checkpoint")
    life.join(PATIENCE)
    assert life.exitcode == 0
    assert [path.name for path in (folder / "checkpoint").iterdir()] == [FILE_NAME]
    return mogul.load(folder / "resumed")


@pytest.mark.parametrize("kind", ["terminated", "interrupted twice"])
def test_a_signal_costs_an_epoch_at_most(kind: str, undisturbed: mogul.Fitted, tmp_path: Path):
    disturb(kind, tmp_path, random.Random(kind))
    assert same_training(undisturbed, resumed(tmp_path))


@pytest.mark.parametrize(
    ("disturbed", "said"), [(train_on_full_disk, "File too large"), (train_in_closed_folder, "Permission denied")]
)
def test_without_a_place_to_write_training_goes_on_and_says_so(disturbed, said, undisturbed, tmp_path: Path):
    life, _begun = begin(disturbed, tmp_path / "model", tmp_path / "checkpoint")
    life.join(PATIENCE)
    assert life.exitcode == 0
    assert same_training(undisturbed, mogul.load(tmp_path / "model"))
    messages = json.loads((tmp_path / "model.json").read_text())
    assert all("The checkpoint was not written; training continues without it." in each for each in messages)
    assert said in messages[0]
    assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == [FILE_NAME]
    assert same_training(undisturbed, resumed(tmp_path))


def test_two_processes_in_one_folder_do_not_disturb_each_other(undisturbed: mogul.Fitted, tmp_path: Path):
    lives = [begin(train_briefly, tmp_path / f"model{place}", tmp_path / "checkpoint") for place in range(2)]
    for place, (life, _begun) in enumerate(lives):
        life.join(PATIENCE)
        assert life.exitcode == 0
        assert same_training(undisturbed, mogul.load(tmp_path / f"model{place}"))
    assert same_training(undisturbed, resumed(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("number", range(30))
def test_at_thirty_moments_of_fit(number: int, undisturbed_for_long: mogul.Fitted, tmp_path: Path):
    disturb(list(SIGNALS)[number % len(SIGNALS)], tmp_path, random.Random(number), train)
    assert same_training(undisturbed_for_long, resumed(tmp_path, train))


SCRIPT = f"""
from dataclasses import replace
from mogul.lab.experiments import synthetic
synthetic.NUM_TRAIN, synthetic.NUM_TEST = {NUM_TRAIN}, {NUM_TEST}
config = synthetic.config
synthetic.config = lambda seed: replace(config(seed), num_starts=1)
from mogul.cli import main
main()
"""


def reproduced(folder: Path, kind: str | None = None, moments: random.Random | None = None) -> tuple[int, str]:
    """One run of `mogul reproduce`, disturbed or to its end: its exit code, and what it said."""
    call = [sys.executable, "-c", SCRIPT, "reproduce", *SMALL, "--out", str(folder), "--jobs", "1"]
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if kind is not None and moments is not None:
        until = time.monotonic() + PATIENCE
        while not list(folder.glob("jobs/*.json")) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)  # the script's own imports are none of ours
        time.sleep(moments.uniform(0.0, 2.0))
        for number in SIGNALS[kind]:
            process.send_signal(number)
            time.sleep(moments.uniform(0.0, 0.05))
    said = process.communicate(timeout=PATIENCE)[1]
    return process.returncode, said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    code, said = reproduced(folder)
    assert code == 0, said
    return (folder / "results.csv").read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("number", range(30))
def test_at_thirty_moments_of_reproduce(number: int, whole: bytes, tmp_path: Path):
    kind = list(SIGNALS)[number % len(SIGNALS)]
    _, said = reproduced(tmp_path, kind, random.Random(number))
    if kind.startswith("interrupted"):
        assert "Traceback" not in said
    code, said = reproduced(tmp_path)
    assert code == 0, said
    assert (tmp_path / "results.csv").read_bytes() == whole
