"""How long the peer trains until it reaches a test log likelihood."""

import math

import torch
from jaxtyping import Float
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from benchmarks.peer import build_peer, peer_trainer
from benchmarks.scores import score_peer
from benchmarks.timing import Stopwatch
from mogul.data import Batch

LEARNING_RATES = (0.01, 0.03, 0.1)


def train_until(
    target_ll: float,
    x: Float[Tensor, "N D"],
    y: Float[Tensor, "N P"],
    x_test: Float[Tensor, "K D"],
    y_test: Float[Tensor, "K P"],
    learning_rate: float,
    max_seconds: float,
    *,
    num_latents: int = 7,
    num_inducing: int = 400,
    batch_size: int = 500,
) -> float | None:
    """Seconds from the start, k-means included and evaluation after each epoch not, or None if it takes longer."""
    watch = Stopwatch()
    peer = build_peer(x, y.shape[1], num_latents, num_inducing)
    step = peer_trainer(peer, len(x), learning_rate)
    data, generator = Batch.of(x, y), torch.Generator().manual_seed(0)
    while True:
        for batch in data.minibatches(batch_size, generator):
            try:
                step(batch.x, batch.y)
            except (NanError, NotPSDError):
                return None  # this learning rate is too high for it
            if watch.seconds > max_seconds:
                return None
        with watch.paused():
            ll = score_peer(peer, x_test, y_test).ll
        if ll >= target_ll:
            return watch.seconds
        if math.isnan(ll):
            return None


def fastest_rate(
    target_ll: float,
    train: Batch,
    test: Batch,
    max_seconds: float,
    *,
    learning_rates: tuple[float, ...] = LEARNING_RATES,
    num_latents: int = 7,
    num_inducing: int = 400,
    batch_size: int = 500,
) -> float | None:
    """The least time of several learning rates; a slower one is given up once it cannot be the fastest."""
    best: float | None = None
    for learning_rate in learning_rates:
        found = train_until(
            target_ll,
            train.x,
            train.y,
            test.x,
            test.y,
            learning_rate,
            max_seconds if best is None else best,
            num_latents=num_latents,
            num_inducing=num_inducing,
            batch_size=batch_size,
        )
        best = found if found is not None else best
    return best
