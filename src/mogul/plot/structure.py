"""Learnt structure: correlations of the outputs, relevance of the inputs, and the map of latent inputs."""

from typing import Any, Literal, get_args

import numpy as np
from gpytorch.kernels import Kernel
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.colors import LinearSegmentedColormap

from mogul._typing import Array
from mogul.errors import ConfigError, ShapeError, unknown_name
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.models.model import Latent
from mogul.plot.style import BLUE, COLOURS, GREY, add_legend, axes_or_new, column_of, fitted_latent_of, fitted_of
from mogul.prediction import Prediction
from mogul.priors import DeepGPs, IndependentGPs

CorrelationsOf = Literal["outputs", "errors"]
# Largest numbers of outputs for which a matrix shows numbers, and names.
_MOST_NUMBERS, _MOST_NAMES = 10, 40
_GRID = 60
_SHADES = LinearSegmentedColormap.from_list("shades", ["white", "0.55"])
# Largest number of labels, each with its own colour.
_MOST_LABELS = len(COLOURS)


def correlations(
    model: Any, X: Any, of: CorrelationsOf = "outputs", *, num_samples: int = 300, ax: Axes | None = None
) -> Axes:
    """The model's correlation matrix of the outputs over these rows.

    Args:
        model: a fitted regressor, or what `mogul.fit` gave.
        X: inputs of at least two rows.
        of: "outputs": correlation of the predicted signals over rows. "errors": correlation of the predictive
            uncertainty at a row, averaged over rows, noise included.
        num_samples: draws of the predictive mixture.
        ax: where to draw.
    """
    fitted = fitted_of(model)
    if of not in get_args(CorrelationsOf):
        raise unknown_name("of", of, get_args(CorrelationsOf))
    if len(X) < 2:
        raise ShapeError(f"X must have at least two rows, to vary between; got {len(X)}. Give the test rows.")
    prediction = fitted.predict(X, num_samples)
    matrix = _across_rows(prediction) if of == "outputs" else _within_rows(prediction)
    names, count = fitted.output_names, len(fitted.output_names)

    side = min(9.0, 2.4 + 0.42 * count)
    ax = axes_or_new(ax, size=(side + 0.9, side))
    image = ax.imshow(matrix, vmin=-1, vmax=1, cmap="RdBu_r")
    ax.spines[:].set_visible(False)
    if count <= _MOST_NAMES:
        ax.set_xticks(range(count), names, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(count), names)
        ax.tick_params(length=0)
    for row, column in np.ndindex(count, count) if count <= _MOST_NUMBERS else ():
        value = matrix[row, column]
        colour = "white" if abs(value) > 0.6 else "black"
        ax.text(column, row, f"{value:.2f}".replace("-", "−"), ha="center", va="center", color=colour, size="small")
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label=f"correlation of {of}")
    return ax


def relevance(model: Any, *, ax: Axes | None = None) -> Axes:
    """Relevance of each input to the latent functions: 1/lengthscale, inputs standardised.

    A bar is the mean over latent GPs, dots are the GPs. The linear mean and a mixing that depends on the input are not
    shown: an input with a short bar may still matter through those.

    Args:
        model: a fitted regressor, or what `mogul.fit` gave, whose kernel has a lengthscale for each input; for a
            mixture, the first member is drawn, and `members` has the others.
        ax: where to draw.
    """
    fitted = fitted_of(model)
    values = 1 / _lengthscales(fitted)
    order = np.argsort(values.mean(0))
    names = [fitted.input_names[column] for column in order]

    ax = axes_or_new(ax, size=(5.4, 1.2 + 0.26 * len(names)))
    places = np.arange(len(names))
    ax.barh(places, values.mean(0)[order], color=BLUE, alpha=0.35, label="mean")
    if len(values) > 1:
        rows = np.repeat(places[None], len(values), axis=0)
        ax.plot(values[:, order].ravel(), rows.ravel(), "o", color=BLUE, ms=3.5, mew=0, label="each latent GP")
    ax.set_yticks(places, names)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("1 / lengthscale, per standard deviation of the input")
    ax.set_xlim(left=0)
    ax.grid(axis="x", color=GREY, alpha=0.2)
    ax.set_axisbelow(True)
    add_legend(ax, loc="lower right")
    return ax


def _across_rows(prediction: Prediction) -> Float[Array, "P P"]:
    """Correlations of the signal over rows and components; zero for a constant output."""
    signal = prediction.component_mean.reshape(-1, prediction.mean.shape[1])
    log_weight = prediction.log_weight
    weight = None if log_weight is None else np.repeat(np.exp(log_weight), len(prediction.mean))
    cov = np.cov(signal, rowvar=False, aweights=weight)
    return _correlation(cov.reshape(signal.shape[1], signal.shape[1]))


def _within_rows(prediction: Prediction) -> Float[Array, "P P"]:
    """Correlations of the outputs at a row, by the law of total covariance, averaged over rows."""
    cov = prediction.cov_of_means() + prediction.joint.cross_cov(prediction.mean.shape[-1])
    noise = prediction.average(prediction.component_var)
    each = [_correlation(one + np.diag(own)) for one, own in zip(cov, noise, strict=True)]
    result: Array = np.mean(each, axis=0)
    return result


def _correlation(cov: Float[Array, "P P"]) -> Float[Array, "P P"]:
    scale = np.sqrt(cov.diagonal())
    scale = np.where(scale > 0, scale, 1.0)
    result: Array = cov / scale[:, None] / scale
    np.fill_diagonal(result, 1.0)
    return result


def _lengthscales(fitted: Fitted) -> Float[Array, "L D"]:
    """Lengthscales of the GPs on the inputs, in standardised units."""
    prior = fitted.model.prior
    first = prior.layers[0] if isinstance(prior, DeepGPs) else prior
    num_inputs = len(fitted.input_names)
    kernels = first.kernel.modules() if isinstance(first, IndependentGPs) else ()
    for kernel in kernels:
        if isinstance(kernel, Kernel) and kernel.has_lengthscale and kernel.lengthscale.shape[-1] == num_inputs:
            values: Array = kernel.lengthscale.detach().double().numpy().reshape(-1, num_inputs)
            return values
    raise ConfigError(
        f"The kernel must have a lengthscale for each of {num_inputs} inputs; this one has none such. "
        "Fit with an ARD kernel, the default for observed inputs."
    )


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
