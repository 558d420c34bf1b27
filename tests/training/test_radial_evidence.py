"""Exact GPs with Matérn and rational quadratic kernels: beside scikit-learn, finite differences and brute force."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Kernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

import mogul
from mogul.core.radial import RADIALS
from mogul.means.plane import FrozenPlaneUncertainty, PlaneUncertainty
from mogul.training.evidence import Evidence, ExactGP, _Solved, theta_of
from mogul.training.exact import fit_exact_gp, leave_one_out

MATERN = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
OTHERS = [*MATERN, "rq"]
NUM_ROWS, SHAPE = 25, 1.4


def rows(num_inputs: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(num_inputs)
    x = rng.standard_normal((NUM_ROWS, num_inputs))
    x[1] = x[0]  # coincident rows: a Matérn 1/2 has no slope there
    return x, np.sin(2 * x[:, 0]) + 0.2 * rng.standard_normal(NUM_ROWS)


def some_gp(kernel: str, num_inputs: int, *, plane: bool = False) -> ExactGP:
    """With one lengthscale for `rq`, whose peer has no other."""
    lengthscale = np.full(num_inputs, 0.8) if kernel == "rq" else np.linspace(0.6, 2.1, num_inputs)
    shape = SHAPE if kernel == "rq" else None
    return ExactGP(lengthscale, 1.7, 0.4 if plane else 0.0, 0.05, 0.0, kernel, shape)


def known_kernel(gp: ExactGP) -> Kernel:
    """scikit-learn's, without plane and noise; hyperparameters are in the order s, (α,) ℓ."""
    if gp.family == "rq":
        return ConstantKernel(gp.outputscale) * RationalQuadratic(gp.lengthscale[0], SHAPE)
    base = RBF(gp.lengthscale) if gp.family == "rbf" else Matern(gp.lengthscale, nu=MATERN[gp.family])
    return ConstantKernel(gp.outputscale) * base


def gradient(evidence: Evidence, theta: np.ndarray) -> np.ndarray:
    covariance, *parts = evidence._covariance(theta)
    solved = _Solved.of(covariance, evidence.y)
    assert solved is not None
    return evidence._gradient(theta, *parts, solved)


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("num_inputs", [1, 3])
@pytest.mark.parametrize("plane", [False, True])
def test_evidence_and_its_gradient_are_scikit_learns(plane: bool, num_inputs: int, kernel: str) -> None:
    (x, y), gp = rows(num_inputs), some_gp(kernel, num_inputs, plane=plane)
    evidence, theta = Evidence(x, y, np.ones(NUM_ROWS), plane=plane, radial=RADIALS[kernel]), theta_of(gp)
    known = known_kernel(gp) + WhiteKernel(gp.noise_var)
    if plane:
        slopes = ConstantKernel(gp.plane_var) * DotProduct(0.0, sigma_0_bounds="fixed")
        known = known + slopes + ConstantKernel(1.0, constant_value_bounds="fixed")
    peer = GaussianProcessRegressor(known, alpha=0.0, optimizer=None).fit(x, y)
    expected, slope = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)
    assert evidence.value(theta) - evidence._log_prior(theta) == pytest.approx(expected, abs=1e-9)
    own = gradient(evidence, theta)
    lengths = [own[:num_inputs].sum()] if kernel == "rq" else [*own[:num_inputs]]
    # scikit-learn sorts the parameters of RationalQuadratic: α, then ℓ.
    shape = [own[num_inputs]] if kernel == "rq" else []
    ours = [own[-3], *shape, *lengths, own[-1], *([own[-2]] if plane else [])]
    np.testing.assert_allclose(ours, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("weak", [False, True])
def test_the_gradient_with_priors_and_noise_of_each_row_is_that_of_differences(weak: bool, kernel: str) -> None:
    x, y = rows(2)
    relative = np.random.default_rng(0).uniform(0.5, 8.0, NUM_ROWS)
    evidence = Evidence(x, y, relative, plane=True, weak=weak, radial=RADIALS[kernel])
    theta = theta_of(some_gp(kernel, 2, plane=True)) + 0.3 * np.random.default_rng(1).standard_normal(
        len(evidence.prior_mean)
    )
    _, slope = evidence._loss(theta)
    for place, own in enumerate(slope):
        above, below = (evidence.value(evidence.moved(theta, place, theta[place] + step)) for step in (1e-5, -1e-5))
        assert own == pytest.approx(-(above - below) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kernel", OTHERS)
def test_rows_left_out_are_predicted_as_by_refits(kernel: str) -> None:
    (x, y), gp = rows(2), some_gp(kernel, 2)
    residual, var = leave_one_out(gp, x, y)
    for row in range(0, NUM_ROWS, 6):
        others = np.arange(NUM_ROWS) != row
        peer = GaussianProcessRegressor(known_kernel(gp), alpha=gp.noise_var, optimizer=None).fit(x[others], y[others])
        mean, std = peer.predict(x[[row]], return_std=True)
        assert residual[row] == pytest.approx(y[row] - mean[0], abs=1e-8)
        assert var[row] == pytest.approx(std[0] ** 2 + gp.noise_var, abs=1e-8)


@pytest.mark.parametrize("kernel", OTHERS)
def test_a_fitted_model_predicts_as_the_exact_gp_with_its_hyperparameters(kernel: str) -> None:
    """Inducing points, posterior and units of the start are those of this kernel."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (60, 1))
    y = np.sin(2 * x) + 0.1 * rng.standard_normal(x.shape)
    fitted = mogul.fit(x, y, kernel=kernel, mean="zero", noise="constant")
    own = fitted.model.prior.kernel
    gp = ExactGP(
        own.base_kernel.lengthscale.detach().numpy().ravel(), own.outputscale.item(), 0.0, 0.0, 0.0, kernel, None
    )
    known = known_kernel(gp)
    if kernel == "rq":
        known = known.set_params(k2__alpha=own.shape.item())
    scaled, target = (x - x.mean(0)) / x.std(0), (y - y.mean(0)) / y.std(0)
    noise = 1 / fitted.model.head.noise.log_precision.exp().item()
    peer = GaussianProcessRegressor(known, alpha=noise, optimizer=None).fit(scaled, target[:, 0])
    at = np.linspace(-2, 2, 40)[:, None]
    expected = peer.predict((at - x.mean(0)) / x.std(0)) * y.std(0) + y.mean(0)
    np.testing.assert_allclose(fitted.predict(at).mean[:, 0], expected, atol=5e-3)


@pytest.mark.parametrize("kernel", ["rbf", *OTHERS])
def test_the_uncertainty_of_the_plane_is_the_variance_that_its_prior_adds(kernel: str) -> None:
    """By brute force: the variance with the plane in the kernel less that without, of exact GPs."""
    (x, _), gp = rows(2), some_gp(kernel, 2)
    x = x + 0.01 * np.random.default_rng(5).standard_normal(x.shape)
    at = np.random.default_rng(4).uniform(-4, 4, (7, 2))
    smooth = known_kernel(gp)
    features, features_at = (np.column_stack([part, np.ones(len(part))]) for part in (x, at))
    cov, cross = smooth(x) + gp.noise_var * np.eye(NUM_ROWS), smooth(at, x)
    alone = gp.outputscale - np.einsum("ij,ji->i", cross, np.linalg.solve(cov, cross.T))
    whole_cov, whole_cross = cov + features @ features.T, cross + features_at @ features.T
    whole = gp.outputscale + np.square(features_at).sum(1)
    whole -= np.einsum("ij,ji->i", whole_cross, np.linalg.solve(whole_cov, whole_cross.T))
    plane = PlaneUncertainty.of(
        torch.as_tensor(x),
        torch.ones(NUM_ROWS, 1, dtype=torch.bool),
        torch.as_tensor(gp.lengthscale)[None],
        torch.tensor([gp.outputscale]),
        torch.tensor([gp.noise_var]),
        torch.ones(1, 3),
        shape=None if gp.shape is None else torch.tensor([gp.shape]),
        kernel=kernel,
    )
    for own in (plane, FrozenPlaneUncertainty(plane)):
        np.testing.assert_allclose(own.var(torch.as_tensor(at))[:, 0], whole - alone, rtol=1e-6, atol=1e-8)


def test_a_shape_parameter_is_learnt() -> None:
    """Draws of a kernel with a small α, and of an RBF, which is one with a large α."""
    x = np.linspace(-1.7, 1.7, 150)[:, None]
    rng = np.random.default_rng(0)
    shapes = []
    for kernel in (RationalQuadratic(0.3, 0.3), RBF(0.5)):
        y = np.linalg.cholesky(kernel(x) + 1e-6 * np.eye(150)) @ rng.standard_normal(150)
        gp = fit_exact_gp(x, (y - y.mean()) / y.std(), rng, plane=False, kernel="rq")
        assert gp.shape is not None
        shapes.append(gp.shape)
    assert 0.1 < shapes[0] < 1 < 3 < shapes[1]


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "rq"])
def test_lesser_inputs_keep_the_ratios_of_their_lengthscales(kernel):
    """With many inputs: the loss is that of all inputs, its gradient that along the directions that are climbed."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30, 60)), rng.standard_normal(30)
    evidence = Evidence(x, y, np.ones(30), plane=True, radial=RADIALS[kernel])
    assert evidence.is_wide
    theta = evidence.start(5.0, 0.3)
    theta[:60] += 0.3 * rng.standard_normal(60)
    restricted, along = evidence._restricted(theta)
    step = 0.2 * rng.standard_normal(along.shape[1])
    value, slope = restricted._loss(theta + along @ step)
    expected, full = evidence._loss(theta + along @ step)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(slope @ along, full @ along, rtol=1e-7, atol=1e-9)
    reached, best = evidence.climb(theta, 20)
    assert best > -evidence._loss(theta)[0] + 1
    assert best == pytest.approx(evidence.value(reached), rel=1e-8)
