"""Fit, predict with uncertainty, score, draw: the whole of mogul in one page.

python examples/quickstart.py
"""

import numpy as np

import mogul


def main(num_rows: int = 300, epochs: int | None = None) -> mogul.metrics.Scores:
    """Three outputs of two inputs, one of them missing in every seventh row."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (num_rows, 2))
    Y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 1]), np.sin(X[:, 0]) * X[:, 1]], axis=1)
    Y += 0.05 * rng.standard_normal(Y.shape)
    Y[::7, 1] = np.nan
    train, test = mogul.Dataset(X, Y).split(test_share=0.2, seed=0)

    regressor = mogul.MultiOutputGPRegressor("n-mogp", num_inducing=50, epochs=epochs).fit(train.x, train.y)
    mean, std = regressor.predict(test.x, return_std=True)
    low, high = regressor.predict_quantiles(test.x, [0.1, 0.9])
    print("first test row: ", test.y[0].round(2))
    print("predicted mean: ", mean[0].round(2), "±", std[0].round(2))
    print("10–90 % interval:", low[0].round(2), "to", high[0].round(2))

    scores = regressor.fitted_.evaluate(test)
    print(f"log likelihood {scores.ll:.2f}, MRMSE {scores.mrmse:.3f}, 80 % intervals hold {scores.coverage[0.8]:.0%}")
    ax = mogul.plot.slice_through(regressor, along=0, output=2, at=[0.0, 2.0], X=train.x)
    ax.figure.savefig("quickstart.png", dpi=150)
    print("Figure: quickstart.png")
    return scores


if __name__ == "__main__":
    main()
