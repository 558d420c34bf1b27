"""Rows held out of training, by place or by group."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from tests.helpers.choosing import CONFIG, HELD_OUT, trained, waves
from tests.helpers.sameness import same_parameters

import mogul
import mogul.fitted.files
from mogul import TrainingConfig, fit
from mogul.data.splits import group_numbers
from mogul.errors import ConfigError, DataError
from mogul.training import Run, Stopping
from mogul.training.fit import train_more
from mogul.training.split import rows_at_random, rows_of_some_groups, split_rows


class TestHeldOut:
    """Which rows have no part in training."""

    def test_held_out_rows_have_no_part_in_anything(self):
        known = np.setdiff1d(np.arange(36), HELD_OUT)
        alone = fit(waves().rows(known), model="mogp", config=CONFIG, noise="constant", num_inducing=5)
        beside = trained(config=TrainingConfig(**{**vars(CONFIG), "stopping": Stopping(tolerance=-np.inf)}))
        np.testing.assert_array_equal(beside.scaling.inputs.shift, alone.scaling.inputs.shift)
        np.testing.assert_array_equal(beside.scaling.outputs.scale, alone.scaling.outputs.scale)
        np.testing.assert_array_equal(
            beside.model.mean.state_dict()["weights"], alone.model.mean.state_dict()["weights"]
        )
        assert beside.history.elbo == alone.history.elbo

    @pytest.mark.parametrize("noise", ["student-t", "auto"])
    def test_in_the_end_all_rows_are_trained_on_for_as_long_as_was_best(self, noise: str, tmp_path: Path):
        longer = replace(CONFIG, epochs=6, learning_rate=2.0)  # too long strides to go on getting better
        first = trained(config=longer, noise=noise)
        epochs = first.history.kept_epochs
        assert epochs is not None
        assert epochs < 6
        rates = tuple(record.learning_rate for record in first.history.records[:epochs])
        assert rates[0] == 2.0
        again = trained(config=longer, noise=noise, retrain=True, checkpoint=tmp_path)
        chosen = noise if first.choice is None else first.choice.chosen.noise
        assert same_parameters(again, trained(config=longer.replaying(rates), noise=chosen, held_out=None))
        assert (again.history.num_rows, len(again.history.elbo)) == (36, epochs)
        assert (again.history.held_out, again.history.retrained) == (first.history.held_out, True)
        assert (first.history.num_rows, first.history.retrained) == (30, False)
        again.save(tmp_path / "m")
        assert mogul.load(tmp_path / "m").history == again.history
        resumed = trained(config=longer, noise=noise, retrain=True, checkpoint=tmp_path)
        assert same_parameters(resumed, again)

    def test_they_must_know_something(self):
        data = waves()
        data.y[HELD_OUT] = np.nan
        with pytest.raises(DataError, match="Held-out rows must have known outputs; the 6 held out have none"):
            fit(data, model="mogp", config=CONFIG, noise="constant", held_out=HELD_OUT)

    def test_their_likelihood_is_that_of_a_row(self):
        fitted = trained()
        data = waves().rows(HELD_OUT)
        prediction, y = fitted.predict(data.x), fitted.scaling.outputs.apply(data.y)
        standard = prediction.standardised(fitted.scaling.outputs)
        assert fitted.history.held_out == pytest.approx(np.nansum(standard.log_density(y)) / len(HELD_OUT), rel=1e-4)
        assert trained(held_out=None).history.held_out is None

    def test_rows_are_drawn_evenly_and_the_same_for_the_same_seed(self):
        """Each row is held out in a quarter of 2,000 draws: the counts are those of a chi-square test."""
        draws = np.array([np.isin(np.arange(12), rows_at_random(12, 0.25, seed)) for seed in range(2000)])
        assert (draws.sum(1) == 3).all()
        variance = 2000 * 0.25 * 0.75 * 12 / 11  # of a count, less what the fixed sum of a draw takes
        assert chi2.sf(np.square(draws.sum(0) - 500).sum() / variance, 11) > 1e-3
        np.testing.assert_array_equal(rows_at_random(12, 0.25, 7), rows_at_random(12, 0.25, 7))
        known, watched = split_rows(12, Stopping(held_out=0.25), None, seed=7)
        np.testing.assert_array_equal(watched, rows_at_random(12, 0.25, 7))
        assert sorted([*known, *watched]) == list(range(12))

    def test_more_training_holds_out_the_same_rows(self, monkeypatch: pytest.MonkeyPatch):
        """What was held out must not be trained on when the same rows are given again, whatever the seed."""
        runs = []
        build = Run.__init__

        def seen(run: Run, *rest: Any, **named: Any) -> None:
            build(run, *rest, **named)
            runs.append(run)

        monkeypatch.setattr(Run, "__init__", seen)
        config = replace(CONFIG, num_starts=1, stopping=Stopping(held_out=0.25))
        fitted = fit(waves(), model="mogp", config=config, num_inducing=5)
        train_more(fitted, waves(), epochs=1, seed=5)
        first, more = runs
        assert more._held_out is not None
        assert torch.equal(first._held_out.x, more._held_out.x)

    @pytest.mark.parametrize("seed", range(20))
    def test_groups_are_held_out_whole(self, seed: int):
        groups = np.random.default_rng(seed).integers(0, 10, 200)
        held_out = rows_of_some_groups(groups, 0.3, seed)
        inside, outside = set(groups[held_out]), set(np.delete(groups, held_out))
        assert not inside & outside
        assert len(inside) == 3
        np.testing.assert_array_equal(held_out, rows_of_some_groups(groups, 0.3, seed))

    def test_one_group_at_least_and_not_all(self):
        assert (
            len(rows_of_some_groups(np.array([0, 1]), 0.01, 0))
            == len(rows_of_some_groups(np.array([0, 1]), 0.99, 0))
            == 1
        )

    def test_labels_may_be_anything(self):
        np.testing.assert_array_equal(group_numbers(np.array(["x", 3, "x", 2.5], dtype=object), 4), [0, 1, 0, 2])

    @pytest.mark.parametrize(
        ("held_out", "message"),
        [
            ([], "must be places of rows, whole numbers"),
            ([0.5], "must be places of rows, whole numbers"),
            ([36], "0 to 35, and not of all; got 1 from 36"),
            ([-1], "0 to 35, and not of all; got 1 from -1"),
            (range(36), "and not of all; got 36 from 0 to 35. Hold out fewer"),
        ],
    )
    @pytest.mark.usefixtures("as_a_user_calls")
    def test_what_are_no_places_is_refused(self, held_out: Any, message: str):
        with pytest.raises(ConfigError, match=message):
            split_rows(36, None, np.array(held_out), seed=0)

    def test_latent_inputs_are_refused(self):
        with pytest.raises(ConfigError, match="held_out must be 0 with latent inputs"):
            fit(waves(), model="mogp-lvm", config=CONFIG, num_inputs=1, held_out=HELD_OUT)
