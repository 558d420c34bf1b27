"""A least-squares plane under a model: NumPy's own where rows are plenty, and a change of units, nothing else."""

import warnings
from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.errors import ConfigError, ShapeError
from mogul.heads import LowRankNoise
from mogul.means.linear import SMALLEST_RESIDUAL, LinearOutputMean, ZeroMean
from mogul.means.plane import PlaneUncertainty
from mogul.models import build
from mogul.objective import Analytic, Elbo, Predictive
from mogul.prediction import predict
from mogul.training import NaturalGradient, NoiseUpdate, Run, TrainingConfig

SIZES = {"num_inducing": 6, "num_top_inducing": 5, "num_mixing_inducing": 4, "num_hidden": 4}
NAMES = ["mogp", "n-mogp", "gprn", "n-sbgprn", "n-dgp"]


def planted(num_rows=400, num_inputs=3, noise=1e-3, seed=0):
    """Inputs, outputs and the plane that made them."""
    rng = np.random.default_rng(seed)
    x, weights = rng.standard_normal((num_rows, num_inputs)), rng.standard_normal((num_inputs, 2))
    return x, x @ weights + [0.5, -2.0] + noise * rng.standard_normal((num_rows, 2)), weights


def least_squares(x, y):
    """NumPy's weights and bias, and the root of the mean squared leave-one-out residual, by the hat matrix."""
    wide = np.column_stack([x, np.ones(len(x))])
    solution, *_ = np.linalg.lstsq(wide, y, rcond=None)
    leverage = np.diagonal(wide @ np.linalg.pinv(wide))[:, None]
    left_out = (y - wide @ solution) / (1 - leverage)
    return solution[:-1], solution[-1], np.sqrt(np.square(left_out).mean(axis=0))


def parts(mean):
    return mean.weights.numpy(), mean.bias.numpy(), mean.scale.numpy()


class TestFit:
    """From data to a plane."""

    def test_equals_least_squares_when_rows_are_plenty(self):
        x, y, _ = planted()
        for part, expected in zip(parts(LinearOutputMean.fit(x, y)), least_squares(x, y), strict=True):
            np.testing.assert_allclose(part, expected, rtol=0, atol=1e-6)

    def test_the_scale_is_the_leave_one_out_error(self):
        x, y, _ = planted(30, noise=0.3)
        errors = []
        for row in range(len(x)):
            weights, bias, _ = least_squares(np.delete(x, row, 0), np.delete(y, row, 0))
            errors.append(y[row] - x[row] @ weights - bias)
        np.testing.assert_allclose(
            parts(LinearOutputMean.fit(x, y))[2], np.sqrt(np.mean(np.square(errors), 0)), rtol=0.01
        )

    def test_each_output_is_fitted_on_the_rows_where_it_is_observed(self):
        x, y, _ = planted()
        y[:150, 0] = y[300:, 1] = np.nan
        mean = LinearOutputMean.fit(x, y)
        for output, rows in enumerate([slice(150, None), slice(None, 300)]):
            expected = least_squares(x[rows], y[rows, output : output + 1])
            for part, value in zip(parts(mean), expected, strict=True):
                np.testing.assert_allclose(part[..., output], value[..., 0], rtol=0, atol=1e-6)

    def test_outputs_in_one_fit_are_as_in_fits_of_their_own(self):
        x, y, _ = planted(noise=0.5)
        y = np.column_stack([y, y[:, ::-1] ** 2])
        y[::3, 2] = y[1::4, 1] = np.nan
        together = parts(LinearOutputMean.fit(x, y))
        for output in range(4):
            alone = parts(LinearOutputMean.fit(x, y[:, [output]]))
            for part, value in zip(together, alone, strict=True):
                np.testing.assert_allclose(part[..., output], value[..., 0], rtol=1e-9, atol=1e-12)

    def test_the_penalty_never_costs_what_matters(self):
        """With noise, a little shrinkage is chosen by leave-one-out error: far below the standard error of a weight."""
        x, y, _ = planted(noise=0.5)
        weights, bias, scale = parts(LinearOutputMean.fit(x, y))
        expected = least_squares(x, y)
        standard_error = 0.5 / len(x) ** 0.5
        assert np.abs(weights - expected[0]).max() < 0.1 * standard_error
        assert np.abs(bias - expected[1]).max() < 0.1 * standard_error
        np.testing.assert_allclose(scale, expected[2], rtol=1e-3)

    @pytest.mark.parametrize("difference", [0.0, 1e-12, 1e-6])
    def test_collinear_columns_share_a_weight(self, difference):
        x, _, _ = planted(100)
        rng = np.random.default_rng(1)
        twice = np.column_stack([x, x[:, 0] + difference * rng.standard_normal(100)])
        y = 2 * x[:, :1] + 0.1 * rng.standard_normal((100, 1))
        mean = LinearOutputMean.fit(twice, y)
        assert mean.weights.abs().max() < 3
        assert (mean.weights[0] + mean.weights[3]).item() == pytest.approx(2, abs=0.1)

    def test_a_constant_input_has_no_weight(self):
        x, y, _ = planted(50)
        x[:, 1] = 0.0
        mean = LinearOutputMean.fit(x, y)
        assert mean.weights[1].abs().max() < 1e-9

    @pytest.mark.parametrize(("num_rows", "num_inputs"), [(3, 1), (3, 8), (10, 30), (12, 11), (12, 12), (12, 13)])
    def test_more_inputs_than_rows_do_not_blow_up(self, num_rows, num_inputs):
        x, y, weights = planted(num_rows, num_inputs, noise=0.1)
        mean = LinearOutputMean.fit(x, y)
        assert all(bool(np.isfinite(part).all()) for part in parts(mean))
        # The minimum-norm plane through all the points is the largest that a penalty leaves.
        assert mean.weights.norm() < 10 * np.linalg.norm(weights)
        assert (mean.scale >= SMALLEST_RESIDUAL).all()

    @pytest.mark.parametrize(("num_rows", "num_inputs"), [(200, 3), (60, 50), (20, 20), (20, 40)])
    def test_the_scale_is_that_of_residuals_at_new_rows(self, num_rows, num_inputs):
        """With as many inputs as rows a plane goes through every point: its own residuals then say nothing."""
        x, y, _ = planted(num_rows + 1000, num_inputs, noise=0.1 * num_inputs**0.5)
        y = y / y.std(0)
        mean = LinearOutputMean.fit(x[:num_rows], y[:num_rows])
        residual = y[num_rows:] - mean.forward(torch.as_tensor(x[num_rows:])).numpy()
        ratio = residual.std(0) / mean.scale.numpy()
        assert (ratio > 0.3).all()
        assert (ratio < 3).all()

    def test_an_exactly_linear_output_has_the_smallest_scale(self):
        x, y, _ = planted(noise=0.0)
        mean = LinearOutputMean.fit(x, y)
        torch.testing.assert_close(mean.scale, torch.full((2,), SMALLEST_RESIDUAL).double())
        np.testing.assert_allclose(mean.forward(torch.as_tensor(x)).numpy(), y, rtol=0, atol=1e-6)

    @pytest.mark.parametrize("constant", [0.0, 3.0])
    def test_a_constant_output_is_its_bias(self, constant):
        x, y, _ = planted(20)
        y[:, 1] = constant
        mean = LinearOutputMean.fit(x, y)
        assert mean.weights[:, 1].abs().max() < 1e-12
        assert mean.bias[1].item() == pytest.approx(constant, abs=1e-12)
        assert mean.scale[1] == SMALLEST_RESIDUAL

    @pytest.mark.parametrize("num_rows", [1, 2])
    def test_one_or_two_observations_give_their_mean(self, num_rows):
        x, y, _ = planted(10)
        y[num_rows:, 0] = np.nan
        mean = LinearOutputMean.fit(x, y)
        assert not mean.weights[:, 0].any()
        assert mean.bias[0].item() == pytest.approx(y[:num_rows, 0].mean())
        assert mean.scale[0] == 1

    def test_pure_noise_keeps_nearly_its_own_scale(self):
        rng = np.random.default_rng(2)
        mean = LinearOutputMean.fit(rng.standard_normal((200, 2)), rng.standard_normal((200, 1)))
        assert mean.weights.abs().max() < 0.3
        assert 0.8 < mean.scale.item() < 1.2

    @pytest.mark.usefixtures("as_a_user_calls")
    def test_without_inputs_it_is_refused(self):
        with pytest.raises(ConfigError, match="A linear mean needs inputs"):
            LinearOutputMean.fit(np.zeros((5, 0)), np.zeros((5, 1)))

    def test_nothing_is_warned_about(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for num_rows in (3, 4, 5, 50):
                LinearOutputMean.fit(*planted(num_rows, 4)[:2])


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_restoring_undoes_the_residual(lead, generator):
    x, y, _ = planted(15, noise=0.3)
    mean = LinearOutputMean.fit(x, y)
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    residual = mean.residual(y, x)
    assert (residual.std(0, correction=0) < 1).all()  # the unit is that of rows left out
    var = torch.rand(*lead, 15, 2, generator=generator, dtype=torch.float64)
    restored = mean.restore(Marginals(residual.expand(*lead, 15, 2), var), x.expand(*lead, 15, 3))
    torch.testing.assert_close(restored.mean, y.expand(*lead, 15, 2))
    torch.testing.assert_close(restored.var, mean.scale**2 * var)


def test_no_mean_changes_nothing(generator):
    y, x = torch.randn(4, 2, generator=generator), torch.randn(4, 3, generator=generator)
    mean = ZeroMean(2)
    assert torch.equal(mean.residual(y, x), y)
    assert torch.equal(mean.restore(Marginals(y, y.abs()), x).var, y.abs())
    assert not mean.forward(x).any()


class TestInAModel:
    """With a plane, a model is the one without it on y' = (y − xW − b)/scale: all but the units are the same."""

    def pair(self, name, *, missing=True):
        """The model with a plane, that without, and their data; the two share every number of their parameters."""
        rng = np.random.default_rng(3)
        x = rng.standard_normal((14, 2))
        y = x @ rng.standard_normal((2, 3)) + np.sin(2 * x[:, :1]) + 0.1 * rng.standard_normal((14, 3))
        if missing:
            y[::3, 0] = y[1::4, 1] = np.nan
        mean = LinearOutputMean.fit(x, y)
        weights, bias, scale = parts(mean)
        inputs = torch.as_tensor(x)
        with_plane, without = (
            build(name, inputs, 3, torch.Generator().manual_seed(seed), output_mean=chosen, **SIZES)
            for seed, chosen in ((0, mean), (1, None))
        )
        state = {key: value for key, value in with_plane.state_dict().items() if not key.startswith("mean.")}
        without.load_state_dict(state | {"mean.scale": torch.ones(3).double()})
        batches = (
            Batch.of(inputs, torch.as_tensor(y)),
            Batch.of(inputs, torch.as_tensor((y - x @ weights - bias) / scale)),
        )
        return with_plane.eval(), without.eval(), *batches

    @pytest.mark.parametrize("name", NAMES)
    def test_the_bound_differs_by_the_jacobian(self, name):
        with_plane, without, batch, residuals = self.pair(name)
        elbo = Elbo(Analytic(num_samples=2), num_data=14)
        one, two = elbo(with_plane, batch, seeded()), elbo(without, residuals, seeded())
        jacobian = (batch.observed * with_plane.mean.scale.log()).sum()
        assert jacobian.abs() > 0.05
        torch.testing.assert_close(one.total(), two.total() - jacobian, rtol=1e-10, atol=1e-9)
        seen = batch.observed.expand_as(one.misfit)
        torch.testing.assert_close(one.misfit[seen], two.misfit[seen])

    @pytest.mark.parametrize("name", NAMES)
    def test_training_takes_the_same_way(self, name):
        with_plane, without, batch, residuals = self.pair(name)
        config = TrainingConfig(epochs=3, batch_size=7, updates=(NoiseUpdate(), NaturalGradient(0.1, 2)))
        for model, data in ((with_plane, batch), (without, residuals)):
            Run(model, data, config, seeded()).train(3, lambda record: None)
        others = dict(without.named_parameters())
        for key, parameter in with_plane.named_parameters():
            torch.testing.assert_close(parameter, others[key], rtol=1e-6, atol=1e-7, msg=key)

    @pytest.mark.parametrize("name", NAMES)
    def test_predictions_differ_by_the_units(self, name):
        with_plane, without, _, _ = self.pair(name)
        new = torch.randn(5, 2, generator=seeded(), dtype=torch.float64)
        one, two = (predict(model, new, 6, seeded()) for model in (with_plane, without))
        plane, scale = with_plane.mean.forward(new).numpy(), with_plane.mean.scale.numpy()
        np.testing.assert_allclose(one.mean, plane + scale * two.mean, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(one.var, scale**2 * two.var, rtol=1e-9)
        np.testing.assert_allclose(one.component_mean, plane + scale * two.component_mean, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(one.component_var, scale**2 * two.component_var, rtol=1e-9)
        draws, others = (model.sample_joint(new, 4, seeded()).detach().numpy() for model in (with_plane, without))
        np.testing.assert_allclose(draws, plane + scale * others, rtol=1e-9, atol=1e-9)
        moments = with_plane.moments(new, 6, seeded()), without.moments(new, 6, seeded())
        np.testing.assert_allclose(moments[0].var.detach(), scale**2 * moments[1].var.detach().numpy(), rtol=1e-9)

    def test_the_plane_is_saved_and_restored_with_the_model(self):
        with_plane, _, batch, _ = self.pair("n-mogp")
        state = with_plane.state_dict()
        assert {"mean.weights", "mean.bias", "mean.scale"} <= state.keys()
        blank = LinearOutputMean(*(torch.zeros_like(state[f"mean.{part}"]) for part in ("weights", "bias", "scale")))
        twin = build("n-mogp", batch.x, 3, torch.Generator().manual_seed(9), output_mean=blank, **SIZES).eval()
        twin.load_state_dict(state)
        one, two = (predict(model, batch.x, 3, seeded()) for model in (with_plane, twin))
        np.testing.assert_array_equal(one.mean, two.mean)
        np.testing.assert_array_equal(one.var, two.var)

    def test_the_plane_is_not_trained(self):
        with_plane, *_ = self.pair("mogp")
        assert not [name for name, _ in with_plane.named_parameters() if name.startswith("mean.")]

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_the_plane_has_the_precision_of_the_inputs(self, dtype):
        x, y, _ = planted(12)
        model = build("mogp", torch.as_tensor(x, dtype=dtype), 2, seeded(), output_mean=LinearOutputMean.fit(x, y))
        assert {tensor.dtype for tensor in model.state_dict().values() if tensor.is_floating_point()} == {dtype}


class TestRandomPlane:
    """With an uncertainty, a model is the one without it, and a Normal of known variance more."""

    def pair(self, name, **options):
        """A model whose plane is random and the same with a known one, and points inside and outside."""
        rng = np.random.default_rng(3)
        x = rng.standard_normal((14, 2))
        y = x @ rng.standard_normal((2, 3)) + np.sin(2 * x[:, :1])
        one, wide = torch.ones(3), torch.ones(3, 3)
        observed = torch.ones(14, 3, dtype=torch.bool)
        uncertainty = PlaneUncertainty.of(torch.as_tensor(x), observed, wide[:, 1:], one, 0.1 * one, wide)
        planes = LinearOutputMean.fit(x, y, uncertainty), LinearOutputMean.fit(x, y)
        inputs = torch.as_tensor(x)
        models = (build(name, inputs, 3, seeded(), output_mean=plane, **SIZES, **options).eval() for plane in planes)
        new = torch.cat([inputs[:2], 20 * inputs[:3]])
        return *models, new, uncertainty.var(new).numpy()

    @pytest.mark.parametrize("noise", ["constant", "gp", "student-t", "low-rank"])
    @pytest.mark.parametrize("name", NAMES)
    def test_predictions_are_as_much_wider(self, name, noise):
        random, known, new, var = self.pair(name, noise=noise)
        assert var[-1].min() > 10 * var[0].max()
        one, two = (predict(model, new, 6, seeded()) for model in (random, known))
        np.testing.assert_array_equal(one.component_mean, two.component_mean)
        np.testing.assert_allclose(one.component_var - two.component_var, np.broadcast_to(var, (6, 5, 3)), rtol=1e-6)
        np.testing.assert_allclose(one.var - two.var, var, rtol=1e-6)
        y = one.mean + 3 * one.std
        assert (one.log_density(y) > two.log_density(y))[-3:].all()

    def test_densities_of_rows_have_it_once_whatever_the_noise(self):
        """Of components that are Normal with the covariance of the noise and of the plane."""
        random, _, new, var = self.pair("mogp", noise="low-rank")
        assert isinstance(random.head.noise, LowRankNoise)
        prediction = predict(random, new, 1, seeded())
        y, unit = prediction.mean + 1.0, random.mean.scale.numpy()
        loadings = unit[:, None] * random.head.noise.loadings.detach().numpy()
        for row in range(len(y)):
            diagonal = prediction.component_var[0, row]
            cov = np.diag(diagonal) + loadings @ loadings.T * (1 - np.eye(3))
            expected = multivariate_normal(prediction.component_mean[0, row], cov).logpdf(y[row])
            assert prediction.mixture_log_density(y)[row] == pytest.approx(expected)
        assert (prediction.component_var[0] > var).all()

    @pytest.mark.parametrize("name", NAMES)
    def test_functions_are_as_much_wider(self, name):
        random, known, new, var = self.pair(name)
        draws, others = (model.sample_joint(new, 4000, seeded()).detach().numpy() for model in (random, known))
        # The numbers of the plane come last: what is left is a draw of it alone.
        np.testing.assert_allclose((draws - others).var(0), var, rtol=0.15)

    def test_numbers_at_work_are_counted(self):
        random, known, *_ = self.pair("mogp")
        for drawn, times in ((False, 1), (True, 7)):
            one, two = (model.numbers_per_row(7, drawn_inputs=drawn) for model in (random, known))
            assert one - two == times * random.mean.uncertainty.numbers_per_row

    def test_the_bound_takes_the_plane_at_its_mean_and_predictive_does_not(self):
        random, known, new, _ = self.pair("mogp")
        batch = Batch.of(new, known.mean.forward(new) + 3)
        bounds = [Elbo(Analytic(), num_data=5)(model, batch, seeded()).total() for model in (random, known)]
        assert bounds[0] == bounds[1]
        terms = [Predictive(Analytic(), num_data=5)(model, batch, seeded()) for model in (random, known)]
        assert terms[0].ell != terms[1].ell
        # Far away the plane explains what noise would have to without it.
        assert (terms[0].misfit[-3:] < terms[1].misfit[-3:]).all()

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_it_has_the_precision_of_the_model_and_a_copy_of_its_own(self, dtype):
        random, *_ = self.pair("mogp")
        copy = deepcopy(random).to(dtype)
        assert {tensor.dtype for tensor in copy.mean.state_dict().values()} == {dtype}
        copy.mean.uncertainty.root.zero_()
        assert random.mean.uncertainty.root.any()
        assert not [name for name, _ in random.named_parameters() if name.startswith("mean.")]

    @pytest.mark.usefixtures("as_a_user_calls")
    def test_one_of_another_plane_is_refused(self):
        random, *_ = self.pair("mogp")
        zeros = torch.zeros(4, 3).double(), torch.zeros(3).double(), torch.ones(3).double()
        with pytest.raises(ShapeError, match=r"\(D, P\) = \(4, 3\); got \(2, 3\). Make both from the same rows"):
            LinearOutputMean(*zeros, random.mean.uncertainty)


def seeded():
    return torch.Generator().manual_seed(7)
