"""What a fitted regressor says of inputs, and how well."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.helpers.small_estimators import X, Y, regressor

from mogul import MultiOutputGPRegressor
from mogul.errors import ShapeError


class TestPredict:
    """Means, standard deviations, covariances, quantiles, draws, densities."""

    def test_mean_and_deviation_are_those_of_the_fitted_model(self, fitted: MultiOutputGPRegressor) -> None:
        mean, std = fitted.predict(X, return_std=True)
        expected = fitted.fitted_.predict(X)
        np.testing.assert_allclose(mean, expected.mean, rtol=1e-8)
        np.testing.assert_allclose(std, expected.std, rtol=1e-6)
        np.testing.assert_allclose(fitted.predict(X), mean, rtol=1e-12)

    def test_covariance_has_the_variances_on_its_diagonal_and_is_positive_definite(self, fitted: Any) -> None:
        mean, cov = fitted.predict(X, return_cov=True)
        _, std = fitted.predict(X, return_std=True)
        assert cov.shape == (40, 3, 3)
        np.testing.assert_allclose(np.sqrt(np.diagonal(cov, axis1=1, axis2=2)), std, rtol=1e-12)
        np.testing.assert_array_equal(cov, cov.swapaxes(1, 2))
        assert np.linalg.eigvalsh(cov / (std[:, :, None] * std[:, None, :])).min() > 0
        np.testing.assert_allclose(mean, fitted.predict(X), rtol=1e-12)

    def test_covariance_is_that_of_draws(self) -> None:
        # One latent GP and no inducing points to speak of: outputs go up and down together.
        many = regressor(model="mogp", num_latents=1, num_samples=4000, num_inducing=2, mean="paper", epochs=5)
        many.fit(X, Y)
        _, cov = many.predict(X[:3], return_cov=True)
        draws = many.sample_y(X[:3], 40_000)
        for row in range(3):
            sampled = np.corrcoef(draws[row])
            scale = np.sqrt(np.diagonal(cov[row]))
            np.testing.assert_allclose(cov[row] / np.outer(scale, scale), sampled, atol=0.06)

    def test_quantiles_are_those_of_the_mixture(self, fitted: MultiOutputGPRegressor) -> None:
        several = fitted.predict_quantiles(X, [0.1, 0.5, 0.9])
        assert several.shape == (3, 40, 3)
        np.testing.assert_array_equal(several, fitted.fitted_.predict(X, 50).quantiles([0.1, 0.5, 0.9]))
        np.testing.assert_array_equal(fitted.predict_quantiles(X, 0.5), several[1])

    @pytest.mark.parametrize("joint", [False, True])
    def test_draws_have_scikit_learns_axes_and_the_moments_of_the_prediction(self, fitted: Any, joint: bool) -> None:
        draws = fitted.sample_y(X[:4], 4000, joint=joint)
        mean, std = fitted.predict(X[:4], return_std=True)
        assert draws.shape == (4, 3, 4000)
        assert np.all(np.abs(draws.mean(-1) - mean) < 5 * std / np.sqrt(4000))
        np.testing.assert_allclose(draws.std(-1), std, rtol=0.08)
        np.testing.assert_array_equal(draws, fitted.sample_y(X[:4], 4000, joint=joint, random_state=0))
        assert not np.array_equal(draws, fitted.sample_y(X[:4], 4000, joint=joint, random_state=1))

    def test_densities_are_in_original_units_over_what_is_there(self, fitted: MultiOutputGPRegressor) -> None:
        holes = Y.copy()
        holes[0] = holes[1, 0] = np.nan
        each = fitted.log_density(X, holes)
        assert each.shape == (40,)
        assert each[0] == 0.0
        np.testing.assert_allclose(each, fitted.fitted_.predict(X, 50).log_density(holes), rtol=1e-12)

    def test_slopes_are_those_of_the_mean(self, fitted: MultiOutputGPRegressor) -> None:
        slopes, step = fitted.jacobian(X), 1e-5
        assert slopes.shape == (40, 3, 2)
        for axis in range(2):
            shift = step * np.eye(2)[axis]
            numeric = (fitted.predict(X + shift) - fitted.predict(X - shift)) / (2 * step)
            np.testing.assert_allclose(slopes[:, :, axis], numeric, rtol=1e-4, atol=1e-4)

    def test_one_output_has_one_axis(self, single: MultiOutputGPRegressor) -> None:
        mean, std = single.predict(X, return_std=True)
        assert mean.shape == std.shape == single.predict_quantiles(X, 0.5).shape == (40,)
        assert single.predict_quantiles(X, [0.1, 0.9]).shape == (2, 40)
        assert single.predict(X, return_cov=True)[1].shape == (40, 1, 1)
        assert single.sample_y(X, 7).shape == single.sample_y(X, 7, joint=True).shape == (40, 7)
        assert single.jacobian(X).shape == (40, 2)
        assert single.log_density(X, Y[:, 0]).shape == (40,)

    def test_many_rows_come_in_parts(self, fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = fitted.predict_quantiles(X, 0.5), fitted.predict(X, return_cov=True)[1], fitted.log_density(X, Y)
        monkeypatch.setattr("mogul.estimators.base._NUMBERS_AT_ONCE", 50 * 3 * 7)
        parts = fitted.predict_quantiles(X, 0.5), fitted.predict(X, return_cov=True)[1], fitted.log_density(X, Y)
        scale = fitted.predict(X, return_std=True)[1]
        assert [part.shape for part in parts] == [each.shape for each in whole]
        assert np.abs((parts[0] - whole[0]) / scale).max() < 0.3
        np.testing.assert_array_equal(parts[0][:7], fitted.predict_quantiles(X[:7], 0.5))

    def test_a_frozen_predictor(self, fitted: MultiOutputGPRegressor) -> None:
        np.testing.assert_allclose(fitted.predictor().mean(X), fitted.predict(X), rtol=1e-10)


class TestScore:
    """R², as scikit-learn defines it."""

    def test_it_is_the_mean_over_outputs(self, fitted: MultiOutputGPRegressor) -> None:
        errors = ((Y - fitted.predict(X)) ** 2).sum(0) / ((Y - Y.mean(0)) ** 2).sum(0)
        assert fitted.score(X, Y) == pytest.approx(1 - errors.mean())

    def test_missing_values_are_left_out(self, fitted: MultiOutputGPRegressor) -> None:
        holes = Y.copy()
        holes[:20, 0] = np.nan
        assert fitted.score(X, holes) == pytest.approx(
            np.mean(
                [fitted_r2(Y[20:, 0], fitted.predict(X)[20:, 0]), *map(fitted_r2, Y.T[1:], fitted.predict(X).T[1:])]
            )
        )

    def test_another_shape_is_refused(self, fitted: MultiOutputGPRegressor) -> None:
        with pytest.raises(ShapeError, match="must have 3 columns, as in training; got 2"):
            fitted.score(X, Y[:, :2])


def fitted_r2(true: np.ndarray, guess: np.ndarray) -> float:
    return float(1 - ((true - guess) ** 2).sum() / ((true - true.mean()) ** 2).sum())


def test_the_score_goes_by_the_names_of_outputs():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.standard_normal((40, 2)), columns=["u", "v"])
    y = pd.DataFrame({"a": x["u"] + 1, "b": -3 * x["v"]})
    regressor = MultiOutputGPRegressor("mogp", epochs=2, num_starts=1, num_inducing=5).fit(x, y)
    assert regressor.score(x, y[["b", "a"]]) == pytest.approx(regressor.score(x, y))
