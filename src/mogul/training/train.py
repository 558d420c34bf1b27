"""From data and all that was chosen for them to a fitted model."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from jaxtyping import Int

from mogul import models
from mogul._typing import IntArray
from mogul.config import Stopping, TrainingConfig
from mogul.data import Batch, Dataset
from mogul.errors import ConfigError, MogulWarning
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import EpochRecord
from mogul.fitted.mixture import mixture_of
from mogul.heads.noise import noise_varies
from mogul.models.families import AUTO, FROM_RESIDUALS, is_latent
from mogul.models.model import Model
from mogul.objective import Analytic
from mogul.training.choice import best_candidate
from mogul.training.field import Field
from mogul.training.held_out import HELD_OUT_SHARE, held_out_share
from mogul.training.task import MeanChoice, Task


def train(
    data: Dataset,
    model: str,
    config: TrainingConfig | Callable[[str], TrainingConfig],
    *,
    mean: MeanChoice | None = None,
    num_inputs: int | None = None,
    on_epoch: Callable[[EpochRecord, Model], None] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    held_out: Int[IntArray, "W"] | None = None,
    retrain: bool = False,
    **options: Any,
) -> Fitted:
    """Train exactly what is asked for; options that are left out are those of `mogul.models.build`: the paper's.

    Arguments are those of `mogul.fit`, which chooses for its caller what this leaves to be said: the model, its noise
    and sizes, how to train, which rows to hold out.

    Args:
        data: rows to train on, those to hold out among them.
        model: a name, several with + between them, or "auto".
        config: how to train, or a function that says so for each model by name.
        mean: None is "linear", or "paper" for latent inputs.
        num_inputs: the number of latent inputs.
        on_epoch: called after each epoch.
        checkpoint: a folder for checkpoints.
        checkpoint_seconds: the time between two of them.
        held_out: places of rows to watch and not to train on.
        retrain: whether to train again in the end, on all rows.
        options: those of `mogul.models.build`, or noise="auto"; noise is constant where none is named.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> train(data, "mogp", TrainingConfig(epochs=2, num_starts=1)).noise_name
        'constant'
    """
    field = Field.of(model, options, data.num_outputs)
    field.require_used(options, num_inputs)

    def task_of(name: str) -> Task:
        how = config(name) if callable(config) else config
        how = _watching(how, field, data.num_rows, given=held_out is not None)
        return Task.of(data, name, how, mean or _default_mean(name), num_inputs, held_out)

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

    def _alone(self, name: str, noise: str, *place: str) -> Fitted:
        return self._on_all_rows(self._trained(self.task(name), noise, *place), name, noise, *place)

    def _candidate(self, name: str, noise: str) -> Fitted:
        return self._trained(self.task(name), noise, name, noise)

    def _on_all_rows(self, fitted: Fitted, name: str, noise: str, *place: str) -> Fitted:
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

    def _trained(self, task: Task, noise: str, *place: str) -> Fitted:
        folder = None if self.folder is None else self.folder.joinpath(*place)
        return task.trained(_useful(task, self.options, noise), self.on_epoch, folder, self.checkpoint_seconds)


def _useful(task: Task, options: Mapping[str, Any], noise: str) -> dict[str, Any]:
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
    if config.objective == "balanced" and noise not in (AUTO, FROM_RESIDUALS) and not noise_varies(noise):
        warnings.warn(
            "objective='balanced' needs noise that depends on the input, and changes nothing for another; "
            f"got noise={noise!r}. Try noise='gp'.",
            MogulWarning,
            stacklevel=6,
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


def _default_mean(model: str) -> MeanChoice:
    return "paper" if is_latent(model) else "linear"
