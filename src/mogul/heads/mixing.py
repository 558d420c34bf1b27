"""Mixing: from H features to P outputs, by one random matrix, a net's M(x), or a matrix of GPs."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mogul.core.base_samples import Normals
from mogul.core.moments import FeatureMoments, Marginals, normal_kl, selectors, take_apart
from mogul.core.nets import TanhNet
from mogul.core.posteriors import DiagonalNormal, FullNormal, NormalPosterior, PosteriorName, full_normal_kl
from mogul.errors import ShapeError, require_positive
from mogul.priors import IndependentGPs


@dataclass(frozen=True)
class Matrices:
    """The law of M at N points, or one law for all: Normal, with independent rows.

    Entries of a row have these variances (None is zero), or the covariance R Rᵀ.
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
        """Concatenate the points of this and of the others."""
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
    numbers_per_point: int  # in memory per point and draw during computation

    def given(self, h: Float[Tensor, "*S N H"], x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """Moments of M h for given features, with M integrated out. The generator is for dropout."""
        ...

    def moments(self, features: FeatureMoments, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """Moments of M h, with M and h both integrated out."""
        ...

    def at(self, x: Float[Tensor, "N D"], generator: torch.Generator) -> Matrices:
        """The law of M at x."""
        ...

    def sample_joint(
        self, h: Float[Tensor, "S *B N H"], x: Float[Tensor, "*T N D"], normals: Normals
    ) -> Float[Tensor, "S *B N P"]:
        """M h with one draw of M for all points of a draw of h."""
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
        """M h with one draw of M for all points of a draw of h."""
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
        """M h with one draw of M for all points of a draw of h."""
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


Matrix = Float[Tensor, "*T N P H"]


class VaryingMixing(nn.Module):
    """M(x) with independent entries; subclasses define its mean and variance at x."""

    def __init__(self, num_outputs: int, num_features: int) -> None:
        super().__init__()
        require_positive(num_outputs=num_outputs, num_features=num_features)
        self.num_outputs = num_outputs
        self.num_features = num_features
        self.numbers_per_point = num_outputs * num_features

    @abstractmethod
    def entries(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> tuple[Matrix, Matrix | None]:
        """Mean and variance of the entries of M(x); None for a variance of zero."""

    def given(self, h: Float[Tensor, "*S N H"], x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """E = M₀(x) h, Var = S(x) h²."""
        mean, var = self.entries(x, generator)
        signal = _apply(mean, h)
        return Marginals(signal, torch.zeros_like(signal) if var is None else _apply(var, h.square()))

    def at(self, x: Float[Tensor, "N D"], generator: torch.Generator) -> Matrices:
        """The law of M at x."""
        return Matrices(*self.entries(x, generator))

    def moments(self, features: FeatureMoments, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """E = M₀μ, Var = diag(M₀ V M₀ᵀ) + S(μ² + diag V), at each x."""
        mean, var = self.entries(x, generator)
        if features.pairs is None:
            signal_var = _apply(mean.square(), features.var)
        else:
            signal_var = ((mean @ features.cov) * mean).sum(-1)
        if var is not None:
            signal_var = signal_var + _apply(var, features.mean.square() + features.var)
        return Marginals(_apply(mean, features.mean), signal_var)

    def _matrices(self, entries: Float[Tensor, "*T N E"]) -> Matrix:
        return entries.reshape(*entries.shape[:-1], self.num_outputs, self.num_features)


class NetMixing(VaryingMixing):
    """M(x) by a deterministic net with two hidden layers of 50 tanh units: Eq. (sbgprn).

    Args:
        num_inputs: the number D of inputs.
        num_outputs: the number P of outputs.
        num_features: the number H of features.
        generator: draws the start.
        dropout: share of hidden units dropped in training.
        weight_scale: standard deviation of the Normal prior on the weights, the paper's L2 regularisation.

    Example:
        >>> mixing = NetMixing(2, 3, 4, torch.Generator())
        >>> mixing.given(torch.zeros(5, 4), torch.zeros(5, 2), torch.Generator()).mean.shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        num_features: int,
        generator: torch.Generator,
        *,
        dropout: float = 0.0,
        weight_scale: float = 1.0,
    ) -> None:
        super().__init__(num_outputs, num_features)
        self.net = TanhNet(
            num_inputs, num_outputs * num_features, generator, dropout=dropout, weight_scale=weight_scale
        )
        with torch.no_grad():
            # Entries of order 1/√H for all x: features of unit size then give signals of unit size.
            start = torch.randn(num_outputs * num_features, generator=generator) / num_features**0.5
            self.net.biases[-1].copy_(start)

    def entries(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> tuple[Matrix, None]:
        """The net's value, with zero variance."""
        return self._matrices(self.net.forward(x, generator)), None

    def sample_joint(
        self, h: Float[Tensor, "S *B N H"], x: Float[Tensor, "*T N D"], normals: Normals
    ) -> Float[Tensor, "S *B N P"]:
        """M(x) h: nothing is drawn and no units are dropped."""
        return _apply(self._matrices(self.net.forward(x)), h)

    def kl(self) -> Float[Tensor, ""]:
        """Nothing latent here."""
        return torch.zeros_like(self.net.biases[0]).sum()

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of the weights."""
        return self.net.log_prior()


class GPMixing(VaryingMixing):
    """M(x) of P × H Gaussian processes: Eq. (gprn).

    Args:
        gps: P·H GPs; the paper shares one kernel among them.
        num_outputs: the number P of outputs.

    Example:
        >>> from mogul.priors import rbf
        >>> mixing = GPMixing(IndependentGPs(rbf(2), torch.randn(10, 2), num_latents=6), num_outputs=3)
        >>> mixing.given(torch.zeros(5, 2), torch.zeros(5, 2), torch.Generator()).mean.shape
        torch.Size([5, 3])
    """

    def __init__(self, gps: IndependentGPs, num_outputs: int) -> None:
        num_features, rest = divmod(gps.num_latents, num_outputs)
        super().__init__(num_outputs, max(1, num_features))
        if rest:
            raise ShapeError(
                f"GPMixing must have P × H GPs; got {gps.num_latents} for P = {num_outputs} outputs. "
                "Build them with num_latents=num_outputs * num_features."
            )
        self.gps = gps
        self.numbers_per_point = gps.variational_mean.numel()

    def entries(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> tuple[Matrix, Matrix]:
        """Mean and variance of the GPs at x."""
        q: Marginals = self.gps(x, 1, generator)
        return self._matrices(q.mean), self._matrices(q.var)

    def sample_joint(
        self, h: Float[Tensor, "S *B N H"], x: Float[Tensor, "*T N D"], normals: Normals
    ) -> Float[Tensor, "S *B N P"]:
        """M(x) h with one draw of the matrix-valued function for each draw of h."""
        return _apply(self._matrices(self.gps.sample_joint(x, normals)), h)

    def kl(self) -> Float[Tensor, ""]:
        """KL of the mixing GPs."""
        return self.gps.kl()

    def log_prior(self) -> Float[Tensor, ""]:
        """Log density of priors registered on the shared kernel."""
        return self.gps.log_prior()


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrix times vector at each point, broadcast over leading axes."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


class FrozenMixing(nn.Module):
    """`BayesianMixing` as four matrices: E = M₀μ, Var = S μ² + (S + M₀²) diag V + 2 Σ M₀ᵢ M₀ⱼ Vᵢⱼ over pairs.

    Example:
        >>> mixing = FrozenMixing(BayesianMixing(num_outputs=3, num_features=2, generator=torch.Generator())).float()
        >>> features = FeatureMoments(torch.zeros(5, 2), torch.ones(5, 2))
        >>> mixing.moments(features, torch.zeros(5, 1), torch.Generator()).mean.shape
        torch.Size([5, 3])
    """

    weights: Tensor
    var: Tensor
    second: Tensor
    pairs: Tensor

    def __init__(self, mixing: BayesianMixing) -> None:
        super().__init__()
        self.num_outputs = mixing.num_outputs
        self.num_features = mixing.num_features
        self.numbers_per_point = mixing.numbers_per_point
        mean, var = mixing.mean.detach().double(), torch.exp(2 * mixing.log_scale.detach().double())
        first, second = selectors(self.num_features, like=mean)
        self.register_buffer("weights", mean.T.contiguous())
        self.register_buffer("var", var.T.contiguous())
        self.register_buffer("second", (var + mean.square()).T.contiguous())
        self.register_buffer("pairs", 2 * ((mean @ first) * (mean @ second)).T)

    def moments(self, features: FeatureMoments, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """M and the features both integrated out."""
        var = features.mean.square() @ self.var + features.var @ self.second
        if features.pairs is not None:
            var = var + features.pairs @ self.pairs
        return Marginals(features.mean @ self.weights, var)
