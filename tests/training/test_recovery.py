"""When numbers run away: back to the last good state, smaller steps, more jitter; three times, then an error."""

import logging
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import mogul
from mogul import Dataset, TrainingConfig, fit
from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.errors import FitError, MogulWarning, NumericalError
from mogul.models import build
from mogul.objective import Analytic
from mogul.priors import CIQ, Cholesky, with_more_jitter
from mogul.training import Run, Stopping
from mogul.training.fit import train_more
from mogul.training.loop import held_out_score
from mogul.training.recovery import likely_cause

NUM_ROWS = 20


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.linspace(-1.5, 1.5, NUM_ROWS)[:, None]
    return x, np.hstack([np.sin(3 * x), np.cos(2 * x)]) + 0.1 * rng.standard_normal((NUM_ROWS, 2))


class FailsAt:
    """Closed-form expectations, but for some calls, counted from 0: those give NaN."""

    num_samples = 1

    def __init__(self, *calls: int) -> None:
        self.calls = set(calls)
        self.count = -1

    def signal(self, model, x, generator):
        self.count += 1
        exact = Analytic().signal(model, x, generator)
        return Marginals(exact.mean, exact.var * (math.nan if self.count in self.calls else 1.0))


def start(expectation=None, **settings) -> Run:
    batch = Batch.of(*map(torch.as_tensor, rows()))
    model = build("n-mogp", batch.x, 2, torch.Generator().manual_seed(1), num_inducing=8)
    config = TrainingConfig(epochs=12, batch_size=7, expectation=expectation or Analytic(), **settings)  # 3 steps each
    return Run(model, batch, config, torch.Generator().manual_seed(2))


def train(run: Run, until: int = 12) -> Run:
    run.train(until, lambda record: None)
    return run


def same(one: Run, two: Run) -> bool:
    pairs = zip(one.model.parameters(), two.model.parameters(), strict=True)
    return all(torch.equal(first, second) for first, second in pairs)


def softened(run: Run, times: int = 1) -> Run:
    run.recovery.resume(run, times, run.recovery.good)
    return run


@pytest.fixture(scope="module")
def soft_from_the_fourth_epoch() -> Run:
    return train(softened(train(start(), 3)))


class TestRollBack:
    """Where a run is after trouble, by comparison with one that had smaller steps from there on."""

    @pytest.mark.parametrize("call", [12, 13, 14])
    def test_the_epoch_before_is_done_again_with_smaller_steps(self, call, soft_from_the_fourth_epoch):
        # Calls 12 to 14 are the fifth epoch: what went before the fourth is proven.
        broken = train(start(FailsAt(call)))
        assert same(broken, soft_from_the_fourth_epoch)
        assert [record.epoch for record in broken.records] == list(range(12))
        assert [record.rollbacks for record in broken.records] == [0] * 3 + [1] * 9
        rates = [broken.config.rate_at(epoch) for epoch in range(12)]
        expected = [rate * (1.0 if epoch < 3 else 0.3) for epoch, rate in enumerate(rates)]
        assert [record.learning_rate for record in broken.records] == pytest.approx(expected)
        assert [record.jitter for record in broken.records] == pytest.approx([1e-8] * 3 + [1e-7] * 9)

    def test_trouble_in_the_first_epoch_goes_back_to_the_start(self):
        assert same(train(start(FailsAt(1))), train(softened(start())))

    def test_every_epoch_of_one_step_can_be_mended_too(self):
        # The step that fails is the first from a state that the step before it made: that one is to blame.
        broken = start(FailsAt(4))
        once = start()
        for run in (broken, once):
            run._data = run._data.rows(torch.arange(7))
        assert same(train(broken), train(softened(train(once, 3))))

    def test_steps_become_smaller_each_time(self):
        broken = train(start(FailsAt(3, 6, 9)))
        assert broken.recovery.rollbacks == 3
        assert broken.records[-1].learning_rate == pytest.approx(0.3**3 * broken.config.rate_at(11))
        assert broken.records[-1].jitter == pytest.approx(1e-5)
        assert broken.solver.jitter == pytest.approx(1e-5)

    def test_the_fourth_time_is_an_error_that_leaves_the_model_at_its_last_good_state(self):
        broken = start(FailsAt(12, 15, 18, 21))
        with pytest.raises(FitError, match=r"in epoch 4 it did, for the 4th time, with steps of 0\.027 times"):
            train(broken)
        assert same(broken, train(start(), 3))
        assert len(broken.records) == 3

    def test_a_run_without_trouble_is_not_touched(self):
        assert train(start()).solver is None

    def test_epochs_at_other_rates_do_not_count_as_flat(self):
        # Six epochs of a patience of three show a rate to be flat; those before the trouble are forgotten.
        stopping = Stopping(patience=3, tolerance=math.inf)
        assert len(train(start(FailsAt(15), stopping=stopping)).records) == 4 + 6
        assert len(train(start(stopping=stopping)).records) == 12

    def test_it_is_logged(self, caplog: pytest.LogCaptureFixture):
        with caplog.at_level(logging.INFO, logger="mogul.training.recovery"):
            train(start(FailsAt(12)))
        (record,) = caplog.records
        assert record.getMessage().startswith("start 1, epoch 5: The training objective must be finite; it is nan")
        assert record.getMessage().endswith("Back to epoch 4, rates × 0.3, jitter × 10.")


def fails_when(trouble, step):
    """A step that fails in its own way now and then."""

    def failing(run, batch, kl_weight=1.0):
        if trouble():
            raise NumericalError("It broke. Mend it.")
        return step(run, batch, kl_weight)

    return failing


class Unreal:
    """An expectation that fails as libraries do."""

    num_samples = 1

    def __init__(self, error: Exception) -> None:
        self.error = error

    def signal(self, model, x, generator):
        raise self.error


@pytest.mark.parametrize(
    "error", [torch.linalg.LinAlgError("singular"), NumericalError("It must not. It does. Mend it.")], ids=str
)
def test_failures_of_linear_algebra_are_trouble_too(error):
    with pytest.raises(FitError, match=r"times their length: (singular|It must not)\. Likely cause"):
        train(start(Unreal(error)))


def test_other_errors_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        train(start(Unreal(ZeroDivisionError())))


def test_held_out_rows_that_are_not_finite_are_trouble():
    x, y = rows()
    y[:, 0] = 1e200 * y[:, 0]  # squares of these are beyond float64
    model = build("mogp", torch.as_tensor(x), 2, torch.Generator().manual_seed(1), num_inducing=4)
    with pytest.raises(NumericalError, match=r"The log likelihood of held-out rows must be finite; it is (-inf|nan)"):
        held_out_score(model, Batch.of(torch.as_tensor(x), torch.as_tensor(y)), torch.Generator())


class TestFit:
    """What a user sees of it."""

    config = TrainingConfig(epochs=30, num_starts=1, precision="float32", learning_rate=100.0)

    def fitted(self, **settings):
        x, y = rows()
        return fit(
            Dataset(x, y),
            model="mogp",
            config=TrainingConfig(**(vars(self.config) | settings)),
            noise="constant",
            num_latents=1,
            num_inducing=8,
        )

    def test_one_warning_says_how_often(self):
        trouble = FailsAt(3, 9)
        with pytest.warns(MogulWarning) as said:
            fitted = self.fitted(expectation=trouble, learning_rate=0.03)
        (warning,) = said
        assert str(warning.message).startswith("Training diverged 2 times and was rolled back")
        assert str(warning.message).endswith("Lower learning_rate (0.03), or train in float64.")
        assert fitted.history.records[-1].rollbacks == 2

    def test_a_file_has_the_jitter_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        trouble = iter([False] * 5 + [True])
        monkeypatch.setattr(Run, "step", fails_when(lambda: next(trouble, False), Run.step))
        with pytest.warns(MogulWarning, match="Training diverged once and was rolled back"):
            fitted = self.fitted(learning_rate=0.03)
        assert fitted.model.prior.solver.jitter == pytest.approx(1e-5)
        fitted.save(tmp_path / "model")
        loaded = mogul.load(tmp_path / "model")
        assert loaded.model.prior.solver == fitted.model.prior.solver
        np.testing.assert_array_equal(loaded.predict(rows()[0]).var, fitted.predict(rows()[0]).var)

    def test_too_long_steps_are_mended(self):
        with pytest.warns(MogulWarning, match="Training diverged"):
            fitted = self.fitted(learning_rate=100.0)
        assert np.isfinite(fitted.predict(rows()[0]).mean).all()

    def test_absurdly_long_steps_are_named(self):
        with pytest.raises(FitError, match=r"Likely cause: steps that are too long\. Lower learning_rate \(1e\+30\)"):
            self.fitted(learning_rate=1e30)

    def test_more_training_is_mended_too(self):
        x, y = rows()
        data = Dataset(x, y)
        trouble = FailsAt(15)
        config = TrainingConfig(epochs=10, num_starts=1, expectation=trouble)
        fitted = fit(data, model="mogp", config=config, noise="constant", num_inducing=8)
        with pytest.warns(MogulWarning, match="Training diverged once and was rolled back"):
            more = train_more(fitted, data)
        assert more.blueprint.options["solver"].jitter == pytest.approx(1e-7)
        assert "solver" not in fitted.blueprint.options


@pytest.mark.parametrize(
    ("settings", "began", "cause", "change"),
    [
        ({"learning_rate": 1.0}, True, "steps that are too long", "Lower learning_rate (1)"),
        ({}, False, "values far from all others", "Look for them in the data"),
        ({"precision": "float32"}, True, "rounding in single precision", "precision='float64'"),
        ({}, True, "a model with more freedom than the rows can hold", "Lower num_inducing, or learning_rate (0.03)"),
    ],
)
def test_the_likely_cause_is_named(settings, began, cause, change):
    text = likely_cause(TrainingConfig(**settings), began=began)
    assert text.startswith(f"Likely cause: {cause}")
    assert change in text


def test_more_jitter_within_limits():
    assert with_more_jitter(Cholesky(jitter=5e-3), 10.0, torch.float64) == Cholesky(jitter=1e-2)
    assert with_more_jitter(Cholesky(), 10.0, torch.float32).jitter == pytest.approx(1e-5)
    assert with_more_jitter(CIQ(), 10.0, torch.float64).jitter == pytest.approx(1e-2)

    class Own:
        """Somebody's own solver."""

        def whiten(self, kzz, kzx): ...

        def update(self, kzz, kzx, posterior): ...

    own = Own()
    assert with_more_jitter(own, 10.0, torch.float64) is own
