"""Draws of whole functions that can be evaluated anywhere, at the same cost for each further point (pathwise)."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from scipy.special import gammaincinv
from torch import Tensor, nn

from mogul.core.base_samples import Normals
from mogul.core.moments import Marginals, products_of_draws, standard_normal
from mogul.errors import ConfigError
from mogul.priors._frozen import FrozenGPs, freeze_kernel, whitening_of
from mogul.priors.kernels import DeepKernel, ScaledRadial
from mogul.priors.sparse import IndependentGPs

# Frequencies of each draw, and draws that share them: see `PathwiseGPs`.
NUM_FREQUENCIES, _DRAWS_TOGETHER = 64, 8
# Numbers at once while the inducing points' features are computed: 16 MB.
_NUMBERS_AT_ONCE = 2_000_000
# Degrees of freedom of the Student-t that is the spectral density of a Matérn kernel.
_SPECTRAL_DOF = {"matern12": 1, "matern32": 3, "matern52": 5}


class FreshGPs(FrozenGPs):
    """`FrozenGPs` whose draws are new at each point and call."""

    def forward(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Marginals of q(F) at x."""
        q = super().forward(x, num_samples, generator)
        return Marginals(q.mean, q.var)

    @staticmethod
    def of(gps: IndependentGPs) -> "FreshGPs":
        """A frozen copy."""
        return FreshGPs(gps, 1, torch.Generator())


class PathwiseGPs(nn.Module):
    """S draws from the posterior of `IndependentGPs`, as functions (Wilson et al. 2020, pathwise conditioning).

    With K_zz = L Lᵀ, features φ of the kernel's spectrum, w ~ N(0, I) and v ~ q(v), a draw is

        f(x) = mean(x) + φ(x)ᵀw + k(x, Z) L⁻ᵀ (v − L⁻¹ φ(Z)ᵀw)

    a function of the prior, moved at the inducing points to where q has them. Frequencies are drawn too, anew for every
    eight draws. Over all of it E φ(x)ᵀφ(x′) = k(x, x′) for any number of features, and f is linear in φ: draws have
    exactly the mean and covariance of `IndependentGPs.sample_joint`.

    Args:
        gps: the GPs; they are copied.
        num_draws: the number S of functions.
        generator: draws them.
        num_frequencies: of the features of each draw.

    Example:
        >>> from mogul.priors.kernels import rbf
        >>> gps = IndependentGPs(rbf(2, 3), torch.randn(10, 2), num_latents=3)
        >>> draws = PathwiseGPs(gps, 5, torch.Generator())
        >>> draws.values(torch.zeros(5, 4, 2)).shape
        torch.Size([5, 4, 3])
    """

    frequencies: Tensor
    amplitude: Tensor
    phase: Tensor
    pull: Tensor
    white_scale: Tensor | None

    def __init__(
        self,
        gps: IndependentGPs,
        num_draws: int,
        generator: torch.Generator,
        num_frequencies: int = NUM_FREQUENCIES,
    ) -> None:
        super().__init__()
        together = max(size for size in range(1, _DRAWS_TOGETHER + 1) if num_draws % size == 0)
        like, exact = gps.variational_mean, deepcopy(gps).double()
        self.num_latents = gps.num_latents
        self.num_draws = num_draws
        self.mean = deepcopy(gps.mean)
        self.gps = [gps]  # not a submodule: marginals are needed by few models
        self.marginals: FreshGPs | None = None
        with torch.no_grad():
            waves = _Waves.of(exact.kernel, exact, (num_draws // together, num_frequencies), generator)
            weights = self._normals(generator, like, 2, together, num_frequencies)
            whitening = whitening_of(gps, exact).expand(gps.num_latents, -1, -1)
            left = whitening @ waves.at_inducing(exact, weights)
            drawn = standard_normal((gps.num_latents, left.shape[1], num_draws), generator, like=left)
            moved = exact.variational_mean.unsqueeze(-1) + exact.variational_root.tril() @ drawn
            pull = whitening.mT @ (moved - left)
            self.kernel = freeze_kernel(exact.kernel, exact.inducing_points.detach())
            white = None if exact.log_white_noise is None else (0.5 * exact.log_white_noise).exp()
        # w₁ cos + w₂ sin is one cosine with an amplitude and a phase: half the work.
        first, second = weights.flatten(1, 2)  # (S, L, F) each
        scale = waves.scale.unsqueeze(-1)
        self.warp = waves.warp
        self.register_buffer("frequencies", waves.frequencies.flatten(2).contiguous())
        self.register_buffer("amplitude", scale * (first.square() + second.square()).sqrt())
        self.register_buffer("phase", -torch.atan2(second, first))
        self.register_buffer("pull", pull.mT.contiguous())
        self.register_buffer("white_scale", white)
        self.to(like)

    def forward(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Marginals of q(F) at x."""
        if self.marginals is None:
            self.marginals = FreshGPs.of(self.gps[0]).to(self.pull).requires_grad_(False)
        return self.marginals.forward(x, num_samples, generator)

    def sample_joint(self, x: Float[Tensor, "S N D"], normals: Normals) -> Float[Tensor, "S N L"]:
        """The functions at points of their own; only white noise is drawn anew."""
        values = self.values(x)
        if self.white_scale is None:
            return values
        return values + self.white_scale * normals.per_point(self.num_latents)

    def values(self, x: Float[Tensor, "S N D"]) -> Float[Tensor, "S N L"]:
        """The functions at points of their own."""
        num_draws, num_points, num_inputs = x.shape
        rows = x.reshape(-1, num_inputs)
        cross = self.kernel.forward(rows)
        cross = cross.reshape(len(cross), num_draws, num_points, -1)
        return self.mean(x) + self._prior(rows, num_points) + products_of_draws(cross, self.pull)

    def _prior(self, rows: Float[Tensor, "R D"], num_points: int) -> Float[Tensor, "S N L"]:
        """φ(x)ᵀw of each draw."""
        warped = rows if self.warp is None else self.warp.warp(rows)
        groups = len(self.frequencies)
        angle = torch.bmm(warped.reshape(groups, -1, warped.shape[-1]), self.frequencies)
        angle = angle.reshape(self.num_draws, num_points, self.num_latents, -1) + self.phase.unsqueeze(1)
        product: Tensor = torch.linalg.vecdot(angle.cos(), self.amplitude.unsqueeze(1))
        return product

    def _normals(
        self, generator: torch.Generator, like: Tensor, kinds: int, together: int, num_frequencies: int
    ) -> Float[Tensor, "2 G R L F"]:
        shape = (kinds, self.num_draws // together, together, self.num_latents, num_frequencies)
        return standard_normal(shape, generator, like=like.double())


@dataclass(frozen=True)
class _Waves:
    """Frequencies of random Fourier features: k(x, x′) = scale² E cos(ωᵀ(x − x′)) · F, over ω.

    Args:
        frequencies: ω of each group of draws, over the lengthscale.
        scale: √(s/F) of each GP.
        warp: the deep kernel whose warped inputs the features are of.
    """

    frequencies: Float[Tensor, "G D L F"]
    scale: Float[Tensor, "L"]
    warp: DeepKernel | None

    @staticmethod
    def of(kernel: Kernel, gps: IndependentGPs, size: tuple[int, int], generator: torch.Generator) -> "_Waves":
        """From the spectral density of a radial kernel, that of a deep kernel included."""
        warp = kernel if isinstance(kernel, DeepKernel) else None
        inner = kernel if warp is None else warp.kernel
        if not isinstance(inner, ScaledRadial) or inner.active_dims is not None or kernel.active_dims is not None:
            raise ConfigError(
                "Draws of functions need a radial kernel, rbf, matern12, matern32, matern52 or rq; this model has "
                f"{type(inner).__name__}. Fit with one of these, or roll out by method='marginals'."
            )
        num_groups, num_frequencies = size
        num_latents, num_inputs = gps.num_latents, gps.inducing_points.shape[-1]
        like = gps.inducing_points
        unit = standard_normal((num_groups, num_inputs, num_latents, num_frequencies), generator, like=like)
        lengthscale = inner.base_kernel.lengthscale.reshape(-1, inner.base_kernel.lengthscale.shape[-1])
        lengthscale = lengthscale.expand(num_latents, num_inputs).T.unsqueeze(-1)
        spread = _spread(inner, (num_groups, 1, num_latents, num_frequencies), generator, like)
        scale = (inner.outputscale.expand(num_latents) / num_frequencies).sqrt()
        return _Waves(unit * spread / lengthscale, scale, warp)

    def at_inducing(self, gps: IndependentGPs, weights: Float[Tensor, "2 G R L F"]) -> Float[Tensor, "L M S"]:
        """φ(Z)ᵀw of each draw, some groups of draws at a time."""
        points = gps.inducing_points if self.warp is None else self.warp.warp(gps.inducing_points)
        points = points.expand(gps.num_latents, -1, -1)
        num_groups, _, num_latents, num_frequencies = self.frequencies.shape
        step = max(1, _NUMBERS_AT_ONCE // (num_latents * points.shape[1] * num_frequencies))
        parts = []
        for first in range(0, num_groups, step):
            some = slice(first, first + step)
            angle = points @ self.frequencies[some].permute(0, 2, 1, 3)  # (G, L, M, F)
            cosine, sine = weights[:, some].permute(0, 1, 3, 4, 2)  # (G, L, F, R) each
            parts.append(angle.cos() @ cosine + angle.sin() @ sine)
        values = torch.cat(parts).permute(1, 2, 0, 3).flatten(2)
        return self.scale[:, None, None] * values


def _spread(kernel: ScaledRadial, shape: tuple[int, ...], generator: torch.Generator, like: Tensor) -> Tensor:
    """What a Normal frequency is multiplied by: 1 for an RBF; a Student-t's divisor; a mixture over lengthscales."""
    if kernel.family == "rbf":
        return like.new_ones(())
    if (dof := _SPECTRAL_DOF.get(kernel.family)) is not None:
        squares = standard_normal((*shape, dof), generator, like=like).square().sum(-1)
        return (dof / squares).sqrt()
    assert kernel.shape is not None
    alpha = kernel.shape.detach().reshape(-1).expand(shape[-2]).unsqueeze(-1).cpu().numpy()
    level = torch.rand(shape, generator=generator, dtype=like.dtype).numpy()
    return torch.as_tensor(np.sqrt(gammaincinv(alpha, level) / alpha)).to(like)
