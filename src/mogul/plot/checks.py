"""Checks of a fitted model: how training went, predictions against the truth, and calibration."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import binom

from mogul._typing import Array
from mogul.errors import DataError, require_positive
from mogul.metrics import coverage
from mogul.plot.style import BLUE, FAINT, GREY, add_legend, axes_or_new, column_of, draw_marks, fitted_of, truth_of

# Largest number of intervals drawn; beyond it only points are drawn.
_MOST_INTERVALS = 150


def predicted_against_true(
    model: Any, X: Any, Y: Any, output: int | str = 0, *, num_samples: int = 300, ax: Axes | None = None
) -> Axes:
    """Predicted mean of one output against its true value, with 10–90 % intervals for few rows.

    Args:
        model: a fitted regressor, or what `mogul.fit` gave.
        X: inputs of test rows.
        Y: their outputs; missing values (NaN) are left out.
        output: which output, by name or column.
        num_samples: draws of the predictive mixture.
        ax: where to draw.
    """
    fitted = fitted_of(model)
    target = column_of(output, fitted.output_names, "output")
    x, y = truth_of(fitted, X, Y)
    rows = np.flatnonzero(~np.isnan(y[:, target]))
    if not len(rows):
        raise DataError(f"{fitted.output_names[target]} must have a value in some row; all are NaN. Take other rows.")
    prediction = fitted.predict(x[rows], num_samples).outputs(slice(target, target + 1))
    true, mean = y[rows, target], prediction.mean[:, 0]

    ax = axes_or_new(ax, size=(4.4, 4.2))
    ends = np.array([min(true.min(), mean.min()), max(true.max(), mean.max())])
    ax.plot(ends, ends, color=GREY, lw=1, label="predicted = true")
    if len(rows) <= _MOST_INTERVALS:
        low, high = prediction.quantiles([0.1, 0.9])[..., 0]
        ax.vlines(true, low, high, color=BLUE, lw=1, alpha=0.35, label="10–90 %")
    ax.plot(true, mean, "o", color=BLUE, ms=3.5, mew=0, alpha=max(0.15, min(0.8, 150 / len(rows))), label="mean")
    name = fitted.output_names[target]
    ax.set_xlabel(f"true {name}")
    ax.set_ylabel(f"predicted {name}")
    ax.set_title(f"RMSE {np.sqrt(np.mean(np.square(true - mean))):.3g} on {len(rows)} rows", loc="left", size="medium")
    add_legend(ax, loc="upper left")
    return ax


def calibration(model: Any, X: Any, Y: Any, *, num_samples: int = 300, ax: Axes | None = None) -> Axes:
    """Coverage of the model's central intervals against their nominal probability.

    Below the diagonal the model is overconfident; above it, underconfident.

    Args:
        model: a fitted regressor, or what `mogul.fit` gave.
        X: inputs of test rows.
        Y: their outputs; missing values (NaN) are left out.
        num_samples: draws of the predictive mixture.
        ax: where to draw.
    """
    fitted = fitted_of(model)
    pit = _pit(model, X, Y, num_samples)
    levels = np.linspace(0.0, 1.0, 51)
    ax = axes_or_new(ax, size=(4.4, 4.2))
    ax.plot([0, 1], [0, 1], color=GREY, lw=1, label="calibrated")
    if pit.shape[1] > 1:
        known = [column[:, None] for column in pit.T if not np.isnan(column).all()]
        for number, column in enumerate(known):
            each = [coverage(column, level) for level in levels]
            ax.plot(levels, each, color=FAINT, lw=0.8, zorder=1, label=None if number else "each output")
    everything = [coverage(pit, level) for level in levels]
    name = "all outputs" if pit.shape[1] > 1 else fitted.output_names[0]
    ax.plot(levels, everything, color=BLUE, lw=2, label=name)
    ax.set_title("below the diagonal: too sure", loc="left", size="small", color=GREY)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability of a central interval", ylabel="share of true values inside")
    ax.set_aspect("equal")
    add_legend(ax, loc="best")
    return ax


def pit_histogram(
    model: Any, X: Any, Y: Any, *, num_bins: int = 20, num_samples: int = 300, ax: Axes | None = None
) -> Axes:
    """Histogram of the probability integral transform P(output ≤ truth): flat if the model is calibrated.

    A hump in the middle is underconfidence, a trough overconfidence, a slope bias. Nine of ten bars lie in the grey
    band by chance if all values are independent.

    Args:
        model: a fitted regressor, or what `mogul.fit` gave.
        X: inputs of test rows.
        Y: their outputs; missing values (NaN) are left out.
        num_bins: number of bars.
        num_samples: draws of the predictive mixture.
        ax: where to draw.
    """
    require_positive(num_bins=num_bins)
    pit = _pit(model, X, Y, num_samples)
    values = pit[~np.isnan(pit)]
    ax = axes_or_new(ax)
    low, high = (binom.ppf(level, len(values), 1 / num_bins) * num_bins / len(values) for level in (0.05, 0.95))
    ax.axhspan(low, high, color=FAINT, alpha=0.5, lw=0, label="by chance")
    ax.hist(values, bins=num_bins, range=(0, 1), density=True, color=BLUE, alpha=0.75, rwidth=0.9, label="true values")
    ax.set(xlim=(0, 1), xlabel="P(output ≤ truth)", ylabel="share of values, 1 if calibrated")
    ax.margins(y=0.2)
    add_legend(ax, loc="upper right", ncols=2)
    return ax


def _pit(model: Any, X: Any, Y: Any, num_samples: int) -> Float[Array, "N P"]:
    """P(output ≤ truth) for each row and output."""
    fitted = fitted_of(model)
    x, y = truth_of(fitted, X, Y)
    if np.isnan(y).all():
        raise DataError("Y must have at least one value; all are NaN. Give rows with known outputs.")
    return fitted.predict(x, num_samples).cdf(y)


def learning_curve(model: Any, *, ax: Axes | None = None) -> Axes:
    """The training objective, epoch by epoch, of each random start.

    The first tenth of the epochs, where it rises steeply, may lie below the axes.

    Args:
        model: a fitted estimator, or what `mogul.fit` gave; for a mixture of models, the first is drawn, and `members`
            has the others.
        ax: where to draw.
    """
    history = fitted_of(model).history
    frame = history.frame()
    ax = axes_or_new(ax)
    others = frame[frame["start"] != history.chosen_start]
    for number, (_, records) in enumerate(others.groupby("start")):
        ax.plot(1 + records["epoch"], records["elbo"], color=FAINT, lw=1, label=None if number else "other starts")
    chosen = frame[frame["start"] == history.chosen_start]
    epochs, elbo = 1 + chosen["epoch"].to_numpy(), chosen["elbo"].to_numpy()
    ax.plot(epochs, elbo, color=BLUE, lw=1.8, label="best start" if len(others) else "training")
    changes = epochs[1:][np.diff(chosen["learning_rate"].to_numpy()) < 0]
    if len(changes):
        draw_marks(ax, changes, label="learning rate lowered")
    late = elbo[len(elbo) // 10 :]
    spread = max(late.max() - late.min(), 1e-9)
    ax.set_ylim(late.min() - 0.05 * spread, elbo.max() + 0.05 * spread)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("epoch")
    ax.set_ylabel("ELBO, whole data set")
    add_legend(ax, loc="lower right")
    return ax
