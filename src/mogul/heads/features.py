"""Features h(F): the latent GPs themselves, or a layer of hidden units on top of them."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.base_samples import Normals
from mogul.core.moments import FeatureMoments, Marginals, normal_kl, normal_log_density, selectors, standard_normal
from mogul.core.posteriors import DiagonalNormal, NormalPosterior, PosteriorName
from mogul.errors import require_positive
from mogul.nonlinearities import Nonlinearity


@runtime_checkable
class Features(Protocol):
    """A map from L latent functions to H features, possibly with further latent variables."""

    num_features: int
    num_random: int  # standard Normal numbers per point for a draw of those variables

    def given(self, f: Float[Tensor, "*S N L"], noise: Float[Tensor, "*S N E"]) -> Float[Tensor, "*S N H"]:
        """Features of given latents, with other variables drawn from these standard Normal numbers."""
        ...

    def slopes(
        self, f: Float[Tensor, "*S N L"], noise: Float[Tensor, "*S N E"]
    ) -> tuple[Float[Tensor, "*S N H L"], Float[Tensor, "*S N H E"]]:
        """∂h/∂f and ∂h/∂noise of `given`."""
        ...

    def sample(self, f: Float[Tensor, "S N L"], generator: torch.Generator) -> Float[Tensor, "S N H"]:
        """Features of given latents, with other variables drawn for each point."""
        ...

    def sample_joint(self, f: Float[Tensor, "S *B N L"], normals: Normals) -> Float[Tensor, "S *B N H"]:
        """Features of given latents, with other variables drawn once for all points of a draw."""
        ...

    def moments(self, q: Marginals) -> FeatureMoments:
        """Mean and covariance of the features under q."""
        ...

    def kl(self) -> Float[Tensor, ""]:
        """KL of the latent variables held here."""
        ...

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of the parameters estimated by MAP."""
        ...


class Identity(nn.Module):
    """h = F: the features of MOGP."""

    def __init__(self, num_latents: int) -> None:
        super().__init__()
        require_positive(num_latents=num_latents)
        self.num_features = num_latents
        self.num_random = 0

    def given(self, f: Float[Tensor, "*S N L"], noise: Float[Tensor, "*S N 0"]) -> Float[Tensor, "*S N L"]:
        """The latents themselves."""
        return f

    def slopes(
        self, f: Float[Tensor, "*S N L"], noise: Float[Tensor, "*S N 0"]
    ) -> tuple[Float[Tensor, "*S N L L"], Float[Tensor, "*S N L 0"]]:
        """The unit matrix."""
        size = self.num_features
        return torch.eye(size).to(f).expand(*f.shape[:-1], size, size), f.new_zeros(*f.shape, 0)

    def sample(self, f: Float[Tensor, "S N L"], generator: torch.Generator) -> Float[Tensor, "S N L"]:
        """The latents themselves."""
        return f

    def sample_joint(self, f: Float[Tensor, "S *B N L"], normals: Normals) -> Float[Tensor, "S *B N L"]:
        """The latents themselves."""
        return f

    def moments(self, q: Marginals) -> FeatureMoments:
        """The moments of q: independent."""
        return FeatureMoments(q.mean, q.var)

    def kl(self) -> Float[Tensor, ""]:
        """Nothing latent here."""
        return torch.zeros(())

    def log_prior(self) -> Float[Tensor, ""]:
        """Nothing estimated here."""
        return torch.zeros(())


class Neural(nn.Module):
    """h = σ(M̃F + b): a layer of H hidden units; M̃ by MAP, b with a mean-field Normal q(b).

    Args:
        nonlinearity: σ, with its moments.
        num_latents: the number L of latent GPs.
        num_hidden: the number H of hidden units.
        generator: draws the start.
        weight_scale: standard deviation of the Normal prior on M̃.

    Example:
        >>> from mogul.nonlinearities import Erf
        >>> units = Neural(Erf(), num_latents=2, num_hidden=5, generator=torch.Generator())
        >>> units.moments(Marginals(torch.zeros(3, 2), torch.ones(3, 2))).cov.shape
        torch.Size([3, 5, 5])
    """

    def __init__(
        self,
        nonlinearity: Nonlinearity,
        num_latents: int,
        num_hidden: int,
        generator: torch.Generator,
        weight_scale: float = 1.0,
    ) -> None:
        super().__init__()
        require_positive(num_latents=num_latents, num_hidden=num_hidden)
        self.nonlinearity = nonlinearity
        self.num_features = self.num_random = num_hidden
        self.weight_scale = weight_scale
        self.hidden_weights = nn.Parameter(torch.randn(num_hidden, num_latents, generator=generator) / num_latents**0.5)
        self.bias_mean = nn.Parameter(torch.randn(num_hidden, generator=generator))
        self.bias_log_scale = nn.Parameter(torch.full((num_hidden,), -2.0))

    def given(self, f: Float[Tensor, "*S N L"], noise: Float[Tensor, "*S N H"]) -> Float[Tensor, "*S N H"]:
        """σ(M̃f + b) with b = E b + scale ∘ noise."""
        return self._units(f, noise)

    def slopes(
        self, f: Float[Tensor, "*S N L"], noise: Float[Tensor, "*S N H"]
    ) -> tuple[Float[Tensor, "*S N H L"], Float[Tensor, "*S N H H"]]:
        """σ′(M̃f + b) ∘ M̃, and the diagonal matrix σ′(M̃f + b) ∘ scale."""
        scale = torch.exp(self.bias_log_scale)
        with torch.enable_grad():
            inside = (f @ self.hidden_weights.T + self.bias_mean + scale * noise).detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.nonlinearity(inside).sum(), inside)
        return slope.unsqueeze(-1) * self.hidden_weights, torch.diag_embed(slope * scale)

    def sample(self, f: Float[Tensor, "S N L"], generator: torch.Generator) -> Float[Tensor, "S N H"]:
        """σ(M̃f + b) with a b ~ q(b) for each point."""
        return self._units(f, standard_normal((*f.shape[:-1], self.num_features), generator, like=f))

    def sample_joint(self, f: Float[Tensor, "S *B N L"], normals: Normals) -> Float[Tensor, "S *B N H"]:
        """σ(M̃f + b) with one b ~ q(b) for all points of a draw."""
        return self._units(f, normals.shared(self.num_features))

    def _units(self, f: Float[Tensor, "S *B N L"], noise: Float[Tensor, "S *B _ H"]) -> Float[Tensor, "S *B N H"]:
        bias = self.bias_mean + torch.exp(self.bias_log_scale) * noise
        return self.nonlinearity(f @ self.hidden_weights.T + bias)

    def moments(self, q: Marginals) -> FeatureMoments:
        """Closed-form: M̃F + b is Normal, with covariance M̃ diag(v) M̃ᵀ + diag(Var b)."""
        weights = self.hidden_weights
        mean = q.mean @ weights.T + self.bias_mean
        var = q.var @ weights.square().T + torch.exp(2 * self.bias_log_scale)
        first, second = selectors(len(weights), like=weights)
        cov = q.var @ ((weights.T @ first) * (weights.T @ second))
        sigma = self.nonlinearity
        return FeatureMoments(sigma.mean(mean, var), sigma.variance(mean, var), sigma.pair_covariances(mean, var, cov))

    def posteriors(self) -> dict[PosteriorName, NormalPosterior]:
        """q(b)."""
        return {"biases": DiagonalNormal(self.bias_mean, self.bias_log_scale)}

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(b) ‖ N(0, 1))."""
        return normal_kl(self.bias_mean, self.bias_log_scale)

    def log_prior(self) -> Float[Tensor, ""]:
        """log N(M̃ | 0, weight_scale²)."""
        return normal_log_density(self.hidden_weights, self.weight_scale)
