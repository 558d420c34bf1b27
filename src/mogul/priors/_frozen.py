"""Sparse GPs for prediction only: everything that depends on parameters alone is computed once."""

import itertools
from copy import deepcopy
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mogul.core.moments import Marginals, standard_normal
from mogul.core.radial import RADIALS
from mogul.priors._fused import blocks
from mogul.priors.deep import DeepGPs
from mogul.priors.kernels import DeepKernel, ScaledRadial, ScaledRBF
from mogul.priors.solvers import Solver
from mogul.priors.sparse import IndependentGPs

# Matrix products are far slower unless the number of columns is a multiple of this.
_COLUMNS = 16


@dataclass(frozen=True)
class CommonDraws(Marginals):
    """Marginals whose draws use the same noise at all points, one number per draw and GP.

    At a single point these are ordinary draws; over points they are smooth functions, the same at each call.
    """

    noise: Float[Tensor, "S 1 K"]

    def sample(self, num_samples: int, generator: torch.Generator) -> Float[Tensor, "S N K"]:
        """One draw for each row of the noise; the arguments are ignored."""
        return self.mean + self.var.sqrt() * self.noise


@runtime_checkable
class FrozenKernel(Protocol):
    """A kernel with one argument fixed to the inducing points; K kernels, or one shared by all GPs."""

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K N M"]:
        """K_xz."""
        ...

    def variance(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K _"]:
        """k(x, x) at each point, or one number if it is constant."""
        ...


class FrozenRBF(nn.Module):
    """s exp(−½ ‖(x − z)/ℓ‖²) for fixed z, s and ℓ: 2 to the power of one matrix product with (x, x²).

    `torch.exp2` of 2,800 numbers took 3 µs; `torch.exp` took 9 (two threads) or 4 (one).

    Example:
        >>> from mogul.priors.kernels import rbf
        >>> FrozenRBF(rbf(3, 2), torch.randn(5, 3))(torch.zeros(4, 3)).shape
        torch.Size([2, 4, 5])
    """

    center: Tensor
    slopes: Tensor
    offsets: Tensor
    scale: Tensor

    def __init__(self, kernel: ScaledRBF, points: Float[Tensor, "*K M D"]) -> None:
        super().__init__()
        num_inputs = points.shape[-1]
        # Centring does not change distances, and avoids cancellation for large coordinates.
        center = points.reshape(-1, num_inputs).mean(0)
        bits = torch.tensor(2.0).to(points).log().reciprocal()
        weights = bits * kernel.base_kernel.lengthscale.detach().pow(-2)
        scale = kernel.outputscale.detach()
        near = points - center
        linear = weights * near
        offsets = bits * scale.log().unsqueeze(-1) - 0.5 * (linear * near).sum(-1)
        slopes = torch.cat([linear, (-0.5 * weights).expand_as(linear)], dim=-1)
        self.shape = len(offsets) if offsets.dim() == 2 else 1, offsets.shape[-1]
        self.register_buffer("center", center)
        self.register_buffer("slopes", slopes.reshape(-1, 2 * num_inputs).T.contiguous())
        self.register_buffer("offsets", offsets.reshape(-1))
        self.register_buffer("scale", scale.reshape(-1, 1))

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K N M"]:
        """One product for all kernels and points."""
        near = x - self.center
        exponent = torch.addmm(self.offsets, torch.cat([near, near.square()], dim=-1), self.slopes)
        return exponent.exp2_().view(x.shape[0], *self.shape).transpose(0, 1)

    def variance(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K 1"]:
        """s."""
        return self.scale


class FrozenRadial(nn.Module):
    """s k(‖(x − z)/ℓ‖²) for fixed z, s and ℓ: a radial function of one matrix product with (x, x²).

    Example:
        >>> from mogul.priors.kernels import matern32
        >>> FrozenRadial(matern32(3, 2), torch.randn(5, 3))(torch.zeros(4, 3)).shape
        torch.Size([2, 4, 5])
    """

    center: Tensor
    slopes: Tensor
    offsets: Tensor
    scale: Tensor
    exponent: Tensor | None

    def __init__(self, kernel: ScaledRadial, points: Float[Tensor, "*K M D"]) -> None:
        super().__init__()
        num_inputs = points.shape[-1]
        center = points.reshape(-1, num_inputs).mean(0)
        weights = kernel.base_kernel.lengthscale.detach().pow(-2)
        near = points - center
        linear = weights * near
        offsets = (linear * near).sum(-1)
        slopes = torch.cat([-2 * linear, weights.expand_as(linear)], dim=-1)
        self.family = kernel.family
        self.shape = len(offsets) if offsets.dim() == 2 else 1, offsets.shape[-1]
        self.register_buffer("center", center)
        self.register_buffer("slopes", slopes.reshape(-1, 2 * num_inputs).T.contiguous())
        self.register_buffer("offsets", offsets.reshape(-1))
        self.register_buffer("scale", kernel.outputscale.detach().reshape(-1, 1))
        self.register_buffer("exponent", None if kernel.shape is None else kernel.shape.detach().reshape(-1, 1, 1))

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K N M"]:
        """One product for all kernels and points."""
        near = x - self.center
        square = torch.addmm(self.offsets, torch.cat([near, near.square()], dim=-1), self.slopes).clamp_(min=0)
        square = square.view(x.shape[0], *self.shape).transpose(0, 1)
        value: Tensor = RADIALS[self.family].value(square, self.exponent)
        return value * self.scale.unsqueeze(-1)

    def variance(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K 1"]:
        """s."""
        return self.scale


class FrozenWarp(nn.Module):
    """A deep kernel, with the inducing points warped once."""

    def __init__(self, kernel: DeepKernel, points: Float[Tensor, "*K M D"]) -> None:
        super().__init__()
        self.net = deepcopy(kernel.net)
        self.kernel = freeze_kernel(kernel.kernel, kernel.warp(points).detach())

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K N M"]:
        """The inner kernel at warped inputs."""
        return self.kernel.forward(self._warp(x))

    def variance(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K _"]:
        """The inner kernel's."""
        return self.kernel.variance(self._warp(x))

    def _warp(self, x: Tensor) -> Tensor:
        warped: Tensor = x * (1 + self.net(x))
        return warped


class _Traceable(TorchFunctionMode):
    """For GPyTorch's kernels, which choose by values and by the number of rows: no program holds such a choice.

    Tensors are equal only if they are the same object, and in an exported program distances are norms of differences.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.equal:
            return args[0] is args[1]
        if func is torch.cdist and torch.compiler.is_exporting():
            return torch.linalg.vector_norm(args[0].unsqueeze(-2) - args[1].unsqueeze(-3), dim=-1)
        return func(*args, **(kwargs or {}))


class FrozenAny(nn.Module):
    """Any GPyTorch kernel, evaluated by GPyTorch."""

    points: Tensor

    def __init__(self, kernel: Kernel, points: Float[Tensor, "*K M D"]) -> None:
        super().__init__()
        self.kernel = deepcopy(kernel)
        self.register_buffer("points", points.clone())

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K N M"]:
        """K_xz, made dense."""
        with _Traceable():
            cross: Tensor = self.kernel(self.points, x).to_dense()
        return cross.mT.reshape(-1, *cross.mT.shape[-2:])

    def variance(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K N"]:
        """k(x, x)."""
        # Without the extra axis, GPyTorch mistakes L variances at N = L points for a matrix and keeps its diagonal.
        with _Traceable():
            value: Tensor = self.kernel(x.unsqueeze(0), diag=True)
        return value.reshape(-1, x.shape[0])


def freeze_kernel(kernel: Kernel, points: Float[Tensor, "*K M D"]) -> FrozenKernel:
    """The kernel between these points and others, by the fastest implementation for its type."""
    if kernel.active_dims is None and isinstance(kernel, ScaledRBF):
        return FrozenRBF(kernel, points)
    if kernel.active_dims is None and isinstance(kernel, ScaledRadial):
        return FrozenRadial(kernel, points)
    if kernel.active_dims is None and isinstance(kernel, DeepKernel):
        return FrozenWarp(kernel, points)
    return FrozenAny(kernel, points)


class FrozenGPs(nn.Module):
    """Frozen `IndependentGPs`: mean α·k and variance k_xx − ‖R₊k‖² + ‖R₋k‖², with k = K_zx.

    From q(v) = N(m, S Sᵀ) and the decomposition I − S Sᵀ = U diag(d) Uᵀ:

        α = K_zz^{-1/2 ᵀ} m          R = |d|^{1/2} Uᵀ K_zz^{-1/2}

    R₊ has the rows with d > 0, where q has less variance than the prior; usually all of them. An orthogonal matrix from
    the left makes it lower triangular, with the same norms: in blocks, three eighths of it are neither multiplied nor
    read.
    It is more accurate than Q = K_zz^{-1/2 ᵀ}(I − S Sᵀ)K_zz^{-1/2}. In float32 against float64, the RMS error of the
    variance of seven GPs with k_xx = 1, M = 400 k-means points of 4,000 inputs of 21 dimensions, lengthscales around
    √21, q(v) the posterior given the data with a noise variance of 0.01:

        inputs spread over     21 dimensions      5 and a little of the rest
        kᵀQk                       1.2e-4              7.1e-3
        Σ A² − Σ (SᵀA)²            5.2e-7              1.3e-6         A = L⁻¹k
        ‖Rk‖²                      3.8e-7              6.9e-7

    The mean's error is 1.6e-5 and 1.8e-4 with α as below; α needs no R. A triangular R has 1.3 to 1.4 times the error
    of a full one in a similar setting.
    """

    weights: Tensor
    added: Tensor
    white_noise: Tensor | None
    noise: Tensor

    def __init__(self, gps: IndependentGPs, num_samples: int, generator: torch.Generator) -> None:
        super().__init__()
        exact = deepcopy(gps).double()
        points = exact.inducing_points.detach()
        with torch.no_grad():
            whitening = whitening_of(gps, exact)
            values, vectors = torch.linalg.eigh(_explained(exact.variational_root.tril()))
            rotated = (whitening.mT @ vectors) * values.abs().sqrt().unsqueeze(-2)
            weights = exact.variational_mean.unsqueeze(-2) @ whitening
            white_noise = exact.log_white_noise
            white = None if white_noise is None else white_noise.exp().unsqueeze(-1)
            self.kernel = freeze_kernel(exact.kernel, points)
        self.num_latents = gps.num_latents
        self.num_inducing = points.shape[-2]
        self.mean = exact.mean
        positive = (values > 0).unsqueeze(-2)
        num_negative = int((values < 0).sum(-1).max())  # eigenvalues ascend: negative ones come first
        # R₊ᵀ, upper triangular, and α beside its last columns: both need the whole of k.
        removed = _triangular(torch.where(positive, rotated, 0.0))
        both = torch.cat([removed.expand(len(weights), -1, -1), weights.mT], dim=-1)
        blocks_of_both = _column_blocks(both, self.num_inducing)
        self.block_names = [f"block{number}" for number in range(len(blocks_of_both))]
        for name, block in zip(self.block_names, blocks_of_both, strict=True):
            self.register_buffer(name, block)
        self.register_buffer("weights", weights)
        self.has_added = num_negative > 0
        self.register_buffer("added", torch.where(positive, 0.0, rotated)[..., :num_negative].contiguous())
        self.register_buffer("white_noise", white)
        self.register_buffer("noise", standard_normal((num_samples, 1, gps.num_latents), generator, like=points))

    def forward(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Marginals of q(F) at x; their draws use the noise held here."""
        rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        cross = self._cross(rows)
        # For one row attribute lookups matter: a block takes 0.1 µs when looked up here, 1.5 as an attribute.
        each = [cast(Tensor, self._buffers[name]) for name in self.block_names]
        both = torch.cat([torch.bmm(cross.narrow(2, 0, block.shape[1]), block) for block in each], dim=-1)
        removed = torch.linalg.vector_norm(both.narrow(2, 0, self.num_inducing), dim=-1)
        var = torch.addcmul(self._variance(rows), removed, removed, value=-1)
        if self.has_added:
            var = var + torch.bmm(cross, self.added).square().sum(-1)
        mean = self.mean(rows) + both.select(2, self.num_inducing).T
        var = var.T.clamp_min(torch.finfo(x.dtype).tiny)
        if x.dim() > 2:
            shape = (*x.shape[:-1], self.num_latents)
            mean, var = mean.reshape(shape), var.reshape(shape)
        return CommonDraws(mean, var, self.noise)

    def means(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N L"]:
        """The means alone."""
        rows = x.reshape(-1, x.shape[-1])
        update: Tensor = torch.linalg.vecdot(self._cross(rows), self.weights)
        return (self.mean(rows) + update.T).reshape(*x.shape[:-1], self.num_latents)

    # Direct calls of `forward`, `bmm` and `narrow`: for one row, hooks, broadcasting and indexing cost measurable time.
    def _cross(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "L N M"]:
        cross = self.kernel.forward(rows)
        return cross if len(cross) == self.num_latents else cross.expand(self.num_latents, -1, -1)

    def _variance(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "K _"]:
        var = self.kernel.variance(rows)
        return var if self.white_noise is None else var + self.white_noise

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """L × M for the product with R."""
        return self.num_latents * self.num_inducing * (num_samples if drawn_inputs else 1)


class FrozenDeep(nn.Module):
    """`DeepGPs` with frozen layers: each is drawn from its marginals, or evaluated at its sites."""

    def __init__(self, deep: DeepGPs) -> None:
        super().__init__()
        self.layers = deep.layers
        self.inner = deep.inner
        self.num_latents = deep.num_latents

    def forward(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Marginals of the last layer, for each of the draws or sites of the layers before it."""
        *inner, last = self.layers
        q: Marginals = last(self.inner.forward(inner, x, num_samples, generator), num_samples, generator)
        return replace(q, log_weight=self.inner.log_weight())

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """The largest number of any layer; all layers but the first work on draws or sites."""
        layers: list[Any] = list(self.layers)
        num_points = self.inner.num_points(num_samples, drawn_inputs=drawn_inputs)
        drawn = [(num_samples, drawn_inputs), *((num_points, True) for _ in layers[1:])]
        each = zip(layers, drawn, strict=True)
        return max(int(layer.numbers_per_row(count, drawn_inputs=on_draws)) for layer, (count, on_draws) in each)


def _explained(root: Float[Tensor, "L M M"]) -> Float[Tensor, "L M M"]:
    """I − S Sᵀ."""
    return torch.eye(root.shape[-1]).to(root) - root @ root.mT


def _triangular(removed: Float[Tensor, "K M M"]) -> Float[Tensor, "K M M"]:
    """From R₊ᵀ to Tᵀ, upper triangular, with R₊ = Q T and Q orthogonal: a QR decomposition, columns in reverse."""
    upper: Tensor = torch.linalg.qr(removed.mT.flip(-1), mode="r").R
    return upper.flip(-1, -2).mT


def _column_blocks(both: Float[Tensor, "K M E"], num_triangular: int) -> list[Float[Tensor, "K _ _"]]:
    """Blocks of columns of an upper triangular matrix and further columns, without the zeros below the diagonal.

    The last block is padded with zeros.
    """
    padded = nn.functional.pad(both, (0, -both.shape[-1] % _COLUMNS))
    edges = [_COLUMNS * round(edge / _COLUMNS) for _, edge in blocks(num_triangular)]
    edges[-1] = padded.shape[-1]
    return [padded[:, :last, first:last].contiguous() for first, last in itertools.pairwise([0, *edges])]


def whitening_of(gps: IndependentGPs, exact: IndependentGPs) -> Float[Tensor, "K M M"]:
    """K_zz^{-1/2} in float64, with the jitter that q(v) was trained with."""
    own, kzz = _batch(gps), _batch(exact)
    identity = torch.eye(kzz.shape[-1]).to(kzz).unsqueeze(0)
    parts = []
    for number in range(len(kzz)):
        one = slice(number, number + 1)
        jitter = gps.solver.whiten(own[one], own[one, :, :1]).jitter
        parts.append(_with_jitter(gps.solver, jitter).whiten(kzz[one], identity).cross)
    return torch.cat(parts)


def _batch(gps: IndependentGPs) -> Float[Tensor, "K M M"]:
    kzz: Tensor = gps.kernel(gps.inducing_points).to_dense()
    return kzz.reshape(-1, *kzz.shape[-2:])


def _with_jitter(solver: Any, jitter: float) -> Solver:
    """The same solver with this initial jitter; a solver without jitter is unchanged."""
    adjustable = is_dataclass(solver) and hasattr(solver, "jitter")
    return cast(Solver, replace(cast(Any, solver), jitter=jitter) if adjustable else solver)
