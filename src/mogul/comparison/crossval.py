"""Cross-validation: models, rivals, least squares and the mean on the same held-out rows; which of them to use."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from mogul._typing import Array, IntArray
from mogul.comparison.rivals import RIVALS, LeastSquares, normal_prediction, predict_rival, require_rivals
from mogul.core.check import HELD_OUT, OutputScores, Unseen
from mogul.core.joint import Correlated
from mogul.data import Dataset, Scaling, Standardiser
from mogul.errors import ConfigError, DataError, MogulError, NumericalError
from mogul.fitted.fitted import Fitted
from mogul.fitted.sensitivity import Importance
from mogul.metrics import FEW_OUTER, NUM_INNER, Part, Scores, score_rows
from mogul.prediction import Prediction
from mogul.training import FitRequest
from mogul.training.defaults import FEW_ROWS
from mogul.training.noise import NormalScores, fit_loadings

LEAST_SQUARES, MEAN = "least squares", "mean"
_NAMES = {rival.label: name for name, rival in RIVALS.items()}
TIE = 0.05  # nats per row: smaller differences are ties
# Bands of 95 % whose share of the truth is this near to it are called right, or nearer than two standard errors.
_BAND, _FAIR = 0.95, 0.035
_REPEATS = 5  # of importances
_SMALLER = 0.03  # errors that are smaller by this share are worth a word
_EQUAL = 0.005  # errors whose ratio is that near to 1 are called equal

Split = tuple[IntArray, IntArray]


@dataclass(frozen=True)
class RowScores:
    """Scores of a test set, and the log density of each of its rows: NaN for rows without any known output."""

    scores: Scores
    log_density: Float[Array, "N"]


def row_scores(parts: Iterable[Part], units: Standardiser) -> RowScores:
    """All scores in standardised units."""
    return RowScores(*score_rows((prediction.standardised(units), units.apply(y)) for prediction, y in parts))


@dataclass(frozen=True)
class Trial:
    """One competitor on the held-out rows of one split: its scores, its predictions, and its model, if it is one."""

    label: str
    seconds: float
    result: RowScores
    unseen: Unseen
    chosen: str | None = None  # by "auto", where it was asked for
    fitted: Fitted | None = None


@dataclass(frozen=True)
class Entry:
    """A line of the leaderboard: means over splits, in standardised units.

    `behind` is the log likelihood of the best minus its own, per row, on the same rows. `chosen` counts the splits in
    which "auto" chose each model. `outputs` are the scores of each output in its own units, over all held-out rows.
    """

    label: str
    ll: float
    ll_error: float
    behind: float
    behind_error: float
    mrmse: float
    crps: float
    coverage: dict[float, float]
    seconds: float
    chosen: dict[str, int] = field(default_factory=dict)
    outputs: tuple[OutputScores, ...] = ()

    @property
    def ties_with_best(self) -> bool:
        """Whether the best is ahead by at most `TIE`, or by at most one standard error."""
        return self.behind <= max(TIE, self.behind_error)


@dataclass(frozen=True)
class Leaderboard:
    """All competitors, best first, and those that failed with the reason.

    Args:
        entries: a line for each.
        failures: reasons, by label.
        unseen: predictions of all held-out rows, by label.
        importance: of the inputs to the best model, where it is one, for the held-out rows of the last split.
    """

    entries: list[Entry]
    failures: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, Unseen] = field(default_factory=dict)
    importance: Importance | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values, without predictions."""
        found = None if self.importance is None else self.importance.frame().reset_index().to_dict("records")
        return {
            "entries": [asdict(entry) for entry in self.entries],
            "failures": self.failures,
            "importance": found,
            "verdict": self.verdict,
            "in_words": self.in_words,
        }

    def __getitem__(self, label: str) -> Entry:
        return next(entry for entry in self.entries if entry.label == label)

    @property
    def verdict(self) -> str:
        """In a sentence or two, whether any model is better than least squares, and whether a rival is better still."""
        best, line, mean = self.entries[0], self[LEAST_SQUARES], self[MEAN]
        second = self.entries[1]
        if best is mean:
            return f"Nothing here beats the mean: {second.label} is {_gap(second)} behind it."
        if mean.ties_with_best:
            return f"Nothing here beats the mean by more than chance: it is {_gap(mean)} behind {best.label}."
        if best is line:
            return f"Least squares is the best: {second.label} is {_gap(second)} behind. A line would do."
        if line.ties_with_best:
            return f"Least squares is as good as the best: it is {_gap(line)} behind {best.label}. A line would do."
        verdict = f"{best.label} is the best: least squares is {_gap(line)} behind."
        model = next((entry for entry in self.entries if entry.label not in (MEAN, LEAST_SQUARES, *_NAMES)), None)
        if best.label not in _NAMES or model is None:
            return verdict
        # The forest is ahead of every Gaussian process: say so before anyone asks.
        tie = ", within chance" if model.ties_with_best else ""
        return f"{verdict} Of the models, {model.label} comes nearest: it is {_gap(model)} behind{tie}."

    @property
    def recommended(self) -> Entry:
        """What to use: the simplest of those that are as good as the best, of the mean, a line and the rest."""
        simple = next((self[label] for label in (MEAN, LEAST_SQUARES) if self[label].ties_with_best), None)
        return simple or self.entries[0]

    @property
    def in_words(self) -> str:
        """The same for someone who knows no statistics: how large errors are, and whether bands can be trusted."""
        used, line, mean = self.recommended, self[LEAST_SQUARES], self[MEAN]
        if used is mean:
            return (
                "Nothing here predicts rows that it has not seen better than always saying the mean: look for inputs "
                "that say more, or gather more rows."
            )
        name = "a straight line" if used is line else used.label
        others = f"{_ratio(used.mrmse, mean.mrmse)} those of always saying the mean"
        if used is not line:
            others += f" and {_ratio(used.mrmse, line.mrmse)} those of a straight line"
        inside = 100 * used.coverage[_BAND]
        nearest = min(self.entries, key=lambda entry: entry.mrmse)
        also = ""
        if nearest.mrmse < (1 - _SMALLER) * used.mrmse:
            also = (
                f" Errors of {nearest.label} were {_ratio(nearest.mrmse, used.mrmse)} its own, with less telling bands."
            )
        return (
            f"On rows that it had not seen, errors of {name} were {others}; {inside:.0f} of 100 true "
            f"values were inside its {100 * _BAND:.0f} % bands, {_bands_in_words(used)}.{also}"
        )


def _bands_in_words(entry: Entry) -> str:
    """Whether bands of 95 % hold as much of the truth as they say."""
    num_known = max(1, sum(each.num_known for each in entry.outputs))
    gap = entry.coverage[_BAND] - _BAND
    if abs(gap) <= max(_FAIR, 2 * math.sqrt(_BAND * (1 - _BAND) / num_known)):
        return "as it should be"
    return "so they are too narrow" if gap < 0 else "so they are wider than need be"


def folds(num_rows: int, num_folds: int, seed: int) -> list[Split]:
    """Rows at random in `num_folds` parts of nearly equal size, each held out once.

    >>> [len(test) for _, test in folds(7, 3, seed=0)]
    [3, 2, 2]
    """
    if not 2 <= num_folds <= num_rows:
        remedy = f"Try {min(5, num_rows)}." if num_rows > 1 else "Gather more rows."
        raise ConfigError(
            f"folds must be at least 2 and at most the number of rows, {num_rows}; got {num_folds}. {remedy}"
        )
    parts = np.array_split(np.random.default_rng(seed).permutation(num_rows), num_folds)
    return [(np.sort(np.concatenate([*parts[:k], *parts[k + 1 :]])), np.sort(parts[k])) for k in range(num_folds)]


def group_folds(groups: Int[IntArray, "N"], num_folds: int, seed: int) -> list[Split]:
    """The same with whole groups: rows of one are held out together.

    >>> [test.tolist() for _, test in group_folds(np.array([0, 1, 1, 2]), 3, seed=0)]
    [[3], [0], [1, 2]]
    """
    known = np.unique(groups)
    if not 2 <= num_folds <= len(known):
        remedy = f"Try {min(5, len(known))}." if len(known) > 1 else "Leave groups out to hold out rows."
        raise ConfigError(
            f"folds must be at least 2 and at most the number of groups, {len(known)}; got {num_folds}. {remedy}"
        )
    parts = [known[held_out] for _, held_out in folds(len(known), num_folds, seed)]
    return [(np.flatnonzero(~np.isin(groups, part)), np.flatnonzero(np.isin(groups, part))) for part in parts]


def time_folds(times: Float[Array, "N"], num_folds: int) -> list[Split]:
    """Train on the past: rows in order of time in `num_folds` + 1 parts, each predicted from all parts before it.

    Rows of the same time are in one part.

    >>> [(train.tolist(), test.tolist()) for train, test in time_folds(np.array([3.0, 1.0, 2.0, 2.0]), 2)]
    [([1], [2, 3]), ([1, 2, 3], [0])]
    """
    known, code = np.unique(times, return_inverse=True)
    if not 2 <= num_folds < len(known):
        remedy = f"Try {min(5, len(known) - 1)}." if len(known) > 2 else "Hold out rows at random instead."
        raise ConfigError(
            f"folds of time must be at least 2 and fewer than the different times, {len(known)}; got {num_folds}. "
            f"{remedy}"
        )
    sizes = [len(each) for each in np.array_split(known, num_folds + 1)]
    part = np.repeat(np.arange(num_folds + 1), sizes)[code.ravel()]
    return [(np.flatnonzero(part < k), np.flatnonzero(part == k)) for k in range(1, num_folds + 1)]


def require_known_outputs(data: Dataset, splits: Sequence[Split]) -> None:
    """Check before any training that each split has outputs to learn from and to score."""
    for number, (train, test) in enumerate(splits, start=1):
        unknown = np.isnan(data.y[train]).all(axis=0)
        if unknown.any():
            raise DataError(
                f"Each output must have values in training; {data.output_names[unknown.argmax()]!r} has none among the "
                f"{len(train)} rows of split {number}. Gather more, or leave that output out."
            )
        if np.isnan(data.y[test]).all():
            raise DataError(
                f"Held-out rows must have known outputs; the {len(test)} of split {number} have none. Take fewer folds."
            )


def compare(
    data: Dataset,
    models: Sequence[str],
    splits: Sequence[Split],
    request: FitRequest,
    on_trial: Callable[[int, Trial], None] = lambda split, trial: None,
    rivals: Sequence[str] = (),
    together: Int[IntArray, "N"] | None = None,
) -> Leaderboard:
    """Fit every model to the training rows of every split, and score it on the held-out rows beside the baselines.

    Args:
        data: all rows.
        models: names of models with observed inputs.
        splits: places of the training and of the held-out rows.
        request: how to train each model; its seed is that of draws, too. Its bar shows the split and the competitor.
        on_trial: called after each trial, with the number of its split.
        rivals: names in `mogul.comparison.rivals.RIVALS`.
        together: rows with the same number are dependent, for standard errors; by default groups, or each by itself.

    Example:
        >>> x = np.linspace(0, 1, 40)[:, None]
        >>> data = Dataset(x, 3 * x + np.sin(40 * x) / 100)
        >>> compare(data, ["mogp"], folds(40, 2, seed=0), FitRequest(settings={"epochs": 2})).verdict[:13]
        'Least squares'
    """
    require_known_outputs(data, splits)
    others = [RIVALS[name].label for name in require_rivals(list(rivals))]
    trials: dict[str, list[Trial]] = {label: [] for label in (*models, *others, LEAST_SQUARES, MEAN)}
    failures: dict[str, str] = {}
    bar = request.saving.bar
    with bar:
        for number, split in enumerate(splits):
            for label in trials:
                if label in failures:
                    continue
                bar.chapter(f"fold {number + 1} of {len(splits)}")
                bar.stage(label)
                try:
                    trial = _trial(label, data, split, request)
                except MogulError as error:
                    if isinstance(error, ValueError):
                        raise  # the user's error, not one model's
                    failures[label] = str(error)
                    continue
                trials[label] = [*(replace(each, fitted=None) for each in trials[label]), trial]  # one model is enough
                on_trial(number, trial)
        bar.chapter("")
        bar.stage("importance of inputs")
        done = {label: each for label, each in trials.items() if label not in failures}
        together = request.groups if together is None else together
        scored = np.concatenate([held_out for _, held_out in splits])
        entries = _entries(data, list(done.values()), scored if together is None else together[scored])
        unseen = {label: _pooled(each) for label, each in done.items()}
        importance = _importance(done[entries[0].label][-1], data)
    return Leaderboard(entries, failures, unseen, importance)


def _trial(label: str, data: Dataset, split: Split, request: FitRequest) -> Trial:
    kept, held_out = split
    train, test, request = data.rows(kept), data.rows(held_out), request.on(kept)
    started, words, fitted = time.perf_counter(), list[str](), None
    parts: Iterator[Part]
    if label in (MEAN, LEAST_SQUARES, *_NAMES):
        prediction = predict_baseline(_NAMES.get(label, label), train, test.x, request.seed, request.groups)
        parts = iter([(prediction, test.y)])
    else:
        # The default's own model is the whole default, with the kernel and the mean that it chooses.
        is_default = request.model is None and request.model_for(train) == label
        fitted = (request if is_default else replace(request, model=label)).fit(train)
        if fitted.history.interrupted:
            raise KeyboardInterrupt  # a model half trained is not to be compared
        words = [] if fitted.choice is None else [fitted.choice.chosen.words]
        words += [] if fitted.kernel_name in (None, "rbf") else [f"the kernel {fitted.kernel_name}"]
        parts = fitted.predict_parts(test, FEW_OUTER * NUM_INNER, request.seed)
    seconds = time.perf_counter() - started
    means, pits = list[Array](), list[Array]()

    def noted() -> Iterator[Part]:
        for prediction, y in parts:
            means.append(prediction.mean)
            pits.append(prediction.cdf(y))
            yield prediction, y

    result = row_scores(noted(), Scaling.of(train).outputs)
    if math.isnan(result.scores.ll):
        raise NumericalError(f"Predictions must be numbers; some of {label}'s are not. Lower the learning rate.")
    unseen = Unseen(HELD_OUT, held_out, np.concatenate(means), np.concatenate(pits))
    return Trial(label, seconds, result, unseen, " and ".join(words) or None, fitted)


def _pooled(trials: Sequence[Trial]) -> Unseen:
    """Predictions of the held-out rows of all splits."""
    places, mean, pit = (
        np.concatenate([getattr(trial.unseen, name) for trial in trials]) for name in ("places", "mean", "pit")
    )
    return Unseen(HELD_OUT, places, mean, pit)


def _importance(trial: Trial, data: Dataset) -> Importance | None:
    """What each input is worth to a model, at the rows that it was not trained on."""
    if trial.fitted is None:
        return None
    rows = data.rows(trial.unseen.places)
    try:
        return trial.fitted.importance(rows.x, rows.y, repeats=_REPEATS)
    except MogulError:  # too few of these rows have a known output
        return None


def predict_baseline(
    name: str, train: Dataset, x: Float[Array, "T D"], seed: int, groups: Int[IntArray, "N"] | None = None
) -> Prediction:
    """Least squares, the mean or a rival, fitted to training rows; in original units.

    Args:
        name: `LEAST_SQUARES`, `MEAN`, or a name in `mogul.comparison.rivals.RIVALS`.
        train: training rows; NaN in outputs is missing.
        x: test inputs.
        seed: of a rival's random choices.
        groups: of training rows: a rival's noise comes from whole groups that were left out.

    Example:
        >>> x = np.linspace(0, 1, 20)[:, None]
        >>> predict_baseline(LEAST_SQUARES, Dataset(x, 2 * x), np.array([[2.0]]), seed=0).mean.round(6)
        array([[4.]])
    """
    if name in (MEAN, LEAST_SQUARES):
        predict = LeastSquares.fit(train).predict if name == LEAST_SQUARES else partial(_mean_prediction, train)
        return _correlated(predict(x), train.y - predict(train.x).mean)
    units = np.arange(train.num_rows) if groups is None else groups
    found = predict_rival(name, train, x, units, seed)
    prediction = Prediction(found.mean, found.var, found.mean[None], found.var[None])
    return prediction if found.residual is None else _correlated(prediction, found.residual)


def _correlated(prediction: Prediction, residual: Float[Array, "N P"]) -> Prediction:
    """A prediction of constant noise with residuals correlated across outputs, found as for models of few rows.

    Otherwise a model would be ahead of least squares for the correlation alone.
    """
    if residual.shape[1] == 1 or len(residual) > FEW_ROWS:
        return prediction
    scale = np.sqrt(np.maximum(np.nanmean(np.square(residual), axis=0), np.finfo(np.float64).eps))
    observed = ~np.isnan(residual)
    z = torch.as_tensor(np.where(observed, residual / scale, 0.0))
    loadings = fit_loadings(NormalScores(z, torch.ones_like(z), torch.as_tensor(observed))).numpy()
    return replace(prediction, joint=Correlated(np.sqrt(prediction.component_var[0, 0])[:, None] * loadings))


def _mean_prediction(train: Dataset, x: Float[Array, "N D"]) -> Prediction:
    """The mean and variance of each output in training, everywhere."""
    mean = np.broadcast_to(np.nanmean(train.y, axis=0), (len(x), train.num_outputs))
    return normal_prediction(mean, np.maximum(np.nanvar(train.y, axis=0), np.finfo(np.float64).eps))


def _entries(data: Dataset, trials: list[list[Trial]], together: Int[IntArray, "N"]) -> list[Entry]:
    """Best first; differences are taken row by row, which cancels how hard a row is for all.

    `together` labels rows that are drawn together, for standard errors: each by itself, or in groups.
    """
    rows = [np.concatenate([trial.result.log_density for trial in each]) for each in trials]
    best = max(rows, key=np.nanmean)
    entries = []
    for each, densities in zip(trials, rows, strict=True):
        scores = [trial.result.scores for trial in each]
        unseen = _pooled(each)
        entries.append(
            Entry(
                label=each[0].label,
                ll=float(np.nanmean(densities)),
                ll_error=_standard_error(densities, together),
                behind=float(np.nanmean(best - densities)),
                behind_error=_standard_error(best - densities, together),
                mrmse=fmean(score.mrmse for score in scores),
                crps=fmean(score.crps for score in scores),
                coverage=_mean_coverage(scores),
                seconds=sum(trial.seconds for trial in each),
                chosen=dict(Counter(trial.chosen for trial in each if trial.chosen is not None)),
                outputs=unseen.scores(data.output_names, data.y[unseen.places]),
            )
        )
    return sorted(entries, key=lambda entry: -entry.ll)


def _mean_coverage(scores: Sequence[Scores]) -> dict[float, float]:
    return {level: fmean(score.coverage[level] for score in scores) for level in scores[0].coverage}


def _standard_error(values: Float[Array, "N"], together: Int[IntArray, "N"]) -> float:
    """The standard error of the mean over known rows, where rows of a group are dependent.

    √(G / (G − 1) · Σ_g (Σ_{n ∈ g} (v_n − v̄))²) / N for G groups of N rows: for groups of one row each, sd / √N. The
    rows of a single group count one by one, as nothing is known of other groups.

    >>> rows = np.array([1.0, 2.0, 3.0, 4.0])
    >>> [round(_standard_error(rows, groups), 3) for groups in (np.arange(4), np.array([0, 0, 1, 1]))]
    [0.645, 1.0]
    """
    is_known = ~np.isnan(values)
    known = values[is_known]
    if len(known) < 2:
        return math.inf
    _, group = np.unique(together[is_known], return_inverse=True)
    sums = np.bincount(group, known - known.mean()) if group.any() else known - known.mean()
    return float(np.sqrt(len(sums) / (len(sums) - 1) * np.square(sums).sum()) / len(known))


def _ratio(error: float, other: float) -> str:
    """How errors compare, as text.

    >>> _ratio(0.25, 1.0), _ratio(1.5, 1.0), _ratio(1.001, 1.0)
    ('75 % smaller than', '50 % larger than', 'as large as')
    """
    if not other or abs(error / other - 1) < _EQUAL:
        return "as large as"
    return f"{100 * abs(1 - error / other):.0f} % {'smaller' if error < other else 'larger'} than"


def _gap(entry: Entry) -> str:
    return f"{entry.behind:.2f} ± {entry.behind_error:.2f} nats per row"
