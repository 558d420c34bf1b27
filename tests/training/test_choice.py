"""Rows held out by place or by group, and the noise that they choose."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killing import Killed, kill_after
from sameness import same_parameters
from scipy.stats import norm

import mogul
import mogul.storage
from mogul import Dataset, TrainingConfig, fit
from mogul.commands.show import show_file
from mogul.errors import ConfigError, DataError, FitError, MogulWarning
from mogul.training import Fitted, Run, Stopping
from mogul.training.choice import MODELS, NOISES, Choice, best_candidate
from mogul.training.held_out import divided, group_numbers, rows_of_some_groups
from mogul.training.more import train_more
from mogul.training.updates import NoiseUpdate

CONFIG = TrainingConfig(epochs=2, batch_size=20, num_starts=1, stopping=Stopping())
HELD_OUT = np.arange(0, 36, 6)


def waves(num_rows: int = 36) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (num_rows, 2))
    y = np.column_stack([np.sin(2 * x[:, 0]), 5 * np.cos(x[:, 1])]) + 0.1 * rng.standard_normal((num_rows, 2))
    y[::5, 1] = np.nan
    return Dataset(x, y)


def trained(**settings: Any) -> Fitted:
    given = {"num_inducing": 5, "held_out": HELD_OUT} | settings
    if given.get("noise") in {"auto", "gp"}:
        given["num_noise_inducing"] = 4
    return fit(waves(), "mogp", given.pop("config", CONFIG), **given)


@pytest.fixture(scope="module")
def auto() -> Fitted:
    return trained(noise="auto")


class TestHeldOut:
    """Which rows have no part in training."""

    def test_held_out_rows_have_no_part_in_anything(self):
        known = np.setdiff1d(np.arange(36), HELD_OUT)
        alone = fit(waves().rows(known), "mogp", CONFIG, num_inducing=5)
        beside = trained(config=TrainingConfig(**{**vars(CONFIG), "stopping": Stopping(tolerance=-np.inf)}))
        np.testing.assert_array_equal(beside.scaling.inputs.shift, alone.scaling.inputs.shift)
        np.testing.assert_array_equal(beside.scaling.outputs.scale, alone.scaling.outputs.scale)
        np.testing.assert_array_equal(
            beside.model.mean.state_dict()["weights"], alone.model.mean.state_dict()["weights"]
        )
        assert beside.history.elbo == alone.history.elbo

    @pytest.mark.parametrize("noise", ["student-t", "auto"])
    def test_in_the_end_all_rows_are_trained_on_for_as_long_as_was_best(self, noise: str, tmp_path: Path):
        longer = replace(CONFIG, epochs=6, learning_rate=2.0)  # too long strides to go on getting better
        first = trained(config=longer, noise=noise)
        epochs = first.history.kept_epochs
        assert epochs is not None
        assert epochs < 6
        rates = tuple(record.learning_rate for record in first.history.records[:epochs])
        assert rates[0] == 2.0
        again = trained(config=longer, noise=noise, retrain=True, checkpoint=tmp_path)
        chosen = noise if first.choice is None else first.choice.chosen.noise
        assert same_parameters(again, trained(config=longer.replaying(rates), noise=chosen, held_out=None))
        assert (again.history.num_rows, len(again.history.elbo)) == (36, epochs)
        assert (again.history.held_out, again.history.retrained) == (first.history.held_out, True)
        assert (first.history.num_rows, first.history.retrained) == (30, False)
        again.save(tmp_path / "m")
        assert mogul.load(tmp_path / "m").history == again.history
        resumed = trained(config=longer, noise=noise, retrain=True, checkpoint=tmp_path)
        assert same_parameters(resumed, again)

    def test_they_must_know_something(self):
        data = waves()
        data.y[HELD_OUT] = np.nan
        with pytest.raises(DataError, match="Held-out rows must have known outputs; the 6 held out have none"):
            fit(data, "mogp", CONFIG, held_out=HELD_OUT)

    def test_their_likelihood_is_that_of_a_row(self):
        fitted = trained()
        data = waves().rows(HELD_OUT)
        prediction, y = fitted.predict(data.x), fitted.scaling.outputs.apply(data.y)
        standard = prediction.standardised(fitted.scaling.outputs)
        each = norm.logpdf(y, standard.mean, standard.std)
        assert fitted.history.held_out == pytest.approx(np.nansum(each) / len(HELD_OUT), rel=1e-6)
        assert trained(held_out=None).history.held_out is None

    @pytest.mark.parametrize("seed", range(20))
    def test_groups_are_held_out_whole(self, seed: int):
        groups = np.random.default_rng(seed).integers(0, 10, 200)
        held_out = rows_of_some_groups(groups, 0.3, seed)
        inside, outside = set(groups[held_out]), set(np.delete(groups, held_out))
        assert not inside & outside
        assert len(inside) == 3
        np.testing.assert_array_equal(held_out, rows_of_some_groups(groups, 0.3, seed))

    def test_one_group_at_least_and_not_all(self):
        assert (
            len(rows_of_some_groups(np.array([0, 1]), 0.01, 0))
            == len(rows_of_some_groups(np.array([0, 1]), 0.99, 0))
            == 1
        )

    def test_labels_may_be_anything(self):
        np.testing.assert_array_equal(group_numbers(np.array(["x", 3, "x", 2.5], dtype=object), 4), [0, 1, 0, 2])

    @pytest.mark.parametrize(
        ("held_out", "message"),
        [
            ([], "must be places of rows, whole numbers"),
            ([0.5], "must be places of rows, whole numbers"),
            ([36], "0 to 35, and not of all; got 1 from 36"),
            ([-1], "0 to 35, and not of all; got 1 from -1"),
            (range(36), "and not of all; got 36 from 0 to 35. Hold out fewer"),
        ],
    )
    @pytest.mark.usefixtures("as_a_user_calls")
    def test_what_are_no_places_is_refused(self, held_out: Any, message: str):
        with pytest.raises(ConfigError, match=message):
            divided(36, None, np.array(held_out))

    def test_latent_inputs_are_refused(self):
        with pytest.raises(ConfigError, match="held_out must be 0 with latent inputs"):
            fit(waves(), "mogp-lvm", CONFIG, num_inputs=1, held_out=HELD_OUT)


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
        auto = trained(noise="auto", held_out=None, config=TrainingConfig(epochs=1, num_starts=1))
        assert auto.blueprint.config.stopping.held_out == 0.2  # type: ignore[union-attr]
        assert auto.history.held_out is not None
        share = trained(
            noise="auto", held_out=None, config=TrainingConfig(epochs=1, num_starts=1, stopping=Stopping(held_out=0.5))
        )
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
        choice = fit(data, "mogp", config, noise="auto", **options).choice
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
        def train(_: str, noise: str) -> Fitted:
            if noise == "gp":
                raise FitError("It broke. Mend it.")
            return trained(noise=noise)

        with pytest.warns(MogulWarning, match="mogp with gp noise was passed over. It broke"):
            choice = best_candidate(train, 6, ["mogp"], NOISES).choice
        assert choice is not None
        assert choice.chosen.noise != "gp"
        assert (choice.candidates[0].ll, choice.candidates[0].failure) == (None, "It broke. Mend it.")
        with pytest.raises(FitError, match="It broke"), pytest.warns(MogulWarning, match="passed over"):
            best_candidate(train, 6, ["mogp"], ["gp"])

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
            fit(waves().without_inputs(), "mogp-lvm", CONFIG, noise="auto")

    def test_ctrl_c_ends_the_choice(self, monkeypatch: pytest.MonkeyPatch):
        step = Run.step

        def interrupted(run: Run, *rest: Any) -> Any:
            if "gps" not in dict(run.model.head.noise.named_children()) and run.num_steps == 2:
                raise KeyboardInterrupt
            return step(run, *rest)

        monkeypatch.setattr(Run, "step", interrupted)
        with pytest.warns(MogulWarning, match="it was interrupted after 1 of at most 2"):
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

        plain = mogul.storage.asdict
        monkeypatch.setattr(
            "mogul.storage.asdict", lambda each: of_old(each) if isinstance(each, Choice) else plain(each)
        )
        auto.save(tmp_path / "m")
        assert mogul.load(tmp_path / "m").choice == auto.choice
        shown = show_file(tmp_path / "m").choice
        assert shown is not None
        assert (shown["chosen"]["model"], shown["chosen"]["noise"]) == auto.choice.chosen.pair


def any_model(model: str, **settings: Any) -> Fitted:
    sizes = {"num_inducing": 5, "num_latents": 2, "noise": "constant"}
    return fit(waves(), model, CONFIG, **sizes | {"held_out": HELD_OUT} | settings)


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
        def train(model: str, noise: str) -> Fitted:
            if noise == "gp":
                raise FitError("It broke. Mend it.")
            return trained(noise=noise)

        with pytest.warns(MogulWarning, match="passed over"):
            choice = best_candidate(train, 6, ["mogp", "sbgprn"], NOISES).choice
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
        with pytest.warns(MogulWarning, match="All rows should be trained on in the end; that was interrupted"):
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

        auto = fit(waves(), "auto", config, num_inducing=5, num_latents=2, held_out=HELD_OUT)
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
            first.choice.chosen.model,
            CONFIG.replaying(rates),
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
        choice = fit(planted, "auto", config, num_inducing=12, num_latents=1).choice
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
            fit(waves(2), model, TrainingConfig(epochs=1, num_starts=1), **settings)

    def test_many_outputs_are_too_many_for_a_gprn(self):
        data = Dataset(np.arange(9.0)[:, None], np.random.default_rng(0).normal(size=(9, 21)))
        auto = fit(data, "auto", TrainingConfig(epochs=1, num_starts=1), num_inducing=3, num_latents=1)
        assert auto.choice is not None
        assert [candidate.model for candidate in auto.choice.candidates] == ["mogp", "sbgprn", "n-sbgprn"]
