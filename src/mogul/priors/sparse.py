"""Independent sparse variational GPs, whitened."""

import math
import warnings
from typing import Protocol, runtime_checkable

import gpytorch
import numpy as np
import torch
from jaxtyping import Float
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from mogul.core.base_samples import Normals
from mogul.core.moments import Marginals, standard_normal
from mogul.core.posteriors import FullNormal, NormalPosterior, PosteriorName, full_normal_kl
from mogul.errors import ShapeError, require_positive
from mogul.priors.means import Mean, mean_by_name
from mogul.priors.solvers import Cholesky, Posterior, Solver


@runtime_checkable
class Prior(Protocol):
    """A process over functions F: ℝᴰ → ℝᴸ with a variational posterior."""

    num_latents: int

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """Numbers in memory per row while marginals are computed, over all draws of the row."""
        ...

    def __call__(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Marginals of q(F) at x: closed-form, or given `num_samples` draws of inner layers (a leading axis)."""
        ...

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "S *C N L"]:
        """Draws of whole functions at x, correlated over points."""
        ...

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(u) ‖ p(u)), summed over GPs."""
        ...

    def log_prior(self) -> Float[Tensor, ""]:
        """Log density of the priors registered on kernels by GPyTorch."""
        ...


class IndependentGPs(nn.Module):
    """L independent GPs through M inducing points, u = mean + K_zz^{1/2} v with q(v) = N(m, S Sᵀ).

    With A = K_zz^{-1/2} K_zx, at each point:

        E f = mean(x) + Aᵀm            Var f = k_xx − Σ A² + Σ (SᵀA)²

    Args:
        kernel: any GPyTorch kernel of batch shape (L,), or () to share one among all GPs.
        inducing_points: (M, D) shared by the GPs, or (L, M, D).
        num_latents: the number L of GPs.
        mean: "zero", "constant" (learnt) or "linear" (learnt, from the principal directions), or any `Mean`.
        white_noise: initial value of a learnt variance added to f at every point: GPRN's kernel noise. K_zz does not
            include it.
        solver: how K_zz^{-1/2} is applied.

    Example:
        >>> from mogul.priors.kernels import rbf
        >>> prior = IndependentGPs(rbf(2, 3), torch.randn(10, 2), num_latents=3)
        >>> prior(torch.zeros(4, 2), 1, torch.Generator()).mean.shape
        torch.Size([4, 3])
    """

    def __init__(
        self,
        kernel: gpytorch.kernels.Kernel,
        inducing_points: Float[Tensor, "... M D"],
        num_latents: int,
        *,
        mean: str | Mean = "constant",
        white_noise: float | None = None,
        solver: Solver | None = None,
    ) -> None:
        super().__init__()
        require_positive(num_latents=num_latents)
        _check_batches(kernel, inducing_points, num_latents)
        self.num_latents = num_latents
        self.solver: Solver = solver or Cholesky()
        self.jitter = 0.0
        num_inducing = inducing_points.shape[-2]
        like = inducing_points
        self.kernel = kernel.to(like)
        # A parameter is shared with whatever else has it: one set of inducing points for several GPs.
        shared = isinstance(inducing_points, nn.Parameter)
        self.inducing_points = inducing_points if shared else nn.Parameter(like.detach().clone())
        self.variational_mean = nn.Parameter(like.new_zeros(num_latents, num_inducing))
        self.variational_root = nn.Parameter(torch.eye(num_inducing).to(like).repeat(num_latents, 1, 1))
        start = like if like.dim() == 2 else like[0]
        self.mean = mean_by_name(mean, start, num_latents) if isinstance(mean, str) else mean
        self.log_white_noise = (
            None if white_noise is None else nn.Parameter(like.new_full((num_latents,), math.log(white_noise)))
        )

    def forward(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Marginals of q(F) at x, in closed form; only deep priors use draws."""
        rows = x.reshape(-1, x.shape[-1])
        update = self.solver.update(*self._covariances(rows), Posterior(self.variational_mean, self.variational_root))
        self.jitter = update.jitter
        mean = self.mean(rows) + update.mean.T
        # Without the extra axis, GPyTorch mistakes L variances at N = L points for a matrix and keeps its diagonal.
        prior_var = self.kernel(rows.unsqueeze(0), diag=True) + self._white_noise().unsqueeze(-1)
        var = (prior_var + update.var).T.clamp_min(torch.finfo(x.dtype).tiny)
        shape = (*x.shape[:-1], self.num_latents)
        return Marginals(mean.reshape(shape), var.expand(mean.shape).reshape(shape))

    def joint(self, x: Float[Tensor, "*S N D"]) -> tuple[Float[Tensor, "*S L N"], Float[Tensor, "*S L N N"]]:
        """Mean and covariance of q(F), joint over the points, separately for each leading index of x."""
        *lead, num_points, num_inputs = x.shape
        rows = x.reshape(-1, num_inputs)
        cross = self.whitened_cross(rows)
        cross = cross.reshape(*cross.shape[:-1], -1, num_points).movedim(-2, 0)
        scaled = self._root().transpose(-1, -2) @ cross
        prior_cov = self.kernel(x.reshape(-1, 1, num_points, num_inputs)).to_dense()
        white_noise = torch.diag_embed(self._white_noise().unsqueeze(-1).expand(-1, num_points))
        cov = prior_cov + white_noise - cross.transpose(-1, -2) @ cross + scaled.transpose(-1, -2) @ scaled
        mean = self.mean(rows).reshape(-1, num_points, self.num_latents).transpose(-1, -2) + self._project(cross)
        shape = (*lead, self.num_latents, num_points)
        return mean.reshape(shape), cov.expand(*mean.shape, num_points).reshape(*shape, num_points)

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "S *C N L"]:
        """Draws of whole functions at x, correlated over points; one function for each draw of the inputs."""
        mean, cov = self.joint(x)
        # On a fine grid the covariance is numerically singular; in float64 the jitter is negligible.
        root, _ = Cholesky(max_jitter=1.0).factorise(cov.double(), name="The covariance of the function values")
        noise = normals.per_point(self.num_latents).transpose(-1, -2)
        root = root.to(noise)
        if noise.dim() > mean.dim():  # all draws share the roots: one product for all
            spread = (root @ noise.movedim(0, -1)).movedim(-1, 0)
        else:
            spread = (root @ noise.unsqueeze(-1)).squeeze(-1)
        return (mean + spread).transpose(-1, -2)

    def posteriors(self) -> dict[PosteriorName, NormalPosterior]:
        """q(v)."""
        return {"inducing": FullNormal(self.variational_mean, self.variational_root)}

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(v) ‖ N(0, I)), summed over GPs."""
        return full_normal_kl(self.variational_mean, self.variational_root)

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """L × M for the cross-covariance with the inducing points."""
        return self.variational_mean.numel() * (num_samples if drawn_inputs else 1)

    def log_prior(self) -> Float[Tensor, ""]:
        """Log density of the priors registered on the kernel."""
        total = self.variational_mean.new_zeros(())
        for _, module, prior, closure, _ in self.kernel.named_priors():
            total = total + prior.log_prob(closure(module)).sum()
        return total

    def _white_noise(self) -> Float[Tensor, "K"]:
        if self.log_white_noise is None:
            return self.variational_mean.new_zeros(1)
        return torch.exp(self.log_white_noise)

    def whitened_cross(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "K M N"]:
        """A = K_zz^{-1/2} K_zx, for each GP, or one for all where the kernel is shared."""
        whitened = self.solver.whiten(*self._covariances(x))
        self.jitter = whitened.jitter
        return whitened.cross

    def whitened(self, values: Float[Tensor, "L M T"]) -> Float[Tensor, "L M T"]:
        """K_zz^{-1/2} C for values C at the inducing points."""
        kzz, _ = self._covariances(self.inducing_points[..., :0, :])
        return self.solver.whiten(kzz, values).cross

    def _covariances(self, x: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "K M M"], Float[Tensor, "K M N"]]:
        """K_zz and K_zx."""
        z = self.inducing_points
        kzz, kzx = self.kernel(z).to_dense(), self.kernel(z, x).to_dense()
        return (kzz.unsqueeze(0), kzx.unsqueeze(0)) if kzz.dim() == 2 else (kzz, kzx)

    def _project(self, cross: Float[Tensor, "*S K M N"]) -> Float[Tensor, "*S L N"]:
        return (self.variational_mean.unsqueeze(-2) @ cross).squeeze(-2)

    def _root(self) -> Float[Tensor, "L M M"]:
        return self.variational_root.tril()


def randomise(prior: IndependentGPs, generator: torch.Generator, *, spread: float, scale: float) -> IndependentGPs:
    """Start q(v) at a random function: means N(0, spread²), standard deviations `scale`."""
    with torch.no_grad():
        mean, root = prior.variational_mean, prior.variational_root
        mean.copy_(spread * standard_normal(mean.shape, generator, like=mean))
        root.copy_(scale * torch.eye(root.shape[-1]).to(root).expand_as(root))
    return prior


def _check_batches(kernel: gpytorch.kernels.Kernel, inducing_points: Tensor, num_latents: int) -> None:
    if tuple(kernel.batch_shape) not in {(), (num_latents,)}:
        raise ShapeError(
            f"The kernel must have batch shape () or ({num_latents},), one kernel for all GPs or one for each; "
            f"got {tuple(kernel.batch_shape)}. Build it with batch_shape=torch.Size([{num_latents}])."
        )
    if tuple(inducing_points.shape[:-2]) not in {(), (num_latents,)}:
        raise ShapeError(
            f"inducing_points must be (M, D), or (L, M, D) with L = {num_latents}; got {tuple(inducing_points.shape)}. "
            "Share them among the GPs, or give one set for each."
        )
    if not math.prod(inducing_points.shape):
        raise ShapeError(f"inducing_points must not be empty; got {tuple(inducing_points.shape)}. Give at least one.")


_ROWS_PER_CENTRE = 50


def kmeans(x: Float[Tensor, "N D"], num_inducing: int, generator: torch.Generator) -> Float[Tensor, "M D"]:
    """Cluster centres of the inputs; the distinct inputs themselves where there are no more than `num_inducing`.

    Of many inputs only a random subset is clustered; the centres would hardly differ.

    >>> kmeans(torch.eye(3), 10, torch.Generator()).shape
    torch.Size([3, 3])
    """
    require_positive(num_inducing=num_inducing)
    if len(x) > (enough := _ROWS_PER_CENTRE * num_inducing):
        x = x[torch.randperm(len(x), generator=generator)[:enough].to(x.device)]
    distinct: Tensor = torch.unique(x, dim=0)
    if len(distinct) <= num_inducing:
        return distinct
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough clustering is enough
        centres = KMeans(num_inducing, n_init=1, max_iter=50, random_state=seed).fit(x.cpu().numpy()).cluster_centers_
    return torch.as_tensor(np.ascontiguousarray(centres), dtype=x.dtype, device=x.device)
