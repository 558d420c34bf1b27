"""MATLAB's matrices: what SciPy reads, without what SciPy crashes on."""

import io
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from mogul.data.sources.array_files import read_matrices

KINDS = ["float64", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]


def saved(content: dict[str, object], **options: object) -> bytes:
    buffer = io.BytesIO()
    savemat(buffer, content, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_scipys(kind: str, compressed: bool) -> None:
    rng = np.random.default_rng(0)
    shapes = {"a": (1, 1), "bc": (3, 2), "name_of_nine": (1, 7), "d": (7, 1), "e": (0, 3), "f": (2, 3, 4)}
    content = saved(
        {name: (100 * rng.random(shape)).astype(kind) for name, shape in shapes.items()}, do_compression=compressed
    )
    expected = loadmat(io.BytesIO(content))
    found = list(read_matrices(content, "here"))
    assert [matrix.name for matrix in found] == list(shapes)
    for name, values, refused in found:
        assert refused is None
        np.testing.assert_array_equal(values, expected[name])


def test_numbers_stored_in_fewer_bytes_than_their_class_are_read() -> None:
    """MATLAB keeps whole numbers of class double in one byte each, and one of them in the tag itself."""
    content = saved({})[:128] + _element(14, _element(6, struct.pack("<II", 6, 0)) + _sizes("<", 1, 1) + NAME + SMALL)
    ((name, values, _),) = read_matrices(content, "here")
    assert (name, values.tolist()) == ("Y", [[7]])
    assert loadmat(io.BytesIO(content))["Y"].tolist() == [[7]]


def test_files_of_the_other_byte_order_are_read() -> None:
    parts = _element(6, struct.pack(">II", 6, 0), ">") + _sizes(">", 2, 1) + _element(1, b"Y", ">")
    content = b"MATLAB 5.0".ljust(124) + b"\x01\x00MI"
    content += _element(14, parts + _element(9, struct.pack(">dd", 1.5, -2.0), ">"), ">")
    ((_, values, _),) = read_matrices(content, "here")
    assert values.tolist() == [[1.5], [-2.0]] == loadmat(io.BytesIO(content))["Y"].tolist()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("words", "text"),
        ({"field": 1.0}, "struct"),
        (np.array([[1, "a"]], dtype=object), "cell array"),
        (np.ones((2, 2)) * 1j, "complex"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_named_with_the_reason(value: object, reason: str) -> None:
    (first, second) = read_matrices(saved({"odd": value, "good": np.ones((2, 2))}), "here")
    assert (first.name, first.values) == ("odd", None)
    assert first.refused is not None
    assert reason in first.refused
    np.testing.assert_array_equal(second.values, np.ones((2, 2)))


@pytest.mark.parametrize("compressed", [False, True])
def test_any_changed_byte_is_read_or_refused(compressed: bool) -> None:
    """Never another error, never a crash: SciPy's reader crashes on some of these."""
    content = saved({"X": np.arange(6.0).reshape(3, 2), "t": "text"}, do_compression=compressed)
    for place in range(128, len(content)):
        for value in (0, 255, content[place] ^ 4):
            changed = content[:place] + bytes([value]) + content[place + 1 :]
            with suppress(ValueError, struct.error, zlib.error):
                list(read_matrices(changed, "here"))


def _element(kind: int, data: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}II", kind, len(data)) + data + bytes(-len(data) % 8)


def _sizes(order: str, *sizes: int) -> bytes:
    return _element(5, struct.pack(f"{order}{len(sizes)}i", *sizes), order)


NAME = struct.pack("<HH", 1, 1) + b"Y\0\0\0"
SMALL = struct.pack("<HH", 2, 1) + b"\7\0\0\0"
