"""The regressor with rows of one's own to validate on, with groups, and with a noise that they choose."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import (
    check_dict_unchanged,
    check_fit2d_1sample,
    check_fit_idempotent,
    check_n_features_in,
)

from mogul import MultiOutputGPRegressor, TrainingConfig
from mogul.config import Stopping
from mogul.training.defaults import MODELS, NOISES
from mogul.training.split import rows_of_some_groups, split_rows

pytestmark = pytest.mark.usefixtures("as_a_user_calls")
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (40, 2))
Y = np.column_stack([100 * np.sin(X[:, 0]), X[:, 0] + X[:, 1]]) + RNG.normal(0, [5.0, 0.1], (40, 2))
RUNS = np.repeat(np.arange(8), 5)
HELD_OUT = rows_of_some_groups(RUNS, 0.2, seed=0)
KNOWN = np.setdiff1d(np.arange(40), HELD_OUT)


def regressor(**settings: Any) -> MultiOutputGPRegressor:
    small: dict[str, Any] = {"model": "mogp", "epochs": 3, "num_starts": 1, "num_inducing": 4, "num_samples": 5}
    return MultiOutputGPRegressor(**(small | settings))


AUTO = regressor(noise="auto", options={"num_noise_inducing": 3}, epochs=2)


# All of scikit-learn's checks run on an estimator with one noise (test_scikit_learn.py): these few see the choice.
@pytest.mark.parametrize(
    "check", [check_dict_unchanged, check_fit_idempotent, check_fit2d_1sample, check_n_features_in]
)
@pytest.mark.filterwarnings("ignore::mogul.errors.MogulWarning")  # of columns that are odd on purpose
def test_a_choice_passes_scikit_learns_own_checks(check: Any) -> None:
    check("MultiOutputGPRegressor", AUTO)


class TestHeldOut:
    """`validation` and `groups`."""

    def test_groups_are_rows_to_validate_on_and_then_to_train_on(self) -> None:
        grouped = regressor().fit(X, Y, groups=RUNS).fitted_.history
        own = regressor().fit(X[KNOWN], Y[KNOWN], validation=(X[HELD_OUT], Y[HELD_OUT])).fitted_.history
        assert (grouped.held_out, grouped.kept_epochs) == (own.held_out, own.kept_epochs)
        assert (grouped.num_rows, grouped.retrained) == (40, True)
        assert (own.num_rows, own.retrained) == (len(KNOWN), False)
        # Two of eight groups, or four.
        halved = regressor().fit(X, Y, groups=[f"run {run}" for run in RUNS], validation=0.5).fitted_.history
        assert halved.held_out != grouped.held_out

    def test_layers_have_all_sizes_of_a_deep_model(self) -> None:
        layers = ((1, 4), (1, 3))
        deep = regressor(model="dgp", num_inducing=None, epochs=1, options={"layers": layers}).fit(X, Y)
        assert deep.fitted_.blueprint.options["layers"] == layers  # type: ignore[union-attr]

    @pytest.mark.filterwarnings("ignore:Rows should be separate measurements")
    def test_groups_have_a_simpler_default(self) -> None:
        x, y = np.tile(X, (70, 1)), np.tile(Y, (70, 1))
        small = {"model": None, "epochs": 1, "batch_size": 2800}
        fits = [regressor(**small).fit(x, y, groups=groups).fitted_ for groups in (None, np.tile(RUNS, 70))]
        assert [fitted.blueprint.model for fitted in fits] == ["n-sbgprn", "mogp"]  # type: ignore[union-attr]

    @pytest.mark.filterwarnings("ignore:Rows should be separate measurements")
    def test_weights_are_copies_with_their_groups(self) -> None:
        weights = RNG.integers(0, 3, 40)
        weighted = regressor().fit(X, Y, sample_weight=weights, groups=RUNS)
        copied = regressor().fit(
            *(np.repeat(each, weights, axis=0) for each in (X, Y)), groups=np.repeat(RUNS, weights)
        )
        np.testing.assert_array_equal(weighted.predict(X), copied.predict(X))

    @pytest.mark.parametrize(
        ("settings", "validation"),
        [({}, 0.2), ({"config": TrainingConfig(stopping=Stopping(held_out=0.2))}, None), ({"noise": "auto"}, None)],
        ids=["validation", "config", "noise"],
    )
    def test_copies_of_a_row_are_held_out_together(self, settings: Any, validation: float | None) -> None:
        copies = 1 + np.arange(40) % 4
        kept, watched = split_rows(40, Stopping(held_out=0.2), None, seed=0)
        assert copies[kept].sum() != round(0.8 * copies.sum())
        spoilt = Y.copy()
        spoilt[watched] += 1e6
        fits = [regressor(epochs=1, **settings).fit(X, outputs, copies, validation) for outputs in (Y, spoilt)]
        choice = fits[0].choice_
        if choice is None:
            assert fits[0].fitted_.history.num_rows == copies[kept].sum()
            np.testing.assert_array_equal(fits[0].predict(X), fits[1].predict(X))
        else:  # rows that chose are trained on in the end
            assert choice.num_held_out == copies[watched].sum()

    def test_frames_of_validation_go_by_their_names(self) -> None:
        x, y = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(Y, columns=["u", "v"])
        fits = [
            regressor().fit(x[:30], y[:30], validation=(x[30:], y[30:][order])) for order in (["u", "v"], ["v", "u"])
        ]
        pd.testing.assert_frame_equal(fits[0].predict(x), fits[1].predict(x), check_exact=True)
        with pytest.raises(ValueError, match="feature names"):
            regressor().fit(x, y, validation=(x.rename(columns={"a": "c"}), y))


@pytest.fixture(scope="module")
def chosen() -> MultiOutputGPRegressor:
    return clone(AUTO).fit(X, Y, groups=RUNS)


class TestChoice:
    """`noise="auto"`."""

    def test_the_choice_is_told_and_kept(self, chosen: MultiOutputGPRegressor, tmp_path: Path) -> None:
        assert chosen.choice_ is not None
        assert list(chosen.choice_.frame().noise) == list(NOISES)
        assert chosen.choice_.chosen.noise == chosen.fitted_.blueprint.options["noise"]  # type: ignore[union-attr]
        chosen.save(tmp_path / "m")
        loaded = MultiOutputGPRegressor.load(tmp_path / "m")
        assert loaded.choice_ == chosen.choice_
        assert loaded.get_params() == chosen.get_params()
        np.testing.assert_array_equal(loaded.predict(X), chosen.predict(X))
        assert regressor(noise="student-t", epochs=1).fit(X, Y).choice_ is None

    def test_it_is_the_best_alone_on_the_same_groups(self, chosen: MultiOutputGPRegressor) -> None:
        noise = chosen.choice_.chosen.noise  # type: ignore[union-attr]
        options = {"num_noise_inducing": 3} if noise == "gp" else {}
        alone = clone(AUTO).set_params(noise=noise, options=options).fit(X, Y, groups=RUNS)
        np.testing.assert_array_equal(alone.predict(X), chosen.predict(X))

    def test_more_training_keeps_it(self, chosen: MultiOutputGPRegressor) -> None:
        more = clone(AUTO).partial_fit(X, Y)
        before = more.choice_
        assert more.partial_fit(X, Y).choice_ == before

    def test_so_are_models(self) -> None:
        sizes = {"num_inducing": 4, "num_latents": 1, "num_starts": 1, "epochs": 2}
        auto = MultiOutputGPRegressor("auto", noise="constant", **sizes).fit(X, Y, groups=RUNS)
        assert auto.choice_ is not None
        assert list(auto.choice_.frame().model) == list(MODELS)
        alone = MultiOutputGPRegressor(auto.choice_.chosen.model, noise="constant", **sizes).fit(X, Y, groups=RUNS)
        np.testing.assert_array_equal(alone.predict(X), auto.predict(X))

    def test_rows_that_chose_are_trained_on_in_the_end_unless_they_are_ones_own(self) -> None:
        history = clone(AUTO).fit(X, Y).fitted_.history
        assert (history.num_rows, history.retrained) == (40, True)
        history = clone(AUTO).fit(X[KNOWN], Y[KNOWN], validation=(X[HELD_OUT], Y[HELD_OUT])).fitted_.history
        assert (history.num_rows, history.retrained) == (len(KNOWN), False)

    def test_a_grid_may_hold_it(self) -> None:
        search = GridSearchCV(AUTO, {"noise": ["gp", "auto"]}, cv=2).fit(X, Y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_groups_of_many_rows_are_trained_on_in_small_steps() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2700, 1))
    estimator = MultiOutputGPRegressor("mogp", epochs=1, num_inducing=3)
    rates = [
        estimator.fit(X, np.sin(X), groups=groups).fitted_.blueprint.config.learning_rate  # type: ignore[union-attr]
        for groups in (None, np.repeat(np.arange(3), 900))
    ]
    assert rates[1] == rates[0] / 2


@pytest.mark.parametrize("num_kept", [1, 2])
def test_more_training_after_groups_has_rates_of_its_own(num_kept: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    estimator = MultiOutputGPRegressor("mogp", epochs=3, num_inducing=3, num_starts=2, num_kept=num_kept)
    fitted = estimator.fit(X, np.sin(X), groups=np.repeat(np.arange(4), 10)).fitted_
    before = len(fitted.history.elbo)
    assert len(estimator.partial_fit(X, np.sin(X), epochs=5).fitted_.history.elbo) == before + 5


@pytest.mark.parametrize(("num_outputs", "models"), [(2, ["mogp", "gprn", "n-sbgprn"]), (21, ["mogp", "n-sbgprn"])])
def test_groups_of_many_rows_are_asked_of_several_models(num_outputs: int, models: list[str]) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2700, 1))
    y = np.sin(X) + 0.1 * rng.normal(size=(2700, num_outputs))
    estimator = MultiOutputGPRegressor(epochs=1, num_inducing=3, num_latents=1, options={"num_noise_inducing": 3})
    fitted = estimator.fit(X, y, groups=np.repeat(np.arange(3), 900)).fitted_
    assert [member.blueprint.model for member in fitted.members] == models
    assert all(member.history.retrained for member in fitted.members)


def test_a_noise_that_is_chosen_is_that_of_one_model() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2700, 1))
    estimator = MultiOutputGPRegressor(epochs=1, num_inducing=3, noise="auto", options={"num_noise_inducing": 3})
    assert estimator.fit(X, np.sin(X), groups=np.repeat(np.arange(3), 900)).fitted_.model_name == "mogp"
