"""A map of rows in latent space."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.colors import LinearSegmentedColormap

from mogul._typing import Array
from mogul.errors import ConfigError, ShapeError
from mogul.fitted.fitted import FittedLatent
from mogul.models.inputs import Latent
from mogul.plot.style import BLUE, COLOURS, add_legend, axes_or_new, column_of, fitted_latent_of

_GRID = 60
_SHADES = LinearSegmentedColormap.from_list("shades", ["white", "0.55"])
# Largest number of labels, each with its own colour.
_MOST_LABELS = len(COLOURS)


def latent_map(
    model: Any,
    Y: Any = None,
    *,
    labels: Any = None,
    axes: tuple[int | str, int | str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Positions of rows in two dimensions of latent space, with their uncertainty.

    Each row is a point at the mean of its q(x), in an ellipse of one standard deviation. The grey background is the
    standard deviation of the outputs there: dark far from the data.

    Args:
        model: a fitted `MultiOutputGPLVM`, or what `mogul.fit` gave for an `-lvm` model.
        Y: rows to place on the map, with NaN where values are missing; the training rows by default.
        labels: a group for each row, for colours: at most seven groups.
        axes: two latent inputs, by name or column; by default the two with the largest spread of rows.
        ax: where to draw.
    """
    fitted = fitted_latent_of(model)
    mean, scale = _positions(fitted, Y)
    first, second = _two_axes(fitted, mean, axes)
    groups = _groups(labels, len(mean))

    ax = axes_or_new(ax, size=(5.6, 4.6))
    pairs = mean[:, [first, second]]
    image = _shade(ax, fitted, first, second, pairs)
    for number, (name, rows) in enumerate(groups.items()):
        colour = COLOURS[number] if len(groups) > 1 else BLUE
        sizes = 2 * scale[rows]
        ellipses = EllipseCollection(
            sizes[:, first], sizes[:, second], np.zeros(len(rows)), units="xy", offsets=pairs[rows],
            transOffset=ax.transData, facecolors=colour, alpha=0.08, lw=0,
        )  # fmt: skip
        ax.add_collection(ellipses)
        ax.plot(*pairs[rows].T, "o", color=colour, ms=3.5, mec="white", mew=0.4, label=name)
    ax.set_xlabel(fitted.input_names[first])
    ax.set_ylabel(fitted.input_names[second])
    ax.figure.colorbar(image, ax=ax, label="predicted std. dev. of outputs, standardised")
    if len(groups) > 1:
        add_legend(ax, loc="best", frameon=True)
    return ax


def _positions(fitted: FittedLatent, Y: Any) -> tuple[Float[Array, "N D"], Float[Array, "N D"]]:
    """Means and standard deviations of q(X)."""
    latent = fitted.model.inputs if Y is None else fitted.infer(Y)
    assert isinstance(latent, Latent)
    q = latent.marginals()
    return q.mean.detach().double().numpy(), q.var.detach().double().sqrt().numpy()


def _two_axes(fitted: FittedLatent, mean: Array, axes: tuple[int | str, int | str] | None) -> tuple[int, int]:
    names = fitted.input_names
    if len(names) < 2:
        raise ConfigError("A map must have two latent inputs; this model has one. Fit with n_components=2.")
    if axes is None:
        first, second = np.sort(np.argsort(mean.std(0))[-2:])
        return int(first), int(second)
    first, second = (column_of(which, names, "axes") for which in axes)
    if first == second:
        raise ConfigError(f"axes must be two different latent inputs; got {names[first]} twice. Choose another.")
    return first, second


def _groups(labels: Any, num_rows: int) -> dict[str, Any]:
    """Rows of each label, in the order of the labels."""
    if labels is None:
        return {"rows": np.arange(num_rows)}
    values = np.asarray(labels)
    if values.shape != (num_rows,):
        raise ShapeError(f"labels must be ({num_rows},), one for each row; got {values.shape}. Give one each.")
    groups = {str(name): np.flatnonzero(values == name) for name in np.unique(values)}
    if len(groups) > _MOST_LABELS:
        raise ConfigError(f"labels must be of at most {_MOST_LABELS} kinds; got {len(groups)}. Join some of them.")
    return groups


def _shade(ax: Axes, fitted: FittedLatent, first: int, second: int, pairs: Float[Array, "N 2"]) -> Any:
    """Grey by the root mean square of the outputs' standard deviations, other latent inputs at the rows' mean."""
    low, high = pairs.min(0), pairs.max(0)
    margin = 0.15 * np.maximum(high - low, 1e-3)
    low, high = low - margin, high + margin
    sides = [np.linspace(low[axis], high[axis], _GRID) for axis in (0, 1)]
    points = np.tile(fitted.latent_means.mean(0), (_GRID * _GRID, 1))
    points[:, first], points[:, second] = (side.ravel() for side in np.meshgrid(*sides))
    _, std = fitted.predictor().mean_std(points)
    spread = np.sqrt(np.mean(np.square(std / fitted.scaling.outputs.scale), axis=1)).reshape(_GRID, _GRID)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return ax.imshow(
        spread, extent=(low[0], high[0], low[1], high[1]), origin="lower", aspect="auto", cmap=_SHADES,
        interpolation="bilinear", zorder=0,
    )  # fmt: skip
