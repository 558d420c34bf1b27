"""Exact GPs: evidence, gradients and rows left out, beside scikit-learn, refits and differences."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, WhiteKernel

from mogul import Dataset, TrainingConfig, fit, models
from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.objective import Analytic, Elbo
from mogul.priors import IndependentGPs, rbf
from mogul.training import evidence as priors
from mogul.training.evidence import Evidence, ExactGP, _Solved, theta_of
from mogul.training.exact import fit_exact_gp, leave_one_out
from mogul.training.exact_start import ExactStart, spread_out
from mogul.training.noise import alternate, precision_of
from mogul.training.part_starts import closed_form, widen_posterior
from mogul.training.residuals import depends_on_input, fit_robust_gp, fit_student_t

NUM_ROWS = 25
SIZES = [1, 2, 3, 4]


def rows(num_inputs: int, num_rows: int = NUM_ROWS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, a standardised output, and noise variances of the rows relative to each other."""
    rng = np.random.default_rng(num_inputs)
    x = rng.standard_normal((num_rows, num_inputs))
    y = np.sin(2 * x[:, 0]) + x.sum(1) + 0.2 * rng.standard_normal(num_rows)
    return x, (y - y.mean()) / y.std(), rng.uniform(0.5, 8.0, num_rows)


def some_gp(num_inputs: int, *, plane: bool) -> ExactGP:
    lengthscale = np.linspace(0.6, 2.1, num_inputs) if num_inputs > 1 else np.array([0.6])
    return ExactGP(lengthscale, 1.7, 0.4 if plane else 0.0, 0.05, 0.0)


def known_kernel(gp: ExactGP) -> Kernel:
    """scikit-learn's, without the noise: its hyperparameters are in the order s, ℓ, a."""
    smooth = ConstantKernel(gp.outputscale) * RBF(gp.lengthscale)
    if not gp.plane_var:
        return smooth
    plane = ConstantKernel(gp.plane_var) * DotProduct(0.0, sigma_0_bounds="fixed")
    return smooth + plane + ConstantKernel(1.0, constant_value_bounds="fixed")


def known_gp(gp: ExactGP, x: np.ndarray, y: np.ndarray, relative: np.ndarray | float = 1.0) -> GaussianProcessRegressor:
    return GaussianProcessRegressor(known_kernel(gp), alpha=gp.noise_var * relative, optimizer=None).fit(x, y)


def log_prior(evidence: Evidence, theta: np.ndarray) -> float:
    """By scipy: lengthscales share one of four levels or are irrelevant; other densities are over those at modes."""
    num_inputs = len(theta) - 3
    root, own = 0.5 * np.log(num_inputs), theta[:num_inputs]
    edge = priors._IRRELEVANT_FROM + root
    irrelevant = stats.logistic.cdf(own, edge, priors._EDGE) * priors._FALL * np.exp(-priors._FALL * (own - edge))
    levels = [priors._LENGTHSCALE[0] - step + root for step in range(4)]
    each = [0.5 * (stats.hypsecant.pdf(own, mode, priors._LENGTHSCALE[1]) + irrelevant) for mode in levels]
    result = logsumexp([np.log(density).sum() for density in each]) - np.log(4)
    result += stats.norm.logpdf(theta[-3], 0, 10) - stats.norm.logpdf(0, 0, 10)
    if evidence.plane:
        result += stats.norm.logpdf(theta[-2], -np.log(num_inputs), 1) - stats.norm.logpdf(0, 0, 1)
    result += stats.hypsecant.logpdf(theta[-1], *priors._NOISE) - stats.hypsecant.logpdf(0, 0, priors._NOISE[1])
    return float(result)


@pytest.mark.parametrize("num_inputs", SIZES)
@pytest.mark.parametrize("plane", [False, True])
def test_evidence_and_its_gradient_are_scikit_learns(plane: bool, num_inputs: int) -> None:
    x, y, _ = rows(num_inputs)
    gp = some_gp(num_inputs, plane=plane)
    evidence, theta = Evidence(x, y, np.ones(NUM_ROWS), plane=plane), theta_of(gp)
    noisy = known_kernel(gp) + WhiteKernel(gp.noise_var)
    known = GaussianProcessRegressor(noisy, alpha=0.0, optimizer=None).fit(x, y)
    expected, slope = known.log_marginal_likelihood(known.kernel_.theta, eval_gradient=True)
    assert evidence.value(theta) == pytest.approx(expected + log_prior(evidence, theta), abs=1e-9)
    covariance, *parts = evidence._covariance(theta)
    solved = _Solved.of(covariance, y)
    assert solved is not None
    own = evidence._gradient(theta, *parts, solved)
    places = [num_inputs, *range(num_inputs), *([num_inputs + 1] if plane else []), num_inputs + 2]
    np.testing.assert_allclose(own[places], slope, rtol=1e-8, atol=1e-9)
    assert plane or own[num_inputs + 1] == 0


@pytest.mark.parametrize("num_inputs", SIZES)
@pytest.mark.parametrize("plane", [False, True])
def test_the_gradient_with_priors_and_noise_of_each_row_is_that_of_differences(plane: bool, num_inputs: int) -> None:
    x, y, relative = rows(num_inputs)
    gp = some_gp(num_inputs, plane=plane)
    evidence, theta = Evidence(x, y, relative, plane=plane), theta_of(gp)
    loss, slope = evidence._loss(theta)
    known = known_gp(gp, x, y, relative).log_marginal_likelihood_value_
    assert -loss == pytest.approx(known + log_prior(evidence, theta), abs=1e-9)
    step = 1e-5
    for place, own in enumerate(slope):
        above, below = (evidence.value(evidence.moved(theta, place, theta[place] + sign * step)) for sign in (1, -1))
        assert own == pytest.approx(-(above - below) / (2 * step), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("plane", [False, True])
def test_rows_left_out_are_predicted_as_by_refits(plane: bool) -> None:
    x, y, relative = rows(2)
    gp = some_gp(2, plane=plane)
    residual, var = leave_one_out(gp, x, y, relative)
    for row in range(NUM_ROWS):
        others = np.arange(NUM_ROWS) != row
        mean, std = known_gp(gp, x[others], y[others], relative[others]).predict(x[[row]], return_std=True)
        assert residual[row] == pytest.approx(y[row] - mean[0], abs=1e-9)
        assert var[row] == pytest.approx(std[0] ** 2 + gp.noise_var * relative[row], abs=1e-9)


def test_a_larger_variance_leaves_the_mean_as_it_is() -> None:
    x, y, relative = rows(2)
    gp = some_gp(2, plane=False)
    far = 3 * np.random.default_rng(1).standard_normal((20, 2))
    mean, std = known_gp(gp, x, y, relative).predict(far, return_std=True)
    wide_mean, wide_std = known_gp(gp.inflated(2.0), x, y, relative).predict(far, return_std=True)
    np.testing.assert_allclose(wide_mean, mean, atol=1e-9)
    np.testing.assert_allclose(wide_std, np.sqrt(2) * std, rtol=1e-9)


@pytest.mark.parametrize("num_inputs", [1, 4])
def test_hyperparameters_cost_variance_that_many_rows_take_away(num_inputs: int) -> None:
    factors = []
    for num_rows in (10, 40, 400):
        x, y, _ = rows(num_inputs, num_rows)
        evidence = Evidence(x, y, np.ones(num_rows), plane=False)
        theta, _ = evidence.climb(evidence.start(1.0, 0.1), 60)
        factors.append(evidence.inflation(theta, 1.0))
    assert factors[0] > factors[1] > factors[2] >= 1
    assert factors[0] > 1.02
    assert factors[2] < 1.02


def test_the_variance_that_hyperparameters_add_is_that_of_draws_near_the_maximum() -> None:
    """θ from the Normal whose precision is minus the Hessian of the evidence, by second differences of its values."""
    x, y, _ = rows(1, 60)
    evidence = Evidence(x, y, np.ones(60), plane=False)
    theta, _ = evidence.climb(evidence.start(1.0, 0.1), 200)
    learnt = np.flatnonzero(evidence.learnt)
    steps = 1e-2 * np.eye(len(theta))[learnt]
    hessian = np.array(
        [
            [
                sum(p * q * evidence.value(theta + p * one + q * other) for p in (1, -1) for q in (1, -1)) / 4e-4
                for one in steps
            ]
            for other in steps
        ]
    )
    # A tenth of the spread, so that means are linear in θ.
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(len(learnt)), np.linalg.inv(-hessian), 2000) / 10
    moved = [evidence.leave_one_out(theta + 100 * draw @ steps)[0] for draw in draws]
    added = 100 * np.var(moved, axis=0).mean() / evidence.leave_one_out(theta)[1].mean()
    # One-sided differences of 5 % are all that the factor is worth: it is within a third of that.
    assert evidence.inflation(theta, 1.0) - 1 == pytest.approx(added, rel=0.4)
    far = np.linspace(-4, 4, 9)[:, None]
    elsewhere = 10 * np.std([evidence.mean(theta + 100 * draw @ steps, far) for draw in draws], axis=0)
    np.testing.assert_allclose(np.linalg.norm(evidence.spread(theta, far, 1.0), axis=1), elsewhere, rtol=0.4)


@pytest.mark.parametrize("plane", [False, True])
def test_the_mean_of_the_evidence_is_scikit_learns(plane: bool) -> None:
    x, y, relative = rows(3)
    gp, far = some_gp(3, plane=plane), np.random.default_rng(1).standard_normal((20, 3))
    own = Evidence(x, y, relative, plane=plane).mean(theta_of(gp), far)
    np.testing.assert_allclose(own, known_gp(gp, x, y, relative).predict(far), atol=1e-8)


def test_what_is_not_known_of_hyperparameters_is_added_to_q_of_u() -> None:
    points = torch.linspace(-2, 2, 6, dtype=torch.float64)[:, None]
    prior = IndependentGPs(rbf(1, 2).double(), points, num_latents=2, mean="zero")
    columns = torch.randn(2, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    before = prior.joint(points)[1]
    widen_posterior(prior, columns)
    np.testing.assert_allclose((prior.joint(points)[1] - before).detach(), columns @ columns.mT, atol=1e-5)


def test_the_result_has_that_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = rows(2)
    found = fit_exact_gp(x, y, np.random.default_rng(0))
    monkeypatch.setattr(Evidence, "inflation", lambda *_: 1.0)
    plain = fit_exact_gp(x, y, np.random.default_rng(0))
    factor = found.noise_var / plain.noise_var
    assert factor > 1.01
    assert found.outputscale == pytest.approx(factor * plain.outputscale)
    assert found.plane_var == pytest.approx(factor * plain.plane_var)
    np.testing.assert_array_equal(found.lengthscale, plain.lengthscale)


def test_bands_of_few_rows_hold_what_they_should() -> None:
    """Draws of a GP of which 20 rows are known: bands of 95 %, one in a hundred lower for each guess at a scale."""
    held, num_draws, num_known = 0.0, 60, 20
    for seed in range(num_draws):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1.7, 1.7, (num_known + 200, 1))
        root = np.linalg.cholesky(RBF(0.7)(x) + 1e-10 * np.eye(len(x)))
        y = root @ rng.standard_normal(len(x)) + 0.2 * rng.standard_normal(len(x))
        y = (y - y[:num_known].mean()) / y[:num_known].std()
        gp = fit_exact_gp(x[:num_known], y[:num_known], rng, plane=False)
        mean, std = known_gp(gp, x[:num_known], y[:num_known]).predict(x[num_known:], return_std=True)
        band = 1.96 * np.sqrt(std**2 + gp.noise_var)
        held += np.mean(np.abs(y[num_known:] - mean) < band) / num_draws
    assert 0.905 < held < 0.98


@pytest.mark.parametrize("plane", [False, True])
def test_no_hyperparameters_near_those_found_have_a_larger_evidence(plane: bool) -> None:
    x, y, _ = rows(2, 80)
    search = fit_exact_gp(x, y, np.random.default_rng(0), plane=plane)
    evidence = Evidence(x, y, np.ones(80), plane=plane)
    rng = np.random.default_rng(1)
    others = [theta_of(search) + 0.5 * rng.standard_normal(5) for _ in range(200)]
    assert search.log_evidence > max(evidence.value(theta) for theta in others)


def test_inducing_points_explain_all_but_a_twentieth_of_a_nat() -> None:
    x, _, _ = rows(2, 200)
    x = np.vstack([x, x[:50]])  # copies explain nothing more
    gps = [some_gp(2, plane=False), ExactGP(np.array([1.5, 3.0]), 0.8, 0.0, 0.01, 0.0)]
    chosen = spread_out(gps, x, most=250)
    assert len(chosen) < 150
    assert len(np.unique(x[chosen], axis=0)) == len(chosen)
    for gp in gps:
        known = known_kernel(gp)
        cross, within = known(x[chosen], x), known(x[chosen]) + 1e-9 * np.eye(len(chosen))
        left = known.diag(x) - np.einsum("mn,mn->n", cross, np.linalg.solve(within, cross))
        assert left.sum() / (2 * gp.noise_var) < 0.05 + 1e-3
    few = spread_out(gps, x, most=7)
    assert len(few) == 7


def test_students_t_is_that_of_scipy() -> None:
    residual = 0.3 * np.random.default_rng(0).standard_t(4, 400)
    found = fit_student_t(residual)
    dof, _, scale = stats.t.fit(residual, floc=0)
    assert found.dof == pytest.approx(dof, rel=1e-2)
    assert found.scale == pytest.approx(scale, rel=1e-2)
    normal = stats.norm(0, np.sqrt(np.mean(residual**2))).logpdf(residual).sum()
    assert found.gain == pytest.approx(stats.t(dof, 0, scale).logpdf(residual).sum() - normal, abs=1e-3)
    assert found.is_heavy


def test_normal_noise_is_seldom_taken_for_another() -> None:
    """Of 200 samples in which it is Normal and the same for all x, at most one in fifty each."""
    heavy = varying = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        num_rows = int(rng.choice([20, 60, 150]))
        residual, x = rng.standard_normal(num_rows), rng.uniform(-1.7, 1.7, (num_rows, 2))
        heavy += fit_student_t(residual).is_heavy
        varying += depends_on_input(residual, x, rng)
    assert heavy <= 4
    assert varying <= 4


@pytest.mark.parametrize("change", [lambda x: np.exp(x[:, 0]), lambda x: np.exp(np.sin(2 * x[:, 1]))])
def test_noise_that_depends_on_one_input_is_found(change: Any) -> None:
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1.7, 1.7, (150, 2))
        found += depends_on_input(change(x) * rng.standard_normal(150), x, rng)
    assert found >= 18


def test_outliers_have_next_to_no_weight() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(-1.7, 1.7, 120)[:, None]
    clean = np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(120)
    spoilt = clean.copy()
    spoilt[[10, 70]] += [30.0, -50.0]
    robust, plain = (fit_robust_gp(x, y, np.random.default_rng(0), plane=False) for y in (spoilt, clean))
    assert plain.dof is None
    assert robust.dof is not None
    assert np.all(robust.relative_noise[[10, 70]] > 1000)
    assert robust.gp.lengthscale[0] == pytest.approx(plain.gp.lengthscale[0], rel=0.15)


@pytest.mark.parametrize("shared", [False, True])
def test_q_of_inducing_points_is_that_of_a_linear_gp(shared: bool) -> None:
    """Rows that observe Aᵀv are rows of a GP with a linear kernel; v is its value at unit vectors."""
    rng = np.random.default_rng(0)
    cross, gap, weight = rng.standard_normal((2, 4, 9)), rng.standard_normal((2, 9)), rng.uniform(0.5, 5, (2, 9))
    cross = cross[:1] if shared else cross
    mean, root = closed_form(torch.as_tensor(cross), torch.as_tensor(gap), torch.as_tensor(weight))
    for place in range(2):
        own = cross[0 if shared else place]
        linear = DotProduct(0.0, sigma_0_bounds="fixed")
        known = GaussianProcessRegressor(linear, alpha=1 / weight[place], optimizer=None).fit(own.T, gap[place])
        expected, cov = known.predict(np.eye(4), return_cov=True)
        np.testing.assert_allclose(mean[place], expected, atol=1e-10)
        np.testing.assert_allclose(root[place] @ root[place].T, cov, atol=1e-10)


class Noisy:
    """A default model of one output whose noise grows with x."""

    def __init__(self, noise: str) -> None:
        rng = np.random.default_rng(0)
        x = rng.uniform(-2, 2, (150, 1))
        y = np.sin(2 * x) + 0.1 * np.exp(x) * rng.standard_normal((150, 1))
        self.data = Dataset(x, y)
        config = TrainingConfig(start="exact", epochs=0, num_starts=1, precision="float64")
        self.fitted = fit(self.data, model="mogp", config=config, noise=noise, num_latents=1, num_inducing=40)
        self.model = self.fitted.model
        self.batch = self.fitted.scaling.batch(self.data, torch.float64)
        self.target = self.model.mean.residual(self.batch.y, self.batch.x).detach()

    def elbo(self) -> float:
        with torch.no_grad():
            objective = Elbo(Analytic(), num_data=150)
            return float(objective(self.model, self.batch, torch.Generator().manual_seed(0)).total())


def test_the_precision_of_constant_noise_is_its_own(generator: torch.Generator) -> None:
    start = Noisy("constant")
    signal = start.model.head.moments(start.model.prior(start.batch.x, 1, generator), start.batch.x, generator)
    found = precision_of(start.model, start.batch, start.target, signal, generator)
    expected = start.model.head.noise.log_precision.exp().expand_as(found)
    torch.testing.assert_close(found, expected.detach())


def test_rows_that_students_t_finds_far_out_have_the_weight_of_the_em_algorithm(generator: torch.Generator) -> None:
    """E λ = (ν + 1)/(ν + (r² + v)/s²): given the signal's second moment, the optimum of the bound on the law."""
    start = Noisy("student-t")
    noise = start.model.head.noise
    known = Marginals(torch.zeros_like(start.target), torch.full_like(start.target, 1e-12))
    found = precision_of(start.model, start.batch, start.target, known, generator)
    dof = noise.dof.detach()
    scale_var = torch.exp(-noise.log_precision.detach())
    expected = (dof + 1) / (dof + start.target.square() / scale_var) / scale_var
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("noise", ["gp", "gp-student-t"])
def test_alternating_raises_the_bound_and_finds_the_noise(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mogul.training.starts.alternate", lambda *_: None)
    start = Noisy(noise)
    before = start.elbo()
    alternate(start.model, start.batch, torch.Generator().manual_seed(0))
    assert start.elbo() > before + 10
    x = np.linspace(-2, 2, 50)[:, None]
    rows = torch.as_tensor(start.fitted.scaling.inputs.apply(x))
    with torch.no_grad():
        var = start.model.noise_var(rows, torch.Generator()).numpy()[:, 0]
    slope = np.polyfit(x[:, 0], 0.5 * np.log(var), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(
    "copies", [np.full(NUM_ROWS, 4), np.where(np.arange(NUM_ROWS) < 12, 1, 6)], ids=["all", "some"]
)
def test_a_row_of_c_copies_has_the_weight_c_in_the_posterior(copies: np.ndarray) -> None:
    x, y, _ = rows(1)
    repeated = np.repeat(np.arange(NUM_ROWS), copies)
    batch = Batch.of(torch.as_tensor(x[repeated]), torch.as_tensor(y[repeated][:, None]))
    start = ExactStart.of(batch, seed=0, plane=False, robust=False)
    generator, points = torch.Generator().manual_seed(0), start.inducing_points(start.batch.x, 100)
    model = models.build("mogp", batch.x, 1, generator, num_latents=1, inducing_points=points, latent_mean="zero")
    start.apply(model, generator)
    at = np.linspace(-2, 2, 30)[:, None]
    with torch.no_grad():
        found = model.prior(torch.as_tensor(at), 1, generator)
    deviations = {
        power: known_gp(start.gps[0], x, y, 1.0 / copies**power).predict(at, return_std=True)[1] for power in (0, 1, 2)
    }
    # The latent GP of the model has another unit than the output.
    ratio = {power: found.var.sqrt().numpy()[:, 0] / std for power, std in deviations.items()}
    assert ratio[1].std() < 0.02 * ratio[1].mean()
    assert min(ratio[0].std() / ratio[0].mean(), ratio[2].std() / ratio[2].mean()) > 0.05
