"""Every noise on models of two kinds: observed inputs with hidden units, and latent inputs with a deep prior."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.helpers.gradients import assert_finite_nonzero_gradients
from tests.helpers.small_models import (
    NUM_OUTPUTS,
    NUM_ROWS,
    SIZES,
    sizes_of,
    small_batch,
    small_model,
    values_of_level_updates,
)

from mogul import Dataset, TrainingConfig, fit, load
from mogul.errors import ConfigError, UnknownNameError
from mogul.fitted.predictor import Predictor
from mogul.means.linear import LinearOutputMean
from mogul.models import build
from mogul.objective import Analytic, Balanced, Elbo, MonteCarlo, Objective, Predictive
from mogul.prediction import predict
from mogul.registry import names
from mogul.training import NoiseUpdate, Step

NOISES = names("noise")
NOISE_SIZES = {"num_noise_latents": 2, "num_noise_inducing": 5, "noise_rank": 1}
each_noise = pytest.mark.parametrize("noise", NOISES)
each_model = pytest.mark.parametrize("name", ["n-sbgprn", "dgp-lvm"])
each_objective = pytest.mark.parametrize("objective", [Elbo, Balanced, Predictive])


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model_with(name: str, noise: str, seed: int = 0):
    return small_model(name, seed, noise=noise, **NOISE_SIZES)


@each_noise
@each_model
@each_objective
class TestTraining:
    @pytest.mark.parametrize("estimator", [Analytic(num_samples=4), MonteCarlo(num_samples=16)])
    def test_every_parameter_gets_a_finite_nonzero_gradient(self, name, noise, objective, estimator):
        model = model_with(name, noise)
        objective(estimator, num_data=NUM_ROWS)(model, small_batch(missing=True), generator()).total().backward()
        assert_finite_nonzero_gradients(model)

    @pytest.mark.no_cover  # many steps on lines that other tests run too
    def test_the_objective_rises_over_ten_steps_with_the_level_in_closed_form(self, name, noise, objective):
        model, batch, update = model_with(name, noise), small_batch(missing=True), NoiseUpdate()
        estimate, draws = objective(Analytic(num_samples=4), num_data=NUM_ROWS), generator(2)
        before = value(objective, model)
        owned = update.owns(model)
        free = [parameter for parameter in model.parameters() if all(parameter is not other for other in owned)]
        optimiser = torch.optim.Adam(free, lr=0.02)
        for number in range(10):
            optimiser.zero_grad()
            terms = estimate(model, batch, draws)
            (-terms.total()).backward()
            optimiser.step()
            update.apply(model, Step(number, batch, terms, NUM_ROWS))
        assert value(objective, model) > before

    def test_updates_of_the_level_alone_do_not_lower_it(self, name, noise, objective):
        """Steps of expectation maximisation, for the same draws of inner layers and latent inputs each time."""
        estimate = objective(Analytic(num_samples=4), num_data=NUM_ROWS)
        values = values_of_level_updates(model_with(name, noise), estimate, 15)
        assert values[1] > values[0]
        assert np.diff(values).min() > -1e-9


def value(objective: type[Objective], model) -> float:
    judge = objective(Analytic(num_samples=64), num_data=NUM_ROWS)
    with torch.no_grad():
        values = [judge(model, small_batch(missing=True), generator(seed)).total().item() for seed in range(4)]
    return sum(values) / 4


@each_noise
@each_model
class TestModel:
    def test_kl_and_log_prior_are_those_of_the_parts(self, name, noise):
        head = model_with(name, noise).head
        torch.testing.assert_close(head.kl(), head.features.kl() + head.mixing.kl() + head.noise.kl())
        parts = head.features.log_prior() + head.mixing.log_prior() + head.noise.log_prior()
        torch.testing.assert_close(head.log_prior(), parts)
        assert (head.noise.kl() > 0) == (noise in {"gp", "gp-student-t"})
        assert (head.noise.log_prior() != 0) == (noise not in {"constant"})

    def test_restored_state_has_the_same_noise_bit_for_bit(self, name, noise):
        model, other = model_with(name, noise, seed=0), model_with(name, noise, seed=5)
        x = small_batch().x
        other.load_state_dict(model.state_dict())
        assert torch.equal(model.noise_var(x, generator()), other.noise_var(x, generator()))

    def test_a_prediction_holds_the_noise(self, name, noise):
        model, x = model_with(name, noise), small_batch().x
        with torch.no_grad():
            prediction = predict(model, x, 3000, generator())
            quiet = model.components(x, 3000, generator())
            expected = quiet.pooled().var + model.noise_var(x, generator())
        # The mixture's moments are those of its components, whose noise is drawn where it is random.
        pooled = prediction.component_var.mean(0) + prediction.component_mean.var(0)
        np.testing.assert_allclose(pooled, expected.numpy(), rtol=0.15)
        np.testing.assert_allclose(prediction.var, expected.numpy(), rtol=0.15)


@pytest.mark.filterwarnings("ignore:.*should:mogul.errors.MogulWarning")  # so few rows are worth a word
@each_noise
@each_model
def test_a_fitted_model_comes_back_from_its_file_bit_for_bit(name, noise, tmp_path: Path):
    batch = small_batch(missing=True)
    data = Dataset(batch.x.numpy(), torch.where(batch.observed, batch.y, torch.nan).numpy())
    config = TrainingConfig(epochs=2, num_starts=1, batch_size=6, updates=(NoiseUpdate(),), objective="predictive")
    latent = {"num_inputs": 2} if name.endswith("lvm") else {}
    sizes = sizes_of(name, noise, **NOISE_SIZES)
    fitted = fit(data, model=name, config=config, noise=noise, noise_floor=0.01, **latent, **sizes)
    fitted.save(tmp_path / "model.mogul")
    again = load(tmp_path / "model.mogul")
    one, two = (each.predict(batch.x.numpy(), 20) for each in (fitted, again))
    assert np.array_equal(one.component_var, two.component_var)
    assert np.array_equal(one.log_density(data.y), two.log_density(data.y))
    assert again.blueprint.config.objective == "predictive"


@each_noise
def test_the_frozen_predictor_has_the_noise_at_each_row(noise):
    batch = small_batch()
    plane = LinearOutputMean.fit(batch.x.numpy(), batch.y.numpy())
    model = small_model("n-sbgprn", noise=noise, output_mean=plane, **NOISE_SIZES)
    mean, std = Predictor.of(model).mean_std(batch.x)
    with torch.no_grad():
        signal = model.moments(batch.x, 1, generator())
        expected = (signal.var + model.noise_var(batch.x, generator())).sqrt()
    torch.testing.assert_close(mean, signal.mean)
    torch.testing.assert_close(std, expected)
    torch.testing.assert_close(Predictor.of(model).mean(batch.x), signal.mean)
    assert (std[0] != std[1]).all()


@each_noise
def test_noise_is_no_smaller_than_a_share_of_an_outputs_scale(noise):
    batch = small_batch()
    plane = LinearOutputMean.fit(batch.x.numpy(), batch.y.numpy())
    model = small_model("mogp", noise=noise, noise_floor=0.3, output_mean=plane, **NOISE_SIZES)
    with torch.no_grad():
        model.head.noise.log_precision.fill_(40.0)
        var = model.noise_var(batch.x, generator())
        shared = model.head.noise.loadings.square().sum(1) * plane.scale**2 if noise == "low-rank" else 0.0
    torch.testing.assert_close(var, (0.09 + torch.zeros(NUM_OUTPUTS).double() + shared).expand_as(var))


def test_the_noise_is_drawn_last_so_that_the_rest_starts_out_the_same():
    batch = small_batch()
    models = [build("n-sbgprn", batch.x, 3, generator(), noise=noise, **SIZES, **NOISE_SIZES) for noise in NOISES]
    for model in models[1:]:
        for label, parameter in models[0].named_parameters():
            assert label.startswith("head.noise") or torch.equal(parameter, model.get_parameter(label)), label


@pytest.mark.usefixtures("as_a_user_calls")
def test_unknown_names_and_bad_sizes_are_refused():
    batch = small_batch()
    with pytest.raises(UnknownNameError, match="noise must be one of constant, net, gp"):
        build("mogp", batch.x, 3, generator(), noise="nett")
    with pytest.raises(ConfigError, match="num_noise_latents must be at least 1; got 0"):
        build("mogp", batch.x, 3, generator(), noise="gp", num_noise_latents=0)
    with pytest.raises(ConfigError, match=r"noise_floor must be 0 or more; got -1\.0"):
        build("mogp", batch.x, 3, generator(), noise_floor=-1.0)
    with pytest.raises(UnknownNameError, match="objective must be one of elbo, balanced, predictive; got 'elbow'"):
        TrainingConfig(objective="elbow")
