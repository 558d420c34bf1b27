"""Deep GPs: layers of sparse GPs, each on draws of the one before."""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.errors import ConfigError
from mogul.marginals import Marginals
from mogul.normals import Normals
from mogul.priors.sparse import IndependentGPs


class DeepGPs(nn.Module):
    """F = layerₖ ∘ … ∘ layer₁, by doubly stochastic sampling: Eq. (dgp) with two layers.

    All layers but the last are drawn, point by point; the last one's marginals given those draws are closed-form.

    Example:
        >>> from mogul.priors.kernels import rbf
        >>> first = IndependentGPs(rbf(2, 3), torch.randn(10, 2), num_latents=3)
        >>> second = IndependentGPs(rbf(3, 4), torch.randn(10, 3), num_latents=4)
        >>> DeepGPs(first, second)(torch.zeros(6, 2), 5, torch.Generator()).mean.shape
        torch.Size([5, 6, 4])
    """

    def __init__(self, *layers: IndependentGPs) -> None:
        super().__init__()
        if len(layers) < 2:
            raise ConfigError(
                f"A deep GP must have at least two layers; got {len(layers)}. Use IndependentGPs for one."
            )
        self.layers = nn.ModuleList(layers)
        self.num_latents = layers[-1].num_latents

    def forward(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Marginals of the last layer, for each of `num_samples` draws of the layers before it."""
        *inner, last = self._gps()
        for layer in inner:
            x = layer.forward(x, num_samples, generator).sample(num_samples, generator)
        return last.forward(x, num_samples, generator)

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "S *B N L"]:
        """Draws of whole functions, layer by layer."""
        first, *others = self._gps()
        draws = first.sample_joint(x, normals)
        for layer in others:
            draws = layer.sample_joint(draws, normals)
        return draws

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """The layer that needs most; all but the first work on draws."""
        first, *others = self._gps()
        inner = [layer.numbers_per_row(num_samples, drawn_inputs=True) for layer in others]
        return max(first.numbers_per_row(num_samples, drawn_inputs=drawn_inputs), *inner)

    def kl(self) -> Float[Tensor, ""]:
        """Summed over layers."""
        return torch.stack([layer.kl() for layer in self._gps()]).sum()

    def log_prior(self) -> Float[Tensor, ""]:
        """Summed over layers."""
        return torch.stack([layer.log_prior() for layer in self._gps()]).sum()

    def _gps(self) -> list[IndependentGPs]:
        return cast(list[IndependentGPs], list(self.layers))
