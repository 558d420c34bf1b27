"""Trajectories of states and actions, from arrays, frames or files, and the rows that a model learns from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mogul._typing import Array, IntArray
from mogul.data.checks import as_matrix, numbered_names
from mogul.data.sources.containers import frame_kind
from mogul.data.sources.formats import read_table
from mogul.data.sources.table import Table
from mogul.data.splits import group_numbers
from mogul.errors import ConfigError, DataError, FileError, ShapeError, unknown_name

Names = str | Sequence[str]


@dataclass(frozen=True)
class StateSpace:
    """Names of states and actions, which states are angles, and the time between two states.

    A model's inputs are the states, an angle as its sine and cosine, and the actions; its outputs are differences.

    Example:
        >>> space = StateSpace(["angle", "speed"], ["torque"], ("angle",), time_step=0.05)
        >>> space.input_names
        ['sin(angle)', 'cos(angle)', 'speed', 'torque']
        >>> space.inputs(torch.zeros(2), torch.ones(1))
        tensor([0., 1., 0., 1.])
    """

    state_names: list[str]
    action_names: list[str]
    angles: tuple[str, ...] = ()
    time_step: float = 1.0

    def __post_init__(self) -> None:
        for name in self.angles:
            if name not in self.state_names:
                raise unknown_name("angles", name, self.state_names)
        step = self.time_step
        if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step < math.inf:
            raise ConfigError(f"time_step must be a positive number; got {step!r}. Try 0.01, or leave it out.")

    @property
    def input_names(self) -> list[str]:
        """The inputs of the model."""
        each = [[f"sin({name})", f"cos({name})"] if name in self.angles else [name] for name in self.state_names]
        return [name for names in each for name in names] + self.action_names

    def inputs(self, state: Float[Tensor, "*S D"], action: Float[Tensor, "*S A"]) -> Float[Tensor, "*S K"]:
        """The model's inputs at these states and actions."""
        columns: list[Tensor] = []
        for name, column in zip(self.state_names, state.unbind(-1), strict=True):
            columns += [column.sin(), column.cos()] if name in self.angles else [column]
        return torch.cat([torch.stack(columns, -1), action], -1)

    def slopes(self, state: Float[Array, "D"]) -> Float[Array, "K E"]:
        """∂inputs/∂(state, action)."""
        slopes = np.zeros((len(self.input_names), len(state) + len(self.action_names)))
        row = 0
        for column, (name, value) in enumerate(zip(self.state_names, state, strict=True)):
            each = [math.cos(value), -math.sin(value)] if name in self.angles else [1.0]
            slopes[row : row + len(each), column] = each
            row += len(each)
        slopes[row:, len(state) :] = np.eye(len(self.action_names))
        return slopes

    def unwrapped(self, states: Float[Array, "T D"]) -> Float[Array, "T D"]:
        """Angles without jumps of 2π."""
        own = [self.state_names.index(name) for name in self.angles]
        result = states.copy()
        result[:, own] = np.unwrap(states[:, own], axis=0)
        return result

    def plain(self) -> dict[str, Any]:
        """What a file holds of it."""
        return {
            "state_names": list(self.state_names),
            "action_names": list(self.action_names),
            "angles": list(self.angles),
            "time_step": float(self.time_step),
        }

    @staticmethod
    def from_plain(plain: Any) -> "StateSpace":
        """From a file's settings, or an error that it has none."""
        parts = plain if isinstance(plain, Mapping) else {}
        try:
            names = [[str(name) for name in parts[key]] for key in ("state_names", "action_names", "angles")]
            return StateSpace(names[0], names[1], tuple(names[2]), parts["time_step"])
        except (KeyError, TypeError, ConfigError):
            raise FileError(
                "The file must hold dynamics; this one is another model, or damaged. Write one by Dynamics.save or "
                "mogul dynamics; mogul.load reads other models."
            ) from None


@dataclass(frozen=True)
class Trajectories:
    """States (T + 1, D) and actions (T, A) of each trajectory; action t leads from state t to state t + 1.

    Angles are without jumps.

    Example:
        >>> runs = Trajectories.of([np.zeros((4, 2)), np.ones((3, 2))], [np.zeros((4, 1)), np.zeros((2, 1))])
        >>> runs.num_steps, [len(states) for states in runs.states]
        (5, [4, 3])
    """

    space: StateSpace
    states: list[Float[Array, "_ D"]]
    actions: list[Float[Array, "_ A"]]

    @staticmethod
    def of(
        states: Any,
        actions: Any = None,
        *,
        groups: Any = None,
        state: Names | None = None,
        action: Names | None = None,
        angles: Sequence[int | str] | str = (),
        time_step: float = 1.0,
    ) -> "Trajectories":
        """From arrays, lists of arrays, or a table: see `Dynamics.fit`."""
        if actions is None:
            own_states, own_actions, names = _from_table(states, groups, state, action)
        else:
            if state is not None or action is not None:
                raise ConfigError("state and action name columns of a table; got actions too. Leave them out.")
            own_states, state_names = _runs(states, "states", groups)
            own_actions, action_names = _runs(actions, "actions", groups)
            names = state_names, action_names
        if len(own_states) != len(own_actions):
            raise ShapeError(
                f"states and actions must have the same number of trajectories; got {len(own_states)} and "
                f"{len(own_actions)}. Give one array of each for each trajectory."
            )
        marked = [angles] if isinstance(angles, str) else list(angles)
        space = StateSpace(*names, tuple(_named(angle, names[0]) for angle in marked), time_step)
        return Trajectories.in_space(space, own_states, own_actions)

    @staticmethod
    def in_space(space: StateSpace, states: list[Array], actions: list[Array]) -> "Trajectories":
        """Check them, and take jumps out of angles."""
        pairs = [_checked(space, number, *pair) for number, pair in enumerate(zip(states, actions, strict=True))]
        return Trajectories(space, [space.unwrapped(own) for own, _ in pairs], [own for _, own in pairs])

    @property
    def num_steps(self) -> int:
        """Rows to learn from."""
        return sum(map(len, self.actions))

    def inputs(self) -> Float[Array, "N K"]:
        """The model's inputs at each step."""
        state, action = np.concatenate([own[:-1] for own in self.states]), np.concatenate(self.actions)
        return self.space.inputs(torch.as_tensor(state), torch.as_tensor(action)).numpy()

    def differences(self) -> Float[Array, "N D"]:
        """What the model predicts."""
        return np.concatenate([np.diff(own, axis=0) for own in self.states])

    def numbers(self) -> Int[IntArray, "N"]:
        """The trajectory of each step."""
        return np.repeat(np.arange(len(self.actions)), [len(own) for own in self.actions])


def _checked(space: StateSpace, number: int, states: Array, actions: Array) -> tuple[Array, Array]:
    for what, values, names in (("state", states, space.state_names), ("action", actions, space.action_names)):
        if values.shape[1] != len(names):
            raise ShapeError(
                f"{what}s must have {len(names)} columns, {', '.join(names)}; those of trajectory {number} have "
                f"{values.shape[1]}. Give all of them, in this order."
            )
    if len(states) < 2 or len(actions) not in (len(states) - 1, len(states)):
        raise ShapeError(
            f"A trajectory must have at least 2 states, and an action for each but the last; trajectory {number} has "
            f"{len(states)} states and {len(actions)} actions. Action t leads from state t to state t + 1."
        )
    actions = actions[: len(states) - 1]
    for what, values, names in (("State", states, space.state_names), ("Action", actions, space.action_names)):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            row, column = bad[0]
            raise DataError(
                f"{what}s must be finite; {names[column]!r} holds {values[row, column]} in row {row} of trajectory "
                f"{number}. Fill it in, or end the trajectory there and begin another after it."
            )
    return states, actions


def _runs(values: Any, what: str, groups: Any) -> tuple[list[Array], list[str]]:
    """A matrix for each trajectory, and names of columns."""
    if not isinstance(values, list | tuple) and getattr(values, "ndim", 2) == 3:
        values = list(values)  # (runs, times, columns)
    if isinstance(values, list | tuple) and len(values) and np.ndim(values[0]) == 2:
        if groups is not None:
            raise ConfigError(f"groups splits one array; got a list of {len(values)} too. Leave groups out.")
        pairs = [as_matrix(each, what) for each in values]
        return [matrix for matrix, _ in pairs], _short(pairs[0][1], what)
    matrix, names = as_matrix(values, what)
    if groups is None:
        return [matrix], _short(names, what)
    return _split(matrix, groups), _short(names, what)


def _short(names: list[str], what: str) -> list[str]:
    """state0 for the states0 of a matrix without names."""
    return numbered_names(what[:-1], len(names)) if names == numbered_names(what, len(names)) else names


def _split(matrix: Array, groups: Any) -> list[Array]:
    numbers = group_numbers(groups, len(matrix))
    return [matrix[numbers == number] for number in range(numbers.max() + 1)]


def _named(angle: int | str, names: list[str]) -> str:
    if isinstance(angle, str):
        return angle
    if not -len(names) <= angle < len(names):
        raise ConfigError(f"angles must be columns from 0 to {len(names) - 1}; got {angle}. Names work as well.")
    return names[angle]


def _from_table(
    table: Any, groups: Any, state: Names | None, action: Names | None
) -> tuple[list[Array], list[Array], tuple[list[str], list[str]]]:
    """Columns of a frame or a file, by the column that names each row's trajectory."""
    if state is None or action is None:
        raise ConfigError(
            "Dynamics need actions, or a table with the names of its columns: state and action; got neither. "
            "Give fit(states, actions), or fit(table, state=['q1'], action=['u1'], groups='run')."
        )
    own = _table(table)
    names = [own.expand(_listed(each), what) for each, what in ((state, "state"), (action, "action"))]
    frame = own.numbers([*names[0], *names[1]], "state and action")
    labels = own.frame([groups], "groups")[groups].to_numpy() if isinstance(groups, str) else groups
    matrix = frame.to_numpy()
    runs = [matrix] if labels is None else _split(matrix, labels)
    num_states = len(names[0])
    return [run[:, :num_states] for run in runs], [run[:, num_states:] for run in runs], (names[0], names[1])


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _table(table: Any) -> Table:
    if isinstance(table, str | PathLike):
        return read_table(Path(table))
    if frame_kind(table) is None:
        raise ConfigError(
            f"state and action name columns of a DataFrame or a file; got {type(table).__name__}. "
            "Give arrays of states and of actions instead."
        )
    return Table("the table", {str(name): table[name].to_numpy() for name in table.columns})
