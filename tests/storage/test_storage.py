"""Model files: the same predictions bit for bit, and whole or not there."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.small_models import sizes_of
from tests.helpers.stored_models import ONCE, again, data, trained, with_random_plane

import mogul
from mogul import models
from mogul.errors import FileError
from mogul.fitted.blueprint import layouts_of
from mogul.fitted.files import describe, load, load_with_extra, save
from mogul.nonlinearities import Erf, PiecewisePolynomial, PolynomialErf, Quadrature
from mogul.objective import Analytic, MonteCarlo
from mogul.priors import CIQ, Cholesky
from mogul.storage.container import FORMAT, decode, encode
from mogul.training import Blueprint, Fitted, FittedLatent, NaturalGradient, NoiseUpdate, Stopping, TrainingConfig, fit

NEW = np.array([[0.3, -1.0], [2.0, 0.5]])


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
    "no plane": lambda: fit(data(), model="mogp", config=ONCE, mean="paper", noise="constant", **sizes_of("mogp")),
    "a random plane": lambda: with_random_plane(trained("mogp"), data()),
    "a random plane in float32": lambda: with_random_plane(
        trained("n-dgp", replace(ONCE, precision="float32")), data()
    ),
    "constant mean": lambda: fit(
        data(), model="n-mogp", config=ONCE, mean="constant", noise="constant", **sizes_of("n-mogp")
    ),
    "a nonlinearity by name": lambda: trained("n-mogp", nonlinearity="relu"),
    "a nonlinearity": lambda: trained("n-mogp", nonlinearity=Erf(shift=0.25)),
    "a polynomial": lambda: trained("n-mogp", nonlinearity=PolynomialErf((0.0, 1.0), order=9)),
    "a piecewise polynomial": lambda: trained(
        "n-mogp", nonlinearity=PiecewisePolynomial((-1.0, 1.0), ((0.0,), (0.5, 0.5), (1.0,)))
    ),
    "shared inducing points": lambda: trained("gprn", shared_inducing=True),
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


def test_a_blueprint_forgets_the_numbers() -> None:
    fitted = trained("mogp")
    assert isinstance(fitted.blueprint, Blueprint)
    assert "output_mean" not in fitted.blueprint.options
    assert fitted.blueprint.num_inputs == 2


def test_files_from_when_rows_were_held_out_in_stretches_are_read():
    plain = encode(Stopping(held_out=0.1), "stopping")
    plain["settings"]["num_stretches"] = 5
    assert decode(plain) == Stopping(held_out=0.1)
