"""Fitted models of transformed outputs: predictions, densities, files, calibration, known outputs."""

import numpy as np
import pytest
from scipy import stats

import mogul
from mogul import Dataset, TrainingConfig
from mogul.config import Stopping
from mogul.errors import ConfigError, DataError
from mogul.fitted.files import describe
from mogul.prediction import Warped


def rows(seed=0, num_rows=120):
    """A log-normal output, a Normal one that shares its noise, and counts."""
    rng = np.random.default_rng(seed)
    x, noise = rng.uniform(-1, 1, (num_rows, 1)), rng.standard_normal((num_rows, 1))
    own = rng.standard_normal((num_rows, 1))
    positive = np.exp(np.sin(3 * x) + 0.6 * noise)
    counts = rng.poisson(np.exp(1 + x)).astype(float)
    return x, np.hstack([positive, x + 0.3 * (0.8 * noise + 0.6 * own), counts])


X, Y = rows()
NEW, TRUE = rows(1, 60)


@pytest.fixture(scope="module")
def fitted():
    return mogul.fit(X, Y, transform="auto")


@pytest.mark.parametrize("transform", ["auto", [None], {"y0": None}])
def test_normal_outputs_are_fitted_bit_for_bit_as_without_transforms(transform):
    plain, chosen = mogul.fit(X, Y[:, 1]), mogul.fit(X, Y[:, 1], transform=transform)
    assert chosen.transforms == {}
    for part in ("mean", "var", "component_mean"):
        np.testing.assert_array_equal(getattr(plain.predict(NEW), part), getattr(chosen.predict(NEW), part))


def test_each_output_has_the_transform_that_suits_it(fitted):
    assert list(fitted.transforms) == ["y0", "y2"]
    assert fitted.transforms["y0"] == "log"
    assert fitted.transforms["y2"].startswith("yeo-johnson")


@pytest.mark.parametrize("seed", range(4))
def test_log_normal_rows_are_denser_than_without_a_transform(seed):
    x, y = rows(seed)
    new, true = rows(seed + 100)
    gain = [
        mogul.fit(x, y[:, :1], transform=transform).evaluate(Dataset(new, true[:, :1]), standardised=True).ll
        for transform in ("auto", None)
    ]
    assert gain[0] > gain[1] + 0.05


def test_units_of_scores(fitted):
    data = Dataset(NEW, TRUE)
    own, standard = fitted.evaluate(data), fitted.evaluate(data, standardised=True)
    assert own.ll == pytest.approx(standard.ll - np.log(fitted.scaling.outputs.scale).sum())
    assert own.ll == pytest.approx(fitted.log_density(NEW, TRUE, num_samples=250).mean(), abs=0.02)
    assert standard.coverage[0.8] == pytest.approx(0.8, abs=0.1)


def test_constant_noise_on_the_log_scale_is_scipys_log_normal():
    fitted = mogul.fit(X, Y[:, :1], transform="log", noise="constant")
    z = fitted.modelled.predict(NEW)
    law, reference = fitted.predict(NEW), stats.lognorm(z.std, scale=np.exp(z.mean))
    np.testing.assert_allclose(law.mean, reference.mean(), rtol=0.01)
    np.testing.assert_allclose(law.log_density(TRUE[:, :1]), reference.logpdf(TRUE[:, :1])[:, 0], atol=0.05)


def test_quantiles_are_positive_and_means_are_those_of_draws(fitted):
    law = fitted.predict(NEW, num_samples=500)
    assert (law.quantiles([1e-6, 0.05])[..., 0] > 0).all()
    assert (law.sample(50)[..., 0] > 0).all()
    assert (fitted.sample_functions(NEW, 5)[..., 0] > 0).all()
    np.testing.assert_allclose(law.mean, law.sample(20_000).mean(0), atol=0.02 * Y.std(0).max(), rtol=0.05)


@pytest.mark.parametrize("noise", ["student-t", "gp"])
def test_heavy_tails_on_the_log_scale_have_a_finite_mean(noise):
    fitted = mogul.fit(X, Y[:, :1], transform="log", noise=noise)
    law = fitted.predict(NEW)
    assert (law.mean < law.quantiles([0.999])[0]).all()


def test_missing_outputs_are_left_out():
    y = Y.copy()
    y[::4, 0], y[1::4, 2] = np.nan, np.nan
    fitted = mogul.fit(X, y, transform=["log", None, "yeo-johnson"])
    true = np.where([True, False, False], TRUE, np.nan)
    alone = fitted.predict(NEW).outputs(np.array([0])).log_density(TRUE[:, :1])
    np.testing.assert_allclose(fitted.predict(NEW).log_density(true), alone, atol=0.05)


def test_known_outputs_are_mapped_forward(fitted):
    known = np.where([False, True, False], TRUE, np.nan)
    beside, alone = fitted.predict(NEW, given=known), fitted.predict(NEW)
    np.testing.assert_allclose(beside.mean[:, 1], TRUE[:, 1])
    assert (beside.std[:, 1] == 0).all()
    assert beside.std[:, 0].mean() < 0.9 * alone.std[:, 0].mean()
    # log p(y) = log p(known) + log p(others | known).
    total = alone.log_density(TRUE)
    np.testing.assert_allclose(alone.log_density(known) + beside.log_density(TRUE), total, atol=0.1)
    positive = np.where([True, False, False], TRUE, np.nan)
    np.testing.assert_allclose(fitted.predict(NEW, given=positive).mean[:, 0], TRUE[:, 0])
    with pytest.raises(DataError, match="output 'y0' has -1"):
        fitted.predict(NEW[:1], given=[[-1.0, np.nan, np.nan]])


def test_calibrated_intervals_are_mapped_back():
    x, y = rows(3, 300)
    fitted = mogul.fit(x, y, transform="auto", calibrate=0.3)
    low, high = fitted.interval(NEW, coverage=0.9)
    assert (low[:, 0] > 0).all()
    inside = (low <= TRUE) & (high >= TRUE)
    assert inside.mean() == pytest.approx(0.9, abs=0.08)


def test_a_mixture_pools_what_is_modelled(tmp_path):
    config = TrainingConfig(epochs=2, num_starts=1)
    fitted = mogul.fit(X, Y, model="mogp+n-mogp", transform="auto", config=config, num_hidden=3)
    law = fitted.predict(NEW)
    assert isinstance(law, Warped)
    assert fitted.num_members == 2
    assert np.isfinite(law.log_density(TRUE)).all()
    fitted.save(tmp_path / "mixture.mogul")
    np.testing.assert_array_equal(mogul.load(tmp_path / "mixture.mogul").predict(NEW).mean, law.mean)


def test_held_out_scores_carry_the_slope():
    places, config = np.arange(24), TrainingConfig(epochs=3, num_starts=1, start="random", stopping=Stopping())
    asked = {"config": config, "held_out": places, "noise": "constant"}
    by_hand = mogul.fit(X, np.log(Y[:, :1]), **asked)
    log = mogul.fit(X, Y[:, :1], transform="log", **asked)
    trained, held_out = Y[24:, 0], Y[:24, 0]
    slope = np.mean(-np.log(held_out)) + np.log(trained.std() / np.log(trained).std())
    assert log.history.held_out == pytest.approx(by_hand.history.held_out + slope)


def test_groups_are_held_out_and_trained_on():
    groups = np.repeat(np.arange(12), 10)
    fitted = mogul.fit(X, Y, groups=groups, transform="auto", model="mogp")
    assert list(fitted.transforms) == ["y0", "y2"]


def test_files_keep_transforms_bit_for_bit_and_older_versions_refuse_them(fitted, tmp_path):
    path = tmp_path / "model.mogul"
    fitted.save(path)
    again = mogul.load(path)
    assert again.transforms == fitted.transforms
    np.testing.assert_array_equal(again.predict(NEW).mean, fitted.predict(NEW).mean)
    np.testing.assert_array_equal(again.log_density(NEW, TRUE), fitted.log_density(NEW, TRUE))
    assert describe(path)["format"] == 2
    mogul.fit(X, Y).save(path)
    assert describe(path)["format"] == 1


def test_what_transforms_cannot_be_combined_with(fitted):
    with pytest.raises(ConfigError, match="predictor needs outputs without a transform; 'y0' has log"):
        fitted.predictor()
    with pytest.raises(ConfigError, match="sample_noise needs outputs without a transform"):
        fitted.sample_noise(NEW, 3)
    with pytest.raises(ConfigError, match="transform needs a model with observed inputs; got 'log' with mogp-lvm"):
        mogul.fit(None, Y[:, :1], model="mogp-lvm", transform="log")
    with pytest.raises(DataError, match="output 'y1' has -1"):
        mogul.fit(X, Y, transform="log")
    assert fitted.modelled.predictor().mean(NEW).shape == TRUE.shape
