"""States of a run between two epochs, and how it recovers from divergence: roll back, smaller steps, more jitter."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from mogul.config import TrainingConfig
from mogul.errors import FitError, NumericalError
from mogul.models.model import Model
from mogul.priors import IndependentGPs, Solver, with_more_jitter

if TYPE_CHECKING:
    from mogul.training.loop import Run

MAX_ROLLBACKS = 3
_SMALLER, _MORE_JITTER = 0.3, 10.0
_LONG_STEPS = 0.3  # a learning rate above this is the likeliest cause
TROUBLE = (NumericalError, NanError, NotPSDError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]  # torch's own

_MODEL, _OPTIMISER, _GENERATOR, _STEP = "model.", "optimiser.", "generator", "step"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunState:
    """All that the rest of a run depends on, between two epochs: to keep, to restore and to write to a file."""

    tensors: dict[str, Tensor]
    num_epochs: int
    num_steps: int
    clock: int
    watched: tuple[float, ...]
    best_score: float
    best_epochs: int
    best: dict[str, Tensor]  # of the model: its best epoch on validation rows


@torch.no_grad()
def copied_tensors(model: Model, optimiser: torch.optim.Optimizer, generator: torch.Generator) -> dict[str, Tensor]:
    """Copies of the tensors of a model, its optimiser and its generator, by name."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {_MODEL + name: tensor.clone() for name, tensor in model.state_dict().items()}
    for parameter, parts in optimiser.state.items():
        for part, tensor in parts.items():
            tensors[f"{_OPTIMISER}{part}.{names[parameter]}"] = tensor.clone()
    return tensors | {_GENERATOR: generator.get_state()}


@torch.no_grad()
def put_back(
    tensors: dict[str, Tensor], model: Model, optimiser: torch.optim.Optimizer, generator: torch.Generator
) -> None:
    """Restore all three from copies, bit for bit; the copies are left unchanged."""
    model.load_state_dict(
        {name.removeprefix(_MODEL): tensor for name, tensor in tensors.items() if name.startswith(_MODEL)}
    )
    parameters = dict(model.named_parameters())
    optimiser.state.clear()
    for label, tensor in tensors.items():
        if label.startswith(_OPTIMISER):
            part, _, name = label.removeprefix(_OPTIMISER).partition(".")
            # The fused optimiser needs averages in the memory layout of their parameter.
            kept = tensor.clone() if part == _STEP else torch.empty_like(parameters[name]).copy_(tensor)
            optimiser.state[parameters[name]][part] = kept
    generator.set_state(tensors[_GENERATOR])


@dataclass(frozen=True)
class WholeState:
    """A run between two epochs, as checkpoints have it: its state, the one to roll back to, and its rollbacks."""

    now: RunState
    good: RunState | None
    rollbacks: int


class Recovery:
    """Rolls a run back to its last good state, at most three times.

    A state is good once an epoch from it went well: what is wrong with a state shows in the step after it. It is copied
    once per epoch; a rollback costs the epoch that diverged and the one before it.

    From the beginning of an epoch until it has ended, or was rolled back or undone, the state at its beginning is kept:
    Ctrl-C may come at any moment, again and again, and a checkpoint has that state and never half an epoch.
    """

    def __init__(self) -> None:
        self.rollbacks = 0
        self.good: RunState | None = None
        self._begun: WholeState | None = None  # where an unfinished epoch began
        self._solvers: dict[IndependentGPs, Solver] = {}  # before any rollback

    @property
    def rate_factor(self) -> float:
        """The factor of all learning rates."""
        return float(_SMALLER**self.rollbacks)

    @contextmanager
    def guard(self, run: "Run") -> Iterator[None]:
        """Around one epoch: where it diverges, the run is rolled back and the epoch counts as not done."""
        try:
            with self.unfinished(run) as begun:
                yield
                self.good = begun.now
        except TROUBLE as error:
            self._roll_back(run, self.whole(run).now, error)
            self._begun = None

    @contextmanager
    def unfinished(self, run: "Run") -> Iterator[WholeState]:
        """Around changes of a run that are made as a whole, or undone; the state before them."""
        self._begun = self.whole(run)
        yield self._begun
        self._begun = None

    def whole(self, run: "Run") -> WholeState:
        """The run between two epochs: now, or where its unfinished epoch began."""
        return self._begun or WholeState(run.state(), self.good, self.rollbacks)

    def undo(self, run: "Run") -> None:
        """Go back to the beginning of an unfinished epoch, if there is one; it can be interrupted, and done again."""
        if self._begun is not None:
            run.restore(self._begun.now)
            self.resume(run, self._begun.rollbacks, self._begun.good)
            self._begun = None

    def resume(self, run: "Run", rollbacks: int, good: RunState | None) -> None:
        """Restore a recovery, from a checkpoint for a run that was just built."""
        self.good = good
        self._soften(run.model, rollbacks)

    def _roll_back(self, run: "Run", begun: RunState, error: Exception) -> None:
        began = run.num_steps > begun.num_steps
        epoch = begun.num_epochs + 1
        run.restore(replace(self.good or begun, watched=()))  # scores at other rates say nothing of the new ones
        if self.rollbacks == MAX_ROLLBACKS:
            raise FitError(
                f"Training must not diverge; in epoch {epoch} it did, for the {MAX_ROLLBACKS + 1}th time, "
                f"with steps of {self.rate_factor:.2g} times their length: {_first_sentence(error)}. "
                f"{likely_cause(run.config, began=began)}"
            ) from error
        self._soften(run.model, self.rollbacks + 1)
        _log.info(
            "start %d, epoch %d: %s Back to epoch %d, rates × %.2g, jitter × %g.",
            run.start + 1,
            epoch,
            error,
            len(run.records) + 1,
            self.rate_factor,
            _MORE_JITTER**self.rollbacks,
        )

    def _soften(self, model: Model, rollbacks: int) -> None:
        """Solvers with more jitter for each rollback, from those that there were before any."""
        for module in model.modules():
            if isinstance(module, IndependentGPs):
                solver = self._solvers.setdefault(module, module.solver)
                for _ in range(rollbacks):
                    solver = with_more_jitter(solver, _MORE_JITTER, module.variational_mean.dtype)
                module.solver = solver
        self.rollbacks = rollbacks


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
