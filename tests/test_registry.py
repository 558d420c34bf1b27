"""Parts by name: those of the package are where the registry says, and those from outside work like them."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mogul
from mogul import models, registry
from mogul.errors import ConfigError, FileError, UnknownNameError
from mogul.heads import BayesianMixing, ConstantNoise, Head, Identity
from mogul.models.model import Model
from mogul.models.parts import Parts
from mogul.nonlinearities import Erf, Quadrature, by_name
from mogul.registry import Option, positive

DOCS = Path(__file__).parents[1] / "docs"
X = np.random.default_rng(0).uniform(-2, 2, (30, 2))
Y = np.stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1]], axis=1)
QUICK: dict[str, Any] = {"epochs": 2, "num_inducing": 6}
# A module of a user's, in a file of its own.
OUTSIDE = """
import mogul
from mogul.heads import ConstantNoise

@mogul.register_noise("outside", "As constant noise is.")
class OutsideNoise(ConstantNoise):
    pass

@mogul.register_nonlinearity("tanh")
def tanh(a):
    return a.tanh()

@mogul.register_model("outside-model", "Two kinds of parts.")
def outside_model(parts):
    features = parts.hidden_units()
    return parts.model(parts.gps("zero"), features, parts.bayesian_mixing(features))
"""


def mine(parts: Parts) -> Model:
    """A model of the test's own."""
    features = parts.identity()
    return parts.model(parts.gps("zero"), features, parts.net_mixing(features))


@pytest.mark.parametrize("kind", registry._BUILT_IN)
def test_each_module_registers_the_parts_that_the_registry_says(kind: Any) -> None:
    for name, module in registry._BUILT_IN[kind].items():
        import_module(module)
        part = registry._parts[kind, name]
        assert part.name == name
        assert part.help, f"{kind} {name} says nothing of itself"
        assert part.make.__module__ == module


def test_names_are_listed_without_torch() -> None:
    code = "import sys, mogul.models; from mogul.registry import names; print(names('noise'), mogul.models.names())"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], capture_output=True, text=True, check=True
    )
    assert "low-rank" in done.stdout
    assert "dk-n-dgp-lvm" in done.stdout


@pytest.mark.parametrize("option", models.OPTIONS)
def test_an_option_says_what_it_is_and_is_in_the_docs(option: str) -> None:
    assert registry.options()[option].help.endswith(".")
    rows = (DOCS / "reference" / "options.md").read_text(encoding="utf-8")
    assert f"| `{option}` |" in rows


def test_the_table_of_options_is_what_is_registered() -> None:
    page = (DOCS / "reference" / "options.md").read_text(encoding="utf-8")
    assert models.options_table() in page


class TestOutside:
    """Parts of a user's own module."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "outside.py").write_text(OUTSIDE, encoding="utf-8")
        return tmp_path

    @staticmethod
    def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
        data = "import numpy as np, mogul; X = np.linspace(0, 1, 20)[:, None]; Y = np.hstack([X, X**2]); "
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", data + code], capture_output=True, text=True, cwd=folder, check=False
        )

    def test_a_model_is_loaded_where_its_module_is_imported(self, folder: Path) -> None:
        fit = "mogul.fit(X, Y, model='outside-model', noise='outside', nonlinearity='tanh', epochs=2)"
        saved = self.run(folder, f"import outside; f = {fit}; f.save('m.mogul'); print(f.predict(X).mean.sum())")
        assert saved.returncode == 0, saved.stderr
        load = "print(mogul.load('m.mogul').predict(X).mean.sum())"
        missing = f"try: {load}\nexcept mogul.errors.FileError as error: print(error, file=sys.stderr)\n"
        again = self.run(folder, f"import sys\n{missing}import outside; {load}")
        assert again.stdout == saved.stdout
        last = again.stderr.strip().splitlines()[-1]
        assert "got 'outside-model'" in last
        assert last.endswith(
            "Import the module that registers it before you load the file; on the command line by --import."
        )
        assert "Use one of" not in last
        assert "those versions" not in last

    def test_the_command_line_imports_a_module_of_this_folder(self, folder: Path) -> None:
        def mogul_(*arguments: str) -> subprocess.CompletedProcess[str]:
            code = f"import sys; sys.path.remove(''); sys.argv[1:] = {arguments!r}; from mogul.cli import main; main()"
            return self.run(folder, code)

        lines = ["a,b", *(f"{row / 20},{(row / 20) ** 2}" for row in range(20))]
        (folder / "data.csv").write_text("\n".join(lines), encoding="utf-8")
        parts = "--model", "outside-model", "--noise", "outside", "--import", "outside"
        fitted = mogul_("fit", "data.csv", "--targets", "b", "--epochs", "2", "--no-check", *parts)
        assert fitted.returncode == 0, fitted.stderr
        assert "--import outside" in fitted.stdout
        assert "outside-model" in mogul_("show", "model.mogul").stdout
        missing = mogul_("predict", "model.mogul", "data.csv")
        assert missing.returncode == 2
        assert missing.stderr.strip().endswith("on the command line by --import.")
        scored = mogul_("evaluate", "model.mogul", "data.csv", "--import", "json,outside")
        assert scored.returncode == 0, scored.stderr


def test_a_function_is_a_model_by_its_name() -> None:
    fitted = mogul.fit(X, Y, model=mine, **QUICK)
    assert fitted.model_name == "mine"
    assert {"mine", "dk-mine", "mine-lvm", "dk-mine-lvm"} <= set(models.names())
    assert models.FAMILIES["mine"].description == "A model of the test's own."


def test_a_function_is_saved_once_it_is_registered(tmp_path: Path) -> None:
    def steady(parts: Parts) -> Model:
        return mine(parts)

    fitted = mogul.fit(X, Y, model=steady, **QUICK)
    with pytest.raises(FileError, match=r'the function steady is not. Add @mogul.register_model\("steady"\)'):
        fitted.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    mogul.register_model("steady")(steady)
    fitted.save(tmp_path / "m")
    np.testing.assert_array_equal(mogul.load(tmp_path / "m").predict(X).mean, fitted.predict(X).mean)


def test_a_lambda_is_not_saved(tmp_path: Path) -> None:
    fitted = mogul.fit(X, Y, model=lambda parts: mine(parts), **QUICK)
    with pytest.raises(FileError, match=r"<lambda> is not. Make it a function below @mogul"):
        fitted.save(tmp_path / "m")


def test_an_option_belongs_to_a_model_that_reads_it() -> None:
    registry.model_name(mine)
    assert "dropout" not in models.unused_options("mine")
    with pytest.raises(ConfigError, match="num_hidden must be left out where nothing uses it; mine does not; got 3"):
        mogul.fit(X, Y, model=mine, num_hidden=3)


def test_a_model_by_hand_stands_on_its_output_mean() -> None:
    @mogul.register_model("by-hand")
    def by_hand(parts: Parts) -> Model:
        mixing = BayesianMixing(parts.num_outputs, 1, parts.generator)
        head = Head(Identity(1), mixing, ConstantNoise(parts.num_outputs))
        return Model(parts.inputs(), parts._gps_on_inputs(1, 5, "zero"), head)

    fitted = mogul.fit(X, 100 * X[:, :1] + 3, model="by-hand", epochs=2)
    assert fitted.predict(X[:2]).mean == pytest.approx(100 * X[:2, :1] + 3, rel=0.01)


def test_latent_inputs_and_deep_kernels_come_with_a_model() -> None:
    registry.model_name(mine)
    lvm = mogul.fit(None, Y, model="dk-mine-lvm", num_inputs=1, epochs=2, num_starts=1, num_inducing=5)
    assert isinstance(lvm, mogul.FittedLatent)


def test_parts_that_no_start_knows_are_trained_from_random_ones() -> None:
    class OwnMixing(torch.nn.Module):
        """BayesianMixing behind another type."""

        def __init__(self, mixing: BayesianMixing) -> None:
            super().__init__()
            self.inner = mixing

        def __getattr__(self, name: str) -> Any:
            return super().__getattr__(name) if name == "inner" else getattr(self.inner, name)

    @mogul.register_model("unknown-mixing")
    def unknown_mixing(parts: Parts) -> Model:
        features = parts.identity()
        mixing: Any = OwnMixing(parts.bayesian_mixing(features))
        return parts.model(parts.gps("zero"), features, mixing)

    fitted = mogul.fit(X, Y, model="unknown-mixing", noise="constant", epochs=3, num_inducing=6)
    assert np.isfinite(fitted.predict(X).mean).all()
    assert fitted.history.num_epochs == 3


def test_a_noise_has_options_of_its_own(tmp_path: Path) -> None:
    @mogul.register_noise("wide", "Wide at first.", {"noise_start": Option("Its start.", 2, positive)})
    def wide(parts: Parts) -> ConstantNoise:
        return ConstantNoise(parts.num_outputs, var=float(parts.option("noise_start")))

    assert models.unused_options("mogp", "constant") - models.unused_options("mogp", "wide") == {"noise_start"}
    assert "noise_floor" in models.unused_options("mogp", "wide")
    model = models.build("mogp", torch.as_tensor(X), 2, torch.Generator(), noise="wide", noise_start=3)
    assert model.head.noise.log_precision.exp().tolist() == pytest.approx([1 / 3, 1 / 3])
    with pytest.raises(ConfigError, match="noise_start must be at least 1; got 0"):
        mogul.fit(X, Y, model="mogp", noise="wide", noise_start=0)
    with pytest.raises(ConfigError, match=r"noise_start must be left out .*; gp noise does not; .* noise='wide'"):
        mogul.fit(X, Y, model="mogp", noise="gp", noise_start=1)
    fitted = mogul.fit(X, Y, model="mogp", noise="wide", noise_start=3, **QUICK)
    fitted.save(tmp_path / "m")
    np.testing.assert_array_equal(mogul.load(tmp_path / "m").predict(X).var, fitted.predict(X).var)


def test_a_nonlinearity_is_a_function_a_class_or_an_instance() -> None:
    mogul.register_nonlinearity("sine")(torch.sin)
    mogul.register_nonlinearity("half")(Erf(shift=0.5))
    assert isinstance(by_name("sine"), Quadrature)
    assert by_name("half") == Erf(shift=0.5)


def test_a_mean_and_a_kernel_have_names() -> None:
    from mogul.priors import ConstantMean, kernel_by_name, mean_by_name, rbf

    @mogul.register_mean("two", "Two.")
    def two(x: torch.Tensor, num_latents: int) -> ConstantMean:
        return ConstantMean(2 * x.new_ones(num_latents))

    @mogul.register_kernel("shared", "One kernel for all GPs.")
    def shared(num_inputs: int, num_latents: int) -> Any:
        return rbf(num_inputs)

    assert mean_by_name("two", torch.zeros(3, 2), 4).constant.tolist() == [2.0] * 4
    assert kernel_by_name("shared", 2, 4).batch_shape == ()
    fitted = mogul.fit(X, Y, model="dgp", kernel="shared", inner_mean="two", num_top_inducing=5, num_starts=1, **QUICK)
    assert fitted.model.prior.layers[0].kernel.batch_shape == ()
    with pytest.raises(UnknownNameError, match=r"kernel must be one of rbf, .*, linear, shared; got 'shred'"):
        mogul.fit(X, Y, model="mogp", kernel="shred")


@pytest.mark.parametrize("name", ["dk-mine", "mine-lvm", "one+two", "auto", ""])
def test_a_model_has_no_name_that_means_something_else(name: str) -> None:
    with pytest.raises(ConfigError, match=r"A model must have a name of its own, not auto, without .*Choose another"):
        mogul.register_model(name)


@pytest.mark.parametrize("name", ["auto", "residuals", ""])
def test_a_noise_has_no_name_that_means_something_else(name: str) -> None:
    with pytest.raises(ConfigError, match=f"A noise must have a name of its own, not auto or residuals; got {name!r}"):
        mogul.register_noise(name)


def test_a_name_may_begin_like_a_word_that_means_something_else() -> None:
    mogul.register_model("autoregressive")(mine)
    mogul.register_noise("automatic")(ConstantNoise)
    registry.unregister("model", "autoregressive")
    registry.unregister("noise", "automatic")


def test_a_model_has_the_keywords_of_a_recipe() -> None:
    with pytest.raises(UnknownNameError, match=r"got 'num_inducin'. Did you mean 'num_inducing'\?"):
        mogul.register_model("bad", num_inducin=3)
    assert "bad" not in models.names()


@pytest.mark.parametrize("option", ["noise_rank", "num_latents"])
def test_an_option_belongs_to_one_module(option: str) -> None:
    before = registry.options()[option]
    with pytest.raises(ConfigError, match=f"option must have a name of its own; '{option}' is that of mogul.*Choose"):

        @mogul.register_noise("greedy", options={option: Option("Mine.", 1)})
        def greedy(parts: Parts) -> ConstantNoise:
            return ConstantNoise(parts.num_outputs)

    assert registry.options()[option] is before
    assert "greedy" not in registry.names("noise")


def test_a_name_belongs_to_one_module() -> None:
    with pytest.raises(ConfigError, match="'mogp' is that of mogul"):
        mogul.register_model("mogp")(mine)
    registry.model_name(mine)
    mogul.register_model("mine")(mine)  # as where a cell of a notebook runs twice
    with pytest.raises(ConfigError, match="'mine' is that of"):
        mogul.register_model("mine")(by_name)


def test_a_model_must_give_a_model() -> None:
    mogul.register_model("nothing")(lambda parts: None)
    with pytest.raises(ConfigError, match="must be a function that gives a Model; nothing gave None"):
        models.build("nothing", torch.as_tensor(X), 2, torch.Generator())


def test_a_file_with_an_unknown_noise_says_what_to_import(tmp_path: Path) -> None:
    mogul.register_noise("gone")(ConstantNoise)
    mogul.fit(X, Y, model="mogp", noise="gone", **QUICK).save(tmp_path / "m")
    registry.unregister("noise", "gone")
    with pytest.raises(FileError, match=r"noise must be one of .*got 'gone'\. Import the module"):
        mogul.load(tmp_path / "m")
