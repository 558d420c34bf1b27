"""What a choice of mean stands for in a fit."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from tests.helpers.quick_fits import waves

from mogul.data import Batch, Dataset
from mogul.errors import ConfigError, UnknownNameError
from mogul.means.linear import LinearOutputMean, ZeroMean
from mogul.means.plane import PlaneUncertainty
from mogul.training import Fitted, TrainingConfig, fit
from mogul.training.exact_start import ExactStart


def plane(num_rows: int = 30) -> tuple[Dataset, np.ndarray]:
    """Outputs of very different units on a plane, nearly, and the weights that made them; the bias is (7, −2)."""
    rng = np.random.default_rng(1)
    x, weights = rng.normal(50, 20, (num_rows, 2)), np.array([[300.0, 1e-4], [-100.0, 3e-4]])
    noise = rng.normal(0, 1e-6, (num_rows, 2)) * [1e4, 1e-2]
    return Dataset(x, x @ weights + [7.0, -2.0] + noise), weights


class TestMean:
    """What a choice of mean stands for."""

    def fitted(self, name: str = "mogp", data: Dataset | None = None, **options: Any) -> Fitted:
        config = TrainingConfig(epochs=1, num_starts=1)
        return fit(
            waves() if data is None else data,
            model=name,
            config=config,
            num_inducing=6,
            **({"noise": "constant"} | options),
        )

    @pytest.mark.parametrize("name", ["mogp", "n-mogp", "sbgprn", "gprn", "dgp"])
    @pytest.mark.parametrize("options", [{}, {"mean": "linear"}], ids=["default", "linear"])
    def test_linear_is_the_default_and_least_squares_in_standard_units(self, name, options):
        data = waves(60)
        fitted = self.fitted(name, data, **options)
        mean = fitted.model.mean
        assert isinstance(mean, LinearOutputMean)
        truth = LinearRegression().fit(data.x, data.y)
        centre = data.x.mean(0, keepdims=True)
        at = torch.as_tensor(fitted.scaling.inputs.apply(np.vstack([centre, centre + 1])))
        values = mean.forward(at).numpy() * fitted.scaling.outputs.scale + fitted.scaling.outputs.shift
        spread = data.y.std(0)
        np.testing.assert_allclose(values[0] / spread, truth.predict(centre)[0] / spread, atol=1e-9)
        # The penalty shrinks a slope, never by much.
        np.testing.assert_allclose((values[1] - values[0]) / spread, truth.coef_[:, 0] / spread, atol=0.05)

    @pytest.mark.parametrize(
        ("mean", "name", "learnt"),
        [
            ("paper", "mogp", True),
            ("paper", "n-mogp", False),
            ("zero", "mogp", False),
            ("constant", "n-mogp", True),
            ("linear", "mogp", True),
            ("linear", "n-mogp", False),
        ],
    )
    def test_the_latent_gps_have_the_mean_asked_for(self, mean, name, learnt):
        model = self.fitted(name, mean=mean).model
        assert isinstance(model.mean, LinearOutputMean if mean == "linear" else ZeroMean)
        assert ("prior.mean.constant" in dict(model.named_parameters())) == learnt

    def test_latent_inputs_have_no_plane_and_refuse_one(self):
        fitted = self.fitted("mogp-lvm", mean="paper")
        assert isinstance(fitted.model.mean, ZeroMean)
        assert isinstance(self.fitted("mogp-lvm").model.mean, ZeroMean)
        with pytest.raises(ConfigError, match="mean='linear' needs inputs that are observed"):
            self.fitted("mogp-lvm", mean="linear")

    def test_the_papers_preset_has_the_papers_mean(self):
        def mean(preset: str, **given: Any) -> object:
            return fit(waves(), model="mogp", preset=preset, epochs=1, num_starts=1, **given).model.mean

        assert isinstance(mean("paper"), ZeroMean)
        assert isinstance(mean("paper", mean="linear"), LinearOutputMean)
        assert isinstance(mean("default"), LinearOutputMean)

    @pytest.mark.usefixtures("as_a_user_calls")
    def test_an_unknown_mean_is_refused(self):
        with pytest.raises(UnknownNameError, match=r"mean must be one of linear, .* Did you mean 'linear'"):
            self.fitted(mean="linaer")

    @pytest.mark.parametrize("precision", ["float32", "float64"])
    @pytest.mark.parametrize("name", ["mogp", "n-sbgprn"])
    def test_a_plane_is_predicted_in_the_users_units(self, name, precision):
        data, weights = plane()
        config = TrainingConfig(epochs=5, num_starts=1, precision=precision)
        fitted = fit(data, model=name, config=config, noise="constant", num_inducing=10)
        new = np.random.default_rng(2).normal(50, 20, (20, 2))
        prediction = fitted.predict(new)
        spread = data.y.std(0)
        np.testing.assert_allclose(prediction.mean / spread, (new @ weights + [7.0, -2.0]) / spread, rtol=0, atol=2e-3)
        assert (prediction.var > 0).all()
        assert (prediction.var**0.5 < 5e-3 * spread).all()

    def test_missing_outputs_are_missing_in_the_plane_too(self):
        data, weights = plane()
        y = data.y.copy()
        y[::3, 0] = y[1::4, 1] = np.nan
        fitted = fit(
            Dataset(data.x, y),
            model="mogp",
            config=TrainingConfig(epochs=5, num_starts=1),
            noise="constant",
            num_inducing=10,
        )
        np.testing.assert_allclose(
            fitted.predict(data.x).mean / data.y.std(0), (data.x @ weights + [7.0, -2.0]) / data.y.std(0), atol=2e-3
        )


def test_uncertainty_of_a_linear_mean_is_that_of_least_squares_for_linear_outputs() -> None:
    """In single precision too: GPs that are a second linear mean made it a difference of large numbers."""
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((3000, 12)), 1e-3
    y = np.column_stack([x @ rng.standard_normal(12), np.sin(x[:, 0])])
    y = y / y.std(0) + noise * rng.standard_normal(y.shape)
    batch = Batch.of(torch.as_tensor(x), torch.as_tensor(y))
    rows = torch.arange(400)
    plane = (
        ExactStart.of(batch.rows(rows), 0, plane=True, rough=True, reweighted=0)
        .plane_of(LinearOutputMean.fit(batch.x.numpy(), batch.y.numpy()), len(batch))
        .uncertainty
    )
    assert isinstance(plane, PlaneUncertainty)
    near, far = torch.as_tensor(x[:100]), torch.full((1, 12), 30.0).double()
    features = np.column_stack([x, np.ones(len(x))])
    covariance = noise**2 * np.linalg.inv(features.T @ features)
    for points in (near, far):
        at = np.column_stack([points, np.ones(len(points))])
        expected = np.einsum("nd,de,ne->n", at, covariance, at).mean()
        for each in (plane.double(), plane.float()):
            found = float(each.var(points.to(each.rows.dtype))[:, 0].mean())
            assert 0.3 * expected < found < 3 * expected
