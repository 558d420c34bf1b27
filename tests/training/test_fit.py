"""From data to a fitted model: seeds, starts, epochs, missing outputs."""

import warnings
from dataclasses import replace
from importlib import import_module
from typing import Any

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression

from mogul.data import Dataset
from mogul.errors import ConfigError, FitError, MogulWarning, NumericalError, UnknownNameError
from mogul.heads import Neural
from mogul.objective import Analytic, Elbo, MonteCarlo
from mogul.output_mean import LinearOutputMean, ZeroMean
from mogul.training import Fitted, Run, TrainingConfig, fit
from mogul.training.presets import preset

NAN = float("nan")
QUICK: dict[str, Any] = {"epochs": 4, "batch_size": 7, "num_starts": 2, "start_epochs": 2}
both_models = pytest.mark.parametrize("name", ["mogp", "n-mogp"])


def waves(num_rows: int = 18, *, missing: bool = False) -> Dataset:
    """Two noisy waves on a shifted axis."""
    rng = np.random.default_rng(0)
    x = rng.uniform(10, 13, (num_rows, 1))
    y = np.hstack([100 * np.sin(2 * x), 5 + np.cos(x)]) + rng.normal(0, [5.0, 0.05], (num_rows, 2))
    if missing:
        y[::3, 0] = y[1::4, 1] = NAN
    return Dataset(pd.DataFrame(x, columns=["time"]), pd.DataFrame(y, columns=["left", "right"]))


def quick(data: Dataset, name: str = "mogp", num_inducing: int = 6, **settings: Any) -> Fitted:
    return fit(data, name, TrainingConfig(**(QUICK | settings)), num_inducing=num_inducing)


def same_parameters(first: Fitted, second: Fitted) -> bool:
    pair = first.model.state_dict(), second.model.state_dict()
    assert pair[0].keys() == pair[1].keys()
    return all(torch.equal(pair[0][key], pair[1][key]) for key in pair[0])


class TestSeed:
    """Everything random comes from one seed."""

    @both_models
    @pytest.mark.parametrize("ell", [Analytic(), MonteCarlo(5)], ids=["analytic", "monte-carlo"])
    def test_the_same_seed_gives_the_same_result_bit_for_bit(self, name, ell):
        data = waves(missing=True)
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002  # the global state is what must not matter
        first = quick(data, name, expectation=ell, seed=3)
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        second = quick(data, name, expectation=ell, seed=3)
        assert same_parameters(first, second)
        assert first.history.elbo == second.history.elbo
        assert first.history.chosen_start == second.history.chosen_start
        one, two = first.predict([[11.0], [14.0]]), second.predict([[11.0], [14.0]])
        for field in ("mean", "var", "component_mean", "component_var"):
            np.testing.assert_array_equal(getattr(one, field), getattr(two, field))

    @both_models
    def test_another_seed_gives_another_result(self, name):
        data = waves()
        first, second = quick(data, name, seed=0), quick(data, name, seed=1)
        assert not same_parameters(first, second)
        assert not np.array_equal(first.predict([[11.0]]).mean, second.predict([[11.0]]).mean)

    def test_starts_differ_from_each_other(self):
        frame = quick(waves(), num_starts=3).history.frame()
        first = frame[frame.epoch == 0].elbo
        assert first.nunique() == 3

    def test_the_global_generators_are_left_alone(self):
        states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        quick(waves())
        assert torch.equal(states[0], torch.get_rng_state())
        np.testing.assert_array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002


class TestStarts:
    """Several starts, each on trial; the best goes on."""

    @pytest.mark.parametrize("seed", range(4))
    def test_the_chosen_start_is_the_best_at_the_end_of_its_trial(self, seed):
        history = quick(waves(), num_starts=4, start_epochs=3, epochs=5, seed=seed).history
        frame = history.frame()
        trial = frame[frame.epoch == 2].set_index("start").elbo
        assert len(trial) == 4
        assert history.chosen_start == trial.idxmax()

    def test_any_start_may_be_chosen(self):
        chosen = {quick(waves(), num_starts=4, epochs=3, seed=seed).history.chosen_start for seed in range(4)}
        assert len(chosen) > 1

    def test_starts_are_compared_with_the_full_weight_of_the_kl(self):
        history = quick(waves(), num_starts=3, anneal_epochs=50).history
        frame = history.frame()
        np.testing.assert_allclose(frame.elbo, frame.ell - frame.kl + frame.log_prior, rtol=1e-12)
        trial = frame[frame.epoch == 1].set_index("start").elbo
        assert history.chosen_start == trial.idxmax()

    @pytest.mark.parametrize(
        ("num_starts", "start_epochs", "epochs", "counts"),
        [(1, 3, 5, [5]), (3, 2, 5, [5, 2, 2]), (2, 9, 4, [4, 4]), (2, 4, 4, [4, 4])],
    )
    def test_trials_count_towards_the_epochs_of_the_chosen(self, num_starts, start_epochs, epochs, counts):
        history = quick(waves(), num_starts=num_starts, start_epochs=start_epochs, epochs=epochs).history
        frame = history.frame()
        per_start = frame.groupby("start").epoch.agg(["count", "max"])
        assert sorted(per_start["count"], reverse=True) == counts
        assert list(per_start["max"] + 1) == list(per_start["count"])
        assert per_start["count"][history.chosen_start] == epochs == len(history.elbo)

    def test_the_fitted_model_is_the_chosen_one(self):
        fitted = quick(waves(), num_starts=3, epochs=3, learning_rate=1e-9)
        frame = fitted.history.frame()
        # At such a rate a start keeps its objective: that of the model we got must be that of the chosen start.
        batch = fitted.scaling.batch(waves(), torch.float64)
        ell = Elbo(Analytic(), len(batch))(fitted.model, batch, torch.Generator()).ell.item()
        gaps = (frame[frame.epoch == 0].set_index("start").ell - ell).abs()
        assert gaps.idxmin() == fitted.history.chosen_start
        assert gaps.min() < 1e-4 < gaps.drop(fitted.history.chosen_start).min()


class TestHistory:
    """What is remembered of a training."""

    def test_a_frame_has_one_row_per_epoch_and_start(self):
        frame = quick(waves()).history.frame()
        assert list(frame.columns) == [
            "start",
            "epoch",
            "elbo",
            "ell",
            "kl",
            "log_prior",
            "learning_rate",
            "kl_weight",
            "jitter",
            "seconds",
            "rollbacks",
        ]
        assert len(frame) == 6
        assert not frame.duplicated(["start", "epoch"]).any()
        assert np.isfinite(frame.to_numpy(dtype=float)).all()

    def test_the_elbo_is_that_of_the_chosen_start_in_order(self):
        history = quick(waves(), num_starts=3).history
        frame = history.frame()
        chosen = frame[frame.start == history.chosen_start].sort_values("epoch")
        assert history.elbo == chosen.elbo.tolist()

    def test_rates_and_weights_follow_the_settings(self):
        config = TrainingConfig(**QUICK, learning_rate=0.1, milestones=(0.5,), decay=0.5, anneal_epochs=2)
        for record in fit(waves(), "mogp", config).history.records:
            assert record.learning_rate == config.rate_at(record.epoch)
            assert record.kl_weight == config.kl_weight_at(record.epoch)


@both_models
def test_the_bound_rises(name):
    elbo = quick(waves(), name, epochs=40, batch_size=18, num_starts=1, learning_rate=0.05).history.elbo
    assert elbo[-1] > elbo[0] + 10


@pytest.mark.no_cover  # many steps on lines that other tests run too
@both_models
def test_a_fit_finds_the_function(name):
    data = waves(60)
    config = TrainingConfig(epochs=120, num_starts=3, start_epochs=15, learning_rate=0.1, seed=1)
    hidden = {"num_hidden": 8} if name == "n-mogp" else {}
    fitted = fit(data, name, config, num_latents=2, num_inducing=12, **hidden)
    scores = fitted.evaluate(data, standardised=True, num_samples=50)
    assert scores.mrmse < 0.15
    assert scores.ll > 0.5


@both_models
def test_missing_outputs_are_no_obstacle(name):
    data = waves(missing=True)
    fitted = quick(data, name)
    assert data.num_missing > 5
    assert np.isfinite(fitted.predict(data.x).mean).all()
    assert np.isfinite(fitted.history.elbo).all()


@both_models
def test_a_row_without_outputs_is_allowed(name):
    data = waves()
    y = data.y.copy()
    y[4] = NAN
    assert np.isfinite(quick(Dataset(data.x, y), name).history.elbo).all()


@both_models
@pytest.mark.parametrize("num_rows", [1, 2, 5])
def test_there_may_be_fewer_rows_than_inducing_points(name, num_rows):
    with pytest.warns(MogulWarning, match=rf"different rows, {num_rows}; got 50. Lowered to {num_rows}, one for each"):
        fitted = quick(waves(num_rows), name, num_inducing=50)
    assert fitted.model.prior.inducing_points.shape == (num_rows, 1)
    assert np.isfinite(fitted.predict([[11.0]]).var).all()


@both_models
def test_a_constant_output_is_no_obstacle(name):
    data = waves()
    y = data.y.copy()
    y[:, 1] = 42.0
    with pytest.warns(MogulWarning, match="Outputs should vary; 'y1' holds one value"):
        prediction = quick(Dataset(data.x, y), name, epochs=30, batch_size=18).predict(data.x)
    assert np.abs(prediction.mean[:, 1] - 42.0).max() < 1.0


@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("float64", torch.float64)])
def test_the_model_has_the_precision_asked_for(precision, dtype):
    fitted = quick(waves(), precision=precision)
    assert {parameter.dtype for parameter in fitted.model.parameters()} == {dtype}
    assert fitted.predict([[11.0]]).mean.dtype == np.float64


def test_names_and_scaling_are_those_of_the_data():
    data = waves(missing=True)
    fitted = quick(data)
    assert fitted.input_names == ["time"]
    assert fitted.output_names == ["left", "right"]
    np.testing.assert_allclose(fitted.scaling.inputs.shift, data.x.mean(0))
    np.testing.assert_allclose(fitted.scaling.outputs.shift, np.nanmean(data.y, axis=0))
    np.testing.assert_allclose(fitted.scaling.outputs.scale, np.nanstd(data.y, axis=0))


def test_the_default_model_is_neural():
    fitted = fit(waves(4), config=TrainingConfig(epochs=1, num_starts=1))
    assert isinstance(fitted.model.head.features, Neural)


def test_options_reach_the_model():
    fitted = fit(waves(), "n-mogp", TrainingConfig(**QUICK), num_latents=3, num_hidden=5, nonlinearity="relu")
    assert fitted.model.prior.num_latents == 3
    assert fitted.model.head.features.hidden_weights.shape == (5, 3)
    assert fitted.model.head.features.nonlinearity(torch.tensor([-1.0])) == 0.0


def test_numbers_that_run_away_are_an_error():
    with pytest.raises(NumericalError, match="must be"):
        quick(waves(), num_starts=1, precision="float32", learning_rate=1e30)


def test_nothing_is_printed_when_nobody_watches(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    quick(waves())
    assert capfd.readouterr() == ("", "")


class TestTrouble:
    """Several starts, so that one may fail."""

    def test_a_start_that_breaks_down_is_given_up_with_a_warning(self, monkeypatch: pytest.MonkeyPatch):
        train = Run.train

        def fragile(run, until, on_epoch):
            if run.start == 0:
                raise FitError("It broke.")
            train(run, until, on_epoch)

        def fragile_for_all(run, until, on_epoch):
            raise FitError("It broke.")

        monkeypatch.setattr(Run, "train", fragile)
        with pytest.warns(MogulWarning, match=r"Start 1 was given up. It broke."):
            assert quick(waves(), num_starts=2).history.chosen_start == 1
        monkeypatch.setattr(Run, "train", fragile_for_all)
        with pytest.warns(MogulWarning), pytest.raises(NumericalError, match="all 2 failed"):
            quick(waves(), num_starts=2)

    def test_an_unknown_option_is_refused_before_any_work(self):
        with pytest.raises(UnknownNameError, match="Did you mean 'num_inducing'"):
            fit(waves(), "mogp", num_induc=5)

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            (
                "mogp",
                {"num_hidden": 5},
                r"num_hidden must be left out .*; mogp does not; got 5\. Leave .* among n-mogp, n-s",
            ),
            ("mogp", {"nonlinearity": "relu"}, r"; got 'relu'\. Leave it out, or choose among n-mogp, n-sbgprn, n-dgp"),
            ("n-mogp", {"dropout": 0.1}, r"dropout .* n-mogp does not; got 0\.1\. .* choose among sbgprn, n-sbgprn\."),
            ("sbgprn", {"correlated_mixing": True}, "choose among mogp, dgp, n-mogp, n-dgp"),
            ("dgp", {"num_mixing_inducing": 5}, "choose among gprn"),
            ("n-sbgprn", {"num_top_inducing": 5}, "choose among dgp, n-dgp"),
            (
                "mogp",
                {"num_noise_latents": 3},
                r"num_noise_latents must be left out .*; constant noise does not; got 3\. .* choose among noise='gp'\.",
            ),
            ("dgp", {"num_noise_inducing": 5, "noise": "net"}, "; net noise does not; got 5.* among noise='gp'"),
            ("mogp-lvm", {"noise_rank": 1, "noise": "gp"}, "; gp noise does not; got 1.* among noise='low-rank'"),
            ("mogp", {"noise_rank": 1, "noise": "gpp"}, "noise must be one of .*; got 'gpp'"),
            ("mogp", {"num_inputs": 3}, r"num_inputs is for latent inputs; got 3 for mogp\. Leave it out"),
            (
                "dgp",
                {"layers": [(2, 5), (2, 4)], "num_inducing": 5},
                "layers has all sizes .*; got num_inducing beside it",
            ),
        ],
    )
    def test_an_option_that_the_model_has_no_use_for_is_refused(self, name, options, message):
        with pytest.raises(ConfigError, match=message):
            fit(waves(), name, **options)

    def test_a_preset_takes_a_seed_and_excludes_a_config(self):
        with pytest.raises(ConfigError, match="config or preset, not both"):
            fit(waves(), "mogp", TrainingConfig(), preset="paper")
        with pytest.raises(UnknownNameError, match="preset must be one of"):
            fit(waves(), "mogp", preset="papers", seed=3)


def plane(num_rows: int = 30) -> tuple[Dataset, np.ndarray]:
    """Outputs of very different units on a plane, nearly, and the weights that made them; the bias is (7, −2)."""
    rng = np.random.default_rng(1)
    x, weights = rng.normal(50, 20, (num_rows, 2)), np.array([[300.0, 1e-4], [-100.0, 3e-4]])
    noise = rng.normal(0, 1e-6, (num_rows, 2)) * [1e4, 1e-2]
    return Dataset(x, x @ weights + [7.0, -2.0] + noise), weights


class TestMean:
    """What a choice of mean stands for."""

    def fitted(self, name: str = "mogp", data: Dataset | None = None, **options: Any) -> Fitted:
        config = TrainingConfig(epochs=1, num_starts=1)
        return fit(waves() if data is None else data, name, config, num_inducing=6, **options)

    @pytest.mark.parametrize("name", ["mogp", "n-mogp", "sbgprn", "gprn", "dgp"])
    @pytest.mark.parametrize("options", [{}, {"mean": "linear"}], ids=["default", "linear"])
    def test_linear_is_the_default_and_least_squares_in_standard_units(self, name, options):
        data = waves(60)
        fitted = self.fitted(name, data, **options)
        mean = fitted.model.mean
        assert isinstance(mean, LinearOutputMean)
        truth = LinearRegression().fit(data.x, data.y)
        centre = data.x.mean(0, keepdims=True)
        at = torch.as_tensor(fitted.scaling.inputs.apply(np.vstack([centre, centre + 1])))
        values = mean.forward(at).numpy() * fitted.scaling.outputs.scale + fitted.scaling.outputs.shift
        spread = data.y.std(0)
        np.testing.assert_allclose(values[0] / spread, truth.predict(centre)[0] / spread, atol=1e-9)
        # The penalty shrinks a slope, never by much.
        np.testing.assert_allclose((values[1] - values[0]) / spread, truth.coef_[:, 0] / spread, atol=0.05)

    @pytest.mark.parametrize(
        ("mean", "name", "learnt"),
        [
            ("paper", "mogp", True),
            ("paper", "n-mogp", False),
            ("zero", "mogp", False),
            ("constant", "n-mogp", True),
            ("linear", "mogp", True),
            ("linear", "n-mogp", False),
        ],
    )
    def test_the_latent_gps_have_the_mean_asked_for(self, mean, name, learnt):
        model = self.fitted(name, mean=mean).model
        assert isinstance(model.mean, LinearOutputMean if mean == "linear" else ZeroMean)
        assert ("prior.mean.constant" in dict(model.named_parameters())) == learnt

    def test_latent_inputs_have_no_plane_and_refuse_one(self):
        fitted = self.fitted("mogp-lvm", mean="paper")
        assert isinstance(fitted.model.mean, ZeroMean)
        assert isinstance(self.fitted("mogp-lvm").model.mean, ZeroMean)
        with pytest.raises(ConfigError, match="mean='linear' needs inputs that are observed"):
            self.fitted("mogp-lvm", mean="linear")

    def test_the_papers_preset_has_the_papers_mean(self, monkeypatch: pytest.MonkeyPatch):
        quick_preset = TrainingConfig(epochs=1, num_starts=1)
        monkeypatch.setattr(import_module("mogul.training.fit"), "preset_config", lambda *_: quick_preset)
        assert isinstance(fit(waves(), "mogp", preset="paper").model.mean, ZeroMean)
        assert isinstance(fit(waves(), "mogp", preset="paper", mean="linear").model.mean, LinearOutputMean)
        assert isinstance(fit(waves(), "mogp", preset="default").model.mean, LinearOutputMean)

    def test_an_unknown_mean_is_refused(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        with pytest.raises(UnknownNameError, match=r"mean must be one of linear, .* Did you mean 'linear'"):
            self.fitted(mean="linaer")

    @pytest.mark.parametrize("precision", ["float32", "float64"])
    @pytest.mark.parametrize("name", ["mogp", "n-sbgprn"])
    def test_a_plane_is_predicted_in_the_users_units(self, name, precision):
        data, weights = plane()
        config = TrainingConfig(epochs=5, num_starts=1, precision=precision)
        fitted = fit(data, name, config, num_inducing=10)
        new = np.random.default_rng(2).normal(50, 20, (20, 2))
        prediction = fitted.predict(new)
        spread = data.y.std(0)
        np.testing.assert_allclose(prediction.mean / spread, (new @ weights + [7.0, -2.0]) / spread, rtol=0, atol=2e-3)
        assert (prediction.var > 0).all()
        assert (prediction.var**0.5 < 5e-3 * spread).all()

    def test_missing_outputs_are_missing_in_the_plane_too(self):
        data, weights = plane()
        y = data.y.copy()
        y[::3, 0] = y[1::4, 1] = NAN
        fitted = fit(Dataset(data.x, y), "mogp", TrainingConfig(epochs=5, num_starts=1), num_inducing=10)
        np.testing.assert_allclose(
            fitted.predict(data.x).mean / data.y.std(0), (data.x @ weights + [7.0, -2.0]) / data.y.std(0), atol=2e-3
        )

    def test_every_epoch_is_shown_with_its_model(self):
        seen = []
        config = TrainingConfig(**(QUICK | {"num_starts": 1}))
        fitted = fit(
            waves(), "mogp", config, num_inducing=6, on_epoch=lambda record, model: seen.append((record, model))
        )
        assert [record for record, _ in seen] == list(fitted.history.records)
        assert all(model is fitted.model for _, model in seen)


def random_problem(seed: int) -> Dataset:
    """Some rows, inputs and outputs of any size and unit, with holes, constant columns and columns that repeat."""
    rng = np.random.default_rng(seed)
    num_rows, num_inputs, num_outputs = rng.integers(10, 61), rng.integers(1, 6), rng.integers(1, 5)
    x = rng.standard_normal((num_rows, num_inputs))
    y = np.tanh(x @ rng.standard_normal((num_inputs, num_outputs))) + 0.1 * rng.standard_normal((num_rows, num_outputs))
    y[rng.random(y.shape) < 0.2] = NAN
    y[0] = 1.0  # something of each output is observed
    if seed % 3 == 0:
        y[:, 0] = 4.0
    if seed % 3 == 1 and num_inputs > 1:
        x[:, 0] = 2.0
    if seed % 3 == 2 and num_inputs > 1:
        x[:, 0] = x[:, 1]
    return Dataset(
        1e3 * rng.standard_normal(num_inputs) + x * 10 ** rng.uniform(-3, 3, num_inputs),
        y * 10 ** rng.uniform(-6, 6, num_outputs),
    )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_default_fit_never_ends_in_nan(seed, precision):
    data = random_problem(seed)
    name = ["mogp", "n-mogp", "n-sbgprn", "gprn", "n-dgp"][seed % 5]
    config = replace(preset("default", name), epochs=5, num_starts=1, precision=precision)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MogulWarning)  # of a jitter that had to grow, which is what it is for
        fitted = fit(data, name, config)
        prediction = fitted.predict(data.x, num_samples=5)
    assert np.isfinite(fitted.history.elbo).all()
    assert np.isfinite(prediction.mean).all()
    assert np.isfinite(prediction.var).all()
    assert (prediction.var > 0).all()
    assert all(bool(torch.isfinite(parameter).all()) for parameter in fitted.model.parameters())
