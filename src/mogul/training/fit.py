"""From data to a fitted model: the one function that users call."""

import logging
import math
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from mogul import models
from mogul.data import Batch, Dataset, Scaling
from mogul.data.advice import advice
from mogul.data.checks import require_some_of_each
from mogul.errors import ConfigError, MogulWarning, unknown_name
from mogul.inputs import principal_scores
from mogul.model import Model
from mogul.objective import Analytic
from mogul.output_mean import LinearOutputMean
from mogul.training.blueprint import Blueprint
from mogul.training.checkpoint import Checkpoint, identity_of
from mogul.training.config import TrainingConfig
from mogul.training.course import best_trained
from mogul.training.fitted import Fitted, FittedLatent
from mogul.training.history import EpochRecord
from mogul.training.inference import InferenceConfig
from mogul.training.presets import preset as preset_config
from mogul.training.run import Run
from mogul.training.starts import Starts

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
    num_inputs: int | None = None,
    on_epoch: Callable[[EpochRecord, Model], None] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
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
        num_inputs: the number of latent inputs of an `-lvm` model; 4 by default.
        on_epoch: called after each epoch with its record and the model, which it must not change; epochs that are gone
            back on come again.
        checkpoint: a folder for a file from which the same call goes on, should this one be killed: on the same
            machine, to the same model, bit for bit. It is kept at the end, and the same call then trains nothing.
        checkpoint_seconds: how long to wait between writings of that file, which come at ends of epochs.
        options: sizes and nonlinearity, as `mogul.models.build` takes them, of which the model must have a use.

    Ctrl-C ends training, and gives the best start as it was after its last whole epoch, with a warning. A training that
    leaves the range of numbers goes back to smaller steps and more jitter, up to three times.

    Raises:
        FitError: no start could be trained.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> fitted = fit(data, "mogp", TrainingConfig(epochs=2, num_starts=1))
        >>> fitted.predict([[0.5]]).mean.shape
        (1, 1)
    """
    parsed = models.Name.parse(model)
    _require_used(options, num_inputs, model)
    if config is not None and preset is not None:
        raise ConfigError(f"Give config or preset, not both; got preset {preset!r} beside a config. Drop one of them.")
    config = config or preset_config(preset or "default", model, seed, data.num_rows)
    options |= _sites(parsed, config, options)
    mean = mean or _default_mean(parsed, preset)
    num_inputs = models.LATENT_INPUTS if num_inputs is None else num_inputs
    require_some_of_each(data.y, data.output_names)
    saved = None
    if checkpoint is not None:
        identity = identity_of(data, model=model, config=config, mean=mean, num_inputs=num_inputs, options=options)
        saved = Checkpoint(Path(checkpoint), identity, checkpoint_seconds)
    scaling = Scaling.of(data)
    batch = scaling.batch(data, config.dtype)
    if parsed.latent and config.stopping and config.stopping.held_out:
        raise ConfigError("held_out must be 0 with latent inputs, which belong to the rows trained on. Watch the ELBO.")
    seeds = torch.Generator().manual_seed(config.seed)
    known, held_out = config.stopping.split(batch) if config.stopping else (batch, None)
    x = principal_scores(known.y, num_inputs) if parsed.latent else known.x
    if not x.shape[1]:
        raise ConfigError(f"{model} needs inputs; the data have none. Give X, or fit '{model}-lvm'.")
    _advise(data.without_inputs() if parsed.latent else data, known, options)
    options |= _means(mean, known, parsed)
    _log.info("%s: %s, %s, solver %s", model, config, options, options.get("solver") or "Cholesky()")
    runs = []
    for start in range(config.num_starts):
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, (1,), generator=seeds)))
        built = models.build(model, x, data.num_outputs, generator, **options)
        runs.append(Run(built, known, config, generator, start, held_out))
    starts = Starts(runs, config)
    if saved is not None:
        saved.restore(starts)
    best = best_trained(starts, model, on_epoch, saved)
    history = starts.history(best)
    blueprint = Blueprint.of(model, options, x.shape[1], data.num_outputs, config).solved_by(best.solver)
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


def _require_used(options: dict[str, Any], num_inputs: int | None, model: str) -> None:
    """Check that there are such options, and that the model has a use for each."""
    known = [option for option in models.OPTIONS if option not in {"latent_mean", "output_mean"}]  # see `mean`
    for option in options:
        if option not in known:
            raise unknown_name("option", option, known)
    models.require_used(model, options)
    if num_inputs is not None and not models.Name.parse(model).latent:
        raise ConfigError(f"num_inputs is for latent inputs; got {num_inputs} for {model}. Leave it out.")


def _sites(name: models.Name, config: TrainingConfig, options: dict[str, Any]) -> dict[str, int]:
    """Sites of a deep model that learns them: its predictive log likelihood, in closed form, says where they help."""
    learnt = config.objective == "predictive" and isinstance(config.expectation, Analytic)
    if options.get("num_sites") is not None and not learnt:
        raise ConfigError(
            "num_sites needs objective='predictive' and expectation=Analytic(), which sites are learnt by; "
            f"got num_sites={options['num_sites']} with objective={config.objective!r} and {config.expectation}. "
            "Leave num_sites out, or train with TrainingConfig(objective='predictive')."
        )
    return {"num_sites": models.SITES} if learnt and name.recipe.deep and "num_sites" not in options else {}


def _advise(data: Dataset, known: Batch, options: dict[str, Any]) -> None:
    """Say what looks wrong with the rows to be trained on, and what is made of it."""
    given = {name: options.get(name) for name in ("num_inducing", "num_mixing_inducing")}
    asked = {name: value for name, value in given.items() if isinstance(value, int) and value > 0}
    for finding in advice(data.rows(known.index.numpy()), asked):
        warnings.warn(finding.message, MogulWarning, stacklevel=3)


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
