"""Shared by all plots: colours, new Axes, bands, saving."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mogul._typing import Array
from mogul.data import Dataset
from mogul.errors import ConfigError, unknown_name
from mogul.fitted.fitted import Fitted, FittedLatent

# Okabe and Ito's colours, distinguishable with any kind of colour vision.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE, YELLOW = "#56B4E9", "#CC79A7", "#F0E442"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, YELLOW)
GREY, FAINT = "0.45", "0.75"
_MOST_MARKS = 150


def axes_or_new(ax: Axes | None, size: tuple[float, float] = (5.4, 3.6)) -> Axes:
    """The given Axes, or the Axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt  # chooses a backend, which only a new figure needs

    _, new = plt.subplots(figsize=size, layout="constrained")
    new.spines[["top", "right"]].set_visible(False)
    return new


def draw_band(ax: Axes, x: Array, mean: Array, low: Array, high: Array, label: str) -> None:
    """Draw a predicted mean with its interval."""
    ax.fill_between(x, low, high, color=BLUE, alpha=0.25, lw=0, label=label)
    ax.plot(x, mean, "--", color=BLUE, label="predicted mean")


def draw_marks(ax: Axes, x: Array, label: str) -> None:
    """Draw short marks along the bottom of the Axes; for many values, a representative subset."""
    shown = np.sort(x) if len(x) <= _MOST_MARKS else np.quantile(x, np.linspace(0, 1, _MOST_MARKS))
    ax.vlines(shown, 0, 0.03, transform=ax.get_xaxis_transform(), color=GREY, lw=0.8, alpha=0.6, label=label)


def add_legend(ax: Axes, **options: object) -> None:
    """A legend without a frame."""
    ax.legend(**{"fontsize": "small", "frameon": False} | options)


def fitted_of(model: Any) -> Fitted:
    """The fitted model, or the one inside an estimator."""
    fitted = getattr(model, "fitted_", model)
    if not isinstance(fitted, Fitted):
        raise ConfigError(
            f"model must be a fitted estimator or what mogul.fit gave; got {type(model).__name__}. Call fit first."
        )
    return fitted


def fitted_latent_of(model: Any) -> FittedLatent:
    """The fitted model with latent inputs."""
    fitted = fitted_of(model)
    if not isinstance(fitted, FittedLatent):
        raise ConfigError("model must have latent inputs; this model has observed inputs. Fit a MultiOutputGPLVM.")
    return fitted


def column_of(which: int | str, names: list[str], kind: str) -> int:
    """The index of a column given by name or number."""
    if isinstance(which, str):
        if which not in names:
            raise unknown_name(kind, which, names)
        return names.index(which)
    if not -len(names) <= which < len(names):
        raise ConfigError(f"{kind} must be a column from 0 to {len(names) - 1}; got {which}. Names work as well.")
    return which % len(names)


def truth_of(fitted: Fitted, X: Any, Y: Any) -> tuple[Float[Array, "N D"], Float[Array, "N P"]]:
    """Inputs and outputs in the order of training; one output may be given as (N,)."""
    y = np.asarray(Y)[:, None] if np.ndim(Y) == 1 else Y
    data = Dataset(fitted.encoded(X), y, check_outputs=False).in_order(fitted.input_names, fitted.output_names)
    return data.x, data.y


def save_figure(figure: Figure, folder: Path, stem: str) -> list[Path]:
    """Write a figure as PNG and SVG, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.png", folder / f"{stem}.svg"]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
