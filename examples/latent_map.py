"""Rows of twelve numbers that only two hidden coordinates decide: find the map, and fill in what new rows miss.

python examples/latent_map.py
"""

import numpy as np

import mogul


def main(num_rows: int = 150, inference_steps: int = 300) -> dict[str, float]:
    """RMSE on missing values: of the model, and of the training mean."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=2 * num_rows)
    angle = rng.uniform(-1, 1, 2 * num_rows) + 2.1 * kind
    hidden = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    Y = np.tanh(hidden @ rng.standard_normal((2, 12)) + rng.standard_normal(12))
    Y += 0.05 * rng.standard_normal(Y.shape)
    train, whole = Y[:num_rows], Y[num_rows:]

    gplvm = mogul.MultiOutputGPLVM(2, num_inducing=30, inference_steps=inference_steps).fit(train)
    missing = rng.random(whole.shape) < 0.5
    filled = gplvm.impute(np.where(missing, np.nan, whole))
    guesses = {"latent-variable model": filled, "mean of each column": np.tile(train.mean(0), (num_rows, 1))}
    errors = {name: float(np.sqrt(np.mean((guess - whole)[missing] ** 2))) for name, guess in guesses.items()}
    for name, error in errors.items():
        print(f"{name:22s} RMSE on missing values {error:.3f}")

    names = np.array(["red kind", "green kind", "blue kind"])
    ax = mogul.plot.latent_map(gplvm, labels=names[kind[:num_rows]])
    ax.figure.savefig("latent_map.png", dpi=150)
    print("Figure: latent_map.png")
    return errors


if __name__ == "__main__":
    main()
