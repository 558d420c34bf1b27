"""Checks of data before training: findings are warnings and never stop a training."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from mogul._typing import Array
from mogul.data.dataset import ROUNDING, Dataset, Standardiser, barely_varies

# Beyond this ratio of standard deviations, columns are probably in the wrong units.
_WILD = 1e6
# Eigenvalues of the inputs' correlations below this share of the largest count as rounding errors.
_FLAT = 1e-12
_FEW_VALUES = 10
_FEW_ROWS = 5
# From this share of the rows, copies are probably a mistake and not repeated measurements.
_MANY_COPIES = 0.1
_NAMES_SHOWN = 4

Flags = npt.NDArray[np.bool_]  # one for each column


@dataclass(frozen=True)
class Finding:
    """A problem with some columns: a rule, the value found, and a remedy.

    Args:
        rule: short name of the check.
        columns: names of the columns; empty if it concerns rows.
        message: rule, value and remedy, for a person.
    """

    rule: str
    columns: tuple[str, ...]
    message: str


def advice(data: Dataset, num_inducing: Mapping[str, int] | None = None) -> list[Finding]:
    """Findings about the columns, at most one per check.

    Args:
        data: the rows to train on; every output must have a value somewhere.
        num_inducing: requested numbers of inducing points, by option name.

    Example:
        >>> data = Dataset([[1.0, 2.0], [1.0, 3.0]], [[0.0], [1.0]])
        >>> [(finding.rule, finding.columns) for finding in advice(data)]
        [('constant input', ('x0',))]
    """
    return [*_about_inputs(data), *_about_outputs(data), *_about_inducing(data, num_inducing or {})]


def row_advice(data: Dataset) -> list[Finding]:
    """Findings about the rows as given, before weights repeat them or validation rows are held out.

    Example:
        >>> [finding.rule for finding in row_advice(Dataset([[1.0], [1.0], [2.0]], [[5.0], [5.0], [6.0]]))]
        ['few rows', 'copied rows']
    """
    found = []
    if data.num_rows < _FEW_ROWS:
        found.append(
            Finding(
                "few rows",
                (),
                f"There should be at least {_FEW_ROWS} rows; got {data.num_rows}. "
                "Predictions say little more than the mean and spread of the outputs: gather more.",
            )
        )
    share = pd.DataFrame(np.hstack([data.x, data.y])).duplicated().mean() if data.num_inputs else 0.0
    if share >= _MANY_COPIES:
        found.append(
            Finding(
                "copied rows",
                (),
                f"Rows should be separate measurements; about {round(share, 1):.0%} repeat another, inputs and outputs "
                "alike. Each copy counts as a measurement, so uncertainty is too small if it is not one: drop "
                "copies, or give rows of one measurement the same label in groups.",
            )
        )
    return found


def _about_inputs(data: Dataset) -> Iterator[Finding]:
    names = data.input_names
    constant = barely_varies(data.x) & (data.num_rows > 1)
    same = constant & _are_equal(data.x)
    if same.any():
        yield _found(
            "constant input",
            _named(names, same),
            "Inputs should vary; {columns} {hold} one value in all rows. "
            "Kept, and harmless: nothing is learnt from it, and it may be left out.",
        )
    yield from _about_rounding(names, constant & ~same, "input")
    own = ~(constant if data.encoding is None else constant | data.encoding.derived)  # levels of a category sum to one
    copies = _copies(data.x, own)
    if copies.any():
        yield _found(
            "duplicate input",
            _named(names, copies),
            "Inputs should differ from each other; {columns} {repeat} another. "
            "Kept, and harmless: relevance is shared between copies, and one may be left out.",
        )
    yield from _about_scales(data.x, names, own, "inputs")
    entangled = _are_collinear(data.x, own & ~copies)
    if entangled.any():
        yield _found(
            "collinear inputs",
            _named(names, entangled),
            "Inputs should not be sums of others; among {columns} one is, to rounding. "
            "Predictions stand; slopes and relevances of these inputs cannot be told apart: leave one out.",
        )


def _about_outputs(data: Dataset) -> Iterator[Finding]:
    names = data.output_names
    counts = (~np.isnan(data.y)).sum(0)
    few = (counts < _FEW_VALUES) & (counts < data.num_rows)
    if few.any():
        yield _found(
            "few values",
            _named(names, few),
            f"Outputs should have at least {_FEW_VALUES} values; {{columns}} {{have}} "
            f"{counts[few].min()} of {data.num_rows}. "
            "It can be learnt only through the other outputs: leave it out, or gather more.",
        )
    constant = barely_varies(data.y) & (counts > 1)
    same = constant & _are_equal(data.y)
    if same.any():
        yield _found(
            "constant output",
            _named(names, same),
            "Outputs should vary; {columns} {hold} one value in all rows. "
            "That value is predicted everywhere, with a meaningless uncertainty: leave it out.",
        )
    yield from _about_rounding(names, constant & ~same, "output")
    copies = _copies(data.y, ~constant & ~few)
    if copies.any():
        yield _found(
            "duplicate output",
            _named(names, copies),
            "Outputs should differ from each other; {columns} {repeat} another. "
            "Kept, and predicted like it: leave one out to save time.",
        )
    yield from _about_scales(data.y, names, ~constant & (counts > 1), "outputs")


def _about_rounding(names: list[str], flat: Flags, kind: str) -> Iterator[Finding]:
    if flat.any():
        yield _found(
            f"{kind} near rounding",
            _named(names, flat),
            f"{kind.capitalize()}s should vary by more than rounding; {{columns}} {{vary}} by less than "
            f"{ROUNDING:.0e} of the values' size. Centred, and not scaled: subtract a constant from it first.",
        )


def _about_scales(values: Float[Array, "N K"], names: list[str], vary: Flags, kind: str) -> Iterator[Finding]:
    if vary.sum() < 2:
        return
    scale = Standardiser.of(values[:, vary]).scale
    order, varying = np.argsort(scale), _named(names, vary)
    (least, low), (most, high) = ((varying[place], scale[place]) for place in (order[0], order[-1]))
    if high > _WILD * low:
        yield Finding(
            f"scales of {kind}",
            (least, most),
            f"{kind.capitalize()} should vary on scales within a factor of {_WILD:,.0f}; {least!r} has a standard "
            f"deviation of {low:.1e} and {most!r} one of {high:.1e}. "
            "Each is standardised, which is enough if the units are right: check them.",
        )


def _about_inducing(data: Dataset, num_inducing: Mapping[str, int]) -> Iterator[Finding]:
    for option, asked in num_inducing.items():
        points = data.x if data.num_inputs else data.y
        # Sorting many rows is slow, and enough distinct rows among the first ones settle the question.
        if len(np.unique(points[: 2 * asked], axis=0)) >= asked:
            continue
        distinct = len(np.unique(points, axis=0))
        if distinct < asked:
            yield Finding(
                f"fewer rows than {option}",
                (),
                f"{option} should be at most the number of different rows, {distinct}; got {asked}. "
                f"Lowered to {distinct}, one for each.",
            )


def _are_equal(values: Float[Array, "N K"]) -> Flags:
    """Which columns have a single known value."""
    equal: Flags = np.fmin.reduce(values, axis=0) == np.fmax.reduce(values, axis=0)
    return equal


def _copies(values: Float[Array, "N K"], among: Flags) -> Flags:
    """Which of these columns repeat an earlier one."""
    seen: set[bytes] = set()
    copies = np.zeros(values.shape[1], dtype=bool)
    for column in np.flatnonzero(among):
        key = (values[:, column] + 0.0).tobytes()  # −0 becomes 0
        copies[column] = key in seen
        seen.add(key)
    return copies


def _are_collinear(x: Float[Array, "N D"], among: Flags) -> Flags:
    """Which of these columns are linearly dependent over all rows, up to rounding."""
    collinear = np.zeros(x.shape[1], dtype=bool)
    if not 1 < among.sum() < len(x):  # with fewer rows than columns there always is a relation
        return collinear
    columns = x[:, among]
    standard = Standardiser.of(columns).apply(columns)
    sizes, directions = np.linalg.eigh(standard.T @ standard)
    relations = np.abs(directions[:, sizes < _FLAT * sizes[-1]])
    collinear[np.flatnonzero(among)[(relations > 1e-3).any(1)]] = True
    return collinear


def _named(names: list[str], which: Flags) -> tuple[str, ...]:
    return tuple(name for name, chosen in zip(names, which, strict=True) if chosen)


def _found(rule: str, columns: tuple[str, ...], pattern: str) -> Finding:
    listed = ", ".join(repr(name) for name in columns[:_NAMES_SHOWN])
    more = len(columns) - _NAMES_SHOWN
    verbs = {"hold": "hold", "repeat": "repeat", "have": "have", "vary": "vary"}
    if len(columns) == 1:
        verbs = {"hold": "holds", "repeat": "repeats", "have": "has", "vary": "varies"}
    shown = f"{listed} and {more} more" if more > 0 else listed
    return Finding(rule, columns, pattern.format(columns=shown, **verbs))


# For rows in random order, the correlation of neighbours is nearly N(0, 1/N): four standard deviations occur by chance
# in 3 of 100,000 data sets. With many rows tiny correlations are significant, so the correlation must also be large.
LEAST_CORRELATION, _LEAST_Z = 0.3, 4.0
# Number of first rows to check.
_MOST_ROWS = 20_000
# A linear fit with residuals below this share of an output's standard deviation leaves only rounding errors.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class NeighbourCorrelation:
    """Rank correlation of residuals of neighbouring rows, over all outputs, and the number of pairs.

    Outputs may be dependent, so a pair of rows counts once for any number of outputs.
    """

    value: float
    num_pairs: float

    @property
    def z(self) -> float:
        """The correlation in standard deviations for rows in random order."""
        return self.value * math.sqrt(self.num_pairs)

    @property
    def in_order(self) -> bool:
        """Whether the correlation of neighbours is significant and large enough to matter."""
        return self.value > LEAST_CORRELATION and self.z > _LEAST_Z


def order_advice(data: Dataset) -> Finding | None:
    """A finding if rows seem ordered in time, for rows held out at random; else None.

    Example:
        >>> time = np.linspace(0, 1, 200)[:, None]
        >>> rows = Dataset(time, np.sin(20 * time))
        >>> order_advice(rows).rule, order_advice(rows.rows(np.random.default_rng(0).permutation(200)))
        ('rows in order', None)
    """
    found = neighbour_correlation(data)
    if not found.in_order:
        return None
    return Finding(
        "rows in order",
        (),
        "Rows held out at random should be in random order; neighbouring residuals of a linear fit have a correlation "
        f"of {found.value:.2f} here. If rows follow each other in time, held-out rows are too easy: give groups= "
        "(--groups), a label of its run or day for each row, or predict the future in mogul compare --folds "
        "time. If they are only sorted, all is well.",
    )


def neighbour_correlation(data: Dataset) -> NeighbourCorrelation:
    """Lag-1 rank correlation, in the order of rows, of residuals of a linear least-squares fit.

    Ranks make it robust to outliers, two of which may be neighbours by chance. Pairs with a missing value are left out.
    """
    x, y = data.x[:_MOST_ROWS], data.y[:_MOST_ROWS]
    design = np.column_stack([np.ones(len(x)), Standardiser.of(x).apply(x)])
    products, num_pairs, num_outputs = 0.0, 0, 0
    patterns, group = np.unique(~np.isnan(y), axis=1, return_inverse=True)
    for number, rows in enumerate(patterns.T):
        targets = y[rows][:, group == number]
        if rows.sum() <= 2 * design.shape[1]:  # too few rows: a linear fit leaves no meaningful residuals
            continue
        ranks = _standard_ranks(_residuals(design[rows], targets), targets)
        paired, after = _neighbours(rows)
        products += float((ranks[paired] * ranks[after]).sum())
        num_pairs += len(paired) * ranks.shape[1]
        num_outputs += ranks.shape[1]
    if not num_pairs:
        return NeighbourCorrelation(0.0, 0.0)
    return NeighbourCorrelation(products / num_pairs, num_pairs / num_outputs)


def _residuals(design: Float[Array, "N K"], targets: Float[Array, "N P"]) -> Float[Array, "N P"]:
    coefficients = np.linalg.lstsq(design, targets, rcond=None)[0]
    residuals: Array = targets - design @ coefficients
    return residuals


def _standard_ranks(residuals: Float[Array, "N P"], targets: Float[Array, "N P"]) -> Float[Array, "N Q"]:
    """Ranks of zero mean and unit variance, for outputs whose residuals exceed rounding errors."""
    left = residuals.std(0) > _ROUNDING * (targets.std(0) + np.abs(targets.mean(0)))
    ranks = rankdata(residuals[:, left], axis=0)
    centred = ranks - ranks.mean(0)
    standard: Array = centred / np.sqrt(np.square(centred).mean(0))
    return standard


def _neighbours(rows: Bool[np.ndarray, "N"]) -> tuple[np.ndarray, np.ndarray]:
    """Indices, among the present rows, of rows whose next row is present too, and of that next row."""
    place = np.flatnonzero(rows)
    first = np.flatnonzero(np.diff(place) == 1)
    return first, first + 1
