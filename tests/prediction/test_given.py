"""Predictions given outputs of the same rows: against brute force, closed forms and the chain rule."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from mogul import MultiOutputGPRegressor, fit
from mogul.data import Dataset, Standardiser
from mogul.errors import ConfigError, DataError, ShapeError
from mogul.fitted.mixture import FittedMixture
from mogul.heads import NoiseCorrelation
from mogul.models import build
from mogul.models.model import Model
from mogul.prediction import Prediction, predict
from mogul.priors import IndependentGPs, randomise

NUM_OUTPUTS = 3
NOISES = ["constant", "net", "gp", "student-t", "gp-student-t", "low-rank"]
LOADINGS = torch.tensor([[0.8], [-0.7], [0.6]], dtype=torch.float64)


def planted(name: str, noise: str, *, correlated: bool = False) -> tuple[Model, torch.Tensor, np.ndarray]:
    """A tiny model with known posteriors, inputs, and outputs drawn from it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 2, generator=generator, dtype=torch.float64)
    sizes = {"num_inducing": 5, "num_noise_inducing": 5, "num_latents": 2}
    model = build(name, x, NUM_OUTPUTS, generator, noise=noise, **sizes).double().eval()
    model.requires_grad_(False)
    for module in model.modules():
        if isinstance(module, IndependentGPs):
            randomise(module, generator, spread=1.0, scale=0.3)
    if hasattr(model.head.mixing, "log_scale"):
        model.head.mixing.log_scale.fill_(-3.0)
    spread = model.components(x, 100, generator).mean.flatten(0, 1).std(0)
    model.head.noise.log_precision.copy_(-2 * torch.log(0.5 * spread))
    if noise == "low-rank":
        model.head.noise.loadings.copy_(spread[:, None] * torch.randn(3, 2, generator=generator, dtype=x.dtype))
    if correlated:
        model.head.correlation = NoiseCorrelation(LOADINGS)
    y = predict(model, x, 1, generator).sample(1, seed=1)[0]
    return model, x, y


def known_part(y: np.ndarray) -> np.ndarray:
    """Two outputs, one, or none known."""
    known = y.copy()
    known[:, 1] = np.nan
    known[3:5, 2] = np.nan
    known[5] = np.nan
    return known


def covariances(prediction: Prediction) -> np.ndarray:
    """Of the outputs of each component, for the scales of the noise that it has drawn."""
    own, joint = np.einsum("snp,pq->snpq", prediction.component_var, np.eye(NUM_OUTPUTS)), prediction.joint
    if not hasattr(joint, "noise_var"):
        return own + joint.cross_cov(NUM_OUTPUTS)
    shared, root = joint.loadings @ joint.loadings.T, np.sqrt(joint.noise_var)
    return own + root[..., None] * root[..., None, :] * (shared - np.diag(np.diag(shared)))


def brute_force(model: Model, x: torch.Tensor, known: np.ndarray, num_draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation by many components, each conditioned as a Normal, by the density of what is known."""
    generator = torch.Generator().manual_seed(5)
    total, first, second = np.zeros(len(known)), np.zeros(known.shape), np.zeros(known.shape)
    for _ in range(num_draws // 2000):
        part = predict(model, x, 2000, generator)
        cov = covariances(part)
        for row, values in enumerate(known):
            seen = ~np.isnan(values)
            inner, across = cov[:, row][:, seen][:, :, seen], cov[:, row][:, :, seen]
            gap = values[seen] - part.component_mean[:, row, seen]
            solved = np.linalg.solve(inner, gap[..., None])[..., 0]
            weight = np.exp(-0.5 * (gap * solved).sum(-1) - 0.5 * np.linalg.slogdet(inner)[1])
            mean = part.component_mean[:, row] + (across @ solved[..., None])[..., 0]
            explained = (across * np.linalg.solve(inner, across.swapaxes(1, 2)).swapaxes(1, 2)).sum(-1)
            total[row] += weight.sum()
            first[row] += weight @ mean
            second[row] += weight @ (part.component_var[:, row] - explained + mean**2)
    mean = first / total[:, None]
    return mean, np.sqrt(np.maximum(second / total[:, None] - mean**2, 0))


EVERY = [("mogp", noise, correlated) for noise in NOISES for correlated in (False, True) if noise != "low-rank"]
EVERY += [("mogp", "low-rank", False), ("n-sbgprn", "constant", True), ("n-sbgprn", "gp-student-t", True)]
EVERY += [("n-sbgprn", "low-rank", False), ("gprn", "student-t", False), ("dgp", "constant", True)]


@pytest.mark.parametrize(("name", "noise", "correlated"), EVERY)
def test_it_equals_brute_force(name: str, noise: str, correlated: bool):
    model, x, y = planted(name, noise, correlated=correlated)
    known = known_part(y)
    plain = predict(model, x, 500, torch.Generator().manual_seed(0))
    found = plain.given(known)
    mean, std = brute_force(model, x, known, 80_000)
    unknown = np.isnan(known)
    scale = plain.std[unknown]
    np.testing.assert_allclose((found.mean[unknown] - mean[unknown]) / scale, 0, atol=0.07 if name == "dgp" else 0.05)
    np.testing.assert_allclose(found.std[unknown] / std[unknown], 1, atol=0.1)
    # What components say is what the moments say.
    drawn = found.sample(20_000)
    np.testing.assert_allclose((drawn.mean(0) - found.mean)[unknown] / scale, 0, atol=0.15)
    medians = np.median(drawn, axis=0)[unknown], found.quantiles([0.5])[0][unknown]
    np.testing.assert_allclose((medians[0] - medians[1]) / scale, 0, atol=0.1)


@pytest.mark.parametrize(("noise", "correlated"), [("constant", False), ("constant", True), ("low-rank", False)])
def test_linear_models_have_exact_moments(noise: str, correlated: bool):
    model, x, y = planted("mogp", noise, correlated=correlated)
    model.head.mixing.log_scale.fill_(-30.0)
    known = known_part(y)[:5]
    found = predict(model, x[:5], 20, torch.Generator().manual_seed(0)).given(known)
    q, noise_law = model.prior(x, 1, torch.Generator()), model.head.noise(x, torch.Generator())
    matrix = model.head.mixing.at(x, torch.Generator()).mean.numpy()
    of_noise = np.diag(noise_law.var.numpy())
    if correlated:
        root = noise_law.var.sqrt().numpy()
        of_noise = root[:, None] * model.head.correlation.matrix.numpy() * root
    if noise == "low-rank":
        of_noise += noise_law.joint(torch.zeros(1, 5, 3), torch.ones(3)).cross_cov(3)
    for row, values in enumerate(known):
        seen = ~np.isnan(values)
        cov = matrix * q.var[row].numpy() @ matrix.T + of_noise
        gain = cov[:, seen] @ np.linalg.inv(cov[np.ix_(seen, seen)])
        level = matrix @ q.mean[row].numpy()
        mean = level + gain @ (values[seen] - level[seen])
        var = np.diag(cov - gain @ cov[seen])
        np.testing.assert_allclose(found.mean[row, ~seen], mean[~seen], atol=1e-6)
        np.testing.assert_allclose(found.var[row, ~seen], var[~seen], rtol=1e-5)


def test_nothing_known_is_the_plain_prediction():
    model, x, y = planted("mogp", "student-t", correlated=True)
    plain = predict(model, x, 50, torch.Generator().manual_seed(0))
    assert plain.given(np.full(y.shape, np.nan)) is plain
    known = known_part(y)  # nothing of the last row
    found = plain.given(known)
    np.testing.assert_array_equal(found.mean[5], plain.mean[5])
    np.testing.assert_array_equal(found.quantiles([0.1, 0.9])[:, 5], plain.quantiles([0.1, 0.9])[:, 5])
    np.testing.assert_allclose(found.log_density(y)[5], plain.log_density(y)[5], atol=0.05)
    np.testing.assert_array_equal(found.component_log_density(y)[:, 5], plain.component_log_density(y)[:, 5])
    pair = np.corrcoef(found.sample(4000)[:, 5].T), np.corrcoef(plain.sample(4000)[:, 5].T)
    np.testing.assert_allclose(*pair, atol=0.1)


def test_known_outputs_have_their_values():
    model, x, y = planted("n-sbgprn", "gp-student-t", correlated=True)
    for known in (y, known_part(y)):
        found = predict(model, x, 50, torch.Generator().manual_seed(0)).given(known)
        seen = ~np.isnan(known)
        np.testing.assert_array_equal(found.mean[seen], y[seen])
        np.testing.assert_array_equal(found.std[seen], 0)
        np.testing.assert_array_equal(found.quantiles([0.1, 0.5])[:, seen], np.stack([y[seen]] * 2))
        np.testing.assert_array_equal(found.sample(3)[:, seen], np.stack([y[seen]] * 3))
        assert np.isfinite(found.cdf(y)).all()
    found = predict(model, x, 50, torch.Generator().manual_seed(0)).given(y)
    np.testing.assert_allclose(found.log_density(y), 0)  # nothing is left to be said


@pytest.mark.parametrize(("noise", "correlated"), [("constant", True), ("low-rank", False), ("gp-student-t", True)])
def test_the_chain_rule_holds(noise: str, correlated: bool):
    model, x, y = planted("n-sbgprn", noise, correlated=correlated)
    plain = predict(model, x, 2000, torch.Generator().manual_seed(0))
    known = np.where(np.arange(NUM_OUTPUTS) == 0, y, np.nan)
    found = plain.given(known)
    both = plain.log_density(known) + found.log_density(y)
    np.testing.assert_allclose(both, plain.log_density(y), atol=1e-9)
    # The components say the same as the importance sampler, for one output more.
    second = np.where(np.arange(NUM_OUTPUTS) == 1, y, np.nan)
    np.testing.assert_allclose(found.mixture_log_density(second), found.log_density(second), atol=0.3)
    # And outputs that become known one after another are as if known at once.
    twice, once = found.given(second), plain.given(np.where(np.arange(NUM_OUTPUTS) == 2, np.nan, y))
    np.testing.assert_allclose((twice.mean - once.mean) / plain.std, 0, atol=0.02)


def test_it_can_be_scaled_and_cut_before_and_after():
    model, x, y = planted("mogp", "low-rank")
    known = known_part(y)
    plain = predict(model, x, 200, torch.Generator().manual_seed(0))
    found, units = plain.given(known), Standardiser(np.array([1.0, -2.0, 3.0]), np.array([0.1, 10.0, 2.0]))
    before = plain.rescaled(units).given(units.undo(known))
    np.testing.assert_allclose(before.mean, found.rescaled(units).mean, rtol=1e-6)
    np.testing.assert_allclose(before.log_density(units.undo(y)), found.rescaled(units).log_density(units.undo(y)))
    some = np.array([4, 1])
    np.testing.assert_allclose(found.rows(some).log_density(y[some]), found.log_density(y)[some], atol=0.05)
    last = found.outputs(np.array([1]))
    np.testing.assert_allclose(
        last.log_density(y[:, [1]]), found.log_density(np.where([0, 1, 0], y, np.nan)), atol=1e-9
    )
    again = last.rescaled(Standardiser(np.zeros(1), np.full(1, 2.0))).log_density(2 * y[:, [1]])
    np.testing.assert_allclose(again, last.log_density(y[:, [1]]) - math.log(2), atol=1e-9)


def test_components_with_weights_are_conditioned_one_by_one():
    """As learnt sites are, which have no density of their own: here it is left out."""
    for noise, correlated in (("constant", True), ("low-rank", False), ("student-t", False)):
        model, x, y = planted("mogp", noise, correlated=correlated)
        known = np.where(np.arange(NUM_OUTPUTS) == 0, y, np.nan)
        known[5] = np.nan
        plain = predict(model, x, 20_000, torch.Generator().manual_seed(0))
        sites = replace(plain, density=None, log_weight=np.full(20_000, -math.log(20_000)))
        for without in (sites, replace(plain, density=None)):
            found, expected = without.given(known), plain.given(known)
            np.testing.assert_allclose((found.mean - expected.mean) / plain.std, 0, atol=0.05)
            np.testing.assert_allclose((found.std - expected.std) / plain.std, 0, atol=0.05)
        drawn = found.sample(5000)
        np.testing.assert_allclose((drawn.mean(0) - found.mean) / plain.std, 0, atol=0.08)
        np.testing.assert_allclose(found.mixture_log_density(y), plain.given(known).log_density(y), atol=0.1)
        cov = found.cov_of_means()
        np.testing.assert_allclose(cov, cov.swapaxes(1, 2), atol=1e-12)


@pytest.fixture(scope="module")
def correlated_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    noise = rng.standard_normal((300, 2)) @ np.linalg.cholesky([[1.0, 0.9], [0.9, 1.0]]).T
    return x, np.hstack([np.sin(3 * x), x**2]) + 0.3 * noise


def test_known_outputs_lower_the_error_to_the_conditional_spread(correlated_data: tuple[np.ndarray, np.ndarray]):
    x, y = correlated_data
    regressor = MultiOutputGPRegressor(random_state=0).fit(x[:200], y[:200])
    known = np.where([True, False], y, np.nan)[200:]
    error = np.sqrt(np.mean((regressor.predict(x[200:])[:, 1] - y[200:, 1]) ** 2))
    mean, std = regressor.predict(x[200:], return_std=True, given=known)
    given_error = np.sqrt(np.mean((mean[:, 1] - y[200:, 1]) ** 2))
    conditional = 0.3 * math.sqrt(1 - 0.9**2)
    assert error > 0.25
    assert given_error == pytest.approx(conditional, rel=0.2)
    assert std[:, 1].mean() == pytest.approx(conditional, rel=0.2)
    np.testing.assert_array_equal(mean[:, 0], known[:, 0])
    low, high = regressor.predict_quantiles(x[200:], [0.05, 0.95], given=known)[..., 1]
    assert np.mean((low < y[200:, 1]) & (y[200:, 1] < high)) > 0.8
    np.testing.assert_allclose(regressor.sample_y(x[200:], 400, given=known).mean(-1), mean, atol=0.1)
    whole = regressor.log_density(x[200:], y[200:])
    np.testing.assert_allclose(
        regressor.log_density(x[200:], known) + regressor.log_density(x[200:], y[200:], given=known), whole, atol=0.05
    )
    _, cov = regressor.predict(x[200:], return_cov=True, given=known)
    np.testing.assert_allclose(cov[:, 1, 1], std[:, 1] ** 2)
    np.testing.assert_array_equal(cov[:, 0], 0)


def test_frames_are_read_by_name(correlated_data: tuple[np.ndarray, np.ndarray]):
    x, y = correlated_data
    frame = pd.DataFrame(y, columns=["a", "b"])
    fitted = fit(pd.DataFrame(x, columns=["t"])[:80], frame[:80])
    by_array = fitted.predict(x[80:90], given=np.where([False, True], y, np.nan)[80:90])
    by_name = fitted.predict(x[80:90], given=frame[["b"]][80:90])
    np.testing.assert_array_equal(by_array.mean, by_name.mean)
    both = fitted.predict(x[80:90], given=frame[["b", "a"]][80:90])
    np.testing.assert_array_equal(both.mean, y[80:90])
    with pytest.raises(DataError, match="Leave out the others"):
        fitted.predict(x[80:90], given=frame.rename(columns={"b": "c"})[80:90])
    with pytest.raises(ShapeError, match="given must have 2 columns"):
        fitted.predict(x[80:90], given=y[80:90, :1])
    with pytest.raises(ShapeError, match="a row for each row of X, 10; got 5"):
        fitted.predict(x[80:90], given=y[80:85])
    with pytest.raises(DataError, match="finite or NaN"):
        fitted.predict(x[80:81], given=[[np.inf, 0.0]])


def test_members_of_a_mixture_are_weighted_by_what_is_known(correlated_data: tuple[np.ndarray, np.ndarray]):
    x, y = correlated_data
    right, wrong = fit(x[:80], y[:80]), fit(x[:80], y[:80] + np.array([5.0, 50.0]))
    whole = FittedMixture.of([right, wrong])
    known = np.where([True, False], y, np.nan)[80:90]
    found, expected = whole.predict(x[80:90], given=known), right.predict(x[80:90], given=known)
    np.testing.assert_allclose(found.mean, expected.mean, atol=0.02)
    np.testing.assert_allclose(found.std, expected.std, atol=0.05)
    np.testing.assert_allclose(found.quantiles([0.5]), expected.quantiles([0.5]), atol=0.1)
    assert len(found.component_mean) == 200


def test_a_calibrated_model_conditions_its_calibrated_prediction(correlated_data: tuple[np.ndarray, np.ndarray]):
    x, y = correlated_data
    fitted = fit(x[:80], y[:80]).calibrated(Dataset(x[80:200], y[80:200]))
    known = np.where([True, False], y, np.nan)[200:]
    found = fitted.predict(x[200:], given=known)
    error = found.mean[:, 1] - y[200:, 1]
    assert np.sqrt(np.mean(error**2)) == pytest.approx(0.3 * math.sqrt(1 - 0.9**2), rel=0.3)


def test_latent_inputs_are_refused_with_a_remedy():
    data = Dataset(None, np.random.default_rng(0).standard_normal((12, 3)))
    fitted = fit(None, data.y, model="mogp-lvm", epochs=1, num_starts=1, num_inducing=4)
    with pytest.raises(ConfigError, match="Use reconstruct"):
        fitted.predict(np.zeros((2, fitted.latent_means.shape[1])), given=data.y[:2])
