"""What `fit` and `partial_fit` make of their arguments, and what they refuse."""

from typing import Any

import numpy as np
import pytest
from tests.helpers.small_estimators import X, Y, regressor

from mogul import MultiOutputGPRegressor, TrainingConfig
from mogul.data.sources.containers import copies
from mogul.errors import ConfigError, DataError, MogulError, ShapeError, UnknownNameError
from mogul.training.defaults import preset


class TestTraining:
    """What fit makes of its arguments."""

    def test_missing_outputs_are_data(self) -> None:
        holes = Y.copy()
        holes[::3, 0] = holes[1::4, 2] = np.nan
        assert regressor().fit(X, holes).score(X, Y) > 0.5

    def test_the_defaults_are_those_of_the_preset(self) -> None:
        config = MultiOutputGPRegressor(epochs=3, num_starts=1).fit(X, Y).fitted_.blueprint.config  # type: ignore[union-attr]
        expected = preset("default", "mogp", 0, 40)
        assert config is not None
        assert config.stopping == expected.stopping
        assert (config.batch_size, config.learning_rate) == (expected.batch_size, expected.learning_rate)

    def test_a_configuration_may_be_given_whole(self) -> None:
        config = TrainingConfig(epochs=2, num_starts=1, seed=5)
        fitted = MultiOutputGPRegressor("mogp", config=config, options={"num_inducing": 4}).fit(X, Y)
        assert fitted.fitted_.blueprint.config == config  # type: ignore[union-attr]

    def test_a_deep_model_anneals_for_a_fifth_of_its_epochs(self) -> None:
        fitted = regressor(model="dgp", preset="paper", epochs=10, options={"num_top_inducing": 4}).fit(X, Y)
        assert fitted.fitted_.blueprint.config.anneal_epochs == 2  # type: ignore[union-attr]

    def test_a_share_may_be_held_out(self) -> None:
        config = regressor().fit(X, Y, validation=0.25).fitted_.blueprint.config  # type: ignore[union-attr]
        assert config.stopping.held_out == 0.25  # type: ignore[union-attr]

    @pytest.mark.filterwarnings("ignore:Rows should be separate measurements")
    def test_weights_are_copies(self) -> None:
        weights = np.random.default_rng(0).integers(0, 3, 40)
        weighted = regressor().fit(X, Y, sample_weight=weights)
        copied = regressor().fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
        np.testing.assert_array_equal(weighted.predict(X), copied.predict(X))
        ones = regressor().fit(X, Y, sample_weight=np.ones(40))
        np.testing.assert_array_equal(ones.predict(X), regressor().fit(X, Y).predict(X))

    @pytest.mark.filterwarnings("ignore:Rows should be separate measurements")
    def test_real_weights_are_counts_on_average(self) -> None:
        weights = np.random.default_rng(0).uniform(0, 3, 40)
        counts = np.array([np.bincount(copies(weights, 40, seed), minlength=40) for seed in range(400)])
        assert (np.abs(counts - weights) < 1).all()
        assert (np.abs(counts.sum(1) - weights.sum()) < 1).all()
        np.testing.assert_allclose(counts.mean(0), weights, atol=0.1)  # four standard errors
        chosen = copies(weights, 40, seed=0)
        weighted = regressor(random_state=0).fit(X, Y, sample_weight=weights)
        np.testing.assert_array_equal(
            weighted.predict(X), regressor(random_state=0).fit(X[chosen], Y[chosen]).predict(X)
        )

    def test_random_states(self) -> None:
        same = [regressor(epochs=2, random_state=state).fit(X, Y).predict(X) for state in (3, 3, 4)]
        np.testing.assert_array_equal(same[0], same[1])
        assert not np.array_equal(same[0], same[2])
        generator = np.random.RandomState(0)  # scikit-learn's kind
        first, second = (regressor(epochs=2, random_state=generator).fit(X, Y).predict(X) for _ in range(2))
        assert not np.array_equal(first, second)

    def test_more_epochs_go_on_from_where_training_ended(self) -> None:
        some = regressor(epochs=10).fit(X, Y)
        before = some.fitted_.history.elbo
        some.partial_fit(X, Y, epochs=30)
        after = some.fitted_.history.elbo
        assert after[: len(before)] == before
        assert np.mean(after[-3:]) > np.mean(before[-3:])
        assert [record.epoch for record in some.fitted_.history.records] == list(range(len(after)))

    def test_a_first_part_has_the_epochs_asked_for(self) -> None:
        assert len(regressor(model="n-mogp").partial_fit(X, Y, epochs=3).fitted_.history.elbo) == 3
        assert regressor(model="n-mogp", epochs=2).partial_fit(X, Y).fitted_.blueprint.config.epochs == 2  # type: ignore[union-attr]
        with pytest.raises(ConfigError, match="epochs must be at least 1; got 0"):
            regressor().partial_fit(X, Y, epochs=0)

    def test_new_rows_keep_the_scaling(self) -> None:
        some = regressor().fit(X[:20], Y[:20])
        scaling = some.fitted_.scaling
        some.partial_fit(X, Y)
        assert some.fitted_.scaling is scaling
        assert some.score(X, Y) > 0.5

    def test_the_model_before_is_left_alone(self) -> None:
        some = regressor(epochs=5).fit(X, Y)
        old, before = some.fitted_, some.fitted_.predict(X).mean
        some.partial_fit(X, Y)
        np.testing.assert_array_equal(old.predict(X).mean, before)
        assert not np.array_equal(some.fitted_.predict(X).mean, before)


NAN = float("nan")
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], type[MogulError], str]] = {
    "no such model": ({"model": "gp"}, {}, UnknownNameError, "model must be one of .*; got 'gp'. Did you mean"),
    "latent": (
        {"model": "mogp-lvm"},
        {},
        ConfigError,
        "observed inputs; mogp-lvm has latent ones. Use MultiOutputGPLVM",
    ),
    "no such preset": (
        {"preset": "x"},
        {},
        UnknownNameError,
        "preset must be one of default, paper, paper-fast; got 'x'",
    ),
    "preset and config": ({"preset": "paper", "config": TrainingConfig()}, {}, ConfigError, "not both; .* Drop one"),
    "odd config": ({"config": {"epochs": 3}}, {}, ConfigError, "config must be a mogul.TrainingConfig; got .* Leave"),
    "no such option": ({"options": {"x": 1}}, {}, UnknownNameError, "option must be one of .*; got 'x'"),
    "odd options": ({"options": 3}, {}, ConfigError, "options must be a dict .*; got 3. Try"),
    "an option twice": ({"options": {"num_inducing": 1}}, {}, ConfigError, "each option once; got num_inducing twice"),
    "no epochs": ({"epochs": 0}, {}, ConfigError, "epochs must be at least 1; got 0"),
    "half an epoch": ({"epochs": 0.5}, {}, ConfigError, "epochs must be a whole number; got 0.5"),
    "negative seed": ({"random_state": -1}, {}, ConfigError, "random_state must be at least 0; got -1"),
    "few groups": (
        {},
        {"groups": np.arange(3)},
        ShapeError,
        r"groups must be \(40,\), a label .*; got \(3,\). Give one",
    ),
    "one group": ({}, {"groups": np.ones(40)}, DataError, "two groups must be there, .*; got 1. Leave groups out"),
    "a row without a group": (
        {},
        {"groups": [None, *"a" * 39]},
        DataError,
        "must have a group; row 0 has None. Give it a label",
    ),
    "rows and groups": (
        {},
        {"validation": (X, Y), "groups": np.arange(40)},
        ConfigError,
        "rows to validate on, or groups .*; got both. Leave",
    ),
    "other outputs to validate on": (
        {},
        {"validation": (X, Y[:, :2])},
        ShapeError,
        "outputs like Y, 3 columns; got 2. The columns are y0, y1, y2",
    ),
    "nothing to validate on": ({}, {"validation": (X, NAN * Y)}, DataError, "some known outputs; all are NaN. Give"),
    "validation by name": (
        {},
        {"validation": "some"},
        ConfigError,
        r"must be a share .* a pair \(X, Y\).*; got str. Try",
    ),
    "no such noise": (
        {"noise": "loud"},
        {},
        UnknownNameError,
        "noise must be one of auto, residuals, constant, .*; got 'loud'",
    ),
    "noise twice": ({"noise": "gp", "options": {"noise": "net"}}, {}, ConfigError, "each option once; got noise twice"),
    "too few rows to choose by": (
        {"noise": "auto"},
        {"validation": 0.001},
        ConfigError,
        "must leave rows on both sides; 0.001 of 40 rows is 0",
    ),
    "validation 1": ({}, {"validation": 1.0}, ConfigError, "must be a share of the rows, .*; got 1.0. Try 0.1"),
    "small weights": ({}, {"sample_weight": np.full(40, 1e-4)}, ConfigError, "sum of all is 0.004. Divide by their"),
    "large weights": ({}, {"sample_weight": np.full(40, 1e6 + 0.5)}, ConfigError, r"got 1e\+06 on average. Divide"),
    "negative weights": (
        {},
        {"sample_weight": -np.ones(40)},
        ConfigError,
        "must be 0 or more: .*; got -1.0. Leave",
    ),
    "NaN weights": ({}, {"sample_weight": np.full(40, NAN)}, ConfigError, "must be 0 or more: .*; got nan. Leave"),
    "no weights": ({}, {"sample_weight": np.zeros(40)}, ConfigError, "must leave some rows; all .* zero. Leave"),
    "few weights": ({}, {"sample_weight": np.ones(3)}, ShapeError, r"must be \(40,\), .*; got \(3,\). Give one"),
}


@pytest.mark.parametrize(("settings", "extra", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_offered_is_refused(settings: Any, extra: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        regressor(**settings).fit(X, Y, **extra)


def test_bad_outputs_are_refused(fitted: MultiOutputGPRegressor) -> None:
    with pytest.raises(ConfigError, match=r"return_std or return_cov; got both. The diagonal"):
        fitted.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ShapeError, match=r"Y must have 3 columns, as in training; got 2. The columns are y0, y1, y2"):
        fitted.partial_fit(X, Y[:, :2])
    with pytest.raises(DataError, match=r"'y1' is NaN in all 40 rows. Drop"):
        regressor().fit(X, np.where(np.arange(3) == 1, NAN, Y))
    with pytest.raises(ShapeError, match="different lengths"):
        regressor().fit(X, [[1.0], [2.0, 3.0]])
    with pytest.raises(ShapeError, match="the same number of rows; got 40 and 39"):
        regressor().fit(X, Y[:39])
