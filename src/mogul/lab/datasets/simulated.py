"""Simulated data: a function with a known truth, and robots by MuJoCo, which need `mogul[robots]`."""

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array, IntArray
from mogul.data.dataset import Dataset
from mogul.errors import import_extra, require_extra, require_natural, require_positive
from mogul.lab.datasets.files import inverse_dynamics_frames


@dataclass(frozen=True)
class RadialCosine:
    """The paper's synthetic experiment, section 5.1: g_k(x) = cos(4‖x‖) for x in the unit ball of ℝ⁵, k = 1 … 8.

    Example:
        >>> RadialCosine().draw(10, np.random.default_rng(0)).num_outputs
        8
    """

    num_inputs: int = 5
    num_outputs: int = 8
    noise_scale: float = 0.1

    def truth(self, x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        """The noise-free outputs."""
        wave = np.cos(4 * np.linalg.norm(x, axis=1, keepdims=True))
        return np.repeat(wave, self.num_outputs, axis=1)

    def draw(self, num_rows: int, rng: np.random.Generator) -> Dataset:
        """Inputs uniform in the unit ball, outputs with Normal noise."""
        x = self.direction(num_rows, rng) * rng.uniform(size=(num_rows, 1)) ** (1 / self.num_inputs)
        noise = self.noise_scale * rng.standard_normal((num_rows, self.num_outputs))
        return Dataset(x, self.truth(x) + noise)

    def direction(self, num_rows: int, rng: np.random.Generator) -> Float[Array, "N D"]:
        """Points uniform on the unit sphere."""
        x = rng.standard_normal((num_rows, self.num_inputs))
        unit: Array = x / np.linalg.norm(x, axis=1, keepdims=True)
        return unit


@dataclass(frozen=True)
class Link:
    """A link and the joint that carries it, both in the frame of the link before: metres, kilograms, radians."""

    name: str
    offset: tuple[float, float, float]  # from the joint before
    axis: str  # of the joint: it twists about the link, or bends it
    end: tuple[float, float, float]  # of the capsule that gives the link its inertia
    radius: float
    mass: float
    limits: tuple[float, float]


LINKS = (
    Link("shoulder_twist", (0.0, 0.0, 0.27), "0 0 1", (0.07, 0.0, 0.05), 0.07, 5.7, (-1.7, 1.7)),
    Link("shoulder_bend", (0.07, 0.0, 0.0), "0 1 0", (0.10, 0.0, 0.0), 0.06, 3.2, (-2.1, 1.0)),
    Link("upper_arm_twist", (0.10, 0.0, 0.0), "1 0 0", (0.26, 0.0, -0.07), 0.055, 4.3, (-3.0, 3.0)),
    Link("elbow_bend", (0.26, 0.0, -0.07), "0 1 0", (0.10, 0.0, 0.0), 0.05, 2.1, (0.0, 2.6)),
    Link("forearm_twist", (0.10, 0.0, 0.0), "1 0 0", (0.27, 0.0, -0.01), 0.045, 2.2, (-3.0, 3.0)),
    Link("wrist_bend", (0.27, 0.0, -0.01), "0 1 0", (0.11, 0.0, 0.0), 0.04, 1.6, (-1.5, 2.0)),
    Link("wrist_twist", (0.11, 0.0, 0.0), "1 0 0", (0.12, 0.02, 0.0), 0.035, 0.5, (-3.0, 3.0)),
)
# Of each joint, in N m s, N m and N m: the shoulder and elbow have larger gears than the wrist.
VISCOUS = (0.6, 0.6, 0.4, 0.4, 0.15, 0.15, 0.1)
COULOMB = (1.2, 1.2, 0.8, 0.8, 0.25, 0.25, 0.15)
TORQUE_NOISE = (0.10, 0.10, 0.10, 0.10, 0.03, 0.03, 0.03)
STICTION_SPEED = 0.02  # rad/s, below which dry friction fades: a jump in the torque is no arm's


class Arm:
    """The arm's inverse dynamics, friction and the noise of its torque sensors."""

    viscous: Array = np.array(VISCOUS)
    coulomb: Array = np.array(COULOMB)
    torque_noise: Array = np.array(TORQUE_NOISE)
    centre: Array = np.array([sum(link.limits) / 2 for link in LINKS])
    reach: Array = np.array([(link.limits[1] - link.limits[0]) / 2 for link in LINKS])

    @cached_property
    def _mujoco(self) -> Any:
        return import_extra("Simulation", "robots", "mujoco")

    @cached_property
    def model(self) -> Any:
        """MuJoCo's model of the arm."""
        return self._mujoco.MjModel.from_xml_string(arm_xml())

    def torques(
        self, position: Float[Array, "N 7"], velocity: Float[Array, "N 7"], acceleration: Float[Array, "N 7"]
    ) -> Float[Array, "N 7"]:
        """The torques that make the frictionless arm move like this: M(q) q̈ + C(q, q̇) q̇ + g(q)."""
        data = self._mujoco.MjData(self.model)
        torques = np.empty_like(position)
        for row in range(len(position)):
            data.qpos, data.qvel, data.qacc = position[row], velocity[row], acceleration[row]
            self._mujoco.mj_inverse(self.model, data)
            torques[row] = data.qfrc_inverse
        return torques

    def friction(self, velocity: Float[Array, "N 7"]) -> Float[Array, "N 7"]:
        """What the joints' viscous and dry friction takes on top."""
        dry: Array = self.coulomb * np.tanh(velocity / STICTION_SPEED)
        return self.viscous * velocity + dry


def arm_xml() -> str:
    """The arm in MuJoCo's language: one capsule per link, nothing to touch, gravity down.

    >>> arm_xml().count("<joint")
    7
    """
    inner = ""
    for link in reversed(LINKS):
        inner = (
            f'<body name="{link.name}" pos="{_words(link.offset)}">'
            f'<joint name="{link.name}" type="hinge" axis="{link.axis}"/>'
            f'<geom type="capsule" fromto="0 0 0 {_words(link.end)}" size="{link.radius}" mass="{link.mass}"/>'
            f"{inner}</body>"
        )
    # Without contacts, limits and implicit damping, inverse dynamics are the textbook's.
    return (
        '<mujoco model="rhythmic arm"><compiler angle="radian"/>'
        '<option gravity="0 0 -9.81"><flag contact="disable" constraint="disable"/></option>'
        f"<worldbody>{inner}</worldbody></mujoco>"
    )


def _words(numbers: tuple[float, ...]) -> str:
    return " ".join(map(str, numbers))


SIMULATORS = ("mujoco", "gymnasium")
EPISODE = 100
NUM_ACTIONS, NUM_POSITIONS, NUM_VELOCITIES = 6, 8, 9
MEMORY = 0.9  # of the action, from step to step
JOINTS = ["root_x", "root_z", "root_angle", "back_thigh", "back_shin", "back_foot", "front_thigh", "front_shin"]
JOINTS += ["front_foot"]

SEGMENT = 637
SAMPLES_PER_SECOND = 100
NUM_HARMONICS = 3
POSITION_NOISE, VELOCITY_NOISE, ACCELERATION_NOISE = 4e-4, 5e-3, 0.05


def simulators_installed() -> bool:
    """Whether the packages that simulate are there."""
    return all(find_spec(name) is not None for name in SIMULATORS)


def half_cheetah(num_rows: int, seed: int) -> tuple[Dataset, IntArray]:
    """HalfCheetah-v5 under smooth random actions: 17 observations and 6 actions → change of the 9 velocities.

    a ← 0.9 a + √(1 − 0.81) s ε, clipped to [−1, 1], with s ~ U(0.2, 1) per episode; a group is an episode of 100 steps.
    Fewer rows are the first of more.
    """
    _require_simulators(num_rows, seed)
    gymnasium = import_extra("Simulation", "robots", "gymnasium")
    rng = np.random.default_rng(seed)
    x, y = np.empty((num_rows, NUM_POSITIONS + NUM_VELOCITIES + NUM_ACTIONS)), np.empty((num_rows, NUM_VELOCITIES))
    environment = gymnasium.make("HalfCheetah-v5", disable_env_checker=True)
    for row in range(num_rows):
        if row % EPISODE == 0:
            # Only the first reset is given the seed: later ones go on in the environment's own stream.
            observation, _ = environment.reset(seed=seed if row == 0 else None)
            action, scale = np.zeros(NUM_ACTIONS), rng.uniform(0.2, 1.0)
        drive = np.sqrt(1 - MEMORY**2) * scale * rng.standard_normal(NUM_ACTIONS)
        action = np.clip(MEMORY * action + drive, -1.0, 1.0)
        following = environment.step(action)[0]
        x[row] = np.concatenate([observation, action])
        y[row] = following[NUM_POSITIONS:] - observation[NUM_POSITIONS:]
        observation = following
    environment.close()
    return _cheetah_frames(x, y), 1 + np.arange(num_rows) // EPISODE


def rhythmic_arm(num_rows: int, seed: int) -> tuple[Dataset, IntArray]:
    """A 7-joint arm in rhythmic motion: measured positions, velocities, accelerations → measured torques.

    Torques are MuJoCo's inverse dynamics plus friction; all four are read with noise. A group is a segment of 637
    samples (6.37 s) with frequencies, amplitudes and phases of its own. Fewer rows are the first of more.
    """
    _require_simulators(num_rows, seed)
    arm = Arm()
    segments = [_segment(arm, seed, number) for number in range(-(-num_rows // SEGMENT))]
    x, y = (np.concatenate(parts)[:num_rows] for parts in zip(*segments, strict=True))
    return inverse_dynamics_frames(x, y), 1 + np.arange(num_rows) // SEGMENT


def sum_of_sines(
    time: Array, frequency: float, amplitudes: Array, phases: Array, centre: Array
) -> tuple[Array, Array, Array]:
    """Positions, velocities and accelerations (T, joints) of Σ_k a_k sin(2π k f t + φ_k) around a centre."""
    speeds = 2 * np.pi * frequency * np.arange(1, amplitudes.shape[1] + 1)
    angles = time[:, None, None] * speeds + phases
    position = centre + (amplitudes * np.sin(angles)).sum(-1)
    velocity = (amplitudes * speeds * np.cos(angles)).sum(-1)
    acceleration = -(amplitudes * speeds**2 * np.sin(angles)).sum(-1)
    return position, velocity, acceleration


def _segment(arm: Arm, seed: int, number: int) -> tuple[Array, Array]:
    """Inputs and outputs of one segment, from a random stream of its own."""
    rng = np.random.default_rng([seed, number])
    num_joints = len(arm.centre)
    # Harmonics fade, and together stay within the joint's range.
    weights = rng.dirichlet([6.0, 2.0, 1.0], size=num_joints)
    amplitudes = weights * (rng.uniform(0.2, 0.7, size=num_joints) * arm.reach)[:, None]
    phases = rng.uniform(0, 2 * np.pi, size=(num_joints, NUM_HARMONICS))
    time = np.arange(SEGMENT) / SAMPLES_PER_SECOND
    motion = sum_of_sines(time, rng.uniform(0.1, 0.25), amplitudes, phases, arm.centre)
    torque = arm.torques(*motion) + arm.friction(motion[1])
    noise = (POSITION_NOISE, VELOCITY_NOISE, ACCELERATION_NOISE)
    inputs = [part + scale * rng.standard_normal(part.shape) for part, scale in zip(motion, noise, strict=True)]
    return np.concatenate(inputs, axis=1), torque + arm.torque_noise * rng.standard_normal(torque.shape)


def _cheetah_frames(x: Array, y: Array) -> Dataset:
    # The position along the track is not observed: nothing depends on it.
    positions, velocities = JOINTS[1:], [f"{joint}_velocity" for joint in JOINTS]
    actions = [f"{joint}_action" for joint in JOINTS[3:]]
    changes = [f"{joint}_velocity_change" for joint in JOINTS]
    return Dataset(pd.DataFrame(x, columns=[*positions, *velocities, *actions]), pd.DataFrame(y, columns=changes))


def _require_simulators(num_rows: int, seed: int) -> None:
    require_positive(rows=num_rows)
    require_natural(seed=seed)
    require_extra("Simulation", "robots", *SIMULATORS)
