"""A kernel of one's own: GPyTorch's Matérn with a prior on its lengthscales, for functions with kinks.

python examples/matern_kernel.py
"""

import gpytorch
import numpy as np
import torch

import mogul


def main(num_rows: int = 200, epochs: int | None = None) -> dict[str, float]:
    """Mean log density of test rows, with the default kernel and with a Matérn 3/2."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2 * num_rows, 2))
    Y = np.stack([np.abs(X[:, 0]), np.abs(X[:, 0] - X[:, 1]), np.maximum(X[:, 1], 0)], axis=1)
    Y += 0.02 * rng.standard_normal(Y.shape)

    num_latents = 2
    batch = torch.Size([num_latents])  # a kernel for each latent GP
    matern = gpytorch.kernels.ScaleKernel(
        gpytorch.kernels.MaternKernel(
            nu=1.5,
            ard_num_dims=2,
            batch_shape=batch,
            lengthscale_prior=gpytorch.priors.GammaPrior(3.0, 2.0),  # of standardised inputs; counts in training
        ),
        batch_shape=batch,
    )
    found = {}
    for name, kernel in (("RBF, the default", None), ("Matérn 3/2", matern)):
        regressor = mogul.MultiOutputGPRegressor(
            "n-mogp", num_latents=num_latents, num_inducing=60, num_starts=1, epochs=epochs, options={"kernel": kernel}
        ).fit(X[:num_rows], Y[:num_rows])
        found[name] = float(regressor.log_density(X[num_rows:], Y[num_rows:]).mean())
        print(f"{name:18s} log density {found[name]:.2f} per row")
    return found


if __name__ == "__main__":
    main()
