"""Baselines trained by gradient steps on the residual of a least-squares plane: nets, and sparse GPs by GPyTorch."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import gpytorch
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from jaxtyping import Float
from torch import Tensor

from mogul._typing import Array
from mogul.core.moments import Marginals
from mogul.core.nets import TanhNet
from mogul.data import Batch, Dataset, Scaling
from mogul.means.linear import LinearOutputMean
from mogul.prediction import Prediction
from mogul.priors import kmeans


def mixture(component_mean: Float[Array, "S N P"], component_var: Float[Array, "S N P"]) -> Prediction:
    """Normals with equal weights, and the moments of their mixture."""
    var = component_var.mean(0) + component_mean.var(0)
    return Prediction(component_mean.mean(0), var, component_mean, component_var)


@dataclass(frozen=True)
class ResidualProblem:
    """Rows whose outputs are residuals of unit size: without the plane, noise of 1e-3 drowns in a net's first outputs.

    The plane is that of the models "+ linear": what is compared with them starts where they start.
    """

    scaling: Scaling
    plane: LinearOutputMean
    rows: Batch

    @staticmethod
    def of(train: Dataset) -> "ResidualProblem":
        """Fit scaling and plane in double precision; the rows left are in single."""
        scaling = Scaling.of(train)
        x, y = scaling.inputs.apply(train.x), scaling.outputs.apply(train.y)
        plane = LinearOutputMean.fit(x, y)
        inputs = torch.as_tensor(x)
        residual = plane.residual(torch.as_tensor(y), inputs)
        return ResidualProblem(scaling, plane, Batch.of(inputs.float(), residual.float()))

    def inputs(self, test: Dataset) -> Float[Tensor, "N D"]:
        """The test inputs, standardised."""
        return torch.as_tensor(self.scaling.inputs.apply(test.x)).float()

    def restore(self, components: Marginals, test: Dataset) -> Prediction:
        """From S Normals on residuals at the test rows to a mixture in original units."""
        x = torch.as_tensor(self.scaling.inputs.apply(test.x))
        outputs = self.plane.restore(Marginals(components.mean.double(), components.var.double()), x)
        return mixture(outputs.mean.numpy(), outputs.var.numpy()).rescaled(self.scaling.outputs)


# In units of the plane's residual: a net that meets an output that never moves must not believe in no noise at all.
SMALLEST_LOG_VAR, LARGEST_LOG_VAR = -12.0, 6.0
NET_FLOOR = math.exp(SMALLEST_LOG_VAR / 2)


@dataclass(frozen=True)
class NetConfig:
    """How each net of the ensemble is made and trained."""

    num_nets: int = 5
    hidden: tuple[int, ...] = (64, 64)
    num_steps: int = 4000
    batch_size: int = 256
    learning_rate: float = 5e-3
    held_out: float = 0.1
    check_every: int = 50
    patience: int = 12


Head = Callable[[Float[Tensor, "N K"]], Marginals]


def predict_nets(train: Dataset, test: Dataset, seed: int, config: NetConfig | None = None) -> Prediction:
    """Nets trained by squared error on the residual of a plane; the noise is that of validation rows."""
    return _predict(train, test, seed, config or NetConfig(), noise_by_net=False)


def predict_noise_nets(train: Dataset, test: Dataset, seed: int, config: NetConfig | None = None) -> Prediction:
    """The same nets with a second output for the log variance, trained by the Normal log likelihood."""
    return _predict(train, test, seed, config or NetConfig(), noise_by_net=True)


def _predict(train: Dataset, test: Dataset, seed: int, config: NetConfig, noise_by_net: bool) -> Prediction:
    problem = ResidualProblem.of(train)
    x = problem.inputs(test)
    generator = torch.Generator().manual_seed(seed)
    components = [_components(problem.rows, x, config, noise_by_net, generator) for _ in range(config.num_nets)]
    means, variances = zip(*((each.mean, each.var) for each in components), strict=True)
    return problem.restore(Marginals(torch.stack(means), torch.stack(variances)), test)


def _components(
    rows: Batch, x: Float[Tensor, "N D"], config: NetConfig, noise_by_net: bool, generator: torch.Generator
) -> Marginals:
    """The prediction of one net at x."""
    order = torch.randperm(len(rows), generator=generator)
    num_held_out = max(1, round(config.held_out * len(rows)))
    watched = rows.rows(order[:num_held_out])
    trained = rows.rows(order[num_held_out:]) if num_held_out < len(rows) else watched
    num_outputs = rows.y.shape[1]
    net = TanhNet(x.shape[1], num_outputs * (1 + noise_by_net), generator, hidden=config.hidden, output_scale=0.1)
    head: Head = _split if noise_by_net else _unit_noise
    _train_net(net, head, trained, watched, config, generator)
    with torch.no_grad():
        said = head(net(x))
        if noise_by_net:
            return said
        noise = torch.maximum(*(_mean_square(head(net(part.x)).mean, part) for part in (watched, trained)))
        return Marginals(said.mean, noise.expand_as(said.mean))


def _train_net(
    net: TanhNet, head: Head, trained: Batch, watched: Batch, config: NetConfig, generator: torch.Generator
) -> None:
    """Adam with a cosine rate and early stopping on validation rows; the best net is kept."""
    optimiser = torch.optim.Adam(net.parameters(), lr=config.learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.num_steps)
    best, best_loss, last_gain = copy.deepcopy(net.state_dict()), math.inf, 0
    for step in range(config.num_steps):
        batch = trained.rows(torch.randint(len(trained), (min(config.batch_size, len(trained)),), generator=generator))
        optimiser.zero_grad()
        _loss(head(net(batch.x)), batch).backward()  # type: ignore[no-untyped-call]  # torch's own
        optimiser.step()
        schedule.step()
        if (step + 1) % config.check_every == 0:
            with torch.no_grad():
                loss = float(_loss(head(net(watched.x)), watched))
            if loss < best_loss:
                best, best_loss, last_gain = copy.deepcopy(net.state_dict()), loss, step
            elif step - last_gain >= config.patience * config.check_every:
                break
    net.load_state_dict(best)


def _unit_noise(raw: Float[Tensor, "N P"]) -> Marginals:
    """Noise of unit variance: the Normal log likelihood is then the squared error."""
    return Marginals(raw, torch.ones_like(raw))


def _split(raw: Float[Tensor, "N K"]) -> Marginals:
    """The first half are means, the second log variances."""
    mean, log_var = raw.chunk(2, dim=-1)
    return Marginals(mean, log_var.clamp(SMALLEST_LOG_VAR, LARGEST_LOG_VAR).exp())


def _loss(said: Marginals, batch: Batch) -> Float[Tensor, ""]:
    """−log N(y | mean, var) per observed value, up to a constant."""
    each = 0.5 * (said.var.log() + (batch.y - said.mean).square() / said.var)
    return (each * batch.observed).sum() / batch.observed.sum().clamp(min=1)


def _mean_square(mean: Float[Tensor, "N P"], batch: Batch) -> Float[Tensor, "P"]:
    squares = (batch.y - mean).square() * batch.observed
    smallest = math.exp(SMALLEST_LOG_VAR)
    return (squares.sum(0) / batch.observed.sum(0).clamp(min=1)).clamp(min=smallest)


# A standard deviation. GPyTorch's default, 1e-2, would cap the likelihood of outputs that are known better than that.
GP_FLOOR = 1e-3
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
            batch_shape=outputs, noise_constraint=GreaterThan(GP_FLOOR**2)
        )

    def forward(self, x: Float[Tensor, "*P N D"]) -> gpytorch.distributions.MultivariateNormal:
        """The prior."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def predict_sparse_gps(train: Dataset, test: Dataset, seed: int, config: SparseGPConfig | None = None) -> Prediction:
    """Trained by minibatches on the residual of a plane; missing outputs are left out of the ELBO."""
    problem = ResidualProblem.of(train)
    with _generator_kept(seed):
        gps = _train_gps(problem.rows, config or SparseGPConfig(), torch.Generator().manual_seed(seed))
    gps.eval()
    with torch.no_grad():
        chunks = problem.inputs(test).split(_ROWS_AT_ONCE)  # type: ignore[no-untyped-call]  # torch's own
        parts = [gps.likelihood(gps(rows)) for rows in chunks]
        mean, var = (torch.cat([getattr(part, word).T for part in parts]) for word in ("mean", "variance"))
    return problem.restore(Marginals(mean[None], var[None]), test)


def _train_gps(rows: Batch, config: SparseGPConfig, generator: torch.Generator) -> SparseGPs:
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
    """Seed torch's global generator, which GPyTorch draws from, and restore it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
