"""mean="auto": the linear mean, or a forest under it, judged by rows that the forest was not fitted to.

With many rows a mogp from exact GPs of some of them is tried before the model of the task, by the same rows.

A GP is smooth; a forest follows jumps, and forgets inputs that do not matter. Where both have something to say about an
output, the average of their predictions at rows left out is nearer to it than either alone.
"""

import logging
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float

from mogul._typing import Array, BoolArray
from mogul.core.check import SHORTER
from mogul.data import Batch, Scaling
from mogul.errors import MogulError, warn
from mogul.fitted.fitted import Fitted
from mogul.fitted.mixture import FittedMixture
from mogul.means.regressor import CrossFitted
from mogul.models.families import AUTO
from mogul.prediction import predict
from mogul.priors import IndependentGPs
from mogul.training.autoregression import find_chain, incomplete_outputs
from mogul.training.defaults import FEW_ROWS, from_exact_start
from mogul.training.exact_start import ExactStart
from mogul.training.loop import held_out_score
from mogul.training.starts import Saving, Task

# A smaller forest shows whether one helps.
_TRIAL_TREES = 100
# Models that gradient steps train: held-out share of the rows and its limits; these rows are never trained on. Draws
# per predictive mean.
_HELD_OUT, _FEWEST_HELD_OUT, _MOST_HELD_OUT, _DRAWS = 0.02, 200, 500, 10
# Share of few rows that a second fit is checked on.
_CHECKED = 0.2
# Outputs that GPs explain to this share of their spread need no forest.
_EXPLAINED = 0.1
# A forest doubles the time: errors must be smaller by this share.
_WORTHWHILE = 0.02
# Exact GPs have learnt all there is to learn if errors fall to no less than this share with all rows.
_LEARNT = 0.9
# Weights of the forest that are tried for screening, and those that a mixture can have.
_FINELY, _ROUGHLY = (0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.5, 1.0)

_log = logging.getLogger(__name__)


def train(task: Task, noise: str, *place: str) -> Fitted:
    """The model of a task; its mean and the chain of its outputs are chosen first, where they are left open."""
    if task.mean != AUTO:
        return _named(task, noise, *place)
    linear = replace(task, mean="linear")
    exact = linear.exact_gps(noise)
    if _may_have_chain(linear):
        linear, exact = _chained(linear, exact, noise)
    if exact is None:
        return _better(linear, noise, *place)
    return _mixed(linear, exact, noise, *place)


def _may_have_chain(task: Task) -> bool:
    """Whether a chain of outputs was asked for, or is left open and some outputs are incomplete."""
    if task.autoregressive == AUTO:
        return task.mean == "linear" and bool(incomplete_outputs(~np.isnan(task.known.y)).any())
    return bool(task.autoregressive)


def _chained(task: Task, exact: ExactStart | None, noise: str) -> tuple[Task, ExactStart | None]:
    """The task with autoregressive outputs and its exact GPs, where outputs have a relation."""
    if not task.may_be_chained(exact, noise):
        return task, exact
    assert exact is not None
    task.saving.bar.stage("relations of outputs")
    chain = find_chain(exact, task.scaling, always=task.autoregressive is True)
    if chain is None:
        return task, exact
    chained = task.chained(chain)
    return chained, chained.exact_gps(noise, exact)


def _named(task: Task, noise: str, *place: str) -> Fitted:
    """The model with a mean that was given; where no row is left for the check or the choice, some are held out.

    Few rows are all trained on: what is checked is a second fit, without a fifth of them, in a third of the epochs.
    """
    exact: ExactStart | None = None
    if _may_have_chain(task):
        task, exact = _chained(task, task.exact_gps(noise), noise)
    if task.rival is not None:
        rest, held_out = _held_out(task)
        return task.fitted(noise, *place) if held_out is None else _best_model(rest, held_out, noise, *place)[1]
    if not task.checked or task.latent or task.validation is not None:
        return task.fitted(noise, *place, exact=exact)
    if task.spared is not None:
        return task.fitted(noise, *place)
    if task.known.num_rows > FEW_ROWS:
        return _held_out(task)[0].fitted(noise, *place)
    exact = exact or task.exact_gps(noise)
    fitted = task.fitted(noise, *place, exact=exact)
    if fitted.unseen is not None or fitted.history.interrupted:
        return fitted
    rest, held_out = _held_out(task, _CHECKED)
    if held_out is None:
        return fitted
    config = task.config
    epochs = min(config.epochs, max(1, config.epochs // 3))
    shorter = replace(config, rates=None, num_starts=1, num_kept=1).within(epochs)
    rest = replace(
        rest, config=shorter, saving=Saving(bar=task.saving.bar), scaling=Scaling.of(rest.known, rest.transform)
    )
    try:
        again = rest.fitted(noise, exact=rest.exact_gps(noise, near=exact))
    except (KeyboardInterrupt, MogulError):
        warn("The fit that checks this model ended early. The model itself is complete, without a check.")
        return fitted
    if again.unseen is None or again.history.interrupted:
        return fitted
    return replace(fitted, unseen=replace(again.unseen, how=SHORTER))


def _mixed(linear: Task, exact: ExactStart, noise: str, *place: str) -> Fitted:
    """With exact GPs: the mixture of both models, or one of them if it is better alone for every output."""
    left_out, y = exact.left_out_residuals(), exact.batch.y.numpy()
    observed = exact.batch.observed.numpy()
    unexplained = np.abs(left_out).mean(0) >= _EXPLAINED * np.abs(y).mean(0)
    small = linear.cross_fitted("trees", unexplained, _TRIAL_TREES)
    share, _ = _share(left_out, np.where(unexplained, y - small.predictions, left_out), observed)
    if not share.any():
        return linear.fitted(noise, *place, exact=exact)
    trees = linear.cross_fitted("trees", share > 0)
    tried = _start(linear, trees.only(share > 0), noise, exact)
    # GPs of what the forest leaves may be better or worse than the forest.
    share = np.where(share > 0, _share(left_out, tried.left_out_residuals(), observed, _ROUGHLY)[0], 0.0)
    if not share.any():
        return linear.fitted(noise, *place, exact=exact)
    fitted = linear.fitted(noise, *place, exact=exact)
    if fitted.history.interrupted:
        return fitted
    wanted = trees.only(share > 0)
    with_trees = replace(linear, under=wanted)
    other = with_trees.fitted(noise, *place, "trees", exact=_start(linear, wanted, noise, exact, tried))
    # Outputs without trees are the same in both.
    return FittedMixture.of([fitted, other]) if (share == 0.5).any() else other


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
) -> tuple[Float[Array, "P"], Float[Array, "P"]]:
    """The weight of the second residuals with the least mean absolute value of the average, and its relative gain.

    >>> gap = np.array([[1.0], [-1.0]])
    >>> everywhere = np.ones((2, 1), dtype=bool)
    >>> _share(gap, -gap, everywhere), _share(gap, 5 * gap, everywhere)
    ((array([0.5]), array([1.])), (array([0.]), array([0.])))
    """
    residuals = [(1 - share) * left_out + share * of_trees for share in shares]
    errors = np.stack([np.where(observed, np.abs(residual), 0.0).sum(0) for residual in residuals])
    gain = np.where(errors[0] > 0, 1 - errors.min(0) / np.where(errors[0] > 0, errors[0], 1.0), 0.0)
    best = np.where(gain >= _WORTHWHILE, np.array(shares)[np.argmin(errors, axis=0)], 0.0)
    _log.info("weight of the forest: %s", best)
    return best, gain


def _better(linear: Task, noise: str, *place: str) -> Fitted:
    """With many rows: the model with or without the forest that is better at some rows that both are not trained on.

    Trials of few epochs would not do: on Kuka a forest is ahead after six epochs by 5 nats per row, and behind by 10
    after forty.
    """
    task, held_out = _held_out(linear)
    if held_out is None:
        return linear.fitted(noise, *place)
    task, fitted = _best_model(task, held_out, noise, *place)
    if fitted.history.interrupted:
        return fitted
    observed, seed = held_out.observed.numpy(), task.config.seed

    def residuals(mean: Float[Array, "W P"]) -> Float[Array, "W P"]:
        return held_out.y.double().numpy() - mean

    own = _predicted(fitted, held_out, seed)
    small = task.cross_fitted("trees", num_trees=_TRIAL_TREES)
    of_trees = small.mean.forward(held_out.x).double().numpy()
    share, gain = _share(residuals(own), residuals(of_trees), observed, _ROUGHLY)
    if gain.mean() < _WORTHWHILE or not share.any():  # retraining covers all outputs, so the mean gain must pay
        return fitted
    other = replace(task, under=task.cross_fitted("trees").only(share > 0)).fitted(noise, *place, "trees")
    return _likelier((fitted, other), held_out, seed)


def _best_model(task: Task, held_out: Batch, noise: str, *place: str) -> tuple[Task, Fitted]:
    """The task's model or a mogp from exact GPs of some rows, whichever is better at rows that neither has seen.

    The mogp is far ahead on smooth functions, and takes a fraction of the time. Where it needs fewer inducing points
    than it may have, and all rows predict hardly better than those of the exact GPs, what is left is noise, and no
    other model is tried.
    """
    if task.rival is None:
        return task, task.fitted(noise, *place)
    num_rows = task.known.num_rows
    mogp = replace(task, model="mogp", options=task.rival, config=from_exact_start("mogp", task.config.seed, num_rows))
    try:
        exact = mogp.exact_gps(noise)
        assert exact is not None
        smooth = mogp.fitted(noise, *place, "mogp", exact=exact)
    except MogulError as error:
        _log.info("exact GPs of some rows: %s", error)
        return task, task.fitted(noise, *place)
    if smooth.history.interrupted or _has_learnt_all(smooth, mogp.options["num_inducing"], exact, held_out):
        return mogp, smooth
    fitted = task.fitted(noise, *place)
    best = _likelier((smooth, fitted), held_out, task.config.seed)
    return (mogp, smooth) if best is smooth else (task, fitted)


def _has_learnt_all(fitted: Fitted, most_inducing: int, exact: ExactStart, held_out: Batch) -> bool:
    """Whether inducing points resolve the functions, and errors are about those of exact GPs of some rows."""
    prior = fitted.model.prior
    if isinstance(prior, IndependentGPs) and prior.inducing_points.shape[-2] >= most_inducing:
        return False
    mean = _predicted(fitted, held_out, 0)
    seen = held_out.observed.numpy()
    of_all = np.abs(np.where(seen, held_out.y.double().numpy() - mean, 0.0)).sum(0) / np.maximum(seen.sum(0), 1)
    of_some = np.abs(exact.left_out_residuals()).sum(0) / exact.batch.observed.sum(0).clamp_min(1).numpy()
    ratio = of_all / np.maximum(of_some, np.finfo(np.float64).tiny)
    _log.info("errors given all rows, over those given some: %s", ratio)
    return bool(ratio.mean() > _LEARNT)


def _likelier(fitted: tuple[Fitted, Fitted], held_out: Batch, seed: int) -> Fitted:
    """The model with the larger likelihood of held-out rows; the first if they are as good."""
    scores = [held_out_score(each.model, _as(held_out, each), torch.Generator().manual_seed(seed)) for each in fitted]
    _log.info("held-out log likelihood per value: %.3f, of the other %.3f", *scores)
    return fitted[1] if scores[1] > scores[0] else fitted[0]


def _predicted(fitted: Fitted, rows: Batch, seed: int) -> Float[Array, "W P"]:
    """Predictive means in standardised units."""
    mean: Array = predict(fitted.model, _as(rows, fitted).x, _DRAWS, torch.Generator().manual_seed(seed)).mean
    return mean


def _as(rows: Batch, fitted: Fitted) -> Batch:
    """The rows in the precision of a model."""
    dtype = fitted.model.head.noise.log_precision.dtype
    return Batch(rows.x.to(dtype), rows.y.to(dtype), rows.observed, rows.index)


def _held_out(task: Task, share: float = _HELD_OUT) -> tuple[Task, Batch | None]:
    """The task without some rows, whole groups where there are any, and these rows, scaled; None if none is spared."""
    units, unit = np.unique(task.units[task.kept], return_inverse=True)
    count = min(max(round(share * len(units)), _FEWEST_HELD_OUT), _MOST_HELD_OUT, len(units) // 5)
    is_left = (np.random.default_rng(task.config.seed).permutation(len(units)) < count)[unit.ravel()]
    rest = np.flatnonzero(~is_left)
    if not count or np.isnan(task.known.y[rest]).all(0).any():
        return task, None
    rows = task.scaling.batch(task.known.rows(np.flatnonzero(is_left)), task.config.dtype)
    spared = task.kept[np.flatnonzero(is_left)]
    return replace(task, known=task.known.rows(rest), kept=task.kept[rest], spared=spared), rows
