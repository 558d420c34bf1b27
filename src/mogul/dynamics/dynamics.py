"""A model of dynamics: learnt from trajectories, rolled out with its uncertainty, kept in one file."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mogul._typing import Array
from mogul.dynamics.moments import roll_moments
from mogul.dynamics.rollout import Rollout, roll_particles
from mogul.dynamics.scores import HorizonScores, score_rollouts
from mogul.dynamics.trajectories import Names, StateSpace, Trajectories
from mogul.errors import ConfigError, DataError, ShapeError, require_natural, require_positive, unknown_name
from mogul.fitted.files import load_with_extra, save
from mogul.fitted.fitted import Fitted
from mogul.fitted.functions import FunctionDraws, Kind
from mogul.training.fit import fit

Method = Literal["functions", "marginals", "moments"]
# Numbers of states at once, in particles × starts; more starts are rolled out one part after another.
_STATES_AT_ONCE = 20_000
_EXTRA = "dynamics"


@dataclass(frozen=True)
class Dynamics:
    """Next states from states and actions: `fit` learns them, `rollout` runs them ahead.

    Args:
        fitted: the model of the differences between states.
        space: names of states and actions, angles, time step.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> actions = rng.uniform(-1, 1, (60, 1))
        >>> states = np.cumsum(np.vstack([np.zeros((1, 1)), 0.1 * actions]), axis=0)
        >>> dynamics = Dynamics.fit(states, actions, state_names=["position"], verbose=0)
        >>> ahead = dynamics.rollout([0.0], np.ones((10, 1)), num_particles=20)
        >>> ahead.mean.shape, ahead.particles.shape, bool(abs(ahead.mean[-1, 0] - 1) < 0.01)
        ((11, 1), (20, 11, 1), True)
    """

    fitted: Fitted
    space: StateSpace
    _drawn: dict[tuple[int, int, Kind], FunctionDraws] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def fit(
        states: Any,
        actions: Any = None,
        *,
        groups: Any = None,
        state: Names | None = None,
        action: Names | None = None,
        angles: Sequence[int | str] | str = (),
        time_step: float = 1.0,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        **options: Any,
    ) -> "Dynamics":
        """Learn the differences between successive states.

        Args:
            states: (T + 1, D) of one trajectory, a list of such arrays, (R, T + 1, D), or a frame or the path of a
                table whose columns `state` and `action` name.
            actions: (T, A) for each trajectory: action t leads from state t to state t + 1. An action after the last
                state is left out.
            groups: the trajectory of each row of one array, or the column of a table that says so. Rows of a trajectory
                follow each other.
            state: columns of a table.
            action: columns of a table.
            angles: states that are angles in radians, by name or number: the model sees their sine and cosine, and
                jumps of 2π are taken out.
            time_step: between two states, for the axis of time.
            state_names: names of the columns of arrays.
            action_names: names of the columns of arrays.
            options: of `mogul.fit`. The mean is linear unless given: a forest has no slopes. With several trajectories
                whole ones are held out for validation, as `mogul.fit` does with groups.
        """
        runs = Trajectories.of(
            states, actions, groups=groups, state=state, action=action, angles=(), time_step=time_step
        )
        space = StateSpace(
            _renamed(runs.space.state_names, state_names, "state_names"),
            _renamed(runs.space.action_names, action_names, "action_names"),
            (),
            time_step,
        )
        return Dynamics.learn(Trajectories.in_space(_with_angles(space, angles), runs.states, runs.actions), **options)

    @staticmethod
    def learn(runs: Trajectories, **options: Any) -> "Dynamics":
        """From trajectories that were read already."""
        x, y = runs.inputs(), runs.differences()
        several = len(runs.states) > 1
        settings = {"mean": "linear", **({"groups": runs.numbers()} if several else {}), **options}
        frames = _frame(x, runs.space.input_names), _frame(y, runs.space.state_names)
        fitted = fit(*frames, **settings)
        if fitted.is_latent or fitted.transforms:
            raise ConfigError(
                f"Dynamics need a model of differences at given inputs; got {fitted.model_name} with "
                f"{fitted.transforms or 'latent inputs'}. Leave out -lvm and transform."
            )
        return Dynamics(fitted, runs.space)

    def update(
        self, states: Any, actions: Any = None, *, groups: Any = None, num_inducing: int | None = None
    ) -> "Dynamics":
        """These dynamics after new trajectories, given as to `fit`: see `Fitted.update`. Old ones are not needed.

        A table has the model's columns.
        """
        runs = self._trajectories(states, actions, groups)
        rows = _frame(runs.inputs(), self.space.input_names), _frame(runs.differences(), self.space.state_names)
        return Dynamics(self.fitted.update(*rows, num_inducing=num_inducing), self.space)

    def _trajectories(self, states: Any, actions: Any, groups: Any) -> Trajectories:
        """New trajectories with these states and actions."""
        columns = {"state": self.space.state_names, "action": self.space.action_names} if actions is None else {}
        runs = Trajectories.of(states, actions, groups=groups, **columns)  # type: ignore[arg-type]  # two of them
        return Trajectories.in_space(self.space, runs.states, runs.actions)

    def rollout(
        self,
        state: Any,
        actions: Any,
        *,
        num_particles: int = 100,
        method: str = "functions",
        noise: bool = True,
        seed: int = 0,
    ) -> Rollout:
        """The distribution of the states after each action.

        Args:
            state: the start (D,), or B starts (B, D). A tensor gives tensors, with gradients.
            actions: (T, A), the same from all starts, or (B, T, A).
            num_particles: particles S, or nodes of method="moments".
            method: "functions" draws S functions from the posterior, and a particle follows one of them all along: what
                is not known of the dynamics stays the same. A step costs the same at any horizon. "marginals" draws
                anew at each step, which takes what is not known for noise. "moments" matches the mean and covariance
                of a Normal at each step.
            noise: whether the model's noise is part of each step.
            seed: of the draws. The same functions serve the next rollout with the same seed and number.

        Raises:
            DataError: a state or an action is not finite.
        """
        require_positive(num_particles=num_particles)
        require_natural(seed=seed)
        if method not in get_args(Method):
            raise unknown_name("method", method, get_args(Method))
        wants_tensors = isinstance(state, Tensor) or isinstance(actions, Tensor)
        start = _as_tensor(state, "state", self.space.state_names, (1, 2))
        controls = _as_tensor(actions, "actions", self.space.action_names, (2, 3))
        single = start.dim() == 1 and controls.dim() == 2
        start, controls = _matched(start, controls)
        with torch.set_grad_enabled(torch.is_grad_enabled() and (start.requires_grad or controls.requires_grad)):
            rollout = self._rollout(start, controls, num_particles, method, noise, seed)
        rollout = _of_one(rollout) if single else rollout
        return rollout if wants_tensors else rollout.numpy()

    def _rollout(
        self,
        start: Float[Tensor, "B D"],
        controls: Float[Tensor, "B T A"],
        num_particles: int,
        method: str,
        noise: bool,
        seed: int,
    ) -> Rollout:
        generator = torch.Generator().manual_seed(seed)
        step = max(1, _STATES_AT_ONCE // num_particles)
        parts = [slice(first, first + step) for first in range(0, len(start), step)]
        if method == "moments":
            draws = self._draws(1, seed, "marginals", len(self.fitted.single_models))
            each = [
                roll_moments(
                    self.space, draws, start[own], controls[own], generator, num_nodes=num_particles, noise=noise
                )
                for own in parts
            ]
            mean, cov = (torch.cat(part) for part in zip(*each, strict=True))
            return Rollout(self.space, mean, cov.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt())
        fresh = method == "marginals"
        draws = self._draws(num_particles, seed, "marginals" if fresh else "functions")
        rolled = [
            roll_particles(self.space, draws, start[own], controls[own], generator, fresh=fresh, noise=noise)
            for own in parts
        ]
        return Rollout.of_particles(self.space, torch.cat(rolled, 1))

    def _draws(self, num_draws: int, seed: int, kind: Kind, least: int = 1) -> FunctionDraws:
        """Those of the last call with the same numbers: to draw functions takes as long as many steps."""
        key = (max(num_draws, least), seed, kind)
        if key not in self._drawn:
            self._drawn.clear()
            self._drawn[key] = FunctionDraws.of(self.fitted, *key)
        return self._drawn[key]

    def step(self, state: Any, action: Any) -> tuple[Float[Array, "B D"], Float[Array, "B D"]]:
        """Mean and standard deviation of the next state, for rows of states (B, D) and actions (B, A)."""
        start = _as_tensor(state, "state", self.space.state_names, (2,)).detach()
        control = _as_tensor(action, "action", self.space.action_names, (2,)).detach()
        mean, std = self.fitted.predictor().mean_std(self.space.inputs(start, control).numpy())
        return start.numpy() + mean, std

    def linearised(self, state: Any, action: Any) -> tuple[Float[Array, "D D"], Float[Array, "D A"]]:
        """A and B of the mean at a state (D,) and an action (A,): next ≈ … + A (state − …) + B (action − …)."""
        start = _as_tensor(state, "state", self.space.state_names, (1,)).detach()
        control = _as_tensor(action, "action", self.space.action_names, (1,)).detach()
        of_inputs = self.fitted.predictor().jacobian(self.space.inputs(start, control)[None].numpy())[0]
        slopes = of_inputs @ self.space.slopes(start.numpy())
        size = len(start)
        return np.eye(size) + slopes[:, :size], slopes[:, size:]

    def score(
        self,
        states: Any,
        actions: Any = None,
        *,
        groups: Any = None,
        horizon: int = 50,
        num_starts: int = 100,
        num_particles: int = 100,
        level: float = 0.9,
        method: str = "functions",
        seed: int = 0,
    ) -> HorizonScores:
        """Rollouts beside what happened: coverage, errors, energy score and log density by horizon.

        Args:
            states: trajectories that were not learnt from, as `fit` takes them; a table has the model's columns.
            actions: theirs.
            groups: as in `fit`.
            horizon: steps ahead.
            num_starts: rollouts, from starts that are evenly spaced over the trajectories.
            num_particles: of each rollout.
            level: the probability that bands should hold.
            method: of the rollouts.
            seed: of the draws.
        """
        runs = self._trajectories(states, actions, groups)
        return score_rollouts(self, runs, horizon, num_starts, num_particles, level, method, seed)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, atomically; `Dynamics.load` reads it, and `mogul.load` its model."""
        save(self.fitted, path, extra={_EXTRA: self.space.plain()})

    @staticmethod
    def load(path: str | PathLike[str]) -> "Dynamics":
        """Read what `save` wrote; nothing in a file is executed."""
        fitted, extra = load_with_extra(path)
        return Dynamics(fitted, StateSpace.from_plain(extra.get(_EXTRA)))


def _with_angles(space: StateSpace, angles: Sequence[int | str] | str) -> StateSpace:
    marked = [angles] if isinstance(angles, str) else list(angles)
    named = []
    for angle in marked:
        if not isinstance(angle, str) and not -len(space.state_names) <= angle < len(space.state_names):
            raise ConfigError(
                f"angles must be columns from 0 to {len(space.state_names) - 1}; got {angle}. Names work as well."
            )
        named.append(angle if isinstance(angle, str) else space.state_names[angle])
    return StateSpace(space.state_names, space.action_names, tuple(named), space.time_step)


def _renamed(names: list[str], given: Sequence[str] | None, what: str) -> list[str]:
    if given is None:
        return names
    if len(given) != len(names) or isinstance(given, str):
        raise ShapeError(f"{what} must have a name for each of {len(names)} columns; got {given!r}. Name each once.")
    return [str(name) for name in given]


def _frame(values: Float[Array, "N K"], names: list[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(values, columns=names)


def _as_tensor(values: Any, what: str, names: list[str], axes: tuple[int, ...]) -> Tensor:
    """In float64, after checks of shape and of every number."""
    try:
        tensor = values if isinstance(values, Tensor) else torch.as_tensor(np.array(values, dtype=np.float64))
    except (ValueError, TypeError):
        raise DataError(f"{what} must be numbers; got {values!r}. Give an array of {', '.join(names)}.") from None
    if tensor.dim() not in axes or tensor.shape[-1] != len(names) or not tensor.numel():
        raise ShapeError(
            f"{what} must have the columns {', '.join(names)} and {' or '.join(map(str, axes))} axes; "
            f"got shape {tuple(tensor.shape)}. Give all columns, in this order."
        )
    bad = (~torch.isfinite(tensor)).nonzero()
    if len(bad):
        place = tuple(int(number) for number in bad[0])
        raise DataError(
            f"{what} must be finite; {names[place[-1]]!r} holds {float(tensor[place])} at {place[:-1] or 'the start'}. "
            "Fill it in."
        )
    return tensor.double()


def _matched(start: Tensor, controls: Tensor) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B T A"]]:
    """The same number of starts in both."""
    start = start[None] if start.dim() == 1 else start
    controls = controls[None] if controls.dim() == 2 else controls
    count = max(len(start), len(controls))
    if not {len(start), len(controls)} <= {1, count}:
        raise ShapeError(
            f"actions must be (T, A) for all starts or (B, T, A) for each; got {len(controls)} for {len(start)} "
            "starts. Repeat the states or the actions."
        )
    return start.expand(count, -1), controls.expand(count, -1, -1)


def _of_one(rollout: Rollout) -> Rollout:
    particles = None if rollout.particles is None else rollout.particles[:, 0]
    return Rollout(rollout.space, rollout.mean[0], rollout.std[0], particles)
