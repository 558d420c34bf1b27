"""The best starts kept together: the true mixture of what each says, in every answer."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from tests.helpers.killing import Killed, kill_after
from tests.helpers.sameness import same_parameters

import mogul
from mogul import Dataset, MultiOutputGPRegressor, TrainingConfig, fit
from mogul.cli.show import card_lines, show_file
from mogul.core.joint import Correlated, Independent, Pooled, ScaleMixture
from mogul.errors import ConfigError, FitError, MogulWarning, NumericalError
from mogul.fitted.mixture import FittedMixture
from mogul.prediction import Prediction
from mogul.training import Run
from mogul.training.fit import train_more

CONFIG: dict[str, Any] = {"epochs": 4, "batch_size": 12, "num_starts": 4, "start_epochs": 1, "num_kept": 3}
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (24, 2))
Y = np.column_stack([10 * np.sin(2 * X[:, 0]), np.cos(X[:, 1])]) + 0.1 * RNG.standard_normal((24, 2))


def trained(noise: str = "constant", on_epoch: Any = None, checkpoint: Path | None = None, **settings: Any) -> Any:
    config = TrainingConfig(**(CONFIG | settings))
    saving = {"on_epoch": on_epoch, "checkpoint": checkpoint, "checkpoint_seconds": 0.0}
    return fit(Dataset(X, Y), model="n-mogp", config=config, num_inducing=4, num_hidden=3, noise=noise, **saving)


@pytest.fixture(scope="module")
def mixture() -> FittedMixture:
    return trained()


def same(one: FittedMixture, two: FittedMixture) -> bool:
    return all(same_parameters(*pair) for pair in zip(one.members, two.members, strict=True))


class TestTraining:
    """Which starts are kept."""

    def test_the_best_trials_are_trained_to_the_end(self, mixture: FittedMixture) -> None:
        frame = mixture.history.frame()
        trial = frame[frame.epoch == 0].set_index("start").elbo.sort_values(ascending=False)
        starts = [member.history.chosen_start for member in mixture.members]
        assert starts == list(trial.index[:3])
        assert frame.groupby("start").size().loc[starts].tolist() == [4, 4, 4]
        assert frame.groupby("start").size().loc[trial.index[3]] == 1
        alone = trained(num_kept=1)
        np.testing.assert_array_equal(alone.predict(X).mean, mixture.members[0].predict(X).mean)

    def test_one_that_breaks_down_makes_room_for_the_next(self, mixture: FittedMixture, monkeypatch: Any) -> None:
        second, step = mixture.members[1].history.chosen_start, Run.step

        def fragile(run: Run, *rest: Any) -> Any:
            if run.start == second and run.num_steps >= 4:
                raise NumericalError("It broke. Mend it.")
            return step(run, *rest)

        monkeypatch.setattr(Run, "step", fragile)
        with pytest.warns(MogulWarning, match=f"Start {second + 1} was given up"):
            starts = [member.history.chosen_start for member in trained().members]
        assert len(starts) == 3
        assert second not in starts

    def test_ctrl_c_keeps_those_that_are_done(self, mixture: FittedMixture) -> None:
        seen: list[Any] = []

        def on_epoch(record: Any, model: Any) -> None:
            seen.append(record)
            if len(seen) == 4 + 3 + 3 + 1:  # trials, and two starts trained to the end
                raise KeyboardInterrupt

        with pytest.warns(MogulWarning, match="interrupted"):
            interrupted = trained(on_epoch=on_epoch)
        assert len(interrupted.members) == 2

    @pytest.mark.parametrize("num_epochs", [3, 6, 10])
    def test_it_goes_on_where_it_was_killed(self, mixture: FittedMixture, tmp_path: Path, num_epochs: int) -> None:
        with pytest.raises(Killed):
            trained(on_epoch=kill_after(num_epochs), checkpoint=tmp_path)
        assert same(trained(checkpoint=tmp_path), mixture)

    def test_more_training_goes_on_with_each(self, mixture: FittedMixture) -> None:
        more = train_more(mixture, Dataset(X, Y), epochs=2)
        assert isinstance(more, FittedMixture)
        assert [len(member.history.elbo) for member in more.members] == [6, 6, 6]

    def test_what_makes_no_sense_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"num_kept must be at most num_starts, 2; got 3. Give more"):
            TrainingConfig(num_starts=2, num_kept=3)
        with pytest.raises(ConfigError, match="num_kept must be 1 with latent inputs"):
            fit(Dataset(None, Y), model="mogp-lvm", config=TrainingConfig(**CONFIG))


class TestPredictions:
    """Equal weights in all that it says."""

    @pytest.mark.parametrize("noise", ["constant", "student-t", "low-rank"])
    def test_densities_are_means_over_members(self, noise: str, mixture: FittedMixture) -> None:
        pooled = mixture if noise == "constant" else trained(noise, epochs=2)
        each = [member.predict(X, 20) for member in pooled.members]
        whole = pooled.predict(X, 20)
        expected = logsumexp([prediction.log_density(Y) for prediction in each], axis=0) - np.log(3)
        np.testing.assert_allclose(whole.log_density(Y), expected, rtol=1e-9)
        np.testing.assert_allclose(whole.cdf(Y), np.mean([prediction.cdf(Y) for prediction in each], axis=0), rtol=1e-9)
        quantiles = whole.quantiles([0.2, 0.9])
        np.testing.assert_allclose(whole.cdf(quantiles[0]), 0.2, atol=1e-6)

    def test_moments_are_those_of_the_mixture_and_of_the_predictor(self, mixture: FittedMixture) -> None:
        whole = mixture.predict(X, 3000)
        np.testing.assert_allclose(whole.component_mean.mean(0), whole.mean, atol=0.1 * whole.std.max())
        spread = whole.component_mean.var(0) + whole.component_var.mean(0)
        np.testing.assert_allclose(np.sqrt(spread), whole.std, rtol=0.05)
        mean, std = mixture.predictor().mean_std(X)
        np.testing.assert_allclose(mean, whole.mean, rtol=1e-6)
        np.testing.assert_allclose(std, whole.std, rtol=1e-6)
        np.testing.assert_allclose(mixture.predictor().mean(X), mean, rtol=1e-9)

    def test_slopes_are_those_of_the_mean(self, mixture: FittedMixture) -> None:
        predictor, shift = mixture.predictor(), np.array([1e-5, 0.0])
        numeric = (predictor.mean(X + shift) - predictor.mean(X - shift)) / 2e-5
        np.testing.assert_allclose(predictor.jacobian(X)[:, :, 0], numeric, rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("kind", ["functions and noise", "sample", "sample_components"])
    def test_draws_have_its_moments(self, mixture: FittedMixture, kind: str) -> None:
        mean, std = mixture.predictor().mean_std(X[:3])
        if kind == "functions and noise":
            draws = mixture.sample_functions(X[:3], 6000) + mixture.sample_noise(X[:3], 6000)
        else:
            draws = getattr(mixture.predict(X[:3], 6000), kind)(6000, 1)
        assert np.all(np.abs(draws.mean(0) - mean) < 5 * std / np.sqrt(6000))
        np.testing.assert_allclose(draws.std(0), std, rtol=0.06)

    def test_the_groups_of_the_papers_estimator_mix_all_members(self, mixture: FittedMixture) -> None:
        scores = mixture.evaluate(Dataset(X, Y), num_samples=100, nested=True)
        assert scores.ll == pytest.approx(scores.ll_nested, abs=0.2)


class TestPooled:
    """Components of several mixtures by turns."""

    def joints(self) -> list[Independent]:
        var = RNG.random((4, 5, 2)) + 0.5
        law = (RNG.standard_normal((1, 5, 2)), *(RNG.random((1, 5, 2)) for _ in range(2)), np.full((1, 5, 2), np.inf))
        return [Independent(), ScaleMixture(var, *law), Correlated(0.1 * RNG.random((2, 1)))]

    def test_it_is_each_by_itself(self) -> None:
        mean, var, y = RNG.standard_normal((12, 5, 2)), RNG.random((12, 5, 2)) + 0.5, RNG.standard_normal((5, 2))
        joints, scale, rows = self.joints(), np.array([2.0, 3.0]), np.array([0, 3])
        pooled = Pooled(tuple(joints))
        for each, one in (
            (pooled, lambda joint: joint),
            (pooled.rescaled(scale), lambda joint: joint.rescaled(scale)),
            (pooled.joined([pooled]).rows(slice(0, 5)), lambda joint: joint),
        ):
            got = each.log_density(y, mean, 9 * var)
            for turn, joint in enumerate(joints):
                expected = one(joint).log_density(y, mean[turn::3], 9 * var[turn::3])
                np.testing.assert_allclose(got[turn::3], expected)
        some = (
            pooled.rows(rows)
            .outputs(np.array([1]))
            .log_density(y[rows][:, [1]], mean[:, rows][..., [1]], var[:, rows][..., [1]])
        )
        assert some.shape == (12, 2)
        np.testing.assert_allclose(pooled.cross_cov(2), joints[2].cross_cov(2) / 3)

    def test_draws_are_of_the_component_asked_for(self) -> None:
        loud = Correlated(np.array([[1.0], [1.0]]))
        pooled = Pooled((Independent(), loud))
        std = np.full((20_000, 1, 2), 1.1)
        for component, correlation in ((0, 0.0), (1, 1 / 1.21)):
            chosen = np.full((20_000, 1), component)
            draws = pooled.deviations(std, np.random.default_rng(0), chosen)[:, 0]
            assert np.corrcoef(draws.T)[0, 1] == pytest.approx(correlation, abs=0.03)
        one = Prediction(np.zeros((1, 2)), np.ones((1, 2)), np.zeros((4, 1, 2)), np.full((4, 1, 2), 1.21), joint=pooled)
        assert np.corrcoef(one.sample(20_000, 0)[:, 0].T)[0, 1] == pytest.approx(0.5 / 1.21, abs=0.03)


def test_weights_of_components_are_those_of_each_mixture() -> None:
    """Learnt sites have weights of their own."""

    def weighted() -> Prediction:
        mean, var = RNG.standard_normal((4, 3, 2)), RNG.random((4, 3, 2)) + 0.5
        log_weight = np.log(RNG.dirichlet(np.ones(4)))
        return Prediction(mean[0], var[0], mean, var, log_weight=log_weight)

    each, y = [weighted(), weighted()], RNG.standard_normal((3, 2))
    pooled = Prediction.pooled(each)
    expected = logsumexp([prediction.log_density(y) for prediction in each], axis=0) - np.log(2)
    np.testing.assert_allclose(pooled.log_density(y), expected)
    np.testing.assert_allclose(pooled.cdf(y), np.mean([prediction.cdf(y) for prediction in each], axis=0))
    draws = pooled.sample_components(40_000, 0)
    np.testing.assert_allclose(draws.mean(0), pooled.average(pooled.component_mean), atol=0.05)
    np.testing.assert_allclose(pooled.stretched(np.ones(2)).log_density(y), expected)


def regressor(**settings: Any) -> MultiOutputGPRegressor:
    small: dict[str, Any] = {"model": "n-mogp", "epochs": 2, "num_inducing": 4, "num_samples": 10, "num_kept": 2}
    return MultiOutputGPRegressor(**(small | settings))


class TestRegressor:
    """`num_kept`, and files."""

    def test_files(self, mixture: FittedMixture, tmp_path: Path) -> None:
        mixture.save(tmp_path / "m")
        loaded = mogul.load(tmp_path / "m")
        assert isinstance(loaded, FittedMixture)
        assert same(loaded, mixture)
        assert [member.history for member in loaded.members] == [member.history for member in mixture.members]
        np.testing.assert_array_equal(loaded.predict(X).component_mean, mixture.predict(X).component_mean)

    def test_all_answers_together(self, tmp_path: Path) -> None:
        frame = pd.DataFrame(X, columns=["a", "b"])
        some = regressor(calibrate=0.5, num_starts=2).fit(frame, Y)
        assert isinstance(some.fitted_, FittedMixture)
        mean, std = some.predict(frame, return_std=True)
        np.testing.assert_allclose(std, some.fitted_.predict(X).std, rtol=1e-6)
        assert some.sample_y(frame, 7).shape == some.sample_y(frame, 7, joint=True).shape == (24, 2, 7)
        assert some.predict(frame, return_cov=True)[1].shape == (24, 2, 2)
        assert np.isfinite(some.log_density(frame, Y)).all()
        low, high = some.predict_interval(frame, 0.8)
        assert ((low < mean) & (mean < high)).all()
        some.save(tmp_path / "m")
        loaded = MultiOutputGPRegressor.load(tmp_path / "m")
        np.testing.assert_array_equal(loaded.predict_interval(frame, 0.8), (low, high))
        np.testing.assert_array_equal(loaded.sample_y(frame, 7), some.sample_y(frame, 7))

    def test_there_are_as_many_starts_as_are_kept(self) -> None:
        config = regressor(num_kept=7, epochs=1).fit(X, Y).fitted_.blueprint.config  # type: ignore[union-attr]
        assert config.num_starts == config.num_kept == 7  # type: ignore[union-attr]
        with pytest.raises(ConfigError, match="num_kept must be at most num_starts, 1; got 2"):
            regressor(num_starts=1).fit(X, Y)

    def test_a_surrogate_is_of_one_model(self, mixture: FittedMixture) -> None:
        pytest.importorskip("botorch")
        from mogul.estimators.botorch import Surrogate

        with pytest.raises(ConfigError, match="must be of one model; this is a mixture of 3: n-mogp"):
            Surrogate.of(mixture)


def models_mixed(model: str = "mogp+n-mogp", checkpoint: Path | None = None, **settings: Any) -> Any:
    given: dict[str, Any] = {"num_inducing": 4, "noise": "gp", "num_noise_inducing": 3, "checkpoint": checkpoint}
    config = TrainingConfig(epochs=2, batch_size=12, num_starts=1)
    return fit(Dataset(X, Y), model=model, config=settings.pop("config", config), **given | settings)


class TestModels:
    """Several models, `mogp+n-mogp`."""

    def test_it_is_the_mixture_of_separate_fits(self) -> None:
        mixture, *alone = (models_mixed(model) for model in ("mogp+n-mogp", "mogp", "n-mogp"))
        assert isinstance(mixture, FittedMixture)
        assert [member.blueprint.model for member in mixture.members] == ["mogp", "n-mogp"]
        assert all(map(same_parameters, mixture.members, alone))
        each = [fitted.predict(X, num_samples=7, seed=3) for fitted in alone]
        both = mixture.predict(X, num_samples=7, seed=3)
        np.testing.assert_allclose(both.mean, np.mean([one.mean for one in each], axis=0))
        log_density = logsumexp([one.log_density(Y) for one in each], axis=0) - np.log(2)
        np.testing.assert_allclose(both.log_density(Y), log_density)
        mean, std = mixture.predictor().mean_std(X)
        np.testing.assert_allclose(mean, both.mean, rtol=1e-6)
        np.testing.assert_allclose(std, both.std, rtol=1e-6)

    def test_options_go_to_those_that_have_a_use_for_them(self) -> None:
        assert models_mixed(num_hidden=5).members[1].blueprint.options["num_hidden"] == 5
        with pytest.raises(ConfigError, match="dropout must be left out where nothing uses it"):
            models_mixed(dropout=0.1)

    def test_each_is_trained_on_all_rows_in_the_end(self) -> None:
        config = TrainingConfig(epochs=3, batch_size=12, num_starts=1, learning_rate=1.0)
        given = {"config": config, "held_out": np.arange(5), "retrain": True}
        mixture = models_mixed(**given)
        assert [member.history.num_rows for member in mixture.members] == [24, 24]
        starts = models_mixed("mogp", **given | {"config": replace(config, num_starts=2, num_kept=2)})
        assert [member.history.retrained for member in (*mixture.members, *starts.members)] == [True] * 4
        assert all(
            map(same_parameters, mixture.members, (models_mixed(model, **given) for model in ("mogp", "n-mogp")))
        )

    def test_starts_and_models_make_one_mixture(self) -> None:
        kept = models_mixed(config=TrainingConfig(epochs=2, batch_size=12, num_starts=2, num_kept=2))
        assert [member.blueprint.model for member in kept.members] == ["mogp", "mogp", "n-mogp", "n-mogp"]

    def test_a_file_holds_all_of_each(self, tmp_path: Path) -> None:
        mixture = models_mixed()
        mixture.save(tmp_path / "m")
        loaded = mogul.load(tmp_path / "m")
        assert isinstance(loaded, FittedMixture)
        for one, other in zip(loaded.members, mixture.members, strict=True):
            assert (one.blueprint, one.history) == (other.blueprint, other.history)
        np.testing.assert_array_equal(loaded.predict(X).component_mean, mixture.predict(X).component_mean)
        card = show_file(tmp_path / "m")
        assert (card.model, card.kept) == ("mogp+n-mogp", 2)
        lines = dict(card_lines(card))
        assert lines["model"] == "mogp+n-mogp, a mixture, observed inputs, float64"
        assert re.fullmatch(r"a mixture of 2, \d+\.\d s", lines["training"])
        for member, shown in zip(mixture.members, card.members, strict=True):
            first, last = (member.history.elbo[end] / 24 for end in (0, -1))
            line = f"{member.model_name}: 2 epochs, start 1 of 1, ELBO {first:,.2f} → {last:,.2f} per row"
            assert ("", line) in card_lines(card)
            assert shown.options["num_inducing"] == 4
        (options,) = [line for label, line in card_lines(card) if not label and line.startswith("n-mogp: noise")]
        assert "num_inducing = 4" in options

    @pytest.mark.parametrize("num_epochs", [1, 3])
    def test_it_goes_on_where_it_was_killed(self, tmp_path: Path, num_epochs: int) -> None:
        saving: dict[str, Any] = {"checkpoint": tmp_path, "checkpoint_seconds": 0.0}
        with pytest.raises(Killed):
            models_mixed(on_epoch=kill_after(num_epochs), **saving)
        assert same(models_mixed(**saving), models_mixed())

    def test_ctrl_c_keeps_those_that_are_done(self) -> None:
        def on_epoch(record: Any, model: Any) -> None:
            if dict(model.head.features.named_parameters()):
                raise KeyboardInterrupt

        with pytest.warns(MogulWarning) as caught:
            fitted = models_mixed(on_epoch=on_epoch)
        assert "n-mogp was interrupted. The mixture is of those before it" in str(caught[-1].message)
        assert fitted.history.interrupted
        assert same_parameters(fitted, models_mixed("mogp"))

    def test_one_that_cannot_be_trained_is_passed_over(self, monkeypatch: Any) -> None:
        step = Run.step

        def fragile(run: Run, *rest: Any) -> Any:
            if dict(run.model.head.features.named_parameters()):
                raise NumericalError("It broke. Mend it.")
            return step(run, *rest)

        monkeypatch.setattr(Run, "step", fragile)
        with pytest.warns(MogulWarning, match="n-mogp failed and is not in the mixture"):
            fitted = models_mixed()
        assert fitted.model_name == "mogp"
        with pytest.raises(FitError), pytest.warns(MogulWarning, match="n-mogp failed"):
            models_mixed("n-mogp+n-sbgprn")

    def test_a_model_that_lost_a_start_counts_less_and_says_so(self, monkeypatch: Any) -> None:
        step = Run.step

        def fragile(run: Run, *rest: Any) -> Any:
            if run.start == 1 and dict(run.model.head.features.named_parameters()):
                raise NumericalError("It broke. Mend it.")
            return step(run, *rest)

        monkeypatch.setattr(Run, "step", fragile)
        with pytest.warns(MogulWarning) as caught:
            models_mixed(config=TrainingConfig(epochs=2, batch_size=12, num_starts=2, num_kept=2))
        assert "some starts failed, so their model counts less" in str(caught[-1].message)

    def test_more_training_goes_on_with_each(self) -> None:
        more = train_more(models_mixed(), Dataset(X, Y), epochs=1)
        assert [member.blueprint.model for member in more.members] == ["mogp", "n-mogp"]
        assert [len(member.history.elbo) for member in more.members] == [3, 3]

    def test_the_regressor_has_it(self, tmp_path: Path) -> None:
        regressor = MultiOutputGPRegressor("mogp+n-mogp", epochs=2, num_starts=1, num_inducing=4, calibrate=0.2)
        regressor.fit(X, Y, groups=np.arange(24) // 2)
        regressor.save(tmp_path / "m")
        loaded = MultiOutputGPRegressor.load(tmp_path / "m")
        assert loaded.model == "mogp+n-mogp"
        np.testing.assert_array_equal(
            loaded.predict_quantiles(X, [0.1, 0.9]), regressor.predict_quantiles(X, [0.1, 0.9])
        )

    @pytest.mark.parametrize(
        ("model", "settings", "message"),
        [
            ("mogp+n-mogp-lvm", {}, "A mixture needs inputs that its models share"),
            ("mogp+mogp", {}, "The models of a mixture must differ; got mogp[+]mogp. Name each once"),
            ("mogp+n-mopg", {}, "model must be one of"),
            ("mogp+auto", {}, "model must be one of"),
            ("mogp+n-mogp", {"noise": "auto"}, "noise='auto' is for a model by itself; got the mixture"),
        ],
    )
    def test_what_makes_no_mixture_is_refused(self, model: str, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            models_mixed(model, **settings)

    def test_its_noise_has_the_least_floor_of_all(self) -> None:
        floors = [models_mixed("mogp", noise_floor=floor) for floor in (0.3, 0.2)]
        assert [fitted.noise_floor for fitted in floors] == pytest.approx([0.3, 0.2])
        assert FittedMixture.of(floors).noise_floor == pytest.approx(0.2)
        assert models_mixed().noise_floor == pytest.approx(1e-4)
