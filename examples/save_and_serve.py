"""Train once, keep the model in one file, and use it in a control loop: mean, uncertainty and slopes, quickly.

python examples/save_and_serve.py
"""

import time

import numpy as np
import pandas as pd

import mogul


def main(num_rows: int = 500, num_calls: int = 200) -> float:
    """The largest difference between slopes of the loaded model and finite differences of its mean."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (num_rows, 2)), columns=["angle", "speed"])
    Y = pd.DataFrame({"torque": np.sin(3 * X["angle"]) + 0.3 * X["speed"], "power": X["angle"] * X["speed"]})
    mogul.MultiOutputGPRegressor(num_inducing=50).fit(X, Y).save("arm.mogul")

    regressor = mogul.MultiOutputGPRegressor.load("arm.mogul")  # no pickle: a file cannot run code
    print(regressor.predict(X.head(2)))  # names and index come back
    predictor = regressor.predictor()  # frozen, for loops and threads
    row = np.array([[0.2, -0.1]])
    started = time.perf_counter()
    for _ in range(num_calls):
        predictor.mean_std(row)
    print(f"mean and standard deviation of one row: {1e3 * (time.perf_counter() - started) / num_calls:.2f} ms")

    slopes = predictor.jacobian(row)[0]
    step = 1e-4 * np.eye(2)
    differences = (predictor.mean(row + step) - predictor.mean(row - step)).T / 2e-4
    print("∂(torque, power)/∂(angle, speed):", slopes.round(3).tolist())
    return float(np.abs(slopes - differences).max())


if __name__ == "__main__":
    main()
