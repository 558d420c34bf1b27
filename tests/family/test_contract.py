"""What every model must do: family × deep kernel × observed or latent inputs × estimator × missing outputs."""

import pytest
import torch
from tests.helpers.gradients import assert_finite_nonzero_gradients
from tests.helpers.small_models import NUM_OUTPUTS, NUM_ROWS, is_deep, small_batch, small_model

from mogul import models
from mogul.objective import Analytic, Elbo, Expectation, MonteCarlo

ESTIMATORS = {"analytic": Analytic(num_samples=4), "montecarlo": MonteCarlo(num_samples=16)}
each_model = pytest.mark.parametrize("name", models.names())


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@each_model
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
class TestTraining:
    def test_every_parameter_gets_a_finite_nonzero_gradient(
        self, name: str, estimator: Expectation, missing: bool
    ) -> None:
        model = small_model(name)
        batch = small_batch(missing=missing)
        Elbo(estimator, num_data=NUM_ROWS)(model, batch, generator()).total().backward()
        assert_finite_nonzero_gradients(model)

    @pytest.mark.no_cover  # many steps on lines that other tests run too
    def test_the_bound_rises_over_thirty_steps(self, name: str, estimator: Expectation, missing: bool) -> None:
        model = small_model(name)
        batch = small_batch(missing=missing)
        elbo = Elbo(estimator, num_data=NUM_ROWS)
        judge = Elbo(Analytic(num_samples=128), num_data=NUM_ROWS)

        def bound() -> float:
            with torch.no_grad():
                return judge(model, batch, generator(1)).total().item()

        before = bound()
        optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
        draws = generator(2)
        for _ in range(30):
            optimiser.zero_grad()
            (-elbo(model, batch, draws).total()).backward()
            optimiser.step()
        assert bound() > before


@each_model
class TestModel:
    def test_shapes_of_moments_components_and_functions(self, name: str) -> None:
        model, x = small_model(name), small_batch().x[:5]
        assert model.moments(x, 3, generator()).mean.shape == (5, NUM_OUTPUTS)
        assert model.components(x, 7, generator()).var.shape == (7, 5, NUM_OUTPUTS)
        assert model.sample_joint(x, 7, generator()).shape == (7, 5, NUM_OUTPUTS)

    def test_kl_is_positive_and_zero_at_the_prior(self, name: str) -> None:
        model, batch = small_model(name), small_batch()
        assert model.kl().item() > 0
        assert (model.inputs.kl(batch) >= 0).all()
        with torch.no_grad():
            for label, parameter in model.named_parameters():
                if label.endswith("variational_root"):
                    parameter.copy_(torch.eye(parameter.shape[-1]))
                elif label.endswith(("variational_mean", "mixing.mean", "log_scale", "bias_mean", "inputs.mean")):
                    parameter.zero_()
        assert model.kl().item() == pytest.approx(0.0, abs=1e-9)
        assert model.inputs.kl(batch).abs().max().item() == pytest.approx(0.0, abs=1e-12)

    @pytest.mark.no_cover  # many steps on lines that other tests run too
    def test_analytic_expectation_equals_monte_carlo(self, name: str) -> None:
        model, batch = small_model(name), small_batch(missing=True)
        draws, num_repeats = generator(3), 30

        def log_likelihoods(estimator: Expectation) -> torch.Tensor:
            results = []
            with torch.no_grad():
                for _ in range(num_repeats):
                    signal = estimator.signal(model, batch.x, draws)
                    noise = model.head.noise(batch.x, draws)
                    ell = noise.expected_log_density(batch.y, batch.observed, signal)
                    results.append(ell.reshape(-1, NUM_ROWS).mean(0).sum())
            return torch.stack(results)

        sampled = log_likelihoods(MonteCarlo(num_samples=2000))
        exact = log_likelihoods(Analytic(num_samples=2000 if is_deep(name) else 1))
        error = (sampled.var() / num_repeats + exact.var() / num_repeats).sqrt()
        assert (sampled.mean() - exact.mean()).abs() < 5 * error

    def test_restored_state_predicts_bit_for_bit_the_same(self, name: str) -> None:
        model, other = small_model(name, seed=0), small_model(name, seed=5)
        x = small_batch().x
        other.load_state_dict(model.state_dict())
        first, second = (each.components(x, 5, generator()) for each in (model, other))
        assert torch.equal(first.mean, second.mean)
        assert torch.equal(first.var, second.var)

    def test_moments_agree_with_draws_of_everything(self, name: str) -> None:
        # A point at a time: a joint draw then draws F, b and M, while moments integrate them out.
        model, x = small_model(name), small_batch().x[:1]
        num_draws = 4000 if is_deep(name) else 100_000
        with torch.no_grad():
            drawn = model.sample_joint(x, num_draws, generator(4))[:, 0]
            moments = model.moments(x, 20_000, generator(5))
        error = drawn.std(0) / num_draws**0.5
        assert ((drawn.mean(0) - moments.mean[0]).abs() < 6 * error).all()
        fourth = (drawn - drawn.mean(0)).pow(4).mean(0)
        error_of_var = ((fourth - drawn.var(0).square()) / num_draws).sqrt()
        slack = 0.02 * moments.var[0] if is_deep(name) else 0.0  # deep moments are averages of draws themselves
        assert ((drawn.var(0) - moments.var[0]).abs() < 6 * error_of_var + slack).all()
