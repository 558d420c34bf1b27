"""Tables from files: the same numbers in every format, names kept, gaps kept, and nothing guessed."""

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from mogul.data.sources import formats
from mogul.data.sources import table as table_module
from mogul.data.sources.formats import read_csv, read_table
from mogul.data.sources.table import Table, require_complete
from mogul.errors import DataError, FileError

FRAME = pd.DataFrame({"a": [0.1, 1e-300, -3.0], "b": [1.0, np.nan, 3.0], "c": [4.0, 5.0, 6.0]})


def written(folder: Path, suffix: str) -> Path:
    path = folder / f"t{suffix}"
    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    match suffix:
        case ".csv":
            FRAME.to_csv(path, index=False)
        case ".tsv":
            FRAME.to_csv(path, index=False, sep="\t", na_rep="NA")
        case ".txt":
            FRAME.to_csv(path, index=False, sep=";")
        case ".parquet":
            FRAME.to_parquet(path)
        case ".npz":
            np.savez_compressed(path, **columns)
        case _:
            savemat(path, columns, do_compression=True)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".parquet", ".npz", ".mat"])
def test_every_format_gives_the_same_numbers_to_the_last_bit(suffix: str, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, suffix))
    assert list(table.columns) == ["a", "b", "c"]
    pd.testing.assert_frame_equal(table.numbers(["a", "b", "c"]), FRAME, check_exact=True)


def test_a_matrix_is_named_as_one_or_column_by_column(tmp_path: Path) -> None:
    matrix = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "t.npz", X=matrix, Y=matrix[:, :1], note=np.array("words"))
    savemat(tmp_path / "t.mat", {"X": matrix, "Y": matrix[:, 0], "note": "words"})  # a vector becomes a row
    for name in ("t.npz", "t.mat"):
        table = read_table(tmp_path / name)
        np.testing.assert_array_equal(table.numbers(["X"]), matrix)
        np.testing.assert_array_equal(table.numbers(["Y", "X1"]), matrix)
        assert table.others(["Y"]) == ["X0", "X1"]
        assert list(table.unusable) == ["note"]


def test_arrays_of_another_length_are_left_alone_until_they_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.zeros((3, 2)), y=np.zeros(3), X_test=np.zeros((5, 2)))
    table = read_table(tmp_path / "t.npz")
    assert table.others(["y"]) == ["X0", "X1"]
    assert table.numbers(["X_test"]).shape == (5, 2)
    with pytest.raises(DataError, match=r"'y' of .* has 3 and 'X_test0' 5"):
        table.numbers(["y", "X_test"])


def test_standard_input_is_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa,b\r\n1,\r\n\r\n2,3\r\n")))
    table = read_table(Path("-"))
    np.testing.assert_array_equal(table.numbers(["a", "b"]), [[1, np.nan], [2, 3]])


def test_a_terminal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(DataError, match="it is a terminal"):
        read_table(Path("-"))


def test_cells_keep_what_they_mean() -> None:
    table = read_csv(b'"a,1", flag ,missing\n"1.5", True,NA\n-2e3, False,\n', "here")
    np.testing.assert_array_equal(
        table.numbers(["a,1", "flag", "missing"]), [[1.5, 1.0, np.nan], [-2000.0, 0.0, np.nan]]
    )


def test_more_than_memory_holds_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "MAX_BYTES", 10**5)
    np.savez_compressed(tmp_path / "t.npz", a=np.zeros(10**5))
    with pytest.raises(DataError, match=r"must take at most .* would take"):
        read_table(tmp_path / "t.npz")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, ".parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError, match=r"needs pyarrow; .*pip install \"mogul\[parquet\]\""):
        read_table(path)


def test_an_index_with_a_name_is_a_column_and_one_without_is_not(tmp_path: Path) -> None:
    FRAME.set_index("a").to_parquet(tmp_path / "named.parquet")
    FRAME.set_index(pd.Index([5, 3, 1])).to_parquet(tmp_path / "nameless.parquet")
    assert set(read_table(tmp_path / "named.parquet").columns) == {"a", "b", "c"}
    assert list(read_table(tmp_path / "nameless.parquet").columns) == ["a", "b", "c"]


def test_missing_inputs_are_named_with_their_rows() -> None:
    x = pd.DataFrame({"a": [np.nan] * 5, "b": [1, np.inf, 1, 1, np.nan], "c": [1.0] * 5})
    with pytest.raises(DataError) as caught:
        require_complete(x, "t.csv")
    assert "'a' in rows 1, 2, 3 and 2 more rows; 'b' in rows 2, 5." in str(caught.value)


def test_decimals_and_nullable_numbers_are_numbers() -> None:
    columns = {"a": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([True, None, False], dtype="boolean")}
    np.testing.assert_array_equal(Table("here", columns).numbers(["a", "b"]), [[1, 1], [np.nan, np.nan], [3, 0]])


def test_a_close_name_is_suggested() -> None:
    with pytest.raises(DataError, match=r"'torqe' is not among torque, angle\. Did you mean 'torque'\?"):
        Table("here", {"torque": [1], "angle": [2]}).numbers(["torqe"])


def test_every_ending_has_a_reader() -> None:
    assert set(formats.READERS) == {
        *(".csv", ".tsv", ".txt", ".parquet", ".npz", ".mat"),
        *(".xlsx", ".feather", ".jsonl", ".arff"),
    }
