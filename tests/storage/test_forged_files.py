"""Model files whose contents were changed and whose digest was made anew: refused at load, or sound."""

import json
import random
import resource
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.stored_models import ONCE, data, trained
from tests.storage.test_spoilt_files import sealed_with, with_tensors

import mogul
from mogul.cli.show import card_lines, show_file
from mogul.config import TrainingConfig
from mogul.errors import FileError, MogulError
from mogul.fitted.files import load, save
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.storage.container import read_sealed, write_sealed

MAKE = {
    "n-mogp": lambda: trained("n-mogp"),
    "gp-student-t": lambda: trained("mogp", noise="gp-student-t"),
    "low-rank": lambda: trained("sbgprn", noise="low-rank", noise_rank=1),
    "sites": lambda: trained("n-dgp", TrainingConfig(epochs=1, num_starts=1, objective="predictive"), num_sites=3),
    "latent": lambda: trained("mogp-lvm"),
    "mixture": lambda: mogul.fit(data(40), model="mogp+gprn", config=ONCE, calibrate=0.5, noise="constant"),
    "trees": lambda: mogul.fit(data(12), model="mogp", mean="boosting", noise="constant", epochs=1),
}
BIG = 10**12
JUNK: list[Any] = [None, True, "", "x", "\ud800", "\x1b[2J", -1, 0, 3, BIG, 10**30, 1e308, float("nan"), float("inf")]
JUNK += [[], {}, [[]], [None], ["x"], {"part": "Stopping", "settings": {}}, {"settings": {"a": 1}}]
NUM_FORGED = 45  # of each model
MOST_KILOBYTES = 600_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in MAKE.items():
            save(make(), folder / name)
    return {name: folder / name for name in MAKE}


def places(content: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """All (container, key) of a header."""
    found = [] if found is None else found
    keys = list(content) if isinstance(content, dict) else range(min(len(content), 3))
    for key in keys:
        found.append((content, key))
        if isinstance(content[key], dict | list):
            places(content[key], found)
    return found


def forged_tensor(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor | None:
    changed = tensor.clone()
    match rng.randrange(7):
        case 0:
            return None
        case 1 if changed.is_floating_point():
            changed.view(-1)[0:1] = rng.choice([float("nan"), float("inf")])
        case 2:
            changed = changed.reshape(-1)[:0]
        case 3:
            changed = changed.float() if changed.dtype == torch.float64 else changed.double()
        case 4:
            changed = changed.new_zeros(*changed.shape[:-1], 5)
        case 5:
            changed = changed.new_zeros((BIG, 0))
        case _ if not changed.is_floating_point() and changed.dtype != torch.bool:
            changed.view(-1)[0:1] = rng.choice([-(2**30), 2**30])
    return changed


def forge(path: Path, out: Path, rng: random.Random) -> str:
    header, tensors = read_sealed(path)
    if rng.random() < 0.65:
        container, key = rng.choice([place for place in places(header) if place[1] not in ("sha256", "format")])
        container[key] = rng.choice(JUNK)
        what = f"{key} = {container[key]!r}"
    else:
        name = rng.choice(sorted(tensors))
        changed = forged_tensor(tensors.pop(name), rng)
        tensors |= {} if changed is None else {name: changed}
        what = f"{name}: {None if changed is None else tuple(changed.shape)}"
    write_sealed(out, json.loads(json.dumps({**header, "sha256": "0" * 64})), tensors)
    return what


def use(fitted: Fitted) -> None:
    """Predict; an error of ours in the numbers is no breach."""
    rows = data(4)
    prediction = fitted.reconstruct(rows.y) if isinstance(fitted, FittedLatent) else fitted.predict(rows.x)
    assert not np.isnan(prediction.mean).any()
    assert not np.isnan(prediction.quantiles([0.1])).any()
    repr(fitted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKE)
def test_a_forged_file_is_refused_or_sound(name: str, files: dict[str, Path], tmp_path: Path):
    rng = random.Random(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for _ in range(NUM_FORGED):
        what = forge(files[name], tmp_path / "forged", rng)
        for read in (load, lambda path: card_lines(show_file(path))):
            try:
                found = read(tmp_path / "forged")
                if isinstance(found, Fitted):
                    use(found)
            except MogulError as error:
                refused += isinstance(error, FileError) and "\n" not in str(error)
            except Exception as error:
                pytest.fail(f"{what}: {type(error).__name__} {error}")
    assert refused > NUM_FORGED // 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KILOBYTES


def options_with(path: Path, **options: Any) -> None:
    sealed_with(path, options=read_sealed(path)[0]["options"] | options)


@pytest.mark.parametrize("size", ["num_hidden", "noise_rank", "num_noise_latents", "num_noise_inducing", "num_sites"])
@pytest.mark.parametrize("name", ["n-mogp", "mixture", "sites"])
def test_a_size_without_tensors_takes_no_memory(name: str, size: str, files: dict[str, Path], tmp_path: Path):
    path = tmp_path / "model"
    path.write_bytes(files[name].read_bytes())
    options_with(path, **{size: 10**9})
    before = load(files[name]).predict([[0.0, 0.0]]).mean
    np.testing.assert_array_equal(load(path).predict([[0.0, 0.0]]).mean, before)


MONTE_CARLO = {"part": "MonteCarlo", "settings": {"num_samples": 2**43}}
FORGED = {
    "a solver of text": ({"solver": {"part": "Cholesky", "settings": {"jitter": "x"}}}, "jitter of Cholesky must be"),
    "a jitter of NaN": ({"solver": {"part": "Cholesky", "settings": {"jitter": float("nan")}}}, "jitter of Cholesky"),
    "nodes": ({"solver": {"part": "CIQ", "settings": {"num_nodes": BIG}}}, "num_nodes must be at most 1000"),
    "no solver": ({"solver": {"part": "Stopping", "settings": {}}}, r"solver must be Cholesky\(\) or CIQ\(\)"),
    "a slope of text": ({"nonlinearity": {"part": "LeakyReLU", "settings": {"slope": "x"}}}, "must be|must describe"),
    "dropout": ({"dropout": 7}, r"dropout must be in \[0, 1\)"),
    "mixing": ({"correlated_mixing": "x"}, "correlated_mixing must be True or False"),
}


@pytest.mark.parametrize(("options", "said"), FORGED.values(), ids=FORGED)
def test_settings_of_a_wrong_type_or_size_are_refused_at_load(options, said: str, files, tmp_path: Path):
    path = tmp_path / "model"
    path.write_bytes(files["n-mogp"].read_bytes())
    options_with(path, **options)
    with pytest.raises(FileError, match=said):
        load(path)


def test_draws_that_would_take_all_memory_are_refused_at_load(files, tmp_path: Path):
    path = tmp_path / "model"
    path.write_bytes(files["latent"].read_bytes())
    settings = {"steps": 3, "learning_rate": 0.1, "expectation": MONTE_CARLO}
    sealed_with(path, inference={"part": "InferenceConfig", "settings": settings})
    with pytest.raises(FileError, match="num_samples must be at most 10000 in a model file; got 8796093022208"):
        load(path)
    sealed_with(path, inference={"part": "TrainingConfig", "settings": {}})
    with pytest.raises(FileError, match="inference must be an InferenceConfig"):
        load(path)


def test_tensors_that_are_not_finite_are_refused_at_load(files, tmp_path: Path):
    path = tmp_path / "model"
    path.write_bytes(files["n-mogp"].read_bytes())
    with_tensors(path, model__head__noise__log_precision=torch.full((3,), float("nan"), dtype=torch.float64))
    with pytest.raises(FileError, match=r"Tensors must be finite; head\.noise\.log_precision holds NaN"):
        load(path)


def test_a_history_with_null_is_refused_by_load_and_show(files, tmp_path: Path):
    path = tmp_path / "model"
    path.write_bytes(files["n-mogp"].read_bytes())
    history = read_sealed(path)[0]["history"]
    sealed_with(path, history=history | {"columns": history["columns"] | {"seconds": [None]}})
    for read in (load, show_file):
        with pytest.raises(FileError, match=r"history\.columns\.seconds\[0\] must be a finite number; got None"):
            read(path)


def test_half_a_character_in_the_digest_is_refused(files, tmp_path: Path):
    content = files["n-mogp"].read_bytes()
    digest = read_sealed(files["n-mogp"])[0]["sha256"]
    path = tmp_path / "model"
    path.write_bytes(content.replace(digest.encode(), b"\\\\ud800" + b"0" * (len(digest) - 7)))
    with pytest.raises(FileError, match=r"its SHA-256 is '\\ud800"):
        load(path)
