"""`mogul dynamics` and `mogul rollout`: learn dynamics from a table of trajectories, and run them ahead."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mogul.data.sources.formats import read_table
from mogul.dynamics import Dynamics, Rollout
from mogul.dynamics.trajectories import Trajectories
from mogul.errors import ConfigError
from mogul.fitted.fitted import summary_lines
from mogul.storage.atomic import write_whole


@dataclass(frozen=True)
class Learnt:
    """Dynamics in a file, and how many steps of how many trajectories they were learnt from."""

    dynamics: Dynamics
    path: Path
    num_steps: int
    num_trajectories: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        sizes = {"steps": self.num_steps, "trajectories": self.num_trajectories}
        check = self.dynamics.fitted.check
        return {
            "out": str(self.path),
            **sizes,
            **self.dynamics.space.plain(),
            "model": self.dynamics.fitted.model_name,
            "check": None if check is None else check.to_json(),
        }

    @property
    def lines(self) -> list[str]:
        """For people."""
        count = f"{self.num_steps:,} steps of {self.num_trajectories} trajectories"
        return [
            f"Learnt from {count}: differences between states",
            *summary_lines(self.dynamics.fitted),
            f"File {self.path}",
            f"Next mogul rollout {self.path} START.csv --actions ACTIONS.csv --out fan.csv",
        ]


def learn_file(
    data: Path,
    out: Path,
    columns: tuple[Sequence[str], Sequence[str], Sequence[str]],
    groups: str | None,
    time_step: float,
    options: dict[str, Any],
) -> Learnt:
    """Fit dynamics to the columns of states, actions and angles of a table, and write them."""
    states, actions, angles = columns
    runs = Trajectories.of(
        data, groups=groups, state=list(states), action=list(actions), angles=list(angles), time_step=time_step
    )
    dynamics = Dynamics.learn(runs, **options)
    out.parent.mkdir(parents=True, exist_ok=True)
    dynamics.save(out)
    return Learnt(dynamics, out, runs.num_steps, len(runs.states))


@dataclass(frozen=True)
class Fan:
    """A rollout as a table."""

    rollout: Rollout
    levels: list[float]

    def frame(self) -> pd.DataFrame:
        """A row for each state of each start."""
        return self.rollout.frame(self.levels)

    def to_json(self) -> dict[str, Any]:
        """Lists by column."""
        return {str(name): column.tolist() for name, column in self.frame().items()}


def roll_file(
    model: Path, start: Path, actions: Path, num_particles: int, method: str, seed: int, levels: list[float]
) -> Fan:
    """From each row of the table of starts, under the actions of another table."""
    dynamics = Dynamics.load(model)
    space = dynamics.space
    states = read_table(start).numbers(space.state_names, "START").to_numpy()
    controls = read_table(actions).numbers(space.action_names, "--actions").to_numpy()
    begin = states[0] if len(states) == 1 else states
    rollout = dynamics.rollout(
        np.ascontiguousarray(begin), controls, num_particles=num_particles, method=method, seed=seed
    )
    return Fan(rollout, levels)


def write_fan(fan: Fan, out: Path) -> None:
    """Write a CSV file atomically; its folder is created."""
    frame = fan.frame()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, lambda partial: frame.to_csv(partial, index=False))


def draw_fan(fan: Fan, path: Path) -> None:
    """A panel for each of up to six states."""
    from matplotlib.figure import Figure

    from mogul.plot import fan as draw

    if fan.rollout.mean.ndim != 2:
        raise ConfigError(
            f"--plot draws the fan of one start; got {len(fan.rollout.mean)}. Give one row, or leave it out."
        )
    names = fan.rollout.space.state_names[:6]
    figure = Figure(figsize=(5.4, 2.2 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), squeeze=False, sharex=True)[:, 0]
    for ax, name in zip(axes, names, strict=True):
        draw(fan.rollout, name, ax=ax)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix[1:]
    write_whole(path, lambda partial: figure.savefig(partial, dpi=150, format=kind))
