"""ONNX files of fitted models: written, checked against the model, read and run by onnxruntime."""

import base64
import hashlib
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from mogul._typing import Array
from mogul.data.checks import as_matrix, in_order, require_columns, require_finite_inputs
from mogul.errors import ConfigError, FileError, NumericalError, UnsupportedError, import_extra, require_extra
from mogul.fitted.fitted import Fitted
from mogul.fitted.predictor import FittedPredictor
from mogul.fitted.program import Program, translations
from mogul.priors import IndependentGPs
from mogul.storage.atomic import require_file, write_whole

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
# Largest difference from the model: see `Agreement`.
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}
_DTYPES = {"float32": torch.float32, "float64": torch.float64}
# Beside this many times the rounding errors of torch's predictor.
_ROUNDING = {"float32": 3.0, "float64": 10.0}
_ROWS_EACH = 20
# This optimisation puts factors of float64 products into float32: a Jacobian then errs by 3e-10.
_EXACT = {"disabled_optimizers": ["MatMulScaleFusion"]}
_INPUT, _ROWS = "x", "rows"
# Numbers in the largest tensor of one run: a program holds all its rows at once.
_NUMBERS_AT_ONCE = 1_500_000


@dataclass(frozen=True)
class Agreement:
    """The largest difference of each result from the model's, over rows and outputs, and what is allowed.

    Differences of means and quantiles are in standard deviations of the output in training, those of standard
    deviations are shares, those of a Jacobian are shares of the output's largest slope.

    Example:
        >>> Agreement(60, {"mean": 2e-7, "std": 1e-4}, {"mean": 1e-5, "std": 1e-5}).holds
        False
    """

    num_rows: int
    errors: dict[str, float]
    allowed: dict[str, float]

    @property
    def holds(self) -> bool:
        """Whether all differences are allowed; NaN is not."""
        return all(error <= self.allowed[name] for name, error in self.errors.items())

    @property
    def words(self) -> str:
        """Differences in one line."""
        each = (f"{name} {error:.1e} (allowed {self.allowed[name]:.1e})" for name, error in self.errors.items())
        return ", ".join(each)


@dataclass(frozen=True)
class OnnxFile:
    """An exported model in onnxruntime: arrays or frames in, arrays out, in the user's units.

    docs/howto/export.md has an example.
    """

    session: Any
    card: dict[str, Any]
    source: str

    @staticmethod
    def read(path: str | PathLike[str], num_threads: int = 1) -> "OnnxFile":
        """Open a file that `export` wrote."""
        require_packages()
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise FileError(f"A file must be there to be read; {path}: {error.strerror}. Check its name.") from error
        return OnnxFile.of(content, str(path), num_threads)

    @staticmethod
    def of(content: bytes, source: str, num_threads: int = 1) -> "OnnxFile":
        """From the bytes of a file."""
        onnxruntime = import_extra("Export", "export", "onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = num_threads
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"], **_EXACT)
            properties = session.get_modelmeta().custom_metadata_map
        except Exception as error:  # onnxruntime has a class for each kind, all of them private
            raise FileError(
                f"A file must be an ONNX program that onnxruntime can run; {source} is not: {_first_line(error)}. "
                "Write it anew: mogul export MODEL FILE."
            ) from error
        if "mogul" not in properties:
            raise FileError(
                f"An ONNX file must be one that mogul export wrote; {source} says nothing of mogul. "
                "Write it from a model file: mogul export MODEL FILE."
            )
        return OnnxFile(session, json.loads(properties["mogul"]), source)

    @property
    def input_names(self) -> list[str]:
        """The model's inputs."""
        return [str(name) for name in self.card["inputs"]]

    @property
    def output_names(self) -> list[str]:
        """The model's outputs."""
        return [str(name) for name in self.card["outputs"]]

    def mean_std(self, x: Any) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Mean and standard deviation of the outputs, noise included."""
        results = self.run(x)
        return results["mean"], results["std"]

    def run(self, x: Any) -> dict[str, Array]:
        """All results by name: mean, std, and quantiles and jacobian where the file has them."""
        matrix, _ = as_matrix(in_order(x, self.input_names, "X"), "X")
        require_columns(matrix, self.input_names, "X")
        require_finite_inputs(matrix, self.input_names)
        names = [output.name for output in self.session.get_outputs()]
        size = max(1, _NUMBERS_AT_ONCE // int(self.card["numbers_per_row"]))
        starts = range(0, max(1, len(matrix)), size)
        parts = [self.session.run(names, {_INPUT: matrix[start : start + size]}) for start in starts]
        if len(parts) == 1:
            return dict(zip(names, parts[0], strict=True))
        axes = {"quantiles": 1}
        return {
            name: np.concatenate(part, axes.get(name, 0))
            for name, part in zip(names, zip(*parts, strict=True), strict=True)
        }

    def verify(self) -> Agreement:
        """Run the rows that the file keeps from its export, and compare with the model's results on them."""
        kept = self.card["check"]
        x = _decoded(kept["x"])
        return self._agreement(
            x, {name: _decoded(kept["results"][name]) for name in self.card["results"]}, kept["allowed"]
        )

    def verify_with(self, fitted: Fitted, x: Any) -> Agreement:
        """Compare with the model on these rows."""
        if fingerprint(fitted) != self.card["fingerprint"]:
            raise ConfigError(
                f"A file must be compared with the model it was made from; {self.source} was made from another. "
                "Export it again, or give its model."
            )
        settings = Settings(**self.card["settings"])
        rows, _ = as_matrix(in_order(x, self.input_names, "X"), "X")
        return self._agreement(rows, *_reference(fitted, rows, settings))

    def _agreement(self, x: Array, expected: dict[str, Array], allowed: dict[str, float]) -> Agreement:
        return Agreement(len(x), _differences(self.run(x), expected, self.card["output_scale"]), allowed)


@dataclass(frozen=True)
class Settings:
    """What a program computes, and how."""

    levels: Sequence[float] = ()
    jacobian: bool = False
    precision: str | None = None  # None: the model's
    num_samples: int = 32
    seed: int = 0

    @property
    def dtype(self) -> torch.dtype | None:
        """The precision for torch."""
        if self.precision not in (None, "float32", "float64"):
            raise ConfigError(f"precision must be float32 or float64; got {self.precision}. Leave it out.")
        return None if self.precision is None else _DTYPES[self.precision]


def require_packages() -> None:
    """An error where `mogul[export]` is not installed."""
    require_extra("Export", "export", *PACKAGES)


def write_onnx(fitted: Fitted, path: str | PathLike[str], settings: Settings) -> Agreement:
    """Write an ONNX file once it agrees with the model; else nothing: see `Fitted.export`."""
    path = Path(path)
    require_file(path, "A program", "model.onnx")
    content, agreement = onnx_program(fitted, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: partial.write_bytes(content))
    return agreement


def onnx_program(fitted: Fitted, settings: Settings) -> tuple[bytes, Agreement]:
    """The bytes of an ONNX file that agrees with the model, and how well."""
    require_packages()
    for level in settings.levels:
        if not 0 < level < 1:
            raise ConfigError(f"Each level must be between 0 and 1; got {level}. The median is 0.5.")
    own = fitted.predictor(settings.num_samples, settings.seed, settings.dtype)
    settings = replace(settings, precision=str(own.predictor.dtype).removeprefix("torch."))
    program = Program(own.predictor, own.scaling, own.stretch, settings.levels, settings.jacobian).eval()
    x = check_rows(fitted)
    expected, allowed = _reference(fitted, x, settings)
    card = {
        "mogul": version("mogul"),
        "model": fitted.model_name,
        "noise": fitted.noise_name,
        "inputs": fitted.input_names,
        "outputs": fitted.output_names,
        "results": program.result_names,
        "settings": asdict(settings),
        "output_scale": own.scaling.outputs.scale.tolist(),
        "numbers_per_row": max(member.numbers_per_row_exported for member in own.predictor.singles),
        "fingerprint": fingerprint(fitted),
        "check": {
            "x": _encoded(x),
            "results": {name: _encoded(values) for name, values in expected.items()},
            "allowed": allowed,
        },
    }
    content = _translated(program, card)
    agreement = OnnxFile.of(content, "the exported program").verify()
    if not agreement.holds:
        raise NumericalError(
            f"An exported program must agree with its model; on {agreement.num_rows} rows they differ: "
            f"{agreement.words}. Nothing was written; try precision='float64' (--precision float64)."
        )
    return content, agreement


@dataclass(frozen=True)
class OnnxPredictor(FittedPredictor):
    """A predictor whose mean and standard deviation onnxruntime computes; torch the rest."""

    file: OnnxFile = field(kw_only=True)

    def mean_std(self, x: Any) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Mean and standard deviation of the outputs, noise included."""
        return self.file.mean_std(x)


def onnx_predictor(fitted: Fitted, num_samples: int, seed: int, precision: torch.dtype | None) -> OnnxPredictor:
    """The program of this model, checked against it, in memory."""
    name = None if precision is None else str(precision).removeprefix("torch.")
    content, _ = onnx_program(fitted, Settings(precision=name, num_samples=num_samples, seed=seed))
    file = OnnxFile.of(content, "the exported program", torch.get_num_threads())
    own = fitted.predictor(num_samples, seed, precision)
    return OnnxPredictor(own.predictor, own.scaling, own.input_names, own.stretch, file=file)


def check_rows(fitted: Fitted, seed: int = 0) -> Float[Array, "N D"]:
    """Rows to compare at, in the user's units: inside the data, outside of them, and at inducing points."""
    rng, scaling = np.random.default_rng(seed), fitted.scaling.inputs
    shape = (_ROWS_EACH, len(fitted.input_names))
    parts = [rng.standard_normal(shape), 4 * rng.standard_normal(shape)]
    for single in fitted.single_models:
        for module in single.model.modules():
            if isinstance(module, IndependentGPs) and module.inducing_points.shape[-1] == shape[1]:
                points = module.inducing_points.detach().double().reshape(-1, shape[1]).numpy()
                parts.append(points[:: max(1, len(points) // _ROWS_EACH)][:_ROWS_EACH])
    return scaling.undo(np.concatenate(parts))


def fingerprint(fitted: Fitted) -> str:
    """A digest of everything that predictions depend on."""
    digest = hashlib.sha256()
    for single in fitted.single_models:
        for name, tensor in sorted(single.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    scaling = fitted.scaling
    numbers = [scaling.inputs.shift, scaling.inputs.scale, scaling.modelled.shift, scaling.modelled.scale]
    numbers += [] if fitted.calibration is None else [fitted.calibration.stretch]
    for each in numbers:
        digest.update(np.ascontiguousarray(each).tobytes())
    return digest.hexdigest()


def _reference(fitted: Fitted, x: Float[Array, "N D"], settings: Settings) -> tuple[dict[str, Array], dict[str, float]]:
    """The model's results in float64, and how far a program of this precision may be off.

    That is beside rounding errors of torch's predictor: kernels are near singular, and where there is little noise a
    variance is a small difference of large numbers. In float64 they are estimated by the next larger inputs.
    """
    exact = _results(fitted, x, replace(settings, precision="float64"))
    precision = str(settings.precision)
    near = np.nextafter(x, np.inf) if precision == "float64" else x
    rounding = _differences(_results(fitted, near, settings), exact, fitted.scaling.outputs.scale)
    return exact, {name: TOLERANCE[precision] + _ROUNDING[precision] * error for name, error in rounding.items()}


def _results(fitted: Fitted, x: Float[Array, "N D"], settings: Settings) -> dict[str, Array]:
    """What a program of these settings should say, by torch."""
    own = fitted.predictor(settings.num_samples, settings.seed, settings.dtype)
    results = dict(zip(("mean", "std"), own.mean_std(x), strict=True))
    if settings.levels:
        program = Program(own.predictor, own.scaling, own.stretch, settings.levels)
        with torch.no_grad():
            results["quantiles"] = program(torch.as_tensor(np.ascontiguousarray(x)))[2].numpy()
    return results | ({"jacobian": own.jacobian(x)} if settings.jacobian else {})


def _differences(found: dict[str, Array], expected: dict[str, Array], output_scale: Any) -> dict[str, float]:
    """The largest of each result: see `Agreement`."""
    units: dict[str, Any] = {"mean": np.asarray(output_scale), "quantiles": np.asarray(output_scale)}
    units["std"] = expected["std"]
    if "jacobian" in expected:
        steepest = np.abs(expected["jacobian"]).max((0, 2))[:, None]
        units["jacobian"] = np.where(steepest > 0, steepest, 1.0)
    return {name: float((np.abs(found[name] - each) / units[name]).max()) for name, each in expected.items()}


def _translated(program: Program, card: dict[str, Any]) -> bytes:
    """By torch's exporter; a part that it cannot trace is named."""
    # No other size of a model is likely to be this: code that compares sizes takes equal ones for the same.
    x = torch.zeros(1009, len(card["inputs"]), dtype=torch.float64)
    shapes = ({0: torch.export.Dim(_ROWS)},)
    try:
        with _quiet(), torch.no_grad():
            traced = torch.export.export(program, (x,), dynamic_shapes=shapes)
            result = torch.onnx.export(
                traced,
                dynamo=True,
                verbose=False,
                custom_translation_table=translations(),
            )
    except Exception as error:  # whatever a user's part may raise while it is traced
        raise UnsupportedError(
            f"Every part of a model must be traceable by torch.export; one is not: {_first_line(error)}. "
            "A kernel, noise or nonlinearity of your own must not choose by the data."
        ) from error
    if result is None:
        raise UnsupportedError("torch.onnx.export must return a program; it did not. Update torch.")
    _name_results(result.model.graph, card["results"])
    result.model.metadata_props["mogul"] = json.dumps(card)
    result.model.producer_name, result.model.producer_version = "mogul", card["mogul"]
    content: bytes = result.model_proto.SerializeToString()
    return content


def _name_results(graph: Any, names: Sequence[str]) -> None:
    """Name inputs and outputs; what has such a name by chance gets another."""
    taken = {_INPUT, *names}
    inside = [*graph.initializers.values(), *(value for node in graph for value in node.outputs)]
    for value in inside:
        if value.name in taken:
            value.name = f"{value.name}_inside"
    graph.inputs[0].name = _INPUT
    for value, name in zip(graph.outputs, names, strict=True):
        value.name = name


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's notices: of packages that are not installed, and of its own deprecations."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _encoded(values: Array) -> dict[str, Any]:
    numbers = np.ascontiguousarray(values, dtype="<f8")
    return {"shape": list(numbers.shape), "base64": base64.b64encode(numbers.tobytes()).decode()}


def _decoded(kept: dict[str, Any]) -> Array:
    return np.frombuffer(base64.b64decode(kept["base64"]), dtype="<f8").reshape(kept["shape"])


def _first_line(error: Exception) -> str:
    """The innermost reason, in one line."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[0][:200] if lines else ''}".rstrip(". ")
