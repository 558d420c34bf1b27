"""Dynamics in a control loop: what a rollout costs, and Kuka's trajectories rolled out, streamed and updated."""

import os
import time
from pathlib import Path

import numpy as np

from benchmarks.problem import Sizes
from benchmarks.steps import kuka_sizes
from mogul._typing import Array
from mogul.dynamics import Dynamics
from mogul.dynamics.trajectories import StateSpace, Trajectories
from mogul.fitted.fitted import Fitted
from mogul.lab.datasets.catalogue import load
from mogul.training.fit import fit

NUM_PARTICLES, NUM_STEPS = 1000, 100
_EPOCHS, _TRAINED, _NEW_ROWS, _STARTS, _HORIZON = 15, 7, 200, 200, 50
_STREAMED, _STREAM_FIT, _STREAM_EVERY = 200, 2, 4


def rollout_figures(
    fitted: Fitted, num_particles: int = NUM_PARTICLES, num_steps: int = NUM_STEPS, sizes: Sizes | None = None
) -> dict[str, float]:
    """Seconds of a rollout by functions, the drawing of them included, and a late step over an early one."""
    sizes = sizes or kuka_sizes()
    num_states = sizes.num_outputs
    names = [f"x{place}" for place in range(sizes.num_inputs)]
    dynamics = Dynamics(fitted, StateSpace(names[:num_states], names[num_states:]))
    start, torque = np.zeros(num_states), sizes.num_inputs - num_states

    def seconds(length: int, seed: int) -> float:
        begin = time.perf_counter()
        dynamics.rollout(start, np.zeros((length, torque)), num_particles=num_particles, seed=seed)
        return time.perf_counter() - begin

    seconds(2, 0)
    whole = min(seconds(num_steps, seed) for seed in (1, 2))
    drawn = min(seconds(num_steps, 2) for _ in range(2))
    short, long = num_steps // 10, 10 * num_steps
    per_step = {length: min(seconds(length, 2) for _ in range(2)) / length for length in (short, long)}
    return {
        "loop_rollout_s": whole,
        "loop_rollout_drawn_s": drawn,
        "loop_rollout_growth": per_step[long] / per_step[short],
    }


def kuka_figures() -> dict[str, float]:
    """Nothing without the data in MOGUL_DATA."""
    folder = os.environ.get("MOGUL_DATA")
    if folder is None:
        return {}
    kuka = load("kuka", Path(folder))
    each = [kuka.groups == group for group in np.unique(kuka.groups)]
    pairs = [(kuka.data.x[rows], kuka.data.y[rows]) for rows in each]
    runs = [Trajectories.of(np.vstack([x[:, :14], y[-1:]]), x[:, 14:]) for x, y in pairs]
    return _updated(runs) | _streamed(runs) | _rolled(runs)


def _fit(runs: list[Trajectories]) -> tuple[Dynamics, float]:
    begin = time.perf_counter()
    dynamics = Dynamics.learn(_joined(runs), model="mogp", epochs=_EPOCHS, groups=None, check=False, verbose=0)
    return dynamics, time.perf_counter() - begin


def _joined(runs: list[Trajectories]) -> Trajectories:
    states, actions = ([own for run in runs for own in getattr(run, part)] for part in ("states", "actions"))
    return Trajectories.in_space(runs[0].space, states, actions)


def _log_density(fitted: Fitted, x: Array, y: Array) -> float:
    return float(fitted.log_density(x, y).mean())


def _updated(runs: list[Trajectories]) -> dict[str, float]:
    """200 rows of a new trajectory: an update beside a fit anew with them."""
    old, new = runs[:_TRAINED], runs[_TRAINED]
    dynamics, _ = _fit(old)
    x, y = new.inputs(), new.differences()
    chosen = np.sort(np.random.default_rng(0).choice(len(x), _NEW_ROWS, replace=False))
    rest = np.setdiff1d(np.arange(len(x)), chosen)[::4]
    begin = time.perf_counter()
    later = dynamics.fitted.update(x[chosen], y[chosen])
    seconds = time.perf_counter() - begin
    every = _joined(old)
    known = every.inputs(), every.differences()
    begin = time.perf_counter()
    anew = _fit_rows(np.vstack([known[0], x[chosen]]), np.vstack([known[1], y[chosen]]))
    fit_seconds = time.perf_counter() - begin
    before = _log_density(dynamics.fitted, known[0][::20], known[1][::20])
    return {
        "loop_update_s": seconds,
        "loop_update_speedup": fit_seconds / seconds,
        "loop_update_new": _log_density(later, x[rest], y[rest]) - _log_density(anew, x[rest], y[rest]),
        "loop_update_old": _log_density(later, known[0][::20], known[1][::20]) - before,
    }


def _fit_rows(x: Array, y: Array) -> Fitted:
    return fit(x, y, model="mogp", mean="linear", epochs=_EPOCHS, check=False, verbose=0)


def _streamed(runs: list[Trajectories]) -> dict[str, float]:
    """Trajectories as they come, each part predicted before it is learnt, beside the first fit left as it is."""
    dynamics, _ = _fit(runs[:_STREAM_FIT])
    first = latest = dynamics.fitted
    gains, seconds, count = [], 0.0, 0
    for run in runs[_STREAM_FIT:]:
        x, y = run.inputs(), run.differences()
        for begin in range(0, len(x), _STREAMED):
            part = slice(begin, begin + _STREAMED)
            some = slice(begin, begin + _STREAMED, _STREAM_EVERY)
            gains.append(_log_density(latest, x[some], y[some]) - _log_density(first, x[some], y[some]))
            started = time.perf_counter()
            latest = latest.update(x[part], y[part])
            seconds, count = seconds + time.perf_counter() - started, count + len(x[part])
    return {"loop_stream_gain": float(np.mean(gains)), "loop_stream_rows_per_s": count / seconds}


def _rolled(runs: list[Trajectories]) -> dict[str, float]:
    """The last two trajectories, 50 steps ahead from 200 starts."""
    dynamics, _ = _fit(runs[:-2])
    test = _joined(runs[-2:])
    scores = dynamics.score(test.states, test.actions, horizon=_HORIZON, num_starts=_STARTS, num_particles=50)
    return {
        "loop_kuka_least_coverage": float(scores.coverage.min()),
        "loop_kuka_most_coverage": float(scores.coverage.max()),
        "loop_kuka_rmse_ratio": float((scores.rmse / scores.persistence_rmse).max()),
        "loop_kuka_energy_ratio": float((scores.energy / scores.persistence_energy).max()),
    }
