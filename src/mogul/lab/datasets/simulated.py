"""Robots simulated by MuJoCo, so that every experiment also runs with no data at all. Needs `mogul[robots]`."""

from importlib.util import find_spec

import numpy as np

from mogul._typing import Array, IntArray
from mogul.data.dataset import Dataset
from mogul.errors import ConfigError, require_natural, require_positive
from mogul.lab.datasets.arm import Arm
from mogul.lab.datasets.robots import inverse_dynamics_frames

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
    return find_spec("mujoco") is not None and find_spec("gymnasium") is not None


def half_cheetah(num_rows: int, seed: int) -> tuple[Dataset, IntArray]:
    """HalfCheetah-v5 under smooth random actions: 17 observations and 6 actions → change of the 9 velocities.

    a ← 0.9 a + √(1 − 0.81) s ε, clipped to [−1, 1], with s ~ U(0.2, 1) per episode; a group is an episode of 100 steps.
    Fewer rows are the first of more.
    """
    _require_simulators(num_rows, seed)
    import gymnasium

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
    import pandas as pd

    # The position along the track is not observed: nothing depends on it.
    positions, velocities = JOINTS[1:], [f"{joint}_velocity" for joint in JOINTS]
    actions = [f"{joint}_action" for joint in JOINTS[3:]]
    changes = [f"{joint}_velocity_change" for joint in JOINTS]
    return Dataset(pd.DataFrame(x, columns=[*positions, *velocities, *actions]), pd.DataFrame(y, columns=changes))


def _require_simulators(num_rows: int, seed: int) -> None:
    require_positive(rows=num_rows)
    require_natural(seed=seed)
    if not simulators_installed():
        raise ConfigError(
            "Simulated data need the packages mujoco and gymnasium; they are not installed. "
            'Run pip install "mogul[robots]".'
        )
