"""Which inputs matter: importance of inputs to predictions, and Sobol indices of the function that was learnt."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import stdtrit
from scipy.stats import qmc

from mogul._typing import Array
from mogul.data import Dataset
from mogul.data.checks import as_matrix, in_order, require_columns, require_finite_inputs
from mogul.data.encodings.column import evenly_spread
from mogul.data.sources.containers import require_same_index
from mogul.errors import ConfigError, DataError, require_positive
from mogul.fitted.fitted import Fitted
from mogul.priors import DeepGPs, IndependentGPs

# Inputs at which an input is redrawn where no rows are given, in each repeat.
_REDRAWN_ROWS = 1024
# Numbers in the covariances of function draws, all GPs together: 320 MB in float64.
_MOST_NUMBERS = 40_000_000
_JOINT_POINTS, _FEWEST_POINTS = 256, 32
_DRAWS_OF_MEANS = 100  # where outputs are transformed
_OVERALL = "all outputs"
_CONSTANT = 1e-8  # share of an output's variance that is none


@dataclass(frozen=True)
class Importance:
    """Importance of each input to each output, in each repeat.

    A unit is the variance of the output: 0.3 is a loss of 0.3 in R².

    Args:
        columns: the user's columns of inputs.
        outputs: names of the outputs.
        repeats: importances, each time with other random numbers.
    """

    columns: list[str]
    outputs: list[str]
    repeats: Float[Array, "R C P"]

    @property
    def mean(self) -> Float[Array, "C P"]:
        """The mean over repeats."""
        result: Array = self.repeats.mean(0)
        return result

    @property
    def overall(self) -> Float[Array, "C"]:
        """The mean over outputs, too."""
        result: Array = self.mean.mean(1)
        return result

    def frame(self, level: float = 0.95) -> pd.DataFrame:
        """A row for each input, the most important first: over all outputs with an interval, then each output.

        The interval is that of the mean over repeats, by Student's t. It covers the choice of random numbers; that of
        rows, and what the model does not know, it does not.
        """
        each = self.repeats.mean(2)
        reach = _reach_of_mean(each, level)
        columns = {_OVERALL: self.overall, "low": self.overall - reach, "high": self.overall + reach}
        columns |= {name: self.mean[:, place] for place, name in enumerate(self.outputs) if len(self.outputs) > 1}
        frame = pd.DataFrame(columns, index=pd.Index(self.columns, name="input"))
        return frame.iloc[np.argsort(-self.overall, kind="stable")]


@dataclass(frozen=True)
class SobolIndices:
    """Draws of the Sobol indices of each input and output.

    Args:
        columns: the user's columns of inputs.
        outputs: names of the outputs.
        first: first-order indices: the share of the variance that an input explains alone.
        total: total indices: the share that is left when all other inputs are known.
    """

    columns: list[str]
    outputs: list[str]
    first: Float[Array, "S C P"]
    total: Float[Array, "S C P"]

    def frame(self, level: float = 0.95) -> pd.DataFrame:
        """A row for each output and input: means over draws, and central intervals."""
        tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        columns: dict[str, Array] = {}
        for name, draws in (("first", self.first), ("total", self.total)):
            low, high = np.quantile(draws, tails, axis=0)
            for label, values in ((name, draws.mean(0)), (f"{name} low", low), (f"{name} high", high)):
                columns[label] = values.T.ravel()
        names = pd.MultiIndex.from_product([self.outputs, self.columns], names=["output", "input"])
        return pd.DataFrame(columns, index=names)


def importance(fitted: Fitted, x: Any = None, y: Any = None, repeats: int = 10, seed: int = 0) -> Importance:
    """How much worse predictions are where an input is replaced by that of another row, in units of Var y.

    With rows of inputs and outputs it is permutation importance (Breiman 2001): the increase of the mean squared error
    when the values of one column are permuted, which is the loss of R². Rows that were not trained on show what an
    input is worth to new ones. Numbers are those of scikit-learn's `permutation_importance` for the same seed.

    Without outputs it is the mean squared change of the predicted mean when one input is drawn anew:

        E [m(x) − m(x with another x_c)]² / Var y        2 b² Var x_c / Var y  for a linear m with slope b

    with inputs that are independent. The two agree where the mean is the truth and inputs are independent. This second
    one needs no slopes or lengthscales, and so is right for every model: with a forest under the GPs slopes are zero,
    and lengthscales know nothing of it, nor of a linear mean.

    Columns of text, dates or with gaps are replaced as a whole, and go by their own names.

    Args:
        fitted: the model.
        x: rows of inputs. Without outputs, their columns are drawn from independently. None: each input is spread
            evenly over mean ± √3 standard deviations of training rows; categories are as frequent as there.
        y: outputs of these rows; NaN is missing.
        repeats: permutations, or draws of 1,024 rows.
        seed: of them.

    Example:
        >>> from mogul import fit
        >>> x = np.random.default_rng(0).uniform(-1, 1, (80, 2))
        >>> found = fit(x, 3 * x[:, 0]).importance()
        >>> found.columns, found.overall.round(1).tolist()
        (['x0', 'x1'], [2.0, 0.0])
    """
    _require_observed(fitted, "importance")
    require_positive(repeats=repeats)
    if y is not None:
        if x is None:
            raise DataError("Permutation importance needs inputs beside outputs; X is missing. Give both, or neither.")
        require_same_index(x, y)
        each = _permuted(fitted, fitted.dataset(x, y).in_order(fitted.input_names, fitted.output_names), repeats, seed)
    else:
        each = _redrawn(fitted, InputSpread.of(fitted, x), repeats, seed)
    return Importance(fitted.input_columns, fitted.output_names, each)


def sobol(fitted: Fitted, x: Any = None, num_draws: int = 100, num_points: int = 4096, seed: int = 0) -> SobolIndices:
    """First-order and total Sobol indices of the noise-free outputs, for independent inputs.

        first = Var E[f | x_c] / Var f        total = 1 − Var E[f | all others] / Var f

    Each draw is that of a function of the posterior, by Saltelli's design (Saltelli et al. 2010 for the first order,
    Jansen 1999 for the total), with integrals over resampled points (Le Gratiet et al. 2014). So an interval covers
    what the model does not know of the function, and the error of the integrals. It does not cover the choice of the
    model, nor its hyperparameters unless their uncertainty is part of the posterior, as it is for exact GPs; nor that
    inputs depend on each other, where these indices have no meaning. Draws of different inputs are independent.

    An estimate may be slightly negative where an index is zero. Columns of text, dates or with gaps are one input each.

    Args:
        fitted: the model.
        x: rows of inputs, whose columns are drawn from independently. None: each input is spread evenly over mean ± √3
            standard deviations of training rows; categories are as frequent as there.
        num_draws: functions.
        num_points: base points of the integrals, a power of two.
        seed: of functions, points and resampling.

    Example:
        >>> from mogul import fit
        >>> x = np.random.default_rng(0).uniform(-1, 1, (80, 2))
        >>> found = fit(x, 2 * x[:, 0] + x[:, 1]).sobol(num_draws=20)
        >>> found.frame()["total"].round(1).tolist()
        [0.8, 0.2]
    """
    _require_observed(fitted, "sobol")
    require_positive(num_draws=num_draws, num_points=num_points)
    if num_points < _FEWEST_POINTS or num_points & (num_points - 1):
        raise ConfigError(
            f"num_points must be a power of two, {_FEWEST_POINTS} or more; got {num_points}. "
            f"Try {max(_FEWEST_POINTS, 1 << round(math.log2(num_points)))}."
        )
    spread, central, count = InputSpread.of(fitted, x), _central_function(fitted), len(fitted.input_columns)
    few, many = (_sobol_points(size, 2 * count, seed) for size in (min(num_points, _joint_points(fitted)), num_points))
    before = [central(spread.at(part)) for part in np.split(many, 2, axis=1)]
    draws = np.empty((2, num_draws, count, len(fitted.output_names)))
    for place in range(count):
        own, other, mixed = _design(few, place)
        points = spread.at(np.vstack([own, other, mixed]))
        functions = draw_functions(fitted, points, num_draws, seed + place * num_draws)
        # Functions differ little from the central one, so a few points are enough for the difference of their indices.
        drawn, near = (sobol_estimates(*np.split(each, 3, axis=1)) for each in (functions, central(points)[None]))
        whole = _resampled([*before, central(spread.at(_design(many, place)[2]))], num_draws, [seed, place])
        draws[:, :, place] = np.array(drawn) - np.array(near) + whole
    draws[..., np.var(np.vstack(before), axis=0) <= _CONSTANT * np.square(fitted.scaling.outputs.scale)] = 0.0
    return SobolIndices(fitted.input_columns, fitted.output_names, *draws)


def sobol_estimates(
    f_own: Float[Array, "S N P"], f_other: Float[Array, "S N P"], f_mixed: Float[Array, "S N P"]
) -> tuple[Float[Array, "S P"], Float[Array, "S P"]]:
    """First-order and total index of the input that the mixed points have from the other ones; 0 for a constant.

    >>> f = np.random.default_rng(0).standard_normal((2, 1, 1000, 1))
    >>> [estimate.item() for estimate in sobol_estimates(f[0], f[1], f[0])]
    [0.0, 0.0]
    """
    both = np.concatenate([f_own, f_other], axis=1)
    var = both.var(axis=1)
    centred = f_other - both.mean(axis=1, keepdims=True)
    first = np.mean(centred * (f_mixed - f_own), axis=1)
    total = 0.5 * np.mean(np.square(f_own - f_mixed), axis=1)
    unit = np.where(var > 0, var, 1.0)
    return first / unit, total / unit


@dataclass(frozen=True)
class InputSpread:
    """Independent distributions of the user's columns of inputs: like training rows, or the columns of given rows.

    Args:
        fitted: the model, whose scaling has means and standard deviations of training rows.
        rows: numbers of given rows, each column in the order of its values.
    """

    fitted: Fitted
    rows: Float[Array, "N D"] | None = None

    @staticmethod
    def of(fitted: Fitted, x: Any = None) -> "InputSpread":
        """Like training rows, or like these."""
        if x is None:
            return InputSpread(fitted)
        rows = input_rows(fitted, x)
        ordered = [rows[np.lexsort(rows[:, own].T[::-1])][:, own] for own in column_slices(fitted)]
        return InputSpread(fitted, np.hstack(ordered))

    def at(self, ranks: Float[Array, "K C"]) -> Float[Array, "K D"]:
        """Inputs, as numbers, at ranks between 0 and 1 of each column's distribution."""
        parts = list(zip(ranks.T, column_slices(self.fitted), strict=True))
        if self.rows is not None:
            last = len(self.rows) - 1
            places = [np.minimum((own * len(self.rows)).astype(np.int64), last) for own, _ in parts]
            return np.hstack([self.rows[rows, own] for rows, (_, own) in zip(places, parts, strict=True)])
        mean, scale = self.fitted.scaling.inputs.shift, self.fitted.scaling.inputs.scale
        if self.fitted.encoding is None:
            return np.hstack([evenly_spread(u[:, None], mean[own], scale[own]) for u, own in parts])
        encodings = zip(self.fitted.encoding.columns, parts, strict=True)
        return np.hstack([column.quantiles(u, mean[own], scale[own]) for column, (u, own) in encodings])


def input_rows(fitted: Fitted, x: Any) -> Float[Array, "N D"]:
    """Inputs as numbers, checked, in the order of training."""
    rows, names = as_matrix(in_order(fitted.encoded(x), fitted.input_names, "X"), "X")
    require_columns(rows, fitted.input_names, "X")
    require_finite_inputs(rows, names)
    return rows


def column_slices(fitted: Fitted) -> list[slice]:
    """The columns of numbers of each of the user's columns."""
    encoding = fitted.encoding
    widths = [1] * len(fitted.input_names) if encoding is None else [len(each.features) for each in encoding.columns]
    return [slice(end - width, end) for end, width in zip(np.cumsum(widths).tolist(), widths, strict=True)]


def _permuted(fitted: Fitted, data: Dataset, repeats: int, seed: int) -> Float[Array, "R C P"]:
    """Loss of R² in each permutation, drawn as scikit-learn does: each of a column goes on from the one before."""
    mean_of = mean_function(fitted)
    squares = np.nansum(np.square(data.y - np.nanmean(data.y, axis=0)), axis=0)
    if not (squares > 0).all():
        name = fitted.output_names[int(np.argmin(squares))]
        raise DataError(f"Outputs must vary to be explained; {name!r} does not in these rows. Give more rows.")
    before = np.nansum(np.square(data.y - mean_of(data.x)), axis=0)
    slices, order_seed = column_slices(fitted), np.random.RandomState(seed).randint(2**31)
    result = np.empty((repeats, len(slices), data.num_outputs))
    for place, own in enumerate(slices):
        rng, order, x = np.random.RandomState(order_seed), np.arange(data.num_rows), data.x.copy()
        for repeat in range(repeats):
            rng.shuffle(order)
            x[:, own] = x[order, own]
            after = np.nansum(np.square(data.y - mean_of(x)), axis=0)
            result[repeat, place] = (after - before) / squares
    return result


def _redrawn(fitted: Fitted, spread: InputSpread, repeats: int, seed: int) -> Float[Array, "R C P"]:
    """Mean squared change of the mean when a column is drawn anew."""
    mean_of, count, var = mean_function(fitted), len(fitted.input_columns), fitted.scaling.outputs.scale**2
    result = np.empty((repeats, count, len(var)))
    for repeat in range(repeats):
        points = _sobol_points(_REDRAWN_ROWS, 2 * count, seed + repeat)
        before = mean_of(spread.at(points[:, :count]))
        for place in range(count):
            after = mean_of(spread.at(_design(points, place)[2]))
            result[repeat, place] = np.square(after - before).mean(0) / var
    return result


def mean_function(fitted: Fitted) -> Callable[[Float[Array, "N D"]], Float[Array, "N P"]]:
    """The mean of the outputs, in the user's units, from inputs as numbers."""
    if not fitted.transforms:
        return fitted.predictor().mean

    def mean(x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        rows = Dataset(x, np.zeros((len(x), len(fitted.output_names))))
        return np.concatenate([part.mean for part, _ in Fitted.predict_parts(fitted, rows, _DRAWS_OF_MEANS)])

    return mean


def draw_functions(fitted: Fitted, points: Float[Array, "K D"], num_draws: int, seed: int) -> Float[Array, "S K P"]:
    """Draws of the function; of a deep model one by one, since each has covariances of its own."""
    if any(isinstance(one.model.prior, DeepGPs) for one in fitted.single_models):
        each = [fitted.sample_functions(points, 1, seed + number) for number in range(num_draws)]
        return np.concatenate(each)
    return fitted.sample_functions(points, num_draws, seed)


def _joint_points(fitted: Fitted) -> int:
    """The largest power of two N for which the covariances of 3N points fit into memory; enough is enough."""
    modules = [module for one in fitted.single_models[:1] for module in one.model.modules()]
    num_gps = sum(module.num_latents for module in modules if isinstance(module, IndependentGPs))
    most = math.sqrt(_MOST_NUMBERS / max(1, num_gps)) / 3
    return min(_JOINT_POINTS, max(_FEWEST_POINTS, 1 << int(math.log2(most))))


def _design(
    points: Float[Array, "N C2"], place: int
) -> tuple[Float[Array, "N C"], Float[Array, "N C"], Float[Array, "N C"]]:
    """Two sets of ranks, and the first with one column of the second."""
    own, other = np.split(points, 2, axis=1)
    return own, other, np.where(np.arange(own.shape[1]) == place, other, own)


def _resampled(values: list[Float[Array, "N P"]], num_draws: int, seed: list[int]) -> Float[Array, "2 S P"]:
    """Indices of one function by points that are resampled with replacement."""
    rng, size = np.random.default_rng(seed), len(values[0])
    each = (rng.integers(size, size=size) for _ in range(num_draws))
    found = [sobol_estimates(*(part[None, rows] for part in values)) for rows in each]
    return np.concatenate(found, axis=1)


def _central_function(fitted: Fitted) -> Callable[[Float[Array, "N D"]], Float[Array, "N P"]]:
    """A function in the middle of those that `Fitted.sample_functions` draws."""
    mean = fitted.modelled.predictor().mean
    return lambda x: fitted.scaling.undo_transforms(mean(x))


def _sobol_points(num_points: int, num_columns: int, seed: int) -> Float[Array, "N C"]:
    """Scrambled Sobol points, spread evenly over the unit cube."""
    points: Array = qmc.Sobol(num_columns, seed=np.random.default_rng(seed)).random(num_points)
    return points


def _reach_of_mean(values: Float[Array, "R C"], level: float) -> Float[Array, "C"]:
    """Half the interval of the mean, by Student's t; NaN of one repeat."""
    repeats = len(values)
    if repeats == 1:
        return np.full(values.shape[1], np.nan)
    reach: Array = stdtrit(repeats - 1, 0.5 + 0.5 * level) * values.std(0, ddof=1) / math.sqrt(repeats)
    return reach


def _require_observed(fitted: Fitted, what: str) -> None:
    if fitted.is_latent:
        raise ConfigError(
            f"{what} needs a model with observed inputs; this one infers its inputs from outputs. "
            "Use relevance for its latent inputs."
        )
