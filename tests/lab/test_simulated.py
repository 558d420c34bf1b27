"""Simulated robots: decided by their seed, of the sizes they claim, and obeying mechanics."""

import sys

import numpy as np
import pytest

from mogul.errors import ConfigError
from mogul.lab.datasets.simulated import EPISODE, LINKS, SEGMENT, Arm, half_cheetah, rhythmic_arm, sum_of_sines

mujoco = pytest.importorskip("mujoco", reason="the extra 'robots' is not installed")
pytest.importorskip("gymnasium", reason="the extra 'robots' is not installed")

SIMULATORS = pytest.mark.parametrize("simulate", [half_cheetah, rhythmic_arm])


@pytest.fixture(scope="module")
def arm() -> Arm:
    return Arm()


@pytest.fixture
def poses() -> np.ndarray:
    """Twenty poses within the joints' ranges."""
    return Arm.centre + Arm.reach * np.random.default_rng(0).uniform(-1, 1, size=(20, 7))


@SIMULATORS
def test_a_seed_decides_the_rows(simulate) -> None:
    first, again, other = (simulate(150, seed)[0] for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.any(np.all(first.x == other.x, axis=1))


@SIMULATORS
def test_fewer_rows_are_the_first_of_more(simulate) -> None:
    few, many = simulate(130, 0)[0], simulate(210, 0)[0]
    np.testing.assert_array_equal(few.y, many.y[:130])


@pytest.mark.parametrize(
    ("simulate", "num_inputs", "num_outputs", "length"),
    [(half_cheetah, 23, 9, EPISODE), (rhythmic_arm, 21, 7, SEGMENT)],
)
def test_sizes_and_groups(simulate, num_inputs: int, num_outputs: int, length: int) -> None:
    data, groups = simulate(length + 10, 0)
    assert (data.num_rows, data.num_inputs, data.num_outputs) == (length + 10, num_inputs, num_outputs)
    np.testing.assert_array_equal(groups, [1] * length + [2] * 10)
    assert len(set(data.input_names + data.output_names)) == num_inputs + num_outputs


@SIMULATORS
@pytest.mark.parametrize(("rows", "seed", "found"), [(0, 0, "rows must be at least 1"), (5, -1, "seed must be")])
def test_sizes_and_seeds_that_cannot_be_are_refused(simulate, rows: int, seed: int, found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        simulate(rows, seed)


@SIMULATORS
def test_without_the_simulators_the_remedy_is_named(simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ConfigError, match=r'not installed\. Run pip install "mogul\[robots\]"'):
        simulate(5, 0)


def test_the_cheetahs_outputs_are_the_next_change_of_its_velocities() -> None:
    data, groups = half_cheetah(2 * EPISODE, 0)
    velocities = data.x[:, 8:17]
    same_episode = groups[1:] == groups[:-1]
    np.testing.assert_allclose(np.diff(velocities, axis=0)[same_episode], data.y[:-1][same_episode], atol=1e-12)
    assert not np.allclose(velocities[EPISODE], velocities[EPISODE - 1] + data.y[EPISODE - 1], atol=1e-3)


def test_the_cheetahs_actions_are_smooth_bounded_and_start_anew() -> None:
    data, groups = half_cheetah(20 * EPISODE, 1)
    actions = data.x[:, 17:]
    assert np.abs(actions).max() <= 1.0
    before, after = actions[:-1][groups[1:] == groups[:-1]], actions[1:][groups[1:] == groups[:-1]]
    assert 0.8 < np.corrcoef(before.ravel(), after.ravel())[0, 1] < 0.95
    # The first action of an episode is one draw of the noise alone: √0.19 of a scale whose mean square is 0.41.
    assert actions[::EPISODE].std() == pytest.approx(np.sqrt(0.19 * 0.41), rel=0.25)
    assert actions.std() > 0.4
    scales = actions.reshape(20, -1).std(1)
    assert scales.max() > 1.5 * scales.min()


def test_a_static_pose_needs_the_torque_of_gravity(arm: Arm, poses: np.ndarray) -> None:
    still = np.zeros_like(poses)
    data = mujoco.MjData(arm.model)
    for pose, torque in zip(poses, arm.torques(poses, still, still), strict=True):
        data.qpos[:], data.qvel[:] = pose, 0.0
        mujoco.mj_forward(arm.model, data)
        np.testing.assert_allclose(torque, data.qfrc_bias, atol=1e-10)


def test_the_torque_of_gravity_is_the_slope_of_the_potential_energy(arm: Arm, poses: np.ndarray) -> None:
    still, step = np.zeros_like(poses), 1e-5
    slopes = np.empty_like(poses)
    for joint in range(7):
        shift = step * np.eye(7)[joint]
        slopes[:, joint] = (potential(arm, poses + shift) - potential(arm, poses - shift)) / (2 * step)
    np.testing.assert_allclose(arm.torques(poses, still, still), slopes, atol=1e-5)


def test_the_work_of_the_torques_is_the_change_of_energy(arm: Arm) -> None:
    time = np.linspace(0.0, 1.0, 4001)
    rng = np.random.default_rng(1)
    amplitudes = 0.2 * rng.uniform(size=(7, 3))
    motion = sum_of_sines(time, 0.4, amplitudes, rng.uniform(0, 6, size=(7, 3)), arm.centre)
    power = (arm.torques(*motion) * motion[1]).sum(1)
    work = float(np.trapezoid(power, time))
    ends = [potential(arm, motion[0][[row]])[0] + kinetic(arm, motion[0][row], motion[1][row]) for row in (0, -1)]
    assert work == pytest.approx(ends[1] - ends[0], abs=1e-4)
    assert abs(work) > 0.1


def test_inverse_and_forward_dynamics_agree(arm: Arm, poses: np.ndarray) -> None:
    velocity, acceleration = 0.5 * poses[::-1], poses - arm.centre
    data = mujoco.MjData(arm.model)
    for row, torque in enumerate(arm.torques(poses, velocity, acceleration)):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = poses[row], velocity[row], torque
        mujoco.mj_forward(arm.model, data)
        np.testing.assert_allclose(data.qacc, acceleration[row], atol=1e-7)


def test_friction_takes_energy_in_either_direction(arm: Arm) -> None:
    speeds = np.linspace(-2, 2, 9)[:, None] * np.ones(7)
    assert (arm.friction(speeds) * speeds >= 0).all()
    np.testing.assert_allclose(arm.friction(-speeds), -arm.friction(speeds))


def test_velocities_and_accelerations_are_derivatives() -> None:
    time = np.linspace(0, 1, 2001)
    rng = np.random.default_rng(0)
    position, velocity, acceleration = sum_of_sines(
        time, 0.3, rng.uniform(size=(7, 3)), rng.uniform(size=(7, 3)), np.zeros(7)
    )
    np.testing.assert_allclose(np.gradient(position, time, axis=0)[1:-1], velocity[1:-1], atol=1e-4)
    np.testing.assert_allclose(np.gradient(velocity, time, axis=0)[1:-1], acceleration[1:-1], atol=1e-3)


def test_the_arm_stays_within_its_joints_and_its_motors() -> None:
    data, _ = rhythmic_arm(3 * SEGMENT, 0)
    assert (np.abs(data.x[:, :7] - Arm.centre) < Arm.reach).all()
    assert np.abs(data.y).max() < 100
    assert 15 < sum(link.mass for link in LINKS) < 25


def test_what_the_arm_measures_is_the_truth_and_noise(arm: Arm) -> None:
    data, _ = rhythmic_arm(SEGMENT, 0)
    position, velocity, acceleration = np.split(data.x, 3, axis=1)
    moving = (np.abs(velocity) > 0.1).all(1)
    error = (data.y - arm.torques(position, velocity, acceleration) - arm.friction(velocity))[moving]
    # Noise of the torques, and that of the accelerations through the arm's inertia.
    assert (error.std(0) < 5 * arm.torque_noise).all()
    assert (error.std(0) > 0.5 * arm.torque_noise).all()


def potential(arm: Arm, poses: np.ndarray) -> np.ndarray:
    """m g h, summed over the links."""
    data = mujoco.MjData(arm.model)
    energies = np.empty(len(poses))
    for row, pose in enumerate(poses):
        data.qpos[:] = pose
        mujoco.mj_kinematics(arm.model, data)
        energies[row] = 9.81 * arm.model.body_mass @ data.xipos[:, 2]
    return energies


def kinetic(arm: Arm, pose: np.ndarray, velocity: np.ndarray) -> float:
    """½ q̇ᵀ M(q) q̇."""
    data = mujoco.MjData(arm.model)
    data.qpos[:], data.qvel[:] = pose, velocity
    mujoco.mj_forward(arm.model, data)
    momentum = np.empty(7)
    mujoco.mj_mulM(arm.model, data, momentum, velocity)
    return float(0.5 * velocity @ momentum)
