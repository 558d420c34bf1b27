"""Independent sparse GPs by GPyTorch, one for each output: what a user has without any sharing among outputs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import gpytorch
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from jaxtyping import Float
from torch import Tensor

from mogul.core.moments import Marginals
from mogul.data import Batch, Dataset
from mogul.lab.baselines.residual import ResidualProblem
from mogul.prediction import Prediction
from mogul.priors import kmeans

# A standard deviation. GPyTorch's default, 1e-2, would cap the likelihood of outputs that are known better than that.
NOISE_FLOOR = 1e-3
_ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class SparseGPConfig:
    """Sizes and steps of the GPs."""

    num_inducing: int = 100
    num_steps: int = 500
    batch_size: int = 500
    learning_rate: float = 0.04


class SparseGPs(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # GPyTorch has no types
    """A batch of P sparse GPs with ARD RBF kernels, each with inducing points and noise of its own."""

    def __init__(self, points: Float[Tensor, "M D"], num_outputs: int) -> None:
        outputs = torch.Size([num_outputs])
        distribution = CholeskyVariationalDistribution(len(points), batch_shape=outputs, mean_init_std=0.0)
        inducing = points.expand(num_outputs, -1, -1).clone()
        super().__init__(VariationalStrategy(self, inducing, distribution))
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=points.shape[1], batch_shape=outputs)
        kernel.lengthscale = float(points.shape[1]) ** 0.5
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=outputs)
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=outputs)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood(
            batch_shape=outputs, noise_constraint=GreaterThan(NOISE_FLOOR**2)
        )

    def forward(self, x: Float[Tensor, "*P N D"]) -> gpytorch.distributions.MultivariateNormal:
        """The prior."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def predict_sparse_gps(train: Dataset, test: Dataset, seed: int, config: SparseGPConfig | None = None) -> Prediction:
    """Trained by minibatches on the residual of a plane; missing outputs are left out of the ELBO."""
    problem = ResidualProblem.of(train)
    with _generator_kept(seed):
        gps = _train(problem.rows, config or SparseGPConfig(), torch.Generator().manual_seed(seed))
    gps.eval()
    with torch.no_grad():
        chunks = problem.inputs(test).split(_ROWS_AT_ONCE)  # type: ignore[no-untyped-call]  # torch's own
        parts = [gps.likelihood(gps(rows)) for rows in chunks]
        mean, var = (torch.cat([getattr(part, word).T for part in parts]) for word in ("mean", "variance"))
    return problem.restore(Marginals(mean[None], var[None]), test)


def _train(rows: Batch, config: SparseGPConfig, generator: torch.Generator) -> SparseGPs:
    gps = SparseGPs(kmeans(rows.x, config.num_inducing, generator), rows.y.shape[1])
    optimiser = torch.optim.Adam(gps.parameters(), lr=config.learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.num_steps)
    num_observed = rows.observed.sum(0).clamp(min=1)
    gps.train()
    for _ in range(config.num_steps):
        batch = rows.rows(torch.randint(len(rows), (min(config.batch_size, len(rows)),), generator=generator))
        optimiser.zero_grad()
        each = gps.likelihood.expected_log_prob(batch.y.T, gps(batch.x))  # (P, B)
        observed = batch.observed.T
        fit = (each * observed).sum(-1) / observed.sum(-1).clamp(min=1)
        kl = gps.variational_strategy.kl_divergence() / num_observed
        (kl - fit).sum().backward()
        optimiser.step()
        schedule.step()
    return gps


@contextmanager
def _generator_kept(seed: int) -> Iterator[None]:
    """GPyTorch draws from torch's global generator, which is left as it was found."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
