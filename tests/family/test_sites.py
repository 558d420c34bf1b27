"""Deep models at learnt sites: the same mixture in training, in predictions and in what comes back from a file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.helpers.gradients import assert_finite_nonzero_gradients
from tests.helpers.small_models import NUM_OUTPUTS, NUM_ROWS, small_batch, small_model, values_of_level_updates

from mogul import Dataset, MultiOutputGPRegressor, TrainingConfig, fit, load
from mogul.config import InferenceConfig
from mogul.data import Batch
from mogul.errors import ConfigError
from mogul.fitted.predictor import Predictor
from mogul.models import build
from mogul.models.model import Model
from mogul.objective import Analytic, Elbo, MonteCarlo, Predictive
from mogul.prediction import predict
from mogul.priors import Sites
from mogul.training import NoiseUpdate

NUM_SITES = 3
DEEP = ["dgp", "n-dgp", "dk-dgp", "dk-n-dgp", "dgp-lvm", "dk-n-dgp-lvm"]
LAYERS = {"two": {}, "three": {"layers": [(2, 5), (3, 4), (2, 4)], "num_latents": None, "num_inducing": None}}
few_rows = pytest.mark.filterwarnings("ignore:.*should:mogul.errors.MogulWarning")  # so few rows are worth a word
PREDICTIVE = TrainingConfig(epochs=4, num_starts=1, batch_size=6, updates=(NoiseUpdate(),), objective="predictive")
SMALL = {"num_latents": 2, "num_top_latents": 2, "num_inducing": 6, "num_top_inducing": 5}


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ell(model: Model, batch: Batch, seed: int = 1) -> torch.Tensor:
    return Predictive(Analytic(), num_data=len(batch))(model, batch, generator(seed)).ell


def data() -> Dataset:
    batch = small_batch(missing=True)
    return Dataset(batch.x.numpy(), torch.where(batch.observed, batch.y, torch.nan).numpy())


def gauss_hermite(sites: Sites) -> None:
    """Positions and weights of the rule for one GP."""
    position, weight = (torch.as_tensor(part) for part in np.polynomial.hermite_e.hermegauss(sites.num_sites))
    with torch.no_grad():
        sites.positions[0].copy_(position.unsqueeze(-1))
        sites.logits.copy_(weight.log())


class TestStart:
    @pytest.mark.parametrize("num_sites", [1, 2, 8])
    def test_each_gp_has_sites_of_a_unit_normal_and_weights_that_sum_to_one(self, num_sites):
        sites = Sites(num_sites, [3, 2], generator()).double()
        assert [tuple(position.shape) for position in sites.positions] == [(num_sites, 3), (num_sites, 2)]
        for position in sites.positions:
            torch.testing.assert_close(position.mean(0), torch.zeros_like(position[0]), atol=1e-12, rtol=0)
            torch.testing.assert_close(position.square().mean(0), torch.full_like(position[0], float(num_sites > 1)))
        with torch.no_grad():
            sites.logits.add_(torch.randn(num_sites, generator=generator()))
        assert sites.log_weight().exp().sum().item() == pytest.approx(1.0, abs=1e-12)


class TestQuadrature:
    """With one GP in the inner layer and the sites of a Gauss–Hermite rule, the expectation over it is known."""

    @pytest.fixture
    def models(self) -> tuple[Model, Model]:
        """The same model at sites and by draws."""
        batch = small_batch()
        sizes = {"layers": [(1, 5), (2, 4)]}
        at_sites = build("dgp", batch.x, NUM_OUTPUTS, generator(), num_sites=40, **sizes)
        by_draws = build("dgp", batch.x, NUM_OUTPUTS, generator(), **sizes)
        with torch.no_grad():
            for layer in at_sites.prior.layers:
                layer.variational_mean.normal_(generator=generator(2))
                layer.variational_root.mul_(5)
        gauss_hermite(at_sites.prior.inner)
        state = {label: value for label, value in at_sites.state_dict().items() if "inner" not in label}
        by_draws.load_state_dict(state)
        return at_sites, by_draws

    def test_it_is_that_of_brute_force(self, models):
        batch, num_draws = small_batch(missing=True), 20_000
        with torch.no_grad():
            signal = Analytic(num_samples=num_draws).signal(models[1], batch.x, generator())
            density = models[1].head.noise(batch.x, generator()).log_density(batch.y, batch.observed, signal).exp()
            exact = ell(models[0], batch)
        error = 4 * (density.std(0) / density.mean(0)).norm() / num_draws**0.5
        assert error < 0.1
        assert abs(exact - density.mean(0).log().sum()) < error
        assert density.std(0).div(density.mean(0)).max() > 0.2, "the inner layer must matter"

    def test_moments_are_those_of_draws(self, models):
        x = small_batch().x
        with torch.no_grad():
            exact = models[0].moments(x, 1, generator())
            drawn = models[1].moments(x, 20_000, generator())
        torch.testing.assert_close(exact.mean, drawn.mean, atol=0.03, rtol=0)
        torch.testing.assert_close(exact.var, drawn.var, atol=0.03, rtol=0.03)


@pytest.mark.parametrize("layers", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("name", DEEP)
class TestTraining:
    def test_every_parameter_gets_a_finite_nonzero_gradient(self, name, layers):
        model = small_model(name, num_sites=NUM_SITES, **layers)
        objective = Predictive(Analytic(), num_data=NUM_ROWS)
        objective(model, small_batch(missing=True), generator()).total().backward()
        assert len(model.prior.inner.positions) == len(model.prior.layers) - 1
        assert_finite_nonzero_gradients(model)
        assert (model.prior.inner.logits.grad != 0).all()


@pytest.mark.parametrize("objective", [Predictive, Elbo])
def test_updates_of_the_level_alone_do_not_lower_the_objective(objective):
    estimate = objective(Analytic(), num_data=NUM_ROWS)
    values = values_of_level_updates(small_model("dgp", num_sites=NUM_SITES), estimate, 8)
    assert values[1] > values[0]
    assert np.diff(values).min() > -1e-9


@pytest.mark.parametrize("noise", ["constant", "gp", "student-t", "gp-student-t", "low-rank"])
@pytest.mark.parametrize("name", ["dgp", "n-dgp"])
class TestPrediction:
    """What is predicted is what was trained."""

    @pytest.fixture
    def model(self, name, noise) -> Model:
        model = small_model(name, num_sites=NUM_SITES, noise=noise, num_noise_inducing=5, noise_rank=1)
        with torch.no_grad():
            model.prior.inner.logits.copy_(torch.tensor([0.0, -1.0, 1.0]))
        return model

    def test_its_density_is_the_objective(self, model, noise):
        batch = small_batch(missing=True)
        prediction = predict(model, batch.x, 20, generator())
        y = torch.where(batch.observed, batch.y, torch.nan).numpy()
        assert prediction.log_density(y).sum() == pytest.approx(ell(model, batch).item(), rel=1e-9)
        assert np.exp(prediction.log_weight).sum() == pytest.approx(1.0)
        drawn = noise in {"gp", "student-t", "gp-student-t"}
        assert len(prediction.component_mean) == (21 if drawn else 3)  # as often as it takes to draw the noise

    def test_its_moments_are_those_of_the_mixture(self, model):
        x = small_batch().x
        prediction = predict(model, x, 6000, generator())
        with torch.no_grad():
            signal, noise_var = model.moments(x, 1, generator()), model.noise_var(x, generator())
        np.testing.assert_allclose(prediction.mean, signal.mean, rtol=1e-9)
        np.testing.assert_allclose(prediction.var, signal.var + noise_var, rtol=1e-9)
        pooled = prediction.average(prediction.component_var + (prediction.component_mean - prediction.mean) ** 2)
        np.testing.assert_allclose(pooled, prediction.var, rtol=0.15)

    def test_functions_have_its_moments(self, model):
        x = small_batch().x[:2]
        with torch.no_grad():
            draws = model.sample_joint(x, 20_000, generator())
            expected = model.moments(x, 1, generator())
        spread = expected.var.sqrt()
        assert ((draws.mean(0) - expected.mean).abs() < 0.04 * spread).all()
        torch.testing.assert_close(draws.var(0), expected.var, rtol=0.1, atol=1e-3)

    def test_the_frozen_predictor_has_them(self, model):
        x = small_batch().x
        with torch.no_grad():
            expected = model.moments(x, 1, generator())
            std = (expected.var + model.noise_var(x, generator())).sqrt()
        for seed in (0, 1):
            predictor = Predictor.of(model, num_samples=5, seed=seed)
            mean, found = predictor.mean_std(x)
            torch.testing.assert_close(mean, expected.mean)
            torch.testing.assert_close(found, std)
            torch.testing.assert_close(predictor.mean(x), expected.mean)


def test_nothing_is_drawn_where_the_noise_is_not():
    model, x = small_model("n-dgp", num_sites=NUM_SITES), small_batch().x
    one, two = predict(model, x, 7, generator(1)), predict(model, x, 50, generator(2))
    assert np.array_equal(one.component_mean, two.component_mean)
    assert np.array_equal(one.var, two.var)


def test_draws_of_inputs_draw_their_sites_by_weight():
    """At inputs that do not vary, draws of them must give the mixture that the sites make."""
    model, x = small_model("dgp", num_sites=NUM_SITES), small_batch().x
    drawn = predict(model, x.expand(8000, *x.shape), 8000, generator())
    whole = predict(model, x, 1, generator())
    assert drawn.log_weight is None
    assert drawn.component_mean.shape == (8000, *whole.mean.shape)
    np.testing.assert_allclose(drawn.mean, whole.mean, atol=0.05)
    np.testing.assert_allclose(drawn.var, whole.var, rtol=0.1)


@few_rows
class TestFitted:
    def test_sites_are_learnt_kept_and_loaded_bit_for_bit(self, tmp_path: Path):
        fitted = fit(data(), model="n-dgp", config=PREDICTIVE, noise="constant", **SMALL, num_sites=5)
        start = fit(
            data(),
            model="n-dgp",
            config=TrainingConfig(epochs=1, num_starts=1, objective="predictive"),
            noise="constant",
            **SMALL,
        )
        assert start.model.prior.inner.num_sites == 8  # by default
        assert fitted.model.prior.inner.logits.detach().std() > 0
        fitted.save(tmp_path / "model.mogul")
        again = load(tmp_path / "model.mogul")
        one, two = (each.predict(data().x) for each in (fitted, again))
        assert np.array_equal(one.log_weight, two.log_weight)
        assert np.array_equal(one.log_density(data().y), two.log_density(data().y))
        assert np.array_equal(one.sample(4, 0), two.sample(4, 0))
        assert np.array_equal(one.quantiles([0.1, 0.9]), two.quantiles([0.1, 0.9]))
        scores = fitted.evaluate(data(), num_samples=50, nested=True)
        known = ~np.isnan(data().y).all(axis=1)
        assert scores.ll == scores.ll_nested == pytest.approx(one.log_density(data().y)[known].mean())

    def test_latent_inputs_have_them_too(self):
        fitted = fit(data().without_inputs(), model="dgp-lvm", config=PREDICTIVE, num_inputs=2, **SMALL)
        fitted = replace(fitted, inference=InferenceConfig(steps=5))
        assert fitted.model.prior.inner.num_sites == 8
        prediction = fitted.reconstruct(data().y, 20)
        assert prediction.component_mean.shape == (20, NUM_ROWS, NUM_OUTPUTS)
        assert np.isfinite(fitted.log_evidence_bound(data().y, 30)).all()

    def test_an_estimator_asks_the_mixture(self):
        options = {"num_sites": 2, "num_top_latents": 2}
        regressor = MultiOutputGPRegressor("dgp", config=PREDICTIVE, noise="constant", options=options)
        y = small_batch().y.numpy()
        regressor.fit(data().x, y).partial_fit(data().x, y, epochs=2)
        mean, cov = regressor.predict(data().x, return_cov=True)
        prediction = regressor.fitted_.predict(data().x)
        np.testing.assert_allclose(mean, prediction.mean)
        np.testing.assert_allclose(np.diagonal(cov, axis1=1, axis2=2), prediction.var)
        np.testing.assert_allclose(cov[:, 0, 1], prediction.cov_of_means()[:, 0, 1], rtol=1e-6)
        draws = regressor.sample_y(data().x, 4000)
        spread = prediction.std[..., None]
        assert np.all(np.abs(draws.mean(-1) - mean) < 0.08 * spread[..., 0])
        np.testing.assert_allclose(regressor.log_density(data().x, y), prediction.log_density(y))

    @pytest.mark.parametrize(
        ("name", "config", "options", "words"),
        [
            ("dgp", TrainingConfig(), {"num_sites": 4}, "num_sites needs objective='predictive'.*got num_sites=4 with"),
            (
                "n-dgp",
                TrainingConfig(objective="predictive", expectation=MonteCarlo(10)),
                {"num_sites": 4},
                r"expectation=Analytic\(\).*got num_sites=4 .* MonteCarlo.* Leave num_sites out",
            ),
            ("mogp", PREDICTIVE, {"num_sites": 4}, "num_sites must be left out .* mogp does not; .* among dgp, n-dgp"),
            ("dgp", PREDICTIVE, {"num_sites": 0}, "num_sites must be at least 1; got 0"),
        ],
    )
    def test_sites_without_a_use_are_refused(self, name, config, options, words):
        with pytest.raises(ConfigError, match=words):
            fit(data(), model=name, config=config, **options)

    def test_draws_stay_where_sites_are_declined_or_cannot_be_learnt(self):
        sampled = TrainingConfig(epochs=1, num_starts=1, objective="predictive", expectation=MonteCarlo(5))
        one, two = (
            fit(data(), model="dgp", config=PREDICTIVE, noise="constant", **SMALL, num_sites=None),
            fit(data(), model="dgp", config=sampled, noise="constant", **SMALL),
        )
        for fitted in (one, two):
            assert fitted.predict(data().x, 20).log_weight is None


def test_a_planted_deep_problem_is_learnt():
    """Steps of a wave: held-out rows are better explained than at the start, and sites and weights have moved."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (200, 1))
    y = np.hstack([np.tanh(8 * np.sin(2 * x)), np.abs(np.sin(2 * x))]) + 0.05 * rng.standard_normal((200, 2))
    known, new = (Batch.of(*map(torch.as_tensor, part)) for part in ((x[:120], y[:120]), (x[120:], y[120:])))
    model = build("dgp", known.x, 2, generator(), layers=[(2, 10), (2, 10)], num_sites=4)
    objective, optimiser = Predictive(Analytic(), num_data=120), torch.optim.Adam(model.parameters(), lr=0.05)
    start = model.prior.inner.positions[0].detach().clone()

    def held_out() -> float:
        return predict(model, new.x, 1, generator()).log_density(new.y.numpy()).mean()

    before = held_out()
    for _ in range(100):
        optimiser.zero_grad()
        (-objective(model, known, generator()).total()).backward()
        optimiser.step()
    assert held_out() > before + 1.5
    assert (model.prior.inner.positions[0] - start).abs().max() > 0.1
    assert model.prior.inner.log_weight().exp().std() > 0.01
