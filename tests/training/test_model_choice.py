"""`model="auto"`: the model that rows held out choose, and then its noise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.choosing import CONFIG, HELD_OUT, trained, waves, without_gp_noise
from tests.helpers.sameness import same_parameters

import mogul
import mogul.fitted.files
from mogul import Dataset, TrainingConfig, fit
from mogul.errors import ConfigError, MogulWarning
from mogul.objective.updates import NoiseUpdate
from mogul.training import Fitted, Run
from mogul.training.choice import best_candidate
from mogul.training.defaults import MODELS, NOISES


def any_model(model: str, **settings: Any) -> Fitted:
    sizes = {"num_inducing": 5, "num_latents": 2, "noise": "constant"}
    return fit(waves(), model=model, config=CONFIG, **sizes | {"held_out": HELD_OUT} | settings)


class TestModels:
    """`model="auto"`."""

    def test_it_is_the_best_of_separate_fits_on_the_same_rows(self):
        auto, each = any_model("auto"), {model: any_model(model) for model in MODELS}
        assert auto.choice is not None
        assert {candidate.model: candidate.ll for candidate in auto.choice.candidates} == {
            model: fitted.history.held_out for model, fitted in each.items()
        }
        best = max(MODELS, key=lambda model: each[model].history.held_out or -np.inf)
        assert auto.choice.chosen.pair == (best, "constant")
        assert auto.blueprint is not None
        assert auto.blueprint.model == best
        assert same_parameters(auto, each[best])

    def test_first_the_model_then_its_noise(self):
        scores = {("a", "gp"): 1.0, ("b", "gp"): 2.0, ("b", "constant"): 3.0, ("b", "student-t"): 0.0}
        fitted = trained()

        def train(model: str, noise: str) -> Fitted:
            return replace(fitted, history=replace(fitted.history, held_out=scores[model, noise]))

        choice = best_candidate(train, 6, ["a", "b"], NOISES).choice
        assert choice is not None
        assert {candidate.pair: candidate.ll for candidate in choice.candidates} == scores
        assert choice.chosen.pair == ("b", "constant")

    def test_where_no_model_trains_with_the_first_noise_the_others_are_tried(self):
        with pytest.warns(MogulWarning, match="skipped"):
            choice = best_candidate(without_gp_noise, 6, ["mogp", "sbgprn"], NOISES).choice
        assert choice is not None
        assert choice.chosen.pair[0] == "mogp"
        assert len(choice.candidates) == 4

    def test_ctrl_c_before_all_rows_are_trained_on_keeps_what_was_chosen(self, monkeypatch: pytest.MonkeyPatch):
        begun = Run.__init__

        def watched_alone(run: Run, *arguments: Any, **named: Any) -> None:
            begun(run, *arguments, **named)
            if run.num_rows == 36:
                raise KeyboardInterrupt

        first = any_model("auto")
        monkeypatch.setattr(Run, "__init__", watched_alone)
        with pytest.warns(MogulWarning, match="Training on all rows was interrupted"):
            kept = any_model("auto", retrain=True)
        assert kept.history.interrupted
        assert not kept.history.retrained
        assert same_parameters(kept, first)

    def test_what_is_wrong_with_the_last_is_found_before_the_first_is_trained(self):
        def never(record: Any, model: Any) -> None:
            raise AssertionError("nothing should have been trained")

        for settings in ({"num_hidden": 0}, {"nonlinearity": "bogus"}):
            with pytest.raises(ConfigError):
                any_model("auto", on_epoch=never, **settings)
        with pytest.raises(ConfigError, match="num_sites needs objective='predictive'"):
            any_model("mogp+dgp", on_epoch=never, num_sites=3, held_out=None)

    def test_a_single_model_and_a_choice_may_share_a_folder(self, tmp_path: Path):
        saving: dict[str, Any] = {"retrain": True, "checkpoint": tmp_path}
        alone, auto = any_model("mogp", **saving), any_model("auto", **saving)
        both = any_model("auto", noise="auto", **saving)
        assert same_parameters(any_model("mogp", **saving), alone)
        assert same_parameters(any_model("auto", **saving), auto)
        assert same_parameters(any_model("auto", noise="auto", **saving), both)

    def test_options_go_to_those_that_have_a_use_for_them(self):
        auto = any_model("auto", num_hidden=3)
        assert auto.choice is not None
        assert all(candidate.failure is None for candidate in auto.choice.candidates)
        with pytest.raises(ConfigError, match="num_top_latents must be left out where nothing uses it"):
            any_model("auto", num_top_latents=2)

    def test_each_model_may_be_trained_its_own_way(self):
        asked = []

        def config(model: str) -> TrainingConfig:
            asked.append(model)
            return replace(CONFIG, epochs=1 + MODELS.index(model))

        auto = fit(
            waves(), model="auto", config=config, noise="constant", num_inducing=5, num_latents=2, held_out=HELD_OUT
        )
        assert auto.choice is not None
        assert [candidate.epochs for candidate in auto.choice.candidates] == [1, 2, 3, 4]
        assert set(asked) == set(MODELS)

    def test_what_was_chosen_is_trained_on_all_rows_in_the_end(self, tmp_path: Path):
        first = any_model("auto")
        again = any_model("auto", retrain=True, checkpoint=tmp_path)
        assert first.choice is not None
        assert again.choice is not None
        assert again.choice.chosen.pair == first.choice.chosen.pair
        rates = tuple(record.learning_rate for record in first.history.records[: first.history.kept_epochs])
        whole = fit(
            waves(),
            model=first.choice.chosen.model,
            config=CONFIG.replaying(rates),
            num_inducing=5,
            num_latents=2,
            noise="constant",
        )
        assert same_parameters(again, whole)
        assert same_parameters(any_model("auto", retrain=True, checkpoint=tmp_path), again)

    def test_what_a_fixed_matrix_cannot_mix_is_left_to_the_others(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(-2, 2, (300, 1))
        curve = np.sin(3 * x)  # one GP for two outputs, whose ratio depends on x
        planted = Dataset(x, np.hstack([curve, x * curve]) + 0.05 * rng.standard_normal((300, 2)))
        config = TrainingConfig(epochs=40, num_starts=1, learning_rate=0.05, updates=(NoiseUpdate(),))
        choice = fit(planted, model="auto", config=config, noise="constant", num_inducing=12, num_latents=1).choice
        assert choice is not None
        scores = {candidate.model: candidate.ll or -np.inf for candidate in choice.candidates}
        assert choice.chosen.model == "sbgprn"
        assert scores["sbgprn"] > scores["mogp"] + 1

    def test_it_is_kept_in_the_file(self, tmp_path: Path):
        auto = any_model("auto")
        auto.save(tmp_path / "m")
        assert mogul.load(tmp_path / "m").choice == auto.choice

    @pytest.mark.parametrize(
        ("model", "settings", "asked"), [("auto", {}, "model='auto'"), ("mogp", {"noise": "auto"}, "noise='auto'")]
    )
    def test_two_rows_are_too_few_to_choose_by(self, model: str, settings: dict[str, Any], asked: str):
        with pytest.raises(
            ConfigError, match=f"{asked} needs rows to choose by, a fifth of at least 3; got n_samples = 2"
        ):
            fit(waves(2), model=model, config=TrainingConfig(epochs=1, num_starts=1), **settings)

    def test_many_outputs_are_too_many_for_a_gprn(self):
        data = Dataset(np.arange(9.0)[:, None], np.random.default_rng(0).normal(size=(9, 21)))
        auto = fit(
            data,
            model="auto",
            config=TrainingConfig(epochs=1, num_starts=1),
            noise="constant",
            num_inducing=3,
            num_latents=1,
        )
        assert auto.choice is not None
        assert [candidate.model for candidate in auto.choice.candidates] == ["mogp", "sbgprn", "n-sbgprn"]
