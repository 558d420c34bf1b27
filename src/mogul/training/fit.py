"""From data to a fitted model: the one function that users call."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from jaxtyping import Int

from mogul import models
from mogul.arrays import IntArray
from mogul.data import Batch, Dataset
from mogul.errors import ConfigError, MogulWarning
from mogul.families import AUTO, is_latent
from mogul.model import Model
from mogul.objective import Analytic
from mogul.plan import VARYING_NOISES, NoiseName
from mogul.training.choice import best_candidate
from mogul.training.config import TrainingConfig
from mogul.training.field import Field
from mogul.training.fitted import Fitted
from mogul.training.held_out import HELD_OUT_SHARE, held_out_share
from mogul.training.history import EpochRecord
from mogul.training.mixture import mixture_of
from mogul.training.presets import preset as preset_config
from mogul.training.stopping import Stopping
from mogul.training.task import MeanChoice, Task


def fit(
    data: Dataset,
    model: str = "n-mogp",
    config: TrainingConfig | Callable[[str], TrainingConfig] | None = None,
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
        model: one of `mogul.models.names()`; those that end in `-lvm` ignore any inputs of the data. Several names,
            "mogp+n-sbgprn", make a mixture: each is trained, and predictions are the mixture of theirs. "auto" trains
            each of `mogul.training.choice.MODELS` (gprn up to 20 outputs) and keeps the one under which held-out rows
            are likeliest, a fifth of all rows by default: see `Fitted.choice`, and `retrain`.
        config: how to train, or a function that says so for each model by name; the mean is not part of it, so a config
            of the paper's wants mean="paper" beside it.
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
            for as many epochs as made the held-out ones likeliest, at the same rates, with what they chose.
            It is for rows held out by groups, and takes the steps of such rows where no config says otherwise.
        options: sizes and nonlinearity, as `mogul.models.build` takes them, of which the model must have a use. What is
            not named is the paper's: noise="constant" and ⌈P/2⌉ latent GPs for P outputs, where
            `MultiOutputGPRegressor` and `mogul fit` have noise="gp" and num_latents=max(min(P, 4), ⌈P/2⌉). Beside what
            `build` takes, noise="auto" chooses among `mogul.training.choice.NOISES` as model="auto" does among models;
            where both do, first the model with GP noise, then the noise. Options go to those that have a use for them.

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
    if config is not None and preset is not None:
        raise ConfigError(f"Give config or preset, not both; got preset {preset!r} beside a config. Drop one of them.")
    field = Field.of(model, options, data.num_outputs)
    field.require_used(options, num_inputs)

    def task_of(name: str) -> Task:
        how = config(name) if callable(config) else config
        if how is None:
            in_groups = retrain and held_out is not None
            how = preset_config(preset or "default", name, seed, data.num_rows, grouped=in_groups)
        how = _watching(how, field, data.num_rows, given=held_out is not None)
        return Task.of(data, name, how, mean or _default_mean(name, preset), num_inputs, held_out)

    first = task_of(field.models[0])
    _warn_of_balance(first.config, options)
    first.advise(options)
    for name in field.models[1:]:  # what is wrong with the last should not be found out when the others are trained
        other = task_of(name)
        other.require_buildable(_useful(other, options, field.noises[0]))
    folder = None if checkpoint is None else Path(checkpoint)
    return _Fits(task_of, field, options, on_epoch, folder, checkpoint_seconds, retrain).whole(first.watched)


@dataclass(frozen=True)
class _Fits:
    """The trainings that a call asks for; each has its copy of the data for as long as it lasts."""

    task: Callable[[str], Task]
    field: Field
    options: Mapping[str, Any]
    on_epoch: Callable[[EpochRecord, Model], None] | None
    folder: Path | None
    checkpoint_seconds: float
    retrain: bool

    def whole(self, watched: Batch | None) -> Fitted:
        """The model, the best of the candidates by the rows watched, or the mixture."""
        name, noise = self.field.models[0], self.field.noises[0]
        if self.field.mixing:
            return mixture_of(self.field.models, lambda member: self._alone(member, noise, member))
        if not self.field.choosing or watched is None:
            return self._alone(name, noise)
        best = best_candidate(self._candidate, len(watched), self.field.models, self.field.noises)
        assert best.choice is not None
        pair = best.choice.chosen.pair
        return self._on_all_rows(best, *pair, *pair)

    def _alone(self, name: str, noise: NoiseName, *place: str) -> Fitted:
        return self._on_all_rows(self._trained(self.task(name), noise, *place), name, noise, *place)

    def _candidate(self, name: str, noise: NoiseName) -> Fitted:
        return self._trained(self.task(name), noise, name, noise)

    def _on_all_rows(self, fitted: Fitted, name: str, noise: NoiseName, *place: str) -> Fitted:
        """What all rows make of it, where those that were watched are to be trained on in the end."""
        if not self.retrain or not fitted.history.kept_rates or fitted.history.interrupted:
            return fitted
        whole = self.task(name).on_all_rows(fitted.history.kept_rates)
        try:
            return fitted.superseded_by(self._trained(whole, noise, *place, "retrained"))
        except KeyboardInterrupt:
            warnings.warn(
                "All rows should be trained on in the end; that was interrupted before its first epoch ended. "
                "The model is what it was without those held out.",
                MogulWarning,
                stacklevel=6,
            )
            return replace(fitted, history=replace(fitted.history, interrupted=True))

    def _trained(self, task: Task, noise: NoiseName, *place: str) -> Fitted:
        folder = None if self.folder is None else self.folder.joinpath(*place)
        return task.trained(_useful(task, self.options, noise), self.on_epoch, folder, self.checkpoint_seconds)


def _useful(task: Task, options: Mapping[str, Any], noise: NoiseName) -> dict[str, Any]:
    """Those options that the task's model has a use for with this noise, and sites where they are learnt."""
    unused = models.unused_options(task.model, noise)
    useful = {name: value for name, value in options.items() if name not in unused}
    useful |= {"noise": noise} if "noise" in options else {}
    return useful | _sites(models.Name.parse(task.model), task.config, useful)


def _watching(config: TrainingConfig, field: Field, num_rows: int, *, given: bool) -> TrainingConfig:
    """The same with rows to watch, where they are given or must be held out to choose by."""
    share = 0.0 if given else held_out_share(config.stopping, choosing=field.choosing)
    if share is None:
        return config
    if field.choosing and share == HELD_OUT_SHARE and round(share * num_rows) < 1:
        raise ConfigError(
            f"{field.asked} needs rows to choose by, a fifth of at least 3; got n_samples = {num_rows}. Name one."
        )
    return replace(config, stopping=replace(config.stopping or Stopping(), held_out=share))


def _warn_of_balance(config: TrainingConfig, options: Mapping[str, Any]) -> None:
    noise = options.get("noise", "constant")
    if config.objective == "balanced" and noise not in (AUTO, *VARYING_NOISES):
        warnings.warn(
            "objective='balanced' needs noise that depends on the input, and changes nothing for another; "
            f"got noise={noise!r}. Try noise='gp'.",
            MogulWarning,
            stacklevel=3,
        )


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


def _default_mean(model: str, preset: str | None) -> MeanChoice:
    return "paper" if is_latent(model) or preset == "paper" else "linear"
