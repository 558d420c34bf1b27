"""Fans: where a rollout says that states will be, beside where they went."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mogul.dynamics import Rollout
from mogul.errors import ConfigError, ShapeError
from mogul.plot.style import BLUE, VERMILION, add_legend, axes_or_new, column_of

_SHOWN = 15  # particles


def fan(
    rollout: Rollout,
    state: int | str = 0,
    truth: Any = None,
    coverages: Sequence[float] = (0.5, 0.9),
    ax: Axes | None = None,
) -> Axes:
    """Bands of one state over time, its mean, a few particles, and the true states if they are known.

    Args:
        rollout: from one start.
        state: which state, by name or number.
        truth: (T + 1, D) true states, the start included.
        coverages: probabilities of the bands.
        ax: where to draw; a new figure by default.

    Example:
        >>> import mogul
        >>> actions = np.random.default_rng(0).uniform(-1, 1, (30, 1))
        >>> states = np.cumsum(np.vstack([[[0.0]], actions]), axis=0)
        >>> dynamics = mogul.Dynamics.fit(states, actions, state_names=["position"], noise="constant", verbose=0)
        >>> fan(dynamics.rollout([0.0], actions)).get_ylabel()
        'position'
    """
    plain = rollout.numpy()
    if plain.mean.ndim != 2:
        raise ShapeError(
            f"rollout must be from one start; got {len(plain.mean)}. Give one state (D,) and its actions (T, A)."
        )
    place = column_of(state, plain.space.state_names, "state")
    ax, time = axes_or_new(ax), plain.time
    for coverage in sorted(coverages, reverse=True):
        if not 0 < coverage < 1:
            raise ConfigError(f"coverages must be between 0 and 1; got {coverage}. Try 0.9.")
        low, high = plain.quantiles([0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage])[..., place]
        ax.fill_between(time, low, high, color=BLUE, alpha=0.2, lw=0, label=f"{100 * coverage:g} % band")
    for particle in [] if plain.particles is None else plain.particles[:_SHOWN, :, place]:
        ax.plot(time, particle, color=BLUE, lw=0.5, alpha=0.35)
    ax.plot(time, plain.mean[:, place], "--", color=BLUE, label="mean")
    if truth is not None:
        values = np.asarray(truth, dtype=np.float64)
        if values.shape != plain.mean.shape:
            raise ShapeError(
                f"truth must be {plain.mean.shape}, the start and a state after each action; got {values.shape}. "
                "Cut it to these steps."
            )
        ax.plot(time, plain.space.unwrapped(values)[:, place], color=VERMILION, label="truth")
    ax.set(xlabel="step" if plain.space.time_step == 1 else "time", ylabel=plain.space.state_names[place])
    add_legend(ax)
    return ax
