"""mean="auto": the linear mean, or a forest under it, judged by rows that the forest was not fitted to.

A GP is smooth; a forest follows jumps, and forgets inputs that do not matter. Where both have something to say about an
output, the average of their predictions at rows left out is nearer to it than either alone.
"""

import logging
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from mogul._typing import Array, BoolArray, IntArray
from mogul.data import Batch
from mogul.fitted.fitted import Fitted
from mogul.fitted.mixture import FittedMixture
from mogul.means.regressor import CrossFitted, RegressorMean
from mogul.models.families import AUTO
from mogul.prediction import predict
from mogul.training.exact_start import ExactStart
from mogul.training.loop import held_out_score
from mogul.training.starts import Saving, Task

# A smaller forest shows whether one helps.
_TRIAL_TREES = 100
# Trials of models that gradient steps train: this share of the rows is held out, for this share of the epochs.
_HELD_OUT, _EPOCHS, _DRAWS = 0.15, 0.15, 10
# The least gain in the log likelihood of a value held out: after so few epochs, less says little about the end. On Kuka
# a gain of 0.1 became a loss of 0.7, as the forest hides that a third of the velocities are exactly zero.
_LEAST_GAIN = 0.2
# Outputs that GPs explain to this share of their spread need no forest.
_EXPLAINED = 0.1
# Weights of the forest to try: at first, and those that a mixture can have.
_FINELY, _ROUGHLY = (0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.5, 1.0)

_log = logging.getLogger(__name__)


def train(task: Task, noise: str, *place: str) -> Fitted:
    """The model of a task; with mean="auto", its mean is chosen first."""
    if task.mean != AUTO:
        return task.fitted(noise, *place)
    linear = replace(task, mean="linear")
    exact = linear.exact_gps(noise)
    if exact is None:
        return _better(linear, noise).fitted(noise, *place)
    return _mixed(linear, exact, noise, *place)


def _mixed(linear: Task, exact: ExactStart, noise: str, *place: str) -> Fitted:
    """With exact GPs: the mixture of both models, or one of them if it is better alone for every output."""
    left_out, y = exact.left_out_residuals(), exact.batch.y.numpy()
    if (np.abs(left_out).mean(0) < _EXPLAINED * np.abs(y).mean(0)).all():
        return linear.fitted(noise, *place, exact=exact)
    small, observed = linear.cross_fitted("trees", _TRIAL_TREES), exact.batch.observed.numpy()
    share = _share(left_out, y - small.predictions, observed)
    if not share.any():
        return linear.fitted(noise, *place, exact=exact)
    trees = linear.cross_fitted("trees")
    tried = _start(linear, trees.only(share > 0), noise, exact)
    # GPs of what the forest leaves may be better or worse than the forest.
    share = np.where(share > 0, _share(left_out, tried.left_out_residuals(), observed, _ROUGHLY), 0.0)
    if not share.any():
        return linear.fitted(noise, *place, exact=exact)
    wanted = trees.only(share > 0)
    with_trees = replace(linear, under=wanted)
    other = with_trees.fitted(noise, *place, "trees", exact=_start(linear, wanted, noise, exact, tried))
    return other if (share == 1).all() else FittedMixture.of([linear.fitted(noise, *place, exact=exact), other])


def _start(linear: Task, trees: CrossFitted, noise: str, *known: ExactStart) -> ExactStart:
    """Exact GPs of what the trees leave."""
    exact = replace(linear, under=trees).exact_gps(noise, *known)
    assert exact is not None
    return exact


def _share(
    left_out: Float[Array, "N P"],
    of_trees: Float[Array, "N P"],
    observed: Bool[BoolArray, "N P"],
    shares: tuple[float, ...] = _FINELY,
) -> Float[Array, "P"]:
    """The weight of the second residuals with the least mean absolute value of the average, for each output.

    >>> gap = np.array([[1.0], [-1.0]])
    >>> everywhere = np.ones((2, 1), dtype=bool)
    >>> _share(gap, -gap, everywhere), _share(gap, 5 * gap, everywhere), _share(gap, 0 * gap, everywhere)
    (array([0.5]), array([0.]), array([1.]))
    """
    errors = [np.where(observed, np.abs((1 - share) * left_out + share * of_trees), 0.0).sum(0) for share in shares]
    best: Array = np.array(shares)[np.argmin(errors, axis=0)]
    _log.info("weight of the forest: %s", best)
    return best


def _better(linear: Task, noise: str) -> Task:
    """With many rows: the task whose model predicts held-out rows better after short training."""
    trees, trial = linear.cross_fitted("trees", _TRIAL_TREES), _Trial.of(linear)
    score, gaps = trial.scored(noise, None)
    share = _share(gaps, trial.gaps(trees.predictions[trial.left]), trial.held_out.observed.numpy(), _ROUGHLY)
    if not share.any():
        return linear
    other, _ = trial.scored(noise, trees.only(share > 0))
    _log.info("held-out log likelihood per value: %.3f, with trees %.3f", score, other)
    return (
        replace(linear, under=linear.cross_fitted("trees").only(share > 0)) if other > score + _LEAST_GAIN else linear
    )


@dataclass(frozen=True)
class _Trial:
    """Short training on most of the rows; the others are held out.

    Args:
        task: of the rows to train on.
        rest: their places among the rows of the whole task.
        left: places of the rows held out.
        held_out: those rows, scaled.
    """

    task: Task
    rest: Int[IntArray, "K"]
    left: Int[IntArray, "W"]
    held_out: Batch

    @staticmethod
    def of(task: Task) -> "_Trial":
        """Whole groups are held out, where there are any. The scales are those of all rows."""
        units, unit = np.unique(task.units[task.kept], return_inverse=True)
        order = np.random.default_rng(task.config.seed).permutation(len(units))
        is_left = (order < max(1, round(_HELD_OUT * len(units))))[unit.ravel()]
        rest, left = np.flatnonzero(~is_left), np.flatnonzero(is_left)
        config = task.config.within(max(1, round(_EPOCHS * task.config.epochs)))
        some = replace(
            task, known=task.known.rows(rest), kept=task.kept[rest], validation=None, config=config, saving=Saving()
        )
        return _Trial(some, rest, left, task.scaling.batch(task.known.rows(left), config.dtype))

    def scored(self, noise: str, trees: CrossFitted | None) -> tuple[float, Float[Array, "W P"]]:
        """The log likelihood of the rows held out, per observed value, and the residuals there.

        A forest was fitted to these rows, too, but not all of its trees: `predictions` are those out of bag.
        """
        under = None if trees is None else CrossFitted(trees.mean, trees.predictions[self.rest])
        model = replace(self.task, under=under).fitted(noise).model
        rows, seed = self.held_out, self.task.config.seed
        if trees is not None:
            assert isinstance(model.mean, RegressorMean)
            assert model.mean.base is not None
            model.mean = model.mean.base
            rows = replace(rows, y=rows.y - torch.as_tensor(trees.predictions[self.left]).to(rows.y))
        score = held_out_score(model, rows, torch.Generator().manual_seed(seed))
        return score, self.gaps(predict(model, rows.x, _DRAWS, torch.Generator().manual_seed(seed)).mean)

    def gaps(self, predicted: Float[Array, "W P"]) -> Float[Array, "W P"]:
        """What a prediction leaves of the rows held out."""
        result: Array = self.held_out.y.double().numpy() - predicted
        return result
