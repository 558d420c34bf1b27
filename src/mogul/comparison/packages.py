"""Rivals of other packages: CatBoost, NGBoost, quantile forests, scikit-learn's exact GPs, GPAR.

Packages of the extra `mogul[rivals]` are imported inside functions: nothing else needs them.
"""

import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from mogul._typing import Array, IntArray
from mogul.comparison.least_squares import SMALLEST_VAR, mean_square
from mogul.data import Dataset, Standardiser

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
    from catboost import CatBoostRegressor

    def fit(own: _Rows, stop: _Rows, test_x: Array) -> _Moments:
        model = CatBoostRegressor(
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
    from ngboost import NGBRegressor

    def fit(own: _Rows, stop: _Rows, test_x: Array) -> _Moments:
        model = NGBRegressor(n_estimators=_MOST_ROUNDS, verbose=False, random_state=seed)
        model.fit(own.x, own.y, X_val=stop.x, Y_val=stop.y, early_stopping_rounds=_PATIENCE)
        found = model.pred_dist(test_x, max_iter=model.best_val_loss_itr)
        return found.loc, np.square(found.scale)

    return _stopped(train, x, units, seed, fit)


def predict_quantile_forest(train: Dataset, x: Float[Array, "T D"], units: Int[IntArray, "N"], seed: int) -> Forecast:
    """A Normal with the moments of a quantile forest's distribution, its variance scaled by errors out of bag."""
    from quantile_forest import RandomForestQuantileRegressor

    def fit(own: _Rows, test_x: Array) -> _Moments:
        forest = RandomForestQuantileRegressor(300, min_samples_leaf=2, random_state=seed, oob_score=True)
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
    from gpar import GPARRegressor

    inputs = Standardiser.of(train.x)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):  # it counts aloud
        warnings.simplefilter("ignore")  # of packages that it needs, about themselves
        np.random.seed(seed)  # noqa: NPY002  # its draws have no other seed
        model = GPARRegressor(
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
