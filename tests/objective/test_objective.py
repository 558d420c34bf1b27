"""The lower bound: its estimators agree, its batches add up, and what is missing leaves no trace."""

import math

import pytest
import torch
from tests.helpers.perturbing import perturbed
from torch import Tensor

from mogul import nonlinearities
from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.errors import UnknownNameError
from mogul.heads import Head, Identity, Neural
from mogul.models import build
from mogul.models.model import Model, Observed
from mogul.nonlinearities import Quadrature
from mogul.objective import (
    Analytic,
    Elbo,
    ElboTerms,
    Expectation,
    MonteCarlo,
    Predictive,
    objective_by_name,
    row_log_likelihood,
)

NUM_ROWS, NUM_INPUTS, NUM_OUTPUTS = 7, 2, 3
MODELS = [("mogp", None)] + [("n-mogp", name) for name in nonlinearities.names()]
ESTIMATORS = [Analytic(), MonteCarlo(20)]
both_models = pytest.mark.parametrize("name", ["mogp", "n-mogp"])
both_estimators = pytest.mark.parametrize("ell", ESTIMATORS, ids=["analytic", "monte-carlo"])
with_and_without_holes = pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def rows(*, missing: bool) -> Batch:
    """Seven rows, some far from any inducing point; with holes, one row has no output at all."""
    y = randn(NUM_ROWS, NUM_OUTPUTS, seed=11)
    if missing:
        y[0, 1] = y[3, 0] = y[3, 2] = float("nan")
        y[5] = float("nan")
    return Batch.of(2.5 * randn(NUM_ROWS, NUM_INPUTS, seed=10), y)


def small_model(name: str, nonlinearity: str | None = None) -> Model:
    """A model away from any special point: every parameter is moved at random."""
    x = randn(NUM_ROWS, NUM_INPUTS, seed=10)
    model = build(
        name, x, NUM_OUTPUTS, seeded(), num_latents=2, num_hidden=4, num_inducing=5, nonlinearity=nonlinearity
    )
    return perturbed(model, seeded(2), 0.2)


def elbo(model: Model, batch: Batch, ell: Expectation, num_data: int = NUM_ROWS) -> ElboTerms:
    return Elbo(ell, num_data)(model, batch, seeded(5))


def row_ell(expectation: Expectation, model: Model, batch: Batch, generator: torch.Generator) -> Tensor:
    signal = expectation.signal(model, batch.x, generator)
    return row_log_likelihood(model, batch, signal, model.head.noise(batch.x, generator))


def some_terms() -> ElboTerms:
    return ElboTerms(*map(torch.tensor, (-10.0, 1.0, 4.0, 13.0)), misfit=torch.zeros(1, 1))


def gradients(model: Model, value: Tensor) -> dict[str, Tensor]:
    named = dict(model.named_parameters())
    return dict(zip(named, torch.autograd.grad(value, list(named.values())), strict=True))


@pytest.mark.no_cover  # many steps on lines that other tests run too
@with_and_without_holes
@pytest.mark.parametrize(("name", "nonlinearity"), MODELS)
def test_the_analytic_likelihood_is_the_mean_of_the_sampled_one(name, nonlinearity, missing):
    model, batch = small_model(name, nonlinearity), rows(missing=missing)
    sampled, generator, repeats = MonteCarlo(1500), seeded(3), 100
    with torch.no_grad():
        exact = row_ell(Analytic(), model, batch, generator)
        draws = torch.stack([row_ell(sampled, model, batch, generator) for _ in range(repeats)])
    observed = batch.observed.any(1)
    error, standard_error = draws.mean(0) - exact, draws.std(0) / math.sqrt(repeats)
    assert torch.all(standard_error[observed] < 0.005 * exact[observed].abs()), "too few draws to tell a difference"
    assert torch.all(error.abs()[observed] < 4 * standard_error[observed])
    assert torch.all(draws[:, ~observed] == 0)


@both_models
def test_the_sampled_likelihood_is_the_average_over_its_draws(name):
    model, batch = small_model(name), rows(missing=False)
    generator = seeded(4)
    f = model.prior(batch.x, 20, generator).sample(20, generator)
    signal = model.head.given_f(f, batch.x, generator)
    by_hand = torch.stack(
        [
            model.head.noise(batch.x, generator).expected_log_density(batch.y, batch.observed, Marginals(mean, var))
            for mean, var in zip(signal.mean, signal.var, strict=True)
        ]
    ).mean(0)
    torch.testing.assert_close(row_ell(MonteCarlo(20), model, batch, seeded(4)), by_hand, rtol=1e-12, atol=1e-12)


@both_models
@with_and_without_holes
@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_the_mean_over_minibatches_weighted_by_rows_is_the_full_batch(name, missing, size):
    model, batch = small_model(name), rows(missing=missing)
    whole = elbo(model, batch, Analytic())
    parts = [
        (len(part) / NUM_ROWS, elbo(model, part, Analytic())) for part in batch.minibatches(size, torch.Generator())
    ]
    for term in ("ell", "kl_local", "kl_global", "log_prior"):
        mean = sum(weight * getattr(terms, term) for weight, terms in parts)
        torch.testing.assert_close(mean, getattr(whole, term), rtol=1e-13, atol=1e-13)
    total = sum(weight * terms.total() for weight, terms in parts)
    torch.testing.assert_close(total, whole.total(), rtol=1e-13, atol=1e-13)


def likelihood_by_hand(model: Model, batch: Batch, ell: Expectation) -> Tensor:
    """One term for each draw and observed output, in plain Python."""
    generator, num_draws = seeded(5), 1
    if isinstance(ell, MonteCarlo):
        num_draws = ell.num_samples
        f = model.prior(batch.x, num_draws, generator).sample(num_draws, generator)
        signal = model.head.given_f(f, batch.x, generator)
        mean, var = signal.mean, signal.var
    else:
        signal = model.head.moments(model.prior(batch.x, 1, generator), batch.x, generator)
        mean, var = signal.mean[None], signal.var[None]
    noise, terms = model.head.noise.var, []
    for draw in range(num_draws):
        for row, column in batch.observed.nonzero().tolist():
            misfit = (batch.y[row, column] - mean[draw, row, column]) ** 2 + var[draw, row, column]
            terms.append(-0.5 * (torch.log(2 * math.pi * noise[column]) + misfit / noise[column]) / num_draws)
    return torch.stack(terms).sum()


@both_models
@both_estimators
@with_and_without_holes
def test_the_likelihood_and_its_gradients_are_those_of_the_observed_terms_alone(name, ell, missing):
    model, batch = small_model(name), rows(missing=missing)
    actual = elbo(model, batch, ell)
    by_hand = likelihood_by_hand(model, batch, ell)
    torch.testing.assert_close(actual.ell, by_hand, rtol=1e-11, atol=1e-11)
    total = by_hand - model.kl() + model.log_prior()
    torch.testing.assert_close(actual.total(), total, rtol=1e-11, atol=1e-11)
    expected = gradients(model, total)
    for parameter, gradient in gradients(model, actual.total()).items():
        torch.testing.assert_close(gradient, expected[parameter], rtol=1e-8, atol=1e-9, msg=parameter)


@both_models
@both_estimators
def test_what_stands_in_for_a_missing_output_does_not_matter(name, ell):
    model, batch = small_model(name), rows(missing=True)
    other = Batch(batch.x, torch.where(batch.observed, batch.y, 1e6), batch.observed, batch.index)
    assert elbo(model, other, ell).ell == elbo(model, batch, ell).ell


@both_models
@both_estimators
def test_a_row_without_outputs_counts_as_a_row_and_adds_nothing(name, ell):
    model, batch = small_model(name), rows(missing=True)
    assert row_ell(ell, model, batch, seeded())[5] == 0.0


@both_models
@both_estimators
@with_and_without_holes
def test_every_parameter_gets_a_finite_gradient_that_is_not_zero(name, ell, missing):
    model = small_model(name)
    elbo(model, rows(missing=missing), ell).total().backward()
    for parameter_name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, parameter_name
        assert torch.isfinite(gradient).all(), parameter_name
        # Only the lower triangle of the root of q(u)'s covariance is used.
        used = torch.ones_like(gradient).tril() if parameter_name.endswith("root") else torch.ones_like(gradient)
        assert torch.all((gradient != 0) == (used != 0)), parameter_name


def identity_units(size: int) -> Neural:
    units = Neural(Quadrature(lambda a: a), size, size, seeded()).double()
    with torch.no_grad():
        units.hidden_weights.copy_(torch.eye(size))
        units.bias_mean.zero_()
        units.bias_log_scale.fill_(-25.0)
    return units


class TestNeuralWithIdentity:
    """N-MOGP with σ(a) = a, identity weights and no bias is MOGP."""

    @pytest.fixture
    def pair(self) -> tuple[Model, Model]:
        linear = small_model("mogp")
        assert isinstance(linear.head.features, Identity)
        head = Head(identity_units(2), linear.head.mixing, linear.head.noise)
        return linear, Model(Observed(), linear.prior, head)

    def test_moments_agree(self, pair):
        x = randn(6, NUM_INPUTS, seed=20)
        linear, neural = (model.moments(x, 1, seeded()) for model in pair)
        torch.testing.assert_close(neural.mean, linear.mean, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(neural.var, linear.var, rtol=1e-10, atol=1e-10)

    @with_and_without_holes
    def test_expected_log_likelihoods_agree(self, pair, missing):
        batch = rows(missing=missing)
        linear, neural = (row_ell(Analytic(), model, batch, seeded()) for model in pair)
        torch.testing.assert_close(neural, linear, rtol=1e-9, atol=1e-9)

    def test_sampled_components_agree(self, pair):
        x = randn(6, NUM_INPUTS, seed=20)
        linear, neural = (model.components(x, 50, seeded()) for model in pair)
        torch.testing.assert_close(neural.mean, linear.mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(neural.var, linear.var, rtol=1e-9, atol=1e-9)

    def test_gradients_of_all_they_share_agree(self, pair):
        batch = rows(missing=True)
        linear, neural = (gradients(model, elbo(model, batch, Analytic()).ell) for model in pair)
        for name, gradient in linear.items():
            torch.testing.assert_close(neural[name], gradient, rtol=1e-7, atol=1e-8, msg=name)

    def test_other_weights_do_not_agree(self, pair):
        x = randn(6, NUM_INPUTS, seed=20)
        with torch.no_grad():
            pair[1].head.features.hidden_weights.mul_(1.01)
        linear, neural = (model.moments(x, 1, seeded()) for model in pair)
        assert (neural.mean - linear.mean).abs().max() > 1e-4


@both_models
@both_estimators
def test_the_likelihood_is_rescaled_to_the_size_of_the_data_and_the_rest_is_not(name, ell):
    model, batch = small_model(name), rows(missing=True)
    small, large = elbo(model, batch, ell, num_data=NUM_ROWS), elbo(model, batch, ell, num_data=10 * NUM_ROWS)
    torch.testing.assert_close(large.ell, 10 * small.ell, rtol=1e-13, atol=0.0)
    assert large.kl_global == small.kl_global > 0
    assert large.log_prior == small.log_prior


@both_models
def test_observed_inputs_have_no_local_kl(name):
    assert elbo(small_model(name), rows(missing=False), Analytic()).kl_local == 0.0


@both_models
def test_global_terms_are_those_of_the_model(name):
    model = small_model(name)
    terms = elbo(model, rows(missing=False), Analytic())
    assert terms.kl_global == model.kl()
    assert terms.log_prior == model.log_prior()
    assert (terms.log_prior != 0) == (name == "n-mogp")


@pytest.mark.parametrize(("weight", "total"), [(1.0, -2.0), (0.0, 3.0), (0.5, 0.5), (2.0, -7.0)])
def test_the_total_weighs_both_kl_terms_and_neither_of_the_others(weight, total):
    assert some_terms().total(weight) == total


def test_the_total_is_the_bound_by_default():
    assert some_terms().total() == -2.0


@both_models
def test_the_bound_lies_below_the_evidence_of_one_row(name):
    # With one row and a prior that is exact at its inducing point, log p(y) can be drawn from the prior.
    x, y = torch.zeros(1, 1, dtype=torch.float64), torch.tensor([[0.7]], dtype=torch.float64)
    model = build(name, x, 1, seeded(), num_latents=1, num_hidden=2)
    bound = (elbo(model, Batch.of(x, y), Analytic(), num_data=1)).total() - model.log_prior()
    num_draws, generator = 200_000, seeded(8)

    def draw(*shape: int) -> Tensor:
        return torch.randn(num_draws, *shape, generator=generator, dtype=torch.float64)

    with torch.no_grad():
        f = draw(1)
        if name == "n-mogp":
            f = model.head.features.nonlinearity(f @ model.head.features.hidden_weights.T + draw(2))
        signal = (f * draw(f.shape[1])).sum(1)
        density = torch.distributions.Normal(signal, model.head.noise.var.sqrt()).log_prob(y[0, 0])
        evidence = density.logsumexp(0) - math.log(num_draws)
    assert bound < evidence


class TestPredictive:
    """log E p(y | signal) in place of E log p(y | signal), with the same other terms."""

    @both_models
    @with_and_without_holes
    def test_it_is_the_log_density_of_a_normal_with_the_signals_moments(self, name, missing):
        model, batch = small_model(name), rows(missing=missing)
        terms = Predictive(Analytic(), NUM_ROWS)(model, batch, seeded(5))
        signal = model.moments(batch.x, 1, seeded())
        each = torch.distributions.Normal(signal.mean, (signal.var + model.head.noise.var).sqrt()).log_prob(batch.y)
        torch.testing.assert_close(terms.ell, each[batch.observed].sum())
        for other in ("kl_local", "kl_global", "log_prior"):
            assert getattr(terms, other) == getattr(elbo(model, batch, Analytic()), other)

    @pytest.mark.parametrize("noise", ["constant", "net", "gp", "student-t", "gp-student-t"])
    def test_it_is_that_of_brute_force_on_a_tiny_model(self, noise):
        """MOGP with one GP and known weights has a Normal signal, so that draws of everything have this density."""
        x = randn(3, 1, seed=10)
        batch = Batch.of(x, torch.tensor([[0.3], [-0.8], [1.2]], dtype=torch.float64))
        model = build("mogp", x, 1, seeded(), num_latents=1, num_inducing=2, noise=noise, num_noise_inducing=2)
        num_draws, generator = 200_000, seeded(8)
        with torch.no_grad():
            model.head.mixing.log_scale.fill_(-40.0)
            terms = Predictive(Analytic(), 3)(model, batch, seeded())
            shape = torch.Size([num_draws, 3, 1])
            signal = model.components(x, num_draws, generator).mean
            var = model.head.noise(x, generator).draw_var(shape, generator)
            density = torch.distributions.Normal(signal, var.sqrt().expand(shape)).log_prob(batch.y).exp()[..., 0]
        error = 4 * (density.std(0) / density.mean(0)).norm() / num_draws**0.5
        assert abs(terms.ell - density.mean(0).log().sum()) < error
        assert error < 0.02

    def test_draws_of_an_inner_layer_make_a_mixture(self):
        x, batch = randn(NUM_ROWS, NUM_INPUTS, seed=10), rows(missing=True)
        model = build("dgp", x, NUM_OUTPUTS, seeded(), num_inducing=5, num_top_inducing=4)
        terms = Predictive(Analytic(num_samples=6), NUM_ROWS)(model, batch, seeded(5))
        signal = Analytic(num_samples=6).signal(model, batch.x, seeded(5))
        normals = torch.distributions.Normal(signal.mean, (signal.var + model.head.noise.var).sqrt())
        each = (normals.log_prob(batch.y) * batch.observed).sum(-1)
        torch.testing.assert_close(terms.ell, (each.logsumexp(0) - math.log(6)).sum())

    @both_models
    def test_what_stands_in_for_a_missing_output_does_not_matter(self, name):
        model, batch = small_model(name), rows(missing=True)
        other = Batch(batch.x, torch.where(batch.observed, batch.y, 1e6), batch.observed, batch.index)
        one, two = (Predictive(Analytic(), NUM_ROWS)(model, each, seeded(5)).ell for each in (batch, other))
        assert one == two

    def test_an_unknown_objective_is_refused(self):
        with pytest.raises(UnknownNameError, match="Did you mean 'predictive'"):
            objective_by_name("predicitve")
