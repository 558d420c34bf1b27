"""When training has given what it can."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.arrays import Array
from mogul.data import Batch
from mogul.errors import ConfigError, NumericalError, require_positive
from mogul.model import Model
from mogul.objective import row_log_predictive
from mogul.row_density import HeadDensity, has_shared_draws

# After each epoch the score of no more rows than these is computed.
_MOST_ROWS = 2000


@dataclass(frozen=True)
class Stopping:
    """Ends each learning rate when it no longer helps, and training with the last of them.

    A rate that leaves things as they are is followed by the next. Where the next leaves them so, too, training ends. An
    ELBO that falls is one that steps were too large for: then the next rate begins in any case.

    What is watched is the ELBO, or the log likelihood of rows held out of training; then the best state is kept, too.
    Rows are held out at random. Where they follow each other in time, a row between two neighbours that are trained on
    is no test, and whole groups should be held out: by trajectory, F-Baxter's LL falls from its sixth epoch on, and
    that of random rows goes on rising.

    Args:
        patience: the means over so many epochs and over as many before them are compared.
        tolerance: the least gain that counts, in nats per observed output value.
        held_out: share of the rows that are held out; 0 watches the ELBO.

    Example:
        >>> Stopping(patience=2).is_flat([0.0, 1.0, 1.0, 1.0]), Stopping(patience=2).is_flat([0.0, 1.0, 1.0, 1.0, 1.0])
        (False, True)
    """

    patience: int = 4
    tolerance: float = 2e-3
    held_out: float = 0.0

    def __post_init__(self) -> None:
        require_positive(patience=self.patience)
        if not 0 <= self.held_out < 1:
            raise ConfigError(f"held_out must be in [0, 1); got {self.held_out}. 0.1 holds out a tenth of the rows.")

    def is_flat(self, values: Sequence[float]) -> bool:
        """Whether the last epochs are no better than those before them."""
        return self._gain(values) < self.tolerance

    def is_falling(self, values: Sequence[float]) -> bool:
        """Whether the last epochs are worse than those before them."""
        return self._gain(values) < -self.tolerance

    def _gain(self, values: Sequence[float]) -> float:
        """From the mean of some epochs to that of the next; without limit where there are too few to say."""
        recent, before = values[-self.patience :], values[-2 * self.patience : -self.patience]
        return (sum(recent) - sum(before)) / self.patience if len(before) == self.patience else math.inf


@torch.no_grad()
def held_out_score(model: Model, rows: Batch, generator: torch.Generator, num_samples: int = 10) -> float:
    """Log likelihood per observed output value, joint over the outputs of a row: see `mogul.row_density`.

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
