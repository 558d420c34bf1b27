"""From data to a fitted model: the one function that users call."""

import logging
import warnings
from typing import Any

import torch

from mogul import models
from mogul.data import Dataset, Scaling
from mogul.data.checks import require_some_of_each
from mogul.errors import ConfigError, MogulWarning, NumericalError, unknown_name
from mogul.inputs import principal_scores
from mogul.training.config import TrainingConfig
from mogul.training.fitted import Fitted, FittedLatent
from mogul.training.history import History
from mogul.training.inference import InferenceConfig
from mogul.training.presets import preset as preset_config
from mogul.training.progress import TrainingProgress
from mogul.training.run import Run

_log = logging.getLogger(__name__)


def fit(
    data: Dataset,
    model: str = "n-mogp",
    config: TrainingConfig | None = None,
    *,
    preset: str | None = None,
    seed: int = 0,
    num_inputs: int = models.LATENT_INPUTS,
    **options: Any,
) -> Fitted:
    """Fit a model to data, standardised once, from the best of several random starts.

    Args:
        data: training data in their own units.
        model: one of `mogul.models.names()`; those that end in `-lvm` ignore any inputs of the data.
        config: how to train.
        preset: a named way to train instead: "default", or "paper" for the paper's protocol.
        seed: of everything random, where no config gives one.
        num_inputs: the number of latent inputs of an `-lvm` model.
        options: sizes and nonlinearity, as `mogul.models.build` takes them.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> fitted = fit(data, "mogp", TrainingConfig(epochs=2, num_starts=1))
        >>> fitted.predict([[0.5]]).mean.shape
        (1, 1)
    """
    parsed = models.Name.parse(model)
    for option in options:
        if option not in models.OPTIONS:
            raise unknown_name("option", option, models.OPTIONS)
    if config is not None and preset is not None:
        raise ConfigError(f"Give config or preset, not both; got preset {preset!r} beside a config. Drop one of them.")
    config = config or preset_config(preset or "default", model, seed)
    require_some_of_each(data.y, data.output_names)
    scaling = Scaling.of(data)
    batch = scaling.batch(data, config.dtype)
    x = principal_scores(batch.y, num_inputs) if parsed.latent else batch.x
    if not x.shape[1]:
        raise ConfigError(f"{model} needs inputs; the data have none. Give X, or fit '{model}-lvm'.")
    _log.info("%s: %s, %s, solver %s", model, config, options, options.get("solver") or "Cholesky()")
    seeds = torch.Generator().manual_seed(config.seed)
    runs = []
    for start in range(config.num_starts):
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, (1,), generator=seeds)))
        runs.append(
            Run(models.build(model, x, data.num_outputs, generator, **options), batch, config, generator, start)
        )
    best = _best_of(runs, config, label=model)
    history = History(tuple(record for run in runs for record in run.records), best.start)
    if parsed.latent:
        return FittedLatent(
            best.model,
            scaling.without_inputs(num_inputs),
            [f"latent{column}" for column in range(num_inputs)],
            data.output_names,
            history,
            training=batch,
            inference=InferenceConfig(expectation=config.expectation),
        )
    return Fitted(best.model, scaling, data.input_names, data.output_names, history)


def _best_of(runs: list[Run], config: TrainingConfig, label: str) -> Run:
    """Train each start for a while, and the best by training objective to the end."""
    trial = min(config.start_epochs, config.epochs)
    with TrainingProgress(config.epochs + (len(runs) - 1) * trial, label) as progress:
        best = runs[0] if len(runs) == 1 else _best_at_trial(runs, trial, progress)
        best.train(config.epochs, progress.advance)
    return best


def _best_at_trial(runs: list[Run], trial: int, progress: TrainingProgress) -> Run:
    alive = [run for run in runs if _survives(run, trial, progress)]
    if not alive:
        raise NumericalError(
            f"At least one random start must train; all {len(runs)} failed. "
            "Lower learning_rate, train in float64, or look for extreme values in the data."
        )
    return max(alive, key=lambda run: run.objective)


def _survives(run: Run, trial: int, progress: TrainingProgress) -> bool:
    """Train a start for its trial; one that breaks down is given up, and said so: that is what the others are for."""
    try:
        run.train(trial, progress.advance)
    except NumericalError as error:
        warnings.warn(f"Start {run.start + 1} was given up. {error}", MogulWarning, stacklevel=2)
        return False
    return True
