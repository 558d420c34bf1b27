"""Settings: defaults, learning-rate steps and annealing."""

import dataclasses

import pytest
import torch

from mogul.errors import UnknownNameError
from mogul.objective import Analytic, MonteCarlo
from mogul.training import TrainingConfig


def test_defaults_are_usable_and_reproducible():
    config = TrainingConfig()
    assert config == TrainingConfig()
    assert config.expectation == Analytic()
    assert config.seed == 0
    assert config.dtype == torch.float64


def test_settings_cannot_be_changed_behind_the_checks():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainingConfig().epochs = 0


def test_a_changed_copy_is_checked_again():
    assert dataclasses.replace(TrainingConfig(), expectation=MonteCarlo(3)).expectation == MonteCarlo(3)
    with pytest.raises(ValueError, match="epochs must be at least 1"):
        dataclasses.replace(TrainingConfig(), epochs=0)


@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("float64", torch.float64)])
def test_precision_is_a_torch_type(precision, dtype):
    assert TrainingConfig(precision=precision).dtype == dtype


def test_the_rate_falls_at_each_milestone_and_only_there():
    config = TrainingConfig(epochs=8, learning_rate=0.4, milestones=(0.25, 0.5), decay=0.1)
    expected = [0.4, 0.4, 0.04, 0.04, 0.004, 0.004, 0.004, 0.004]
    assert [config.rate_at(epoch) for epoch in range(8)] == pytest.approx(expected, rel=1e-12)


def test_milestones_count_in_any_order():
    first, second = (TrainingConfig(epochs=10, milestones=shares) for shares in ((0.2, 0.7), (0.7, 0.2)))
    assert [first.rate_at(epoch) for epoch in range(10)] == [second.rate_at(epoch) for epoch in range(10)]


@pytest.mark.parametrize("options", [{"milestones": ()}, {"decay": 1.0}])
def test_the_rate_can_be_kept_constant(options):
    config = TrainingConfig(epochs=5, learning_rate=0.1, **options)
    assert [config.rate_at(epoch) for epoch in range(5)] == [0.1] * 5


@pytest.mark.parametrize(
    ("epochs", "share"),
    [
        (100, 0.5),
        (10, 0.3),
        (200, 0.9),
        (100, 0.07),
        (100, 0.55),
        (50, 0.14),
    ],
)
def test_a_milestone_at_a_whole_epoch_is_that_epoch(epochs, share):
    config = TrainingConfig(epochs=epochs, learning_rate=1.0, milestones=(share,), decay=0.5)
    falls = round(epochs * share)
    assert (config.rate_at(falls - 1), config.rate_at(falls)) == (1.0, 0.5)


@pytest.mark.parametrize("epochs", [20, 42, 60])
def test_a_cosine_rises_to_the_rate_and_falls_to_a_hundredth(epochs):
    config = TrainingConfig(epochs=epochs, learning_rate=0.5, schedule="cosine")
    rates = [config.rate_at(epoch) for epoch in range(epochs)]
    highest = rates.index(max(rates))
    assert highest in (epochs // 10 - 1, epochs // 10)
    assert rates == sorted(rates[:highest]) + sorted(rates[highest:], reverse=True)
    assert max(rates) == pytest.approx(0.5, rel=0.02)
    assert max(rates) <= 0.5
    assert 0.005 < rates[-1] < 0.01
    # A wave is as much above its middle as below it.
    assert sum(rates[highest:]) / (epochs - highest) == pytest.approx(0.5 * 1.01 / 2, rel=0.05)


def test_on_a_cosine_a_rate_that_no_longer_helps_is_left_for_one_halfway_to_the_end():
    config = TrainingConfig(epochs=40, schedule="cosine")
    assert [config.next_change(epoch) for epoch in (0, 20, 37, 39)] == [20, 30, 39, 40]


def test_rates_given_one_by_one_win_over_the_cosine():
    config = TrainingConfig(epochs=3, schedule="cosine", rates=(0.1, 0.3, 0.2))
    assert [config.rate_at(epoch) for epoch in range(3)] == [0.1, 0.3, 0.2]


@pytest.mark.usefixtures("as_a_user_calls")
def test_an_unknown_schedule_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'cosine'"):
        TrainingConfig(schedule="cosin")


def test_without_annealing_the_kl_has_full_weight():
    assert [TrainingConfig().kl_weight_at(epoch) for epoch in range(3)] == [1.0] * 3


def test_annealing_rises_in_equal_steps_to_full_weight():
    config = TrainingConfig(anneal_epochs=3)
    assert [config.kl_weight_at(epoch) for epoch in range(5)] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
