"""Data with noise that is known: what is learnt of it, and whether predictions are as sure as they should be."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats

from mogul import Dataset, TrainingConfig, fit
from mogul.metrics import coverage
from mogul.training import Fitted, NoiseUpdate

# So many rows that means are known to a hundredth of the noise: with a quarter of them, their errors alone fail a test.
# Long fits, whose lines quicker tests run too; one process makes them, for all tests of this file.
pytestmark = [pytest.mark.no_cover, pytest.mark.xdist_group("planted noise")]

NUM_TRAIN, NUM_TEST, NUM_OUTPUTS, DOF = 16_000, 5000, 2, 3.0
GP_SIZES = {"num_noise_latents": 2, "num_noise_inducing": 10}
SIZES = {"gp": GP_SIZES, "gp-student-t": GP_SIZES, "low-rank": {"noise_rank": 1}}
LOADINGS = np.array([[0.3], [-0.2]])

Draw = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Planted:
    """A smooth function and noise: the standard deviation (or the scale) of the noise, and draws of it."""

    scale: Callable[[np.ndarray], np.ndarray]
    draw: Draw

    def rows(self, num_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x = rng.uniform(-2, 2, (num_rows, 1))
        return x, np.hstack([np.sin(2 * x), np.cos(x)]) + self.draw(x, rng)


def wavy(x: np.ndarray) -> np.ndarray:
    return 0.1 * np.exp(np.hstack([np.sin(2 * x), 0.7 * x]))


def flat(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to([0.1, 0.2], (len(x), NUM_OUTPUTS))


def correlated(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.sqrt(np.square(LOADINGS).sum(1) + np.array([0.01, 0.04])), (len(x), NUM_OUTPUTS))


def draw_correlated(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    own = np.array([0.1, 0.2]) * rng.standard_normal((len(x), NUM_OUTPUTS))
    return own + rng.standard_normal((len(x), 1)) @ LOADINGS.T


HETEROSCEDASTIC = Planted(wavy, lambda x, rng: wavy(x) * rng.standard_normal((len(x), NUM_OUTPUTS)))
HEAVY_TAILED = Planted(flat, lambda x, rng: flat(x) * rng.standard_t(DOF, (len(x), NUM_OUTPUTS)))
CORRELATED = Planted(correlated, draw_correlated)
BOTH = Planted(wavy, lambda x, rng: wavy(x) * rng.standard_t(DOF, (len(x), NUM_OUTPUTS)))
TRUTHS = {
    "net": HETEROSCEDASTIC,
    "gp": HETEROSCEDASTIC,
    "student-t": HEAVY_TAILED,
    "gp-student-t": BOTH,
    "low-rank": CORRELATED,
}


@pytest.fixture(scope="module")
def fits() -> dict[str, Fitted]:
    """Each noise, fitted to the data it is made for."""
    config = TrainingConfig(
        epochs=17, batch_size=1600, learning_rate=0.07, num_starts=1, updates=(NoiseUpdate(),), precision="float32"
    )
    fitted = {}
    for noise, truth in TRUTHS.items():
        data = Dataset(*truth.rows(NUM_TRAIN, np.random.default_rng(0)))
        sizes = {"num_latents": 2, "num_inducing": 10} | SIZES.get(noise, {})
        fitted[noise] = fit(data, model="mogp", config=config, noise=noise, **sizes)
    return fitted


def learnt_scale(fitted: Fitted, noise: str, x: np.ndarray) -> np.ndarray:
    """The standard deviation of the noise, or the scale of Student's t, in original units."""
    model = fitted.model
    with torch.no_grad():
        var = model.noise_var(torch.as_tensor(fitted.scaling.inputs.apply(x)).float(), torch.Generator())
        if noise.endswith("student-t"):
            var = var * (model.head.noise.dof - 2) / model.head.noise.dof
    return np.sqrt(np.broadcast_to(var.double().numpy(), (len(x), NUM_OUTPUTS))) * fitted.scaling.outputs.scale


@pytest.mark.parametrize("noise", TRUTHS)
def test_the_log_of_the_noise_is_learnt_to_a_tenth(noise, fits):
    x = np.linspace(-2, 2, 200)[:, None]
    error = np.log(learnt_scale(fits[noise], noise, x)) - np.log(TRUTHS[noise].scale(x))
    assert np.abs(error).mean() < 0.1


@pytest.mark.parametrize("noise", TRUTHS)
def test_predictions_are_as_sure_as_they_should_be(noise, fits):
    x, y = TRUTHS[noise].rows(NUM_TEST, np.random.default_rng(1))
    pit = fits[noise].predict(x, num_samples=50).cdf(y)
    assert pit.size == 10_000
    assert stats.kstest(pit.ravel(), "uniform").pvalue > 0.01
    for level in (0.5, 0.8, 0.95):
        assert coverage(pit, level) == pytest.approx(level, abs=0.02)


@pytest.mark.parametrize("noise", ["student-t", "gp-student-t"])
def test_degrees_of_freedom_are_learnt(noise, fits):
    dof = fits[noise].model.head.noise.dof.detach().numpy()
    assert np.all(np.abs(np.log(dof / DOF)) < 0.25)


def test_the_correlation_of_the_noise_is_learnt_and_pays(fits):
    fitted = fits["low-rank"]
    noise = fitted.model.head.noise
    unit = fitted.model.mean.scale.numpy() * fitted.scaling.outputs.scale
    cov = unit[:, None] * (noise.loadings @ noise.loadings.T).detach().numpy() * unit
    assert cov[0, 1] == pytest.approx((LOADINGS @ LOADINGS.T)[0, 1], rel=0.15)
    x, y = CORRELATED.rows(NUM_TEST, np.random.default_rng(1))
    prediction = fitted.predict(x, num_samples=50)
    truth = stats.multivariate_normal(np.zeros(2), LOADINGS @ LOADINGS.T + np.diag([0.01, 0.04]))
    signal = np.hstack([np.sin(2 * x), np.cos(x)])
    best = truth.logpdf(y - signal).mean()
    assert prediction.log_density(y).mean() == pytest.approx(best, abs=0.03)
    each = [prediction.outputs(np.array([column])).log_density(y[:, [column]]).mean() for column in range(2)]
    gain = -0.5 * np.log(1 - truth.cov[0, 1] ** 2 / (truth.cov[0, 0] * truth.cov[1, 1]))
    assert gain > 0.2
    assert best - sum(each) == pytest.approx(gain, abs=0.05)


def test_noise_that_depends_on_x_and_has_outliers_has_the_density_of_the_truth(fits):
    x, y = BOTH.rows(NUM_TEST, np.random.default_rng(1))
    truth = stats.t(DOF, np.hstack([np.sin(2 * x), np.cos(x)]), wavy(x)).logpdf(y).sum(1).mean()
    assert fits["gp-student-t"].predict(x, 50).log_density(y).mean() == pytest.approx(truth, abs=0.03)


def test_noise_that_depends_on_x_is_worth_more_than_one_that_does_not(fits):
    x, y = HETEROSCEDASTIC.rows(NUM_TEST, np.random.default_rng(1))
    truth = stats.norm(np.hstack([np.sin(2 * x), np.cos(x)]), wavy(x)).logpdf(y).sum(1).mean()
    for noise in ("net", "gp"):
        assert fits[noise].predict(x, 50).log_density(y).mean() == pytest.approx(truth, abs=0.03)
