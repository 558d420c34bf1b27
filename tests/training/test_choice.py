"""`noise="auto"`: the noise that rows held out choose."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.choosing import CONFIG, HELD_OUT, trained, waves, without_gp_noise
from tests.helpers.killing import Killed, kill_after
from tests.helpers.sameness import same_parameters

import mogul
import mogul.fitted.files
from mogul import Dataset, TrainingConfig, fit
from mogul.cli.show import show_file
from mogul.errors import ConfigError, FitError, MogulWarning
from mogul.fitted.history import Choice
from mogul.objective.updates import NoiseUpdate
from mogul.training import Fitted, Run, Stopping
from mogul.training.choice import best_candidate
from mogul.training.defaults import NOISES
from mogul.training.fit import train_more


@pytest.fixture(scope="module")
def auto() -> Fitted:
    return trained(noise="auto")


class TestChoice:
    """`noise="auto"`."""

    def test_it_is_the_best_of_separate_fits_on_the_same_rows(self, auto: Fitted):
        assert auto.choice is not None
        each = {noise: trained(noise=noise) for noise in NOISES}
        assert {candidate.noise: candidate.ll for candidate in auto.choice.candidates} == {
            noise: fitted.history.held_out for noise, fitted in each.items()
        }
        best = max(NOISES, key=lambda noise: each[noise].history.held_out or -np.inf)
        assert auto.choice.chosen.noise == best == auto.blueprint.options["noise"]  # type: ignore[union-attr]
        assert same_parameters(auto, each[best])
        assert auto.choice.num_held_out == len(HELD_OUT)
        assert list(auto.choice.frame().columns) == ["model", "noise", "ll", "epochs", "seconds", "failure"]

    def test_options_must_be_of_use_to_some_candidate(self):
        with pytest.raises(ConfigError, match="noise_rank must be left out where nothing uses it"):
            trained(noise="auto", noise_rank=1)
        with pytest.raises(ConfigError, match="dropout must be left out where nothing uses it; mogp does not"):
            trained(noise="auto", dropout=0.1)

    def test_a_fifth_is_held_out_where_nobody_says(self):
        once = {"noise": "auto", "held_out": None, "retrain": False}
        auto = trained(**once, config=TrainingConfig(epochs=1, num_starts=1))
        assert auto.blueprint.config.stopping.held_out == 0.2  # type: ignore[union-attr]
        assert auto.history.held_out is not None
        share = trained(**once, config=TrainingConfig(epochs=1, num_starts=1, stopping=Stopping(held_out=0.5)))
        assert share.blueprint.config.stopping.held_out == 0.5  # type: ignore[union-attr]

    @pytest.mark.parametrize("truth", ["gp", "student-t"])
    def test_a_planted_kind_of_noise_is_found(self, truth: str):
        rng = np.random.default_rng(1)
        x = rng.uniform(-2, 2, (200, 1))
        shape = np.exp(1.5 * x) if truth == "gp" else 1.0
        draws = rng.standard_normal((200, 2)) if truth == "gp" else rng.standard_t(2.2, (200, 2))
        settings: dict[str, Any] = {"batch_size": 200, "learning_rate": 0.1, "updates": (NoiseUpdate(),)}
        config = TrainingConfig(epochs=20, num_starts=1, stopping=Stopping(patience=10), **settings)
        data = Dataset(x, np.hstack([np.sin(x), x]) + 0.2 * shape * draws)
        options = {"num_inducing": 5, "num_noise_inducing": 8, "num_latents": 1}
        choice = fit(data, model="mogp", config=config, noise="auto", **options).choice
        assert choice is not None
        assert choice.chosen.noise == truth

    @pytest.mark.parametrize("num_epochs", [2, 4])
    def test_it_goes_on_where_it_was_killed(self, tmp_path: Path, num_epochs: int, auto: Fitted):
        saving: dict[str, Any] = {"checkpoint": tmp_path, "checkpoint_seconds": 0.0, "noise": "auto"}
        with pytest.raises(Killed):
            trained(on_epoch=kill_after(num_epochs), **saving)
        begun = {path.parent.name for path in tmp_path.rglob("*.mogul-checkpoint")}
        assert begun == set(NOISES[: num_epochs // 2])
        again = trained(**saving)
        assert same_parameters(again, auto)
        assert again.choice is not None
        assert auto.choice is not None
        columns = ["noise", "ll", "epochs"]
        assert again.choice.frame()[columns].equals(auto.choice.frame()[columns])

    def test_other_rows_held_out_are_another_training(self, tmp_path: Path):
        trained(checkpoint=tmp_path)
        with pytest.raises(OSError, match="is of another: held_out is"):
            trained(checkpoint=tmp_path, held_out=HELD_OUT + 1)

    def test_what_cannot_be_trained_is_passed_over(self):
        with pytest.warns(MogulWarning, match="mogp with gp noise was skipped. It broke"):
            choice = best_candidate(without_gp_noise, 6, ["mogp"], NOISES).choice
        assert choice is not None
        assert choice.chosen.noise != "gp"
        assert (choice.candidates[0].ll, choice.candidates[0].failure) == (None, "It broke. Mend it.")
        with pytest.raises(FitError, match="It broke"), pytest.warns(MogulWarning, match="skipped"):
            best_candidate(without_gp_noise, 6, ["mogp"], ["gp"])

    def test_ctrl_c_before_an_epoch_has_ended_keeps_those_before(self):
        def train(_: str, noise: str) -> Fitted:
            if noise == "constant":
                raise KeyboardInterrupt
            return trained(noise=noise)

        with pytest.warns(MogulWarning, match="constant noise was interrupted before its first epoch ended"):
            choice = best_candidate(train, 6, ["mogp"], NOISES).choice
        assert choice is not None
        assert [candidate.noise for candidate in choice.candidates] == ["gp"]
        with pytest.raises(KeyboardInterrupt):
            best_candidate(train, 6, ["mogp"], ["constant"])

    def test_more_training_learns_from_all_rows_given(self):
        auto = trained(noise="auto", held_out=None)
        assert auto.choice is not None
        assert len(train_more(auto, waves().rows(np.arange(1)), epochs=1).history.elbo) == len(auto.history.elbo) + 1

    def test_latent_inputs_have_no_rows_to_choose_by(self):
        with pytest.raises(ConfigError, match=r"noise='auto' needs rows to hold out.*mogp-lvm\. Name a noise"):
            fit(waves().without_inputs(), model="mogp-lvm", config=CONFIG, noise="auto")

    def test_ctrl_c_ends_the_choice(self, monkeypatch: pytest.MonkeyPatch):
        step = Run.step

        def interrupted(run: Run, *rest: Any) -> Any:
            if "gps" not in dict(run.model.head.noise.named_children()) and run.num_steps == 2:
                raise KeyboardInterrupt
            return step(run, *rest)

        monkeypatch.setattr(Run, "step", interrupted)
        with pytest.warns(MogulWarning, match="Training was interrupted after 1 of at most 2"):
            auto = trained(noise="auto")
        assert auto.choice is not None
        assert [candidate.noise for candidate in auto.choice.candidates] == ["gp", "constant"]
        assert auto.history.interrupted  # whichever is the best of them

    def test_it_is_kept_in_the_file(self, tmp_path: Path, auto: Fitted):
        auto.save(tmp_path / "m")
        loaded = mogul.load(tmp_path / "m")
        assert loaded.choice == auto.choice
        assert loaded.history == auto.history
        assert same_parameters(loaded, auto)

    def test_a_file_of_old_named_the_noise_alone(self, tmp_path: Path, auto: Fitted, monkeypatch: pytest.MonkeyPatch):
        assert auto.choice is not None

        def of_old(choice: Any) -> dict[str, Any]:
            tried = [
                {name: value for name, value in vars(each).items() if name != "model"} for each in choice.candidates
            ]
            return {"chosen": choice.chosen.noise, "candidates": tried, "num_held_out": choice.num_held_out}

        plain = mogul.fitted.files.asdict
        monkeypatch.setattr(
            "mogul.fitted.files.asdict", lambda each: of_old(each) if isinstance(each, Choice) else plain(each)
        )
        auto.save(tmp_path / "m")
        assert mogul.load(tmp_path / "m").choice == auto.choice
        shown = show_file(tmp_path / "m").choice
        assert shown is not None
        assert (shown["chosen"]["model"], shown["chosen"]["noise"]) == auto.choice.chosen.pair
