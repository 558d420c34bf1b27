"""Six sensors hear the same sources; each is off for half of the time. What does it help to model them together?

python examples/missing_sensors.py
"""

import numpy as np

import mogul


def main(num_rows: int = 400, epochs: int | None = None) -> dict[str, float]:
    """RMSE on the values that were hidden, of one model for all sensors and of one model for each."""
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 8, (num_rows, 1)), axis=0)
    sources = np.hstack([np.sin(1.5 * time), np.sin(2.3 * time + 1)])
    whole = sources @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((num_rows, 6))
    # Off in long gaps, not here and there: neighbours in time cannot fill them.
    off = np.repeat(rng.random((num_rows // 20 + 1, 6)) < 0.5, 20, axis=0)[:num_rows]
    seen = np.where(off, np.nan, whole)

    # Without planes, which would be fitted on different rows for each sensor.
    settings = {"mean": "paper", "num_inducing": 40}
    shared = mogul.MultiOutputGPRegressor("mogp", num_latents=2, epochs=epochs, batch_size=50, **settings)
    together = shared.fit(time, seen).predict(time)
    alone = np.empty_like(whole)
    for sensor in range(6):
        known = ~off[:, sensor]
        one = mogul.MultiOutputGPRegressor("mogp", num_latents=1, **settings).fit(time[known], seen[known, sensor])
        alone[:, sensor] = one.predict(time)

    guesses = {"one model for all": together, "one for each": alone}
    errors = {name: float(np.sqrt(np.mean((guess - whole)[off] ** 2))) for name, guess in guesses.items()}
    for name, error in errors.items():
        print(f"{name:18s} RMSE on hidden values {error:.3f}   (the noise alone: 0.100)")
    return errors


if __name__ == "__main__":
    main()
