"""What plots draw is what the model says, on the Axes given, with the user's names."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

import mogul
from mogul import plot
from mogul.errors import ConfigError, DataError, ShapeError, UnknownNameError
from mogul.metrics import coverage

NUM_ROWS = 90


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def frames(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (NUM_ROWS, 2)), columns=["wind", "sun"])
    Y = pd.DataFrame({"turbine": 900 * np.sin(3 * X["wind"]), "panel": 0.1 * X["sun"], "grid": X["wind"] * X["sun"]})
    return X, Y * (1 + 0.05 * rng.standard_normal(Y.shape))


@pytest.fixture(scope="module")
def regressor():
    return mogul.MultiOutputGPRegressor("n-mogp", num_inducing=20, epochs=30, num_starts=2).fit(*frames())


@pytest.fixture(scope="module")
def gplvm():
    Y = np.sin(np.linspace(0, 5, 40)[:, None] + np.arange(5))
    return mogul.MultiOutputGPLVM(3, num_inducing=10, num_starts=1, inference_steps=5).fit(Y)


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def drawn_by_all(regressor, gplvm):
    X, Y = frames(1)
    return {
        "slice_through": lambda **options: plot.slice_through(regressor, X=X, **options),
        "partial_dependence": lambda **options: plot.partial_dependence(regressor, X=X, num_draws=10, **options),
        "predicted_against_true": lambda **options: plot.predicted_against_true(regressor, X, Y, **options),
        "calibration": lambda **options: plot.calibration(regressor, X, Y, **options),
        "pit_histogram": lambda **options: plot.pit_histogram(regressor, X, Y, **options),
        "learning_curve": lambda **options: plot.learning_curve(regressor, **options),
        "correlations": lambda **options: plot.correlations(regressor, X, **options),
        "relevance": lambda **options: plot.relevance(regressor, **options),
        "latent_map": lambda **options: plot.latent_map(gplvm, **options),
    }


@pytest.mark.parametrize(
    "name", [name for name in plot.__all__ if name not in ("map", "fan")]
)  # map has two, fan one for each state
def test_a_plot_is_drawn_on_the_axes_given_or_on_new_ones(name, regressor, gplvm, tmp_path):
    draw = drawn_by_all(regressor, gplvm)[name]
    given = Figure().subplots()
    assert draw(ax=given) is given
    new = draw()
    assert isinstance(new, Axes)
    assert new is not given
    assert name == "correlations" or (new.get_xlabel() and new.get_ylabel()) or name == "relevance"
    new.figure.savefig(tmp_path / "plot.svg")


def test_a_slice_shows_the_mean_and_quantiles_of_the_prediction(regressor):
    ax = plot.slice_through(regressor, "sun", "grid", at=[0.5, 99.0], level=0.5, num_points=7, num_samples=50)
    drawn = lines(ax)["predicted mean"]
    points = np.column_stack([np.full(7, 0.5), drawn.get_xdata()])
    prediction = regressor.fitted_.predict(points, 50)
    np.testing.assert_allclose(drawn.get_ydata(), prediction.mean[:, 2])
    (band,) = ax.collections
    assert band.get_label() == "25–75 %"
    edges = band.get_paths()[0].vertices[:, 1]
    low, high = prediction.quantiles([0.25, 0.75])[..., 2]
    assert edges.min() == pytest.approx(low.min())
    assert edges.max() == pytest.approx(high.max())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("sun", "grid")


def test_a_slice_spans_the_data_and_marks_them(regressor):
    X, _ = frames()
    ax = plot.slice_through(regressor, "sun", X=X[["sun", "wind"]])
    (marks,) = (part for part in ax.collections if part.get_label() == "inputs of the data")
    assert [path.vertices[0, 0] for path in marks.get_paths()] == pytest.approx(sorted(X["sun"]))
    assert ax.get_xlim() == pytest.approx((X["sun"].min(), X["sun"].max()))


def test_with_one_input_the_rows_are_drawn():
    x = np.linspace(0, 1, 30)
    fitted = mogul.MultiOutputGPRegressor("mogp", epochs=2, num_starts=1, num_latents=1).fit(x[:, None], np.sin(x))
    drawn = lines(plot.slice_through(fitted, X=x[:, None], Y=np.sin(x)))["data"]
    np.testing.assert_allclose(drawn.get_ydata(), np.sin(x))


def test_predictions_lie_over_their_true_values(regressor):
    X, Y = frames(1)
    Y.loc[3, "grid"] = np.nan
    ax = plot.predicted_against_true(regressor, X, Y[["grid", "panel", "turbine"]], "grid", num_samples=20)
    drawn = lines(ax)["mean"]
    np.testing.assert_allclose(drawn.get_xdata(), Y["grid"].dropna())
    np.testing.assert_allclose(drawn.get_ydata(), regressor.predict(X)["grid"].drop(3), rtol=1e-6, atol=1e-9)
    assert ax.get_ylabel() == "predicted grid"
    error = np.sqrt(np.mean(np.square(drawn.get_xdata() - drawn.get_ydata())))
    assert ax.get_title(loc="left") == f"RMSE {error:.3g} on {NUM_ROWS - 1} rows"


def test_calibration_shows_coverage(regressor):
    X, Y = frames(1)
    drawn = lines(plot.calibration(regressor, X, Y, num_samples=50))["all outputs"]
    pit = regressor.fitted_.predict(X, 50).cdf(Y.to_numpy())
    np.testing.assert_allclose(drawn.get_ydata(), [coverage(pit, level) for level in drawn.get_xdata()])


def test_bars_of_the_pit_histogram_have_an_area_of_one(regressor):
    ax = plot.pit_histogram(regressor, *frames(1), num_bins=8)
    bars = [patch for container in ax.containers for patch in container]
    assert len(bars) == 8
    assert sum(bar.get_height() / 8 for bar in bars) == pytest.approx(1.0)


def test_the_learning_curve_is_the_history(regressor):
    history = regressor.fitted_.history
    drawn = lines(plot.learning_curve(regressor))
    (label,) = drawn
    assert drawn[label].get_ydata().tolist() == history.elbo
    assert drawn[label].get_xdata().tolist() == list(range(1, len(history.elbo) + 1))


def test_correlations_have_names_and_the_sign_of_the_data():
    X, Y = frames()
    Y["mirror"] = -Y["turbine"]
    fitted = mogul.MultiOutputGPRegressor("mogp", num_inducing=30, epochs=60, num_starts=1).fit(X, Y)
    ax = plot.correlations(fitted, X)
    matrix = ax.images[0].get_array()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["turbine", "panel", "grid", "mirror"]
    assert matrix[0, 3] < -0.9
    np.testing.assert_allclose(matrix, matrix.T)
    np.testing.assert_allclose(matrix.diagonal(), 1.0)
    errors = plot.correlations(fitted, X, of="errors").images[0].get_array()
    assert np.abs(errors).max() <= 1 + 1e-9


def test_errors_correlate_as_the_predictive_covariance_says(regressor):
    X, _ = frames(1)
    matrix = plot.correlations(regressor, X, of="errors", num_samples=100).images[0].get_array()
    _, cov = regressor.predict(X, return_cov=True)
    scale = np.sqrt(cov.diagonal(axis1=1, axis2=2))
    np.testing.assert_allclose(matrix, (cov / scale[:, :, None] / scale[:, None, :]).mean(0), atol=1e-6)


def test_relevance_is_sorted_and_in_inverse_lengthscales(regressor):
    ax = plot.relevance(regressor)
    lengthscale = regressor.fitted_.model.prior.kernel.base_kernel.lengthscale.detach().numpy()[:, 0]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx(sorted((1 / lengthscale).mean(0)))
    assert {label.get_text() for label in ax.get_yticklabels()} == {"wind", "sun"}


@pytest.mark.parametrize("name", ["dgp", "dk-mogp", "gprn"])
def test_relevance_is_of_the_gps_on_the_inputs(name):
    fitted = mogul.MultiOutputGPRegressor(name, epochs=1, num_starts=1, num_inducing=5).fit(*frames())
    assert len(plot.relevance(fitted).patches) == 2


def test_a_map_has_a_point_and_an_ellipse_for_each_row(gplvm):
    labels = np.repeat(["left", "right"], 20)
    ax = plot.latent_map(gplvm, labels=labels, axes=(2, 0))
    means = gplvm.fitted_.latent_means
    np.testing.assert_allclose(lines(ax)["left"].get_xdata(), means[:20, 2])
    np.testing.assert_allclose(lines(ax)["right"].get_ydata(), means[20:, 0])
    ellipses = [part for part in ax.collections if isinstance(part, EllipseCollection)]
    assert [len(part.get_offsets()) for part in ellipses] == [20, 20]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("latent2", "latent0")


def test_new_rows_may_be_mapped(gplvm):
    Y = np.full((3, 5), np.nan)
    Y[:, 0] = [0.1, 0.2, 0.3]
    assert len(lines(plot.latent_map(gplvm, Y))["rows"].get_xdata()) == 3


def test_wrong_arguments_are_named(regressor, gplvm):
    X, Y = frames()
    with pytest.raises(ConfigError, match=r"got MultiOutputGPRegressor\. Call fit first"):
        plot.learning_curve(mogul.MultiOutputGPRegressor())
    with pytest.raises(UnknownNameError, match=r"along must be one of wind, sun; got .wnid.\. Did you mean .wind."):
        plot.slice_through(regressor, along="wnid")
    with pytest.raises(ConfigError, match="output must be a column from 0 to 2; got 3"):
        plot.slice_through(regressor, output=3)
    with pytest.raises(ConfigError, match=r"level must be between 0 and 1; got 80\.0"):
        plot.slice_through(regressor, level=80.0)
    with pytest.raises(ShapeError, match="at must have 2 values"):
        plot.slice_through(regressor, at=[1.0])
    with pytest.raises(DataError, match="Y must have at least one value"):
        plot.calibration(regressor, X, Y * np.nan)
    with pytest.raises(DataError, match="panel must have a value in some row"):
        plot.predicted_against_true(regressor, X, Y.assign(panel=np.nan), "panel")
    with pytest.raises(ShapeError, match="X must have at least two rows"):
        plot.correlations(regressor, X.head(1))
    with pytest.raises(ConfigError, match="this model has observed inputs"):
        plot.latent_map(regressor)
    with pytest.raises(ConfigError, match="latent1 twice"):
        plot.latent_map(gplvm, axes=(1, 1))
    with pytest.raises(ShapeError, match=r"labels must be \(40,\)"):
        plot.latent_map(gplvm, labels=[1, 2])
    with pytest.raises(ConfigError, match="at most 7 kinds; got 40"):
        plot.latent_map(gplvm, labels=np.arange(40))
    with pytest.raises(ConfigError, match="must have a lengthscale for each of 3 inputs"):
        plot.relevance(mogul.MultiOutputGPLVM(3, options={"ard": False}, num_inducing=5, num_starts=1).fit(Y.dropna()))


def test_partial_dependence_is_the_mean_over_rows(regressor):
    X, _ = frames(1)
    ax = plot.partial_dependence(regressor, "sun", "grid", X=X, num_points=7, num_draws=20)
    line = lines(ax)["predicted mean"]
    for value, drawn in zip(line.get_xdata(), line.get_ydata(), strict=True):
        assert np.isclose(regressor.predict(X.assign(sun=value))["grid"].mean(), drawn)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("sun", "grid, averaged over rows")
    assert plot.partial_dependence(regressor, num_points=5, num_draws=5).get_xlabel() == "wind"


def test_partial_dependence_of_levels_and_dates_has_their_names():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 60, 40), unit="D")
    X = pd.DataFrame({"site": rng.choice(["east", "west"], 40), "day": days, "at": rng.choice(["06:00", "12:00"], 40)})
    model = mogul.fit(X, 3.0 * (X["site"] == "west"), model="mogp", noise="constant")
    ax = plot.partial_dependence(model, "site", X=X, num_draws=20)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["east", "west"]
    heights = ax.containers[0].lines[0].get_ydata()
    assert np.allclose(heights, [0.0, 3.0], atol=0.05)
    line = lines(plot.partial_dependence(model, "day", X=X, num_points=5, num_draws=5))["predicted mean"]
    assert pd.Timestamp(line.get_xdata()[0]) == X["day"].min()
    assert plot.partial_dependence(model, "at", num_points=5, num_draws=5).get_xlim() == (0.0, 24 * 0.8)


def test_a_map_shows_mean_and_standard_deviation_at_each_place(regressor):
    X, Y = frames(1)
    left, right = plot.map(regressor, ("sun", "wind"), "grid", X=X, Y=Y, num_points=5)
    sun, wind = np.meshgrid(np.linspace(*left.get_xlim(), 5), np.linspace(*left.get_ylim(), 5))
    mean, std = regressor.predict(pd.DataFrame({"wind": wind.ravel(), "sun": sun.ravel()}), return_std=True)
    assert np.allclose(left.collections[0].get_array().ravel(), mean["grid"], atol=0.02)
    assert np.allclose(right.collections[0].get_array().ravel(), std["grid"], rtol=0.2)
    assert left.collections[1].get_offsets().shape == (NUM_ROWS, 2)
    assert np.allclose(left.collections[1].get_array(), Y["grid"])
    assert (left.get_xlabel(), left.get_ylabel()) == ("sun", "wind")


def test_a_map_draws_on_axes_that_are_given_and_needs_two_inputs(regressor):
    _, axes = plt.subplots(1, 2)
    assert plot.map(regressor, num_points=3, axes=axes) == tuple(axes)
    with pytest.raises(ConfigError, match="two inputs; got 'sun' twice"):
        plot.map(regressor, ("sun", 1))
