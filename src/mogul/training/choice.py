"""One model, a mixture of several, or the best of several by validation rows; then once more on all rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mogul import models, registry
from mogul.config import Stopping, TrainingConfig
from mogul.errors import ConfigError, FitError, unknown_name, warn
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import Candidate, Choice
from mogul.fitted.mixture import mixture_of
from mogul.models.families import AUTO, FROM_RESIDUALS, is_latent, members, suits
from mogul.training.defaults import MODELS, NOISES
from mogul.training.mean_choice import train
from mogul.training.split import HELD_OUT_SHARE, held_out_share
from mogul.training.starts import Task

# Options of `build` that training finds: see `mean` and `TrainingConfig.start`.
_FOUND = ("latent_mean", "output_mean", "inducing_points")


@dataclass(frozen=True)
class Candidates:
    """Models and kinds of noise to choose among, or models to mix; one of each where both were named.

    Args:
        models: names of models.
        noises: kinds of noise.
        asked: the argument that asks for a choice, as a user types it.
        mixing: whether all models are kept, as a mixture, and not the best.

    Example:
        >>> candidates = Candidates.of("auto", {"noise": "gp"}, num_outputs=3)
        >>> candidates.models, candidates.noises, candidates.choosing
        (('mogp', 'gprn', 'sbgprn', 'n-sbgprn'), ('gp',), True)
    """

    models: tuple[str, ...]
    noises: tuple[str, ...]
    asked: str
    mixing: bool

    @staticmethod
    def of(model: str, options: Mapping[str, Any], num_outputs: int, num_inputs: int | None = None) -> "Candidates":
        """The candidates that a model's name and options of `build` ask for; each option must be of use to one."""
        noise = options.get("noise", "constant")
        known = (AUTO, FROM_RESIDUALS, *registry.names("noise"))
        if noise not in known:
            raise unknown_name("noise", noise, known)
        each = tuple(name for name in MODELS if suits(name, num_outputs)) if model == AUTO else members(model)
        mixing = model != AUTO and len(each) > 1
        if noise == AUTO and mixing:
            raise ConfigError(f"noise='auto' is for a model by itself; got the mixture {model}. Name a noise.")
        if noise == AUTO and is_latent(model):
            raise ConfigError(
                f"noise='auto' needs rows to hold out, which latent inputs do not allow; got {model}. Name a noise."
            )
        asked = "model='auto'" if model == AUTO else "noise='auto'"
        candidates = Candidates(each, NOISES if noise == AUTO else (noise,), asked, mixing)
        candidates._require_used(options, num_inputs)
        return candidates

    @property
    def choosing(self) -> bool:
        """Whether validation rows are needed to choose by."""
        return not self.mixing and (len(self.models) > 1 or len(self.noises) > 1)

    def validated(self, config: TrainingConfig, num_rows: int, *, given: bool) -> TrainingConfig:
        """The configuration with validation rows, where they are given or needed to choose by."""
        share = 0.0 if given else held_out_share(config.stopping, choosing=self.choosing)
        if share is None:
            return config
        if self.choosing and share == HELD_OUT_SHARE and round(share * num_rows) < 1:
            raise ConfigError(
                f"{self.asked} needs rows to choose by, a fifth of at least 3; got n_samples = {num_rows}. Name one."
            )
        return replace(config, stopping=replace(config.stopping or Stopping(), held_out=share))

    def _require_used(self, options: Mapping[str, Any], num_inputs: int | None) -> None:
        known = [option for option in models.OPTIONS if option not in _FOUND]
        for option in options:
            if option not in known:
                raise unknown_name("option", option, known)
        (model, noise), *others = [(model, noise) for model in self.models for noise in self.noises]
        unused = models.unused_options(model, noise)
        for_others = {option for other in others for option in unused - models.unused_options(*other)}
        of_the_first = {name: value for name, value in options.items() if name not in for_others} | {"noise": noise}
        models.require_used(model, of_the_first)
        if num_inputs is not None and not is_latent(model):
            raise ConfigError(f"num_inputs is for latent inputs; got {num_inputs} for {model}. Leave it out.")


def train_candidates(candidates: Candidates, task_of: Callable[[str], Task], *, retrain: bool) -> Fitted:
    """The model asked for, the mixture of several, or the best candidate by its validation rows.

    Args:
        candidates: models and kinds of noise.
        task_of: what is to be trained, by the name of the model.
        retrain: whether to train once more in the end, on all rows.
    """
    first, noise = task_of(candidates.models[0]), candidates.noises[0]
    first.advise()
    for name in candidates.models[1:]:  # an error in the last one should not be found when the others are trained
        task_of(name).require_buildable(noise)

    def task(name: str) -> Task:
        return first if name == first.model else task_of(name)  # others hold their rows only while they are trained

    def train_member(name: str) -> Fitted:
        member = task(name)
        member.saving.bar.stage(f"{name}, model {candidates.models.index(name) + 1} of {len(candidates.models)}")
        fitted = train(member, noise, name)
        return _on_all_rows(fitted, member, noise, name) if retrain else fitted

    if candidates.mixing:
        return mixture_of(candidates.models, train_member)
    if not candidates.choosing or first.validation is None:
        fitted = train(first, noise)
        return _on_all_rows(fitted, first, noise) if retrain else fitted
    best = best_candidate(
        lambda name, noise: train(task(name), noise, name, noise),
        len(first.validation),
        candidates.models,
        candidates.noises,
    )
    assert best.choice is not None
    name, noise = best.choice.chosen.pair
    return _on_all_rows(best, task(name), noise, name, noise) if retrain else best


def _on_all_rows(fitted: Fitted, task: Task, noise: str, *place: str) -> Fitted:
    """The model trained once more, on all rows, for the epochs that its validation rows chose."""
    if not fitted.history.kept_rates or fitted.history.interrupted:
        return fitted
    try:
        return fitted.superseded_by(train(task.on_all_rows(fitted.history.kept_rates), noise, *place, "retrained"))
    except KeyboardInterrupt:
        warn(
            "Training on all rows was interrupted before its first epoch ended. "
            "The model is the one trained without the validation rows."
        )
        return replace(fitted, history=replace(fitted.history, interrupted=True))


def best_candidate(
    train: Callable[[str, str], Fitted],
    num_held_out: int,
    models: Sequence[str],
    noises: Sequence[str],
) -> Fitted:
    """The candidate with the largest log likelihood of validation rows, as early stopping left it.

    Models are compared under the first noise, then noises of the best model: a sum of trainings and not a product. A
    candidate that cannot be trained is skipped. Ctrl-C ends the current candidate and the choice.
    """
    trials = _Trials(train)
    for model in models:
        trials.enter(model, noises[0])
    best = models[0] if trials.chosen is None else trials.chosen.model
    for noise in noises[1:]:
        trials.enter(best, noise)
    if trials.best is None or trials.chosen is None:
        assert trials.error is not None
        raise trials.error
    history = replace(trials.best.history, interrupted=trials.interrupted)
    return replace(trials.best, history=history, choice=Choice(trials.chosen, tuple(trials.tried), num_held_out))


@dataclass
class _Trials:
    """Candidates one after the other, until Ctrl-C."""

    train: Callable[[str, str], Fitted]
    tried: list[Candidate] = field(default_factory=list)
    best: Fitted | None = None
    chosen: Candidate | None = None
    error: FitError | None = None
    interrupted: bool = False

    def enter(self, model: str, noise: str) -> None:
        if self.interrupted:
            return
        try:
            fitted = self.train(model, noise)
        except KeyboardInterrupt:
            if self.best is None:
                raise
            self.interrupted = True
            warn(
                f"{Candidate(model, noise).words} was interrupted before its first epoch ended, and no candidate is "
                "tried after it. The best of those before it is kept."
            )
        except FitError as error:
            self.tried.append(Candidate(model, noise, failure=str(error)))
            self.error = error
            warn(f"{Candidate(model, noise).words} was skipped. {error}")
        else:
            self._compare(fitted, model, noise)

    def _compare(self, fitted: Fitted, model: str, noise: str) -> None:
        history = fitted.history
        seconds = sum(record.seconds for record in history.records)
        noise = fitted.noise_name if noise == FROM_RESIDUALS else noise  # the one they chose
        candidate = Candidate(model, noise, history.held_out, len(history.elbo), seconds)
        self.tried.append(candidate)
        if self.chosen is None or _score(candidate) > _score(self.chosen):
            self.best, self.chosen = fitted, candidate
        self.interrupted = history.interrupted


def _score(candidate: Candidate) -> float:
    return -math.inf if candidate.ll is None else candidate.ll
