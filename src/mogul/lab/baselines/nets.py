"""An ensemble of small neural nets, with noise that is constant or given by the nets themselves."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.core.moments import Marginals
from mogul.core.nets import TanhNet
from mogul.data import Batch, Dataset
from mogul.lab.baselines.residual import ResidualProblem
from mogul.prediction import Prediction

# In units of the plane's residual: a net that meets an output that never moves must not believe in no noise at all.
SMALLEST_LOG_VAR, LARGEST_LOG_VAR = -12.0, 6.0
NOISE_FLOOR = math.exp(SMALLEST_LOG_VAR / 2)


@dataclass(frozen=True)
class NetConfig:
    """How each net of the ensemble is made and trained."""

    num_nets: int = 5
    hidden: tuple[int, ...] = (64, 64)
    num_steps: int = 4000
    batch_size: int = 256
    learning_rate: float = 5e-3
    held_out: float = 0.1
    check_every: int = 50
    patience: int = 12


Head = Callable[[Float[Tensor, "N K"]], Marginals]


def predict_nets(train: Dataset, test: Dataset, seed: int, config: NetConfig | None = None) -> Prediction:
    """Nets trained by squared error on the residual of a plane; the noise is that of rows held out."""
    return _predict(train, test, seed, config or NetConfig(), noise_by_net=False)


def predict_noise_nets(train: Dataset, test: Dataset, seed: int, config: NetConfig | None = None) -> Prediction:
    """The same nets with a second output for the log variance, trained by the Normal log likelihood."""
    return _predict(train, test, seed, config or NetConfig(), noise_by_net=True)


def _predict(train: Dataset, test: Dataset, seed: int, config: NetConfig, noise_by_net: bool) -> Prediction:
    problem = ResidualProblem.of(train)
    x = problem.inputs(test)
    generator = torch.Generator().manual_seed(seed)
    components = [_components(problem.rows, x, config, noise_by_net, generator) for _ in range(config.num_nets)]
    means, variances = zip(*((each.mean, each.var) for each in components), strict=True)
    return problem.restore(Marginals(torch.stack(means), torch.stack(variances)), test)


def _components(
    rows: Batch, x: Float[Tensor, "N D"], config: NetConfig, noise_by_net: bool, generator: torch.Generator
) -> Marginals:
    """What one net says about x."""
    order = torch.randperm(len(rows), generator=generator)
    num_held_out = max(1, round(config.held_out * len(rows)))
    watched = rows.rows(order[:num_held_out])
    trained = rows.rows(order[num_held_out:]) if num_held_out < len(rows) else watched
    num_outputs = rows.y.shape[1]
    net = TanhNet(x.shape[1], num_outputs * (1 + noise_by_net), generator, hidden=config.hidden, output_scale=0.1)
    head: Head = _split if noise_by_net else _unit_noise
    _train(net, head, trained, watched, config, generator)
    with torch.no_grad():
        said = head(net(x))
        if noise_by_net:
            return said
        noise = torch.maximum(*(_mean_square(head(net(part.x)).mean, part) for part in (watched, trained)))
        return Marginals(said.mean, noise.expand_as(said.mean))


def _train(
    net: TanhNet, head: Head, trained: Batch, watched: Batch, config: NetConfig, generator: torch.Generator
) -> None:
    """Adam with a rate that falls to zero, until the rows held out no longer gain; the best net is kept."""
    optimiser = torch.optim.Adam(net.parameters(), lr=config.learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.num_steps)
    best, best_loss, last_gain = copy.deepcopy(net.state_dict()), math.inf, 0
    for step in range(config.num_steps):
        batch = trained.rows(torch.randint(len(trained), (min(config.batch_size, len(trained)),), generator=generator))
        optimiser.zero_grad()
        _loss(head(net(batch.x)), batch).backward()  # type: ignore[no-untyped-call]  # torch's own
        optimiser.step()
        schedule.step()
        if (step + 1) % config.check_every == 0:
            with torch.no_grad():
                loss = float(_loss(head(net(watched.x)), watched))
            if loss < best_loss:
                best, best_loss, last_gain = copy.deepcopy(net.state_dict()), loss, step
            elif step - last_gain >= config.patience * config.check_every:
                break
    net.load_state_dict(best)


def _unit_noise(raw: Float[Tensor, "N P"]) -> Marginals:
    """Noise of unit variance: the Normal log likelihood is then the squared error."""
    return Marginals(raw, torch.ones_like(raw))


def _split(raw: Float[Tensor, "N K"]) -> Marginals:
    """The first half are means, the second log variances."""
    mean, log_var = raw.chunk(2, dim=-1)
    return Marginals(mean, log_var.clamp(SMALLEST_LOG_VAR, LARGEST_LOG_VAR).exp())


def _loss(said: Marginals, batch: Batch) -> Float[Tensor, ""]:
    """−log N(y | mean, var) per observed value, up to a constant."""
    each = 0.5 * (said.var.log() + (batch.y - said.mean).square() / said.var)
    return (each * batch.observed).sum() / batch.observed.sum().clamp(min=1)


def _mean_square(mean: Float[Tensor, "N P"], batch: Batch) -> Float[Tensor, "P"]:
    squares = (batch.y - mean).square() * batch.observed
    smallest = math.exp(SMALLEST_LOG_VAR)
    return (squares.sum(0) / batch.observed.sum(0).clamp(min=1)).clamp(min=smallest)
