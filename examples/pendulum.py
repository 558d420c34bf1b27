"""Swing a pendulum up from nothing: dynamics are learnt between episodes, and a sampling controller plans with them.

python examples/pendulum.py          needs pip install "mogul[robots]"
"""

import gymnasium
import numpy as np
from matplotlib import pyplot as plt

import mogul

TORQUE, KNOT = 2.0, 5  # the largest torque, and steps between two knots of a plan
OPTIONS = {"angles": [0], "noise": "constant", "kernel": "rbf", "groups": None, "check": False, "verbose": 0}


def reward(state, torque):
    """Gymnasium's: 0 upright and still."""
    angle = (state[..., 0] + np.pi) % (2 * np.pi) - np.pi
    return -(angle**2 + 0.1 * state[..., 1] ** 2 + 0.001 * torque**2)


def improved(plan, dynamics, state, rng):
    """The mean of smoothly changed plans, weighted by what their rollouts earn (MPPI): wide changes, then small."""
    times, knots = np.arange(len(plan)) / KNOT, np.arange(len(plan) // KNOT + 2)
    for scale in (TORQUE, 0.4 * TORQUE):
        changes = [np.interp(times, knots, each) for each in rng.normal(scale=scale, size=(128, len(knots)))]
        tries = np.clip(plan + np.vstack([np.zeros_like(plan), changes]), -TORQUE, TORQUE)
        ahead = dynamics.rollout(state, tries[..., None], num_particles=2, noise=False).particles[:, :, 1:]
        earned = reward(ahead, tries).sum(-1).mean(0)
        plan = np.average(tries, axis=0, weights=np.exp((earned - earned.max()) / max(1.0, 0.05 * earned.std())))
    return plan


def main(num_episodes=8, num_steps=200, horizon=25, num_inducing=100, seed=0):
    """The reward of each episode, the first by random torques: dynamics are fitted twice, and then updated."""
    env, rng = gymnasium.make("Pendulum-v1").unwrapped, np.random.default_rng(seed)
    rewards, states, actions, dynamics = [], [], [], None
    sizes = {"num_inducing": num_inducing, "time_step": env.dt, **OPTIONS}
    for episode in range(num_episodes):
        env.reset(seed=1000 * seed + episode)
        path, torques, plan = [env.state], [], np.zeros(horizon)
        for _ in range(num_steps):
            plan = improved(plan, dynamics, path[-1], rng) if dynamics else rng.uniform(-TORQUE, TORQUE, horizon)
            env.step(plan[:1])
            path, torques, plan = [*path, env.state], [*torques, plan[:1]], np.append(plan[1:], plan[-1])
        states, actions = [*states, np.array(path)], [*actions, np.array(torques)]
        rewards.append(reward(states[-1][:-1], actions[-1][:, 0]).sum())
        print(f"episode {episode + 1}: reward {rewards[-1]:.0f}")
        dynamics = dynamics.update(path, torques) if episode > 1 else mogul.Dynamics.fit(states, actions, **sizes)
    _, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(np.arange(1, num_episodes + 1), rewards, "o-")
    left.set_title("reward of each episode")
    mogul.plot.fan(dynamics.rollout(path[0], actions[-1][:horizon]), truth=path[: horizon + 1], ax=right)
    plt.savefig("pendulum.png")
    return rewards


if __name__ == "__main__":
    main()
