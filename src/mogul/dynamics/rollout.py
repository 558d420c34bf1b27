"""States ahead in time, by particles or by matched moments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mogul._typing import Array
from mogul.dynamics.trajectories import StateSpace
from mogul.errors import ConfigError
from mogul.fitted.functions import FunctionDraws

Values = Any  # arrays, or tensors where a state or an action was one


@dataclass(frozen=True)
class Rollout:
    """The distribution of the states after each action, the start first.

    From one start, arrays are (T + 1, D); from B starts they are (B, T + 1, D). They are tensors, with gradients, where
    the state or an action was one.

    Args:
        space: names and time step.
        mean: of the states.
        std: their standard deviation.
        particles: (S, …, T + 1, D); None by matched moments.
    """

    space: StateSpace
    mean: Values
    std: Values
    particles: Values | None = None

    @staticmethod
    def of_particles(space: StateSpace, particles: Float[Tensor, "S *B T D"]) -> "Rollout":
        """With the particles' moments."""
        spread = particles.std(0) if len(particles) > 1 else torch.zeros_like(particles[0])
        return Rollout(space, particles.mean(0), spread, particles)

    @property
    def time(self) -> Float[Array, "T"]:
        """Times of the states."""
        return self.space.time_step * np.arange(self.mean.shape[-2])

    def quantiles(self, levels: Sequence[float]) -> Values:
        """(Q, …, T + 1, D): of the particles, or of Normals with these moments."""
        for level in levels:
            if not 0 < level < 1:
                raise ConfigError(f"levels must be between 0 and 1; got {level}. Try 0.05 and 0.95.")
        of = torch.as_tensor(self.mean if self.particles is None else self.particles)
        each = torch.as_tensor(list(levels), dtype=of.dtype)
        if self.particles is None:
            steps = torch.special.ndtri(each).reshape(-1, *(1,) * of.dim())
            values = of + steps * torch.as_tensor(self.std)
        else:
            values = _quantiles(of, each)
        return values if isinstance(self.mean, Tensor) else values.numpy()

    def frame(self, levels: Sequence[float] = ()) -> pd.DataFrame:
        """A row for each state: start, step, time, and of each state `q` the columns q, q_std, q_q0.1."""
        mean, std = (_batched(part) for part in (self.mean, self.std))
        quantiles = [_batched(each) for each in self.quantiles(levels)] if levels else []
        num_starts, num_steps, _ = mean.shape
        columns: dict[str, Any] = {"start": np.repeat(np.arange(num_starts), num_steps)} if num_starts > 1 else {}
        columns |= {"step": np.tile(np.arange(num_steps), num_starts), "time": np.tile(self.time, num_starts)}
        for place, name in enumerate(self.space.state_names):
            columns |= {name: mean[..., place].ravel(), f"{name}_std": std[..., place].ravel()}
            for level, each in zip(levels, quantiles, strict=True):
                columns[f"{name}_q{level:g}"] = each[..., place].ravel()
        return pd.DataFrame(columns)

    def numpy(self) -> "Rollout":
        """The same as arrays, without gradients."""
        parts = (self.mean, self.std, self.particles)
        return Rollout(self.space, *(part.detach().numpy() if isinstance(part, Tensor) else part for part in parts))


def roll_particles(
    space: StateSpace,
    draws: FunctionDraws,
    state: Float[Tensor, "B D"],
    actions: Float[Tensor, "B T A"],
    generator: torch.Generator,
    *,
    fresh: bool,
    noise: bool,
) -> Float[Tensor, "S B U D"]:
    """Particles from each start: those of number s follow function s, or with `fresh` new draws at each step."""
    particles = state.expand(draws.num_draws, *state.shape)
    path = [particles]
    for action in actions.unbind(1):
        inputs = space.inputs(particles, action.expand(draws.num_draws, *action.shape))
        change = draws.marginals(inputs, generator) if fresh else draws(inputs, generator)
        particles = particles + (change + draws.noise(inputs, generator) if noise else change)
        path.append(particles)
    return torch.stack(path, 2)


def _quantiles(particles: Float[Tensor, "S *T"], levels: Float[Tensor, "Q"]) -> Float[Tensor, "Q *T"]:
    """Linear between order statistics, as NumPy's; `torch.quantile` refuses more than 16 million numbers."""
    order = particles.sort(0).values
    places = levels * (len(order) - 1)
    below = places.floor().long()
    share = (places - below).reshape(-1, *(1,) * (particles.dim() - 1))
    return torch.lerp(
        order[below], order[(below + 1).clamp_max(len(order) - 1)], share.expand(len(levels), *order.shape[1:])
    )


def _batched(values: Values) -> Float[Array, "B T D"]:
    array = values.detach().numpy() if isinstance(values, Tensor) else values
    return array if array.ndim == 3 else array[None]
