"""Two objectives at once: Bayesian optimisation by BoTorch with a model of mogul's, against random search.

python examples/bayesian_optimisation.py          needs pip install "mogul[botorch]"
"""

import numpy as np
import torch
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.optim import optimize_acqf
from botorch.test_functions.multi_objective import BraninCurrin
from botorch.utils.multi_objective.box_decompositions.dominated import DominatedPartitioning

import mogul


def main(num_start: int = 8, num_rounds: int = 10, maxiter: int = 100) -> tuple[float, float]:
    """Hypervolume of what was found in two points a round, and of as many random points."""
    problem = BraninCurrin(negate=True).double()  # BoTorch maximises
    bounds = problem.bounds.double()
    rng = np.random.default_rng(0)
    torch.manual_seed(0)  # BoTorch draws from torch's own generator
    X = torch.as_tensor(rng.random((num_start, 2)))
    Y = problem(X)
    for number in range(num_rounds):
        # A dozen values of a function without noise do not say how noise varies.
        regressor = mogul.MultiOutputGPRegressor("mogp", num_latents=2, noise="constant")
        surrogate = regressor.fit(X, Y).to_botorch()
        acquisition = qLogNoisyExpectedHypervolumeImprovement(surrogate, problem.ref_point.tolist(), X_baseline=X)
        new, _ = optimize_acqf(
            acquisition, bounds, q=2, num_restarts=4, raw_samples=64, sequential=True, options={"maxiter": maxiter}
        )
        X, Y = torch.cat([X, new]), torch.cat([Y, problem(new)])
        print(f"round {number + 1}: hypervolume {hypervolume(problem, Y):.2f}")
    random = problem(torch.as_tensor(rng.random((len(X), 2))))
    print(f"as many random points: hypervolume {hypervolume(problem, random):.2f}")
    return hypervolume(problem, Y), hypervolume(problem, random)


def hypervolume(problem: BraninCurrin, Y: torch.Tensor) -> float:
    """The area that the best points dominate, above the problem's reference point."""
    return float(DominatedPartitioning(ref_point=problem.ref_point, Y=Y).compute_hypervolume())


if __name__ == "__main__":
    main()
