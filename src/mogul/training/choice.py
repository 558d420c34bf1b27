"""A choice between models and kinds of noise by the rows held out, and how each of them did."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mogul.errors import FitError, MogulWarning
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import Candidate, Choice
from mogul.models.families import FROM_RESIDUALS

# What model="auto" tries: a matrix, one of GPs, a net's, and hidden units besides (docs/defaults.md compares them).
MODELS: tuple[str, ...] = ("mogp", "gprn", "sbgprn", "n-sbgprn")
# What noise="auto" tries. A net is sure of itself where it has seen nothing, and correlations
# between the noises of outputs do not change what is said of each of them: whoever wants those asks for them.
NOISES: tuple[str, ...] = ("gp", "constant", "student-t")


def best_candidate(
    train: Callable[[str, str], Fitted],
    num_held_out: int,
    models: Sequence[str],
    noises: Sequence[str],
) -> Fitted:
    """The candidate under which held-out rows are likeliest, as training with early stopping left it.

    Models are compared under the first noise, then noises of the best model: a sum of trainings and not a product. A
    candidate that cannot be trained is passed over. Ctrl-C ends the candidate at hand and the choice with it.
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
    """Candidates one after the other, until Ctrl-C ends it."""

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
            _warn(
                f"All candidates should be tried; {Candidate(model, noise).words} was interrupted before its first "
                "epoch ended. The best of those before it is kept."
            )
        except FitError as error:
            self.tried.append(Candidate(model, noise, failure=str(error)))
            self.error = error
            _warn(f"{Candidate(model, noise).words} was passed over. {error}")
        else:
            self._compare(fitted, model, noise)

    def _compare(self, fitted: Fitted, model: str, noise: str) -> None:
        history = fitted.history
        seconds = sum(record.seconds for record in history.records)
        noise = fitted.noise_name if noise == FROM_RESIDUALS else noise  # what they chose
        candidate = Candidate(model, noise, history.held_out, len(history.elbo), seconds)
        self.tried.append(candidate)
        if self.chosen is None or _score(candidate) > _score(self.chosen):
            self.best, self.chosen = fitted, candidate
        self.interrupted = history.interrupted


def _score(candidate: Candidate) -> float:
    return -math.inf if candidate.ll is None else candidate.ll


def _warn(message: str) -> None:
    warnings.warn(message, MogulWarning, stacklevel=5)
