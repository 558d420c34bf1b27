"""A net from the outputs of a row to q(x) of its latent input, so that new rows need no search, or begin it well.

The paper's models have none: q(X*) is found by gradient steps with all else frozen. That search stays in the basin of
its start, and the nearest training row is a poor start where many outputs are missing.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.nets import TanhNet
from mogul.data import Batch
from mogul.errors import FileError
from mogul.models.model import Latent

_HIDDEN = (100, 100)
_STEPS, _BATCH, _RATE = 2000, 250, 0.005
# Half of the rows of a batch keep each of their known outputs with one probability, drawn from here to 1.
_FEWEST_KEPT = 0.3
# Bounds on log standard deviations, so that a row unlike all others has a finite one.
_LEAST_LOG_SCALE, _LARGEST_LOG_SCALE = -8.0, 1.0


class Encoder(nn.Module):
    """q(x | y) = N(μ(y), diag σ²(y)), given the outputs that are known: the net reads y, 0 where missing, and which.

    Args:
        num_outputs: the number P of outputs.
        num_inputs: the number D of latent inputs.
        generator: draws the weights.

    Example:
        >>> encoder = Encoder(3, 2, torch.Generator().manual_seed(0))
        >>> encoder.encode(Batch.of(torch.zeros(4, 0), torch.zeros(4, 3))).mean.shape
        torch.Size([4, 2])
    """

    def __init__(self, num_outputs: int, num_inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.net = TanhNet(2 * num_outputs, 2 * num_inputs, generator, hidden=_HIDDEN)

    def forward(
        self, y: Float[Tensor, "N P"], known: Float[Tensor, "N P"]
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """Means and log standard deviations of q(x); `known` is 1 where an output is observed, else 0."""
        mean, log_scale = self.net(torch.cat([y * known, known], 1)).chunk(2, dim=1)
        return mean, log_scale.clamp(_LEAST_LOG_SCALE, _LARGEST_LOG_SCALE)

    @torch.no_grad()
    def encode(self, rows: Batch) -> Latent:
        """q(x) of each row."""
        mean, log_scale = self(rows.y, rows.observed.to(rows.y))
        latent = Latent(mean)
        latent.log_scale.copy_(log_scale)
        return latent

    @staticmethod
    def fit(latent: Latent, rows: Batch, seed: int, steps: int = _STEPS) -> "Encoder":
        """Learn the q(x) of the training rows, Σ KL(q(xₙ) ‖ q(x | yₙ)) over rows and over outputs left out at random.

        The divergence in this direction covers: where the outputs left say little of x, q(x | y) is wide.

        Args:
            latent: q(X) of the training rows.
            rows: the training rows.
            seed: of weights, batches and of what is left out.
            steps: of Adam, each on up to 250 rows.
        """
        generator = torch.Generator().manual_seed(seed)
        mean, log_scale = latent.mean.detach(), latent.log_scale.detach()
        encoder = Encoder(rows.y.shape[1], mean.shape[1], generator).to(mean)
        optimiser = torch.optim.Adam(encoder.parameters(), lr=_RATE)
        seen = rows.observed.to(rows.y)
        for step in range(steps):
            optimiser.param_groups[0]["lr"] = _RATE * 0.5 * (1 + math.cos(math.pi * step / steps))
            chosen = torch.randint(len(rows), (min(_BATCH, len(rows)),), generator=generator)
            known = seen[chosen] * _kept(len(chosen), seen.shape[1], generator).to(seen)
            found, found_log_scale = encoder(rows.y[chosen], known)
            squares = (2 * log_scale[chosen]).exp() + (mean[chosen] - found).square()
            loss = (found_log_scale + 0.5 * squares * (-2 * found_log_scale).exp()).sum(1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return encoder.eval()

    @staticmethod
    def stored(tensors: dict[str, Tensor], num_outputs: int, num_inputs: int, like: Tensor) -> "Encoder":
        """The encoder with the tensors of a file."""
        encoder = Encoder(num_outputs, num_inputs, torch.Generator().manual_seed(0)).to(like)
        own = encoder.state_dict()
        for name, tensor in own.items():
            if name not in tensors or tensors[name].shape != tensor.shape or tensors[name].dtype != tensor.dtype:
                raise FileError(f"An encoder must have {name} of {tuple(tensor.shape)}; it has not. Save it again.")
        encoder.load_state_dict({name: tensors[name] for name in own})
        return encoder.eval()


def _kept(num_rows: int, num_outputs: int, generator: torch.Generator) -> Float[Tensor, "B P"]:
    """1 where an output is kept: all of the first half of the rows, and a share of the others, drawn for each."""
    share = _FEWEST_KEPT + (1 - _FEWEST_KEPT) * torch.rand(num_rows, 1, generator=generator)
    kept = (torch.rand(num_rows, num_outputs, generator=generator) < share).double()
    kept[: num_rows // 2] = 1.0
    return kept
