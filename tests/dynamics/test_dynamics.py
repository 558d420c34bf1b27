"""Dynamics: from trajectories to rollouts, checked against predictions, finite differences and planted systems."""

import numpy as np
import pandas as pd
import pytest
import torch

import mogul
from mogul.dynamics import Dynamics
from mogul.dynamics.trajectories import StateSpace, Trajectories
from mogul.errors import ConfigError, DataError, FileError, ShapeError

QUICK = {"noise": "constant", "kernel": "rbf", "check": False, "groups": None}
STEP = 0.1


def pendulum(seed: int, num_steps: int = 40, noise: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    """A damped pendulum at random torques; its angle is wrapped into (−π, π]."""
    rng = np.random.default_rng(seed)
    angle, speed = rng.uniform(-2, 2, 2)
    states, actions = [[angle, speed]], rng.uniform(-2, 2, (num_steps, 1))
    for (torque,) in actions:
        speed += STEP * (2 * np.sin(angle) - 0.3 * speed + torque) + noise * rng.normal()
        angle += STEP * speed
        states.append([angle, speed])
    path = np.array(states)
    path[:, 0] = (path[:, 0] + np.pi) % (2 * np.pi) - np.pi
    return path, actions


def learnt(seeds: range, **options: object) -> Dynamics:
    states, actions = zip(*map(pendulum, seeds), strict=True)
    runs = Trajectories.of(list(states), list(actions), angles=[0], time_step=STEP)
    return Dynamics.learn(runs, **{**QUICK, **options})


@pytest.fixture(scope="module")
def dynamics() -> Dynamics:
    return learnt(range(3))


class TestTrajectories:
    def test_angles_are_seen_as_sine_and_cosine_and_jumps_are_taken_out(self):
        path = np.array([[3.0, 0.0], [-3.0, 1.0], [-2.9, 2.0]])
        runs = Trajectories.of(path, np.zeros((2, 1)), angles=[0])
        np.testing.assert_allclose(runs.differences()[:, 0], [2 * np.pi - 6, 0.1])
        np.testing.assert_allclose(runs.inputs()[1], [np.sin(-3), np.cos(-3), 1, 0])

    def test_a_table_is_read_like_arrays(self, tmp_path):
        pairs = [pendulum(seed, 5) for seed in range(2)]
        rows = [np.column_stack([path, np.vstack([torque, [[9.0]]])]) for path, torque in pairs]
        frame = pd.DataFrame(np.vstack(rows), columns=["q", "dq", "u"]).assign(run=["a"] * 6 + ["b"] * 6)
        frame.to_csv(tmp_path / "arm.csv", index=False)
        columns = {"groups": "run", "state": ["q", "dq"], "action": "u", "angles": "q"}
        of_arrays = Trajectories.of(*map(list, zip(*pairs, strict=True)), angles=[0])
        for table in (frame, tmp_path / "arm.csv"):
            runs = Trajectories.of(table, **columns)
            assert runs.space.input_names == ["sin(q)", "cos(q)", "dq", "u"]
            np.testing.assert_allclose(runs.inputs(), of_arrays.inputs())
            np.testing.assert_allclose(runs.differences(), of_arrays.differences())
            assert runs.numbers().tolist() == [0] * 5 + [1] * 5

    def test_one_array_is_split_by_groups(self):
        runs = Trajectories.of(np.zeros((7, 2)), np.zeros((7, 1)), groups=["a"] * 4 + ["b"] * 3)
        assert runs.num_steps == 5

    @pytest.mark.parametrize(
        ("states", "actions", "options", "error", "words"),
        [
            (np.zeros((3, 2)), np.zeros((5, 1)), {}, ShapeError, "an action for each but the last.*3 states and 5"),
            (np.array([[0.0], [np.nan]]), np.zeros((1, 1)), {}, DataError, "'state0' holds nan in row 1 of trajectory"),
            (np.zeros((3, 2)), np.zeros((2, 1)), {"angles": [2]}, ConfigError, "from 0 to 1; got 2"),
            (np.zeros((3, 2)), np.zeros((2, 1)), {"angles": "tilt"}, ConfigError, "angles must be one of state0"),
            (
                np.zeros((3, 2)),
                np.zeros((2, 1)),
                {"time_step": 0.0},
                ConfigError,
                "time_step must be a positive number",
            ),
            (np.zeros((3, 2)), None, {}, ConfigError, "state and action; got neither"),
            ([np.zeros((3, 2))], [np.zeros((2, 1))] * 2, {}, ShapeError, "same number of trajectories; got 1 and 2"),
        ],
    )
    def test_what_is_wrong_is_named(self, states, actions, options, error, words):
        with pytest.raises(error, match=words):
            Trajectories.of(states, actions, **options)


class TestRollout:
    @pytest.mark.parametrize("method", ["functions", "marginals", "moments"])
    def test_one_step_is_the_prediction(self, dynamics, method):
        state, action = np.array([0.3, -0.2]), np.array([[0.5]])
        rollout = dynamics.rollout(state, action, num_particles=4096, method=method)
        mean, std = dynamics.step(state[None], action)
        tight = method == "moments"
        np.testing.assert_allclose(rollout.mean[1], mean[0], atol=1e-9 if tight else 4 * std.max() / 64)
        np.testing.assert_allclose(rollout.std[1], std[0], rtol=1e-6 if tight else 0.06)

    def test_moments_are_those_of_particles_with_fresh_draws(self, dynamics):
        state, actions = np.array([1.0, 0.0]), np.full((6, 1), 0.5)
        moments = dynamics.rollout(state, actions, num_particles=512, method="moments")
        particles = dynamics.rollout(state, actions, num_particles=15_000, method="marginals")
        np.testing.assert_allclose(moments.mean, particles.mean, atol=0.003)
        np.testing.assert_allclose(moments.std[1:], particles.std[1:], rtol=0.04)

    def test_a_particle_follows_one_function_all_along(self):
        """What is not known adds up along a trajectory where it is one function, and averages out where it is not."""
        rng = np.random.default_rng(0)
        actions = rng.uniform(-1, 1, (6, 1))
        states = np.cumsum(np.vstack([[[0.0]], actions + 0.2 * rng.normal(size=(6, 1))]), axis=0)
        few = Dynamics.fit(states, actions, **QUICK, mean="paper")
        still = {"num_particles": 2000, "noise": False}
        spread = {
            method: few.rollout([0.0], np.zeros((25, 1)), method=method, **still).std[-1, 0]
            for method in ("functions", "marginals")
        }
        assert spread["functions"] > 2 * spread["marginals"]

    def test_gradients_are_those_of_finite_differences(self, dynamics):
        state = torch.tensor([0.5, -0.3], dtype=torch.float64, requires_grad=True)
        actions = torch.full((4, 1), 0.2, dtype=torch.float64, requires_grad=True)
        for method in ("functions", "moments"):
            options = {"num_particles": 32, "method": method}

            def last(start, controls, options=options):
                return dynamics.rollout(start, controls, **options).mean[-1]

            assert torch.autograd.gradcheck(last, (state, actions), atol=1e-5, rtol=1e-3)

    def test_arrays_give_arrays_and_many_starts_are_those_of_each(self, dynamics):
        starts, actions = np.array([[0.1, 0.0], [2.0, 0.5]]), np.full((3, 1), 0.1)
        both = dynamics.rollout(starts, actions, num_particles=16, noise=False)
        assert both.particles.shape == (16, 2, 4, 2)
        alone = dynamics.rollout(starts[1], actions, num_particles=16, noise=False)
        np.testing.assert_allclose(both.particles[:, 1], alone.particles, atol=1e-10)
        assert both.quantiles([0.05, 0.95]).shape == (2, 2, 4, 2)
        np.testing.assert_allclose(both.quantiles([0.3])[0], np.quantile(both.particles, 0.3, axis=0), atol=1e-12)
        assert both.frame([0.1]).shape == (8, 3 + 2 * 3)
        np.testing.assert_allclose(both.time, [0, 0.1, 0.2, 0.3])

    def test_a_mixture_and_noise_that_is_correlated_roll_out(self):
        mixed = learnt(range(2), model="mogp+sbgprn", noise="low-rank", epochs=2)
        for method in ("functions", "marginals", "moments"):
            ahead = mixed.rollout([0.0, 0.0], np.zeros((3, 1)), num_particles=64, method=method)
            assert np.isfinite(ahead.std).all()

    def test_slopes_are_those_of_the_mean(self, dynamics):
        state, action = np.array([0.7, 0.1]), np.array([0.2])
        of_state, of_action = dynamics.linearised(state, action)

        def mean(point):
            return dynamics.step(point[None, :2], point[None, 2:])[0][0]

        point, small = np.append(state, action), 1e-5 * np.eye(3)
        found = np.stack([(mean(point + each) - mean(point - each)) / 2e-5 for each in small], axis=1)
        np.testing.assert_allclose(np.hstack([of_state, of_action]), found, atol=1e-6)

    @pytest.mark.parametrize(
        ("state", "actions", "options", "error", "words"),
        [
            ([0.0, np.nan], [[0.0]], {}, DataError, "state must be finite; 'state1' holds nan"),
            ([0.0], [[0.0]], {}, ShapeError, "state must have the columns state0, state1"),
            ([0.0, 0.0], [0.0], {}, ShapeError, "actions must have the columns action0"),
            (np.zeros((2, 2)), np.zeros((3, 4, 1)), {}, ShapeError, "got 3 for 2 starts"),
            ([0.0, 0.0], [["a"]], {}, DataError, "actions must be numbers"),
            ([0.0, 0.0], [[0.0]], {"method": "exact"}, ConfigError, "method must be one of functions"),
            ([0.0, 0.0], [[0.0]], {"method": "moments", "num_particles": 4}, ConfigError, "Try 32"),
            ([0.0, 0.0], [[0.0]], {"num_particles": 0}, ConfigError, "num_particles must be at least 1"),
        ],
    )
    def test_what_is_wrong_is_named(self, dynamics, state, actions, options, error, words):
        with pytest.raises(error, match=words):
            dynamics.rollout(state, actions, **options)


class TestScores:
    def test_bands_hold_and_errors_are_below_those_of_persistence(self, dynamics):
        states, actions = map(list, zip(*map(pendulum, range(100, 103)), strict=True))
        scores = dynamics.score(states, actions, horizon=10, num_starts=30, num_particles=60)
        assert 0.7 < scores.coverage.mean() < 0.99
        assert (scores.rmse < 0.5 * scores.persistence_rmse).all()
        assert (scores.energy < 0.5 * scores.persistence_energy).all()
        assert (scores.log_density > scores.persistence_log_density).all()
        assert scores.frame().shape == (10, 7)

    def test_a_horizon_beyond_all_trajectories_is_refused(self, dynamics):
        with pytest.raises(DataError, match="horizon=40, or less"):
            dynamics.score(*pendulum(5), horizon=41)


class TestFiles:
    def test_a_file_gives_the_same_rollout(self, dynamics, tmp_path):
        dynamics.save(tmp_path / "arm.mogul")
        again = Dynamics.load(tmp_path / "arm.mogul")
        assert again.space == dynamics.space == StateSpace(["state0", "state1"], ["action0"], ("state0",), STEP)
        rolled = [each.rollout([0.1, 0.2], np.ones((4, 1))).particles for each in (dynamics, again)]
        assert (rolled[0] == rolled[1]).all()
        assert mogul.load(tmp_path / "arm.mogul").output_names == ["state0", "state1"]

    def test_another_model_is_refused(self, tmp_path):
        mogul.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], check=False).save(tmp_path / "other.mogul")
        with pytest.raises(FileError, match="must hold dynamics"):
            Dynamics.load(tmp_path / "other.mogul")
