"""Deep GPs: layers of sparse GPs on draws of the previous layer, or on its values at learnt sites."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.base_samples import Normals
from mogul.core.moments import Marginals
from mogul.errors import ConfigError, require_positive
from mogul.priors.sparse import IndependentGPs

Layer = Callable[[Tensor, int, torch.Generator], Marginals]


@runtime_checkable
class JointLayer(Protocol):
    """A layer that draws whole functions: `IndependentGPs`, or a copy with functions that were drawn already."""

    def forward(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Marginals of q(F) at x."""
        ...

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "S *C N L"]:
        """Draws of whole functions at x."""
        ...


@runtime_checkable
class Inner(Protocol):
    """The inner layers: from inputs to inputs of the last layer, with a leading axis of components."""

    def forward(
        self, layers: Sequence[Layer], x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator
    ) -> Float[Tensor, "S *T N L"]:
        """Values of the last inner layer, independent over points."""
        ...

    def sample_joint(
        self, layers: Sequence[JointLayer], x: Float[Tensor, "*B N D"], normals: Normals
    ) -> Float[Tensor, "S *C N L"]:
        """Draws of whole functions."""
        ...

    def log_weight(self) -> Float[Tensor, "S"] | None:
        """Log weight of each component; None for equal weights."""
        ...

    def num_points(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """Number of points for each row, over all its draws."""
        ...


class Draws(nn.Module):
    """Doubly stochastic sampling: each layer is drawn, point by point, given draws of the previous layer."""

    def forward(
        self, layers: Sequence[Layer], x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator
    ) -> Float[Tensor, "S N L"]:
        """One draw of each layer for each draw of the previous one."""
        for layer in layers:
            x = layer(x, num_samples, generator).sample(num_samples, generator)
        return x

    def sample_joint(
        self, layers: Sequence[JointLayer], x: Float[Tensor, "*B N D"], normals: Normals
    ) -> Float[Tensor, "S *C N L"]:
        """One function of each layer for each function of the previous one."""
        for layer in layers:
            x = layer.sample_joint(x, normals)
        return x

    def log_weight(self) -> None:
        """None: draws have equal weights."""
        return

    def num_points(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """One point per draw."""
        return num_samples


class Sites(nn.Module):
    """Learnt quadrature in place of draws (deep sigma point processes, Jankowiak et al. 2020).

    At site s, a layer with the marginals N(m, v) has the value m + √v ξ_s, with a separate ξ_s for each of its GPs. The
    prediction is a mixture over sites with learnt weights w_s; nothing is drawn. Sites start at quantiles of the
    Normal, in a different order for each GP, with equal weights.

    Args:
        num_sites: the number S of sites.
        num_latents: GPs of each inner layer.
        generator: draws the orders.

    Example:
        >>> sites = Sites(num_sites=4, num_latents=[3], generator=torch.Generator())
        >>> sites.positions[0].shape, sites.log_weight().exp().sum().item()
        (torch.Size([4, 3]), 1.0)
    """

    def __init__(self, num_sites: int, num_latents: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        require_positive(num_sites=num_sites)
        self.num_sites = num_sites
        self.positions = nn.ParameterList(_start(num_sites, count, generator) for count in num_latents)
        self.logits = nn.Parameter(torch.zeros(num_sites))

    def forward(
        self, layers: Sequence[Layer], x: Float[Tensor, "*T N D"], num_samples: int, generator: torch.Generator
    ) -> Float[Tensor, "S *T N L"]:
        """Each layer at its sites, given the previous layer at the same site."""
        x = x.unsqueeze(0)  # the axis of sites
        for layer, position in zip(layers, self.positions, strict=True):
            q = layer(x, num_samples, generator)
            x = q.mean + q.var.sqrt() * position.reshape(len(position), *(1,) * (x.dim() - 2), -1)
        return x

    def sample_joint(
        self, layers: Sequence[JointLayer], x: Float[Tensor, "*B N D"], normals: Normals
    ) -> Float[Tensor, "S *C N L"]:
        """One site for each draw, shared by its points: given the site, inner layers are deterministic functions."""
        level = torch.special.ndtr(normals.shared(1)[..., 0])
        edges = self.log_weight().exp().cumsum(0)[:-1].detach()
        chosen = torch.bucketize(level, edges)
        for layer, position in zip(layers, self.positions, strict=True):
            q = layer.forward(x, 1, torch.Generator(x.device))
            x = q.mean + q.var.sqrt() * position[chosen]
        return x

    def log_weight(self) -> Float[Tensor, "S"]:
        """log w, with Σ w = 1."""
        return torch.log_softmax(self.logits, 0)

    def num_points(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """All sites for each draw of the inputs."""
        return self.num_sites * (num_samples if drawn_inputs else 1)


def _start(num_sites: int, num_latents: int, generator: torch.Generator) -> nn.Parameter:
    """Normal quantiles at the centres of equal shares, scaled to unit variance, in a different order per column."""
    shares = (torch.arange(num_sites, dtype=torch.float64) + 0.5) / num_sites
    quantiles = torch.special.ndtri(shares)
    quantiles = quantiles / quantiles.square().mean().sqrt() if num_sites > 1 else quantiles
    columns = [quantiles[torch.randperm(num_sites, generator=generator)] for _ in range(num_latents)]
    return nn.Parameter(torch.stack(columns, 1))


class DeepGPs(nn.Module):
    """F = layerₖ ∘ … ∘ layer₁: Eq. (dgp) with two layers.

    Inner layers are drawn, point by point (doubly stochastic sampling), or evaluated at learnt `Sites`. Given those,
    the marginals of the last layer are closed-form.

    Example:
        >>> from mogul.priors.kernels import rbf
        >>> first = IndependentGPs(rbf(2, 3), torch.randn(10, 2), num_latents=3)
        >>> second = IndependentGPs(rbf(3, 4), torch.randn(10, 3), num_latents=4)
        >>> DeepGPs(first, second)(torch.zeros(6, 2), 5, torch.Generator()).mean.shape
        torch.Size([5, 6, 4])
    """

    def __init__(self, *layers: IndependentGPs, inner: Inner | None = None) -> None:
        super().__init__()
        if len(layers) < 2:
            raise ConfigError(
                f"A deep GP must have at least two layers; got {len(layers)}. Use IndependentGPs for one."
            )
        self.layers = nn.ModuleList(layers)
        self.inner: Inner = Draws() if inner is None else inner
        self.num_latents = layers[-1].num_latents

    def forward(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Marginals of the last layer, for each of `num_samples` draws of the layers before it, or for each site."""
        *inner, last = self._gps()
        q: Marginals = last.forward(self.inner.forward(inner, x, num_samples, generator), num_samples, generator)
        return replace(q, log_weight=self.inner.log_weight())

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "S *C N L"]:
        """Draws of whole functions, layer by layer."""
        *inner, last = self._gps()
        drawn: Tensor = last.sample_joint(self.inner.sample_joint(inner, x, normals), normals)
        return drawn

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """The largest number of any layer; all layers but the first work on draws or sites."""
        first, *others = self._gps()
        num_points = self.inner.num_points(num_samples, drawn_inputs=drawn_inputs)
        inner = [int(layer.numbers_per_row(num_points, drawn_inputs=True)) for layer in others]
        return max(int(first.numbers_per_row(num_samples, drawn_inputs=drawn_inputs)), *inner)

    def kl(self) -> Float[Tensor, ""]:
        """Summed over layers."""
        return torch.stack([layer.kl() for layer in self._gps()]).sum()

    def log_prior(self) -> Float[Tensor, ""]:
        """Summed over layers."""
        return torch.stack([layer.log_prior() for layer in self._gps()]).sum()

    def _gps(self) -> list[Any]:
        """IndependentGPs, or copies that stand in for them."""
        return list(self.layers)
