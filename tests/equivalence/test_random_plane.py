"""An exact model whose plane is random is scikit-learn's GP with a linear kernel beside the RBF."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from mogul.data import Batch
from mogul.fitted.predictor import PooledPredictor, Predictor
from mogul.heads import BayesianMixing, ConstantNoise, Head, Identity
from mogul.means.linear import LinearOutputMean
from mogul.means.plane import PlaneUncertainty, generalised_least_squares
from mogul.models.model import Model, Observed
from mogul.objective import Analytic, Predictive
from mogul.prediction import predict
from mogul.priors import Cholesky, IndependentGPs, rbf
from mogul.training.loop import held_out_score

# Inside the rows, at their edge, and far outside.
POINTS = np.array([[0.1, -0.4], [1.4, 1.2], [2.5, -3.0], [-50.0, 20.0]])
UNIT = torch.tensor([0.3, 2.0], dtype=torch.float64)  # the head's, which must not matter


@dataclass(frozen=True)
class Setting:
    """Hyperparameters of one output; all slopes have one prior variance, as in scikit-learn."""

    lengthscale: tuple[float, ...]
    outputscale: float
    noise_var: float
    slope_var: float
    bias_var: float

    def kernel(self):
        linear = ConstantKernel(self.slope_var) * DotProduct(np.sqrt(self.bias_var / self.slope_var))
        return linear + ConstantKernel(self.outputscale) * RBF(self.lengthscale) + WhiteKernel(self.noise_var)


SETTINGS = [Setting((0.8, 1.5), 0.7, 0.04, 1.7, 0.9), Setting((2.0, 0.6), 1.9, 0.3, 0.6, 2.0)]


def rows(num_rows=25, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, (num_rows, 2))
    return x, np.column_stack([np.sin(2 * x[:, 0]), x[:, 1] ** 2]) + 0.1 * rng.standard_normal((num_rows, 2))


def exact(x, y, settings):
    """scikit-learn's regressors, one per output."""
    pairs = zip(settings, y.T, strict=True)
    return [GaussianProcessRegressor(s.kernel(), alpha=0.0, optimizer=None).fit(x, column) for s, column in pairs]


def exact_model(x, y, settings, unit=None):
    """A MOGP with an inducing point at each row, a GP for each output, and q(u) at its optimum."""
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    unit = torch.ones(y.shape[1], dtype=torch.float64) if unit is None else unit
    lengthscale, outputscale, noise_var, slope_var, bias_var = (
        torch.tensor([vars(setting)[name] for setting in settings], dtype=torch.float64)
        for name in ("lengthscale", "outputscale", "noise_var", "slope_var", "bias_var")
    )
    prior_var = torch.cat([slope_var[:, None].expand(-1, x.shape[1]), bias_var[:, None]], dim=1)
    observed = torch.ones_like(y, dtype=torch.bool)
    weights, bias, uncertainty = generalised_least_squares(
        x, y, observed, lengthscale, outputscale, noise_var, prior_var
    )
    mean = LinearOutputMean(weights, bias, unit, uncertainty)
    num_outputs = len(settings)
    mixing, noise = BayesianMixing(num_outputs, num_outputs, torch.Generator()), ConstantNoise(num_outputs)
    prior = _optimal_prior(x, mean.residual(y, x), lengthscale, outputscale / unit**2, noise_var / unit**2)
    model = Model(Observed(), prior, Head(Identity(num_outputs), mixing, noise), mean).double()
    with torch.no_grad():
        mixing.mean.copy_(torch.eye(num_outputs))
        mixing.log_scale.fill_(-40)
        noise.log_precision.copy_(-torch.log(noise_var / unit**2))
    return model.eval()


@torch.no_grad()
def _optimal_prior(x, target, lengthscale, outputscale, noise_var):
    """With A = L⁻¹K: Var v = (I + AAᵀ/σ²)⁻¹ and E v = Var v · Ay/σ²."""
    kernel = rbf(x.shape[1], len(outputscale)).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = lengthscale[:, None], outputscale
    prior = IndependentGPs(kernel, x, len(outputscale), mean="zero", solver=Cholesky(jitter=1e-10))
    dense = kernel(x).to_dense()
    eye = torch.eye(len(x), dtype=torch.float64)
    root = torch.linalg.cholesky(dense + 1e-10 * outputscale[:, None, None] * eye)
    cross = torch.linalg.solve_triangular(root, dense, upper=False)
    cov = torch.linalg.inv(eye + cross @ cross.mT / noise_var[:, None, None])
    prior.variational_mean.copy_((cov @ (cross @ target.T[..., None]))[..., 0] / noise_var[:, None])
    prior.variational_root.copy_(torch.linalg.cholesky(0.5 * (cov + cov.mT)))
    return prior


@pytest.fixture(scope="module")
def fitted():
    """A model, and scikit-learn's mean and variance (noise included) at the points."""
    x, y = rows()
    found = [one.predict(POINTS, return_std=True) for one in exact(x, y, SETTINGS)]
    mean, std = (np.column_stack(part) for part in zip(*found, strict=True))
    return exact_model(x, y, SETTINGS, UNIT), mean, std**2


def seeded():
    return torch.Generator().manual_seed(7)


class TestSameAsScikitLearn:
    """Wherever a variance is asked for, inside and far outside the rows."""

    def test_moments(self, fitted):
        model, mean, var = fitted
        x = torch.as_tensor(POINTS)
        signal = model.moments(x, 1, seeded())
        np.testing.assert_allclose(signal.mean.detach(), mean, rtol=1e-6)
        np.testing.assert_allclose((signal.var + model.noise_var(x, seeded())).detach(), var, rtol=1e-5)

    def test_prediction(self, fitted):
        model, mean, var = fitted
        prediction = predict(model, torch.as_tensor(POINTS), 4000, seeded())
        np.testing.assert_allclose(prediction.mean, mean, rtol=1e-6)
        np.testing.assert_allclose(prediction.var, var, rtol=1e-5)
        of_components = prediction.component_var.mean(0) + prediction.component_mean.var(0)
        np.testing.assert_allclose(of_components, var, rtol=5 * np.sqrt(2 / 4000))
        y = mean + np.sqrt(var) * np.array([1.0, -2.0])
        expected = stats.norm(mean, np.sqrt(var)).logpdf(y).sum(-1)
        np.testing.assert_allclose(prediction.log_density(y), expected, atol=0.1)
        low, high = prediction.quantiles([0.1, 0.9])
        np.testing.assert_allclose(high - low, 2 * stats.norm.ppf(0.9) * np.sqrt(var), rtol=0.05)

    @pytest.mark.parametrize(("precision", "tolerance"), [(torch.float64, 1e-5), (torch.float32, 2e-3)])
    def test_frozen_predictor(self, fitted, precision, tolerance):
        model, mean, var = fitted
        single = Predictor.of(model, precision=precision)
        for predictor in (single, PooledPredictor([single, single])):
            found = predictor.mean_std(torch.as_tensor(POINTS))
            np.testing.assert_allclose(found[0], mean, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(found[1], np.sqrt(var), rtol=tolerance)

    def test_the_jacobian_is_that_of_the_mean(self, fitted):
        model, *_ = fitted
        certain = deepcopy(model)
        certain.mean.uncertainty = None
        one, two = (Predictor.of(each).jacobian(torch.as_tensor(POINTS)) for each in (model, certain))
        torch.testing.assert_close(one, two)

    def test_densities_of_held_out_rows_and_of_the_predictive_objective(self, fitted):
        model, mean, var = fitted
        y = mean + np.sqrt(var) * np.array([1.0, -2.0])
        batch = Batch.of(torch.as_tensor(POINTS), torch.as_tensor(y))
        expected = stats.norm(mean, np.sqrt(var)).logpdf(y).sum()
        assert held_out_score(model, batch, seeded()) == pytest.approx(expected / y.size, abs=1e-4)
        terms = Predictive(Analytic(), num_data=len(y))(model, batch, seeded())
        assert terms.ell.item() == pytest.approx(expected, abs=1e-3)

    def test_functions_have_the_covariance_over_points(self, fitted):
        model, mean, _ = fitted
        x, y = rows()
        count = 20_000
        with torch.no_grad():
            draws = model.sample_joint(torch.as_tensor(POINTS), count, seeded()).numpy()
        for output, one in enumerate(exact(x, y, SETTINGS)):
            cov = one.predict(POINTS, return_cov=True)[1] - SETTINGS[output].noise_var * np.eye(len(POINTS))
            gap = draws[..., output] - mean[:, output]
            std = np.sqrt(np.diag(cov))
            np.testing.assert_array_less(np.abs(gap.mean(0)), 5 * std / np.sqrt(count))
            allowed = 5 * np.outer(std, std) * np.sqrt(2 / count)
            np.testing.assert_array_less(np.abs(gap.T @ gap / count - cov), allowed)

    def test_draws_of_inputs_have_variances_of_their_own(self, fitted):
        model, _, var = fitted
        x = torch.as_tensor(POINTS).expand(5, 4, 2)
        q = model.prior(x, 5, seeded())
        own = (model.outputs(q, x, seeded()).var + model.noise_var(x, seeded())).detach()
        np.testing.assert_allclose(own, np.broadcast_to(var, own.shape), rtol=1e-5)


def learnt(x, y):
    """Settings by scikit-learn's own search."""
    start = (
        ConstantKernel(1.0, (1e-3, 1e3)) * DotProduct(1.0, (1e-3, 1e3))
        + ConstantKernel(0.1, (1e-6, 1e3)) * RBF(np.full(x.shape[1], 0.7), (0.05, 50.0))
        + WhiteKernel(0.01, (1e-6, 10.0))
    )
    return [_setting(GaussianProcessRegressor(start, alpha=1e-10, random_state=0).fit(x, column)) for column in y.T]


def _setting(regressor):
    linear, smooth, white = regressor.kernel_.k1.k1, regressor.kernel_.k1.k2, regressor.kernel_.k2
    lengthscale = tuple(np.broadcast_to(smooth.k2.length_scale, regressor.n_features_in_))
    slope_var = linear.k1.constant_value
    noise_var, bias_var = white.noise_level, slope_var * linear.k2.sigma_0**2
    return Setting(lengthscale, smooth.k1.constant_value, noise_var, slope_var, bias_var)


def held(mean, std, truth):
    """The share of truths in bands of 95 %, for each output."""
    return (np.abs(truth - mean) < 1.96 * std).mean(0)


@pytest.mark.filterwarnings("ignore:The optimal value:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:lbfgs failed to converge:sklearn.exceptions.ConvergenceWarning")
class TestCoverageOutside:
    """Bands where the model has to extrapolate, with hyperparameters from scikit-learn."""

    def test_of_two_functions(self):
        """Those of scikit-learn: for the square that is 50 to 85 %, whatever the plane, since its RBF is too sure."""
        shares, others = [], []
        for seed in range(3):
            x, y = rows(80, seed)
            settings = learnt(x, y)
            predictor = Predictor.of(exact_model(x, y, settings))
            rng = np.random.default_rng(100 + seed)
            square = rng.uniform(-3, 3, (1500, 2))
            far = square[np.abs(square).max(1) > 1.5]
            truth = np.column_stack([np.sin(2 * far[:, 0]), far[:, 1] ** 2]) + 0.1 * rng.standard_normal((len(far), 2))
            mean, std = (part.numpy() for part in predictor.mean_std(torch.as_tensor(far)))
            shares.append(held(mean, std, truth))
            found = [one.predict(far, return_std=True) for one in exact(x, y, settings)]
            others.append(held(*(np.column_stack(part) for part in zip(*found, strict=True)), truth))
            near = predictor.mean_std(torch.as_tensor(x))[1].numpy()
            assert (std.mean(0) > 2 * near.mean(0)).all()
        np.testing.assert_allclose(shares, others, atol=2e-3)
        assert np.mean(shares, axis=0)[0] >= 0.85

    def test_of_a_true_plane(self):
        """30 rows on [−1.5, 1.5]; with coefficients taken for known, under half of the truths are in their bands."""
        far = np.array([[10.0], [50.0], [-10.0], [-50.0]])
        shares = {"random": [], "known": []}
        for seed in range(12):
            rng = np.random.default_rng(seed)
            x = rng.uniform(-1.5, 1.5, (30, 1))
            y = 2 * x + 1 + 0.3 * rng.standard_normal((30, 1))
            model = exact_model(x, y, learnt(x, y))
            truth = 2 * far + 1 + 0.3 * rng.standard_normal(far.shape)
            for name in shares:
                model.mean.uncertainty = model.mean.uncertainty if name == "random" else None
                mean, std = (part.numpy() for part in Predictor.of(model).mean_std(torch.as_tensor(far)))
                shares[name].append(np.abs(truth - mean)[:, 0] < 1.96 * std[:, 0])
        assert np.mean(shares["random"], axis=0).min() >= 0.85
        assert np.mean(shares["known"]) < 0.5


def test_rows_that_stand_for_others_are_repeated_rows() -> None:
    """Without a GP, V is the noise's: four copies of each row say four times as much of a plane."""
    x = torch.randn(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    settings = one.expand(1, 2), 0 * one, 0.3 * one, torch.full((1, 3), 2.0, dtype=torch.float64)
    seen = torch.ones(48, 1, dtype=torch.bool)
    standing = PlaneUncertainty.of(x, seen[:12], *settings, times=4.0)
    repeated = PlaneUncertainty.of(x.repeat(4, 1), seen, *settings)
    torch.testing.assert_close(standing.root @ standing.root.mT, repeated.root @ repeated.root.mT)
