"""From data to a fitted model: the one function that users call."""

import logging
import math
import warnings
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch

from mogul import models
from mogul.data import Batch, Dataset, Scaling
from mogul.data.checks import require_some_of_each
from mogul.errors import ConfigError, MogulWarning, NumericalError, unknown_name
from mogul.inputs import principal_scores
from mogul.model import Model
from mogul.output_mean import LinearOutputMean
from mogul.training.blueprint import Blueprint
from mogul.training.config import TrainingConfig
from mogul.training.fitted import Fitted, FittedLatent
from mogul.training.history import EpochRecord, History
from mogul.training.inference import InferenceConfig
from mogul.training.presets import preset as preset_config
from mogul.training.progress import TrainingProgress
from mogul.training.run import Run

MeanChoice = Literal["linear", "paper", "zero", "constant"]

_log = logging.getLogger(__name__)


def fit(
    data: Dataset,
    model: str = "n-mogp",
    config: TrainingConfig | None = None,
    *,
    preset: str | None = None,
    seed: int = 0,
    mean: MeanChoice | None = None,
    num_inputs: int = models.LATENT_INPUTS,
    on_epoch: Callable[[EpochRecord, Model], None] | None = None,
    **options: Any,
) -> Fitted:
    """Fit a model to data, standardised once, from the best of several random starts.

    Args:
        data: training data in their own units.
        model: one of `mogul.models.names()`; those that end in `-lvm` ignore any inputs of the data.
        config: how to train; the mean is not part of it, so a config of the paper's wants mean="paper" beside it.
        preset: a named way to train instead: "default", or "paper" for the paper's protocol.
        seed: of everything random, where no config gives one.
        mean: "linear" fits a plane by least squares and models its residual: the default. "paper" has none of that, and
            each model's latent GPs have the paper's means (the default of the paper's preset and of latent inputs);
            "zero" and "constant" choose the latent GPs' means.
        num_inputs: the number of latent inputs of an `-lvm` model.
        on_epoch: called after each epoch with its record and the model, which it must not change.
        options: sizes and nonlinearity, as `mogul.models.build` takes them.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> fitted = fit(data, "mogp", TrainingConfig(epochs=2, num_starts=1))
        >>> fitted.predict([[0.5]]).mean.shape
        (1, 1)
    """
    parsed = models.Name.parse(model)
    known_options = [option for option in models.OPTIONS if option not in {"latent_mean", "output_mean"}]  # see `mean`
    for option in options:
        if option not in known_options:
            raise unknown_name("option", option, known_options)
    if config is not None and preset is not None:
        raise ConfigError(f"Give config or preset, not both; got preset {preset!r} beside a config. Drop one of them.")
    config = config or preset_config(preset or "default", model, seed, data.num_rows)
    require_some_of_each(data.y, data.output_names)
    scaling = Scaling.of(data)
    batch = scaling.batch(data, config.dtype)
    if parsed.latent and config.stopping and config.stopping.held_out:
        raise ConfigError("held_out must be 0 with latent inputs, which belong to the rows trained on. Watch the ELBO.")
    seeds = torch.Generator().manual_seed(config.seed)
    known, held_out = config.stopping.split(batch) if config.stopping else (batch, None)
    x = principal_scores(known.y, num_inputs) if parsed.latent else known.x
    if not x.shape[1]:
        raise ConfigError(f"{model} needs inputs; the data have none. Give X, or fit '{model}-lvm'.")
    options |= _means(mean or _default_mean(parsed, preset), known, parsed)
    _log.info("%s: %s, %s, solver %s", model, config, options, options.get("solver") or "Cholesky()")
    runs = []
    for start in range(config.num_starts):
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, (1,), generator=seeds)))
        runs.append(
            Run(
                models.build(model, x, data.num_outputs, generator, **options),
                known,
                config,
                generator,
                start,
                held_out,
            )
        )
    best = _best_of(runs, config, on_epoch, label=model)
    history = History(tuple(record for run in runs for record in run.records), best.start)
    blueprint = Blueprint.of(model, options, x.shape[1], data.num_outputs, config)
    if parsed.latent:
        return FittedLatent(
            best.model,
            scaling.without_inputs(num_inputs),
            [f"latent{column}" for column in range(num_inputs)],
            data.output_names,
            history,
            training=batch,
            inference=InferenceConfig(expectation=config.expectation),
            blueprint=blueprint,
        )
    return Fitted(best.model, scaling, data.input_names, data.output_names, history, blueprint=blueprint)


def _default_mean(name: models.Name, preset: str | None) -> MeanChoice:
    return "paper" if name.latent or preset == "paper" else "linear"


def _means(choice: MeanChoice, batch: Batch, name: models.Name) -> dict[str, Any]:
    """The options of `build` that a choice of mean stands for."""
    match choice:
        case "paper":
            return {}
        case "zero" | "constant":
            return {"latent_mean": choice}
        case "linear":
            if name.latent:
                raise ConfigError("mean='linear' needs inputs that are observed; latent ones are not. Use 'paper'.")
            y = torch.where(batch.observed, batch.y, math.nan)
            return {"output_mean": LinearOutputMean.fit(batch.x.double().numpy(), y.double().numpy())}
        case _:
            raise unknown_name("mean", choice, get_args(MeanChoice))


def _best_of(
    runs: list[Run],
    config: TrainingConfig,
    on_epoch: Callable[[EpochRecord, Model], None] | None,
    label: str,
) -> Run:
    """Train each start for a while, and the best by training objective to the end."""
    trial = min(config.start_epochs, config.epochs)
    with TrainingProgress(config.epochs + (len(runs) - 1) * trial, label) as progress:

        def watch(run: Run) -> Callable[[EpochRecord], None]:
            def each(record: EpochRecord) -> None:
                progress.advance(record)
                if on_epoch is not None:
                    on_epoch(record, run.model)

            return each

        best = runs[0] if len(runs) == 1 else _best_at_trial(runs, trial, watch)
        best.train(config.epochs, watch(best))
    return best


def _best_at_trial(runs: list[Run], trial: int, watch: Callable[[Run], Callable[[EpochRecord], None]]) -> Run:
    alive = [run for run in runs if _survives(run, trial, watch(run))]
    if not alive:
        raise NumericalError(
            f"At least one random start must train; all {len(runs)} failed. "
            "Lower learning_rate, train in float64, or look for extreme values in the data."
        )
    return max(alive, key=lambda run: run.objective)


def _survives(run: Run, trial: int, on_epoch: Callable[[EpochRecord], None]) -> bool:
    """Train a start for its trial; one that breaks down is given up, and said so: that is what the others are for."""
    try:
        run.train(trial, on_epoch)
    except NumericalError as error:
        warnings.warn(f"Start {run.start + 1} was given up. {error}", MogulWarning, stacklevel=2)
        return False
    return True
