"""Checkpoints: the same course with and without, and a clear word where a folder holds something else."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.helpers.killing import Killed, kill_after
from tests.helpers.sameness import same_training

import mogul
from mogul import Dataset, MultiOutputGPLVM, MultiOutputGPRegressor, TrainingConfig, fit
from mogul.errors import ConfigError, FileError, MogulWarning, NumericalError
from mogul.objective import MonteCarlo
from mogul.storage.container import read_sealed, write_sealed
from mogul.training import Fitted, NaturalGradient, NoiseUpdate, Run, Stopping
from mogul.training.checkpoint import FILE_NAME, Checkpoint, identity_of

CONFIG = TrainingConfig(epochs=6, batch_size=7, num_starts=2, start_epochs=2)


def waves(num_rows: int = 18) -> Dataset:
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.uniform(-2, 2, (num_rows, 2)), columns=["time", "load"])
    y = np.column_stack([np.sin(2 * x["time"]), np.cos(x["load"])]) + 0.1 * rng.standard_normal((num_rows, 2))
    y[::4, 1] = np.nan
    return Dataset(x, y)


def trained(folder: Path | None = None, name: str = "mogp", config: TrainingConfig = CONFIG, **options: Any) -> Fitted:
    options = {"num_inducing": 5, "checkpoint": folder, "checkpoint_seconds": 0.0} | options
    return fit(waves(), model=name, config=config, **({"noise": "constant"} | options))


def killed_after(num_epochs: int, folder: Path, *rest: Any, **options: Any) -> None:
    """Train until so many epochs of all starts have ended; the last of them is lost."""
    with pytest.raises(Killed):
        trained(folder, *rest, on_epoch=kill_after(num_epochs), **options)


@pytest.fixture(scope="module")
def undisturbed() -> Fitted:
    return trained()


@pytest.fixture
def begun(checkpoint_of_two_epochs: bytes, tmp_path: Path) -> Path:
    """A folder with the checkpoint of a training that was killed in its second epoch."""
    (tmp_path / FILE_NAME).write_bytes(checkpoint_of_two_epochs)
    return tmp_path


@pytest.fixture(scope="module")
def checkpoint_of_two_epochs(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("killed")
    killed_after(2, folder)
    return (folder / FILE_NAME).read_bytes()


class TestCourse:
    """Bit for bit the same, however often it is broken off."""

    def test_saving_changes_nothing(self, tmp_path: Path, undisturbed: Fitted):
        assert same_training(trained(tmp_path), undisturbed)

    @pytest.mark.no_cover  # many steps on lines that other tests run too
    @pytest.mark.parametrize("num_epochs", range(2, 9))
    def test_wherever_it_was_killed(self, tmp_path: Path, num_epochs: int, undisturbed: Fitted):
        killed_after(num_epochs, tmp_path)
        seen: list[int] = []
        again = trained(tmp_path, on_epoch=lambda record, model: seen.append(record.epoch))
        assert len(seen) == 8 - (num_epochs - 1)
        assert same_training(again, undisturbed)

    @pytest.mark.no_cover  # many steps on lines that other tests run too
    @pytest.mark.filterwarnings("ignore:Outputs should have at least:mogul.errors.MogulWarning")
    @pytest.mark.parametrize(
        ("name", "changes", "options"),
        [
            ("gprn", {"precision": "float32"}, {"num_mixing_inducing": 4}),
            ("dk-n-dgp", {"expectation": MonteCarlo(3), "anneal_epochs": 3}, {"num_top_inducing": 4}),
            ("n-sbgprn", {"stopping": Stopping(patience=1, tolerance=0.5, held_out=0.2)}, {"dropout": 0.2}),
            ("n-mogp", {"updates": (NoiseUpdate(), NaturalGradient(ramp_steps=4))}, {"correlated_mixing": True}),
            ("mogp-lvm", {"updates": (NoiseUpdate(),)}, {"num_inputs": 2}),
            ("dgp", {"objective": "predictive"}, {"num_top_inducing": 4, "num_sites": 3}),
        ],
    )
    def test_every_kind_of_state_is_kept(self, tmp_path: Path, name: str, changes: Any, options: Any):
        config = replace(CONFIG, **changes)
        killed_after(4, tmp_path, name, config, **options)
        assert same_training(trained(tmp_path, name, config, **options), trained(None, name, config, **options))

    @pytest.mark.no_cover  # many steps on lines that other tests run too
    @pytest.mark.parametrize("num_epochs", range(2, 10))
    def test_trouble_is_mended_in_the_same_way(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_epochs: int):
        step, config = Run.step, replace(CONFIG, num_starts=1)

        def fragile(run: Run, *rest: Any) -> Any:
            if run.num_steps == 10 and run.recovery.rollbacks < 2:  # the second step of the fourth epoch
                raise NumericalError("It broke. Mend it.")
            return step(run, *rest)

        monkeypatch.setattr(Run, "step", fragile)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MogulWarning)
            if num_epochs < 9:
                killed_after(num_epochs, tmp_path, config=config)
            again, undisturbed = trained(tmp_path, config=config), trained(config=config)
        assert undisturbed.history.records[-1].rollbacks == 2
        assert same_training(again, undisturbed)
        assert again.blueprint == undisturbed.blueprint

    def test_a_start_that_was_given_up_stays_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        step = Run.step

        def fragile(run: Run, *rest: Any) -> Any:
            if run.start == 0:
                raise NumericalError("It broke. Mend it.")
            return step(run, *rest)

        monkeypatch.setattr(Run, "step", fragile)
        with pytest.warns(MogulWarning, match="Start 1 was given up"):
            killed_after(3, tmp_path)
        monkeypatch.setattr(Run, "step", step)
        assert trained(tmp_path).history.chosen_start == 1

    def test_a_finished_training_is_given_back_at_once(self, tmp_path: Path):
        first = trained(tmp_path)
        before = (tmp_path / FILE_NAME).stat().st_mtime_ns
        assert same_training(trained(tmp_path, on_epoch=lambda *_: pytest.fail("It trains.")), first)
        assert (tmp_path / FILE_NAME).stat().st_mtime_ns >= before

    def test_an_interrupted_training_goes_on(self, tmp_path: Path, undisturbed: Fitted):
        def interrupt(record: Any, model: Any) -> None:
            if record.epoch == 3:
                raise KeyboardInterrupt

        with pytest.warns(MogulWarning, match=r"interrupted after 4 .*\. The same call resumes from .*checkpoint\.$"):
            trained(tmp_path, on_epoch=interrupt, checkpoint_seconds=1e6)
        assert same_training(trained(tmp_path), undisturbed)

    def test_it_is_written_when_due(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        clock = iter(range(0, 1000, 10))
        monkeypatch.setattr("mogul.training.checkpoint.time", SimpleNamespace(monotonic=lambda: float(next(clock))))
        written: list[int] = []
        save = Checkpoint.save
        monkeypatch.setattr(Checkpoint, "save", lambda self, starts: (written.append(1), save(self, starts)))
        trained(tmp_path, checkpoint_seconds=25.0)
        # Ten seconds pass at each look at the clock: one for each epoch, one when it was written; and once at the end.
        assert len(written) == 8 // 3 + 1
        assert not list(tmp_path.glob(".*"))

    def test_estimators_pass_it_on(self, tmp_path: Path):
        data = waves()
        settings = {"epochs": 3, "num_starts": 1, "num_inducing": 5}
        for kind, values in ((MultiOutputGPRegressor, (data.x, data.y)), (MultiOutputGPLVM, (data.y,))):
            first = kind(**settings).fit(*values, checkpoint=tmp_path / kind.__name__)
            again = kind(**settings).fit(*values, checkpoint=tmp_path / kind.__name__, checkpoint_seconds=5.0)
            # Seconds are those of the training that was done, not of one done again.
            assert again.fitted_.history == first.fitted_.history
            assert (tmp_path / kind.__name__ / FILE_NAME).is_file()


def other_data() -> Dataset:
    data = waves()
    data.x[3, 1] += 1e-9
    return data


def other_names() -> Dataset:
    data = waves()
    data.input_names = ["time", "weight"]
    return data


class TestFolder:
    """A folder that holds something else."""

    @pytest.mark.parametrize(
        ("change", "found"),
        [
            ({"X": other_data()}, r"data is '\w+\.\.\.\w+' there and '\w+\.\.\.\w+' here"),
            ({"X": other_names()}, r"input_names is \['time', 'load'\] there and \['time', 'weight'\] here"),
            ({"model": "sbgprn"}, "model is 'mogp' there and 'sbgprn' here"),
            ({"config": replace(CONFIG, epochs=7)}, r"config.epochs is 6 there and 7 here"),
            ({"config": replace(CONFIG, stopping=Stopping())}, r"config.stopping is None there and \{"),
            ({"config": replace(CONFIG, seed=1)}, "config.seed is 0 there and 1 here"),
            ({"num_inducing": 4}, "options.num_inducing is 5 there and 4 here"),
            ({"num_latents": 1}, "options.num_latents is 2 there and 1 here"),
            ({"mean": "zero"}, "mean is 'linear' there and 'zero' here"),
        ],
    )
    def test_another_training_is_refused_and_left_alone(self, begun: Path, change: Any, found: str):
        before = (begun / FILE_NAME).read_bytes()
        call = {"X": waves(), "model": "mogp", "config": CONFIG, "noise": "constant", "num_inducing": 5} | change
        with pytest.raises(FileError, match=rf"must be of the same training; .*: {found}.*\. Give another folder, or"):
            fit(**call, checkpoint=begun)
        assert (begun / FILE_NAME).read_bytes() == before
        assert len(list(begun.iterdir())) == 1

    @pytest.mark.parametrize(
        "damage",
        [
            lambda whole: whole[:-9],
            lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
            lambda whole: b"",
            lambda _: b"x",
        ],
        ids=["short", "flipped", "empty", "other"],
    )
    def test_a_damaged_file_is_refused_and_left_alone(self, begun: Path, damage: Any, undisturbed: Fitted):
        path = begun / FILE_NAME
        path.write_bytes(damage(path.read_bytes()))
        before = path.read_bytes()
        with pytest.raises(FileError, match=r"must be whole; this one is damaged\. .* Or delete .* to train from the"):
            trained(begun)
        assert path.read_bytes() == before
        path.unlink()
        assert same_training(trained(begun), undisturbed)

    def test_a_file_of_another_version_is_refused(self, begun: Path):
        header, tensors = read_sealed(begun / FILE_NAME)
        tensors["0.now.model.prior.lost"] = tensors.pop("0.now.model.prior.variational_mean")
        own = {name: value for name, value in header.items() if name not in {"format", "sha256"}}
        write_sealed(begun / FILE_NAME, own, tensors)
        with pytest.raises(FileError, match=r"must fit the models of this version of mogul; .* Use the version that"):
            trained(begun)

    def test_a_model_file_is_no_checkpoint_and_the_other_way_round(self, tmp_path: Path):
        trained(tmp_path / "a").save(tmp_path / FILE_NAME)
        with pytest.raises(FileError, match=r"must be of the same training; .* is None there"):
            trained(tmp_path)
        with pytest.raises(FileError, match="must describe a model"):
            mogul.load(tmp_path / "a" / FILE_NAME)

    def test_bad_arguments_change_nothing(self, tmp_path: Path):
        (tmp_path / "file").write_text("mine")
        with pytest.raises(ConfigError, match=r"Output must go into a folder; .* is a file. Choose another"):
            trained(tmp_path / "file")
        for seconds in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ConfigError, match=r"checkpoint_seconds must be 0 or more, and finite; got .* Try 60"):
                trained(tmp_path / "new", checkpoint_seconds=seconds)
        with pytest.raises(FileError, match="nonlinearity'] must be made of numbers, names"):
            trained(tmp_path / "new", "n-mogp", nonlinearity=mogul.nonlinearities.Quadrature(torch.sin))
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_what_kills_left_half_written_is_cleared_away(self, tmp_path: Path):
        (tmp_path / f".{FILE_NAME}.0123abcd.partial").write_text("half")
        (tmp_path / "mine.partial").write_text("whole")
        trained(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.partial", FILE_NAME]

    def test_a_disk_that_is_full_does_not_end_training(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Fitted
    ):
        def full(*_: Any) -> None:
            raise FileError("The file must be writable; it is not: No space left on device. Make room.")

        monkeypatch.setattr("mogul.training.checkpoint.write_sealed", full)
        with pytest.warns(
            MogulWarning, match="The checkpoint was not written; training continues without it. .* Make room"
        ):
            fitted = trained(tmp_path)
        assert same_training(fitted, undisturbed)


def test_an_identity_is_plain_and_does_not_see_which_nan():
    data, twin = waves(), waves()
    twin.y[np.isnan(twin.y)] = -np.float64("nan")
    identity = identity_of(data, config=CONFIG, options={"num_inducing": 5})
    assert identity == identity_of(twin, config=CONFIG, options={"num_inducing": 5})
    assert json.loads(json.dumps(identity)) == identity
