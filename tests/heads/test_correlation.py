"""Noise that is correlated across outputs given its scales: densities by brute force, marginals as they were."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from mogul.core.joint import Independent, Pooled, ScaledCorrelation
from mogul.core.scale_mixture import LogScale
from mogul.errors import ShapeError
from mogul.heads import NoiseCorrelation
from mogul.models import build
from mogul.models.model import Model
from mogul.prediction import predict
from mogul.prediction.row_density import HeadDensity
from mogul.priors import IndependentGPs, randomise

LOADINGS = torch.tensor([[0.9, 0.0], [0.8, 0.5], [-0.5, 0.7]], dtype=torch.float64)
NOISES = ["constant", "gp", "student-t", "gp-student-t"]


def model_with(noise: str, loadings: torch.Tensor | None = LOADINGS[:2]) -> tuple[Model, torch.Tensor]:
    """A mogp whose mixing matrix is known, so that its signal is Normal; noise that is as large."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    num_outputs = 2 if loadings is None else len(loadings)
    model = build("mogp", x, num_outputs, generator, num_latents=2, num_inducing=6, num_noise_inducing=6, noise=noise)
    model = model.double().eval().requires_grad_(False)
    for module in model.modules():
        if isinstance(module, IndependentGPs):
            randomise(module, generator, spread=1.0, scale=0.5)
    model.head.mixing.log_scale.fill_(-30.0)
    if noise.endswith("student-t"):
        model.head.noise.log_spare_dof.copy_(torch.tensor([1.0, 4.0][:num_outputs]).log())
    if loadings is not None:
        model.head.correlation = NoiseCorrelation(loadings)
    return model, x


def density_of(model: Model, x: torch.Tensor) -> HeadDensity:
    generator = torch.Generator().manual_seed(2)
    return HeadDensity.of(model, model.prior(x, 1, generator), x, generator)


def by_seeds(density: HeadDensity, y: np.ndarray) -> np.ndarray:
    """The log of the mean over ten estimates."""
    return logsumexp([density.log_density(y, seed) for seed in range(10)], axis=0) - math.log(10)


def scales(model: Model, x: torch.Tensor, row: int, output: int) -> tuple[np.ndarray, np.ndarray]:
    """The noise's variance on a fine grid of what is random in it, and the grid's probabilities."""
    law = model.head.noise(x, torch.Generator())
    level = (law.relative - law.log_precision).expand(len(x), -1)[row, output].item()
    var, weight = np.array([math.exp(level)]), np.ones(1)
    if hasattr(law, "spread"):
        at = np.linspace(-5, 5, 21) if hasattr(law, "dof") else np.linspace(-9, 9, 601)
        var = var * np.exp(at * math.sqrt(law.spread[row, output].item()))
        weight = stats.norm.pdf(at) / stats.norm.pdf(at).sum()
    if hasattr(law, "dof"):
        half = 0.5 * law.dof[output].item()
        log_factor = np.linspace(-12, 3, 76)
        density = stats.gamma.pdf(np.exp(log_factor), half, scale=1 / half) * np.exp(log_factor)
        var = np.outer(var, np.exp(-log_factor)).ravel()
        weight = np.outer(weight, density / density.sum()).ravel()
    return var + law.floor_var[output].item(), weight


def brute_force(model: Model, x: torch.Tensor, y: np.ndarray, row: int) -> float:
    """log of the sum, over both outputs' scales, of N(y | m, signal + √n R √n)."""
    q = model.prior(x, 1, torch.Generator())
    matrix = model.head.mixing.at(x, torch.Generator()).mean.expand(len(x), -1, -1)[row].numpy()
    gap, signal = y[row] - matrix @ q.mean[row].numpy(), matrix * q.var[row].numpy() @ matrix.T
    (first, weight), (second, other) = (scales(model, x, row, output) for output in (0, 1))
    cross = signal[0, 1] + float(model.head.correlation.matrix[0, 1]) * np.sqrt(np.outer(first, second))
    var = signal[0, 0] + first[:, None], signal[1, 1] + second[None, :]
    det = var[0] * var[1] - cross**2
    misfit = (var[1] * gap[0] ** 2 - 2 * cross * gap[0] * gap[1] + var[0] * gap[1] ** 2) / det
    density = np.exp(-0.5 * misfit) / (2 * math.pi * np.sqrt(det))
    return math.log((np.outer(weight, other) * density).sum())


@pytest.mark.parametrize("noise", NOISES)
def test_the_density_of_a_row_is_that_of_brute_force(noise: str):
    model, x = model_with(noise)
    y = predict(model, x, 1, torch.Generator().manual_seed(1)).sample(1, seed=1)[0]
    y[0, 0] += 12.0  # an outlier
    expected = [brute_force(model, x, y, row) for row in range(len(x))]
    found = by_seeds(density_of(model, x), y)
    np.testing.assert_allclose(found, expected, atol=1e-6 if noise == "constant" else 0.05)
    without = density_of(model_with(noise, None)[0], x).log_density(y)
    assert np.abs(without - expected).max() > 0.3, "the correlation must matter, or nothing is tested"


@pytest.mark.parametrize("noise", NOISES)
def test_an_output_by_itself_is_what_it_was(noise: str):
    (model, x), (other, _) = model_with(noise), model_with(noise, None)
    found, expected = (predict(each, x, 50, torch.Generator().manual_seed(3)) for each in (model, other))
    np.testing.assert_array_equal(found.quantiles([0.1, 0.5, 0.9]), expected.quantiles([0.1, 0.5, 0.9]))
    np.testing.assert_array_equal(found.var, expected.var)
    y = expected.sample(1, seed=0)[0]
    y[:, 1] = math.nan
    np.testing.assert_allclose(by_seeds(found.density, y), by_seeds(expected.density, y), atol=0.05)


def test_draws_have_the_correlation_of_their_scales():
    model, x = model_with("gp-student-t")
    prediction = predict(model, x, 4000, torch.Generator().manual_seed(3))
    drawn = prediction.sample_components(4000, seed=0) - prediction.component_mean
    noise_var = prediction.joint.noise_var
    standard = drawn / np.sqrt(noise_var)
    expected = float(model.head.correlation.matrix[0, 1])
    # Given F, a mixing matrix without variance leaves nothing but noise.
    assert np.mean(standard[..., 0] * standard[..., 1]) == pytest.approx(expected, abs=0.02)
    cov = prediction.joint.cross_cov(2)[:, 0, 1]
    root = np.sqrt(noise_var)
    np.testing.assert_allclose(cov, expected * (root[..., 0] * root[..., 1]).mean(0))


class TestJoint:
    MEAN, VAR = np.random.default_rng(0).standard_normal((2, 4, 3)), np.full((2, 4, 3), 2.0)
    NOISE_VAR = np.random.default_rng(1).uniform(0.5, 1.5, (2, 4, 3))

    def joint(self) -> ScaledCorrelation:
        return ScaledCorrelation(Independent(), self.NOISE_VAR, LOADINGS.numpy())

    def cov(self, component: int, row: int) -> np.ndarray:
        shared = LOADINGS.numpy() @ LOADINGS.numpy().T
        np.fill_diagonal(shared, 0.0)
        root = np.sqrt(self.NOISE_VAR[component, row])
        return np.diag(self.VAR[component, row]) + np.outer(root, root) * shared

    def test_the_density_is_scipys_for_what_is_observed(self):
        y = np.random.default_rng(2).standard_normal((4, 3))
        y[1, 0] = y[2, 1:] = math.nan
        found = self.joint().log_density(y, self.MEAN, self.VAR)
        for component, row in np.ndindex(2, 4):
            seen = ~np.isnan(y[row])
            dist = stats.multivariate_normal(self.MEAN[component, row, seen], self.cov(component, row)[seen][:, seen])
            assert found[component, row] == pytest.approx(dist.logpdf(y[row, seen]))

    def test_units_rows_and_outputs(self):
        y, scale = np.random.default_rng(2).standard_normal((4, 3)), np.array([2.0, 0.5, 3.0])
        whole = self.joint().log_density(y, self.MEAN, self.VAR)
        moved = self.joint().rescaled(scale).log_density(scale * y, scale * self.MEAN, scale**2 * self.VAR)
        np.testing.assert_allclose(moved, whole - np.log(scale).sum())
        some = self.joint().rows(np.array([3, 1])).log_density(y[[3, 1]], self.MEAN[:, [3, 1]], self.VAR[:, [3, 1]])
        np.testing.assert_allclose(some, whole[:, [3, 1]])
        gaps = y.copy()
        gaps[:, 1] = math.nan
        few = (
            self.joint()
            .outputs(np.array([0, 2]))
            .log_density(y[:, [0, 2]], self.MEAN[..., [0, 2]], self.VAR[..., [0, 2]])
        )
        np.testing.assert_allclose(few, self.joint().log_density(gaps, self.MEAN, self.VAR))
        first, second = self.joint().rows(slice(0, 1)), self.joint().rows(slice(1, 4))
        np.testing.assert_allclose(first.joined([second]).log_density(y, self.MEAN, self.VAR), whole)

    def test_draws_of_a_pool_are_those_of_the_component_at_hand(self):
        pool, num_draws = Pooled((self.joint(), Independent())), 40_000
        component = np.tile(np.array([[2], [3]]), (num_draws // 2, 4))  # the second of the first, and of the second
        std = np.sqrt(np.full((num_draws, 4, 3), 2.0))
        drawn = pool.deviations(std, np.random.default_rng(0), component)
        np.testing.assert_allclose(np.cov(drawn[::2, 1].T), self.cov(1, 1), atol=0.06)
        np.testing.assert_allclose(np.cov(drawn[1::2, 1].T), 2 * np.eye(3), atol=0.06)
        np.testing.assert_allclose(2 * pool.cross_cov(3), self.joint().cross_cov(3))


@pytest.mark.parametrize("own_share", [0.03, 0.3])
@pytest.mark.parametrize(("spread", "dof"), [(0.3, None), (0.0, 3.0), (0.5, 5.0)])
def test_an_integral_over_scales_is_that_of_a_fine_grid(spread: float, dof: float | None, own_share: float):
    law = LogScale(*(torch.tensor([value]).double() for value in (0.0, spread, 1e-6)), dof and torch.tensor([dof / 2]))
    at = np.linspace(-8, 8, 401)
    normal = at * math.sqrt(spread), stats.norm.pdf(at) * 0.04
    log_factor = np.linspace(-20, 3, 2301)
    factor = np.exp(log_factor)
    tail = (np.ones(1), np.ones(1))
    if dof is not None:
        tail = factor, stats.gamma.pdf(factor, dof / 2, scale=2 / dof) * factor * 0.01
    var = np.exp(normal[0])[:, None] / tail[0] + 1e-6
    for gap, shared, rest in [(0.5, 0.4, 0.1), (2.0, 1.5, 0.0), (-1.0, 0.5, 0.5), (9.0, 1.0, 0.2)]:
        each = stats.norm.pdf(gap, np.sqrt(var) * shared, np.sqrt(own_share * var + rest))
        expected = math.log(normal[1] @ each @ tail[1])
        given = (torch.tensor([value]).double() for value in (gap, rest, shared, own_share))
        assert law.log_density_given(*given).item() == pytest.approx(expected, abs=0.02)


def test_loadings_leave_each_output_noise_of_its_own():
    with pytest.raises(ShapeError, match="norm below 1"):
        NoiseCorrelation(torch.tensor([[0.8, 0.7]]))
