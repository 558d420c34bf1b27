"""Small files that claim to be large are refused before memory is taken for them, whatever their format."""

import io
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet
from tests.helpers.terminal import assert_refused, command

import mogul
from mogul.data.sources.formats import read_table
from mogul.data.sources.table import MAX_COLUMNS, max_bytes, memory_limit
from mogul.errors import ConfigError, DataError

LIMIT = 0.01  # GiB


def npy_header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def npz_of(*headers: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for number, header in enumerate(headers):
                archive.writestr(f"a{number}.npy", header)

    return write


def mat_of(rows: int, columns: int) -> Callable[[Path], None]:
    def element(kind: int, data: bytes) -> bytes:
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    shape = element(5, struct.pack("<ii", rows, columns))
    parts = element(6, struct.pack("<II", 6, 0)) + shape + element(1, b"a") + element(9, b"")
    return lambda path: path.write_bytes(bytes(124) + struct.pack("<H", 0x100) + b"IM" + element(14, parts)) and None


def runs_of_one_value(path: Path) -> None:
    """Two million rows, each zero: a few thousand bytes in Parquet's runs."""
    parquet.write_table(pyarrow.table({"a": np.zeros(2_000_000)}), path, compression="zstd")
    assert path.stat().st_size < 20_000


def zeros(path: Path) -> None:
    np.savez_compressed(path, a=np.zeros(2_000_000))


CLAIMS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "columns without rows": (".npz", npz_of(npy_header((0, 10**9))), "at most 50,000 columns; .* has 1,000,000,000"),
    "many columns": (".npz", npz_of(npy_header((1, 10**6), "|i1") + bytes(10**6)), "at most 50,000 columns"),
    "many arrays": (".npz", npz_of(*[npy_header((0,))] * (MAX_COLUMNS + 1)), "at most 50,000 columns|would take"),
    "eleven gigabytes": (".npz", npz_of(npy_header((1_500_000_000,))), "claims .* 12,000,000,000 bytes, and holds 0"),
    "small numbers": (".npz", npz_of(npy_header((2_000_000,), "|i1") + bytes(2_000_000)), "would take 0.0149"),
    "compressed zeros": (".npz", zeros, "would take 0.0149"),
    "columns of a matrix": (".mat", mat_of(0, 10**9), "at most 50,000 columns"),
    "runs": (".parquet", runs_of_one_value, "would take 0.0149"),
    "wide": (".csv", lambda path: path.write_text(",".join(f"a{n}" for n in range(60_000))), "has 60,000"),
    "short cells": (".csv", lambda path: path.write_text("a,b\n" + "1,1\n" * 1_000_000), "would take 0.0149"),
}


@pytest.mark.parametrize(("ending", "write", "said"), CLAIMS.values(), ids=CLAIMS)
def test_a_claim_is_refused_at_once(ending: str, write: Callable[[Path], object], said: str, tmp_path: Path):
    path = tmp_path / f"t{ending}"
    write(path)
    began = time.process_time()
    tracemalloc.start()
    try:
        with memory_limit(LIMIT), pytest.raises(DataError, match=said) as caught:
            read_table(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * path.stat().st_size + 5e7
    assert time.process_time() - began < 10
    assert str(path) in str(caught.value)


def test_a_long_text_in_many_rows_is_kept_once(tmp_path: Path):
    """Two gigabytes, if each row had its own."""
    texts = pyarrow.DictionaryArray.from_arrays(np.zeros(200_000, dtype=np.int32), ["x" * 10_000])
    parquet.write_table(pyarrow.table({"a": texts}), tmp_path / "t.parquet", store_schema=False)
    before = pyarrow.default_memory_pool().max_memory()
    table = read_table(tmp_path / "t.parquet")
    assert table.columns["a"].iloc[-1] == "x" * 10_000
    assert pyarrow.default_memory_pool().max_memory() - before < 1e8


def test_parquet_keeps_text_gaps_and_leaves_lists_out(tmp_path: Path):
    frame = pd.DataFrame({"a": ["x", None, "y"], "b": [1.0, 2.0, 3.0], "c": [[1], [2], [3]]})
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert list(table.columns) == ["a", "b"]
    assert table.columns["a"].isna().tolist() == [False, True, False]
    with pytest.raises(DataError, match=r"'c' of .* is none: it holds lists or objects"):
        table.numbers(["c"])


def test_the_limit_is_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["x", "y"]).to_csv("t.csv", index=False)
    run = command(monkeypatch, capsys)
    fit = ["fit", "t.csv", "--targets", "y", "--no-check"]
    assert_refused(run(*fit, "--max-memory", "1e-7"), "t.csv would take", "--max-memory", "max_memory in Python")
    assert_refused(run(*fit, "--max-memory", "-1"), "--max-memory must be a positive number of GiB; got -1.0")
    assert not (tmp_path / "model.mogul").exists()
    assert run(*fit, "--max-memory", "0.1").code == 0
    for others in (["evaluate", "model.mogul", "t.csv"], ["predict", "model.mogul", "t.csv"]):
        assert_refused(run(*others, "--max-memory", "1e-7"), "t.csv would take")
    with pytest.raises(DataError, match="would take"):
        mogul.fit("t.csv", targets="y", max_memory=1e-7)
    with pytest.raises(ConfigError, match="max_memory must be a positive number of GiB; got nan"):
        mogul.fit("t.csv", targets="y", max_memory=float("nan"))
    assert 0 < max_bytes() <= 8 * 2**30
