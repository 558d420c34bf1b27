"""Tables from files: the same numbers in every format, names kept, gaps kept, and nothing guessed."""

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from mogul.data.sources import formats
from mogul.data.sources import table as table_module
from mogul.data.sources.formats import read_table
from mogul.data.sources.table import Table, require_complete
from mogul.data.sources.text_formats import read_csv
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
        case ".csv.gz":
            FRAME.to_csv(path, index=False)
        case ".xlsx":
            FRAME.to_excel(path, index=False)
        case ".feather":
            FRAME.to_feather(path)
        case ".jsonl":
            FRAME.to_json(path, orient="records", lines=True, double_precision=15)
        case ".arff":
            lines = [f"@attribute {name} numeric" for name in FRAME]
            path.write_text("\n".join([*lines, "@data", FRAME.to_csv(index=False, header=False, na_rep="?")]))
        case ".npz":
            np.savez_compressed(path, **columns)
        case _:
            savemat(path, columns, do_compression=True)
    return path


@pytest.mark.parametrize(
    "suffix",
    [".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".npz", ".mat", ".xlsx", ".feather", ".jsonl", ".arff"],
)
def test_every_format_gives_the_same_numbers_to_the_last_bit(suffix: str, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, suffix))
    assert list(table.columns) == ["a", "b", "c"]
    pd.testing.assert_frame_equal(table.numbers(["a", "b", "c"]), FRAME, check_exact=True)


def test_a_file_of_matlab_with_one_matrix_has_its_columns(tmp_path: Path) -> None:
    matrix = np.arange(12.0).reshape(4, 3)
    savemat(tmp_path / "t.mat", {"data": matrix})
    table = read_table(tmp_path / "t.mat")
    assert list(table.columns) == ["data0", "data1", "data2"]
    np.testing.assert_array_equal(table.numbers(["data"]), matrix)


def test_decimal_commas_are_read_where_cells_are_not_separated_by_commas() -> None:
    table = read_csv(b"a;b;c;;\n1,5;x,y;10.03.2004;;\n-2e3;z;11.03.2004;;\n;;;;\n", "here")
    assert list(table.columns) == ["a", "b", "c"]
    np.testing.assert_array_equal(table.columns["a"], [1.5, -2000.0])
    assert list(table.columns["b"]) == ["x,y", "z"]
    assert table.notes == (
        "semicolons between cells, decimal commas; 2 empty columns and 1 empty row at the end left out",
    )
    mixed = read_csv(b"a;b\n1,5;0\n1.5;0\n2,5;0\n", "here")  # a comma and a point: which one is it?
    with pytest.raises(DataError, match=r"'a' of here holds '1,5' in row 1 .* with a point for decimals"):
        mixed.numbers(["a"])


def test_sheets_keep_dates_words_and_gaps(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"when": pd.to_datetime(["2024-01-01", "2024-01-02"]), "site": ["a", None], "ok": [True, False]}
    )
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        frame.to_excel(book, sheet_name="first", index=False)
        FRAME.to_excel(book, sheet_name="second", index=False)
    table = read_table(tmp_path / "t.xlsx")
    assert table.columns["when"].dtype.kind == "M"
    assert table.columns["site"].isna().tolist() == [False, True]
    assert table.notes == ("sheet 'first', the first of 2",)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.xlsx", b"PK\x03\x04 not a book", "must be readable as .xlsx"),
        ("t.csv.gz", b"\x1f\x8b\x08 cut", "must be readable as gzip"),
        ("t.feather", b"ARROW1 cut", "must be readable as Feather"),
        ("t.jsonl", b'{"a": 1}\n{"a": \n', "line 2 of .* is not"),
        ("t.jsonl", b"[1, 2]\n", "holds a list"),
        ("t.jsonl", b'{"a": {"b": 1}}\n', "'a' in line 1 of .* holds a dict"),
        ("t.jsonl", b"\n", "must have at least one row"),
        ("t.arff", b"@attribute a numeric\n1\n", "must be ARFF with an @data line"),
        ("t.arff", b"@data\n1\n", "must have @attribute lines"),
        ("t.arff", b"@attribute a numeric\n@data\n1,2\n", "row 1 of .* has 2"),
    ],
)
def test_damaged_files_are_refused(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=says):
        read_table(tmp_path / name)


def test_a_small_packed_file_that_unpacks_to_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "max_bytes", lambda: 10**5)
    monkeypatch.setattr(table_module, "max_bytes", lambda: 10**5)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a\n" + b"1\n" * 10**6))
    with pytest.raises(DataError, match="must take at most"):
        read_table(tmp_path / "t.csv.gz")


def test_sheets_without_openpyxl_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, ".xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(FileError, match=r"needs the extra.*; openpyxl is not .*pip install \"mogul\[excel\]\""):
        read_table(path)


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
    monkeypatch.setattr(table_module, "max_bytes", lambda: 10**5)
    np.savez_compressed(tmp_path / "t.npz", a=np.zeros(10**5))
    with pytest.raises(DataError, match=r"must take at most .* would take"):
        read_table(tmp_path / "t.npz")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, ".parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError, match=r"needs the extra.*; pyarrow is not .*pip install \"mogul\[parquet\]\""):
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
        *(".xlsx", ".feather", ".arrow", ".jsonl", ".arff"),
    }


class TestCsvAsProgramsWriteIt:
    """Of pandas and R, of spreadsheets in Europe, of loggers."""

    @pytest.mark.parametrize("first", [0, 1])
    def test_a_first_column_that_counts_the_rows(self, first: int) -> None:
        frame = pd.DataFrame({"a": [1.5, 2.5, 0.5], "b": [3, 4, 5]}, index=range(first, first + 3))
        table = read_csv(frame.to_csv().encode(), "here")
        assert list(table.columns) == ["a", "b"]
        assert list(table.columns["a"]) == [1.5, 2.5, 0.5]
        assert table.notes == ("a first column that counts the rows left out",)

    @pytest.mark.parametrize("index", [[0, 1, 3], [0.5, 1.5, 2.5], ["x", "y", "z"]])
    def test_another_column_without_a_name_is_refused(self, index: list[object]) -> None:
        text = pd.DataFrame({"a": [1.5, 2.5, 0.5]}, index=index).to_csv()
        with pytest.raises(DataError, match="Every column must have a name; column 1 of 2"):
            read_csv(text.encode(), "here")

    def test_letters_of_a_spreadsheet_in_europe(self) -> None:
        table = read_csv("Höhe;°C\n1,5;2\n".encode("cp1252"), "here")
        assert list(table.columns) == ["Höhe", "°C"]
        assert table.notes == ("semicolons between cells, decimal commas; letters of Windows-1252, not of UTF-8",)

    def test_comments_before_the_names(self) -> None:
        text = "# logger 7\n# 2024, Jena\nspeed,load,heat\n1,2,3\n"
        table = read_csv(text.encode(), "here")
        assert list(table.columns) == ["speed", "load", "heat"]
        assert table.notes == ("2 lines of comments left out",)
        named = read_csv(b"#speed,load\n1,2\n", "here")  # as NumPy writes names
        assert list(named.columns) == ["#speed", "load"]
