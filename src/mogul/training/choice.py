"""A choice between kinds of noise by the rows held out, and how each of them did."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from mogul.errors import FitError, MogulWarning
from mogul.plan import NoiseName

if TYPE_CHECKING:
    from mogul.training.fitted import Fitted

AUTO = "auto"
# What noise="auto" tries. A net is sure of itself where it has seen nothing, and correlations between the noises of
# outputs do not change what is said of each of them: whoever wants those asks for them.
NOISES: tuple[NoiseName, ...] = ("constant", "gp", "student-t")


@dataclass(frozen=True)
class Candidate:
    """One kind of noise: the log likelihood of a held-out row in its best epoch, in standardised units.

    `ll` is None where training failed, for the reason given, or ended before any epoch was watched.
    """

    noise: NoiseName
    ll: float | None
    epochs: int = 0
    seconds: float = 0.0
    failure: str | None = None


@dataclass(frozen=True)
class Choice:
    """What was tried, in the order of trying, what was kept, and by how many held-out rows.

    Example:
        >>> choice = Choice("gp", (Candidate("constant", 1.5), Candidate("gp", 2.25)), num_held_out=20)
        >>> choice.frame()[["noise", "ll"]].to_dict("list")
        {'noise': ['constant', 'gp'], 'll': [1.5, 2.25]}
    """

    chosen: NoiseName
    candidates: tuple[Candidate, ...]
    num_held_out: int

    def frame(self) -> pd.DataFrame:
        """One row per candidate."""
        return pd.DataFrame([asdict(candidate) for candidate in self.candidates])


def best_noise(
    train: "Callable[[NoiseName], Fitted]", num_held_out: int, noises: Sequence[NoiseName] = NOISES
) -> "Fitted":
    """The candidate under which held-out rows are likeliest, as training with early stopping left it.

    A candidate that cannot be trained is passed over. Ctrl-C ends the candidate at hand and the choice with it.
    """
    tried: list[Candidate] = []
    best: Fitted | None = None
    for noise in noises:
        try:
            fitted = train(noise)
        except KeyboardInterrupt:
            if best is None:
                raise
            warnings.warn(
                f"All kinds of noise should be tried; {noise} was interrupted before its first epoch ended. "
                "The best of those before it is kept.",
                MogulWarning,
                stacklevel=3,
            )
            break
        except FitError as error:
            tried.append(Candidate(noise, None, failure=str(error)))
            if len(tried) == len(noises) and best is None:
                raise
            warnings.warn(f"{noise} noise was passed over. {error}", MogulWarning, stacklevel=3)
            continue
        history = fitted.history
        seconds = sum(record.seconds for record in history.records)
        tried.append(Candidate(noise, history.held_out, len(history.elbo), seconds))
        if best is None or _score(fitted) > _score(best):
            best, chosen = fitted, noise
        if history.interrupted:
            break
    assert best is not None
    return replace(best, choice=Choice(chosen, tuple(tried), num_held_out))


def _score(fitted: "Fitted") -> float:
    return -math.inf if fitted.history.held_out is None else fitted.history.held_out
