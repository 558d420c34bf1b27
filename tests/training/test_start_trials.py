"""Several starts, each on trial; the best goes on."""

import numpy as np
import pytest
import torch
from tests.helpers.quick_fits import quick, waves

from mogul.errors import FitError, MogulWarning, NumericalError
from mogul.objective import Analytic, Elbo
from mogul.training import History, Run


@pytest.fixture(scope="module")
def histories() -> list[History]:
    """Of four seeds: four starts on trial for three epochs each."""
    return [quick(waves(), num_starts=4, start_epochs=3, epochs=5, seed=seed).history for seed in range(4)]


@pytest.mark.parametrize("seed", range(4))
def test_the_chosen_start_is_the_best_at_the_end_of_its_trial(seed, histories):
    frame = histories[seed].frame()
    trial = frame[frame.epoch == 2].set_index("start").elbo
    assert len(trial) == 4
    assert histories[seed].chosen_start == trial.idxmax()


def test_any_start_may_be_chosen(histories):
    assert len({history.chosen_start for history in histories}) > 1


def test_starts_are_compared_with_the_full_weight_of_the_kl():
    history = quick(waves(), num_starts=3, anneal_epochs=50).history
    frame = history.frame()
    np.testing.assert_allclose(frame.elbo, frame.ell - frame.kl + frame.log_prior, rtol=1e-12)
    trial = frame[frame.epoch == 1].set_index("start").elbo
    assert history.chosen_start == trial.idxmax()


@pytest.mark.parametrize(
    ("num_starts", "start_epochs", "epochs", "counts"),
    [(1, 3, 5, [5]), (3, 2, 5, [5, 2, 2]), (2, 9, 4, [4, 4]), (2, 4, 4, [4, 4])],
)
def test_trials_count_towards_the_epochs_of_the_chosen(num_starts, start_epochs, epochs, counts):
    history = quick(waves(), num_starts=num_starts, start_epochs=start_epochs, epochs=epochs).history
    frame = history.frame()
    per_start = frame.groupby("start").epoch.agg(["count", "max"])
    assert sorted(per_start["count"], reverse=True) == counts
    assert list(per_start["max"] + 1) == list(per_start["count"])
    assert per_start["count"][history.chosen_start] == epochs == len(history.elbo)


def test_the_fitted_model_is_the_chosen_one():
    fitted = quick(waves(), num_starts=3, epochs=3, learning_rate=1e-9)
    frame = fitted.history.frame()
    # At such a rate a start keeps its objective: that of the model we got must be that of the chosen start.
    batch = fitted.scaling.batch(waves(), torch.float64)
    ell = Elbo(Analytic(), len(batch))(fitted.model, batch, torch.Generator()).ell.item()
    gaps = (frame[frame.epoch == 0].set_index("start").ell - ell).abs()
    assert gaps.idxmin() == fitted.history.chosen_start
    assert gaps.min() < 1e-4 < gaps.drop(fitted.history.chosen_start).min()


def test_a_start_that_breaks_down_is_given_up_with_a_warning(monkeypatch: pytest.MonkeyPatch):
    train = Run.train

    def fragile(run, until, on_epoch):
        if run.start == 0:
            raise FitError("It broke.")
        train(run, until, on_epoch)

    def fragile_for_all(run, until, on_epoch):
        raise FitError("It broke.")

    monkeypatch.setattr(Run, "train", fragile)
    with pytest.warns(MogulWarning, match=r"Start 1 was given up. It broke."):
        assert quick(waves(), num_starts=2).history.chosen_start == 1
    monkeypatch.setattr(Run, "train", fragile_for_all)
    with pytest.warns(MogulWarning), pytest.raises(NumericalError, match="all 2 failed"):
        quick(waves(), num_starts=2)
