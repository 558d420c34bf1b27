"""Moment matching: the state is taken to be Normal after each step, with the moments of what the model says.

Expectations over the state, the latent GPs and the hidden units are sums over fixed nodes: Sobol points as Normals,
each beside its opposite, and whitened, so that mean and covariance of the nodes are exact.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.quasirandom import SobolEngine

from mogul.core.moments import Marginals
from mogul.dynamics.trajectories import StateSpace
from mogul.errors import ConfigError
from mogul.fitted.functions import DrawnModel, FunctionDraws
from mogul.heads import NormalLaw

# Added to a covariance before its root, relative to its mean variance.
_JITTER = 1e-10


def normal_nodes(num_nodes: int, size: int, seed: int = 0) -> Float[Tensor, "K E"]:
    """Nodes with mean 0 and unit covariance.

    >>> nodes = normal_nodes(64, 3)
    >>> bool((nodes.T @ nodes / 64 - torch.eye(3)).abs().max() < 1e-12)
    True
    """
    if num_nodes < 4 * size:
        raise ConfigError(
            f"num_particles must be at least {4 * size} for method='moments' here, four for each random number of a "
            f"step; got {num_nodes}. Try {2 ** int(np.ceil(np.log2(8 * size)))}."
        )
    half = (num_nodes + 1) // 2
    level = SobolEngine(size, scramble=True, seed=seed).draw(half, dtype=torch.float64)  # type: ignore[no-untyped-call]  # torch's own
    quantile = torch.special.ndtri(level.clamp(1e-9, 1 - 1e-9))
    nodes = torch.cat([quantile, -quantile])
    root = torch.linalg.cholesky(nodes.T @ nodes / len(nodes))
    whitened: Tensor = torch.linalg.solve_triangular(root, nodes.T, upper=False).T
    return whitened


def roll_moments(
    space: StateSpace,
    draws: FunctionDraws,
    state: Float[Tensor, "B D"],
    actions: Float[Tensor, "B T A"],
    generator: torch.Generator,
    *,
    num_nodes: int,
    noise: bool,
) -> tuple[Float[Tensor, "B U D"], Float[Tensor, "B U D D"]]:
    """Mean and covariance of the state after each action."""
    size = state.shape[-1]
    extra = max(_num_random(member) for member in draws.members)
    nodes = normal_nodes(num_nodes, size + extra)
    of_state, of_model = nodes[:, :size], nodes[:, size:]
    mean, cov = state, state.new_zeros(*state.shape, size)
    means, covs = [mean], [cov]
    for action in actions.unbind(1):
        points = mean.unsqueeze(1) + of_state @ _root(cov).mT  # (B, K, D)
        inputs = space.inputs(points, action.unsqueeze(1).expand(-1, len(nodes), -1))
        steps = [_step(member, inputs, of_model, generator, noise=noise) for member in draws.members]
        after = torch.cat([points + change for change, _ in steps], 1)
        mean = after.mean(1)
        gap = after - mean.unsqueeze(1)
        cov = gap.mT @ gap / gap.shape[1] + torch.stack([own for _, own in steps]).mean(0)
        means.append(mean)
        covs.append(cov)
    return torch.stack(means, 1), torch.stack(covs, 1)


def _num_random(member: DrawnModel) -> int:
    return int(member.model.prior.num_latents + member.model.head.features.num_random)


def _step(
    member: DrawnModel, inputs: Float[Tensor, "B K E"], nodes: Tensor, generator: torch.Generator, *, noise: bool
) -> tuple[Float[Tensor, "B K D"], Float[Tensor, "B D D"]]:
    """The change at each node, and the covariance around it, averaged over nodes."""
    model, rows = member.model, member.standardised(inputs).flatten(0, 1)
    numbers = nodes.to(rows).expand(len(inputs), -1, -1).flatten(0, 1)
    num_latents, num_random = model.prior.num_latents, model.head.features.num_random
    q: Marginals = model.prior(rows, 1, generator)
    inner_drawn = q.mean.dim() > 2  # those of a deep model
    f = q.sample(1, generator)[0] if inner_drawn else q.mean + q.var.sqrt() * numbers[:, :num_latents]
    h = model.head.features.given(f, numbers[:, num_latents : num_latents + num_random])
    signal = model.mean.restore(model.head.mixing.given(h, rows, generator), rows)
    around = torch.diag_embed(signal.var)
    if noise:
        around = around + _noise_cov(member, rows, generator)
    shape = inputs.shape[:2]
    change = member.stretched(member.in_units(signal.mean).reshape(*shape, -1), rows)
    unit = torch.diag(member.output_scale)
    unit = unit if member.chain is None else member.chain @ unit
    unit = unit if member.stretch is None else torch.diag(member.stretch) @ unit
    return change, unit @ around.double().reshape(*shape, *around.shape[1:]).mean(1) @ unit.T


def _noise_cov(member: DrawnModel, rows: Float[Tensor, "N E"], generator: torch.Generator) -> Float[Tensor, "N P P"]:
    """In the model's units: diag(n) and E √n √nᵀ ∘ U Uᵀ off the diagonal."""
    head = member.model.head
    law, loadings = head.noise.forward(rows, generator).factored()
    loadings = loadings if head.correlation is None else head.correlation.loadings
    scale = member.model.mean.scale
    var = (scale.square() * law.pooled_var()).expand(len(rows), -1)
    cov = torch.diag_embed(var)
    if loadings is None:
        return cov
    std = scale * (law.mean_std() if isinstance(law, NormalLaw) else law.pooled_var().sqrt()).expand(len(rows), -1)
    shared = loadings @ loadings.T
    return cov + std.unsqueeze(-1) * std.unsqueeze(-2) * (shared - torch.diag(shared.diagonal()))


def _root(cov: Float[Tensor, "B D D"]) -> Float[Tensor, "B D D"]:
    """Of a covariance that may be zero, as it is at the start."""
    unit = cov.diagonal(dim1=-2, dim2=-1).mean(-1)
    if not bool((unit > 0).all()):
        return torch.zeros_like(cov)
    jitter = _JITTER * unit[:, None, None] * torch.eye(cov.shape[-1]).to(cov)
    root: Tensor = torch.linalg.cholesky(cov + jitter)
    return root
