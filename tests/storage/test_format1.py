"""Model files and a checkpoint of format 1, written at commit ce2243d, load and predict what they predicted then."""

import json
import runpy
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pytest

import mogul
from mogul.errors import FileError

FOLDER = Path(__file__).parents[1] / "fixtures" / "format1"
WRITTEN = runpy.run_path(str(FOLDER / "write.py"))
MODELS = ["mogp", "mixture", "n-dgp-lvm"]


def assert_as_before(fitted: mogul.Fitted, name: str) -> None:
    before = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    now = WRITTEN["predictions"](fitted)
    for part in before:
        np.testing.assert_allclose(now[part], before[part], rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_file_predicts_what_it_did(name: str) -> None:
    fitted = mogul.load(FOLDER / f"{name}.mogul")
    assert_as_before(fitted, name)
    assert fitted.output_names == ["left", "höhe"]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_file_can_be_saved_again(name: str, tmp_path: Path) -> None:
    mogul.load(FOLDER / f"{name}.mogul").save(tmp_path / "again.mogul")
    assert_as_before(mogul.load(tmp_path / "again.mogul"), name)


def test_each_file_is_of_another_kind() -> None:
    single, mixture, latent = (mogul.load(FOLDER / f"{name}.mogul") for name in MODELS)
    assert isinstance(latent, mogul.FittedLatent)
    assert mixture.calibration is not None
    assert mixture.noise_name == "student-t"
    assert [member.blueprint.model for member in mixture.members] == ["mogp", "n-sbgprn"]
    assert single.calibration is None


@pytest.mark.filterwarnings("ignore:Outputs should have at least:mogul.errors.MogulWarning")
def test_a_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    copyfile(FOLDER / "checkpoint.mogul-checkpoint", tmp_path / "training.mogul-checkpoint")
    epochs: list[int] = []

    def record_epoch(record: Any, model: Any) -> None:
        epochs.append(record.epoch)

    fitted = WRITTEN["trained"](tmp_path, record_epoch)
    assert epochs == [3, 4, 5]
    assert_as_before(fitted, "checkpoint")


def test_a_checkpoint_of_another_training_is_still_refused(tmp_path: Path) -> None:
    copyfile(FOLDER / "checkpoint.mogul-checkpoint", tmp_path / "training.mogul-checkpoint")
    with pytest.raises(FileError, match=r"must be of the same training; .* model is 'mogp' there and 'sbgprn' here"):
        mogul.fit(WRITTEN["data"](), model="sbgprn", config=WRITTEN["QUICK"], checkpoint=tmp_path)
