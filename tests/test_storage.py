"""Model files: the same predictions bit for bit, whole or not there, and nothing else is taken for one."""

import json
import os
import pickle
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save as raw_save

import mogul
from mogul import models
from mogul.data import Dataset
from mogul.errors import FileError, MogulError
from mogul.nonlinearities import Erf, PolynomialErf, Quadrature
from mogul.objective import Analytic, MonteCarlo
from mogul.plain import decode, encode
from mogul.priors import CIQ, Cholesky
from mogul.rebuild import layouts_of
from mogul.sealed import FORMAT, read_sealed, write_sealed
from mogul.storage import describe, load, load_with_extra, save
from mogul.training import (
    Blueprint,
    Fitted,
    FittedLatent,
    NaturalGradient,
    NoiseUpdate,
    Stopping,
    TrainingConfig,
    fit,
)

SIZES = {
    "num_latents": 2,
    "num_top_latents": 2,
    "num_hidden": 4,
    "num_inducing": 6,
    "num_top_inducing": 5,
    "num_mixing_inducing": 4,
}
ONCE = TrainingConfig(epochs=1, num_starts=1)
NEW = np.array([[0.3, -1.0], [2.0, 0.5]])


def data(num_rows: int = 12) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, 2))
    y = np.column_stack([100 * np.sin(x[:, 0]), x[:, 0] * x[:, 1], 5 + np.cos(x[:, 1])])
    y[3, 0] = np.nan
    return Dataset(pd.DataFrame(x, columns=["time", "load"]), pd.DataFrame(y, columns=["left", "right", "höhe"]))


def sizes(name: str) -> dict[str, int]:
    return {option: size for option, size in SIZES.items() if option not in models.unused_options(name)}


def trained(name: str, config: TrainingConfig = ONCE, rows: int = 12, **options: Any) -> Fitted:
    latent = {"num_inputs": 2} if name.endswith("-lvm") else {}
    own = sizes(name)
    if "layers" in options:  # which have all sizes but this
        own = {"num_hidden": own["num_hidden"]}
    fitted = fit(data(rows), name, config, **latent, **(own | options))
    if isinstance(fitted, FittedLatent):
        return replace(fitted, inference=replace(fitted.inference, steps=4))
    return fitted


def again(fitted: Fitted, folder: Path) -> Fitted:
    fitted.save(folder / "model.mogul")
    return mogul.load(folder / "model.mogul")


def plain(fitted: Fitted) -> dict[str, Any]:
    """The blueprint as JSON: lists may come back as tuples, and quadrature rules know no equality."""
    assert fitted.blueprint is not None
    return {name: encode(value, name) for name, value in vars(fitted.blueprint).items()}


def assert_same(first: Fitted, second: Fitted) -> None:
    for part in ("mean", "var", "component_mean", "component_var"):
        np.testing.assert_array_equal(*(getattr(each.predict(NEW, 5), part) for each in (first, second)))
    np.testing.assert_array_equal(first.sample_functions(NEW, 3), second.sample_functions(NEW, 3))
    assert first.evaluate(data(), num_samples=5) == second.evaluate(data(), num_samples=5)
    for one, two in zip(*(each.predictor(4).mean_std(NEW) for each in (first, second)), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(*(each.predictor(4).jacobian(NEW) for each in (first, second)))
    assert layouts_of(first.model.state_dict()) == layouts_of(second.model.state_dict())
    assert (first.input_names, first.output_names) == (second.input_names, second.output_names)
    assert first.history == second.history
    assert plain(first) == plain(second)
    if isinstance(first, FittedLatent):
        assert isinstance(second, FittedLatent)
        y = data().y[:4]
        np.testing.assert_array_equal(first.reconstruct(y, 3).mean, second.reconstruct(y, 3).mean)
        np.testing.assert_array_equal(first.log_evidence_bound(y, 9), second.log_evidence_bound(y, 9))
        np.testing.assert_array_equal(first.latent_means, second.latent_means)
        assert first.inference == second.inference


@pytest.mark.no_cover  # many steps on lines that other tests run too
@pytest.mark.parametrize("name", models.names())
def test_a_loaded_model_predicts_bit_for_bit_the_same(name: str, tmp_path: Path) -> None:
    fitted = trained(name)
    assert_same(fitted, again(fitted, tmp_path))


VARIANTS: dict[str, Callable[[], Fitted]] = {
    "float32": lambda: trained("n-sbgprn", replace(ONCE, precision="float32")),
    "fewer rows than inducing points": lambda: trained("n-mogp", num_inducing=50),
    "fewer rows than any inducing points": lambda: trained("gprn", num_inducing=50, num_mixing_inducing=40),
    "fewer rows in a deep model": lambda: trained("dgp", rows=5),
    "three layers": lambda: trained("n-dgp", layers=[(2, 6), (3, 4), (2, 3)]),
    "linear inner mean": lambda: trained("dgp", inner_mean="linear"),
    "linear latent inner mean": lambda: trained("dgp-lvm", inner_mean="linear"),
    "correlated mixing": lambda: trained("n-mogp", correlated_mixing=True),
    "no plane": lambda: fit(data(), "mogp", ONCE, mean="paper", **sizes("mogp")),
    "constant mean": lambda: fit(data(), "n-mogp", ONCE, mean="constant", **sizes("n-mogp")),
    "a nonlinearity by name": lambda: trained("n-mogp", nonlinearity="relu"),
    "a nonlinearity": lambda: trained("n-mogp", nonlinearity=Erf(shift=0.25)),
    "a polynomial": lambda: trained("n-mogp", nonlinearity=PolynomialErf((0.0, 1.0), order=9)),
    "a solver": lambda: trained("mogp", solver=Cholesky(jitter=1e-4)),
    "another solver": lambda: trained("mogp", solver=CIQ(jitter=1e-2)),
    "a whole configuration": lambda: trained(
        "n-mogp-lvm",
        TrainingConfig(
            epochs=2,
            num_starts=2,
            start_epochs=1,
            expectation=MonteCarlo(3),
            updates=(NoiseUpdate(0.1), NaturalGradient(parts=("mixing",))),
            stopping=Stopping(patience=2),
        ),
    ),
}


@pytest.mark.filterwarnings("ignore:num_.*inducing should be at most:mogul.errors.MogulWarning")
@pytest.mark.filterwarnings("ignore:Outputs should have at least:mogul.errors.MogulWarning")
@pytest.mark.parametrize("make", VARIANTS.values(), ids=VARIANTS)
def test_every_option_survives(make: Callable[[], Fitted], tmp_path: Path) -> None:
    fitted = make()
    assert_same(fitted, again(fitted, tmp_path))


def test_a_file_can_be_saved_again_and_is_the_same(tmp_path: Path) -> None:
    again(trained("n-sbgprn"), tmp_path)
    load(tmp_path / "model.mogul").save(tmp_path / "second")
    assert (tmp_path / "second").read_bytes() == (tmp_path / "model.mogul").read_bytes()


def test_a_header_is_plain_json_that_says_what_is_in_the_file(tmp_path: Path) -> None:
    save(trained("n-mogp", nonlinearity=Erf(0.5)), tmp_path / "m", extra={"note": "a", "grid": (1, 2.5)})
    header = describe(tmp_path / "m")
    assert header["format"] == FORMAT
    assert header["model"] == "n-mogp"
    assert header["options"]["nonlinearity"] == {"part": "Erf", "settings": {"shift": 0.5}}
    assert header["output_names"] == ["left", "right", "höhe"]
    assert header["config"]["settings"]["epochs"] == 1
    assert header["versions"]["mogul"] == mogul.__version__
    assert len(header["history"]["columns"]["elbo"]) == 1
    assert load_with_extra(tmp_path / "m")[1] == {"note": "a", "grid": (1, 2.5)}


@pytest.mark.parametrize(
    "value", [None, True, 3, 0.5, "a", np.int64(3), np.float32(0.5), (1, (2, 3)), {"a": (1,)}, Analytic(3), CIQ(), ONCE]
)
def test_settings_come_back(value: Any) -> None:
    assert decode(json.loads(json.dumps(encode(value, "value")))) == value


class TestNotStorable:
    """What cannot be stored is refused before anything is written."""

    @staticmethod
    def refused(fitted: Fitted, folder: Path, *parts: str) -> None:
        with pytest.raises(FileError) as caught:
            fitted.save(folder / "model.mogul")
        places = [str(caught.value).find(part) for part in parts]
        assert -1 not in places, str(caught.value)
        assert places == sorted(places)
        assert not list(folder.iterdir())

    def test_a_function(self, tmp_path: Path) -> None:
        fitted = trained("n-mogp", nonlinearity=Quadrature(torch.sin))
        self.refused(fitted, tmp_path, "nonlinearity must be made of", "Quadrature", "use one of mogul's own")

    def test_a_subclass_may_mean_something_else(self, tmp_path: Path) -> None:
        class Mine(Erf):
            pass

        self.refused(trained("n-mogp", nonlinearity=Mine()), tmp_path, "nonlinearity must be", "Mine", "keep this")

    def test_a_solver_of_ones_own(self, tmp_path: Path) -> None:
        class Other(Cholesky):
            pass

        self.refused(trained("mogp", solver=Other()), tmp_path, "solver must be made of", "Other", "holds no code")

    def test_a_configuration_with_parts_of_ones_own(self, tmp_path: Path) -> None:
        class Mine(NoiseUpdate):
            pass

        fitted = trained("mogp", replace(ONCE, updates=(Mine(),)))
        self.refused(fitted, tmp_path, "config.updates must be made of", "Mine", "use one of mogul's own")
        assert fitted.blueprint is not None
        forgetful = again(replace(fitted, blueprint=replace(fitted.blueprint, config=None)), tmp_path)
        np.testing.assert_array_equal(forgetful.predict(NEW).mean, fitted.predict(NEW).mean)

    def test_a_model_without_a_blueprint(self, tmp_path: Path) -> None:
        fitted = replace(trained("mogp"), blueprint=None)
        self.refused(fitted, tmp_path, "must have a blueprint", "has none", "Fit it with mogul.fit")


class TestWriting:
    """All or nothing."""

    @pytest.mark.parametrize("step", ["fsync", "replace"])
    def test_a_failure_leaves_the_old_file_and_nothing_else(
        self, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "model.mogul"
        path.write_text("old")

        def fail(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        fitted = trained("mogp")
        monkeypatch.setattr(os, step, fail)
        with pytest.raises(FileError, match=r"must be writable; .* No space left on device. Choose a folder"):
            fitted.save(path)
        assert path.read_text() == "old"
        assert [each.name for each in tmp_path.iterdir()] == ["model.mogul"]

    def test_an_interrupt_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        fitted = trained("mogp")
        monkeypatch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fitted.save(tmp_path / "model.mogul")
        assert not list(tmp_path.iterdir())

    def test_a_folder_that_is_not_there_or_stands_in_the_way(self, tmp_path: Path) -> None:
        fitted = trained("mogp")
        for path in (tmp_path / "none" / "model.mogul", tmp_path):
            with pytest.raises(FileError, match="must be writable"):
                fitted.save(path)
        assert not list(tmp_path.iterdir())


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
    "newer": (lambda p: sealed_with(p, format=99), "format 1 or older; .* has format 99", "Update mogul"),
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
    "no model": (lambda p: sealed_with(p, model="x"), "model must be one of", "fit the model again"),
    "odd model": (lambda p: sealed_with(p, model=[]), "model must be one of", "fit the model again"),
    "unknown option": (lambda p: sealed_with(p, options={"x": 1}), "must describe a model", "fit the model again"),
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
def path(good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good file, to be spoilt, as a user meets it: without a shape checker in front of our own checks."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
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


def test_a_blueprint_forgets_the_numbers() -> None:
    fitted = trained("mogp")
    assert isinstance(fitted.blueprint, Blueprint)
    assert "output_mean" not in fitted.blueprint.options
    assert fitted.blueprint.num_inputs == 2
