"""The problem that both sides are timed on: sizes, rows, inducing points."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.data import Batch
from mogul.priors import kmeans


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model and of a batch; the number of hidden units is the model's own unless given."""

    num_inducing: int
    batch: int
    num_inputs: int = 21
    num_outputs: int = 14
    num_latents: int = 7
    num_hidden: int | None = None


def random_rows(sizes: Sizes, dtype: torch.dtype = torch.float32) -> Batch:
    """Standard Normal rows, the same in each call: what a step costs does not depend on what is in them."""
    generator = torch.Generator().manual_seed(0)
    num_rows = max(sizes.batch, 2 * sizes.num_inducing)  # enough for k-means to find so many centres
    x = torch.randn(num_rows, sizes.num_inputs, generator=generator, dtype=dtype)
    y = torch.randn(num_rows, sizes.num_outputs, generator=generator, dtype=dtype)
    return Batch.of(x, y)


def first_batch(data: Batch, sizes: Sizes) -> Batch:
    """The batch that all steps are timed on."""
    return data.rows(torch.arange(sizes.batch))


def inducing_points(x: Float[Tensor, "N D"], num_inducing: int, seed: int = 0) -> Float[Tensor, "M D"]:
    """Where both sides start: the library's own k-means."""
    return kmeans(x, num_inducing, torch.Generator().manual_seed(seed))
