"""What to do when numbers run away: go back, take smaller steps, add more jitter; and when that is no use, say why."""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from linear_operator.utils.errors import NanError, NotPSDError

from mogul.config import TrainingConfig
from mogul.errors import FitError, NumericalError
from mogul.models.model import Model
from mogul.priors import IndependentGPs, with_more_jitter
from mogul.training.state import RunState

if TYPE_CHECKING:
    from mogul.training.run import Run

MAX_ROLLBACKS = 3
_SMALLER, _MORE_JITTER = 0.3, 10.0
_LONG_STEPS = 0.3  # a learning rate above this is the first thing to doubt
TROUBLE = (NumericalError, NanError, NotPSDError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]  # torch's own

_log = logging.getLogger(__name__)


class Recovery:
    """The last good state of a run, to go back to, at most three times.

    A state is good once an epoch from it went well: what is wrong with a state shows in the step after it. It is copied
    once per epoch; going back costs the epoch that went wrong and the one before it.
    """

    def __init__(self) -> None:
        self.rollbacks = 0
        self.good: RunState | None = None
        self._begun: RunState | None = None  # where the epoch at hand began

    @property
    def rate_factor(self) -> float:
        """What learning rates are multiplied by."""
        return float(_SMALLER**self.rollbacks)

    def advance(self, run: "Run") -> None:
        """One epoch of a run, or one again from an earlier state."""
        while True:
            self._begun = run.state()
            try:
                run.advance()
            except TROUBLE as error:
                self._roll_back(run, self._begun, error)
            else:
                self.good, self._begun = self._begun, None
                return

    def undo(self, run: "Run") -> None:
        """Leave out an epoch that was begun and not ended, if there is one."""
        if self._begun is not None:
            run.restore(self._begun)
            self._begun = None

    def resume(self, run: "Run", rollbacks: int, good: RunState | None) -> None:
        """Be what another recovery was, for a run that is as it was built."""
        self.good = good
        for _ in range(rollbacks):
            self._soften(run.model)

    def _roll_back(self, run: "Run", begun: RunState, error: Exception) -> None:
        began = run.num_steps > begun.num_steps
        epoch = begun.num_epochs + 1
        run.restore(replace(self.good or begun, watched=()))  # what was seen at other rates says nothing of these
        if self.rollbacks == MAX_ROLLBACKS:
            raise FitError(
                f"Training must stay within numbers; in epoch {epoch} it did not, for the {MAX_ROLLBACKS + 1}th time, "
                f"with steps of {self.rate_factor:.2g} times their length: {_first_sentence(error)}. "
                f"{likely_cause(run.config, began=began)}"
            ) from error
        self._soften(run.model)
        _log.info(
            "start %d, epoch %d: %s Back to epoch %d, rates × %.2g, jitter × %g.",
            run.start + 1,
            epoch,
            error,
            len(run.records) + 1,
            self.rate_factor,
            _MORE_JITTER**self.rollbacks,
        )

    def _soften(self, model: Model) -> None:
        self.rollbacks += 1
        for module in model.modules():
            if isinstance(module, IndependentGPs):
                module.solver = with_more_jitter(module.solver, _MORE_JITTER, module.variational_mean.dtype)


def likely_cause(config: TrainingConfig, *, began: bool) -> str:
    """The likely cause of a training that broke down, and what to change.

    >>> likely_cause(TrainingConfig(learning_rate=3.0), began=True)
    'Likely cause: steps that are too long. Lower learning_rate (3), to 0.03 say.'
    """
    if config.learning_rate > _LONG_STEPS:
        return f"Likely cause: steps that are too long. Lower learning_rate ({config.learning_rate:g}), to 0.03 say."
    if not began:
        return (
            "Likely cause: values far from all others, for which not even a first step can be computed. "
            "Look for them in the data, or fewer inducing points (num_inducing) may do."
        )
    if config.precision == "float32":
        return "Likely cause: rounding in single precision. Set precision='float64'."
    return (
        "Likely cause: a model with more freedom than the rows can hold. "
        f"Lower num_inducing, or learning_rate ({config.learning_rate:g})."
    )


def _first_sentence(error: Exception) -> str:
    return (str(error) or type(error).__name__).partition(". ")[0].splitlines()[0].rstrip(".")
