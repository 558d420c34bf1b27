"""A fit of rows that stay on disk is a fit: the same loop, an ordinary model, checked, saved, resumed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.killing import Killed, kill_after
from tests.helpers.row_tables import INPUTS, TARGETS, frame, write
from tests.helpers.teams import request, trained

import mogul
from mogul import TrainingConfig
from mogul.data import Batch
from mogul.data.sources.row_files import RowFiles
from mogul.data.stored import HoldOut, gather
from mogul.errors import ConfigError
from mogul.training import FitRequest, Run
from mogul.training.on_disk import on_disk
from mogul.training.starts import Saving
from mogul.training.team import Team

# Whole fits, whose lines quicker tests run too.
pytestmark = pytest.mark.no_cover
TABLE = frame(4000)
X, Y = TABLE[[*INPUTS]], TABLE[[*TARGETS]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disk")
    write(TABLE, folder / "rows")
    return folder


@pytest.mark.parametrize("epoch_steps", [None, 3])
def test_batches_from_disk_train_as_those_in_memory(folder: Path, epoch_steps: int | None) -> None:
    """Bit for bit: parameters, closed-form noise at the end, and the course."""
    sample = gather(RowFiles.of(folder / "rows", TARGETS, INPUTS[:2]), HoldOut(0.0, 0), folder / "copy")
    stored = sample.everything.stored(torch.float64)
    (whole,) = stored.pieces(len(stored))
    config = TrainingConfig(epochs=3, batch_size=300, epoch_steps=epoch_steps, num_starts=1)
    runs = []
    for rows in (stored, whole):
        model = mogul.models.build("mogp", whole.x[:50], 2, torch.Generator().manual_seed(0), num_inducing=6)
        runs.append(Run(model, rows, config, torch.Generator().manual_seed(1)))
        runs[-1].train(3, lambda record: None)
    for name, value in runs[0].model.state_dict().items():
        assert torch.equal(value, runs[1].model.state_dict()[name]), name
    assert [record.elbo for record in runs[0].records] == [record.elbo for record in runs[1].records]
    assert runs[0].num_steps == 3 * (epoch_steps or 14)


def test_it_predicts_like_a_fit_in_memory(folder: Path, tmp_path: Path) -> None:
    own = request(Team()).fit_files(RowFiles.of(folder / "rows", TARGETS), folder / "copy", sample_rows=1000)
    asked = {"model": "n-sbgprn", "mean": "linear", "noise": "gp", "epochs": 4, "batch_size": 500, "num_inducing": 8}
    usual = mogul.fit(X, Y, precision="float64", verbose=0, **asked)
    rest = frame(500, seed=9)
    scores = [each.evaluate(mogul.Dataset(rest[[*INPUTS]], rest[[*TARGETS]])) for each in (own, usual)]
    # After four epochs, seeds differ by 0.25.
    assert scores[0].ll == pytest.approx(scores[1].ll, abs=0.35)
    assert own.check is not None
    assert 60 <= own.check.num_rows <= 140
    assert [each.r2 > 0.9 for each in own.check.model] == [True, True]
    own.save(tmp_path / "own.mogul")
    again = mogul.load(tmp_path / "own.mogul")
    np.testing.assert_array_equal(again.predict(X[:5]).mean, own.predict(X[:5]).mean)
    assert again.trained_rows is not None
    assert again.trained_rows.count(mogul.Dataset(X, Y)) == pytest.approx(own.history.num_rows, rel=0.01)


def test_groups_are_validated_on_and_mixtures_trained(folder: Path) -> None:
    write(TABLE.assign(run=[f"{row % 8}" for row in range(len(TABLE))]), folder / "runs")
    files = RowFiles.of(folder / "runs", TARGETS, INPUTS, groups="run")
    quick = replace(request(Team()), model=None, options={"num_inducing": 5}, settings={"epochs": 2})
    fitted = quick.fit_files(files, sample_rows=1000)
    assert fitted.model_name == "mogp+gprn+n-sbgprn"
    assert all(member.history.num_rows == 3000 for member in fitted.single_models)
    assert all(member.history.held_out is not None and not member.history.retrained for member in fitted.single_models)


def test_it_goes_on_from_its_checkpoint(folder: Path, tmp_path: Path) -> None:
    undisturbed = trained(request(Team()), folder)
    saving = Saving(kill_after(3), tmp_path / "states", 0.0)
    with pytest.raises(Killed):
        trained(request(Team(), saving), folder)
    resumed = trained(request(Team(), replace(saving, on_epoch=None)), folder)
    assert all(torch.equal(undisturbed[name], value) for name, value in resumed.items())
    write(frame(4000, seed=3), tmp_path / "rows")
    with pytest.raises(mogul.MogulError, match="is of another"):
        trained(request(Team(), saving), tmp_path)


def test_few_rows_are_read_and_give_the_model_of_arrays(tmp_path: Path) -> None:
    few = frame(60)
    where = str(write(few, tmp_path / "rows") / "*.parquet")
    asked = {"mean": "linear", "verbose": 0, "check": False}
    fits = [
        mogul.fit(few[[*INPUTS]], few[[*TARGETS]], **asked),
        mogul.fit(where, targets=TARGETS, **asked),
        mogul.fit(where, targets=TARGETS, stream=True, **asked),
    ]
    for each in fits[1:]:
        np.testing.assert_array_equal(each.predict(X[:5]).mean, fits[0].predict(X[:5]).mean)
    assert fits[1].input_columns == [*INPUTS]


@pytest.mark.parametrize(
    "given",
    [{"mean": "trees"}, {"transform": "log"}, {"calibrate": 0.2}, {"quick": True}, {"retrain": True}],
)
def test_what_needs_all_rows_is_refused(folder: Path, given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(ConfigError, match=f"{name} needs all rows in memory; got {name}="):
        FitRequest(**given).fit_files(RowFiles.of(folder / "rows", TARGETS), sample_rows=300)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "mogp-lvm"}, "latent inputs need rows in memory"),
        ({"targets": None}, "Columns of files must be named"),
        ({"categories": ["a"]}, "categories is for a table in memory"),
        ({"validation": (X, Y)}, "validation must be a share"),
    ],
)
def test_what_files_do_not_have_is_refused(folder: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mogul.fit(str(folder / "rows"), stream=True, verbose=0, **({"targets": TARGETS} | given))


def test_memory_is_of_the_sample(folder: Path) -> None:
    """What a fit is asked for is of the sample's size, and what it decides by is the number of all rows."""
    with on_disk(FitRequest(check=False), RowFiles.of(folder / "rows", TARGETS), sample_rows=300) as (_, data):
        assert (data.num_rows, data.population) == (300, 4000)
        assert isinstance(next(iter(data.everything.stored(torch.float32).pieces(10))), Batch)


def test_an_estimator_takes_files(folder: Path) -> None:
    own = mogul.MultiOutputGPRegressor("n-sbgprn", epochs=2, num_inducing=5, mean="linear", check=False, verbose=0)
    own.fit_files(str(folder / "rows"), TARGETS, INPUTS[:2])
    again = mogul.fit(str(folder / "rows"), targets=TARGETS, inputs=INPUTS[:2], model="n-sbgprn", epochs=2,
                      num_inducing=5, mean="linear", check=False, verbose=0)  # fmt: skip
    x = X[["a", "b"]]
    np.testing.assert_array_equal(own.predict(x), again.predictor().mean(x))
    assert own.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names"):
        own.predict(X)
