"""The density of whole rows: against closed forms, against many draws, and the same number wherever it is asked for."""

import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from mogul import TrainingConfig, fit
from mogul.data import Batch, Dataset, Scaling, Standardiser
from mogul.fitted.history import History
from mogul.models import build
from mogul.models.model import Model
from mogul.objective import row_log_predictive
from mogul.prediction import Prediction, predict
from mogul.prediction.row_density import HeadDensity
from mogul.priors import IndependentGPs, randomise
from mogul.training import Fitted, Stopping
from mogul.training.choice import best_candidate
from mogul.training.loop import held_out_score

NUM_OUTPUTS = 14


def planted(
    name: str,
    noise: str = "constant",
    *,
    num_latents: int = 3,
    share: float = 0.1,
    mixing: float = -3.0,
    **sizes: object,
) -> tuple[Model, torch.Tensor, torch.Tensor]:
    """A model with known posteriors, inputs, and outputs drawn from it; noise is this share of an output's spread."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 2, generator=generator, dtype=torch.float64)
    sizes = {"num_inducing": 10, "num_mixing_inducing": 8, "num_noise_inducing": 8, "num_top_inducing": 10} | sizes
    model = build(name, x, NUM_OUTPUTS, generator, num_latents=num_latents, noise=noise, **sizes).double().eval()
    model.requires_grad_(False)
    for module in model.modules():
        if isinstance(module, IndependentGPs):
            randomise(module, generator, spread=1.0, scale=0.3)
    if hasattr(model.head.mixing, "log_scale"):
        model.head.mixing.log_scale.fill_(mixing)
    spread = model.components(x, 100, generator).mean.flatten(0, 1).std(0)
    model.head.noise.log_precision.copy_(-2 * torch.log(share * spread))
    drawn = predict(model, x, 1, generator).sample(1, seed=1)[0]
    return model, x, torch.as_tensor(drawn)


def exact(model: Model, x: torch.Tensor, y: torch.Tensor) -> list[float]:
    """log N(y | M₀μ, M₀ diag(v) M₀ᵀ + noise), for a mixing matrix without variance."""
    q = model.prior(x, 1, torch.Generator())
    noise = model.head.noise(x, torch.Generator())
    cross = noise.joint(torch.zeros(1, *y.shape), torch.ones(NUM_OUTPUTS)).cross_cov(NUM_OUTPUTS)
    matrices = model.head.mixing.at(x, torch.Generator()).mean.expand(len(x), -1, -1)
    result = []
    for row, matrix in enumerate(matrices.numpy()):
        cov = matrix * q.var[row].numpy() @ matrix.T + np.diag(noise.var.expand(len(x), -1)[row].numpy()) + cross
        seen = ~y[row].isnan().numpy()
        normal = multivariate_normal((matrix @ q.mean[row].numpy())[seen], cov[np.ix_(seen, seen)])
        result.append(float(normal.logpdf(y[row].numpy()[seen])))
    return result


def by_draws(model: Model, x: torch.Tensor, y: torch.Tensor, num_draws: int) -> np.ndarray:
    """The log of the mean over so many draws of the latents."""
    generator = torch.Generator().manual_seed(5)
    each = [predict(model, x, 2000, generator).component_log_density(y.numpy()) for _ in range(num_draws // 2000)]
    return logsumexp(np.concatenate(each), axis=0) - math.log(num_draws)


def density_of(model: Model, x: torch.Tensor, num_samples: int = 100) -> HeadDensity:
    generator = torch.Generator().manual_seed(2)
    return HeadDensity.of(model, model.prior(x, num_samples, generator), x, generator)


class TestClosedForm:
    @pytest.mark.parametrize(("name", "noise"), [("mogp", "constant"), ("mogp", "low-rank"), ("sbgprn", "net")])
    @pytest.mark.parametrize("share", [0.02, 0.5])
    def test_it_is_the_joint_normal_density(self, name: str, noise: str, share: float):
        model, x, y = planted(name, noise, num_latents=4, share=share, mixing=-30.0)
        y[3, :5] = math.nan
        y[7, 1:] = math.nan
        np.testing.assert_allclose(density_of(model, x).log_density(y.numpy()), exact(model, x, y), atol=1e-6)

    def test_draws_alone_are_far_from_it(self):
        model, x, y = planted("mogp", num_latents=4, share=0.02, mixing=-30.0)
        drawn = predict(model, x, 1250, torch.Generator().manual_seed(0)).mixture_log_density(y.numpy())
        assert np.mean(drawn - exact(model, x, y)) < -2

    def test_a_row_without_outputs_says_nothing(self):
        model, x, y = planted("mogp")
        y[0] = math.nan
        assert density_of(model, x).log_density(y.numpy())[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "noise", "sizes"),
    [
        ("mogp", "gp", {}),
        ("mogp", "student-t", {"correlated_mixing": True}),
        ("gprn", "constant", {}),
        ("n-mogp", "constant", {"nonlinearity": "sherf", "num_hidden": 8}),
        ("n-mogp", "low-rank", {"nonlinearity": "leaky", "num_hidden": 8}),
        ("n-sbgprn", "student-t", {"nonlinearity": "erf", "num_hidden": 6}),
    ],
)
def test_it_is_what_many_draws_say(name: str, noise: str, sizes: dict[str, object]):
    model, x, y = planted(name, noise, num_latents=2, share=0.4, **sizes)
    x, y = x[:12], y[:12]
    y[2, 3] = y[4, ::2] = math.nan
    found, expected = density_of(model, x).log_density(y.numpy()), by_draws(model, x, y, 20_000)
    np.testing.assert_allclose(found, expected, atol=0.35)
    assert found.mean() == pytest.approx(expected.mean(), abs=0.06)


def test_draws_of_inner_layers_are_components():
    model, x, y = planted("dgp", num_latents=2, share=0.4, num_top_latents=2)
    gap = density_of(model, x).log_density(y.numpy()) - by_draws(model, x, y, 10_000)
    assert abs(gap.mean()) < 0.1
    assert np.abs(gap).max() < 1, "32 draws of the inner layer for each row"


@pytest.mark.parametrize("nonlinearity", ["leaky", "erf", "sherf"])
def test_seeds_agree_where_draws_would_not_do(nonlinearity: str):
    model, x, y = planted("n-mogp", "gp", num_latents=7, share=0.02, nonlinearity=nonlinearity)
    density = density_of(model, x)
    each = [density.log_density(y.numpy(), seed).mean() for seed in range(3)]
    assert np.ptp(each) < 0.1


@pytest.fixture(scope="module")
def case() -> tuple[Prediction, np.ndarray]:
    model, x, y = planted("mogp", num_latents=4, share=0.1, mixing=-30.0)
    return predict(model, x, 20, torch.Generator().manual_seed(3)), y.numpy()


class TestOperations:
    def test_units(self, case: tuple[Prediction, np.ndarray]):
        prediction, y = case
        units = Standardiser(np.linspace(-3, 3, NUM_OUTPUTS), np.linspace(0.5, 4, NUM_OUTPUTS))
        moved = prediction.rescaled(units)
        expected = prediction.log_density(y) - np.log(units.scale).sum()
        np.testing.assert_allclose(moved.log_density(units.undo(y)), expected, atol=1e-6)
        np.testing.assert_allclose(moved.standardised(units).log_density(y), prediction.log_density(y), atol=1e-6)

    def test_rows_and_outputs(self, case: tuple[Prediction, np.ndarray]):
        prediction, y = case
        some, few = np.array([5, 2, 9]), np.array([3, 0])
        whole = prediction.log_density(y)
        np.testing.assert_allclose(prediction.rows(some).log_density(y[some]), whole[some], atol=1e-6)
        np.testing.assert_allclose(prediction.rows(slice(4, 8)).log_density(y[4:8]), whole[4:8], atol=1e-6)
        gaps = np.full_like(y, np.nan)
        gaps[:, few] = y[:, few]
        reduced = prediction.outputs(few).log_density(y[:, few])
        np.testing.assert_allclose(reduced, prediction.log_density(gaps), atol=1e-6)

    def test_stretched(self, case: tuple[Prediction, np.ndarray]):
        prediction, y = case
        factor = np.linspace(0.5, 2, NUM_OUTPUTS)
        nearer = prediction.mean + (y - prediction.mean) / factor
        expected = prediction.log_density(nearer) - np.log(factor).sum()
        np.testing.assert_allclose(prediction.stretched(factor).log_density(y), expected, atol=1e-6)

    def test_pooled(self, case: tuple[Prediction, np.ndarray]):
        prediction, y = case
        wide = prediction.stretched(np.full(NUM_OUTPUTS, 2.0))
        expected = np.logaddexp(prediction.log_density(y), wide.log_density(y)) - math.log(2)
        np.testing.assert_allclose(Prediction.pooled([prediction, wide]).log_density(y), expected, atol=1e-6)


def test_one_density_wherever_it_is_asked_for():
    """The case of several numbers for one fit: draws of latents need thousands, and correlations count."""
    model, x, y = planted("mogp", "gp", num_latents=4, share=0.1)
    data = Dataset(x.numpy(), y.numpy())
    unit = Scaling(Standardiser(np.zeros(2), np.ones(2)), Standardiser(np.zeros(NUM_OUTPUTS), np.ones(NUM_OUTPUTS)))
    fitted = Fitted(model, unit, data.input_names, data.output_names, History((), 0))
    scores = fitted.evaluate(data, num_samples=250, nested=True)
    held_out = NUM_OUTPUTS * held_out_score(model, unit.batch(data, torch.float64), torch.Generator().manual_seed(4))
    expected = np.mean([density_of(model, x).log_density(y.numpy(), seed).mean() for seed in range(10, 30)])
    assert scores.ll == pytest.approx(expected, abs=0.05)
    assert fitted.predict(x.numpy(), 20).log_density(y.numpy()).mean() == pytest.approx(expected, abs=0.05)
    assert held_out == pytest.approx(expected, abs=0.05)
    assert scores.ll_nested < expected - 0.3, "the paper's estimator stays what it was"


def test_models_are_chosen_by_what_outputs_share():
    """Given x outputs are one random number times signs: alike in each output, far apart jointly."""
    rng = np.random.default_rng(0)
    x = np.linspace(-2, 2, 80)[:, None]
    shared = rng.standard_normal((80, 1)) * np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    data, held_out = Dataset(x, np.sin(2 * x) + 0.5 * shared + 0.05 * rng.standard_normal((80, 6))), np.arange(3, 80, 6)
    config = TrainingConfig(epochs=25, num_starts=1, batch_size=12, stopping=Stopping(patience=25))

    def train(model: str, noise: str) -> Fitted:
        sizes = {"num_latents": 2, "num_inducing": 8}
        return fit(data, model=model, config=config, noise=noise, held_out=held_out, mean="paper", **sizes)

    choice = best_candidate(train, len(held_out), ["mogp"], ["constant", "low-rank"]).choice
    assert choice is not None
    assert choice.chosen.noise == "low-rank"


def test_the_held_out_score_is_above_that_of_independent_outputs():
    model, x, y = planted("mogp", num_latents=4, share=0.1)
    rows = Batch.of(x, y)
    signal = model.head.moments(model.prior(x, 1, torch.Generator()), x, torch.Generator())
    apart = row_log_predictive(model, rows, signal, model.head.noise(x, torch.Generator())).mean()
    assert NUM_OUTPUTS * held_out_score(model, rows, torch.Generator()) > apart + 2
