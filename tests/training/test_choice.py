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
from mogul import Dataset, TrainingConfig, fit
from mogul.errors import ConfigError, DataError, FitError, MogulWarning
from mogul.training import Fitted, Run, Stopping
from mogul.training.choice import NOISES, best_noise
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
        chosen = noise if first.choice is None else first.choice.chosen
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
        assert auto.choice.chosen == best == auto.blueprint.options["noise"]  # type: ignore[union-attr]
        assert same_parameters(auto, each[best])
        assert auto.choice.num_held_out == len(HELD_OUT)
        assert list(auto.choice.frame().columns) == ["noise", "ll", "epochs", "seconds", "failure"]

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
        assert choice.chosen == truth

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
        def train(noise: str) -> Fitted:
            if noise == "gp":
                raise FitError("It broke. Mend it.")
            return trained(noise=noise)

        with pytest.warns(MogulWarning, match="gp noise was passed over. It broke"):
            choice = best_noise(train, 6).choice
        assert choice is not None
        assert choice.chosen != "gp"
        assert (choice.candidates[1].ll, choice.candidates[1].failure) == (None, "It broke. Mend it.")
        with pytest.raises(FitError, match="It broke"):
            best_noise(train, 6, ["gp"])

    def test_ctrl_c_before_an_epoch_has_ended_keeps_those_before(self):
        def train(noise: str) -> Fitted:
            if noise == "gp":
                raise KeyboardInterrupt
            return trained(noise=noise)

        with pytest.warns(MogulWarning, match="gp was interrupted before its first epoch ended"):
            choice = best_noise(train, 6).choice
        assert choice is not None
        assert [candidate.noise for candidate in choice.candidates] == ["constant"]
        with pytest.raises(KeyboardInterrupt):
            best_noise(train, 6, ["gp"])

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
            if "gps" in dict(run.model.head.noise.named_children()) and run.num_steps == 2:
                raise KeyboardInterrupt
            return step(run, *rest)

        monkeypatch.setattr(Run, "step", interrupted)
        with pytest.warns(MogulWarning, match="it was interrupted after 1 of at most 2"):
            auto = trained(noise="auto")
        assert auto.choice is not None
        assert [candidate.noise for candidate in auto.choice.candidates] == ["constant", "gp"]

    def test_it_is_kept_in_the_file(self, tmp_path: Path, auto: Fitted):
        auto.save(tmp_path / "m")
        loaded = mogul.load(tmp_path / "m")
        assert loaded.choice == auto.choice
        assert loaded.history == auto.history
        assert same_parameters(loaded, auto)
