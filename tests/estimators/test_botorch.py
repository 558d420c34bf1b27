"""A fitted model as a BoTorch model: moments, draws, gradients, and a whole optimisation."""

import numpy as np
import pytest
import torch
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.optim import optimize_acqf
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.normal import IIDNormalSampler, SobolQMCNormalSampler
from botorch.test_functions.multi_objective import BraninCurrin
from botorch.utils.multi_objective.box_decompositions.dominated import DominatedPartitioning
from tests.helpers.stored_models import with_random_plane

import mogul
from mogul.errors import ConfigError, ShapeError, UnsupportedError
from mogul.estimators.botorch import Surrogate

NUM_INPUTS, NUM_OUTPUTS = 2, 3
SHALLOW = ["mogp", "gprn", "sbgprn", "n-mogp", "n-sbgprn"]


def table(num_rows=40, seed=0):
    """Inputs and outputs far from standard units."""
    rng = np.random.default_rng(seed)
    X = np.array([100.0, -3.0]) + np.array([20.0, 0.1]) * rng.uniform(-1, 1, (num_rows, NUM_INPUTS))
    z = (X - [100.0, -3.0]) / [20.0, 0.1]
    Y = np.stack([np.sin(3 * z[:, 0]), z[:, 0] * z[:, 1], np.cos(2 * z[:, 1])], axis=1)
    return X, np.array([5.0, 1000.0, 0.01]) * (Y + 0.05 * rng.standard_normal(Y.shape)) + [1.0, -500.0, 3.0]


@pytest.fixture(scope="module")
def regressors():
    """One of each kind, fitted once."""
    kept = {}

    def get(name):
        if name not in kept:
            regressor = mogul.MultiOutputGPRegressor(name, epochs=20, num_starts=1, num_inducing=15)
            kept[name] = regressor.fit(*table())
        return kept[name]

    return get


def points(*shape, seed=5):
    generator = torch.Generator().manual_seed(seed)
    spread = 2 * torch.rand((*shape, NUM_INPUTS), generator=generator, dtype=torch.float64) - 1
    return torch.tensor([100.0, -3.0]).double() + torch.tensor([20.0, 0.1]).double() * spread


@pytest.mark.parametrize("name", [*SHALLOW, "n-dgp"])
def test_the_mean_is_what_the_regressor_predicts(name, regressors):
    X = points(7)
    mean = regressors(name).to_botorch().posterior(X).mean
    np.testing.assert_allclose(mean.numpy(), regressors(name).predict(X.numpy()), rtol=1e-10)


@pytest.mark.parametrize("name", [*SHALLOW, "n-dgp"])
def test_the_variance_with_noise_is_the_regressors(name, regressors):
    X = points(7)
    posterior = regressors(name).to_botorch().posterior(X, observation_noise=True)
    _, std = regressors(name).predict(X.numpy(), return_std=True)
    np.testing.assert_allclose(posterior.variance.sqrt().numpy(), std, rtol=1e-8)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("name", SHALLOW)
def test_samples_have_the_exact_moments(name, noisy, regressors):
    posterior = regressors(name).to_botorch().posterior(points(3), observation_noise=noisy)
    num_draws = 20_000
    torch.manual_seed(0)
    draws = posterior.rsample(torch.Size([num_draws]))
    error = (draws.mean(0) - posterior.mean).abs() / draws.std(0)
    assert error.max() < 5 / num_draws**0.5
    squares = (draws - posterior.mean).square()
    error = (squares.mean(0) - posterior.variance).abs() / squares.std(0)
    assert error.max() < 5 / num_draws**0.5


@pytest.fixture(scope="module")
def uncertain():
    """A model whose plane is random, and points far outside its rows."""
    data = mogul.Dataset(*table())
    config = mogul.TrainingConfig(epochs=2, num_starts=1)
    fitted = with_random_plane(mogul.fit(data, model="mogp", config=config, num_inducing=8), data)
    return Surrogate.of(fitted), fitted, torch.tensor([[300.0, -3.0], [100.0, -5.0], [90.0, -3.02]]).double()


class TestRandomPlane:
    """Its spread is in moments and draws alike."""

    def test_moments_are_the_predictors(self, uncertain):
        surrogate, fitted, X = uncertain
        mean, std = fitted.predictor(precision=torch.float64).mean_std(X.numpy())
        posterior = surrogate.posterior(X, observation_noise=True)
        np.testing.assert_allclose(posterior.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(posterior.variance.sqrt(), std, rtol=1e-9)

    def test_samples_have_these_moments(self, uncertain):
        surrogate, _, X = uncertain
        posterior, count = surrogate.posterior(X), 20_000
        torch.manual_seed(0)
        squares = (posterior.rsample(torch.Size([count])) - posterior.mean).square()
        assert ((squares.mean(0) - posterior.variance).abs() / squares.std(0)).max() < 5 / count**0.5

    def test_draws_at_the_first_points_stay_as_they_are(self, uncertain):
        surrogate, _, X = uncertain
        three, two = (surrogate.posterior(X[:count]) for count in (3, 2))
        numbers = torch.randn(5, *three.base_sample_shape, generator=torch.Generator().manual_seed(1)).double()
        some = two.rsample_from_base_samples(torch.Size([5]), numbers[:, :2])
        torch.testing.assert_close(three.rsample_from_base_samples(torch.Size([5]), numbers)[:, :2], some)

    def test_gradients_match_finite_differences(self, uncertain):
        surrogate, _, X = uncertain

        def values(z):
            posterior = surrogate.posterior(surrogate.input_shift + z * surrogate.input_scale)
            draws = IIDNormalSampler(torch.Size([2]), seed=3)(posterior) / surrogate.output_scale
            return torch.cat([draws.flatten(), (posterior.variance.sqrt() / surrogate.output_scale).flatten()])

        z = ((X[2:] - surrogate.input_shift) / surrogate.input_scale).requires_grad_()
        assert torch.autograd.gradcheck(values, (z,), atol=1e-5)


def test_samples_of_a_neural_model_are_not_normal(regressors):
    """Where the data end, hidden units saturate: a Normal with the same moments has other quantiles."""
    far = torch.tensor([[160.0, -3.0]]).double()
    posterior = regressors("n-mogp").to_botorch().posterior(far)
    torch.manual_seed(0)
    draws = posterior.rsample(torch.Size([20_000]))[:, 0]
    scaled = (draws - posterior.mean[0]) / posterior.variance[0].sqrt()
    kurtosis = scaled.pow(4).mean(0)
    assert (kurtosis - 3).abs().max() > 0.3


def test_samples_are_joint_over_the_points_of_a_batch(regressors):
    X = points(1).expand(2, -1) + torch.tensor([[0.0, 0.0], [0.01, 0.0]]).double()
    torch.manual_seed(0)
    draws = regressors("n-mogp").to_botorch().posterior(X).rsample(torch.Size([500]))
    for output in range(NUM_OUTPUTS):
        assert np.corrcoef(draws[:, :, output].T.numpy())[0, 1] > 0.99


@pytest.mark.parametrize("name", [*SHALLOW, "n-dgp"])
def test_gradients_of_samples_and_moments_match_finite_differences(name, regressors):
    surrogate = regressors(name).to_botorch()
    units = surrogate.input_scale

    def values(z):
        posterior = surrogate.posterior(100.0 * torch.tensor([1.0, 0.0]).double() + z * units)
        sampler = IIDNormalSampler(torch.Size([2]), seed=3)
        scaled = (sampler(posterior) / surrogate.output_scale, posterior.mean / surrogate.output_scale,
                  posterior.variance / surrogate.output_scale.square())  # fmt: skip
        return torch.cat([part.reshape(-1) for part in scaled])

    z = ((points(2) - torch.tensor([100.0, 0.0]).double()) / units).requires_grad_()
    assert torch.autograd.gradcheck(values, z, eps=1e-5, atol=1e-5, rtol=1e-3)


def test_the_same_base_samples_give_the_same_values_wherever_a_candidate_stands(regressors):
    surrogate, X = regressors("n-sbgprn").to_botorch(), points(4, 2)
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=1)
    first = sampler(surrogate.posterior(X))
    assert first.shape == (16, 4, 2, NUM_OUTPUTS)
    assert torch.equal(first, sampler(surrogate.posterior(X)))
    turned = sampler(surrogate.posterior(X.flip(0)))
    torch.testing.assert_close(turned.flip(1), first)


def test_the_sampler_follows_the_number_of_dimensions(regressors):
    surrogate = regressors("n-mogp").to_botorch()
    shape = torch.Size([4])
    assert isinstance(get_sampler(surrogate.posterior(points(5)), shape), SobolQMCNormalSampler)
    assert isinstance(get_sampler(surrogate.posterior(points(2000)), shape), IIDNormalSampler)


def test_some_outputs_are_columns_of_all(regressors):
    surrogate, X = regressors("mogp").to_botorch(), points(3, 4)
    every, some = surrogate.posterior(X), surrogate.posterior(X, output_indices=[2, 0])
    assert some.event_shape == (3, 4, 2)
    torch.testing.assert_close(some.mean, every.mean[..., [2, 0]])
    torch.testing.assert_close(some.variance, every.variance[..., [2, 0]])
    numbers = torch.randn(5, *every.base_sample_shape).double()
    draws = [posterior.rsample_from_base_samples(torch.Size([5]), numbers) for posterior in (some, every)]
    torch.testing.assert_close(draws[0], draws[1][..., [2, 0]])


def test_a_transform_is_applied_to_the_posterior(regressors):
    surrogate = regressors("mogp").to_botorch()
    result = surrogate.posterior(points(2), posterior_transform=lambda posterior: posterior.mean.sum())
    torch.testing.assert_close(result, surrogate.posterior(points(2)).mean.sum())


def test_it_is_one_model_with_all_outputs(regressors):
    surrogate = regressors("mogp").to_botorch()
    assert surrogate.num_outputs == NUM_OUTPUTS
    assert surrogate.batch_shape == torch.Size()
    assert not any(parameter.requires_grad for parameter in surrogate.parameters())


def test_later_training_does_not_change_a_surrogate():
    X, Y = table()
    regressor = mogul.MultiOutputGPRegressor("mogp", epochs=2, num_starts=1, num_inducing=5).fit(X, Y)
    surrogate = regressor.to_botorch()
    before = surrogate.posterior(points(3)).mean
    regressor.partial_fit(X, Y, epochs=5)
    assert torch.equal(surrogate.posterior(points(3)).mean, before)
    assert not torch.allclose(regressor.to_botorch().posterior(points(3)).mean, before)


def test_what_it_does_not_do_is_said(regressors):
    surrogate = regressors("mogp").to_botorch()
    with pytest.raises(UnsupportedError, match=r"cannot be conditioned.*partial_fit.*X_pending"):
        surrogate.condition_on_observations(points(2), torch.zeros(2, NUM_OUTPUTS))
    with pytest.raises(NotImplementedError):  # what BoTorch's own code looks for
        surrogate.condition_on_observations(points(2), torch.zeros(2, NUM_OUTPUTS))
    with pytest.raises(UnsupportedError, match="observation_noise must be True or False"):
        surrogate.posterior(points(2), observation_noise=torch.ones(2, NUM_OUTPUTS))
    with pytest.raises(ShapeError, match=r"X must be \(…, q, D\) with D = 2; got \(3,\)"):
        surrogate.posterior(torch.zeros(3))
    with pytest.raises(ShapeError, match="base_samples must be"):
        surrogate.posterior(points(2)).rsample_from_base_samples(torch.Size([1]), torch.zeros(1, 2, 1))


def test_latent_inputs_are_refused():
    gplvm = mogul.MultiOutputGPLVM(2, num_inducing=5, num_starts=1).fit(table()[1])
    with pytest.raises(ConfigError, match="must have observed inputs"):
        Surrogate.of(gplvm.fitted_)


def test_a_missing_package_is_named(regressors, monkeypatch):
    regressor = regressors("mogp")
    monkeypatch.setattr("mogul.estimators.regressor.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install \"mogul\[botorch\]\""):
        regressor.to_botorch()


def hypervolume(problem, Y):
    return float(DominatedPartitioning(ref_point=problem.ref_point, Y=Y).compute_hypervolume())


def optimise(problem, num_start, num_rounds, seed):
    """Bayesian optimisation, two points a round, of a problem to maximise; the outputs seen."""
    bounds = problem.bounds.double()
    X = bounds[0] + (bounds[1] - bounds[0]) * torch.as_tensor(np.random.default_rng(seed).random((num_start, 2)))
    Y = problem(X)
    for round_ in range(num_rounds):
        regressor = mogul.MultiOutputGPRegressor("mogp", epochs=60, num_starts=1, num_latents=2, noise="constant")
        surrogate = regressor.fit(X.numpy(), Y.numpy()).to_botorch()
        acquisition = qLogNoisyExpectedHypervolumeImprovement(
            surrogate,
            ref_point=problem.ref_point.tolist(),
            X_baseline=X,
            sampler=SobolQMCNormalSampler(torch.Size([32]), seed=round_),
            prune_baseline=True,
        )
        new, _ = optimize_acqf(
            acquisition, bounds, q=2, num_restarts=2, raw_samples=32, sequential=True,
            options={"maxiter": 20, "seed": round_},
        )  # fmt: skip
        X, Y = torch.cat([X, new]), torch.cat([Y, problem(new)])
    return Y


@pytest.mark.no_cover  # its lines are those of other tests, and tracing them would cost as much again
@pytest.mark.usefixtures("botorch_compiles_nothing")
# A line search without noise may end in rounding; BoTorch says so and starts again.
@pytest.mark.filterwarnings("ignore:Optimization failed in .gen_candidates_scipy.:RuntimeWarning")
def test_optimisation_of_two_objectives_beats_random_search():
    problem = BraninCurrin(negate=True).double()
    num_start, num_rounds = 8, 5
    found = hypervolume(problem, optimise(problem, num_start, num_rounds, seed=0))
    rng = np.random.default_rng(1)
    budget = num_start + 2 * num_rounds
    random = [hypervolume(problem, problem(torch.as_tensor(rng.random((budget, 2))))) for _ in range(20)]
    assert found > max(random)
