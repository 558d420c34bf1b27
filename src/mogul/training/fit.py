"""From data to a fitted model: the one function that users call."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from jaxtyping import Int

from mogul import models
from mogul.arrays import IntArray
from mogul.data import Dataset
from mogul.errors import ConfigError, MogulWarning, unknown_name
from mogul.model import Model
from mogul.objective import Analytic
from mogul.plan import VARYING_NOISES, NoiseName
from mogul.training.choice import AUTO, NOISES, best_noise
from mogul.training.config import TrainingConfig
from mogul.training.fitted import Fitted
from mogul.training.held_out import HELD_OUT_SHARE
from mogul.training.history import EpochRecord
from mogul.training.presets import preset as preset_config
from mogul.training.stopping import Stopping
from mogul.training.task import MeanChoice, Task


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
    held_out: Int[IntArray, "W"] | None = None,
    retrain: bool = False,
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
        held_out: places of rows to watch and not to train on: they say when to stop, and which state to keep. By
            default the config's `stopping` holds out some, or none.
        retrain: whether rows that were held out are trained on in the end: the model is then trained again on all rows,
            for as many epochs as made the held-out ones likeliest, at the same rates, with the noise that they chose.
            It is for rows held out by groups, and takes the steps of such rows where no config says otherwise.
        options: sizes and nonlinearity, as `mogul.models.build` takes them, of which the model must have a use. What is
            not named is the paper's: noise="constant" and ⌈P/2⌉ latent GPs for P outputs, where
            `MultiOutputGPRegressor` and `mogul fit` have noise="gp" and num_latents=max(min(P, 4), ⌈P/2⌉). Beside what
            `build` takes, noise="auto" trains with each of `mogul.training.choice.NOISES` and keeps the one under which
            held-out rows are likeliest, a fifth of all rows by default: see `Fitted.choice`.

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
    in_groups = retrain and held_out is not None
    config = config or preset_config(preset or "default", model, seed, data.num_rows, grouped=in_groups)
    options |= _sites(parsed, config, options)
    if config.objective == "balanced" and options.get("noise", "constant") not in (AUTO, *VARYING_NOISES):
        warnings.warn(
            "objective='balanced' needs noise that depends on the input, and changes nothing for another; "
            f"got noise={options.get('noise', 'constant')!r}. Try noise='gp'.",
            MogulWarning,
            stacklevel=2,
        )
    choosing = options.get("noise") == AUTO
    if choosing and parsed.latent:
        raise ConfigError(
            f"noise='auto' needs rows to hold out, which latent inputs do not allow; got {model}. Name a noise."
        )
    if held_out is not None or (choosing and not (config.stopping and config.stopping.held_out)):
        share = HELD_OUT_SHARE if held_out is None else 0.0
        if choosing and round(share * data.num_rows) < 1 and held_out is None:
            raise ConfigError(
                f"noise='auto' needs rows to choose by, a fifth of at least 3; got n_samples = {data.num_rows}. "
                "Name a noise."
            )
        config = replace(config, stopping=replace(config.stopping or Stopping(), held_out=share))
    task = Task.of(data, model, config, mean or _default_mean(parsed, preset), num_inputs, held_out)
    task.advise(options)

    folder = None if checkpoint is None else Path(checkpoint)

    def trained(noise: NoiseName) -> Fitted:
        used = _with_noise(model, options, noise)
        return task.trained(used, on_epoch, None if folder is None else folder / noise, checkpoint_seconds)

    if choosing and task.watched is not None:
        fitted = best_noise(trained, len(task.watched))
    else:
        fitted = task.trained(options, on_epoch, folder, checkpoint_seconds)
    if not retrain or not fitted.history.kept_rates or fitted.history.interrupted:
        return fitted
    used = options if fitted.choice is None else _with_noise(model, options, fitted.choice.chosen)
    again = None if folder is None else folder / "retrained"
    whole = task.on_all_rows(fitted.history.kept_rates)
    return fitted.superseded_by(whole.trained(used, on_epoch, again, checkpoint_seconds))


def _with_noise(model: str, options: dict[str, Any], noise: NoiseName) -> dict[str, Any]:
    """Those options that the model has a use for with this noise."""
    unused = models.unused_options(model, noise)
    return {name: value for name, value in options.items() if name not in unused} | {"noise": noise}


def _require_used(options: dict[str, Any], num_inputs: int | None, model: str) -> None:
    """Check that there are such options, and that the model has a use for each."""
    known = [option for option in models.OPTIONS if option not in {"latent_mean", "output_mean"}]  # see `mean`
    for option in options:
        if option not in known:
            raise unknown_name("option", option, known)
    noises = (AUTO, *get_args(NoiseName))
    if options.get("noise", AUTO) not in noises:
        raise unknown_name("noise", options["noise"], noises)
    models.require_used(model, _of_the_first(model, options) if options.get("noise") == AUTO else options)
    if num_inputs is not None and not models.Name.parse(model).latent:
        raise ConfigError(f"num_inputs is for latent inputs; got {num_inputs} for {model}. Leave it out.")


def _of_the_first(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options as the first candidate has them, without those that only another has a use for."""
    first, *others = NOISES
    unused = models.unused_options(model, first)
    for_others = {option for noise in others for option in unused - models.unused_options(model, noise)}
    return {name: value for name, value in options.items() if name not in for_others} | {"noise": first}


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


def _default_mean(name: models.Name, preset: str | None) -> MeanChoice:
    return "paper" if name.latent or preset == "paper" else "linear"
