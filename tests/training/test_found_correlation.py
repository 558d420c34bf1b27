"""The correlation of noises across outputs: found where it was planted, left out where there is none."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import mogul
from mogul import Dataset, fit
from mogul.cli.show import card_lines, show_file
from mogul.errors import FileError
from mogul.storage.container import read_sealed, write_sealed
from mogul.training import Fitted
from mogul.training.exact_start import ExactStart
from mogul.training.noise import _left_out

PLANTED = np.array([[0.9], [0.8], [-0.7]])


def rows(kind: str, seed: int, num_rows: int = 120) -> Dataset:
    """Three functions with noise that is correlated, independent, or correlated with 40 % of the outputs missing."""
    rng = np.random.default_rng([seed, 5])
    x = rng.uniform(-1, 1, (num_rows, 1))
    loadings = 0 * PLANTED if kind == "independent" else PLANTED
    own = np.sqrt(1 - np.square(loadings).sum(1))
    noise = rng.standard_normal((num_rows, 1)) @ loadings.T + own * rng.standard_normal((num_rows, 3))
    y = np.concatenate([np.sin(3 * x), np.cos(2 * x), x], 1) + 0.3 * noise
    if kind == "missing":
        y[rng.random(y.shape) < 0.4] = np.nan
    return Dataset(x, y)


@cache
def fitted_to(kind: str, seed: int = 0) -> Fitted:
    return fit(rows(kind, seed))


def without(fitted: Fitted, data: Dataset) -> float:
    """The log density of a row for independent noise."""
    correlation, fitted.model.head.correlation = fitted.model.head.correlation, None
    try:
        return fitted.evaluate(data).ll
    finally:
        fitted.model.head.correlation = correlation


@pytest.mark.parametrize("kind", ["correlated", "missing"])
def test_it_is_found_and_pays(kind: str):
    fitted, test = fitted_to(kind), rows("correlated", 1, 500)
    expected = PLANTED @ PLANTED.T
    np.fill_diagonal(expected, 1.0)
    assert fitted.noise_factors == 1
    np.testing.assert_allclose(fitted.model.head.correlation.matrix, expected, atol=0.2)
    worth = -0.5 * np.linalg.slogdet(expected)[1]  # what the truth is likelier by than its marginals
    assert fitted.evaluate(test).ll - without(fitted, test) > 0.8 * worth


@pytest.mark.parametrize("seed", range(3))
def test_independent_noise_is_left_alone(seed: int):
    fitted = fitted_to("independent", seed)
    assert fitted.noise_factors == 0
    assert fitted.model.head.correlation is None


def test_noise_that_was_named_is_what_was_named():
    assert fit(rows("correlated", 0), noise="constant").noise_factors == 0


def test_what_outputs_share_is_drawn():
    fitted = fitted_to("correlated")
    x = np.zeros((1, 1))
    noise = np.corrcoef(fitted.sample_noise(x, 20_000)[:, 0].T)
    np.testing.assert_allclose(noise, fitted.model.head.correlation.matrix, atol=0.03)
    drawn = np.corrcoef(fitted.predict(x, num_samples=100).sample(20_000, seed=0)[:, 0].T)
    np.testing.assert_allclose(drawn, noise, atol=0.1)


def test_a_row_left_out_is_what_scikit_learn_predicts_without_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ExactStart, "widen", lambda *_: None)  # hyperparameters that are known, as there
    data = rows("missing", 0, 60)
    fitted = fit(data, mean="zero", noise="constant")
    batch = fitted.scaling.batch(data, torch.float64)
    fitted.model.head.mixing.log_scale.data.fill_(-30.0)  # a matrix that is known, as there
    gap, var = _left_out(fitted.model, batch, torch.Generator())
    start = ExactStart.of(batch, seed=0, plane=False, robust=False)
    for output, gp in enumerate(start.gps):
        seen = torch.nonzero(batch.observed[:, output])[:, 0]
        for row in seen[:5]:
            kernel = ConstantKernel(gp.outputscale) * RBF(gp.lengthscale)
            exact = GaussianProcessRegressor(kernel, alpha=gp.noise_var, optimizer=None)
            others = seen[seen != row]
            exact.fit(batch.x[others].numpy(), batch.y[others, output].numpy())
            mean, std = exact.predict(batch.x[row : row + 1].numpy(), return_std=True)
            assert gap[row, output].item() == pytest.approx(batch.y[row, output].item() - mean[0], abs=0.01)
            assert var[row, output].item() == pytest.approx(std[0] ** 2, rel=0.03)


def test_a_file_keeps_it_bit_for_bit(tmp_path: Path):
    fitted, test = fitted_to("correlated"), rows("correlated", 1, 20)
    fitted.save(tmp_path / "model.mogul")
    again = mogul.load(tmp_path / "model.mogul")
    found, expected = (each.predict(test.x).log_density(test.y) for each in (again, fitted))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(again.sample_noise(test.x, 3), fitted.sample_noise(test.x, 3))
    assert ("noise", "correlated across outputs (1 factor)") in card_lines(show_file(tmp_path / "model.mogul"))


def test_a_file_with_loadings_of_other_outputs_is_refused(tmp_path: Path):
    fitted_to("correlated").save(tmp_path / "model.mogul")
    header, tensors = read_sealed(tmp_path / "model.mogul")
    name = "model.head.correlation.loadings"
    plain = {key: value for key, value in header.items() if key not in ("format", "sha256")}
    write_sealed(tmp_path / "model.mogul", plain, {**tensors, name: tensors[name][:2]})
    with pytest.raises(FileError, match="a row for each of 3 outputs"):
        mogul.load(tmp_path / "model.mogul")
