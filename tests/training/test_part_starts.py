"""Models that start where exact GPs ended: what they predict before any training, part by part."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from mogul import Dataset, TrainingConfig, fit, models
from mogul.training import Fitted
from mogul.training.exact_start import ExactStart

UNTRAINED = TrainingConfig(start="exact", epochs=0, num_starts=1)
FEW_POINTS: dict[str, Any] = {"num_inducing": 60, "num_top_inducing": 25, "num_mixing_inducing": 25}


def truth(x: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(2 * x[:, 0]), x[:, 1] ** 2 - x[:, 0], np.cos(2 * x[:, 1]) * x[:, 0]], 1)


def rows(number: int, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (number, 2))
    return Dataset(x, truth(x) + 0.1 * rng.standard_normal((number, 3)))


def options_of(name: str, **options: Any) -> dict[str, Any]:
    unused = models.unused_options(name)
    return {option: value for option, value in (FEW_POINTS | options).items() if option not in unused}


def explained(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """R² of each output."""
    share: np.ndarray = 1 - np.square(found - expected).mean(0) / expected.var(0)
    return share


@pytest.fixture(scope="module", autouse=True)
def once() -> Any:
    """The exact GPs of the same rows are fitted once."""
    fitted: dict[tuple[float, bool, bool], ExactStart] = {}
    of = ExactStart.of

    def known(batch: Any, seed: int, *, plane: bool, robust: bool = True, **unused: Any) -> ExactStart:
        key = float(batch.y.sum()), plane, robust
        if key not in fitted:
            fitted[key] = of(batch, seed, plane=plane, robust=robust)
        return fitted[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExactStart, "of", staticmethod(known))
        yield


@cache
def started(name: str, num_latents: int = 3) -> Fitted:
    sizes = {"num_latents": num_latents, "num_top_latents": num_latents, "num_hidden": 6}
    return fit(rows(150), model=name, config=UNTRAINED, **options_of(name, **sizes))


NAMES = [*models.FAMILIES, *(f"dk-{family}" for family in models.FAMILIES)]


@pytest.mark.parametrize("name", NAMES)
def test_every_model_starts_with_the_predictions_of_exact_gps(name: str) -> None:
    x = rows(100, seed=1).x
    found, expected = (started(each).predict(x, num_samples=100).mean for each in (name, "mogp"))
    assert explained(found, expected).min() > 0.95


@pytest.mark.parametrize("name", models.FAMILIES)
def test_every_model_starts_with_densities_near_those_of_exact_gps(name: str) -> None:
    test = rows(100, seed=1)
    assert started(name).evaluate(test).ll > started("mogp").evaluate(test).ll - 0.6


def test_a_mogp_with_a_gp_for_each_output_has_scikit_learns_means() -> None:
    data, x = rows(60), rows(30, seed=1).x
    fitted = fit(data, model="mogp", config=UNTRAINED, mean="zero", num_latents=3, num_inducing=60)
    kernel, noise = fitted.model.prior.kernel, fitted.model.noise_var(torch.zeros(1, 2), torch.Generator())
    scale, mean = data.x.std(0), data.x.mean(0)
    for output in range(3):
        y = data.y[:, output]
        lengthscale = kernel.base_kernel.lengthscale[output, 0].detach().numpy()
        known = ConstantKernel(kernel.outputscale[output].item()) * RBF(lengthscale)
        exact = GaussianProcessRegressor(known, alpha=noise[output].item(), optimizer=None)
        exact.fit((data.x - mean) / scale, (y - y.mean()) / y.std())
        expected = y.mean() + y.std() * exact.predict((x - mean) / scale)
        # A tenth of the noise: fewer inducing points than rows leave a twentieth of a nat unexplained.
        np.testing.assert_allclose(fitted.predict(x).mean[:, output], expected, atol=0.01)


@pytest.mark.parametrize("name", ["mogp", "n-mogp", "n-sbgprn", "gprn", "dgp"])
def test_outputs_that_share_a_function_need_one_latent_gp(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (150, 1))
    shared = np.sin(2 * x) * np.array([1.0, -0.5, 2.0, 1.0])
    y = shared + 0.05 * rng.standard_normal(shared.shape)
    sizes = {"num_latents": 1, "num_top_latents": 1, "num_hidden": 4}
    fitted = fit(Dataset(x, y), model=name, config=UNTRAINED, **options_of(name, **sizes))
    assert explained(fitted.predict(x, num_samples=100).mean, shared).min() > 0.97


@pytest.mark.parametrize("name", ["mogp", "n-mogp", "gprn"])
def test_more_latent_gps_than_outputs_change_little(name: str) -> None:
    x = rows(100, seed=1).x
    found, expected = (started(name, count).predict(x, num_samples=100).mean for count in (5, 3))
    assert explained(found, expected).min() > 0.95


def test_missing_outputs_are_left_out() -> None:
    data = rows(150)
    y = data.y.copy()
    y[np.random.default_rng(1).random(y.shape) < 0.3] = np.nan
    x = rows(100, seed=1).x
    for name in ("mogp", "n-sbgprn"):
        fitted = fit(Dataset(data.x, y), model=name, config=UNTRAINED, num_latents=3, num_inducing=60)
        assert explained(fitted.predict(x).mean, truth(x)).min() > 0.9, name


@pytest.mark.parametrize("noise", ["constant", "gp", "net", "student-t", "low-rank"])
def test_every_noise_starts_at_the_level_of_the_exact_gps(noise: str) -> None:
    fitted = fit(rows(150), model="n-mogp", config=UNTRAINED, noise=noise, num_latents=3, num_inducing=60)
    level = torch.exp(-0.5 * fitted.model.head.noise.log_precision) * fitted.model.mean.scale
    expected = 0.1 / rows(150).y.std(0)
    np.testing.assert_allclose(level.detach().numpy(), expected, rtol=0.35)


@pytest.mark.filterwarnings("ignore:The kernel matrix of the inducing points needed a jitter")
def test_starts_in_single_precision() -> None:
    config = TrainingConfig(start="exact", epochs=0, num_starts=1, precision="float32")
    fitted = fit(rows(150), model="n-mogp", config=config, num_latents=3, num_inducing=60)
    x = rows(100, seed=1).x
    assert explained(fitted.predict(x).mean, started("mogp").predict(x).mean).min() > 0.95
