"""Rivals: what people would use in place of a Gaussian process, each with a density that rows left out vouch for."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from jaxtyping import Float, Int

from mogul._typing import Array, IntArray
from mogul.comparison import packages
from mogul.comparison.packages import Forecast
from mogul.data import Dataset, Standardiser
from mogul.errors import ConfigError, UnsupportedError, unknown_name
from mogul.means.regressor import CrossFitted

# Exact GPs take time of N³: minutes for each output beyond this.
MOST_ROWS_OF_EXACT_GPS = 1200


@dataclass(frozen=True)
class Rival:
    """A method that models are compared with.

    Attributes:
        label: its name in tables.
        fit_predict: from training rows, test inputs, units (rows with the same number are left out together) and a
            seed to a `Forecast` in original units. NaN in training outputs is missing.
        package: what must be installed, if it is not one that mogul needs anyway.
        most_rows: it is skipped with more training rows.
    """

    label: str
    fit_predict: Callable[[Dataset, Float[Array, "T D"], Int[IntArray, "N"], int], Forecast]
    package: str | None = None
    most_rows: int | None = None


def cross_fitted(name: str) -> Callable[[Dataset, Float[Array, "T D"], Int[IntArray, "N"], int], Forecast]:
    """Forests or boosting, as for `mean="trees"` and `mean="boosting"`, with constant noise.

    The variance of an output is the mean square of residuals at rows that a tree was not fitted to: out of bag for
    forests, by five folds for boosting. Residuals in sample would be far too small.
    """

    def fit_predict(train: Dataset, x: Float[Array, "T D"], units: Int[IntArray, "N"], seed: int) -> Forecast:
        inputs, outputs = Standardiser.of(train.x), Standardiser.of(train.y)
        y = outputs.apply(train.y)
        found = CrossFitted.of(name, inputs.apply(train.x), y, units, seed)
        mean = found.mean(torch.as_tensor(inputs.apply(x))).numpy()
        residual = (y - found.predictions) * outputs.scale
        scale = np.broadcast_to(found.mean.scale.numpy() * outputs.scale, mean.shape)
        return Forecast(outputs.undo(mean), np.square(scale), residual)

    return fit_predict


RIVALS: dict[str, Rival] = {
    "trees": Rival("extra trees", cross_fitted("trees")),
    "boosting": Rival("boosted trees", cross_fitted("boosting")),
    "catboost": Rival("CatBoost", packages.predict_catboost, "catboost"),
    "ngboost": Rival("NGBoost", packages.predict_ngboost, "ngboost"),
    "quantile-forest": Rival("quantile forest", packages.predict_quantile_forest, "quantile_forest"),
    "exact-gps": Rival("exact GPs", packages.predict_exact_gps, most_rows=MOST_ROWS_OF_EXACT_GPS),
    "gpar": Rival("GPAR", packages.predict_gpar, "gpar", MOST_ROWS_OF_EXACT_GPS),
}


def require_rivals(names: list[str], kind: str = "A rival") -> list[str]:
    """Names of rivals, each once, all known and installed: checked before any training.

    >>> require_rivals(["trees", "boosting", "trees"])
    ['trees', 'boosting']
    """
    for name in names:
        if name not in RIVALS:
            raise unknown_name(kind, name, RIVALS)
        package = RIVALS[name].package
        if package is not None and find_spec(package) is None:
            raise ConfigError(
                f"{kind} must be installed; {name} needs the package {package.replace('_', '-')}, which is not. "
                "Run pip install 'mogul[rivals]', or leave it out."
            )
    return list(dict.fromkeys(names))


def predict_rival(name: str, train: Dataset, x: Float[Array, "T D"], units: Int[IntArray, "N"], seed: int) -> Forecast:
    """Fit a rival and predict; too many rows are refused.

    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> predict_rival("trees", Dataset(x, np.sin(6 * x)), x[:2], np.arange(60), seed=0).mean.shape
    (2, 1)
    """
    rival = RIVALS[name]
    if rival.most_rows is not None and train.num_rows > rival.most_rows:
        raise UnsupportedError(
            f"{rival.label} take at most {rival.most_rows:,} training rows, in time of their cube; got "
            f"{train.num_rows:,}. Leave {name} out."
        )
    return rival.fit_predict(train, x, units, seed)
