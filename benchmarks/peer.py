"""The peer: GPyTorch's linear model of coregionalisation (LMC) at our sizes, at its best.

At its best means, beside its defaults: our inducing points and lengthscales to start from, a fused Adam, no noise
floor, the chunk of rows that it predicts fastest with, noise added by hand where its likelihood is slower.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gpytorch
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.variational import CholeskyVariationalDistribution, LMCVariationalStrategy, VariationalStrategy
from jaxtyping import Float
from torch import Tensor

from benchmarks.problem import Sizes, first_batch, inducing_points, random_rows

# The defaults, 1e-4 on the noise and 1e-4 (float32) on each output's variance, cap the LL near 23 on Kuka.
NOISE_FLOOR, OUTPUT_JITTER, INDUCING_JITTER = 1e-8, 1e-8, 1e-6
CHUNKS = (250, 500, 1000, 2000, 5000)


class PeerLMC(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # GPyTorch has no types
    """L sparse GPs with ARD RBF kernels, mixed by a matrix, with independent noise; inducing points are shared."""

    def __init__(
        self, points: Float[Tensor, "M D"], num_outputs: int, num_latents: int, generator: torch.Generator
    ) -> None:
        latents = torch.Size([num_latents])
        distribution = CholeskyVariationalDistribution(points.shape[0], batch_shape=latents)
        base = VariationalStrategy(
            self, points.clone(), distribution, learn_inducing_locations=True, jitter_val=INDUCING_JITTER
        )
        strategy = LMCVariationalStrategy(
            base, num_tasks=num_outputs, num_latents=num_latents, latent_dim=-1, jitter_val=OUTPUT_JITTER
        )
        super().__init__(strategy)
        num_inputs = points.shape[1]
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=num_inputs, batch_shape=latents)
        kernel.lengthscale = float(num_inputs) ** 0.5
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=latents)
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=latents)
        self.covar_module.outputscale = 1.0
        self.likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(
            num_outputs, rank=0, has_global_noise=False, noise_constraint=GreaterThan(NOISE_FLOOR)
        )
        with torch.no_grad():
            mixing = strategy.lmc_coefficients
            mixing.copy_(torch.randn(mixing.shape, generator=generator) / num_latents**0.5)
        self.to(points.dtype)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        """The prior of the latent GPs."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    @property
    def noise_var(self) -> Float[Tensor, "P"]:
        """The noise variance of each output."""
        var: Tensor = self.likelihood.task_noises
        return var


@contextmanager
def peer_settings(factorise_in: torch.dtype = torch.float64) -> Iterator[None]:
    """GPyTorch factorises in float64 by default, which is safe, or as told, which may be faster; it tries harder."""
    with gpytorch.settings.linalg_dtypes(default=factorise_in), gpytorch.settings.cholesky_max_tries(6):
        yield


def build_peer(
    x: Float[Tensor, "N D"], num_outputs: int, num_latents: int, num_inducing: int, seed: int = 0
) -> PeerLMC:
    """The peer at a start like ours."""
    points = inducing_points(x, num_inducing, seed)
    return PeerLMC(points, num_outputs, num_latents, torch.Generator().manual_seed(seed))


def peer_trainer(
    peer: PeerLMC, num_data: int, learning_rate: float, factorise_in: torch.dtype = torch.float64
) -> Callable[[Tensor, Tensor], None]:
    """One step of Adam on the ELBO, for a batch of inputs and outputs."""
    elbo = gpytorch.mlls.VariationalELBO(peer.likelihood, peer, num_data=num_data)
    optimiser = torch.optim.Adam(peer.parameters(), lr=learning_rate, fused=True)
    peer.train()

    def step(x: Tensor, y: Tensor) -> None:
        with peer_settings(factorise_in):
            optimiser.zero_grad()
            loss = -elbo(peer(x), y)
            loss.backward()
            optimiser.step()

    return step


def peer_step(sizes: Sizes, factorise_in: torch.dtype = torch.float64) -> Callable[[], None]:
    """One training step on a fixed batch, the one that our step is timed on."""
    data = random_rows(sizes)
    batch = first_batch(data, sizes)
    peer = build_peer(data.x, sizes.num_outputs, sizes.num_latents, sizes.num_inducing)
    step = peer_trainer(peer, len(data), learning_rate=1e-3, factorise_in=factorise_in)
    return lambda: step(batch.x, batch.y)


@torch.no_grad()
def peer_mean_std(
    peer: PeerLMC, x: Float[Tensor, "N D"], chunk: int
) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
    """Mean and standard deviation of the outputs, noise included."""
    peer.eval()  # and so it keeps its Cholesky factor from chunk to chunk
    parts = [_mean_std(peer, rows) for rows in x.split(chunk)]  # type: ignore[no-untyped-call]  # torch's own
    means, stds = zip(*parts, strict=True)
    return torch.cat(means), torch.cat(stds)


@torch.no_grad()
def peer_latent_moments(
    peer: PeerLMC, x: Float[Tensor, "N D"], chunk: int = 1000
) -> tuple[Float[Tensor, "N L"], Float[Tensor, "N L"]]:
    """Mean and variance of the latent GPs: what draws of the outputs start from."""
    peer.eval()
    base, means, variances = peer.variational_strategy.base_variational_strategy, [], []
    with peer_settings():
        for rows in x.split(chunk):  # type: ignore[no-untyped-call]  # torch's own
            marginals = base(rows)
            means.append(marginals.mean.T)
            variances.append(marginals.variance.T)
    return torch.cat(means), torch.cat(variances)


def peer_one_row(peer: PeerLMC, x: Float[Tensor, "1 D"]) -> Callable[[], object]:
    """Mean and standard deviation of one row, with everything warm that GPyTorch can keep warm."""
    peer.eval()

    def predict() -> object:
        # For one row, tracing mode is a third faster than lazy operators; for many it would build their covariance.
        with torch.no_grad(), gpytorch.settings.trace_mode():
            return _mean_std(peer, x)

    return predict


def fastest_chunk(peer: PeerLMC, x: Float[Tensor, "N D"], chunks: tuple[int, ...] = CHUNKS) -> int:
    """The number of rows at once with which the peer predicts these rows fastest."""

    def seconds(chunk: int) -> float:
        peer_mean_std(peer, x[:chunk], chunk)
        began = time.perf_counter()
        peer_mean_std(peer, x, chunk)
        return time.perf_counter() - began

    return min(chunks, key=seconds)


def _mean_std(peer: PeerLMC, x: Float[Tensor, "B D"]) -> tuple[Float[Tensor, "B P"], Float[Tensor, "B P"]]:
    # fast_pred_var speeds up exact GPs; a variational strategy is none the worse for it.
    with peer_settings(x.dtype), gpytorch.settings.fast_pred_var():
        marginals = peer(x)
        # The likelihood would add the noise as one more lazy operator; the sum of two diagonals is faster.
        return marginals.mean, (marginals.variance + peer.noise_var).sqrt()
