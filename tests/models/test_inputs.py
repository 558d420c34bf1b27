"""Latent inputs: their start, their draws, and their inference for new rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import norm
from tests.helpers.draws import normal

from mogul import Dataset, TrainingConfig, fit, models
from mogul.config import InferenceConfig
from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.errors import ConfigError, ShapeError
from mogul.fitted.latent import (
    _at_training_rows,
    importance_weighted_bound,
    infer_inputs,
    nearest_rows,
    posterior_draws,
    row_bounds,
)
from mogul.models.model import Latent, principal_scores
from mogul.objective import Analytic
from mogul.training import FittedLatent, NoiseUpdate


def test_principal_scores_are_scikit_learns_whitened_components():
    from sklearn.decomposition import PCA

    y = normal(40, 5) @ normal(5, 5, seed=1)
    theirs = PCA(3, whiten=True).fit_transform(y.numpy()) * np.sqrt(40 / 39)
    np.testing.assert_allclose(np.abs(principal_scores(y, 3).numpy()), np.abs(theirs), rtol=1e-8)


def test_beyond_the_rank_scores_are_zero():
    y = normal(20, 1) @ torch.ones(1, 3, dtype=torch.float64)
    scores = principal_scores(y, 4)
    assert scores.shape == (20, 4)
    assert scores[:, 0].std() > 0.5
    assert not scores[:, 1:].any()


def test_draws_have_the_moments_of_q_and_rows_are_found_by_index():
    latent = Latent(normal(6, 2), scale=0.3)
    batch = Batch.of(torch.zeros(6, 0, dtype=torch.float64), normal(6, 3)).rows(torch.tensor([4, 1]).repeat(20_000))
    draws = latent.draw(batch, torch.Generator().manual_seed(1)).view(20_000, 2, 2)
    torch.testing.assert_close(draws.mean(0), latent.mean[[4, 1]].detach(), rtol=0, atol=0.015)
    torch.testing.assert_close(draws.std(0), torch.full((2, 2), 0.3, dtype=torch.float64), rtol=0.05, atol=0)


def test_kl_is_torchs():
    latent = Latent(normal(5, 2), scale=0.4)
    batch = Batch.of(torch.zeros(5, 0, dtype=torch.float64), normal(5, 3))
    q = torch.distributions.Normal(latent.mean, latent.log_scale.exp())
    p = torch.distributions.Normal(torch.zeros(5, 2).double(), torch.ones(5, 2).double())
    torch.testing.assert_close(latent.kl(batch), torch.distributions.kl_divergence(q, p).sum(-1))


def test_nearest_rows_use_what_both_rows_observe():
    nan = float("nan")
    known = Batch.of(torch.zeros(3, 0), torch.tensor([[0.0, 9.0], [5.0, nan], [nan, 1.0]]))
    new = Batch.of(torch.zeros(3, 0), torch.tensor([[0.1, nan], [nan, 1.2], [4.0, 8.0]]))
    assert nearest_rows(known, new).tolist() == [0, 2, 1]


def test_nearest_rows_equal_brute_force():
    known, new = (Batch.of(torch.zeros(n, 0).double(), normal(n, 4, seed=n)) for n in (50, 13))
    known.y[::5, 1], known.observed[::5, 1] = 0.0, False
    new.y[::3, 2], new.observed[::3, 2] = 0.0, False
    both = new.observed[:, None] & known.observed[None]
    distance = ((new.y[:, None] - known.y[None]).square() * both).sum(-1) / both.sum(-1)
    assert torch.equal(nearest_rows(known, new, rows_at_once=4), distance.argmin(1))


@pytest.fixture(scope="module")
def circle() -> tuple[FittedLatent, np.ndarray]:
    """Five outputs of one angle, and a model that found a plane for them."""
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 120)
    waves = [np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(angle) * 2, np.cos(angle) - np.sin(angle)]
    y = np.stack(waves, axis=1) + 0.02 * np.random.default_rng(1).standard_normal((120, 5))
    config = TrainingConfig(epochs=150, batch_size=100, num_starts=1, updates=(NoiseUpdate(),))
    fitted = fit(Dataset(None, y[:100]), model="mogp-lvm", config=config, num_inputs=2, num_inducing=20)
    assert isinstance(fitted, FittedLatent)
    return replace(fitted, inference=InferenceConfig(steps=100, learning_rate=0.1)), y[100:]


def test_missing_outputs_are_imputed_from_those_observed(circle: tuple[FittedLatent, np.ndarray]):
    fitted, y = circle
    holes = y.copy()
    holes[:, 2] = np.nan
    reconstructed = fitted.reconstruct(holes)
    error = np.sqrt(np.mean((reconstructed.mean[:, 2] - y[:, 2]) ** 2))
    assert error < 0.3 * y[:, 2].std()
    z = (reconstructed.mean[:, 2] - y[:, 2]) / reconstructed.std[:, 2]
    assert np.abs(z).mean() < 2.0


def test_a_gap_that_two_places_fit_is_filled_with_both(circle: tuple[FittedLatent, np.ndarray]):
    """Of an angle with a known sine, the cosine's sign is open: q(X*) has one of the two."""
    fitted, y = circle
    holes = np.full_like(y, np.nan)
    holes[:, 1] = y[:, 1]
    size = np.abs(y[:, 0]) > 0.5
    prediction = fitted.reconstruct(holes, num_samples=200)
    draws = prediction.component_mean[:, size, 0]
    positive = (draws > 0).mean(0)
    assert np.median(np.abs(positive - 0.5)) < 0.4  # 0.5 with q alone
    low, high = prediction.quantiles([0.05, 0.95])[..., 0]
    assert np.mean((low < y[:, 0]) & (y[:, 0] < high)) >= 0.8


def test_places_of_training_rows_are_drawn_by_the_density_of_what_is_known(circle: tuple[FittedLatent, np.ndarray]):
    """With point masses for q(xₙ): p(y) = (1/N) Σ p(y | xₙ), and each place as often as its share of that."""
    fitted, y = circle
    latent = fitted.model.inputs
    assert isinstance(latent, Latent)
    points = Marginals(latent.mean.detach(), torch.zeros_like(latent.mean).detach())
    holes = y[:3].copy()
    holes[:, 2:] = np.nan
    new = fitted.scaling.batch(Dataset(None, holes, check_outputs=False), torch.float64)
    draws, evidence = _at_training_rows(fitted.model, points, new, 20_000, torch.Generator().manual_seed(0))
    with torch.no_grad():
        signal = fitted.model.moments(points.mean, 1, torch.Generator())
        scale = (signal.var + fitted.model.head.noise.var).sqrt().numpy()
    each = norm.logpdf(new.y[:, None, :2].numpy(), signal.mean[None, :, :2].numpy(), scale[None, :, :2]).sum(-1)
    np.testing.assert_allclose(evidence.numpy(), logsumexp(each, axis=1) - np.log(100), rtol=1e-9)
    expected = np.exp(each - logsumexp(each, axis=1, keepdims=True)) @ points.mean.numpy()
    np.testing.assert_allclose(draws.mean(0).numpy(), expected, atol=0.05)


def test_rows_without_gaps_are_where_the_papers_search_finds_them(circle: tuple[FittedLatent, np.ndarray]):
    fitted, y = circle
    rows = fitted.scaling.batch(Dataset(None, y[:4]), torch.float64)
    latent, known = fitted.infer(y[:4]), Marginals(torch.full((3, 2), torch.nan), torch.ones(3, 2))
    draws = posterior_draws(fitted.model, latent, known, rows, 5, torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = latent.marginals().sample(5, torch.Generator().manual_seed(1))
    assert torch.equal(draws, expected)


def test_inference_changes_nothing_but_the_new_rows(circle: tuple[FittedLatent, np.ndarray]):
    fitted, y = circle
    before = {name: value.clone() for name, value in fitted.model.state_dict().items()}
    fitted.infer(y[:3])
    assert all(torch.equal(before[name], value) for name, value in fitted.model.state_dict().items())
    assert all(parameter.requires_grad for parameter in fitted.model.parameters())


@pytest.mark.no_cover  # many steps on lines that other tests run too
def test_inference_raises_the_bound_and_importance_weights_tighten_it(circle: tuple[FittedLatent, np.ndarray]):
    fitted, y = circle
    new = fitted.scaling.batch(Dataset(None, y), torch.float64)
    start = Latent(fitted.model.inputs.mean.detach()[nearest_rows(fitted.training, new)])
    fitted_latent = fitted.infer(y)

    def bound(latent: Latent) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            draws = [row_bounds(fitted.model, latent, new, Analytic(), generator) for _ in range(50)]
        return torch.stack(draws).mean()

    assert bound(fitted_latent) > bound(start)
    generator = torch.Generator().manual_seed(0)
    weighted = importance_weighted_bound(fitted.model, fitted_latent, new, 2000, generator).mean()
    assert weighted > bound(fitted_latent)
    np.testing.assert_allclose(fitted.log_evidence_bound(y, 2000).mean(), weighted, rtol=0.1, atol=0.3)


def test_positions_in_latent_space_can_be_predicted_from(circle: tuple[FittedLatent, np.ndarray]):
    fitted, _ = circle
    prediction = fitted.predict(fitted.latent_means[:7])
    assert prediction.mean.shape == (7, 5)
    scores = fitted.evaluate(Dataset(None, circle[1]), num_samples=50)
    assert np.isfinite(scores.ll)
    assert scores.mrmse < 0.3


def test_a_model_with_observed_inputs_has_nothing_to_infer():
    x = normal(8, 2)
    batch = Batch.of(x, normal(8, 2, seed=1))
    model = models.build("mogp", x, 2, torch.Generator())
    with pytest.raises(ConfigError, match="must have latent inputs"):
        infer_inputs(model, batch, batch, InferenceConfig(steps=1), torch.Generator())


def test_a_regression_model_needs_inputs():
    with pytest.raises(ConfigError, match="mogp needs inputs"):
        fit(Dataset(None, np.random.default_rng(0).normal(size=(5, 2))), model="mogp")


@pytest.mark.parametrize("name", ["mogp-lvm", "n-sbgprn-lvm", "gprn-lvm"])
def test_the_mixture_of_a_reconstruction_has_the_moments_of_the_model(name: str):
    # As many latent inputs as GPs: were their noises shared, the mixture would be too wide or too narrow.
    y = normal(30, 3).numpy()
    config = TrainingConfig(epochs=3, num_starts=1)
    fitted = fit(
        Dataset(None, y), model=name, config=config, noise="constant", num_inputs=2, num_latents=2, num_inducing=8
    )
    assert isinstance(fitted, FittedLatent)
    fitted = replace(fitted, inference=InferenceConfig(steps=10))  # any q(X*) will do
    prediction = fitted.reconstruct(y[:4], num_samples=20_000)
    latent = fitted.infer(y[:4])
    draws = latent.marginals().sample(20_000, torch.Generator().manual_seed(99)).detach()
    with torch.no_grad():
        exact = fitted.model.moments(draws, 1, torch.Generator()).var + fitted.model.head.noise.var
    var = exact.numpy() * fitted.scaling.outputs.scale**2
    np.testing.assert_allclose(prediction.var, var, rtol=0.05)
    mixture = prediction.component_var.mean(0) + prediction.component_mean.var(0)
    np.testing.assert_allclose(mixture, var, rtol=0.05)


def test_new_rows_must_have_the_outputs_of_training(circle: tuple[FittedLatent, np.ndarray]):
    fitted, y = circle
    for method in (fitted.infer, fitted.reconstruct, fitted.log_evidence_bound):
        with pytest.raises(ShapeError, match="Y must have 5 columns, as in training; got 1"):
            method(y[:, :1])


def test_a_bound_in_parts_is_the_bound(circle: tuple[FittedLatent, np.ndarray], monkeypatch: pytest.MonkeyPatch):
    fitted, y = circle
    whole = fitted.log_evidence_bound(y, 400)
    monkeypatch.setattr("mogul.fitted.latent._NUMBERS_AT_ONCE", 1)
    np.testing.assert_allclose(fitted.log_evidence_bound(y, 400), whole, atol=1.0)  # other draws
