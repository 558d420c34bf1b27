"""The latent-variable model as a transformer."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.helpers.small_estimators import SMALL_LVM

from mogul import MultiOutputGPLVM


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, 60)
    phases = np.linspace(0, np.pi, 6)
    noise = np.random.default_rng(2).normal(0, 0.05, (60, 6))
    return 10 * (np.sin(angle[:, None] + phases) + noise) + 3


@pytest.fixture(scope="module")
def gplvm(table: np.ndarray) -> MultiOutputGPLVM:
    settings = SMALL_LVM | {
        "model": "mogp",
        "config": None,
        "num_hidden": None,
        "epochs": 120,
        "num_inducing": 15,
        "inference_steps": 150,
        "num_samples": 50,
    }
    return MultiOutputGPLVM(2, **settings).fit(table)


class TestLatent:
    """The latent-variable model."""

    def test_there_and_back(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        positions = gplvm.transform(table)
        assert positions.shape == (60, 2)
        assert np.abs(gplvm.inverse_transform(positions) - table).mean() < 0.2 * table.std()

    def test_positions_do_not_depend_on_company(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        np.testing.assert_allclose(gplvm.transform(table)[:9], gplvm.transform(table[:9]), atol=1e-6)

    def test_missing_values_are_filled_in_and_the_others_kept(self, gplvm: Any, table: np.ndarray) -> None:
        holes = table.copy()
        lost = np.random.default_rng(0).random(table.shape) < 0.2
        holes[lost] = np.nan
        filled = gplvm.impute(holes)
        np.testing.assert_array_equal(filled[~lost], table[~lost])
        assert np.abs(filled - table)[lost].mean() < 0.5 * np.abs(table - table.mean(0))[lost].mean()

    def test_new_rows_look_like_the_old(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        drawn = gplvm.sample(500, random_state=1)
        assert drawn.shape == (500, 6)
        assert np.all(np.abs(drawn.mean(0) - table.mean(0)) < table.std(0))
        np.testing.assert_array_equal(drawn, gplvm.sample(500, random_state=1))

    def test_densities_are_in_original_units(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        holes = table.copy()
        holes[0, 1:] = np.nan
        scale = np.log(gplvm.fitted_.scaling.outputs.scale)
        expected = gplvm.fitted_.log_evidence_bound(holes, 50)
        np.testing.assert_allclose(gplvm.log_density(holes)[1:], expected[1:] - scale.sum(), rtol=1e-9)
        assert gplvm.log_density(holes)[0] == pytest.approx(expected[0] - scale[0])
        assert gplvm.score(holes) == pytest.approx(gplvm.log_density(holes).mean())

    def test_frames_and_names(self, table: np.ndarray) -> None:
        names = [f"sensor{number}" for number in range(6)]
        frame = pd.DataFrame(table, columns=names, index=range(7, 67))
        gplvm = MultiOutputGPLVM(2, **SMALL_LVM).fit(frame)
        assert isinstance(gplvm.transform(frame), np.ndarray)
        assert list(gplvm.get_feature_names_out()) == ["multioutputgplvm0", "multioutputgplvm1"]
        positions = gplvm.set_output(transform="pandas").transform(frame)
        assert list(positions.columns) == list(gplvm.get_feature_names_out())
        for out in (gplvm.impute(frame), gplvm.inverse_transform(positions)):
            assert list(out.columns) == names
            assert list(out.index) == list(frame.index)
        assert list(gplvm.sample(2).columns) == names

    def test_tensors(self, gplvm: MultiOutputGPLVM, table: np.ndarray) -> None:
        np.testing.assert_array_equal(gplvm.transform(torch.as_tensor(table)), gplvm.transform(table))
