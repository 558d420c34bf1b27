"""The check of a fit: predictions of rows that the model was not trained on, beside least squares and the mean."""

import math
import warnings
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import ndtr
from sklearn.linear_model import LinearRegression

from mogul._typing import Array, IntArray
from mogul.core.check import CALIBRATION, HELD_OUT, LEFT_OUT, Check, Unseen
from mogul.data import Dataset
from mogul.data.advice import order_advice
from mogul.data.encodings.dates import Dates
from mogul.fitted.fitted import Fitted
from mogul.models.model import Model
from mogul.prediction import Prediction, predict
from mogul.prediction.chained import chained
from mogul.training.exact import REFINED_ROWS, leave_one_out
from mogul.training.exact_start import ExactStart, distinct_rows

# Rows that are predicted, draws of each prediction, and draws of the noise of rows left out.
_MOST_ROWS, _DRAWS, _NOISE_DRAWS = 1000, 50, 32
_FOLDS = 10  # that least squares and the mean are cross-fitted in
_FEWEST_ROWS = 5  # with fewer there is nothing to say
# Rows at which a model is compared with the exact GPs that are checked in its place, and how far they may be apart: in
# residuals of rows left out, and in standard deviations of an output.
_COMPARED_ROWS, _LARGEST_GAP, _LEAST_GAP = 200, 1.2, 0.02


def predicted_rows(fitted: Fitted, data: Dataset, places: Int[IntArray, "W"], how: str, seed: int) -> Unseen:
    """Predictions of rows that a model was not trained on: of at most 1,000, drawn at random."""
    if len(places) > _MOST_ROWS:
        places = np.sort(np.random.default_rng(seed).choice(places, _MOST_ROWS, replace=False))
    rows = data.rows(places)
    parts = [(part.mean, part.cdf(y)) for part, y in fitted.predict_parts(rows, _DRAWS, seed)]
    mean, pit = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Unseen(how, places, mean, pit)


def left_out_rows(
    fitted: Fitted,
    data: Dataset,
    exact: ExactStart,
    unit: Float[torch.Tensor, "P"] | float,
    places: Int[IntArray, "K"],
    seed: int,
) -> Unseen:
    """Predictions of each training row from the others, by exact GPs with the model's noise.

    The hyperparameters are those of all rows; with more than 1,000 rows, each is predicted from its part of them.
    Autoregressive outputs are predicted from other rows, too: other outputs of the same row count as unknown.

    Args:
        fitted: the model that the exact GPs solve.
        data: the training rows.
        exact: the exact GPs.
        unit: of their outputs, in standardised units.
        places: of the training rows in all data.
        seed: of draws of the noise.
    """
    scale = np.broadcast_to(np.asarray(unit, dtype=np.float64), (data.num_outputs,))
    residual, var = _leave_one_out(exact)
    batch = fitted.scaling.batch(data, torch.float64)
    mean = batch.y.numpy() - scale * residual
    noise = _noise_var(fitted.model, exact.batch.x, seed)
    components, chain = noise + scale**2 * var, fitted.scaling.chain
    if chain is not None:  # outputs need those that are missing, which were not trained on
        x, seen = batch.x.to(fitted.model.mean.scale.dtype), batch.observed.numpy()
        usual = predict(fitted.model, x, _DRAWS, torch.Generator().manual_seed(seed))
        mean, components = np.where(seen, mean, usual.mean), np.where(seen, components, usual.var)
    whole = Prediction(mean, components.mean(0), np.broadcast_to(mean, components.shape), components)
    whole = whole.rescaled(fitted.scaling.modelled)
    prediction = fitted._in_units(whole if chain is None else chained(whole, chain))
    return Unseen(LEFT_OUT, places, prediction.mean, prediction.cdf(data.y))


def is_of(unseen: Unseen, fitted: Fitted, data: Dataset, seed: int) -> bool:
    """Whether predictions of rows left out are those of this model: with too few inducing points it is another.

    What a GP predicts of a row with and without it differs by less than the residual without it.
    """
    some = np.sort(np.random.default_rng(seed).permutation(data.num_rows)[:_COMPARED_ROWS])
    left_out = np.where(np.isnan(data.y[some]), np.nan, unseen.mean[some])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of outputs without a value here
        gap, residual = (
            np.sqrt(np.nanmean(np.square(each - left_out), axis=0))
            for each in (predicted_rows(fitted, data, some, LEFT_OUT, seed).mean, data.y[some])
        )
        allowed = _LARGEST_GAP * residual + _LEAST_GAP * np.nanstd(data.y, axis=0)
    return not bool((gap > allowed).any())


def _leave_one_out(exact: ExactStart) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
    """y − m of each row and the variance of its signal, given the other rows; copies of a row are left out with it."""
    rng = np.random.default_rng(exact.seed)
    residual, var = (np.zeros(exact.batch.y.shape) for _ in range(2))
    x, y = exact.batch.x.numpy(), exact.batch.y.numpy()
    for output, (gp, seen) in enumerate(zip(exact.gps, exact.batch.observed.numpy().T, strict=True)):
        rows = np.flatnonzero(seen)
        first, known, copies = distinct_rows(x[rows], y[rows, output])
        relative = known * exact.relative_noise.numpy()[rows[first], output]
        own_residual, own_var = (np.empty(len(first)) for _ in range(2))
        for part in np.array_split(rng.permutation(len(first)), math.ceil(len(first) / REFINED_ROWS)):
            at = rows[first[part]]
            own_residual[part], total = leave_one_out(gp, x[at], y[at, output], relative[part])
            own_var[part] = np.maximum(total - gp.noise_var * relative[part], 0.0)
        residual[rows, output], var[rows, output] = own_residual[copies], own_var[copies]
    return residual, var


def _noise_var(model: Model, x: Float[torch.Tensor, "N D"], seed: int) -> Float[Array, "S N P"]:
    """Draws of the noise variance at x, in standardised units: they differ for noise with heavy tails."""
    generator = torch.Generator().manual_seed(seed)
    unit = model.mean.scale
    with torch.no_grad():
        law = model.head.noise.forward(x.to(unit.dtype), generator)
        shape = torch.Size([_NOISE_DRAWS, len(x), len(unit)])
        drawn: Array = (unit.square() * law.draw_var(shape, generator)).expand(shape).double().numpy()
    return drawn


def with_check(fitted: Fitted, data: Dataset, units: Int[IntArray, "N"], seed: int) -> Fitted:
    """The model with the check of its predictions of unseen rows, if it has any; these are dropped."""
    unseen = fitted.unseen
    if unseen is None:
        return fitted
    if data.num_rows < _FEWEST_ROWS:
        return replace(fitted, unseen=None)
    line, mean = _cross_fitted(data, unseen, units, seed) if unseen.how == LEFT_OUT else _without(data, unseen, units)
    in_order = len(np.unique(units)) == data.num_rows and has_order(data)
    return replace(fitted, unseen=None, check=_check(unseen, data.rows(unseen.places), line, mean, in_order))


def checked_by(fitted: Fitted, train: Dataset, aside: Dataset, seed: int, how: str = CALIBRATION) -> Fitted:
    """The model with a check by rows that were set aside."""
    unseen = predicted_rows(fitted, aside, np.arange(aside.num_rows), how, seed)
    test = aside.rows(unseen.places)
    in_order = how == HELD_OUT and has_order(train)
    return replace(fitted, unseen=None, check=_check(unseen, test, *_baselines(train, test), in_order))


def spare_rows(data: Dataset, units: Int[IntArray, "N"], seed: int) -> tuple[Dataset, Dataset | None]:
    """Most rows, and a fifth of them that are spared for a check, whole units; None where some output needs all."""
    distinct, unit = np.unique(units, return_inverse=True)
    count = max(len(distinct) // 5, min(_FEWEST_ROWS, len(distinct) // 2))
    is_spared = (np.random.default_rng(seed).permutation(len(distinct)) < count)[unit.ravel()]
    rest, spared = data.rows(np.flatnonzero(~is_spared)), data.rows(np.flatnonzero(is_spared))
    if spared.num_rows < _FEWEST_ROWS or np.isnan(spared.y).all() or np.isnan(rest.y).all(axis=0).any():
        return data, None
    return rest, spared


def has_order(data: Dataset) -> bool:
    """Whether rows follow each other in time: a date is among the inputs, or neighbours are alike."""
    columns = () if data.encoding is None else data.encoding.columns
    return (
        any(isinstance(each, Dates) and each.origin is not None for each in columns) or order_advice(data) is not None
    )


def _check(unseen: Unseen, test: Dataset, line: Unseen, mean: Unseen, in_order: bool) -> Check:
    own, of_line, of_mean = (each.scores(test.output_names, test.y) for each in (unseen, line, mean))
    return Check(unseen.how, test.num_rows, own, of_line, of_mean, in_order)


def _without(data: Dataset, unseen: Unseen, units: Int[IntArray, "N"]) -> tuple[Unseen, Unseen]:
    """Least squares and the mean of all other rows, but those of the same units."""
    rest = np.flatnonzero(~np.isin(units, units[unseen.places]))
    return _baselines(data.rows(rest), data.rows(unseen.places))


def _cross_fitted(data: Dataset, unseen: Unseen, units: Int[IntArray, "N"], seed: int) -> tuple[Unseen, Unseen]:
    """Least squares and the mean, each row predicted by fits to other folds; rows of one unit are in one fold."""
    distinct, unit = np.unique(units[unseen.places], return_inverse=True)
    fold = (np.random.default_rng(seed).permutation(len(distinct)) % min(_FOLDS, len(distinct)))[unit.ravel()]
    results = [replace(unseen, mean=np.empty_like(unseen.mean), pit=np.empty_like(unseen.pit)) for _ in range(2)]
    for number in range(fold.max() + 1):
        here = fold == number
        others = data.rows(unseen.places[~here] if (~here).any() else unseen.places)
        for result, found in zip(results, _baselines(others, data.rows(unseen.places[here])), strict=True):
            result.mean[here], result.pit[here] = found.mean, found.pit
    return results[0], results[1]


def _baselines(train: Dataset, test: Dataset) -> tuple[Unseen, Unseen]:
    """Least squares and the mean with Normal residuals, each output fitted to the rows where it is observed."""
    places, shape = np.arange(test.num_rows), test.y.shape
    results = [Unseen("", places, np.empty(shape), np.empty(shape)) for _ in range(2)]
    for output in range(train.num_outputs):
        rows = ~np.isnan(train.y[:, output])
        x, y = train.x[rows], train.y[rows, output]
        if not len(y):
            x, y = np.zeros((1, train.num_inputs)), np.zeros(1)
        line = LinearRegression().fit(x, y)
        guesses = (line.predict(test.x), line.predict(x), x.shape[1] + 1), (y.mean(), y.mean(), 1)
        for result, (at_test, at_train, num_free) in zip(results, guesses, strict=True):
            spread = np.sqrt(np.square(y - at_train).sum() / max(1, len(y) - num_free))
            result.mean[:, output] = at_test
            with np.errstate(over="ignore"):  # a line through all rows has no spread
                gap = (test.y[:, output] - at_test) / max(spread, np.finfo(np.float64).tiny)
            result.pit[:, output] = ndtr(gap)
    return results[0], results[1]
