"""Kernels by name: what they find where it was planted, kernel="auto", files and refusals."""

from pathlib import Path

import numpy as np
import pytest
import torch

import mogul
from mogul import MultiOutputGPRegressor, TrainingConfig, registry
from mogul.errors import ConfigError, UnknownNameError
from mogul.models import build
from mogul.training.kernel_choice import KERNELS, peak_period

EXACT = ["matern12", "matern32", "matern52", "rq"]
STEPPED = ["periodic", "matern32 * linear + rq"]
X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
Y = np.stack([np.abs(X[:, 0]), np.sin(X[:, 1])], axis=1) + 0.05 * np.random.default_rng(1).standard_normal((40, 2))
NEW = np.random.default_rng(2).uniform(-3, 3, (9, 2))


def path(seed: int, num_rows: int = 100) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A draw of a Matérn 1/2 process, with little noise: rows to train on and others between them."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (num_rows + 300, 1))
    draw = np.linalg.cholesky(np.exp(-np.abs(x - x.T) / 0.3)) @ rng.standard_normal((len(x), 1))
    y = draw + 0.02 * rng.standard_normal(draw.shape)
    return x[:num_rows], y[:num_rows], x[num_rows:], draw[num_rows:]


def season(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A wave of three harmonics, and its continuation by half the range."""
    rng = np.random.default_rng(seed)
    period, phase = np.exp(rng.uniform(np.log(0.4), np.log(2.5))), rng.uniform(0, 2 * np.pi)

    def wave(x: np.ndarray) -> np.ndarray:
        angle = 2 * np.pi * x / period
        return np.sin(angle + phase) + 0.4 * np.sin(2 * angle) + 0.3 * np.cos(3 * angle)

    x, after = np.sort(rng.uniform(0, 10, (120, 1)), axis=0), np.linspace(10, 15, 100)[:, None]
    return x, wave(x) + 0.1 * rng.standard_normal(x.shape), after, wave(after)


def rmse(fitted: mogul.Fitted, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.square(fitted.predict(x).mean - y).mean()))


@pytest.mark.parametrize(("kernel", "seed"), [("periodic", 0), ("periodic", 2), ("rbf+periodic", 1)])
def test_a_season_is_continued(kernel: str, seed: int) -> None:
    x, y, after, truth = season(seed)
    assert rmse(mogul.fit(x, y, kernel=kernel, epochs=20), after, truth) < 0.2 < 0.6 < truth.std()


def test_rough_paths_are_predicted_better_by_a_rough_kernel_and_auto_chooses_one() -> None:
    better, chosen = 0, []
    for seed in range(4):
        x, y, between, truth = path(seed)
        smooth, rough, auto = (mogul.fit(x, y, kernel=kernel) for kernel in ("rbf", "matern12", "auto"))
        better += rmse(rough, between, truth) < rmse(smooth, between, truth)
        chosen.append(auto.kernel_name)
        tried = auto.history.kernels
        assert tried is not None
        assert list(tried) == list(KERNELS)
        best = max(tried, key=lambda name: tried[name])
        assert auto.kernel_name == (best if tried[best] > tried["rbf"] + 3 else "rbf")
    assert better >= 3
    assert chosen.count("matern32") >= 3


def test_auto_keeps_the_rbf_for_smooth_functions_and_is_the_default() -> None:
    x = np.linspace(-3, 3, 60)[:, None]
    y = np.sin(x) + 0.01 * np.random.default_rng(0).standard_normal(x.shape)
    auto, named = mogul.fit(x, y), mogul.fit(x, y, model="mogp")
    assert auto.kernel_name == "rbf"
    assert set(auto.history.kernels) == {"rbf", "matern52"}  # which is worse, so that a rougher one is not tried
    assert (auto.predict(x).mean == named.predict(x).mean).all()
    assert named.kernel_name is None
    assert named.history.kernels is None


def test_a_product_with_a_line_grows() -> None:
    """x · sin(4x): the amplitude grows with x."""
    rng = np.random.default_rng(0)
    x, new = rng.uniform(0, 6, (90, 1)), np.linspace(6, 8, 50)[:, None]
    fitted = mogul.fit(x, x * np.sin(4 * x) + 0.05 * rng.standard_normal(x.shape), kernel="linear*periodic", epochs=20)
    assert rmse(fitted, new, new * np.sin(4 * new)) < 0.5 < 4 < (new * np.sin(4 * new)).std()


@pytest.mark.parametrize("kernel", [*EXACT, *STEPPED, "auto"])
def test_files_have_the_name_and_give_the_same_predictions(kernel: str, tmp_path: Path) -> None:
    settings = {"epochs": 2, "num_inducing": 12} if kernel in STEPPED else {}
    fitted = mogul.fit(X, Y, kernel=kernel, **settings)
    fitted.save(tmp_path / "model.mogul")
    again = mogul.load(tmp_path / "model.mogul")
    assert again.kernel_name == fitted.kernel_name
    assert again.history.kernels == fitted.history.kernels
    before, after = fitted.predict(NEW), again.predict(NEW)
    assert (before.mean == after.mean).all()
    assert (before.std == after.std).all()
    mean, std = fitted.predictor().mean_std(NEW)
    np.testing.assert_allclose(mean, before.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(std, before.std, rtol=1e-5)


def test_the_estimator_takes_names_too(tmp_path: Path) -> None:
    regressor = MultiOutputGPRegressor(kernel="matern32").fit(X, Y)
    same = mogul.fit(X, Y, kernel="matern32").predict(NEW).mean
    np.testing.assert_allclose(regressor.predict(NEW), same, rtol=1e-9)
    regressor.save(tmp_path / "regressor.mogul")
    again = MultiOutputGPRegressor.load(tmp_path / "regressor.mogul")
    assert again.kernel == "matern32"
    assert (again.predict(NEW) == regressor.predict(NEW)).all()


@pytest.mark.parametrize(
    ("kernel", "model"),
    [("rq", "n-mogp"), ("rq", "dgp"), ("rq", "dk-mogp"), ("rq", "gprn"), ("linear", "n-sbgprn"), ("linear", "dk-mogp")],
)
def test_other_models_start_with_it(kernel: str, model: str) -> None:
    fitted = mogul.fit(X, Y, model=model, kernel=kernel, epochs=2, num_inducing=10)
    assert np.isfinite(fitted.predict(NEW).std).all()


@pytest.mark.parametrize("kernel", ["matern52", "auto", "periodic"])
def test_random_starts_have_it_too(kernel: str) -> None:
    config = TrainingConfig(epochs=2, num_starts=2, batch_size=20)
    fitted = mogul.fit(X, Y, model="mogp", kernel=kernel, config=config, num_inducing=8)
    assert fitted.kernel_name in ((*KERNELS,) if kernel == "auto" else (kernel,))
    assert fitted.history.num_epochs == 2


def test_sums_and_products() -> None:
    assert registry.kernel_terms("rbf+matern12*linear") == [["rbf"], ["matern12", "linear"]]
    x = torch.as_tensor(X)
    parts = {name: build_kernel(name)(x).to_dense() for name in ("rbf", "matern12", "linear", "rbf+matern12*linear")}
    torch.testing.assert_close(parts["rbf+matern12*linear"], parts["rbf"] + parts["matern12"] * parts["linear"])
    # One variance for each product.
    learnt = [name for name, part in build_kernel("rbf*rq").named_parameters() if part.requires_grad]
    assert sum("outputscale" in name for name in learnt) == 1


def build_kernel(name: str) -> torch.nn.Module:
    model = build("mogp", torch.as_tensor(X), 2, torch.Generator().manual_seed(0), kernel=name, num_inducing=5)
    kernel: torch.nn.Module = model.prior.kernel
    return kernel


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("mattern32", r"kernel must be one of rbf, .*; got 'mattern32'\. Did you mean 'matern32'\?"),
        ("rbf+perodic", r"got 'perodic'. Did you mean 'periodic'\?"),
        ("rbf+", r"names with \+ and \* between them; got 'rbf\+', where a name is missing. Try 'rbf\+periodic'"),
        ("*linear", "where a name is missing"),
        ("", "where a name is missing"),
        ("rbf+auto", "cannot be part of a sum or product; got 'rbf.auto'. Name each"),
        ("rbf*(linear+rq)", "without brackets; got"),
    ],
)
def test_what_is_no_kernel_is_refused_before_anything_is_trained(kernel: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mogul.fit(X, Y, kernel=kernel)
    with pytest.raises(ConfigError, match=message):
        build_kernel(kernel)


def test_auto_is_refused_where_it_cannot_choose() -> None:
    with pytest.raises(ConfigError, match="kernel='auto' needs a model with observed inputs; got mogp-lvm"):
        mogul.fit(None, Y, model="mogp-lvm", kernel="auto", num_inducing=10)
    with pytest.raises(ConfigError, match=r"kernel='auto' is chosen by mogul\.fit"):
        build_kernel("auto")


@pytest.mark.parametrize("name", ["auto", "a+b", "a*b", "a b", "f(x)", ""])
def test_a_kernel_has_no_name_that_means_something_else(name: str) -> None:
    with pytest.raises(ConfigError, match="A kernel must have a name of its own, not auto, without"):
        mogul.register_kernel(name)


def test_a_name_of_mogul_is_not_taken() -> None:
    with pytest.raises(ConfigError, match=r"'matern32' is that of mogul\.priors\.kernels"):
        mogul.register_kernel("matern32")(lambda num_inputs, num_latents: None)
    with pytest.raises(UnknownNameError):
        registry.get("kernel", "matern33")


def test_no_period_is_found_in_noise() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 200)
    assert peak_period(x, rng.standard_normal(200)) > 2 * np.ptp(x)
    assert peak_period(x, np.sin(2 * np.pi * x / 1.3)) == pytest.approx(1.3, rel=0.02)
