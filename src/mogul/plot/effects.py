"""Effects of one or two inputs on an output: slices, partial dependence, and maps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes

from mogul._typing import Array
from mogul.data.checks import as_matrix, in_order
from mogul.data.encodings.categories import Categories
from mogul.data.encodings.dates import Dates
from mogul.errors import ConfigError, ShapeError, require_positive
from mogul.fitted.fitted import Fitted
from mogul.fitted.sensitivity import InputSpread, column_slices, draw_functions, input_rows, mean_function
from mogul.plot.style import BLUE, add_legend, axes_or_new, column_of, draw_band, draw_marks, fitted_of, truth_of

# Rows that are averaged over, and points of function draws: fewer are enough for differences from their mean.
_MOST_ROWS, _JOINT_POINTS = 500, 1200


def partial_dependence(
    model: Any,
    along: int | str = 0,
    output: int | str = 0,
    *,
    X: Any = None,
    level: float = 0.8,
    num_points: int = 40,
    num_draws: int = 200,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """The predicted mean of one output along one input, averaged over rows of the other inputs.

    The band is that of the average effect under functions drawn from the posterior: noise is not part of it. Where
    inputs depend on each other, some of the averaged points lie where there are no data.

    Args:
        model: a fitted regressor, or what `mogul.fit` gave.
        along: the input, by the name of its column or by number; a category has a point for each level.
        output: the output, by name or column.
        X: rows to average over, at most 500 of them; by default inputs are drawn independently, spread evenly over
            mean ± √3 standard deviations of training rows.
        level: probability of the band.
        num_points: points along the input.
        num_draws: functions.
        seed: of functions and rows.
        ax: where to draw.
    """
    fitted = fitted_of(model)
    place = column_of(along, fitted.input_columns, "along")
    target = column_of(output, fitted.output_names, "output")
    require_positive(num_points=num_points, num_draws=num_draws)
    if not 0 < level < 1:
        raise ConfigError(f"level must be between 0 and 1; got {level}. Try 0.8.")
    rows = _rows(fitted, X, seed)
    grid = _Grid.of(fitted, place, rows, num_points)
    mean = grid.averages(mean_function(fitted)(grid.points(rows)))[:, target]
    few = rows[: max(1, _JOINT_POINTS // len(grid.numbers))]
    draws = np.stack([grid.averages(each) for each in draw_functions(fitted, grid.points(few), num_draws, seed)])
    gaps = draws[..., target] - draws[..., target].mean(0)
    low, high = mean + np.quantile(gaps, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)

    ax = axes_or_new(ax)
    words = f"{50 - 50 * level:g}–{50 + 50 * level:g} % of functions"
    if grid.is_category:
        ax.errorbar(grid.values, mean, [mean - low, high - mean], fmt="o", color=BLUE, capsize=3, label=words)
        ax.margins(x=0.15)
    else:
        draw_band(ax, grid.values, mean, low, high, label=words)
        if X is not None and grid.is_plain:
            draw_marks(ax, rows[:, grid.own.start], label="inputs of the data")
        ax.margins(x=0)
    ax.set_xlabel(fitted.input_columns[place])
    ax.set_ylabel(f"{fitted.output_names[target]}, averaged over rows")
    add_legend(ax)
    return ax


def map(
    model: Any,
    along: tuple[int | str, int | str] = (0, 1),
    output: int | str = 0,
    *,
    at: Any = None,
    X: Any = None,
    Y: Any = None,
    num_points: int = 60,
    axes: Any = None,
) -> tuple[Axes, Axes]:
    """Mean and standard deviation of one output over two inputs, side by side, with the others fixed.

    Args:
        model: a fitted regressor, or what `mogul.fit` gave.
        along: the inputs of the horizontal and the vertical axis, by name or column.
        output: the output, by name or column.
        at: fixed values of the inputs, one for each input; by default their training means.
        X: inputs, for the range and for dots at the data; else two standard deviations around the training means.
        Y: outputs of the same rows: dots are then filled with the observed values, in the colours of the mean.
        num_points: points along each input.
        axes: a pair of Axes to draw on.

    Returns:
        the Axes of the mean, and those of the standard deviation, noise included.
    """
    fitted = fitted_of(model)
    across, up = (column_of(each, fitted.input_names, "along") for each in along)
    target = column_of(output, fitted.output_names, "output")
    if across == up:
        raise ConfigError(f"along must name two inputs; got {fitted.input_names[up]!r} twice. Use slice_through.")
    seen = None if X is None else input_rows(fitted, X)
    first, second = (input_grid(fitted, column, seen, num_points) for column in (across, up))
    points = np.tile(fixed_inputs(fitted, at), (num_points**2, 1))
    points[:, across], points[:, up] = np.tile(first, num_points), np.repeat(second, num_points)
    prediction = fitted.predict(points)

    left, right = _pair(axes)
    for ax, values, label, colours in (
        (left, prediction.mean, f"mean of {fitted.output_names[target]}", "viridis"),
        (right, prediction.std, "standard deviation, noise included", "magma"),
    ):
        square = values[:, target].reshape(num_points, num_points)
        image = ax.pcolormesh(first, second, square, shading="gouraud", cmap=colours, rasterized=True)
        ax.figure.colorbar(image, ax=ax, label=label)
        ax.set_xlabel(fitted.input_names[across])
        ax.set_ylabel(fitted.input_names[up])
        if seen is not None:
            known = None if Y is None or ax is right else truth_of(fitted, X, Y)[1][:, target]
            look = {"c": "none"} if known is None else {"c": known, "cmap": colours, "norm": image.norm}
            ax.scatter(seen[:, across], seen[:, up], s=14, edgecolors="white", linewidths=0.7, **look)
            ax.set_xlim(first[0], first[-1])
            ax.set_ylim(second[0], second[-1])
    return left, right


@dataclass(frozen=True)
class _Grid:
    """Values of one of the user's columns, as they are drawn, and the numbers that they become."""

    values: Any
    numbers: Float[Array, "G K"]
    own: slice
    is_category: bool
    is_plain: bool

    @staticmethod
    def of(fitted: Fitted, place: int, rows: Float[Array, "N D"], num_points: int) -> "_Grid":
        """Levels of a category; else from the least to the largest value in the rows."""
        encoding, own = fitted.encoding, column_slices(fitted)[place]
        column = None if encoding is None else encoding.columns[place]
        if isinstance(column, Categories):
            levels = [level or "(missing)" for level in column.levels]
            return _Grid(levels, column.apply(pd.Series(column.levels, name=column.name), "X"), own, True, False)
        low, high = rows[:, own.start].min(), rows[:, own.start].max()
        values = np.linspace(low, high, num_points)
        if not isinstance(column, Dates):
            numbers = values[:, None] if column is None else column.apply(pd.Series(values, name=column.name), "X")
            return _Grid(values, numbers, own, False, True)
        days = values if column.origin is not None else np.linspace(0, 1, num_points, endpoint=False)
        dates = (pd.Timestamp(column.origin or 0) + pd.to_timedelta(days, unit="D")).to_numpy()
        numbers = column.apply(pd.Series(dates, name=column.name), "X")
        return _Grid(dates if column.origin is not None else 24 * days, numbers, own, False, False)

    def points(self, rows: Float[Array, "N D"]) -> Float[Array, "K D"]:
        """All rows at each value, one value after the other."""
        points = np.tile(rows, (len(self.numbers), 1))
        points[:, self.own] = np.repeat(self.numbers, len(rows), axis=0)
        return points

    def averages(self, values: Float[Array, "K P"]) -> Float[Array, "G P"]:
        """The mean over rows, at each value."""
        result: Array = values.reshape(len(self.numbers), -1, values.shape[1]).mean(1)
        return result


def _rows(fitted: Fitted, X: Any, seed: int) -> Float[Array, "N D"]:
    """Rows to average over, in random order."""
    rng = np.random.default_rng(seed)
    if X is not None:
        rows = input_rows(fitted, X)
        return rows[rng.permutation(len(rows))[:_MOST_ROWS]]
    return InputSpread.of(fitted).at(rng.uniform(size=(_MOST_ROWS, len(fitted.input_columns))))


def _pair(axes: Any) -> tuple[Axes, Axes]:
    """The two Axes given, or those of a new figure."""
    if axes is not None:
        left, right = axes
        return left, right
    from matplotlib import pyplot as plt  # chooses a backend, which only a new figure needs

    _, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    return left, right


def slice_through(
    model: Any,
    along: int | str = 0,
    output: int | str = 0,
    *,
    at: Any = None,
    X: Any = None,
    Y: Any = None,
    level: float = 0.8,
    num_points: int = 120,
    num_samples: int = 1000,
    ax: Axes | None = None,
) -> Axes:
    """Mean and central interval of one output along one input, with the other inputs fixed.

    Args:
        model: a fitted regressor, or what `mogul.fit` gave.
        along: the input that varies, by name or column.
        output: the output, by name or column.
        at: fixed values of the inputs, one for each input; by default their training means.
        X: inputs, for the range of the slice and marks at the data; else two standard deviations around the training
            mean.
        Y: outputs of the same rows, drawn only if there is one input: with more, rows do not lie on the slice.
        level: probability of the interval, noise included.
        num_points: points along the slice.
        num_samples: draws of the predictive mixture.
        ax: where to draw.
    """
    fitted = fitted_of(model)
    column = column_of(along, fitted.input_names, "along")
    target = column_of(output, fitted.output_names, "output")
    if not 0 < level < 1:
        raise ConfigError(f"level must be between 0 and 1; got {level}. Try 0.8.")
    seen = None if X is None else as_matrix(in_order(fitted.encoded(X), fitted.input_names, "X"), "X")[0]
    grid = input_grid(fitted, column, seen, num_points)
    points = np.tile(fixed_inputs(fitted, at), (num_points, 1))
    points[:, column] = grid
    prediction = fitted.predict(points, num_samples).outputs(slice(target, target + 1))
    low, high = prediction.quantiles([0.5 - 0.5 * level, 0.5 + 0.5 * level])[..., 0]

    ax = axes_or_new(ax)
    draw_band(ax, grid, prediction.mean[:, 0], low, high, label=f"{50 - 50 * level:g}–{50 + 50 * level:g} %")
    if seen is not None and Y is not None and seen.shape[1] == 1:
        ax.plot(seen[:, 0], _outputs(Y, len(seen))[:, target], ".", color="black", ms=4, alpha=0.6, label="data", lw=0)
    elif seen is not None:
        draw_marks(ax, seen[:, column], label="inputs of the data")
    ax.set_xlabel(fitted.input_names[column])
    ax.set_ylabel(fitted.output_names[target])
    ax.margins(x=0)
    add_legend(ax)
    return ax


def input_grid(fitted: Fitted, column: int, seen: Float[Array, "N D"] | None, num_points: int) -> Float[Array, "K"]:
    """Values of an input over the range of rows, or over two standard deviations around its training mean."""
    if seen is not None:
        return np.linspace(seen[:, column].min(), seen[:, column].max(), num_points)
    middle, scale = fitted.scaling.inputs.shift[column], fitted.scaling.inputs.scale[column]
    return np.linspace(middle - 2 * scale, middle + 2 * scale, num_points)


def fixed_inputs(fitted: Fitted, at: Any) -> Float[Array, "D"]:
    """Values of all inputs where they do not vary: these, or their training means."""
    if at is None:
        return fitted.scaling.inputs.shift.copy()
    held = np.asarray(fitted.encoded(at) if hasattr(at, "columns") else at, dtype=np.float64).reshape(-1)
    if len(held) != len(fitted.input_names):
        raise ShapeError(
            f"at must have {len(fitted.input_names)} values, one for each input; got {len(held)}. Give a row of X."
        )
    return held


def _outputs(Y: Any, num_rows: int) -> Float[Array, "N P"]:
    values: Array = np.asarray(Y, dtype=np.float64).reshape(num_rows, -1)
    return values
