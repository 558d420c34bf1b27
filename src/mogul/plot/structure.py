"""Learnt structure: correlations of the outputs, and relevance of the inputs to the latent functions."""

from typing import Any, Literal, get_args

import numpy as np
from gpytorch.kernels import Kernel
from jaxtyping import Float
from matplotlib.axes import Axes

from mogul._typing import Array
from mogul.errors import ConfigError, ShapeError, unknown_name
from mogul.fitted.fitted import Fitted
from mogul.plot.style import BLUE, GREY, add_legend, axes_or_new, fitted_of
from mogul.prediction import Prediction
from mogul.priors import DeepGPs, IndependentGPs

CorrelationsOf = Literal["outputs", "errors"]
# Largest numbers of outputs for which a matrix shows numbers, and names.
_MOST_NUMBERS, _MOST_NAMES = 10, 40


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
