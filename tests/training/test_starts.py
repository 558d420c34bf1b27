"""Several starts, of which some break down; and Ctrl-C at any time."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.sameness import same_parameters

from mogul import Dataset, TrainingConfig, fit
from mogul.errors import FitError, MogulWarning, NumericalError
from mogul.training import Fitted, Run, Stopping
from mogul.training.checkpoint import Checkpoint
from mogul.training.fit import train_more

CONFIG: dict[str, Any] = {"epochs": 6, "batch_size": 7, "num_starts": 3, "start_epochs": 2}


def waves(num_rows: int = 18) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (num_rows, 1))
    return Dataset(x, np.hstack([np.sin(2 * x), np.cos(x)]) + 0.1 * rng.standard_normal((num_rows, 2)))


def quick(on_epoch: Any = None, **settings: Any) -> Fitted:
    return fit(
        waves(),
        model="mogp",
        config=TrainingConfig(**(CONFIG | settings)),
        noise="constant",
        num_inducing=6,
        on_epoch=on_epoch,
    )


def interrupting(monkeypatch: pytest.MonkeyPatch, start: int, num_steps: int, error: type[BaseException]) -> None:
    """Break a step of a start, in the midst of it, each time it is tried."""
    optimise = torch.optim.Adam.step
    step = Run.step

    def broken(run: Run, *rest: Any) -> Any:
        def halfway(optimiser: Any, *nothing: Any) -> Any:
            optimise(optimiser)  # parameters have moved, and nothing else knows
            raise error("Now.")

        with pytest.MonkeyPatch.context() as patch:
            if run.start == start and run.num_steps >= num_steps:
                patch.setattr(torch.optim.Adam, "step", halfway)
            return step(run, *rest)

    monkeypatch.setattr(Run, "step", broken)


class TestFallback:
    """A chosen start that breaks down after its trial has a second."""

    def test_the_next_best_start_takes_its_place(self, monkeypatch: pytest.MonkeyPatch):
        undisturbed = quick()
        frame = undisturbed.history.frame()
        trial = frame[frame.epoch == 1].set_index("start").elbo.sort_values()
        interrupting(monkeypatch, start=undisturbed.history.chosen_start, num_steps=10, error=NumericalError)
        with pytest.warns(MogulWarning, match=rf"Start {trial.index[-1] + 1} was given up\. Training must not") as said:
            fitted = quick()
        assert len(said) == 1
        assert fitted.history.chosen_start == trial.index[-2]
        assert len(fitted.history.elbo) == 6

    def test_with_one_start_the_error_is_its_own(self, monkeypatch: pytest.MonkeyPatch):
        interrupting(monkeypatch, start=0, num_steps=4, error=NumericalError)
        with pytest.raises(FitError, match=r"^Training must not diverge; in epoch 2 .*: Now\. Likely cause"):
            quick(num_starts=1)

    def test_when_all_fail_the_last_says_why(self, monkeypatch: pytest.MonkeyPatch):
        def fail(*_: Any) -> None:
            raise NumericalError("Now.")

        monkeypatch.setattr(Run, "step", fail)
        with (
            pytest.warns(MogulWarning) as said,
            pytest.raises(FitError, match=r"all 3 failed. The last: Training must"),
        ):
            quick()
        assert [str(each.message).split(".")[0] for each in said] == [f"Start {n} was given up" for n in (1, 2, 3)]


class TestInterrupt:
    """Ctrl-C: what was learnt is kept."""

    @pytest.mark.parametrize("num_steps", [6, 7, 8])
    def test_a_model_is_as_after_its_last_whole_epoch(self, monkeypatch: pytest.MonkeyPatch, num_steps: int):
        expected = quick(num_starts=1, epochs=2, milestones=())
        interrupting(monkeypatch, start=0, num_steps=num_steps, error=KeyboardInterrupt)
        with pytest.warns(MogulWarning, match=r"interrupted after 2 of at most 6 epochs; .* Give checkpoint="):
            fitted = quick(num_starts=1, milestones=())
        assert same_parameters(fitted, expected)
        assert not fitted.model.training

    def test_during_trials_the_best_so_far_is_kept(self, monkeypatch: pytest.MonkeyPatch):
        frame = quick().history.frame()
        best = frame[(frame.epoch == 1) & (frame.start < 2)].set_index("start").elbo.idxmax()
        interrupting(monkeypatch, start=2, num_steps=0, error=KeyboardInterrupt)
        with pytest.warns(MogulWarning, match="interrupted after 2 of"):
            fitted = quick()
        assert fitted.history.chosen_start == best
        assert set(fitted.history.frame().start) == {0, 1}

    def test_a_trial_that_is_not_over_counts_too(self, monkeypatch: pytest.MonkeyPatch):
        interrupting(monkeypatch, start=0, num_steps=4, error=KeyboardInterrupt)
        with pytest.warns(MogulWarning, match="interrupted after 1 of"):
            assert quick().history.chosen_start == 0

    def test_the_best_state_on_held_out_rows_is_put_back(self):
        def stop(record: Any, model: Any) -> None:
            if record.epoch == 4:
                raise KeyboardInterrupt

        settings = {
            "num_starts": 1,
            "milestones": (),
            "learning_rate": 0.5,
            "stopping": Stopping(held_out=0.3, tolerance=-1e9),
        }
        with pytest.warns(MogulWarning, match="interrupted after 5 of at most 6"):
            fitted = quick(stop, **settings)
        assert same_parameters(fitted, quick(epochs=5, **settings))
        assert not same_parameters(fitted, quick(epochs=5, **(settings | {"stopping": None})))

    def test_before_the_first_epoch_has_ended_it_is_an_interrupt(self, monkeypatch: pytest.MonkeyPatch):
        interrupting(monkeypatch, start=0, num_steps=1, error=KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            quick()

    def test_a_second_one_really_interrupts(self, monkeypatch: pytest.MonkeyPatch, tmp_path):
        def again(*_: Any) -> None:
            raise KeyboardInterrupt

        interrupting(monkeypatch, start=1, num_steps=0, error=KeyboardInterrupt)
        monkeypatch.setattr(Checkpoint, "save", again)
        with pytest.raises(KeyboardInterrupt):
            fit(
                waves(),
                model="mogp",
                config=TrainingConfig(**CONFIG),
                noise="constant",
                num_inducing=6,
                checkpoint=tmp_path,
            )

    def test_more_training_can_be_interrupted_too(self, monkeypatch: pytest.MonkeyPatch):
        fitted = quick(num_starts=1)
        interrupting(monkeypatch, start=0, num_steps=4, error=KeyboardInterrupt)
        with pytest.warns(MogulWarning, match="interrupted after 1 of at most 6"):
            more = train_more(fitted, waves())
        assert [record.epoch for record in more.history.records] == list(range(7))
        assert not same_parameters(more, fitted)
