"""Deep GPs: layers of sparse GPs, each on draws of the one before, or on what it is at sites that are learnt."""

from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.base_samples import Normals
from mogul.core.moments import Marginals
from mogul.errors import ConfigError
from mogul.priors.inner import Draws, Inner
from mogul.priors.sparse import IndependentGPs


class DeepGPs(nn.Module):
    """F = layerₖ ∘ … ∘ layer₁: Eq. (dgp) with two layers.

    All layers but the last are drawn, point by point (doubly stochastic sampling), or taken at learnt `Sites`; the last
    one's marginals given those are closed-form.

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
        q = last.forward(self.inner.forward(inner, x, num_samples, generator), num_samples, generator)
        return replace(q, log_weight=self.inner.log_weight())

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "S *B N L"]:
        """Draws of whole functions, layer by layer."""
        *inner, last = self._gps()
        return last.sample_joint(self.inner.sample_joint(inner, x, normals), normals)

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """The layer that needs most; all but the first work on draws or sites."""
        first, *others = self._gps()
        num_points = self.inner.num_points(num_samples, drawn_inputs=drawn_inputs)
        inner = [layer.numbers_per_row(num_points, drawn_inputs=True) for layer in others]
        return max(first.numbers_per_row(num_samples, drawn_inputs=drawn_inputs), *inner)

    def kl(self) -> Float[Tensor, ""]:
        """Summed over layers."""
        return torch.stack([layer.kl() for layer in self._gps()]).sum()

    def log_prior(self) -> Float[Tensor, ""]:
        """Summed over layers."""
        return torch.stack([layer.log_prior() for layer in self._gps()]).sum()

    def _gps(self) -> list[IndependentGPs]:
        return cast(list[IndependentGPs], list(self.layers))
