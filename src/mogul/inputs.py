"""Inputs of a model: observed."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.data.batches import Batch


class Observed(nn.Module):
    """Inputs that are given."""

    def draw(self, batch: Batch, generator: torch.Generator) -> Float[Tensor, "N D"]:
        """The inputs of the batch."""
        return batch.x

    def kl(self, batch: Batch) -> Float[Tensor, "N"]:
        """Nothing latent per row."""
        return batch.x.new_zeros(len(batch.x))
