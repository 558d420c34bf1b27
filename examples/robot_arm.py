"""Torques of a simulated seven-joint arm: a linear model and two GPs, tested on motions that none of them has seen.

python examples/robot_arm.py          needs pip install "mogul[robots]"
"""

import numpy as np
from sklearn.linear_model import LinearRegression

import mogul
from mogul.lab.datasets.simulated import SEGMENT, rhythmic_arm


def main(
    num_segments: int = 24, every: int = 6, epochs: int | None = None, num_inducing: int = 200
) -> dict[str, float]:
    """A sixth of the segments is for testing. Errors are in standard deviations of each torque."""
    data, segment = rhythmic_arm(num_segments * SEGMENT, seed=0)
    thinned = np.arange(0, len(segment), every)
    new = segment[thinned] > num_segments - num_segments // 6
    train, test = data.rows(thinned[~new]), data.rows(thinned[new])
    unit = train.y.std(axis=0)

    plane = LinearRegression().fit(train.x, train.y)
    errors = {"least squares": mogul.metrics.mrmse(plane.predict(test.x) / unit, test.y / unit)}
    for name, steps in (("mogp", None), ("n-sbgprn", epochs)):  # a mogp of few rows is solved, without epochs
        regressor = mogul.MultiOutputGPRegressor(name, num_inducing=num_inducing, epochs=steps)
        regressor.fit(train.x, train.y)
        mean, std = regressor.predict(test.x, return_std=True)
        errors[name] = mogul.metrics.mrmse(mean / unit, test.y / unit)
        inside = np.mean(np.abs(test.y - mean) < 1.28 * std)
        print(f"{name}: {inside:.0%} of the torques are within 1.28 standard deviations (80 % would be calibrated)")
    for name, error in errors.items():
        print(f"{name:14s} MRMSE {error:.3f}")
    return errors


if __name__ == "__main__":
    main()
