"""Natural-gradient steps: to the exact posterior at once where there is one, and never out of the cone."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from torch import nn

from mogul.core.moments import FeatureMoments, Marginals
from mogul.core.posteriors import DiagonalNormal, FullNormal, HoldsPosteriors
from mogul.data import Batch
from mogul.heads import BayesianMixing, ConstantNoise, CorrelatedMixing, Head, Identity, Neural
from mogul.models import build
from mogul.models.model import Model, Observed
from mogul.nonlinearities import Erf
from mogul.objective import Analytic, Elbo
from mogul.priors import Cholesky, IndependentGPs, rbf
from mogul.training import NaturalGradient, Step

NUM_ROWS, NOISE, OUTPUTSCALE, LENGTHSCALES = 20, 0.04, 1.7, [0.8, 1.5]


def randn(*shape, generator):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def definite(count, size, generator):
    root = randn(count, size, size, generator=generator)
    return root @ root.mT + torch.eye(size, dtype=torch.float64)


def roots(count, size, generator):
    """Lower triangular, with diagonals of either sign: both stand for the same covariance."""
    signs = torch.where(torch.arange(size) % 2 == 0, 1.0, -1.0).double()
    below = 0.3 * randn(count, size, size, generator=generator).tril(-1)
    return below + torch.diag_embed(signs * (0.5 + torch.rand(count, size, generator=generator, dtype=torch.float64)))


def step_on(posterior, elbo, rate, num_data=7):
    """One step, from the gradients that training would leave."""
    for parameter in vars(posterior).values():
        parameter.grad = None
    (-elbo() / num_data).backward()
    posterior.step(rate, num_data)


class Quadratic:
    """A batch of conjugate models: a Normal likelihood in natural parameters, and a unit Normal prior."""

    def __init__(self, count, size, generator):
        self.precision = definite(count, size, generator)
        self.shift = randn(count, size, generator=generator)
        self.posterior = FullNormal(
            nn.Parameter(randn(count, size, generator=generator)), nn.Parameter(roots(count, size, generator))
        )

    def elbo(self):
        """E[−½ vᵀΛv + bᵀv] − KL(N(m, SSᵀ) ‖ N(0, I)), by torch's own distributions."""
        mean, root = self.posterior.mean, self.posterior.root.tril()
        cov = root @ root.mT
        q = torch.distributions.MultivariateNormal(mean, cov)
        prior = torch.distributions.MultivariateNormal(torch.zeros_like(mean), torch.eye(len(cov[0])).to(cov))
        quadratic = (self.precision * (cov + mean.unsqueeze(-1) * mean.unsqueeze(-2))).sum()
        return -0.5 * quadratic + (self.shift * mean).sum() - torch.distributions.kl_divergence(q, prior).sum()

    def exact(self):
        precision = self.precision + torch.eye(self.precision.shape[-1], dtype=torch.float64)
        return torch.linalg.solve(precision, self.shift), torch.linalg.inv(precision)


class TestFullNormal:
    """Batches of q = N(m, SSᵀ)."""

    @pytest.mark.parametrize("size", [1, 2, 9])
    def test_a_full_step_reaches_the_exact_posterior(self, size, generator):
        problem = Quadratic(3, size, generator)
        step_on(problem.posterior, problem.elbo, rate=1.0)
        mean, cov = problem.exact()
        root = problem.posterior.root.detach()
        torch.testing.assert_close(problem.posterior.mean.detach(), mean, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(root @ root.mT, cov, rtol=1e-8, atol=1e-8)
        assert not root.triu(1).any()

    def test_a_short_step_mixes_natural_parameters(self, generator):
        """Precisions P and Pm both move a share γ of the way: that is what a natural gradient is."""
        problem, rate = Quadratic(2, 4, generator), 0.3
        mean, root = problem.posterior.mean.detach().clone(), problem.posterior.root.detach().clone()
        before = torch.linalg.inv(root @ root.mT)
        step_on(problem.posterior, problem.elbo, rate)
        best_mean, best_cov = problem.exact()
        best = torch.linalg.inv(best_cov)
        precision = (1 - rate) * before + rate * best
        shift = (1 - rate) * (before @ mean.unsqueeze(-1)) + rate * (best @ best_mean.unsqueeze(-1))
        root = problem.posterior.root.detach()
        torch.testing.assert_close(torch.linalg.inv(root @ root.mT), precision, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(
            problem.posterior.mean.detach(), torch.linalg.solve(precision, shift).squeeze(-1), rtol=1e-8, atol=1e-8
        )

    @pytest.mark.parametrize("rate", [0.3, 1.0])
    def test_steps_never_lower_the_bound(self, rate, generator):
        problem = Quadratic(3, 6, generator)
        values = [problem.elbo().item()]
        for _ in range(30):
            step_on(problem.posterior, problem.elbo, rate)
            values.append(problem.elbo().item())
        assert values[1] > values[0] + 0.1
        assert (np.diff(values) > -1e-9 * abs(values[-1])).all()

    def test_a_step_out_of_the_cone_is_halved_until_it_is_inside_for_that_matrix_alone(self):
        """With S = I, the precision becomes 1 − γX: at γ = 1 an eigenvalue of −4, at an eighth one of 3/8."""
        q = FullNormal(nn.Parameter(torch.zeros(2, 2).double()), nn.Parameter(torch.eye(2).double().repeat(2, 1, 1)))
        q.root.grad = -torch.diag_embed(torch.tensor([[5.0, -1.0], [0.5, -1.0]]).double())
        q.mean.grad = -torch.ones(2, 2).double()
        q.step(1.0, num_data=1)
        expected = torch.tensor([[1 - 5 / 8, 1 + 1 / 8], [0.5, 2.0]]).double()
        torch.testing.assert_close(q.root.detach(), torch.diag_embed(expected**-0.5))
        rates = torch.tensor([[1 / 8], [1.0]]).double()
        torch.testing.assert_close(q.mean.detach(), rates / expected)

    @pytest.mark.parametrize("size", [40.0, 400.0, 1e4, 1e9])
    def test_whatever_the_gradient_q_stays_positive_definite(self, size, generator):
        q = FullNormal(nn.Parameter(randn(3, 5, generator=generator)), nn.Parameter(roots(3, 5, generator)))
        q.root.grad, q.mean.grad = size * randn(3, 5, 5, generator=generator), randn(3, 5, generator=generator)
        q.step(1.0, num_data=100)
        assert torch.isfinite(q.mean).all()
        assert torch.isfinite(q.root).all()
        assert (torch.linalg.eigvalsh((q.root @ q.root.mT).detach()) > 0).all()

    def test_a_step_that_no_halving_mends_is_left_out(self):
        q = FullNormal(nn.Parameter(torch.ones(1, 2).double()), nn.Parameter(torch.eye(2).double()[None]))
        q.root.grad, q.mean.grad = -1e9 * torch.eye(2).double()[None], -torch.ones(1, 2).double()
        q.step(1.0, num_data=1)
        assert torch.equal(q.mean.detach(), torch.ones(1, 2).double())
        assert torch.equal(q.root.detach(), torch.eye(2).double()[None])

    def test_what_stands_above_the_diagonal_does_not_count(self, generator):
        problem = Quadratic(2, 4, generator)
        twin = FullNormal(nn.Parameter(problem.posterior.mean.detach()), nn.Parameter(problem.posterior.root.detach()))
        with torch.no_grad():
            twin.root.add_(randn(2, 4, 4, generator=generator).triu(1))
        step_on(problem.posterior, problem.elbo, rate=0.5)
        twin.mean.grad, twin.root.grad = problem.posterior.mean.grad, problem.posterior.root.grad
        # The gradient of what does not count is nothing; were it something, it should not count either.
        twin.root.grad = twin.root.grad + randn(2, 4, 4, generator=generator).triu(1)
        twin.step(0.5, num_data=7)
        torch.testing.assert_close(twin.mean.detach(), problem.posterior.mean.detach())
        torch.testing.assert_close(twin.root.detach().tril(), problem.posterior.root.detach().tril())

    @pytest.mark.parametrize("posterior", ["full", "diagonal"])
    def test_without_gradients_nothing_moves(self, posterior, generator):
        mean = nn.Parameter(randn(2, 3, generator=generator))
        scale = nn.Parameter(roots(2, 3, generator) if posterior == "full" else randn(2, 3, generator=generator))
        before = mean.detach().clone(), scale.detach().clone()
        (FullNormal if posterior == "full" else DiagonalNormal)(mean, scale).step(1.0, num_data=5)
        torch.testing.assert_close(mean.detach(), before[0])
        torch.testing.assert_close(scale.detach(), before[1])


class TestDiagonalNormal:
    """Independent q = N(m, s²)."""

    @pytest.mark.parametrize("rate", [0.1, 0.5])
    def test_equals_the_full_one_in_one_dimension(self, rate, generator):
        mean, log_scale = randn(6, generator=generator), randn(6, generator=generator)
        mean_gradient = randn(6, generator=generator)
        # ∂ELBO/∂log s = s ∂ELBO/∂s, here below 1, so that neither kind shortens its step.
        scale_gradient = 1 - 3 * torch.rand(6, generator=generator, dtype=torch.float64)
        diagonal = DiagonalNormal(nn.Parameter(mean.clone()[:, None]), nn.Parameter(log_scale.clone()[:, None]))
        full = FullNormal(nn.Parameter(mean.clone()[:, None]), nn.Parameter(log_scale.exp()[:, None, None]))
        diagonal.mean.grad, diagonal.log_scale.grad = -mean_gradient[:, None] / 7, -scale_gradient[:, None] / 7
        full.mean.grad = diagonal.mean.grad
        full.root.grad = (diagonal.log_scale.grad / log_scale.exp()[:, None])[:, :, None]
        for posterior in (diagonal, full):
            posterior.step(rate, num_data=7)
        assert (diagonal.mean[:, 0] - mean).abs().max() > 1e-2
        torch.testing.assert_close(diagonal.mean.detach(), full.mean.detach())
        torch.testing.assert_close(diagonal.log_scale.detach().exp(), full.root.detach()[:, :, 0])

    @pytest.mark.parametrize("size", [1.0, 1e3, 1e9, 1e30])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_a_precision_at_most_halves(self, size, dtype):
        q = DiagonalNormal(nn.Parameter(torch.zeros(3, dtype=dtype)), nn.Parameter(torch.zeros(3, dtype=dtype)))
        q.log_scale.grad = torch.tensor([-size, 0.0, size], dtype=dtype)
        q.mean.grad = torch.ones(3, dtype=dtype)
        q.step(1.0, num_data=1)
        assert torch.isfinite(q.mean).all()
        precision = torch.exp(-2 * q.log_scale.detach())
        torch.testing.assert_close(precision, torch.tensor([0.5, 1.0, 1 + size], dtype=dtype), rtol=1e-4, atol=0)


def exact_gp():
    """Data, and scikit-learn's exact regressor at fixed hyperparameters."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (NUM_ROWS, 2))
    y = np.sin(x[:, 0]) * np.cos(x[:, 1]) + NOISE**0.5 * rng.standard_normal(NUM_ROWS)
    kernel = ConstantKernel(OUTPUTSCALE) * RBF(LENGTHSCALES)
    return x, y, GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(x, y)


def one_gp(x, generator):
    """A MOGP of one output whose only weight is one, and known: with z at x and an optimal q it is that regressor."""
    kernel = rbf(2, 1).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = OUTPUTSCALE, torch.tensor(LENGTHSCALES, dtype=torch.float64)
    prior = IndependentGPs(kernel, torch.as_tensor(x), 1, mean="zero", solver=Cholesky(jitter=1e-12))
    mixing = BayesianMixing(1, 1, generator)
    model = Model(Observed(), prior, Head(Identity(1), mixing, ConstantNoise(1))).double()
    with torch.no_grad():
        mixing.mean.fill_(1)
        mixing.log_scale.fill_(-40)
        model.head.noise.log_precision.fill_(-np.log(NOISE))
        prior.variational_mean.copy_(randn(1, len(x), generator=generator))
        prior.variational_root.copy_(roots(1, len(x), generator))
    return model


def natural_steps(model, batch, update, count):
    """The bound before each full-batch step and after the last."""
    elbo, values = Elbo(Analytic(), num_data=len(batch)), []
    for number in range(count + 1):
        model.zero_grad()
        terms = elbo(model, batch, torch.Generator())
        values.append(terms.total().item())
        if number < count:
            (-terms.total() / len(batch)).backward()
            update.apply(model, Step(number, batch, terms, len(batch)))
    return np.array(values)


def test_one_full_step_turns_a_random_q_into_the_exact_gp(generator):
    x, y, regressor = exact_gp()
    model, batch = one_gp(x, generator), Batch.of(torch.as_tensor(x), torch.as_tensor(y)[:, None])
    values = natural_steps(model, batch, NaturalGradient(rate=1.0, ramp_steps=0, parts=("inducing",)), 1)
    # The known weight is no latent variable of an exact GP.
    kl_of_weight = model.head.mixing.kl().item()
    assert values[1] + kl_of_weight == pytest.approx(regressor.log_marginal_likelihood_value_, abs=1e-6)
    new = np.random.default_rng(1).uniform(-4, 4, (15, 2))
    mean, scale = regressor.predict(new, return_std=True)
    q = model.prior(torch.as_tensor(new), 1, torch.Generator())
    np.testing.assert_allclose(q.mean.detach().numpy()[:, 0], mean, rtol=0, atol=1e-7)
    np.testing.assert_allclose(q.var.detach().numpy()[:, 0], scale**2, rtol=0, atol=1e-7)


def test_short_steps_climb_to_the_log_marginal_likelihood(generator):
    x, y, regressor = exact_gp()
    model, batch = one_gp(x, generator), Batch.of(torch.as_tensor(x), torch.as_tensor(y)[:, None])
    values = natural_steps(model, batch, NaturalGradient(rate=0.3, ramp_steps=0, parts=("inducing",)), 60)
    values += model.head.mixing.kl().item()
    best = regressor.log_marginal_likelihood_value_
    assert (np.diff(values) > -1e-9).all()
    assert values[0] < best - 10
    assert values[-1] == pytest.approx(best, abs=1e-6)


@pytest.mark.no_cover  # many steps on lines that other tests run too
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("features", ["identity", "neural"])
def test_q_of_the_mixing_converges_to_the_mean_field_optimum(features, missing, generator):
    """Precisions 1 + β Σ E h²; means that solve (I + β Σ E hhᵀ) m = β Σ E[h] y.

    The noise is large, so that features that look alike do not make the way there too long for a test.
    """
    q = Marginals(randn(25, 2, generator=generator), torch.rand(25, 2, generator=generator, dtype=torch.float64))
    x, y = randn(25, 1, generator=generator), randn(25, 3, generator=generator)
    if missing:
        y[:8, 1] = y[20:, 2] = torch.nan
    batch = Batch.of(x, y)
    units = Identity(2) if features == "identity" else Neural(Erf(1.0), 2, 4, generator).double()
    mixing, noise = BayesianMixing(3, units.num_features, generator).double(), ConstantNoise(3, var=5.0).double()
    with torch.no_grad():
        h = units.moments(q)

    def elbo():
        signal = mixing.moments(h, x, generator)
        return noise(batch.x, generator).expected_log_density(batch.y, batch.observed, signal).sum() - mixing.kl()

    for _ in range(1500):
        step_on(mixing.posteriors()["mixing"], elbo, rate=0.3)
    second = h.mean[:, :, None] * h.mean[:, None, :] + h.cov
    for output in range(3):
        seen = batch.observed[:, output]
        precision = torch.eye(mixing.num_features).double() + second[seen].sum(0) / 5
        expected = torch.linalg.solve(precision, h.mean[seen].T @ batch.y[seen, output] / 5)
        torch.testing.assert_close(mixing.mean.detach()[output], expected, rtol=1e-5, atol=1e-6)
        found = torch.exp(-2 * mixing.log_scale.detach()[output])
        torch.testing.assert_close(found, precision.diagonal(), rtol=1e-6, atol=0)


def test_rows_of_the_mixing_with_a_full_covariance_reach_their_exact_posterior_in_one_step(generator):
    """Given the features, Bayesian linear regression: covariance (I + β Σ E hhᵀ)⁻¹, and the mean that goes with it."""
    q = Marginals(randn(25, 2, generator=generator), torch.rand(25, 2, generator=generator, dtype=torch.float64))
    y = randn(25, 3, generator=generator)
    y[:8, 1] = torch.nan
    batch = Batch.of(randn(25, 1, generator=generator), y)
    mixing, noise = CorrelatedMixing(3, 4, generator).double(), ConstantNoise(3, var=0.25).double()
    with torch.no_grad():
        h = Neural(Erf(1.0), 2, 4, generator).double().moments(q)

    def elbo():
        signal = mixing.moments(h, batch.x, generator)
        return noise(batch.x, generator).expected_log_density(batch.y, batch.observed, signal).sum() - mixing.kl()

    step_on(mixing.posteriors()["mixing"], elbo, rate=1.0)
    second = h.mean[:, :, None] * h.mean[:, None, :] + h.cov
    root = mixing.root.detach().tril()
    for output in range(3):
        seen = batch.observed[:, output]
        precision = torch.eye(4).double() + 4 * second[seen].sum(0)
        expected = torch.linalg.solve(precision, 4 * h.mean[seen].T @ batch.y[seen, output])
        torch.testing.assert_close(mixing.mean.detach()[output], expected, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(root[output] @ root[output].T, torch.linalg.inv(precision), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("mixing_type", [BayesianMixing, CorrelatedMixing])
@pytest.mark.parametrize("num_features", [4, 28])
def test_features_that_look_alike_do_not_make_q_of_the_mixing_run_away(num_features, mixing_type, generator):
    """Each weight's optimum given the others is known; all of them moving there at once overshoot together.

    Given the features, this is conjugate: at the default length no step may lower the bound.
    """
    common = 1 + randn(40, 1, generator=generator)
    h = common + 0.3 * randn(40, num_features, generator=generator)
    h = FeatureMoments(h, torch.full_like(h, 0.01), None)
    batch = Batch.of(randn(40, 1, generator=generator), randn(40, 2, generator=generator))
    mixing, noise = mixing_type(2, num_features, generator).double(), ConstantNoise(2, var=0.5).double()

    def elbo():
        signal = mixing.moments(h, batch.x, generator)
        return noise(batch.x, generator).expected_log_density(batch.y, batch.observed, signal).sum() - mixing.kl()

    values = [elbo().item()]
    for _ in range(20):
        step_on(mixing.posteriors()["mixing"], elbo, NaturalGradient().rate)
        values.append(elbo().item())
    assert (np.diff(values) > -1e-9).all()


def test_every_normal_posterior_of_a_model_is_held_by_some_module():
    x = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    sizes = {"num_inducing": 4, "num_top_inducing": 4, "num_mixing_inducing": 4}
    held = {}
    for name in ("mogp", "n-dgp", "gprn", "n-sbgprn"):
        model = build(name, x, 2, torch.Generator().manual_seed(0), **sizes)
        holders = [module for module in model.modules() if isinstance(module, HoldsPosteriors)]
        held[name] = sorted(part for holder in holders for part in holder.posteriors())
    assert held == {
        "mogp": ["inducing", "mixing"],
        "n-dgp": ["biases", "inducing", "inducing", "mixing"],
        "gprn": ["inducing", "inducing"],
        "n-sbgprn": ["biases", "inducing"],
    }
