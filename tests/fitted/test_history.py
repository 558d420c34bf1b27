"""What is remembered of a training, and shown while it runs."""

import numpy as np
from tests.helpers.quick_fits import QUICK, quick, waves

from mogul.training import TrainingConfig, fit


def test_a_frame_has_one_row_per_epoch_and_start():
    frame = quick(waves()).history.frame()
    assert list(frame.columns) == [
        "start",
        "epoch",
        "elbo",
        "ell",
        "kl",
        "log_prior",
        "learning_rate",
        "kl_weight",
        "jitter",
        "seconds",
        "rollbacks",
    ]
    assert len(frame) == 6
    assert not frame.duplicated(["start", "epoch"]).any()
    assert np.isfinite(frame.to_numpy(dtype=float)).all()


def test_the_elbo_is_that_of_the_chosen_start_in_order():
    history = quick(waves(), num_starts=3).history
    frame = history.frame()
    chosen = frame[frame.start == history.chosen_start].sort_values("epoch")
    assert history.elbo == chosen.elbo.tolist()


def test_rates_and_weights_follow_the_settings():
    config = TrainingConfig(**QUICK, learning_rate=0.1, milestones=(0.5,), decay=0.5, anneal_epochs=2)
    for record in fit(waves(), model="mogp", config=config, noise="constant").history.records:
        assert record.learning_rate == config.rate_at(record.epoch)
        assert record.kl_weight == config.kl_weight_at(record.epoch)


def test_every_epoch_is_shown_with_its_model():
    seen = []
    config = TrainingConfig(**(QUICK | {"num_starts": 1}))
    fitted = fit(
        waves(),
        model="mogp",
        config=config,
        noise="constant",
        num_inducing=6,
        on_epoch=lambda record, model: seen.append((record, model)),
    )
    assert [record for record, _ in seen] == list(fitted.history.records)
    assert all(model is fitted.model for _, model in seen)
