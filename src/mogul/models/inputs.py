"""Inputs of a model: observed, or latent with a posterior per row."""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.moments import Marginals, normal_kl_each, standard_normal
from mogul.data.dataset import Batch


@runtime_checkable
class Inputs(Protocol):
    """Source of the inputs of rows."""

    def draw(self, batch: Batch, generator: torch.Generator) -> Float[Tensor, "N D"]:
        """Inputs of the rows of the batch: one draw of each."""
        ...

    def kl(self, batch: Batch) -> Float[Tensor, "N"]:
        """KL of the latent inputs of each row."""
        ...


class Observed(nn.Module):
    """Inputs that are given."""

    def draw(self, batch: Batch, generator: torch.Generator) -> Float[Tensor, "N D"]:
        """The inputs of the batch."""
        return batch.x

    def kl(self, batch: Batch) -> Float[Tensor, "N"]:
        """Zero: nothing is latent."""
        return batch.x.new_zeros(len(batch))


class Latent(nn.Module):
    """Inputs with a unit Normal prior and a diagonal Normal q(xᵢ) for each row: Eq. (mogplvm).

    Args:
        start: (N, D), where the means of q(X) start.
        scale: the standard deviations' start.

    Example:
        >>> latent = Latent(torch.zeros(4, 2))
        >>> latent.draw(Batch.of(torch.zeros(4, 0), torch.zeros(4, 3)), torch.Generator()).shape
        torch.Size([4, 2])
    """

    def __init__(self, start: Float[Tensor, "N D"], scale: float = 0.1) -> None:
        super().__init__()
        self.mean = nn.Parameter(start.detach().clone())
        self.log_scale = nn.Parameter(torch.full_like(start, math.log(scale)))

    def draw(self, batch: Batch, generator: torch.Generator) -> Float[Tensor, "N D"]:
        """One reparameterised draw of each row's latent input."""
        mean, log_scale = self.mean[batch.index], self.log_scale[batch.index]
        return mean + torch.exp(log_scale) * standard_normal(mean.shape, generator, like=mean)

    def kl(self, batch: Batch) -> Float[Tensor, "N"]:
        """KL(q(xᵢ) ‖ N(0, 1)) of each row."""
        return normal_kl_each(self.mean[batch.index], self.log_scale[batch.index]).sum(-1)

    def marginals(self) -> Marginals:
        """q(X) of all rows."""
        return Marginals(self.mean, torch.exp(2 * self.log_scale))


def principal_scores(y: Float[Tensor, "N P"], num_inputs: int) -> Float[Tensor, "N D"]:
    """Where latent inputs start: the leading principal components of y, each of unit variance.

    Components beyond the rank of y are zero; draws of q(X) break the symmetry of those axes.

    >>> principal_scores(torch.tensor([[1.0], [-1.0]]), 2).abs().round().tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    left, size, _ = torch.linalg.svd(y - y.mean(0), full_matrices=False)
    kept = int((size[:num_inputs] > size[0] * torch.finfo(y.dtype).eps * len(y)).sum())
    return torch.nn.functional.pad(left[:, :kept] * len(y) ** 0.5, (0, num_inputs - kept))
