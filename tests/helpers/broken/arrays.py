"""Parquet, .npz and .mat: cut, flipped, lying about their sizes, or full of other things."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import savemat
from tests.helpers.broken.case import Case, fit, good, kind

# Parquet.


def parquet(table: pd.DataFrame) -> bytes:
    return bytes(table.to_parquet(index=False))


@kind
def cut_parquet(rng: np.random.Generator, folder: Path) -> Case:
    content = parquet(good(rng))
    (folder / "t.parquet").write_bytes(content[: rng.integers(len(content))])
    return Case(fit("t.parquet"), "must be readable as Parquet", "t.parquet is not", "Is it complete")


@kind
def noise_as_a_file(rng: np.random.Generator, folder: Path) -> Case:
    ending, form = [("parquet", "Parquet"), ("npz", ".npz")][rng.integers(2)]
    (folder / f"t.{ending}").write_bytes(rng.bytes(int(rng.integers(2000))))
    return Case(fit(f"t.{ending}"), f"must be readable as {form}", f"t.{ending} is not", "Is it complete")


@kind
def parquet_of_other_things(rng: np.random.Generator, folder: Path) -> Case:
    odd = [[b"\xff"] * 12]
    good(rng).assign(a=odd[rng.integers(len(odd))]).to_parquet(folder / "t.parquet")
    arguments = fit("t.parquet", "--inputs", "a,b")
    return Case(arguments, "Inputs must be numbers, text or dates", "'a' of t.parquet holds a", "leave it out")


@kind
def parquet_of_lists(rng: np.random.Generator, folder: Path) -> Case:
    odd = [[["x"]] * 12, [{"k": 1}] * 12]
    good(rng).assign(a=odd[rng.integers(len(odd))]).to_parquet(folder / "t.parquet")
    arguments = fit("t.parquet", "--inputs", "a,b")
    return Case(arguments, "must name columns of numbers", "'a' of t.parquet is none: it holds lists", "Name another")


# NumPy's .npz.


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def xy(rng: np.random.Generator, rows: int = 40) -> dict[str, np.ndarray]:
    return {"X": rng.standard_normal((rows, 3)), "Y": rng.standard_normal((rows, 2))}


FIT_XY = ["--targets", "Y", "--inputs", "X", "--epochs", "1", "--out", "out.mogul"]


@kind
def cut_npz(rng: np.random.Generator, folder: Path) -> Case:
    content = npz(**xy(rng))
    (folder / "t.npz").write_bytes(content[: rng.integers(len(content) - 1)])
    return Case(["fit", "t.npz", *FIT_XY], "must be readable as .npz", "t.npz is not", "Is it complete")


@kind
def flipped_byte_in_npz(rng: np.random.Generator, folder: Path) -> Case:
    content = bytearray(npz(**xy(rng)))
    content[int(rng.integers(300, 1000))] ^= 1 << int(rng.integers(8))
    (folder / "t.npz").write_bytes(content)
    return Case(["fit", "t.npz", *FIT_XY], "must be readable as .npz", "Bad CRC-32", "Is it complete")


@kind
def pickles_in_npz(rng: np.random.Generator, folder: Path) -> Case:
    objects = np.array([{"a": 1}] * 40, dtype=object)
    (folder / "t.npz").write_bytes(npz(**xy(rng) | {"Y": objects}))
    return Case(
        ["fit", "t.npz", *FIT_XY], "--targets must name columns of numbers", "values are object", "Name another"
    )


@kind
def odd_array_in_npz(rng: np.random.Generator, folder: Path) -> Case:
    odd = [np.zeros((40, 2, 2)), np.array("text"), np.array(["w"] * 40), np.zeros(40, complex), np.zeros((40, 0))]
    (folder / "t.npz").write_bytes(npz(**xy(rng) | {"Y": odd[rng.integers(len(odd))]}))
    return Case(["fit", "t.npz", *FIT_XY], "--targets must name columns of numbers", "'Y' of t.npz", "Name another")


@kind
def lengths_that_differ(rng: np.random.Generator, folder: Path) -> Case:
    rows = int(rng.integers(1, 39))
    content = npz(X=xy(rng)["X"], Y=rng.standard_normal((rows, 2)))
    (folder / "t.npz").write_bytes(content)
    return Case(
        ["fit", "t.npz", *FIT_XY],
        "Columns must have the same number of rows",
        f"{rows}",
        "Name columns of equal length",
    )


@kind
def npy_header_that_lies(rng: np.random.Generator, folder: Path) -> Case:
    shape = [(10**12, 2), (2**40,), (10**6, 10**6), (39, 2), (41, 2), (10**30, 1)][rng.integers(6)]
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        archive.writestr("Y.npy", header.getvalue() + bytes(640))
        archive.writestr("X.npy", npy(xy(rng)["X"]))
    return Case(["fit", "t.npz", *FIT_XY], "Arrays must have the size in their header", "holds 640", "Do not trust")


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@kind
def zip_that_claims_too_much(rng: np.random.Generator, folder: Path) -> Case:
    entry, size = b"PK\x01\x02", 24  # of the directory, and where in it the size stands
    parts = npz(**xy(rng), Z=np.zeros(40)).split(entry)
    claim = int(rng.integers(2**31 + 2**30, 2**32 - 2))
    lies = [part[: size - 4] + struct.pack("<I", claim) + part[size:] for part in parts[1:]]
    (folder / "t.npz").write_bytes(entry.join([parts[0], *lies]))
    return Case(["fit", "t.npz", *FIT_XY], "must take at most", "t.npz would take", "Take fewer rows")


@kind
def array_name_twice(rng: np.random.Generator, folder: Path) -> Case:
    (folder / "t.npz").write_bytes(npz(**xy(rng), X1=np.zeros(40)))
    return Case(["fit", "t.npz", *FIT_XY], "Columns of arrays must have different names", "'X1'", "Rename an array")


@kind
def nothing_in_npz(rng: np.random.Generator, folder: Path) -> Case:
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        for number in range(int(rng.integers(3))):
            archive.writestr(f"note{number}.txt", "words")
    return Case(["fit", "t.npz", *FIT_XY], "must hold at least one array of numbers", "t.npz does not", "Give some")


# MATLAB's .mat.


def mat(content: dict[str, object], **options: object) -> bytes:
    buffer = io.BytesIO()
    savemat(buffer, content, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


@kind
def cut_mat(rng: np.random.Generator, folder: Path) -> Case:
    content = mat(xy(rng), do_compression=bool(rng.integers(2)))
    (folder / "t.mat").write_bytes(content[: -int(rng.integers(20, 400))])
    return Case(["fit", "t.mat", *FIT_XY], "must be readable as .mat", "t.mat is not", "Is it complete")


@kind
def no_mat_at_all(rng: np.random.Generator, folder: Path) -> Case:
    contents = [rng.bytes(400), b"", b"a,b\n1,2\n", mat(xy(rng), format="4"), mat(xy(rng))[: rng.integers(127)]]
    (folder / "t.mat").write_bytes(contents[rng.integers(len(contents))])
    return Case(["fit", "t.mat", *FIT_XY], "must be of version 5 to 7", "its first bytes are", "Save it again")


@kind
def new_mat(rng: np.random.Generator, folder: Path) -> Case:
    start = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    (folder / "t.mat").write_bytes(start.ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n" + rng.bytes(100))
    return Case(["fit", "t.mat", *FIT_XY], "must be of version 5 to 7", "version 7.3, which is HDF5", "'-v7'")


@kind
def mat_that_claims_too_much(rng: np.random.Generator, folder: Path) -> Case:
    content = mat({"Y": xy(rng)["Y"]})
    place = content.index(struct.pack("<II", 5, 8)) + 8  # the tag of the sizes
    size = int(rng.integers(2**29, 2**31))
    (folder / "t.mat").write_bytes(content[:place] + struct.pack("<II", size, size) + content[place + 8 :])
    return Case(["fit", "t.mat", *FIT_XY], "must be readable as .mat", "claims the shape", "Is it complete")


@kind
def words_in_mat(rng: np.random.Generator, folder: Path) -> Case:
    odd = ["text", np.array([[1, "a"]], dtype=object), {"field": 1.0}, np.zeros((40, 2, 2)), np.zeros((40, 2), complex)]
    (folder / "t.mat").write_bytes(mat(xy(rng) | {"Y": odd[rng.integers(len(odd))]}))
    return Case(["fit", "t.mat", *FIT_XY], "--targets must name columns of numbers", "'Y' of t.mat", "Name another")
