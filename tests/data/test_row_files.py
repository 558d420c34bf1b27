"""Tables in several files, read in parts: the same rows whatever the format, and errors that name the file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.row_tables import INPUTS, TARGETS, frame, write

from mogul.data.sources.row_files import RowFiles, stays_on_disk, whole_frame
from mogul.data.sources.table import memory_limit
from mogul.errors import ConfigError, DataError, FileError, MogulError

TABLE = frame(1000)


def rows(files: RowFiles, rows_at_once: int = 170) -> np.ndarray:
    return np.concatenate([part.values for part in files.parts(rows_at_once)])


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".feather", ".arrow"])
def test_all_rows_in_their_order(tmp_path: Path, suffix: str) -> None:
    files = RowFiles.of(str(write(TABLE, tmp_path, suffix) / f"*{suffix}"), TARGETS)
    np.testing.assert_array_equal(rows(files), TABLE.to_numpy())
    assert max(len(part.values) for part in files.parts(170)) <= 170
    assert files.about_rows == pytest.approx(1000, rel=0.02)


def test_columns_in_another_order_are_found_by_name(tmp_path: Path) -> None:
    write(TABLE, tmp_path)
    TABLE[[*reversed(TABLE.columns)]].to_csv(tmp_path / "part9.csv", index=False)
    files = RowFiles.of(tmp_path, ["z"], ["b", "a"])
    np.testing.assert_allclose(rows(files), np.tile(TABLE[["b", "a", "z"]].to_numpy(), (2, 1)))


def test_labels_and_kept_columns_come_along(tmp_path: Path) -> None:
    table = TABLE.assign(run=[f"r{row // 100}" for row in range(1000)])
    files = RowFiles.of(write(table, tmp_path), TARGETS, groups="run", kept=["run", "a"])
    assert files.inputs == INPUTS
    parts = list(files.parts(64))
    assert np.concatenate([part.labels for part in parts]).tolist() == table["run"].tolist()
    kept = pd.concat([part.frame for part in parts if part.frame is not None], ignore_index=True)
    pd.testing.assert_frame_equal(kept, table[["run", "a"]], check_dtype=False)


def test_memory_decides_whether_rows_stay_on_disk(tmp_path: Path) -> None:
    write(TABLE, tmp_path)
    with memory_limit(1e-3):
        assert not stays_on_disk(tmp_path, None)
    with memory_limit(1e-4):
        assert stays_on_disk(tmp_path, None)
        assert not stays_on_disk(tmp_path, False)
        assert not stays_on_disk("part0.parquet", None)  # a single table is refused, as ever
    pd.testing.assert_frame_equal(whole_frame(tmp_path), TABLE)


def spoiled(folder: Path, **columns: object) -> Path:
    write(TABLE, folder)
    TABLE.assign(**columns).to_parquet(folder / "part7.parquet", index=False)
    return folder


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ({"d": 1.0}, DataError, "the same columns; 'd' is in .*part7.parquet and not in .*part0.parquet"),
        ({"a": "x"}, DataError, "must be numbers; 'a' of .*part7.parquet holds"),
        ({"a": np.inf}, DataError, "Inputs must be finite; column 'a' .* counted from row 0 of .*part7.parquet"),
        ({"y": np.inf}, DataError, "Outputs must be finite or NaN .* of .*part7.parquet"),
    ],
)
def test_what_is_wrong_in_one_file_is_named(
    tmp_path: Path, columns: dict[str, object], kind: type[MogulError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        rows(RowFiles.of(spoiled(tmp_path, **columns), TARGETS))


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"must match at least one table; .*none\*.csv"):
        RowFiles.of(tmp_path / "none*.csv", ["y"])
    write(TABLE, tmp_path)
    TABLE.drop(columns="y").to_parquet(tmp_path / "part8.parquet", index=False)
    with pytest.raises(DataError, match=r"targets must name columns of every file; 'y' is not in .*part8.parquet"):
        RowFiles.of(tmp_path, TARGETS)
    with pytest.raises(ConfigError, match="'a' is both"):
        RowFiles.of(tmp_path / "part0.parquet", ["a"], ["a", "b"])
    with pytest.raises(DataError, match="must have columns to predict from"):
        RowFiles.of(tmp_path / "part0.parquet", list(TABLE.columns))
    with pytest.raises(DataError, match=r"must end in .parquet"):
        RowFiles.of([tmp_path / "part0.parquet", Path(__file__)], ["y"])
    (tmp_path / "part0.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match=r"readable as .parquet; .*part0.parquet is not"):
        RowFiles.of(tmp_path, TARGETS)
    with pytest.raises(ConfigError, match="stream needs the path"):
        stays_on_disk(TABLE, True)
