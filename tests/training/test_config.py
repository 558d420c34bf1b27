"""Settings: defaults, learning-rate steps and annealing."""

import dataclasses

import pytest
import torch

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


def test_without_annealing_the_kl_has_full_weight():
    assert [TrainingConfig().kl_weight_at(epoch) for epoch in range(3)] == [1.0] * 3


def test_annealing_rises_in_equal_steps_to_full_weight():
    config = TrainingConfig(anneal_epochs=3)
    assert [config.kl_weight_at(epoch) for epoch in range(5)] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
