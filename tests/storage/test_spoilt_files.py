"""What is not a model file, or is one no more, is refused and not opened."""

import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save as raw_save
from tests.helpers.stored_models import trained

from mogul.errors import FileError, MogulError
from mogul.fitted.files import load, save
from mogul.storage.container import read_sealed, write_sealed


class Bomb:
    """A pickle that leaves a trace if anybody opens it."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.trace),))


def sealed_with(path: Path, **changes: Any) -> None:
    """The same file with another header, sealed anew: what somebody with bad intentions would do."""
    header, tensors = read_sealed(path)
    write_sealed(path, {**header, **changes, "sha256": "0" * 64}, tensors)


def with_tensors(path: Path, **changes: torch.Tensor) -> None:
    header, tensors = read_sealed(path)
    replaced = {name.replace("__", "."): tensor for name, tensor in changes.items()}
    write_sealed(path, {**header, "sha256": "0" * 64}, tensors | replaced)


def random_plane(**changes: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """What a file holds of a random plane, in these sizes."""
    sizes = {"rows": (4, 2), "lengthscale": (3, 2), "coefficients": (3, 4, 3), "root": (3, 3, 3)} | changes
    return {f"model__mean__uncertainty__{name}": torch.ones(size).double() for name, size in sizes.items()}


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def raw(path: Path, header: Any, length: int | None = None) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text)


def huge(path: Path) -> None:
    entry = {"dtype": "F64", "shape": [2**40, 2**20], "data_offsets": [0, 2**63]}
    raw(path, {"__metadata__": {"mogul": json.dumps({"format": 1})}, "model.a": entry})


PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)
SOME = {"a": torch.zeros(2)}
COSTLY = {"part": "PolynomialErf", "settings": {"coefficients": [1.0], "order": 10**9}}
HOSTILE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "newer": (lambda p: sealed_with(p, format=99), "format 4 or older; .* has format 99", "Update mogul"),
    "truncated": (rewrite(lambda b: b[:-100]), "must be complete; .* where", "Copy it again"),
    "longer": (rewrite(lambda b: b + b"x"), "must be complete", "Copy it again"),
    "half": (rewrite(lambda b: b[: len(b) // 2]), "must be complete|header would take", "Copy it|made by save"),
    "flipped in a tensor": (rewrite(lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:]), "SHA-256", "Copy it again"),
    "flipped in a name": (rewrite(lambda b: b.replace(b"load", b"loaf")), "SHA-256 .* has changed", "Copy it again"),
    "empty": (rewrite(lambda b: b""), "must be one that mogul wrote; .* first bytes", "made by save"),
    "a few bytes": (rewrite(lambda b: b[:5]), "must be one that mogul wrote", "made by save"),
    "a picture": (rewrite(lambda b: PNG), "must be one that mogul wrote; .*PNG", "made by save"),
    "text": (rewrite(lambda b: b"time,load\n1,2\n"), "must be one that mogul wrote", "made by save"),
    "zeros": (rewrite(lambda b: bytes(1000)), "must be one that mogul wrote", "made by save"),
    "torch's own": (lambda p: torch.save(SOME, p), "must be one that mogul wrote", "made by save"),
    "another safetensors": (lambda p: p.write_bytes(raw_save(SOME)), "header is not one of mogul's", "made by save"),
    "other metadata": (lambda p: p.write_bytes(raw_save(SOME, {"mogul": "[1]"})), "not one of mogul's", "made by save"),
    "a folder": (lambda p: (p.unlink(), p.mkdir()), "must be there; .* is no file", "Check its path"),
    "nothing": (Path.unlink, "must be there; .* is no file", "Check its path"),
    "a huge header": (lambda p: raw(p, b"{" + bytes(99), 2**62), "header would take 4,611,686", "made by save"),
    "a header as long as allowed": (lambda p: raw(p, b"{}", 10**8), "header would take 100,000,000", "made by save"),
    "nested": (lambda p: raw(p, b'{"a":' * 200_000), "header is not one of mogul's", "made by save"),
    "a huge tensor": (huge, "must be complete; .* where 9,223,372,036,854,775,808 belong", "Copy it again"),
    "not JSON": (lambda p: raw(p, b"{nonsense}"), "header is not one of mogul's", "made by save"),
    "another model": (
        lambda p: sealed_with(p, model="dgp"),
        "must describe a model .* does not",
        "fit the model again",
    ),
    "no model": (lambda p: sealed_with(p, model="x"), "model must be one of", "by --import"),
    "odd model": (lambda p: sealed_with(p, model=[]), "model must be one of", "fit the model again"),
    "unknown option": (lambda p: sealed_with(p, options={"degree": 1}), "option must be one of", "by --import"),
    "unknown part": (
        lambda p: sealed_with(p, options={"solver": {"part": "os.system", "settings": {}}}),
        "Parts in a model file must be among .* 'os.system'",
        "fit the model again",
    ),
    "costly part": (
        lambda p: sealed_with(p, options={"nonlinearity": COSTLY}),
        "order must be at most 1000",
        "fit the model again",
    ),
    "more outputs": (lambda p: sealed_with(p, num_outputs=10**12), "header must agree", "fit the model again"),
    "more inputs": (lambda p: sealed_with(p, num_inputs=10**12), "header must agree", "fit the model again"),
    "no scaling": (lambda p: sealed_with(p, scaling={}), "must describe a model", "fit the model again"),
    "odd scaling": (lambda p: sealed_with(p, scaling=3), "must describe a model", "fit the model again"),
    "odd history": (lambda p: sealed_with(p, history={"columns": {"a": 1}}), "must describe", "fit the model again"),
    "sizes that multiply": (
        lambda p: with_tensors(
            p,
            model__head__features__hidden_weights=torch.zeros(60_000, 1, dtype=torch.float64),
            model__prior__variational_mean=torch.zeros(60_000, 1, dtype=torch.float64),
        ),
        "must not need more numbers than its file holds; one part needs 3,600,000,000",
        "fit the model again",
    ),
    "a plane whose sizes multiply": (
        lambda p: with_tensors(p, **random_plane(rows=(60_000, 2), lengthscale=(60_000, 2))),
        "coefficients must be .*60000, 60000, 3.*; got",
        "fit the model again",
    ),
    "a plane of more outputs": (
        lambda p: with_tensors(p, **random_plane(lengthscale=(9, 2), coefficients=(9, 4, 3), root=(9, 3, 3))),
        r"uncertainty must be of a plane of shape \(D, P\) = \(2, 3\); got \(2, 9\)",
        "fit the model again",
    ),
    "a plane in parts": (
        lambda p: with_tensors(p, model__mean__uncertainty__root=torch.zeros(2, 4, 3, dtype=torch.float64)),
        "must describe a model",
        "fit the model again",
    ),
    "a plane of another precision": (
        lambda p: with_tensors(p, **{name: part.float() for name, part in random_plane().items()}),
        "Tensors must have the model's precision",
        "fit the model again",
    ),
    "another precision": (
        lambda p: with_tensors(p, model__head__noise__log_precision=torch.zeros(3)),
        "Tensors must have the model's precision",
        "fit the model again",
    ),
    "a tensor of another shape": (
        lambda p: with_tensors(p, model__head__noise__log_precision=torch.zeros(7, dtype=torch.float64)),
        "must describe a model",
        "fit the model again",
    ),
    "a tensor too many": (lambda p: with_tensors(p, model__x=torch.zeros(7)), "must describe", "fit the model again"),
    "a bad layout": (
        lambda p: sealed_with(p, layouts={"prior.variational_mean": [0, 0]}),
        "must describe a model",
        "fit the model again",
    ),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "model.mogul"
    save(trained("n-mogp"), path)
    return path.read_bytes()


@pytest.fixture
def path(good: bytes, tmp_path: Path, as_a_user_calls: None) -> Path:
    """A good file, to be spoilt, as a user meets it."""
    (tmp_path / "model.mogul").write_bytes(good)
    return tmp_path / "model.mogul"


@pytest.mark.parametrize(("spoil", "rule", "remedy"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_a_model_file_is_refused(spoil: Any, rule: str, remedy: str, path: Path) -> None:
    load(path)
    spoil(path)
    with pytest.raises(FileError, match=rf"(?s)({rule}).*({remedy})") as caught:
        load(path)
    assert isinstance(caught.value, MogulError)
    assert isinstance(caught.value, OSError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_not_opened(protocol: int, path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb(path.parent / "trace"), protocol=protocol))
    with pytest.raises(FileError, match="must be one that mogul wrote"):
        load(path)
    torch.save({"a": Bomb(path.parent / "trace")}, path)
    with pytest.raises(FileError, match="must be one that mogul wrote"):
        load(path)
    assert not (path.parent / "trace").exists()


def test_any_flipped_byte_is_noticed(good: bytes, path: Path) -> None:
    length = int.from_bytes(good[:8], "little")
    rng = np.random.default_rng(0)
    places = {*range(20), *rng.integers(8, 8 + length, 150), *rng.integers(8 + length, len(good), 50)}
    for place in sorted(int(each) for each in places):
        flipped = bytearray(good)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        with pytest.raises(FileError):
            load(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_any_truncation_is_noticed(share: float, good: bytes, path: Path) -> None:
    path.write_bytes(good[: int(share * len(good))])
    with pytest.raises(FileError):
        load(path)


def test_a_sound_random_plane_is_not_refused(path: Path) -> None:
    certain = load(path).predict([[9.0, 9.0]]).std
    with_tensors(path, **random_plane())
    assert (load(path).predict([[9.0, 9.0]]).std > certain).all()
