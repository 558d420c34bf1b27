"""Least squares, and rivals: what people would use in place of a Gaussian process, with densities."""

import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from mogul._typing import Array, IntArray
from mogul.data import Dataset, Standardiser
from mogul.errors import ConfigError, UnsupportedError, import_extra, unknown_name
from mogul.means.regressor import CrossFitted
from mogul.metrics import Scores, score
from mogul.prediction import Prediction

# An exact fit still has some variance, or its density would be infinite.
SMALLEST_VAR = float(np.finfo(np.float64).eps)
# Exact GPs take time of N³: minutes for each output beyond this.
MOST_ROWS_OF_EXACT_GPS = 1200
# One row in this many says when boosting is to stop.
_STOPPING_SHARE = 6
_MOST_ROUNDS, _PATIENCE = 1500, 50
# Outputs with fewer rows have their mean and variance in place of a model.
_FEWEST = 12
_LEVELS = (np.arange(50) + 0.5) / 50
# Leaves may hold one value only; a variance is at least this share of the mean square error out of bag.
_LEAST_SHARE = 0.05

_Moments = tuple[Float[Array, "T"], Float[Array, "T"]]


@dataclass(frozen=True)
class _Rows:
    """The rows of one output: those where it is observed."""

    x: Float[Array, "N D"]
    y: Float[Array, "N"]
    units: Int[IntArray, "N"]

    def some(self, chosen: Array) -> "_Rows":
        return _Rows(self.x[chosen], self.y[chosen], self.units[chosen])


@dataclass(frozen=True)
class Forecast:
    """Normals at test rows, in original units.

    Attributes:
        mean: of each output.
        var: of each output, noise included.
        residual: what is left of training outputs at rows that were left out, if there is such a thing: outputs are
            then correlated as these are.
    """

    mean: Float[Array, "T P"]
    var: Float[Array, "T P"]
    residual: Float[Array, "N P"] | None = None


def predict_catboost(train: Dataset, x: Float[Array, "T D"], units: Int[IntArray, "N"], seed: int) -> Forecast:
    """Boosting of mean and variance together (RMSEWithUncertainty), stopped by a sixth of the units."""
    package = import_extra("This rival", "rivals", "catboost")

    def fit(own: _Rows, stop: _Rows, test_x: Array) -> _Moments:
        model = package.CatBoostRegressor(
            loss_function="RMSEWithUncertainty",
            iterations=_MOST_ROUNDS,
            early_stopping_rounds=_PATIENCE,
            random_seed=seed,
            thread_count=torch.get_num_threads(),
            verbose=False,
            allow_writing_files=False,
        ).fit(own.x, own.y, eval_set=(stop.x, stop.y))
        found = model.predict(test_x, prediction_type="RMSEWithUncertainty")
        return found[:, 0], found[:, 1]

    return _stopped(train, x, units, seed, fit)


def predict_ngboost(train: Dataset, x: Float[Array, "T D"], units: Int[IntArray, "N"], seed: int) -> Forecast:
    """Natural-gradient boosting of a Normal, stopped by a sixth of the units."""
    package = import_extra("This rival", "rivals", "ngboost")

    def fit(own: _Rows, stop: _Rows, test_x: Array) -> _Moments:
        model = package.NGBRegressor(n_estimators=_MOST_ROUNDS, verbose=False, random_state=seed)
        model.fit(own.x, own.y, X_val=stop.x, Y_val=stop.y, early_stopping_rounds=_PATIENCE)
        found = model.pred_dist(test_x, max_iter=model.best_val_loss_itr)
        return found.loc, np.square(found.scale)

    return _stopped(train, x, units, seed, fit)


def predict_quantile_forest(train: Dataset, x: Float[Array, "T D"], units: Int[IntArray, "N"], seed: int) -> Forecast:
    """A Normal with the moments of a quantile forest's distribution, its variance scaled by errors out of bag."""
    package = import_extra("This rival", "rivals", "quantile_forest")

    def fit(own: _Rows, test_x: Array) -> _Moments:
        forest = package.RandomForestQuantileRegressor(300, min_samples_leaf=2, random_state=seed, oob_score=True)
        forest.fit(own.x, own.y)
        out_of_bag = forest.predict(own.x, quantiles=list(_LEVELS), oob_score=True)
        square = np.square(own.y - out_of_bag.mean(1))
        least = _LEAST_SHARE * float(mean_square(np.sqrt(square)[:, None])[0])
        factor = float(np.mean(square / (out_of_bag.var(1) + least)))
        found = forest.predict(test_x, quantiles=list(_LEVELS))
        return found.mean(1), factor * (found.var(1) + least)

    return _by_output(train, x, units, fit)


def predict_exact_gps(train: Dataset, x: Float[Array, "T D"], units: Int[IntArray, "N"], seed: int) -> Forecast:
    """scikit-learn's, one for each output: RBF with a lengthscale for each input, the better of two starts."""

    inputs = Standardiser.of(train.x)

    def fit(own: _Rows, test_x: Array) -> _Moments:
        kernel = ConstantKernel() * RBF(np.ones(own.x.shape[1])) + WhiteKernel()
        gp = GaussianProcessRegressor(kernel, n_restarts_optimizer=1, normalize_y=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # lengthscales at their bounds: inputs of no use
            gp.fit(inputs.apply(own.x), own.y)
        mean, std = gp.predict(inputs.apply(test_x), return_std=True)
        return mean, np.square(std)

    return _by_output(train, x, units, fit)


def predict_gpar(train: Dataset, x: Float[Array, "T D"], units: Int[IntArray, "N"], seed: int) -> Forecast:
    """Outputs one after another, each with those before it as inputs: in the given order, with the package's draws."""
    package = import_extra("This rival", "rivals", "gpar")

    inputs = Standardiser.of(train.x)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):  # it counts aloud
        warnings.simplefilter("ignore")  # of packages that it needs, about themselves
        np.random.seed(seed)  # noqa: NPY002  # its draws have no other seed
        model = package.GPARRegressor(
            scale=1.0, linear=True, nonlinear=True, nonlinear_scale=1.0, noise=0.1, impute=True, normalise_y=True
        )
        model.fit(inputs.apply(train.x), train.y)
        mean, low, high = model.predict(inputs.apply(x), num_samples=100, credible_bounds=True, latent=False)
    shape = len(x), train.num_outputs
    # Its bounds hold 95 %.
    return Forecast(np.reshape(mean, shape), np.reshape(np.square((high - low) / (2 * 1.96)), shape))


def _by_output(
    train: Dataset, x: Float[Array, "T D"], units: Int[IntArray, "N"], fit: Callable[[_Rows, Array], _Moments]
) -> Forecast:
    """Fit each output to the rows where it is observed."""
    moments = []
    for column in train.y.T:
        rows = ~np.isnan(column)
        own = _Rows(train.x[rows], column[rows], units[rows])
        if len(own.y) < _FEWEST or np.ptp(own.y) == 0:
            moments.append((np.full(len(x), own.y.mean()), np.full(len(x), own.y.var())))
        else:
            moments.append(fit(own, x))
    mean, var = (np.stack(each, axis=1).astype(np.float64) for each in zip(*moments, strict=True))
    return Forecast(mean, np.maximum(var, SMALLEST_VAR))


def _stopped(
    train: Dataset,
    x: Float[Array, "T D"],
    units: Int[IntArray, "N"],
    seed: int,
    fit: Callable[[_Rows, _Rows, Array], _Moments],
) -> Forecast:
    """Fit each output to its observed rows but a sixth of the units, which say when to stop."""
    distinct, unit = np.unique(units, return_inverse=True)
    stops = (np.random.default_rng(seed).permutation(len(distinct)) % _STOPPING_SHARE == 0)[unit.ravel()]
    watches = dict(zip(units.tolist(), stops.tolist(), strict=True))

    def fit_output(own: _Rows, test_x: Array) -> _Moments:
        stop = np.array([watches[each] for each in own.units.tolist()])
        if stop.all() or not stop.any():
            stop = np.arange(len(stop)) % _STOPPING_SHARE == 0
        # Of unit variance: the steps of boosting should not depend on the user's units.
        scale = Standardiser.of(own.y[:, None])
        scaled = replace(own, y=scale.apply(own.y[:, None])[:, 0])
        mean, var = fit(scaled.some(~stop), scaled.some(stop), test_x)
        return scale.undo(mean[:, None])[:, 0], var * scale.scale[0] ** 2

    return _by_output(train, x, units, fit_output)


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
    "catboost": Rival("CatBoost", predict_catboost, "catboost"),
    "ngboost": Rival("NGBoost", predict_ngboost, "ngboost"),
    "quantile-forest": Rival("quantile forest", predict_quantile_forest, "quantile_forest"),
    "exact-gps": Rival("exact GPs", predict_exact_gps, most_rows=MOST_ROWS_OF_EXACT_GPS),
    "gpar": Rival("GPAR", predict_gpar, "gpar", MOST_ROWS_OF_EXACT_GPS),
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


@dataclass(frozen=True)
class LeastSquares:
    """Ordinary least squares with a constant, each output on its own rows, Normal residuals.

    Example:
        >>> line = LeastSquares.fit(Dataset([[0.0], [1.0], [2.0]], [[1.0], [3.0], [5.1]]))
        >>> line.predict(np.array([[3.0]])).mean.round(2)
        array([[7.13]])
    """

    weights: Float[Array, "E P"]
    var: Float[Array, "P"]

    @staticmethod
    def fit(data: Dataset) -> "LeastSquares":
        """Fit each output to the rows where it is observed."""
        design = _with_constant(data.x)
        weights = np.empty((design.shape[1], data.num_outputs))
        var = np.empty(data.num_outputs)
        for column in range(data.num_outputs):
            rows = ~np.isnan(data.y[:, column])
            weights[:, column] = np.linalg.lstsq(design[rows], data.y[rows, column], rcond=None)[0]
            residual = data.y[rows, column] - design[rows] @ weights[:, column]
            # Unbiased where there are rows to spare.
            spare = max(1, rows.sum() - design.shape[1])
            var[column] = max(np.square(residual).sum() / spare, SMALLEST_VAR)
        return LeastSquares(weights, var)

    def predict(self, x: Float[Array, "N D"]) -> Prediction:
        """The fitted line with its residual variance."""
        return normal_prediction(_with_constant(x) @ self.weights, self.var)

    def evaluate(self, data: Dataset) -> Scores:
        """Scores on test data, in original units."""
        return score([(self.predict(data.x), data.y)], nested=True)


def normal_prediction(mean: Float[Array, "N P"], var: Float[Array, "P"]) -> Prediction:
    """A Normal with the same variance everywhere, as a mixture of one component."""
    spread = np.broadcast_to(var, mean.shape)
    return Prediction(mean, spread, mean[None], spread[None])


def mean_square(residual: Float[Array, "N P"]) -> Float[Array, "P"]:
    """The variance about zero of each output, over the rows that have it; never quite 0.

    >>> mean_square(np.array([[3.0, 1.0], [np.nan, 1.0]]))
    array([9., 1.])
    """
    var: Float[Array, P] = np.maximum(np.nanmean(np.square(residual), axis=0), SMALLEST_VAR)
    return var


def _with_constant(x: Float[Array, "N D"]) -> Float[Array, "N E"]:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)
