"""Mixing: from H features to P outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mogul.core.base_samples import Normals
from mogul.core.moments import FeatureMoments, Marginals, normal_kl
from mogul.core.pairs import selectors, take_apart
from mogul.core.posteriors import DiagonalNormal, FullNormal, NormalPosterior, PosteriorName, full_normal_kl
from mogul.errors import require_positive


@dataclass(frozen=True)
class Matrices:
    """The law of M at N points, or the same at all of them: Normal, with independent rows.

    Entries of a row have these variances (None: zero), or the covariance R Rᵀ.
    """

    mean: Float[Tensor, "*N P H"]
    var: Float[Tensor, "*N P H"] | None = None
    root: Float[Tensor, "P H H"] | None = None

    def given(self, h: Float[Tensor, "*S N H"]) -> Marginals:
        """Moments of M h for given features."""
        mean = _times(self.mean, h)
        if self.root is not None:
            return Marginals(mean, torch.einsum("phk,...nh->...npk", self.root, h).square().sum(-1))
        return Marginals(mean, torch.zeros_like(mean) if self.var is None else _times(self.var, h.square()))

    def double(self) -> "Matrices":
        """In float64, without gradients."""
        return self._changed(lambda part: part.detach().double(), self.root)

    def rows(self, index: Int[Tensor, "B"]) -> "Matrices":
        """At some of the points."""
        return self._changed(lambda part: part[index] if part.dim() == 3 else part, self.root)

    def outputs(self, index: Int[Tensor, "B"]) -> "Matrices":
        """Of some of the outputs."""
        return self._changed(lambda part: part[..., index, :], None if self.root is None else self.root[index])

    def joined(self, others: "Sequence[Matrices]") -> "Matrices":
        """At the points of this and then of the others."""
        if self.mean.dim() == 2:
            return self
        each = [self, *others]
        var = None if self.var is None else torch.cat([part.var for part in each if part.var is not None])
        return Matrices(torch.cat([part.mean for part in each]), var)

    def _changed(self, change: Callable[[Tensor], Tensor], root: Tensor | None) -> "Matrices":
        root = None if root is None else root.detach().to(change(self.mean).dtype)
        return Matrices(change(self.mean), None if self.var is None else change(self.var), root)


def _times(matrix: Float[Tensor, "*N P H"], h: Float[Tensor, "*S N H"]) -> Float[Tensor, "*S N P"]:
    return h @ matrix.T if matrix.dim() == 2 else torch.einsum("nph,...nh->...np", matrix, h)


@runtime_checkable
class Mixing(Protocol):
    """A random P × H matrix M, possibly a function of x, independent of the features given x."""

    num_outputs: int
    num_features: int
    numbers_per_point: int  # held for each point and draw at work

    def given(self, h: Float[Tensor, "*S N H"], x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """Moments of M h for given features: M is integrated out, never drawn. The generator is for dropout."""
        ...

    def moments(self, features: FeatureMoments, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """Moments of M h, with M and h both integrated out."""
        ...

    def at(self, x: Float[Tensor, "N D"], generator: torch.Generator) -> Matrices:
        """The law of M at x by itself."""
        ...

    def sample_joint(
        self, h: Float[Tensor, "S *B N H"], x: Float[Tensor, "*T N D"], normals: Normals
    ) -> Float[Tensor, "S *B N P"]:
        """M h with one draw of M for all the points of a draw of h."""
        ...

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(M) ‖ p(M))."""
        ...

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of the parameters estimated by MAP."""
        ...


class BayesianMixing(nn.Module):
    """One matrix for all x, with a unit Normal prior and a diagonal Normal q(M) = N(M₀, S).

    Example:
        >>> mixing = BayesianMixing(num_outputs=3, num_features=2, generator=torch.Generator())
        >>> mixing.given(torch.zeros(5, 2), torch.zeros(5, 1), torch.Generator()).mean.shape
        torch.Size([5, 3])
    """

    def __init__(self, num_outputs: int, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        require_positive(num_outputs=num_outputs, num_features=num_features)
        self.num_outputs = num_outputs
        self.num_features = num_features
        self.numbers_per_point = num_outputs
        self.mean = nn.Parameter(torch.randn(num_outputs, num_features, generator=generator) / num_features**0.5)
        self.log_scale = nn.Parameter(torch.full((num_outputs, num_features), -2.0))

    def given(self, h: Float[Tensor, "*S N H"], x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """E = M₀h, Var = S h²."""
        return Marginals(h @ self.mean.T, h.square() @ self._var().T)

    def moments(self, features: FeatureMoments, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """E = M₀μ, Var = diag(M₀ V M₀ᵀ) + S(μ² + diag V)."""
        mean = features.mean @ self.mean.T  # Eq. (nmogpmean)
        second = features.mean.square() + features.var
        var = second @ self._var().T  # Eq. (nmogpvar), v₂ and v₃
        var = var + features.var @ self.mean.square().T  # v₁, its diagonal,
        if features.pairs is None:
            return Marginals(mean, var)
        first, second = selectors(self.num_features, like=self.mean)
        return Marginals(
            mean, var + 2 * features.pairs @ ((self.mean @ first) * (self.mean @ second)).T
        )  # and the rest

    def sample_joint(
        self, h: Float[Tensor, "S *B N H"], x: Float[Tensor, "*T N D"], normals: Normals
    ) -> Float[Tensor, "S *B N P"]:
        """M h with one draw of M for all the points of a draw of h."""
        drawn = self.mean + torch.exp(self.log_scale) * self._noise(normals)
        return h @ drawn.transpose(-1, -2)

    def at(self, x: Float[Tensor, "N D"], generator: torch.Generator) -> Matrices:
        """The same everywhere."""
        return Matrices(self.mean, self._var())

    def posteriors(self) -> dict[PosteriorName, NormalPosterior]:
        """q(M)."""
        return {"mixing": DiagonalNormal(self.mean, self.log_scale)}

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(M) ‖ N(0, 1))."""
        return normal_kl(self.mean, self.log_scale)

    def log_prior(self) -> Float[Tensor, ""]:
        """Nothing estimated here."""
        return self.mean.new_zeros(())

    def _noise(self, normals: Normals) -> Float[Tensor, "S *B P H"]:
        numbers = normals.shared(self.mean.numel()).squeeze(-2)
        return numbers.reshape(*numbers.shape[:-1], *self.mean.shape)

    def _var(self) -> Float[Tensor, "P H"]:
        return torch.exp(2 * self.log_scale)


class CorrelatedMixing(BayesianMixing):
    """BayesianMixing whose rows each have a full covariance Σ_p = R Rᵀ in q(M): the exact posterior given features.

    Example:
        >>> mixing = CorrelatedMixing(num_outputs=3, num_features=2, generator=torch.Generator())
        >>> mixing.given(torch.zeros(5, 2), torch.zeros(5, 1), torch.Generator()).var.shape
        torch.Size([5, 3])
    """

    def __init__(self, num_outputs: int, num_features: int, generator: torch.Generator) -> None:
        super().__init__(num_outputs, num_features, generator)
        self.numbers_per_point = num_outputs * num_features
        start = torch.exp(self.log_scale.detach())
        del self.log_scale
        self.root = nn.Parameter(torch.diag_embed(start))

    def given(self, h: Float[Tensor, "*S N H"], x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """E = M₀h, Var = hᵀΣ_p h."""
        # Rᵀh for all rows at once: (…, H) @ (H, H·P).
        spread = h @ self.root.tril().permute(1, 2, 0).flatten(1)
        var = spread.reshape(*h.shape, self.num_outputs).square().sum(-2)
        return Marginals(h @ self.mean.T, var)

    def moments(self, features: FeatureMoments, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """E = M₀μ, Var = diag(M₀ V M₀ᵀ) + tr(Σ_p (V + μμᵀ))."""
        root = self.root.tril()
        var_diagonal, var_pairs = take_apart(root @ root.transpose(-1, -2))
        first, second = selectors(self.num_features, like=self.mean)
        mean = features.mean @ self.mean.T
        second_diagonal = features.mean.square() + features.var
        means_of_pairs = (features.mean @ first) * (features.mean @ second)
        var = second_diagonal @ var_diagonal.T + 2 * means_of_pairs @ var_pairs.T
        var = var + features.var @ self.mean.square().T
        if features.pairs is not None:
            weights = var_pairs + (self.mean @ first) * (self.mean @ second)
            var = var + 2 * features.pairs @ weights.T
        return Marginals(mean, var)

    def sample_joint(
        self, h: Float[Tensor, "S *B N H"], x: Float[Tensor, "*T N D"], normals: Normals
    ) -> Float[Tensor, "S *B N P"]:
        """M h with one draw of M for all the points of a draw of h."""
        drawn = self.mean + (self.root.tril() @ self._noise(normals).unsqueeze(-1)).squeeze(-1)
        return h @ drawn.transpose(-1, -2)

    def at(self, x: Float[Tensor, "N D"], generator: torch.Generator) -> Matrices:
        """The same everywhere."""
        return Matrices(self.mean, root=self.root.tril())

    def posteriors(self) -> dict[PosteriorName, NormalPosterior]:
        """q(M)."""
        return {"mixing": FullNormal(self.mean, self.root)}

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(M) ‖ N(0, 1)), summed over rows."""
        return full_normal_kl(self.mean, self.root)
