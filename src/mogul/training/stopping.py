"""When training has given what it can."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from mogul._typing import Array
from mogul.data import Batch
from mogul.errors import NumericalError
from mogul.models.model import Model
from mogul.objective import row_log_predictive
from mogul.prediction.row_density import HeadDensity, has_shared_draws

# After each epoch the score of no more rows than these is computed.
_MOST_ROWS = 2000


@torch.no_grad()
def held_out_score(model: Model, rows: Batch, generator: torch.Generator, num_samples: int = 10) -> float:
    """Log likelihood per observed output value, joint over the outputs of a row: see `mogul.prediction.row_density`.

    Of many rows an evenly spaced part is scored, the same each time.
    """
    was_training = model.training
    model.eval()
    if len(rows) > _MOST_ROWS:
        rows = rows.rows(torch.linspace(0, len(rows) - 1, _MOST_ROWS).round().long())
    total, count = 0.0, int(rows.observed.sum())
    for part in torch.arange(len(rows)).split(1000):  # type: ignore[no-untyped-call]  # torch's own
        total += float(_row_log_densities(model, rows.rows(part), generator, num_samples).sum())
    model.train(was_training)
    if not math.isfinite(total):
        raise NumericalError(
            f"The log likelihood of held-out rows must be finite; it is {total}. "
            "Lower learning_rate, or train in float64."
        )
    return total / max(1, count)


def _row_log_densities(
    model: Model, rows: Batch, generator: torch.Generator, num_samples: int
) -> Float[Tensor, "N"] | Float[Array, "N"]:
    q = model.prior(rows.x, num_samples, generator)
    if has_shared_draws(q, rows.x):
        y = torch.where(rows.observed, rows.y.double(), math.nan)
        return HeadDensity.of(model, q, rows.x, generator).log_density(y.cpu().numpy(), quick=True)
    signal = model.mean.widened(model.head.moments(q, rows.x, generator), rows.x)
    return row_log_predictive(model, rows, signal, model.head.noise(rows.x, generator))
