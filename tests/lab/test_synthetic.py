"""The synthetic experiment, at a small scale."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from mogul.lab.experiments import synthetic
from mogul.lab.experiments.synthetic import Row, Slice
from mogul.training import Fitted, TrainingConfig

pytestmark = pytest.mark.filterwarnings("ignore:num_inducing should be at most:mogul.errors.MogulWarning")


def scale_down(patch: pytest.MonkeyPatch) -> None:
    """Few rows, few epochs, few draws."""
    predict = Fitted.predict
    patch.setattr(synthetic, "NUM_TRAIN", 40)
    patch.setattr(synthetic, "NUM_TEST", 500)
    patch.setattr(synthetic, "config", lambda seed: TrainingConfig(epochs=2, num_starts=1, seed=seed))
    patch.setattr(synthetic, "DEMO_TRAINING", {"start": "map"})
    patch.setattr(Fitted, "predict", lambda self, x, *_, **__: predict(self, x, num_samples=50))


@pytest.fixture(scope="module")
def results() -> list[tuple[Row, Slice | None]]:
    with pytest.MonkeyPatch.context() as patch:
        scale_down(patch)
        return list(synthetic.run(3))


def test_each_model_has_a_row_and_the_fitted_ones_a_slice(results):
    assert [row.model for row, _ in results] == ["oracle", "least squares", "mogp", "n-mogp"]
    assert [line is None for _, line in results] == [True, True, False, False]
    assert [row.seconds is None for row, _ in results] == [True, True, False, False]
    assert {row.seed for row, _ in results} == {3}


def test_scores_are_finite_and_none_beats_the_oracle(results):
    oracle = results[0][0]
    for row, _ in results:
        assert all(map(math.isfinite, (row.ll, row.mrmse, row.crps)))
        assert 0 <= row.coverage <= 1
    for row, _ in results[1:]:
        assert row.ll < oracle.ll
        assert row.mrmse > oracle.mrmse
        assert row.crps > oracle.crps


def test_the_oracle_knows_the_truth_and_the_noise(results):
    oracle = results[0][0]
    assert oracle.mrmse == pytest.approx(0.1, rel=0.05)
    # Eight Normals of scale 0.1 at their own draws.
    assert oracle.ll == pytest.approx(-4 * math.log(2 * math.pi * math.e * 0.01), abs=0.3)
    assert oracle.coverage == pytest.approx(0.8, abs=0.03)


def test_a_slice_runs_from_the_origin_past_the_data(results):
    for _, line in results[2:]:
        assert line.radius[0] == 0.0
        assert line.radius[-1] == 1.5
        np.testing.assert_allclose(line.truth, np.cos(4 * line.radius), rtol=1e-12, atol=1e-12)
        assert np.all(line.low < line.high)
        assert line.mean.shape == line.low.shape == line.radius.shape
        assert np.isfinite(line.mean).all()


def test_the_data_are_decided_by_the_seed(monkeypatch: pytest.MonkeyPatch):
    scale_down(monkeypatch)

    def first(seed: int) -> Row:
        return next(synthetic.run(seed))[0]

    assert first(1) == first(1)
    assert first(1).ll != first(2).ll


def test_results_come_as_they_are_ready(monkeypatch: pytest.MonkeyPatch):
    def fail(*args: object, **options: object) -> None:
        raise AssertionError("no model is fitted before it is asked for")

    monkeypatch.setattr(synthetic, "fit", fail)
    rows = synthetic.run(0)
    assert [next(rows)[0].model for _ in range(2)] == ["oracle", "least squares"]


def test_the_protocol_is_that_of_the_paper():
    config = synthetic.config(7)
    assert config.seed == 7
    assert config.num_starts == 5
    assert (synthetic.NUM_TRAIN, synthetic.NUM_TEST) == (1000, 5000)
    assert synthetic.MODELS["mogp"] == {"num_latents": 3, "num_inducing": 200}
    assert synthetic.MODELS["n-mogp"]["num_hidden"] == 8


def test_a_demo_computes_with_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen = []

    def run(seed: int) -> Iterator[tuple[Row, None]]:
        seen.append(torch.get_num_threads())
        yield Row(seed, "oracle", 7.0, 0.1, 0.05, 0.8), None

    monkeypatch.setattr(synthetic, "run", run)
    monkeypatch.setattr(synthetic, "synthetic_figure", lambda _: None)
    monkeypatch.setattr(synthetic, "save_figure", lambda *_: [])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        synthetic.run_demo(1, tmp_path, None)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)
