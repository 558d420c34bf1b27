"""What plots are of: estimators or fitted models, and columns by name or by number."""

from typing import Any

import numpy as np
from jaxtyping import Float

from mogul._typing import Array
from mogul.data import Dataset
from mogul.errors import ConfigError, unknown_name
from mogul.fitted.fitted import Fitted, FittedLatent


def fitted_of(model: Any) -> Fitted:
    """The fitted model itself, or the one that an estimator holds."""
    fitted = getattr(model, "fitted_", model)
    if not isinstance(fitted, Fitted):
        raise ConfigError(
            f"model must be a fitted estimator or what mogul.fit gave; got {type(model).__name__}. Call fit first."
        )
    return fitted


def fitted_latent_of(model: Any) -> FittedLatent:
    """The same, of a model with latent inputs."""
    fitted = fitted_of(model)
    if not isinstance(fitted, FittedLatent):
        raise ConfigError("model must have latent inputs; those of this one are observed. Fit a MultiOutputGPLVM.")
    return fitted


def column_of(which: int | str, names: list[str], kind: str) -> int:
    """The place of a column that is given by name or by number."""
    if isinstance(which, str):
        if which not in names:
            raise unknown_name(kind, which, names)
        return names.index(which)
    if not -len(names) <= which < len(names):
        raise ConfigError(f"{kind} must be a column from 0 to {len(names) - 1}; got {which}. Names will do as well.")
    return which % len(names)


def truth_of(fitted: Fitted, X: Any, Y: Any) -> tuple[Float[Array, "N D"], Float[Array, "N P"]]:
    """Inputs and outputs in the order of training; one output may be given as (N,)."""
    y = np.asarray(Y)[:, None] if np.ndim(Y) == 1 else Y
    data = Dataset(X, y, check_outputs=False).in_order(fitted.input_names, fitted.output_names)
    return data.x, data.y
