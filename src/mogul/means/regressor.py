"""Any regressor as the mean of the outputs: a GP models the residuals that it leaves at rows it was not fitted to."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.utils import get_tags
from torch import Tensor, nn

from mogul._typing import Array, BoolArray, IntArray
from mogul.core.base_samples import Normals
from mogul.errors import ConfigError, FileError, FitError
from mogul.means.linear import SMALLEST_RESIDUAL, OutputMean
from mogul.means.trees import TraceableTrees, TreeSum, has_arrays

REGRESSORS = ("trees", "boosting")
NUM_TREES = 300

_FOLDS = 5
# Outputs with fewer rows, or groups, have their mean value in place of a regressor.
_FEWEST = 10
_ENOUGH_TREES = 100
# Up to this number of rows each output has trees of its own: outputs may depend on different inputs. With more, joint
# trees of all outputs save time.
_FEW = 2500
_NUMBERS_AT_ONCE = 4_000_000


@runtime_checkable
class Regressor(Protocol):
    """What scikit-learn's regressors have."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from rows."""

    def predict(self, X: Any) -> Any:
        """Predict outputs of rows."""

    def get_params(self, deep: bool = True) -> Any:
        """Settings, which `sklearn.base.clone` copies."""


class RegressorMean(OutputMean):
    """Predictions of regressors, each for some of the outputs; the head models residuals in units of `scale`.

    Args:
        parts: trees as arrays, or regressors that exist in memory alone.
        scale: the head's unit, in units of y: the standard deviation of cross-fitted residuals.
        base: another mean that is added, such as the linear mean of those residuals.
    """

    base: OutputMean | None

    def __init__(
        self, parts: "list[TreeSum | InMemory]", scale: Float[Tensor, "P"], base: OutputMean | None = None
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.register_buffer("scale", scale)
        self.base = base

    def plus(self, base: OutputMean) -> "RegressorMean":
        """These regressors with another mean added, whose units the head has."""
        return RegressorMean(list(self.parts), base.scale, base)  # type: ignore[arg-type]  # torch calls them modules

    @staticmethod
    def stored(state: dict[str, Tensor], num_inputs: int, base: OutputMean | None) -> "RegressorMean":
        """From the tensors of a model file, for this number of inputs."""
        numbers = {int(name.split(".")[2]) for name in state if name.startswith("mean.parts.")}
        parts: list[TreeSum | InMemory] = [TreeSum.stored(state, f"mean.parts.{number}.") for number in sorted(numbers)]
        columns = sorted(column for part in parts for column in part.columns.tolist())
        most = max(int(part.feature.max()) if len(part.feature) else 0 for part in parts if isinstance(part, TreeSum))
        if columns != list(range(len(state["mean.scale"]))) or most >= num_inputs:
            raise FileError(
                f"Trees must predict each output once, from {num_inputs} inputs; got {columns} from input {most}. "
                "Do not trust this file."
            )
        return RegressorMean(parts, state["mean.scale"], base)

    @property
    def outputs(self) -> list[int]:
        """The outputs that a regressor predicts; others have the added mean alone."""
        return sorted(int(column) for part in self.parts for column in part.used)  # type: ignore[union-attr]

    @property
    def unstorable(self) -> str | None:
        """The regressor that a model file cannot hold, if there is one."""
        return next((_words(part.regressor) for part in self.parts if isinstance(part, InMemory)), None)

    def traceable(self) -> "TraceableMean":
        """The same mean for `torch.export`; trees only."""
        if self.unstorable is not None:
            raise ConfigError(
                f"A mean must be trees or boosting to be exported; got {self.unstorable}. Fit with mean='trees'."
            )
        return TraceableMean([part for part in self.parts if isinstance(part, TreeSum)], self.scale, self.base)

    @property
    def numbers_per_row(self) -> int:
        """Those of the largest part."""
        own = max(int(part.numbers_per_row) for part in self.parts)  # type: ignore[arg-type]  # torch calls it a module
        return own + (0 if self.base is None else self.base.numbers_per_row)

    def var(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"] | None:
        """That of the mean that is added; the regressors are known."""
        return None if self.base is None else self.base.var(x)

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "*S N P"]:
        """The regressors, with a draw of the mean that is added."""
        own = self._regressors(x)
        return own if self.base is None else own + self.base.sample_joint(x, normals)

    def forward(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"]:
        """What the regressors predict, in the precision of x, and the mean that is added."""
        own = self._regressors(x)
        return own if self.base is None else own + self.base.forward(x)

    def _regressors(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"]:
        rows = x.detach().reshape(-1, x.shape[-1])
        result = rows.new_zeros(len(rows), len(self.scale), dtype=torch.float64)
        size = max(1, _NUMBERS_AT_ONCE // self.numbers_per_row)
        for part in self.parts:
            result[:, part.columns] = torch.cat([part(some) for some in rows.split(size)])  # type: ignore[index,no-untyped-call]
        return result.to(x.dtype).reshape(*x.shape[:-1], len(self.scale))


class TraceableMean(OutputMean):
    """A `RegressorMean` of trees, for `torch.export`."""

    order: Tensor

    base: OutputMean | None

    def __init__(self, parts: list[TreeSum], scale: Float[Tensor, "P"], base: OutputMean | None) -> None:
        super().__init__()
        self.parts = nn.ModuleList(TraceableTrees(part) for part in parts)
        self.register_buffer("scale", scale)
        self.base = base
        self.order = torch.cat([part.columns for part in parts]).argsort()

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        """What the trees predict, in the precision of x, and the mean that is added."""
        each = torch.cat([part(x.detach()) for part in self.parts], dim=-1)
        own = each.index_select(-1, self.order).to(x.dtype)
        return own if self.base is None else own + self.base.forward(x)

    def var(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P"] | None:
        """That of the mean that is added."""
        return None if self.base is None else self.base.var(x)


class InMemory(nn.Module):
    """A fitted regressor for some of the outputs."""

    columns: Tensor

    def __init__(self, regressor: Regressor, columns: Int[IntArray, "C"]) -> None:
        super().__init__()
        self.regressor = regressor
        self.register_buffer("columns", torch.as_tensor(columns), persistent=False)

    @property
    def used(self) -> Int[IntArray, "C"]:
        """All of its outputs."""
        return self.columns.numpy()

    @property
    def numbers_per_row(self) -> int:
        """A guess: regressors do not say."""
        return 100 * len(self.columns)

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N C"]:
        """Its predictions."""
        return torch.as_tensor(_predicted(self.regressor, x.double().cpu().numpy(), len(self.columns))).to(x.device)


@dataclass(frozen=True)
class CrossFitted:
    """A mean fitted to all rows, and predictions for the same rows by regressors that were not fitted to them.

    In-sample residuals of a forest are far smaller than its errors at new rows; a GP trained on them would be far too
    sure. So training uses y − `predictions`, and predictions use `mean`.

    Example:
        >>> x = np.random.default_rng(0).uniform(size=(40, 1))
        >>> y = np.sin(6 * x)
        >>> found = CrossFitted.of("trees", x, y, np.arange(40), seed=0)
        >>> in_sample = y - found.mean.forward(torch.as_tensor(x)).numpy()
        >>> bool(np.std(in_sample) < np.std(y - found.predictions))
        True
    """

    mean: RegressorMean
    predictions: Float[Array, "N P"]

    def only(self, wanted: Bool[BoolArray, "P"]) -> "CrossFitted":
        """The same for some of the outputs, and zero for the others; the regressors must be trees."""
        parts = [part.only(wanted) for part in self.mean.parts if isinstance(part, TreeSum)]
        return CrossFitted(RegressorMean(list(parts), self.mean.scale), np.where(wanted, self.predictions, 0.0))

    @staticmethod
    def of(
        regressor: "str | Regressor",
        x: Float[Array, "N D"],
        y: Float[Array, "N P"],
        units: Int[IntArray, "N"],
        seed: int,
        num_trees: int = NUM_TREES,
    ) -> "CrossFitted":
        """Fit each output on the rows where it is observed.

        Args:
            regressor: "trees", "boosting", or any regressor of scikit-learn's kind, which is cloned.
            x: standardised inputs.
            y: standardised outputs; NaN is missing.
            units: a number for each row: rows with the same number are left out together.
            seed: of folds, and of regressors that have none.
            num_trees: of a regressor given by its name.
        """
        template = _seeded(_by_name(regressor, num_trees) if isinstance(regressor, str) else clone(regressor), seed)
        units = _without_copies(x, y, units)
        parts: list[TreeSum | InMemory] = []
        predictions, scale = np.zeros(y.shape), np.ones(y.shape[1])
        observed = ~np.isnan(y)
        for columns in _columns_together(template, observed, separate=isinstance(regressor, str) and len(x) <= _FEW):
            rows = observed[:, columns[0]]
            part, left_out = _fit(template, x[rows], y[np.ix_(rows, columns)], columns, units[rows], seed)
            parts.append(part)
            predictions[np.ix_(rows, columns)] = left_out
            residual = y[np.ix_(rows, columns)] - left_out
            spread = np.sqrt(np.square(residual).mean(0)) if rows.sum() > 1 else np.ones(len(columns))
            scale[columns] = np.maximum(spread, SMALLEST_RESIDUAL)
        return CrossFitted(RegressorMean(parts, torch.as_tensor(scale)), predictions)


def require_regressor(mean: Any, names: tuple[str, ...]) -> None:
    """A mean that is not a name must be a regressor, not fitted or fitted, that can be cloned."""
    if isinstance(mean, type) or not isinstance(mean, Regressor):
        remedy = f"Give {mean.__name__}()." if isinstance(mean, type) else "Try mean='trees'."
        raise ConfigError(
            f"mean must be one of {', '.join(names)}, or a regressor of scikit-learn's kind; got {mean!r}. {remedy}"
        )


def _by_name(name: str, num_trees: int) -> Any:
    if name == "trees":
        # Leaves of two rows and many trees: what did best on recordings of robots. Threads do not change the result.
        jobs = torch.get_num_threads()
        return ExtraTreesRegressor(num_trees, min_samples_leaf=2, bootstrap=True, oob_score=True, n_jobs=jobs)
    return HistGradientBoostingRegressor(max_iter=num_trees)


def _seeded(regressor: Any, seed: int) -> Any:
    """With this seed wherever there is none: the same call gives the same model."""
    unset = {
        name: seed
        for name, value in regressor.get_params().items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return regressor.set_params(**unset) if unset else regressor


def _without_copies(x: Float[Array, "N D"], y: Float[Array, "N P"], units: Int[IntArray, "N"]) -> Int[IntArray, "N"]:
    """The same units, where rows that are equal share one: a copy would tell a regressor what it must not know."""
    both = np.column_stack([x, np.nan_to_num(y, nan=np.inf)])
    _, first, inverse = np.unique(both, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(x):
        return units
    return units[first[inverse.ravel()]] if len(np.unique(units)) == len(units) else units


def _columns_together(template: Any, observed: Bool[Array, "N P"], *, separate: bool) -> list[Int[IntArray, "C"]]:
    """Outputs that one regressor predicts: those observed in the same rows, or each alone if it can have one only."""
    if separate or not _takes_many(template):
        return [np.array([column]) for column in range(observed.shape[1])]
    _, group = np.unique(observed, axis=1, return_inverse=True)
    return [np.flatnonzero(group.ravel() == number) for number in range(group.max() + 1)]


def _takes_many(template: Any) -> bool:
    try:
        return bool(get_tags(template).target_tags.multi_output)
    except (AttributeError, TypeError):  # not scikit-learn's own, without tags
        return False


def _fit(
    template: Any,
    x: Float[Array, "N D"],
    y: Float[Array, "N C"],
    columns: Int[IntArray, "C"],
    units: Int[IntArray, "N"],
    seed: int,
) -> tuple[TreeSum | InMemory, Float[Array, "N C"]]:
    """The regressor of some outputs, and its predictions for rows that were left out."""
    distinct, unit = np.unique(units, return_inverse=True)
    if len(distinct) < _FEWEST:
        constant = y.mean(0) if len(y) else np.zeros(len(columns))
        return TreeSum.constant(constant, columns), np.broadcast_to(constant, y.shape)
    settings = template.get_params(deep=False)
    # With fewer trees, some rows are in all their bags.
    bagged = settings.get("oob_score") is True and settings.get("n_estimators", 0) >= _ENOUGH_TREES
    out_of_bag = bagged and len(distinct) == len(units)
    if "oob_score" in settings and not out_of_bag:
        template = clone(template).set_params(oob_score=False)
    whole = _fitted(template, x, y)
    if out_of_bag:
        left_out = whole.oob_prediction_.reshape(y.shape)
    else:
        left_out = np.empty(y.shape)
        fold = (np.random.default_rng(seed).permutation(len(distinct)) % _FOLDS)[unit.ravel()]
        for number in range(_FOLDS):
            others = fold != number
            left_out[~others] = _predicted(_fitted(template, x[others], y[others]), x[~others], len(columns))
    return (TreeSum.of(whole, columns) if has_arrays(whole) else InMemory(whole, columns)), left_out


def _fitted(template: Any, x: Float[Array, "N D"], y: Float[Array, "N C"]) -> Any:
    try:
        return clone(template).fit(x, y[:, 0] if y.shape[1] == 1 else y)
    except (ValueError, TypeError) as error:
        raise FitError(
            f"A regressor as the mean must fit finite rows; {_words(template)} did not: {error}. Try mean='trees'."
        ) from error


def _predicted(regressor: Any, x: Float[Array, "N D"], num_columns: int) -> Float[Array, "N C"]:
    predicted: Array = np.asarray(regressor.predict(x), dtype=np.float64).reshape(len(x), num_columns)
    if not np.isfinite(predicted).all():
        raise FitError(
            f"A regressor as the mean must predict finite numbers; {_words(regressor)} did not. Try mean='trees'."
        )
    return predicted


def _words(regressor: Any) -> str:
    """What it is, in one line."""
    return " ".join(repr(regressor).split())
