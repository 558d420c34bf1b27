"""Scores of rollouts by horizon, beside persistence."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array
from mogul.dynamics.trajectories import Trajectories
from mogul.errors import ConfigError, DataError, require_positive

if TYPE_CHECKING:
    from mogul.dynamics.dynamics import Dynamics
    from mogul.dynamics.rollout import Rollout

# Particles whose pairs make the energy score, and starts that are rolled out together.
_PAIRED, _TOGETHER = 64, 50
_NORMAL_ENTROPY = np.log(2 * np.pi)


@dataclass(frozen=True)
class HorizonScores:
    """Scores at 1, 2, … steps ahead, averaged over starts and states. Units are the states' scales.

    Persistence says that the state stays as it is. Its spread, for its density, is that of these rows' own changes over
    the same number of steps, which no forecast could know.

    Args:
        coverage: the share of true values inside the band of each state.
        rmse: root mean squared error of the mean.
        energy: energy score of the whole state; lower is better.
        log_density: of the whole state, by Normals with each state's mean and spread.
        persistence_rmse: of persistence.
        persistence_energy: of persistence: its distance.
        persistence_log_density: of persistence.
        level: the probability that bands should hold.
        num_starts: how many rollouts these are.
    """

    coverage: Float[Array, "T"]
    rmse: Float[Array, "T"]
    energy: Float[Array, "T"]
    log_density: Float[Array, "T"]
    persistence_rmse: Float[Array, "T"]
    persistence_energy: Float[Array, "T"]
    persistence_log_density: Float[Array, "T"]
    level: float
    num_starts: int

    def frame(self) -> pd.DataFrame:
        """A row for each horizon."""
        columns = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        frame = pd.DataFrame(columns, index=np.arange(1, len(self.rmse) + 1))
        frame.index.name = "steps"
        return frame


def score_rollouts(
    dynamics: "Dynamics",
    runs: Trajectories,
    horizon: int,
    num_starts: int,
    num_particles: int,
    level: float,
    method: str,
    seed: int,
) -> HorizonScores:
    """From starts that are evenly spaced over the trajectories: see `Dynamics.score`."""
    require_positive(horizon=horizon, num_starts=num_starts)
    if not 0 < level < 1:
        raise ConfigError(f"level must be between 0 and 1; got {level}. Try 0.9.")
    places = _places(runs, horizon, num_starts)
    scale = np.concatenate(runs.states).std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    tails = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
    truths, means, stds, inside, energies = [], [], [], [], []
    for part in _parts(places):
        truth = np.stack([runs.states[run][at : at + horizon + 1] for run, at in part])
        actions = np.stack([runs.actions[run][at : at + horizon] for run, at in part])
        rollout: Rollout = dynamics.rollout(truth[:, 0], actions, num_particles=num_particles, method=method, seed=seed)
        low, high = rollout.quantiles(tails)
        truths.append(truth)
        means.append(rollout.mean)
        stds.append(rollout.std)
        inside.append((low <= truth) & (truth <= high))
        energies.append(_energy(rollout, truth, scale))
    truth, mean, std = (np.concatenate(parts) for parts in (truths, means, stds))
    gap, change = ((truth - each)[:, 1:] / scale for each in (mean, truth[:, :1]))
    spread = np.sqrt(np.square(change).mean(0))
    return HorizonScores(
        np.concatenate(inside)[:, 1:].mean((0, 2)),
        np.sqrt(np.square(gap).mean((0, 2))),
        np.concatenate(energies)[:, 1:].mean(0),
        _log_normal(gap, std[:, 1:] / scale),
        np.sqrt(np.square(change).mean((0, 2))),
        np.linalg.norm(change, axis=-1).mean(0),
        _log_normal(change, np.broadcast_to(np.where(spread > 0, spread, 1.0), change.shape)),
        level,
        len(places),
    )


def _places(runs: Trajectories, horizon: int, num_starts: int) -> list[tuple[int, int]]:
    """(trajectory, step) of each start."""
    every = [(run, at) for run, own in enumerate(runs.actions) for at in range(len(own) - horizon + 1)]
    if not every:
        longest = max(map(len, runs.actions))
        raise DataError(
            f"A trajectory must be longer than the horizon; the longest has {longest} steps for {horizon}. "
            f"Score with horizon={longest}, or less."
        )
    chosen = np.unique(np.linspace(0, len(every) - 1, num_starts).round().astype(np.int64))
    return [every[place] for place in chosen]


def _parts(places: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    for first in range(0, len(places), _TOGETHER):
        yield places[first : first + _TOGETHER]


def _energy(rollout: "Rollout", truth: Float[Array, "B T D"], scale: Float[Array, "D"]) -> Float[Array, "B T"]:
    """E‖X − x‖ − ½ E‖X − X′‖ over particles, or over draws of Normals with the matched moments."""
    draws = rollout.particles
    if draws is None:
        numbers = np.random.default_rng(0).standard_normal((_PAIRED, *truth.shape))
        draws = rollout.mean + rollout.std * numbers
    draws = draws[:_PAIRED] / scale
    to_truth = np.linalg.norm(draws - truth / scale, axis=-1).mean(0)
    count = len(draws)
    if count < 2:
        return np.asarray(to_truth)
    total = sum(np.linalg.norm(draws[k + 1 :] - draws[k], axis=-1).sum(0) for k in range(count - 1))
    return np.asarray(to_truth - total / (count * (count - 1)))


def _log_normal(gap: Float[Array, "B T D"], std: Float[Array, "B T D"]) -> Float[Array, "T"]:
    each = -0.5 * (_NORMAL_ENTROPY + np.square(gap / std)) - np.log(std)
    return np.asarray(each.sum(-1).mean(0))
