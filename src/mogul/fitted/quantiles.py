"""Quantiles of the mixture behind a frozen predictor, by a fixed number of steps."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.fitted.predictor import PooledPredictor, Predictor
from mogul.nonlinearities.gaussian import cdf, pdf

# The interval that holds a quantile is narrowed to a ninth in each round, and Newton steps follow: 12 digits.
_PLACES, _ROUNDS, _NEWTON_STEPS = 8, 6, 4


class MixtureQuantiles(nn.Module):
    """Quantiles of each output, in standardised units, of the mixture over members, inner layers and noise scales.

    The signal of each draw or site of a deep model's inner layers is taken to be Normal with its moments; noise with a
    random scale is a mixture over the nodes of its law. `Prediction.quantiles` draws the signal in their place.

    Args:
        predictor: whose quantiles.
        levels: between 0 and 1.
    """

    places: Tensor
    levels: Tensor
    normal: Tensor

    def __init__(self, predictor: Predictor | PooledPredictor, levels: Sequence[float]) -> None:
        super().__init__()
        self.members = nn.ModuleList(predictor.singles)
        shape = (-1, 1, 1)
        values = torch.tensor(list(levels), dtype=torch.float64).reshape(shape)
        self.register_buffer("places", torch.arange(1.0, _PLACES + 1).to(predictor.dtype))
        self.register_buffer("levels", values.to(predictor.dtype))
        self.register_buffer("normal", torch.special.ndtri(values).to(predictor.dtype))

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "Q N P"]:
        """Quantiles at standardised rows."""
        parts = [_components(member, x) for member in self.members if isinstance(member, Predictor)]
        # Components are the last axis: (1, N, P, C) beside levels (Q, 1, 1, 1).
        mean, std, weight = (torch.cat(part, 0).movedim(0, -1) for part in zip(*parts, strict=True))
        weight = weight / len(parts)
        # A quantile of a mixture is between the smallest and the largest of its components'.
        each = mean + std * self.normal.unsqueeze(-1)
        low, high = each.amin(-1), each.amax(-1)
        inside = (mean.unsqueeze(-2), std.unsqueeze(-2), weight.unsqueeze(-2))  # beside points within the interval
        for _ in range(_ROUNDS):
            width = (high - low) / (len(self.places) + 1)
            points = low.unsqueeze(-1) + width.unsqueeze(-1) * self.places
            reached = (inside[2] * cdf((points.unsqueeze(-1) - inside[0]) / inside[1])).sum(-1)
            low = low + width * (reached < self.levels.unsqueeze(-1)).to(width.dtype).sum(-1)
            high = low + width
        quantile = 0.5 * (low + high)
        for _ in range(_NEWTON_STEPS):
            gap = (quantile.unsqueeze(-1) - mean) / std
            excess = (weight * cdf(gap)).sum(-1) - self.levels
            density = (weight * pdf(gap) / std).sum(-1).clamp_min(torch.finfo(x.dtype).tiny)
            quantile = torch.minimum(torch.maximum(quantile - excess / density, low), high)
        return quantile


def _components(
    member: Predictor, x: Float[Tensor, "N D"]
) -> tuple[Float[Tensor, "C N P"], Float[Tensor, "C N P"], Float[Tensor, "C N P"]]:
    """Mean, standard deviation and weight of each component: one for each draw or site, and node of the noise."""
    signal, generator = member.components(x), torch.Generator(x.device)
    mean, var = (part.reshape(-1, 1, *part.shape[-2:]) for part in (signal.mean, signal.var))
    share = torch.full_like(mean[..., :1, :1], 1 / mean.shape[0])
    if signal.log_weight is not None:
        share = signal.log_weight.exp().reshape(-1, 1, 1, 1)
    nodes = member.frozen.head.noise.forward(x, generator).variance_nodes()
    noise_var, noise_share = (_with_rows(part) for part in (nodes.value, nodes.log_weight.exp()))
    std = (var + member.square_scale * noise_var).sqrt()
    weight = (share * noise_share).expand_as(std)
    return mean.expand_as(std).flatten(0, 1), std.flatten(0, 1), weight.flatten(0, 1)


def _with_rows(part: Float[Tensor, "K *N P"]) -> Float[Tensor, "K _ P"]:
    """With an axis of rows, also where it is the same for all."""
    return part if part.dim() == 3 else part.unsqueeze(1)
