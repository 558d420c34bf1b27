"""Predictions along one input."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from mogul._typing import Array
from mogul.data.checks import as_matrix, in_order
from mogul.errors import ConfigError, ShapeError
from mogul.fitted.fitted import Fitted
from mogul.plot.style import add_legend, axes_or_new, column_of, draw_band, draw_marks, fitted_of


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
    grid = _grid(fitted, column, seen, num_points)
    points = np.tile(_held(fitted, at), (num_points, 1))
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


def _grid(fitted: Fitted, column: int, seen: Float[Array, "N D"] | None, num_points: int) -> Float[Array, "K"]:
    if seen is not None:
        return np.linspace(seen[:, column].min(), seen[:, column].max(), num_points)
    middle, scale = fitted.scaling.inputs.shift[column], fitted.scaling.inputs.scale[column]
    return np.linspace(middle - 2 * scale, middle + 2 * scale, num_points)


def _held(fitted: Fitted, at: Any) -> Float[Array, "D"]:
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
