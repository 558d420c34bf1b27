"""What every law of the noise says, against brute force: densities, levels, draws, and what each reduces to."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from mogul.heads import ConstantNoise, GPNoise, LowRankNoise, NetNoise, Noise, NoiseLaw, StudentTNoise
from mogul.heads.laws import LogNormalLaw, NormalLaw
from mogul.marginals import Marginals
from mogul.priors import IndependentGPs, rbf

NUM_POINTS, NUM_INPUTS, NUM_OUTPUTS, NUM_DRAWS = 3, 2, 3, 200_000


def normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, Y = normal(NUM_POINTS, NUM_INPUTS, seed=0), normal(NUM_POINTS, NUM_OUTPUTS, seed=1)
OBSERVED = torch.tensor([[True, True, True], [False, True, True], [False, False, False]])
SIGNAL = Marginals(
    normal(NUM_POINTS, NUM_OUTPUTS, seed=2), 0.3 * normal(NUM_POINTS, NUM_OUTPUTS, seed=3).square() + 0.05
)
SURE = Marginals(SIGNAL.mean, torch.zeros_like(SIGNAL.var))
KINDS = ["constant", "net", "gp", "student-t", "low-rank"]
every_kind = pytest.mark.parametrize("kind", KINDS)
with_and_without_floor = pytest.mark.parametrize("floor", [0.0, 0.6])


def make(kind: str, floor: float = 0.0) -> Noise:
    """A noise of this kind, away from any special point."""
    generator = torch.Generator().manual_seed(4)
    gps = IndependentGPs(rbf(NUM_INPUTS, 2), normal(5, NUM_INPUTS, seed=5).float(), 2, mean="zero")
    noises: dict[str, Noise] = {
        "constant": ConstantNoise(NUM_OUTPUTS, floor=floor),
        "net": NetNoise(NUM_INPUTS, NUM_OUTPUTS, generator, floor=floor),
        "gp": GPNoise(gps, NUM_OUTPUTS, generator, floor=floor),
        "student-t": StudentTNoise(NUM_OUTPUTS, dof=4.0, floor=floor),
        "low-rank": LowRankNoise(NUM_OUTPUTS, 2, generator, floor=floor),
    }
    noise = noises[kind].double()
    with torch.no_grad():
        for parameter in noise.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return noise


def law_of(kind: str, floor: float = 0.0) -> NoiseLaw:
    return make(kind, floor)(X, torch.Generator())


def log_mean_exp(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """log of the mean over the first axis, and its standard error."""
    weights = (values - values.amax(0)).exp()
    return weights.mean(0).log() + values.amax(0), weights.std(0) / weights.mean(0) / len(values) ** 0.5


@every_kind
@with_and_without_floor
def test_the_log_density_is_that_of_brute_force(kind, floor):
    """Signals drawn from their marginals, noise from its law: the density of y is a mean over both."""
    law = law_of(kind, floor)
    generator = torch.Generator().manual_seed(6)
    shape = torch.Size([NUM_DRAWS, NUM_POINTS, NUM_OUTPUTS])
    with torch.no_grad():
        signal = SIGNAL.sample(NUM_DRAWS, generator)
        var = law.draw_var(shape, generator).expand(shape)
        if kind == "low-rank":
            z = torch.randn(NUM_DRAWS, NUM_POINTS, 2, generator=generator, dtype=torch.float64)
            signal, var = signal + z @ law.loadings.T, var - law.loadings.square().sum(-1)
        each = torch.distributions.Normal(signal, var.sqrt()).log_prob(Y)
        expected, error = log_mean_exp(torch.where(OBSERVED, each, 0.0).sum(-1))
        found = law.log_density(Y, OBSERVED, SIGNAL)
    assert ((found - expected).abs() <= 5 * error + 1e-12).all()
    assert error.max() < 0.02


@every_kind
@with_and_without_floor
def test_drawn_variances_have_the_variance_of_the_noise_as_their_mean(kind, floor):
    law = law_of(kind, floor)
    shape = torch.Size([100_000, NUM_POINTS, NUM_OUTPUTS])
    with torch.no_grad():
        drawn = law.draw_var(shape, torch.Generator().manual_seed(7)).expand(shape)
        error = 6 * drawn.std(0) / 100_000**0.5
        assert ((drawn.mean(0) - law.var).abs() <= error + 1e-9).all()
    assert (drawn >= floor**2 if kind != "student-t" else drawn > 0).all()


@every_kind
@with_and_without_floor
@pytest.mark.parametrize("predictive", [False, True], ids=["expected", "predictive"])
def test_the_level_is_at_its_optimum_where_it_is_the_mean_misfit(kind, floor, predictive):
    """Fisher's identity: ∂/∂log β of the fit is ½ Σ (1 − β misfit), whatever the level."""
    noise = make(kind, floor)
    law = noise(X, torch.Generator())
    fit = law.log_density if predictive else law.expected_log_density
    misfit = (law.predictive_misfit if predictive else law.misfit)(Y, OBSERVED, SIGNAL).detach()
    (slope,) = torch.autograd.grad(fit(Y, OBSERVED, SIGNAL).sum(), noise.log_precision)
    expected = 0.5 * (OBSERVED * (1 - noise.log_precision.exp() * misfit)).sum(0)
    torch.testing.assert_close(slope, expected, rtol=1e-6, atol=1e-8)


@every_kind
@with_and_without_floor
def test_the_expected_log_density_lies_below_the_log_density(kind, floor):
    law = law_of(kind, floor)
    below, above = law.expected_log_density(Y, OBSERVED, SIGNAL), law.log_density(Y, OBSERVED, SIGNAL)
    assert (below[:2] < above[:2]).all()
    assert below[2] == above[2] == 0


@every_kind
def test_what_stands_in_for_a_missing_output_does_not_count(kind):
    law, other = law_of(kind, 0.1), torch.where(OBSERVED, Y, 1e3)
    for fit in (law.expected_log_density, law.log_density):
        torch.testing.assert_close(fit(Y, OBSERVED, SIGNAL), fit(other, OBSERVED, SIGNAL), rtol=1e-12, atol=1e-12)
    mean, var = SIGNAL.mean.clone().requires_grad_(), SIGNAL.var.clone().requires_grad_()
    total = law.expected_log_density(Y, OBSERVED, Marginals(mean, var)) + law.log_density(
        Y, OBSERVED, Marginals(mean, var)
    )
    total.sum().backward()
    assert all((value.grad[~OBSERVED] == 0).all() and (value.grad[OBSERVED] != 0).all() for value in (mean, var))


@every_kind
def test_leading_draws_of_the_signal_are_kept(kind):
    law = law_of(kind, 0.1)
    draws = Marginals(normal(4, NUM_POINTS, NUM_OUTPUTS, seed=8), normal(4, NUM_POINTS, NUM_OUTPUTS, seed=9).square())
    for fit in (law.expected_log_density, law.log_density, law.misfit, law.predictive_misfit):
        each = [fit(Y, OBSERVED, Marginals(m, v)) for m, v in zip(draws.mean, draws.var, strict=True)]
        torch.testing.assert_close(fit(Y, OBSERVED, draws), torch.stack(each))


@every_kind
def test_draws_of_the_inputs_are_kept(kind):
    noise, generator = make(kind, 0.1), torch.Generator()
    inputs = normal(4, NUM_POINTS, NUM_INPUTS, seed=8)
    draws = Marginals(normal(4, NUM_POINTS, NUM_OUTPUTS, seed=8), normal(4, NUM_POINTS, NUM_OUTPUTS, seed=9).square())
    each = [
        noise(x, generator).log_density(Y, OBSERVED, Marginals(m, v))
        for x, m, v in zip(inputs, draws.mean, draws.var, strict=True)
    ]
    law = noise(inputs, generator)
    torch.testing.assert_close(law.log_density(Y, OBSERVED, draws), torch.stack(each))
    torch.testing.assert_close(
        law.pooled_var().expand(NUM_POINTS, -1),
        torch.stack([noise(x, generator).var.expand(NUM_POINTS, -1) for x in inputs]).mean(0),
    )


@every_kind
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_a_component_of_a_prediction_has_the_density_of_the_law(kind, scale):
    """The same numbers by NumPy, with NaN for what is missing, in other units."""
    law, unit = law_of(kind, 0.1), torch.full((NUM_OUTPUTS,), scale, dtype=torch.float64)
    with torch.no_grad():
        signal_var = (unit.square() * SIGNAL.var).unsqueeze(0)
        joint = law.joint(signal_var, unit)
        var = signal_var + unit.square() * law.draw_var(signal_var.shape, torch.Generator().manual_seed(1))
        y = torch.where(OBSERVED, Y, math.nan) * unit
        found = joint.log_density(y.numpy(), (unit * SIGNAL.mean)[None].numpy(), var.numpy())[0]
        expected = law.log_density(Y, OBSERVED, SIGNAL) - OBSERVED.double().sum(1) * math.log(scale)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-10, atol=1e-10)


class TestLogNormal:
    """Normal given a log variance that is itself Normal."""

    def test_without_a_floor_the_expectation_is_that_of_brute_force(self):
        law = law_of("gp")
        generator = torch.Generator().manual_seed(6)
        with torch.no_grad():
            signal = SIGNAL.sample(NUM_DRAWS, generator)
            log_var = Marginals(law.relative - law.log_precision, law.spread).sample(NUM_DRAWS, generator)
            each = torch.distributions.Normal(signal, (0.5 * log_var).exp()).log_prob(Y)
            total = torch.where(OBSERVED, each, 0.0).sum(-1)
            found = law.expected_log_density(Y, OBSERVED, SIGNAL)
        assert ((found - total.mean(0)).abs() <= 5 * total.std(0) / NUM_DRAWS**0.5 + 1e-12).all()

    @pytest.mark.parametrize(("share", "gap"), [(1.0, 2.0), (0.005, 0.05)])
    def test_with_a_floor_it_is_a_lower_bound_and_close_where_the_log_variance_is_known(self, share, gap):
        law, floor = law_of("gp", 0.6), 0.6
        law = replace(law, spread=share * law.spread)
        generator = torch.Generator().manual_seed(6)
        with torch.no_grad():
            log_var = Marginals(law.relative - law.log_precision, law.spread).sample(NUM_DRAWS, generator)
            signal = SIGNAL.sample(NUM_DRAWS, generator)
            each = torch.distributions.Normal(signal, (log_var.exp() + floor**2).sqrt()).log_prob(Y)
            total = torch.where(OBSERVED, each, 0.0).sum(-1)
            found = law.expected_log_density(Y, OBSERVED, SIGNAL)
        assert (found <= total.mean(0) + 5 * total.std(0) / NUM_DRAWS**0.5).all()
        assert (total.mean(0) - found).max() < gap

    @with_and_without_floor
    def test_gps_without_variance_are_constant_noise(self, floor):
        constant = make("constant", floor)
        noise = make("gp", floor)
        with torch.no_grad():
            noise.log_precision.copy_(constant.log_precision)
            noise.gps.kernel.outputscale = 1e-20
            noise.gps.variational_mean.zero_()
        assert_same_law(noise, constant)

    def test_the_law_is_its_formula(self):
        law = law_of("gp")
        mean, spread = law.relative - law.log_precision, law.spread
        misfit = (Y - SIGNAL.mean).square() + SIGNAL.var
        each = -0.5 * (math.log(2 * math.pi) + mean) - 0.5 * torch.exp(-mean + spread / 2) * misfit
        torch.testing.assert_close(law.expected_log_density(Y, OBSERVED, SIGNAL), (each * OBSERVED).sum(-1))


class TestNet:
    """Normal with a net's variance."""

    @with_and_without_floor
    def test_a_net_that_says_nothing_is_constant_noise(self, floor):
        constant, noise = make("constant", floor), make("net", floor)
        with torch.no_grad():
            noise.log_precision.copy_(constant.log_precision)
            noise.net.weights[-1].zero_()
        assert_same_law(noise, constant)

    def test_it_has_no_bias_beside_its_level(self):
        assert len(make("net").net.biases) == 2

    def test_the_prior_is_that_of_the_nets_weights(self):
        weights = torch.cat([weight.flatten() for weight in make("net").net.weights])
        torch.testing.assert_close(
            make("net").log_prior(), torch.distributions.Normal(0.0, 1.0).log_prob(weights).sum()
        )


class TestStudentT:
    """A Gaussian scale mixture."""

    def test_a_sure_signal_has_students_density(self):
        law = law_of("student-t")
        scale = law.log_precision.mul(-0.5).exp().detach()
        expected = stats.t(law.dof.detach().numpy(), SIGNAL.mean.numpy(), scale.numpy()).logpdf(Y.numpy())
        expected = np.where(OBSERVED.numpy(), expected, 0.0).sum(-1)
        for fit, tolerance in ((law.expected_log_density, 1e-12), (law.log_density, 1e-4)):
            np.testing.assert_allclose(fit(Y, OBSERVED, SURE).detach().numpy(), expected, atol=tolerance)

    @pytest.mark.parametrize(("dof", "far"), [(2.1, 100.0), (3.0, 50.0), (10.0, 20.0), (200.0, 8.0)])
    @pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.5, 1.0])
    def test_quadrature_over_the_scales_is_close_out_to_the_tails(self, dof, far, share):
        gap = share * far
        noise = StudentTNoise(1, dof=dof, floor=0.0).double()
        sure = Marginals(torch.zeros(1, 1).double(), torch.zeros(1, 1).double())
        found = noise(X, torch.Generator()).log_density(torch.full((1, 1), gap).double(), torch.ones(1, 1).bool(), sure)
        expected = stats.t(dof).logpdf(gap)
        assert found.item() == pytest.approx(expected, abs=3e-3)

    def test_the_bound_integrates_the_scales_of_a_row_out(self):
        """log ∫ exp(E log N(y | Φ, s²/λ)) Gamma(λ) dλ, the bound with q(λ) at its optimum."""
        law = law_of("student-t")
        square = ((Y - SIGNAL.mean).square() + SIGNAL.var)[0, 0].item()
        precision, dof = law.log_precision[0].exp().item(), law.dof[0].item()
        prior = stats.gamma(dof / 2, scale=2 / dof)

        def integrand(scale):
            return (
                prior.pdf(scale)
                * math.sqrt(scale * precision / (2 * math.pi))
                * math.exp(-0.5 * scale * precision * square)
            )

        expected = math.log(integrate.quad(integrand, 0, 60)[0])
        only = torch.zeros_like(OBSERVED)
        only[0, 0] = True
        assert law.expected_log_density(Y, only, SIGNAL)[0].item() == pytest.approx(expected, abs=1e-6)

    @with_and_without_floor
    def test_with_many_degrees_of_freedom_it_is_constant_noise(self, floor):
        constant = make("constant", floor)
        noise = StudentTNoise(NUM_OUTPUTS, dof=1e8, floor=floor).double()
        with torch.no_grad():
            noise.log_precision.copy_(constant.log_precision)
        assert_same_law(noise, constant, tolerance=1e-6)


class TestLowRank:
    """Noise with the covariance D + U Uᵀ."""

    def test_the_density_is_scipys(self):
        law = law_of("low-rank")
        cov = torch.diag(law.log_precision.neg().exp()) + law.loadings @ law.loadings.T
        for row, seen in enumerate(OBSERVED):
            if seen.any():
                inner = (cov + torch.diag(SIGNAL.var[row]))[seen][:, seen].detach().numpy()
                dist = stats.multivariate_normal(SIGNAL.mean[row, seen].numpy(), inner)
                found = law.log_density(Y, OBSERVED, SIGNAL)[row].item()
                assert found == pytest.approx(dist.logpdf(Y[row, seen].numpy()))

    def test_the_bound_is_that_of_its_own_posterior_of_the_shared_part(self):
        """E log N(y | Φ + U z, D) − KL(q(z) ‖ p(z)), with q(z) the exact posterior at the mean signal."""
        law = law_of("low-rank")
        own, loadings = law.log_precision.neg().exp(), law.loadings
        cov = torch.linalg.inv(torch.eye(2).double() + loadings.T @ torch.diag(1 / own) @ loadings)
        mean = (Y - SIGNAL.mean)[0] / own @ loadings @ cov
        square = (Y[0] - SIGNAL.mean[0] - loadings @ mean).square() + SIGNAL.var[0]
        square = square + (loadings @ cov @ loadings.T).diagonal()
        ell = -0.5 * (math.log(2 * math.pi) + own.log() + square / own).sum()
        kl = 0.5 * (cov.trace() + mean @ mean - 2 - cov.logdet())
        torch.testing.assert_close(law.expected_log_density(Y, OBSERVED, SIGNAL)[0], ell - kl)

    @with_and_without_floor
    def test_without_a_shared_part_it_is_constant_noise(self, floor):
        constant, noise = make("constant", floor), make("low-rank", floor)
        with torch.no_grad():
            noise.log_precision.copy_(constant.log_precision)
            noise.loadings.zero_()
        assert_same_law(noise, constant)

    def test_draws_have_the_covariance(self):
        law = law_of("low-rank", 0.3)
        unit = torch.tensor([1.0, 2.0, 0.5]).double()
        with torch.no_grad():
            joint = law.joint(torch.zeros(1, 1, NUM_OUTPUTS).double(), unit)
            std = (unit * law.var.sqrt()).expand(200_000, 1, NUM_OUTPUTS).numpy()
            cov = torch.diag(law.log_precision.neg().exp() + 0.09) + law.loadings @ law.loadings.T
            cov = (unit[:, None] * cov * unit).numpy()
        draws = joint.deviations(std, np.random.default_rng(0))[:, 0]
        np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.02 * np.abs(cov).max())
        np.testing.assert_allclose(joint.cross_cov(NUM_OUTPUTS), cov - np.diag(np.diag(cov)))


def assert_same_law(noise: Noise, constant: Noise, tolerance: float = 1e-9) -> None:
    one, two = noise(X, torch.Generator()), constant(X, torch.Generator())
    for part in ("expected_log_density", "log_density", "misfit", "predictive_misfit"):
        found, expected = (getattr(law, part)(Y, OBSERVED, SIGNAL) for law in (one, two))
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(one.var.expand(NUM_POINTS, -1), two.var.expand(NUM_POINTS, -1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("floor", [0.0, 0.5])
def test_gradients_are_right(floor):
    """Of a log variance that is Normal: the others are special cases, or left to autograd altogether."""

    def densities(log_precision, relative, spread, mean, var):
        law = LogNormalLaw(log_precision, relative, torch.full((NUM_OUTPUTS,), floor**2).double(), spread)
        signal = Marginals(mean, var)
        return law.expected_log_density(Y, OBSERVED, signal), law.log_density(Y, OBSERVED, signal)

    law = law_of("gp")
    inputs = (law.log_precision, law.relative, law.spread, SIGNAL.mean, SIGNAL.var)
    assert torch.autograd.gradcheck(densities, tuple(value.detach().clone().requires_grad_() for value in inputs))


def test_a_normal_law_draws_nothing():
    law, generator = law_of("net"), torch.Generator().manual_seed(0)
    assert isinstance(law, NormalLaw)
    before = generator.get_state()
    law.draw_var(torch.Size([5, NUM_POINTS, NUM_OUTPUTS]), generator)
    assert torch.equal(before, generator.get_state())
