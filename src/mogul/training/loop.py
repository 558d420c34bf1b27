"""The training loop of one model: epochs, steps, learning rates, early stopping and the best state."""

import math
import time
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul._typing import Array
from mogul.config import Stopping, TrainingConfig
from mogul.data import Batch, RowSource
from mogul.data.dataset import batch_sizes
from mogul.errors import NumericalError
from mogul.fitted.history import EpochRecord
from mogul.models.model import Model
from mogul.objective import ElboTerms, objective_by_name, row_log_predictive
from mogul.objective.updates import NoiseUpdate, Step
from mogul.prediction.row_density import HeadDensity, has_shared_draws
from mogul.priors import IndependentGPs, Solver
from mogul.training.noise import LevelSearch
from mogul.training.recovery import TROUBLE, Recovery, RunState, copied_tensors, put_back
from mogul.training.team import ALONE, Team

# The most numbers in the largest tensor of a piece of a step: 130 MB in float32, several times over. Batches of the
# usual sizes are one piece.
_NUMBERS_AT_ONCE = 2**25
# The most validation rows that are scored after each epoch.
_MOST_ROWS = 2000
# The most rows that the noise's level is set by in the end, all in memory: it is then known to 0.6 %, which costs a
# 1e-5th of a nat per value.
_LEVEL_ROWS = 50_000


class Run:
    """A model with its optimiser, its random generator and its history; a second call of `train` continues.

    Learning rate and KL weight follow a clock that counts epochs. Early stopping moves the clock to the next change of
    the rate when the current rate no longer helps.
    """

    def __init__(
        self,
        model: Model,
        data: RowSource,
        config: TrainingConfig,
        generator: torch.Generator,
        start: int = 0,
        held_out: Batch | None = None,
        *,
        began: float | None = None,  # for a start that is not trained: when work on it began
        team: Team = ALONE,
    ) -> None:
        self.model = model
        self.config = config
        self.start = start
        self.records: list[EpochRecord] = []
        self.num_steps = 0
        self.recovery = Recovery()
        self._data = data
        self._generator = generator  # of the order of rows, the same for all workers
        self._draws = generator
        self._team = team
        self._device = next(model.parameters()).device
        self._began = began
        numbers_per_row = model.numbers_per_row(config.expectation.num_samples, drawn_inputs=False)
        self._rows_at_once = max(1, _NUMBERS_AT_ONCE // numbers_per_row)
        self._elbo = objective_by_name(config.objective)(config.expectation, num_data=len(data))
        owned = {parameter for update in config.updates for parameter in update.owns(model)}
        free = [parameter for parameter in model.parameters() if parameter not in owned]
        self._optimiser = torch.optim.Adam(free, lr=config.learning_rate, fused=True)
        self._held_out = None if held_out is None else held_out.to(self._device)
        self._clock = 0
        self._watched: list[float] = []  # scores since the rate last changed
        self._best_score, self._best_epochs = -math.inf, 0
        self._best_state: dict[str, torch.Tensor] = {}
        self._unfinished: RunState | None = None  # the state before `finish`, once it was called
        self._finished = False  # whether it has ended

    def train(self, until: int, on_epoch: Callable[[EpochRecord], None]) -> None:
        """Train until the clock reads `until` epochs; Ctrl-C leaves the model as after its last whole epoch."""
        self.model.train()
        self._team.align(self.model)
        try:
            self._keep_start()
            while self._clock < until:
                done = len(self.records)
                with self.recovery.guard(self):
                    self.advance()
                if len(self.records) > done:  # or else it was rolled back
                    on_epoch(self.records[-1])
            if not self.records:  # no epochs: the start is the result
                with self.recovery.unfinished(self):
                    self.records.append(self._assessed(self._stream(), self._began))
                    if self._held_out is not None:
                        self._score(self.records[-1])
                on_epoch(self.records[-1])
        except KeyboardInterrupt:
            self.recovery.undo(self)
            raise
        if self._clock >= self.config.epochs:
            self.finish()
        self.model.eval()

    def advance(self) -> None:
        """One epoch of minibatches, and what early stopping makes of it."""
        began = time.perf_counter()
        rate, kl_weight = self._rate_at(self._clock), self.config.kl_weight_at(self._clock)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        sums = torch.zeros(4, dtype=torch.float64)
        sizes = batch_sizes(len(self._data), self.config.batch_size)[: self.config.epoch_steps]
        self._draws = self._stream()
        batches = self._data.minibatches(self.config.batch_size, self._generator, self._team.share)
        for num_rows, batch in zip(sizes, batches, strict=False):  # no more batches are read than there are sizes
            terms = self.step(batch.to(self._device), kl_weight)
            # Weighting by rows makes the epoch's mean that of the whole data set, whatever the size of the last batch.
            sums += num_rows / sum(sizes) * _values(terms)
        self.records.append(self._record(sums, began, rate, kl_weight))
        self._tick()

    def finish(self) -> None:
        """Restore the best state on validation rows, and set closed-form noise to its optimum: ready to predict.

        An exact start that no epoch improved on is restored, too. Done once: a checkpoint has the state before, and
        the same is done again after it is read, or after an interrupt.
        """
        if self._finished:
            return
        if self._unfinished is not None:
            self.restore(self._unfinished)
        self._unfinished = self.state()
        if self._best_state and self._held_out is not None:
            self.model.load_state_dict(self._best_state)
        self.model.eval()
        if any(isinstance(update, NoiseUpdate) for update in self.config.updates):
            self._settle_noise()
        if self._best_state and self._held_out is None:
            self._return_to_start()
        self._finished = True

    def _keep_start(self) -> None:
        """Keep an exact start: it solves a simpler model, and large steps may lose it for good."""
        if self.config.start != "random" and self.config.epochs and self._held_out is None and not self.records:
            self._best_score, self._best_epochs = self._bound(), 0
            self._best_state = {name: value.clone() for name, value in self.model.state_dict().items()}

    def _return_to_start(self) -> None:
        """Restore the start unless the ELBO over all rows is higher than there."""
        if self._bound() > self._best_score:
            self._best_state = {}
        else:
            self.model.load_state_dict(self._best_state)

    def _bound(self) -> float:
        """The objective over all rows, with the same draws each time; −∞ where it cannot be computed."""
        try:
            bound = self._assessed(self._own_stream()).elbo
        except TROUBLE:
            return -math.inf
        return bound if math.isfinite(bound) else -math.inf

    def _settle_noise(self) -> None:
        """Set the noise's level, an average over the last batches, to its optimum over all rows.

        With validation rows, only if that does not make them less likely. Draws have their own generator, so that
        those of training do not change.
        """
        level, before = self.model.head.noise.log_precision, self.model.head.noise.log_precision.detach().clone()
        own = self._own_stream()
        try:
            rows = self._data.spread(_LEVEL_ROWS).to(self._device)
            search = LevelSearch.of(self.model, self._elbo, rows, self._rows_at_once, own)
            found, was = search.log_precision(), self._held_out_score_now()
            level.data.copy_(found)
            score = self._held_out_score_now()
        except TROUBLE:
            level.data.copy_(before)
            return
        if score < was:
            level.data.copy_(before)
        elif self._best_state and self._held_out is not None:
            self._best_score = score

    def _held_out_score_now(self) -> float:
        """The score of validation rows, with the same draws each time; 0 where there are none."""
        if self._held_out is None:
            return 0.0
        return held_out_score(self.model, self._held_out, self._own_stream())

    def _stream(self) -> torch.Generator:
        """Random draws of this worker, on its device."""
        return self._team.stream(self._generator, self._device)

    def _own_stream(self) -> torch.Generator:
        """Draws that are the same each time."""
        return torch.Generator(self._device).manual_seed(self.config.seed)

    def state(self) -> RunState:
        """A copy of all that later epochs depend on; of a finished run, all that `finish` depends on."""
        if self._unfinished is not None:
            return self._unfinished
        return RunState(
            tensors=copied_tensors(self.model, self._optimiser, self._generator),
            num_epochs=len(self.records),
            num_steps=self.num_steps,
            clock=self._clock,
            watched=tuple(self._watched),
            best_score=self._best_score,
            best_epochs=self._best_epochs,
            best=self._best_state,
        )

    def restore(self, state: RunState) -> None:
        """Return to this state."""
        self._unfinished, self._finished = None, False
        put_back(state.tensors, self.model, self._optimiser, self._generator)
        del self.records[state.num_epochs :]
        self.num_steps, self._clock, self._watched = state.num_steps, state.clock, list(state.watched)
        self._best_score, self._best_epochs, self._best_state = state.best_score, state.best_epochs, state.best

    def _tick(self) -> None:
        """Move the clock by an epoch, or further when the current rate no longer helps."""
        record, stopping = self.records[-1], self.config.stopping
        change = self.config.next_change(self._clock)
        self._clock += 1
        if stopping is not None and record.kl_weight == 1:
            self._watched.append(self._score(record))
            if stopping.is_flat(self._watched) and (moved_to := self._clock_when_flat(stopping, change)) is not None:
                self._clock = moved_to
                self._watched.clear()

    def _clock_when_flat(self, stopping: Stopping, change: int) -> int | None:
        """The clock of the next rate, or of the end; None where it is too early to judge a new rate.

        Flat at one rate: the next rate is tried. Flat across a change of the rate: training ends. A falling ELBO means
        steps that are too large; falling validation scores mean too many steps. A cosine lowers the rate anyway, and
        lower rates gain what large steps hide: there only a flat score moves the clock.
        """
        if self.config.schedule == "cosine":
            return None if stopping.is_falling(self._watched) else change
        before, recent, now = (
            self.records[-back].learning_rate for back in (2 * stopping.patience, stopping.patience, 1)
        )
        if before == now or (self._held_out is None and stopping.is_falling(self._watched)):
            return change
        return self.config.epochs if recent != before else None

    def _score(self, record: EpochRecord) -> float:
        """The score of early stopping, per observed output value; the best state on validation rows is kept."""
        if self._held_out is None:
            return record.elbo / max(1, self._data.num_observed)
        score = self._team.agreed(held_out_score(self.model, self._held_out, self._stream()))
        if score > self._best_score:
            self._best_score, self._best_epochs = score, len(self.records)
            self._best_state = {name: value.clone() for name, value in self.model.state_dict().items()}
        return score

    @property
    def held_out_score(self) -> float | None:
        """Log likelihood of a validation row in the best epoch, in the data's units; None before any was scored."""
        if self._held_out is None or not self._best_state:
            return None
        return self._best_score * int(self._held_out.observed.sum()) / len(self._held_out)

    @property
    def kept_epochs(self) -> int | None:
        """The number of epochs until the best one on validation rows."""
        return self._best_epochs if self._best_state and self._held_out is not None else None

    @property
    def num_rows(self) -> int:
        """The number of training rows."""
        return len(self._data)

    @property
    def solver(self) -> Solver | None:
        """The solver of the model's GPs, with the jitter that training needed; None where it is unchanged."""
        gps = (module for module in self.model.modules() if isinstance(module, IndependentGPs))
        return next(gps).solver if self.recovery.rollbacks else None

    @property
    def objective(self) -> float:
        """The training objective in the last epoch, with the full weight of the KL: restarts are compared by it."""
        return self.records[-1].elbo

    def _record(self, sums: torch.Tensor, began: float, rate: float, kl_weight: float) -> EpochRecord:
        elbo, ell, kl, log_prior = sums.tolist()
        return EpochRecord(
            start=self.start,
            epoch=len(self.records),
            elbo=elbo,
            ell=ell,
            kl=kl,
            log_prior=log_prior,
            learning_rate=rate,
            kl_weight=kl_weight,
            jitter=self.model.jitter,
            seconds=time.perf_counter() - began,
            rollbacks=self.recovery.rollbacks,
        )

    @torch.no_grad()
    def _assessed(self, generator: torch.Generator, began: float | None = None) -> EpochRecord:
        """The objective over all rows, without training; its time is from `began`, if that is given."""
        began = time.perf_counter() if began is None else began
        sums = torch.zeros(4, dtype=torch.float64)
        for piece in self._data.pieces(self._rows_at_once):
            terms = self._elbo(self.model, piece.to(self._device), generator)
            sums += len(piece) / len(self._data) * _values(terms)
        return self._record(sums, began, 0.0, 1.0)

    def _rate_at(self, clock: int) -> float:
        return self.config.rate_at(clock) * self.recovery.rate_factor

    def step(self, batch: Batch, kl_weight: float = 1.0) -> ElboTerms:
        """One gradient step on a batch: Adam for most parameters, closed-form updates for those that they own.

        Where several workers train together, each has its own rows of the batch.
        """
        self.model.zero_grad()
        terms = self._gradients(batch, kl_weight, self._team.count(len(batch)))
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        self._require_finite(float(nn.utils.get_total_norm(gradients)), "The gradient's norm")
        self._optimiser.step()
        for update in self.config.updates:
            update.apply(self.model, Step(self.num_steps, batch, terms, len(self._data), self._team.sum))
        self.num_steps += 1
        return terms

    def _gradients(self, batch: Batch, kl_weight: float, num_rows: int) -> ElboTerms:
        """Leave the gradients of all workers' rows at the parameters; the terms, with the misfit of this one's rows."""
        if self._team.size == 1:
            return self._own_gradients(batch, kl_weight, num_rows)
        try:
            terms = self._own_gradients(batch, kl_weight, num_rows)
        except TROUBLE:  # the others wait for this worker's gradients, and then find the same trouble
            terms = self._nothing(batch)
        own = torch.stack([terms.ell, terms.kl_local, terms.kl_global, terms.log_prior]).detach().double()
        shared = self._team.sum_gradients(self.model, len(batch) / num_rows * own).to(terms.ell)
        ell, kl_local, kl_global, log_prior = shared.unbind()
        return ElboTerms(ell, kl_local, kl_global, log_prior, terms.misfit)

    def _own_gradients(self, batch: Batch, kl_weight: float, num_rows: int) -> ElboTerms:
        """Gradients of pieces add up to that of the batch: memory is bounded, whatever its size.

        (`Balanced` weighs rows against those of their piece.)
        """
        pieces = [self._backward(piece, kl_weight, len(piece) / num_rows) for piece in batch.pieces(self._rows_at_once)]
        return ElboTerms.of_pieces(pieces)

    def _nothing(self, batch: Batch) -> ElboTerms:
        """Terms and gradients that are not numbers."""
        nan = torch.full((), math.nan, device=self._device, dtype=batch.y.dtype)
        for parameter in self.model.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.full_like(parameter, math.nan)
        return ElboTerms(nan, nan, nan, nan, misfit=torch.full_like(batch.y, math.nan))

    def _backward(self, rows: Batch, kl_weight: float, share: float) -> ElboTerms:
        """Add the gradient of a piece, weighted by its share of the batch."""
        terms = self._elbo(self.model, rows, self._draws)
        # Per datum, here only: Adam's ε should mean the same for every size of data set.
        loss = -terms.total(kl_weight) * share / len(self._data)
        self._require_finite(loss.item(), "The training objective")
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        return terms

    def _require_finite(self, value: float, name: str) -> None:
        if not math.isfinite(value):
            raise NumericalError(
                f"{name} must be finite; it is {value} in epoch {len(self.records) + 1}. "
                f"Lower learning_rate (now {self._rate_at(self._clock):.2g}), or train in float64."
            )


def _values(terms: ElboTerms) -> torch.Tensor:
    """ELBO, ELL, KL and log prior as numbers."""
    kl = terms.kl_local + terms.kl_global
    return torch.stack([terms.total(), terms.ell, kl, terms.log_prior]).detach().double().cpu()


@torch.no_grad()
def held_out_score(model: Model, rows: Batch, generator: torch.Generator, num_samples: int = 10) -> float:
    """Log likelihood of validation rows per observed output value, joint over the outputs of a row.

    See `mogul.prediction.row_density`. Of many rows an evenly spaced subset is scored, the same each time.
    """
    was_training = model.training
    model.eval()
    if len(rows) > _MOST_ROWS:
        rows = rows.rows(torch.linspace(0, len(rows) - 1, _MOST_ROWS).round().long())
    total, count = 0.0, int(rows.observed.sum())
    for part in torch.arange(len(rows)).split(1000):  # type: ignore[no-untyped-call]  # torch's own
        total += float(_row_log_densities(model, rows.rows(part), generator, num_samples).sum())
    model.train(was_training)
    if not math.isfinite(total):
        raise NumericalError(
            f"The log likelihood of held-out rows must be finite; it is {total}. "
            "Lower learning_rate, or train in float64."
        )
    return total / max(1, count)


def _row_log_densities(
    model: Model, rows: Batch, generator: torch.Generator, num_samples: int
) -> Float[Tensor, "N"] | Float[Array, "N"]:
    q = model.prior(rows.x, num_samples, generator)
    if has_shared_draws(q, rows.x):
        y = torch.where(rows.observed, rows.y.double(), math.nan)
        return HeadDensity.of(model, q, rows.x, generator).log_density(y.cpu().numpy(), quick=True)
    signal = model.mean.widened(model.head.moments(q, rows.x, generator), rows.x)
    return row_log_predictive(model, rows, signal, model.head.noise(rows.x, generator))
