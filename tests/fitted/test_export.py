"""Exports to ONNX: the model's own predictions, by another runtime."""

import sys
from itertools import product
from pathlib import Path

import jaxtyping
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from tests.helpers.exporting import differences, random_fitted, shifted

import mogul
from mogul import registry
from mogul.errors import ConfigError, DataError, FileError, NumericalError
from mogul.fitted import onnx_file
from mogul.fitted.fitted import Fitted
from mogul.fitted.mixture import FittedMixture
from mogul.fitted.onnx_file import OnnxFile
from mogul.models import names

REASON = "mogul[export] is not installed"
pytest.importorskip("onnxscript", reason=REASON)
pytest.importorskip("onnxruntime", reason=REASON)

# Rounding in float32 is that of kernels, beside which 1e-5 is allowed: see `onnx_file._reference`.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4}
OBSERVED = [name for name in names() if not name.endswith("-lvm")]
NOISES = list(registry.names("noise"))
# Each family once, each noise once.
SOME = [
    ("mogp", "gp-student-t", "float32"),
    ("dk-n-sbgprn", "gp", "float64"),
    ("n-dgp", "net", "float64"),
    ("gprn", "low-rank", "float64"),
    ("n-mogp", "student-t", "float64"),
]


@pytest.mark.usefixtures("as_a_user_calls")  # checks of shapes are a third of the time
class TestEqualsTheModel:
    """On rows inside the data, outside, and at inducing points."""

    @pytest.mark.parametrize(("name", "noise", "precision"), SOME)
    def test_of_each_family_and_noise(self, name, noise, precision):
        assert max(differences(random_fitted(name, noise), precision)) < TOLERANCES[precision]

    @pytest.mark.cross
    @pytest.mark.parametrize("precision", list(TOLERANCES))
    @pytest.mark.parametrize(("name", "noise"), list(product(OBSERVED, NOISES)))
    def test_of_every_model_with_every_noise(self, name, noise, precision):
        found = differences(random_fitted(name, noise), precision)
        print(f"CROSS {name} {noise} {precision} mean {found[0]:.1e} std {found[1]:.1e}")
        assert max(found) < TOLERANCES[precision]


@pytest.fixture(scope="module")
def mixture() -> Fitted:
    """A calibrated mixture of a model on trees, with the noise of outliers, and one on a plane, with GP noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 2))
    y = np.stack([np.sin(3 * x[:, 0]), 1e3 * x[:, 1]], 1) + 0.1 * rng.standard_t(4, (60, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    config = mogul.TrainingConfig(epochs=1, num_starts=1, start_epochs=1)
    few = HistGradientBoostingRegressor(max_iter=5, max_depth=3)
    trees = mogul.fit(frame, y, model="mogp", mean=few, noise="student-t", config=config, num_inducing=6)
    plain = mogul.fit(frame, y, model="mogp", noise="gp", config=config, num_inducing=6)
    pooled = FittedMixture.of([trees, plain])
    return pooled.calibrated(mogul.Dataset(frame, y))


@pytest.fixture(scope="module")
def exported(mixture, tmp_path_factory) -> Path:
    """Its file, with everything that a file can have."""
    path = tmp_path_factory.mktemp("export") / "new" / "mixture.onnx"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # a third of the time
        assert mixture.export(path, quantiles=[0.1, 0.9], jacobian=True).holds
    return path


class TestFile:
    """Names, units, results."""

    def test_holds_names_and_the_results_asked_for(self, mixture, exported):
        file, x = OnnxFile.read(exported), np.array([[0.2, -0.3], [0.1, 0.4]])
        assert (file.input_names, file.output_names) == (["a", "b"], ["y0", "y1"])
        results = file.run(x)
        assert {name: each.shape for name, each in results.items()} == {
            "mean": (2, 2),
            "std": (2, 2),
            "quantiles": (2, 2, 2),
            "jacobian": (2, 2, 2),
        }
        predictor = mixture.predictor()
        np.testing.assert_allclose(results["std"], predictor.mean_std(x)[1], rtol=1e-9)
        np.testing.assert_allclose(results["jacobian"], predictor.jacobian(x), rtol=1e-7, atol=1e-9)
        # Columns by name, as everywhere.
        np.testing.assert_array_equal(file.mean_std(pd.DataFrame(x[:, ::-1], columns=["b", "a"]))[0], results["mean"])

    def test_quantiles_are_those_of_the_prediction(self, mixture, exported):
        x = np.random.default_rng(1).uniform(-1, 1, (20, 2))
        prediction = mixture.predict(x, num_samples=2000)
        found, expected = OnnxFile.read(exported).run(x)["quantiles"], prediction.quantiles([0.1, 0.9])
        # Of 2,000 draws, a quantile at 0.1 is off by 0.04 standard deviations now and then.
        assert np.abs((found - expected) / prediction.std).max() < 0.08

    def test_parts_do_not_show(self, exported, monkeypatch):
        file, x = OnnxFile.read(exported), np.random.default_rng(2).uniform(-1, 1, (5, 2))
        whole = file.run(x)
        monkeypatch.setattr(onnx_file, "_NUMBERS_AT_ONCE", 1)
        for name, part in file.run(x).items():
            np.testing.assert_allclose(part, whole[name], rtol=1e-12)

    def test_verifies_again_and_tells_another_model(self, mixture, exported):
        file, x = OnnxFile.read(exported), np.zeros((3, 2))
        assert file.verify().holds
        assert file.verify_with(mixture, x).holds
        with pytest.raises(ConfigError, match="must be compared with the model it was made from"):
            file.verify_with(shifted(mixture, 1.0), x)

    def test_the_engine_is_a_predictor(self, mixture, exported, monkeypatch):
        monkeypatch.setattr(onnx_file, "onnx_program", lambda *_: (exported.read_bytes(), None))
        x = np.array([[0.2, -0.3]])
        fast, plain = mixture.predictor(engine="onnx"), mixture.predictor()
        np.testing.assert_allclose(fast.mean_std(x)[1], plain.mean_std(x)[1], rtol=1e-9)
        np.testing.assert_allclose(fast.jacobian(x), plain.jacobian(x))


class TestMistakes:
    """Rule, value, remedy; nothing is left on the disk."""

    def test_wrong_inputs(self, exported):
        file = OnnxFile.read(exported)
        with pytest.raises(DataError, match=r"3"):
            file.run(np.zeros((2, 3)))
        with pytest.raises(DataError, match="Inputs must be finite; column 'a' holds nan in row 0"):
            file.run([[np.nan, 0.0]])

    def test_files_of_others(self, tmp_path):
        with pytest.raises(FileError, match="No such file"):
            OnnxFile.read(tmp_path / "none.onnx")
        (tmp_path / "text.onnx").write_text("hello")
        with pytest.raises(FileError, match="must be an ONNX program that onnxruntime can run"):
            OnnxFile.read(tmp_path / "text.onnx")
        onnx = pytest.importorskip("onnx")
        kind = onnx.TensorProto.FLOAT
        ends = [onnx.helper.make_tensor_value_info(name, kind, [1]) for name in ("a", "b")]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["a"], ["b"])], "g", ends[:1], ends[1:])
        opset = [onnx.helper.make_opsetid("", 18)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "other.onnx")
        with pytest.raises(FileError, match="must be one that mogul export wrote"):
            OnnxFile.read(tmp_path / "other.onnx")

    def test_a_program_that_disagrees_is_not_kept(self, mixture, exported, tmp_path, monkeypatch):
        monkeypatch.setattr(onnx_file, "_translated", lambda *_: exported.read_bytes())
        monkeypatch.setattr(onnx_file.Agreement, "holds", property(lambda self: False))
        with pytest.raises(NumericalError, match=r"must agree with its model; on \d+ rows they differ: mean"):
            mixture.export(tmp_path / "a.onnx")
        assert not list(tmp_path.iterdir())

    def test_engines_and_precisions_by_other_names(self, mixture, tmp_path, as_a_user_calls):
        with pytest.raises(ConfigError, match="engine must be one of torch, onnx; got 'tvm'"):
            mixture.predictor(engine="tvm")
        with pytest.raises(ConfigError, match="precision must be float32 or float64; got float16"):
            mixture.export(tmp_path / "a.onnx", precision="float16")

    def test_settings(self, mixture, tmp_path):
        with pytest.raises(ConfigError, match=r"Each level must be between 0 and 1; got 1\.5"):
            mixture.export(tmp_path / "a.onnx", quantiles=[1.5])

    def test_models_that_cannot_be_exported(self, tmp_path):
        x = np.linspace(0, 1, 30)[:, None]
        logged = mogul.fit(x, np.exp(x), transform="log")
        with pytest.raises(ConfigError, match=r"export needs outputs without a transform; 'y0' has log\. Use modelled"):
            logged.export(tmp_path / "a.onnx")
        config = mogul.TrainingConfig(epochs=1, num_starts=1, start_epochs=1)
        outputs = mogul.Dataset(None, np.hstack([x, x**2]))
        latent = mogul.fit(outputs, model="mogp-lvm", config=config, num_inducing=5)
        with pytest.raises(ConfigError, match="Export needs a model with observed inputs"):
            latent.export(tmp_path / "a.onnx")

    def test_packages_that_are_not_installed(self, mixture, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnx", None)
        with pytest.raises(ConfigError, match=r"onnx is not installed. Run pip install \"mogul\[export\]\""):
            mixture.export(tmp_path / "a.onnx")
