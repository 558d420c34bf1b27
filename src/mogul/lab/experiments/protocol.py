"""How the experiments train: by the paper's protocol, to its optimum in less time, as `mogul fit` does, or roughly."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, cast, get_args

import torch
from threadpoolctl import threadpool_limits

from mogul.errors import ConfigError, unknown_name
from mogul.lab.experiments.lines import Line
from mogul.models import LATENT_INDUCING
from mogul.models.families import Name, is_latent, members
from mogul.objective import Analytic
from mogul.training import NoiseUpdate, TrainingConfig
from mogul.training.defaults import preset as training_preset

ProtocolName = Literal["fast", "default", "paper", "paper-fast"]
# Of Kuka's size; of fewer rows as many epochs as make the same number of steps.
FAST_EPOCHS, FAST_STEPS = 12, 360
# Half the paper's: a step takes two fifths of the time (docs/performance.md).
FAST_INDUCING = 200
# On a plane, with many rows: what `results/` was made with. The default's 0.02 came later, and is better at random.
FAST_RATE = 0.01
# Appendix, Regression: rows per step; 500 elsewhere.
PAPER_BATCHES = {"halfcheetah": 1000, "rhythmic-arm": 250, "baxter-rand": 250}
# A simulated set can be had in any size: a few episodes of it tell models apart in minutes.
FAST_ROWS = {"halfcheetah": 6_600}


def require_preset(name: str) -> ProtocolName:
    """Check the name of a preset."""
    for known in get_args(ProtocolName):
        if name == known:
            return cast(ProtocolName, known)
    raise unknown_name("preset", name, get_args(ProtocolName))


def fast(line: Line, num_train: int, epochs: int | None, seed: int) -> TrainingConfig:
    """Closed-form expectations and noise, one start, few epochs."""
    way = _fast_on_a_plane if line.linear else _fast
    return _alike(line, lambda model: way(model, num_train, epochs, seed))


def capped(options: Mapping[str, Any], model: str, preset: ProtocolName, inducing: int | None) -> dict[str, Any]:
    """The options of a model with at most `inducing` inducing points in its first layer.

    By default the fast preset has `FAST_INDUCING`, unless the experiment has a number of its own. All models of a
    mixture have the same number, even if one alone would have fewer.

    >>> capped({}, "mogp", "fast", None), capped({"num_inducing": 250}, "mogp", "fast", 50)
    ({'num_inducing': 200}, {'num_inducing': 50})
    """
    own = options.get("num_inducing")
    papers = LATENT_INDUCING if is_latent(model) else max(Name.parse(one).recipe.num_inducing for one in members(model))
    most = inducing or (FAST_INDUCING if preset == "fast" and own is None else None)
    return dict(options) if most is None or (own or papers) <= most else {**options, "num_inducing": most}


def default(line: Line, num_train: int, epochs: int | None, seed: int, *, grouped: bool) -> TrainingConfig:
    """As `mogul fit` and `MultiOutputGPRegressor` train."""
    config = _alike(line, lambda model: training_preset("default", model, seed, num_train, grouped=grouped))
    return config if epochs is None else config.within(epochs)


def paper(line: Line, dataset: str, num_train: int, epochs: int | None, seed: int) -> TrainingConfig:
    """The paper's protocol, with its batch for these data or for those they stand in for."""
    config = _alike(line, lambda model: training_preset("paper", model, seed, num_train))
    deep = any(Name.parse(model).recipe.deep for model in members(line.model))
    rows = PAPER_BATCHES.get(dataset, 500) * (2 if deep else 1)
    config = replace(config, batch_size=rows)
    return config if epochs is None else config.within(epochs)


def paper_fast(line: Line, num_train: int, epochs: int | None, seed: int) -> TrainingConfig:
    """The paper's models and objective, with starts and steps that reach its optimum sooner."""
    config = _alike(line, lambda model: training_preset("paper-fast", model, seed, num_train))
    return config if epochs is None else config.within(epochs)


def _alike(line: Line, way: Callable[[str], TrainingConfig]) -> TrainingConfig:
    """How a model is trained, or all models of a mixture: a record has one configuration."""
    first, *others = members(line.model)
    config = way(first)
    for other in others:
        if way(other) != config:
            raise ConfigError(
                f"Models of a mixture must be trained alike; got {line.label}, of which {other} is not trained as "
                f"{first} is. Leave out one of them."
            )
    return config


def _fast_epochs(num_train: int, batch_size: int) -> int:
    return max(FAST_EPOCHS, math.ceil(FAST_STEPS / math.ceil(num_train / batch_size)))


def _fast(model: str, num_train: int, epochs: int | None, seed: int) -> TrainingConfig:
    """Stepwise rates, annealing for deep models.

    Those also have small batches and one draw of the inner layer: with the paper's 1,000 rows and five draws, even 30
    epochs of Kuka are 450 steps, too few for hidden units on top of two layers to learn.
    """
    recipe = Name.parse(model).recipe
    batch_size = 250 if recipe.deep else recipe.batch_size
    epochs = epochs or _fast_epochs(num_train, batch_size)
    return TrainingConfig(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=0.02,
        milestones=(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        decay=0.65,
        anneal_epochs=min(recipe.anneal_epochs, epochs // 5),
        num_starts=1,
        expectation=Analytic(),
        updates=(NoiseUpdate(),),
        precision="float32",
        seed=seed,
    )


def _fast_on_a_plane(model: str, num_train: int, epochs: int | None, seed: int) -> TrainingConfig:
    """The default way to train, which ends when it no longer helps; deep models take the small steps of `_fast`."""
    config = training_preset("default", model, seed, num_train)
    if Name.parse(model).recipe.deep:
        config = replace(config, batch_size=250, expectation=Analytic())
    if config.num_starts == 1:  # many rows: an epoch is many steps
        config = replace(config, learning_rate=FAST_RATE)
        config = config.within(min(config.epochs, _fast_epochs(num_train, config.batch_size)))
    return config if epochs is None else config.within(epochs)


@contextmanager
def fixed_threads(number: int) -> Iterator[None]:
    """Compute with this number of threads, and return to the former number.

    Sums are then added in the same order on every machine. With one thread a fit does not wait for threads that share
    a busy core: matrices of a few hundred rows gain little from a second one.

    >>> before = torch.get_num_threads()
    >>> with fixed_threads(1):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with threadpool_limits(number):
            yield
    finally:
        torch.set_num_threads(before)
