"""Predictions to files: those of the predictor, in any number of parts, taken up where they were killed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.row_tables import INPUTS, TARGETS, frame, write

import mogul
from mogul.data.sources.row_files import RowFiles
from mogul.errors import ConfigError, DataError, FileError
from mogul.fitted import to_files
from mogul.fitted.to_files import Asked, predict_files
from mogul.training import Fitted

TABLE = frame(700)


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    few = frame(60, seed=4)
    return mogul.fit(few[[*INPUTS]], few[[*TARGETS]], mean="linear", calibrate=0.4, check=False, verbose=0)


@pytest.fixture
def files(tmp_path: Path) -> RowFiles:
    return RowFiles.of(write(TABLE, tmp_path / "rows"), [], INPUTS, kept=["a"])


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_they_are_the_predictors(fitted: Fitted, tmp_path: Path, suffix: str) -> None:
    files = RowFiles.of(write(TABLE, tmp_path / "rows", suffix), [], INPUTS)
    counts: list[int] = []
    assert predict_files(fitted, files, tmp_path / "out.parquet", part_rows=100, watch=counts.append) == 700
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found.columns) == ["y", "y_std", "z", "z_std"]
    mean, std = fitted.predictor().mean_std(TABLE[[*INPUTS]])
    np.testing.assert_allclose(found[["y", "z"]], mean)
    np.testing.assert_allclose(found[["y_std", "z_std"]], std)
    assert counts == sorted(counts)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.parquet"]


def test_quantiles_intervals_and_kept_columns(fitted: Fitted, files: RowFiles, tmp_path: Path) -> None:
    predict_files(fitted, files, tmp_path / "out", Asked([0.1, 0.9], coverage=0.5), part_rows=150)
    found = pd.concat(map(pd.read_parquet, sorted((tmp_path / "out").glob("*.parquet"))), ignore_index=True)
    assert list(found.columns[:7]) == ["a", "y", "y_std", "y_q0.1", "y_q0.9", "y_low", "y_high"]
    np.testing.assert_array_equal(found["a"], TABLE["a"])
    low, high = fitted.interval(TABLE[[*INPUTS]], 0.5)
    np.testing.assert_allclose(found[["z_low", "z_high"]], np.stack([low[:, 1], high[:, 1]], axis=1))
    np.testing.assert_allclose(
        found[["y_q0.1", "z_q0.1"]], fitted.predict(TABLE[[*INPUTS]], 250).quantiles([0.1])[0], rtol=2e-3
    )


@pytest.mark.parametrize("out", ["out.parquet", "out"])
def test_killed_it_goes_on(
    fitted: Fitted, files: RowFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    asked = Asked([0.5], seed=3)
    predict_files(fitted, files, tmp_path / f"whole{out}", asked, part_rows=90)
    write_part, written = to_files._Writer.write, list[int]()

    def write_some(writer: to_files._Writer, partial: Path, rows: object, number: int) -> None:
        if len(written) == 4:
            raise KeyboardInterrupt
        written.append(number)
        write_part(writer, partial, rows, number)

    with monkeypatch.context() as patch:
        patch.setattr(to_files._Writer, "write", write_some)
        with pytest.raises(KeyboardInterrupt):
            predict_files(fitted, files, tmp_path / out, asked, part_rows=90)
        written.clear()
        with pytest.raises(KeyboardInterrupt):
            predict_files(fitted, files, tmp_path / out, asked, part_rows=90)
    assert written == [4, 5, 6, 7]
    assert predict_files(fitted, files, tmp_path / out, asked, part_rows=90) == 700
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / out), pd.read_parquet(tmp_path / f"whole{out}"))


def test_parts_of_other_predictions_are_not_mixed(fitted: Fitted, files: RowFiles, tmp_path: Path) -> None:
    predict_files(fitted, files, tmp_path / "out")
    with pytest.raises(FileError, match=r"out has others: levels differs"):
        predict_files(fitted, files, tmp_path / "out", Asked([0.5]))
    with pytest.raises(FileError, match="kept differs"):
        predict_files(fitted, replace(files, kept=()), tmp_path / "out")
    with pytest.raises(ConfigError, match="must go into a new folder"):
        predict_files(fitted, files, tmp_path / "rows")
    with pytest.raises(DataError, match="'y' is used twice"):
        predict_files(fitted, replace(files, kept=("y",)), tmp_path / "new")
    with pytest.raises(ConfigError, match="not calibrated"):
        predict_files(replace(fitted, calibration=None), files, tmp_path / "new", Asked(coverage=0.9))
    assert not (tmp_path / "new").exists()


def test_encoded_inputs_are_refused(tmp_path: Path) -> None:
    few = frame(30).assign(kind=["p", "q"] * 15)
    fitted = mogul.fit(few[["a", "kind"]], few["y"], check=False, verbose=0, mean="linear")
    files = RowFiles.of(write(TABLE, tmp_path), [], INPUTS[:1])
    with pytest.raises(ConfigError, match="must have inputs that are numbers"):
        predict_files(fitted, files, tmp_path / "out")
