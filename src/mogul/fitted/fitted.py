"""A fitted model in the user's units."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from gpytorch.kernels import RBFKernel
from jaxtyping import Float

from mogul._typing import Array
from mogul.config import InferenceConfig
from mogul.core.check import Check, Unseen
from mogul.data import Batch, Dataset, Scaling
from mogul.data.checks import (
    as_matrix,
    in_order,
    numbered_names,
    require_columns,
    require_finite_inputs,
    require_no_infinity,
)
from mogul.data.encodings.encoding import InputEncoding
from mogul.data.sources.containers import Outputs, as_array, frame_kind, named_dataset
from mogul.data.sources.grids import Grid
from mogul.data.splits import group_numbers
from mogul.errors import ConfigError, DataError, ShapeError, require_positive, unknown_name
from mogul.fitted.blueprint import Blueprint
from mogul.fitted.calibration import Calibration
from mogul.fitted.encoder import Encoder
from mogul.fitted.history import Choice, History, TrainedRows
from mogul.fitted.latent import importance_weighted_bound, infer_inputs, posterior_draws
from mogul.fitted.predictor import FittedPredictor, PooledPredictor, Predictor
from mogul.metrics import FEW_OUTER, NUM_INNER, NUM_OUTER, Scores, score
from mogul.models.model import Latent, Model
from mogul.objective.streaming import require_streamable, stream
from mogul.prediction import Prediction, Warped, predict
from mogul.prediction.chained import chained

if TYPE_CHECKING:
    from mogul.fitted.functions import FunctionDraws
    from mogul.fitted.onnx_file import Agreement
    from mogul.fitted.sensitivity import Importance, SobolIndices

# Numbers in a part of a prediction's mixture: about 160 MB in float64.
_PART = 20_000_000
_CALIBRATION_DRAWS = 50
_SHOWN = 6  # names or numbers in a line
_STREAMED_INDUCING = 200  # as many as models of many rows have
Engine = Literal["torch", "onnx"]


@dataclass(frozen=True)
class Fitted:
    """A trained model with its scaling: takes data and returns predictions in original units."""

    model: Model
    scaling: Scaling
    input_names: list[str]
    output_names: list[str]
    history: History
    blueprint: Blueprint | None = field(default=None, kw_only=True)  # None: not made by `fit`
    choice: Choice | None = field(default=None, kw_only=True)  # None: no automatic selection
    calibration: Calibration | None = field(default=None, kw_only=True)  # None: not calibrated
    encoding: InputEncoding | None = field(default=None, kw_only=True)  # None: inputs are numbers without gaps
    check: Check | None = field(default=None, kw_only=True)  # None: not checked
    trained_rows: TrainedRows | None = field(default=None, kw_only=True)  # None: not made by `fit`, or an older file
    unseen: Unseen | None = field(default=None, kw_only=True)  # while it is fitted: what the check is made of

    def __repr__(self) -> str:
        return "\n".join(summary_lines(self))

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, atomically; `mogul.load` reads it."""
        from mogul.fitted.files import save  # imports this module

        save(self, path)

    def export(
        self,
        path: str | PathLike[str],
        *,
        quantiles: Sequence[float] = (),
        jacobian: bool = False,
        precision: Literal["float32", "float64"] | None = None,
        num_samples: int = 32,
        seed: int = 0,
    ) -> "Agreement":
        """Write mean and standard deviation at x as an ONNX program, once it agrees with the model.

        The program takes `x` (N, D) and returns `mean` and `std` (N, P), for any number of rows, in float64 and in the
        user's units; names and sizes are in its metadata. `OnnxFile.read` runs it without torch's model. Needs
        `mogul[export]`.

        Args:
            path: the file; an existing one is replaced once the new one is complete.
            quantiles: levels of a further result `quantiles` (Q, N, P): see `MixtureQuantiles`.
            jacobian: whether to add a result `jacobian` (N, P, D), ∂mean/∂x.
            precision: of the computation, float32 or float64; the model's by default.
            num_samples: draws of the inner layers of a deep model, fixed in the file.
            seed: seed of those draws.

        Returns:
            the largest differences from the model on random rows, outside the data, and at inducing points.
        """
        from mogul.fitted.onnx_file import Settings, write_onnx  # imports this module

        self.require_exportable()
        return write_onnx(self, path, Settings(list(quantiles), jacobian, precision, num_samples, seed))

    def require_exportable(self) -> None:
        """An error for latent inputs, for transformed outputs and for autoregressive ones."""
        if self.is_latent:
            raise ConfigError(
                "Export needs a model with observed inputs; this one infers its inputs from outputs. "
                "Fit with observed inputs, or use predictor() at latent positions."
            )
        self._require_untransformed("export", "Use modelled.export(path): mean and std of transformed outputs.")
        self.require_unchained("Export")

    def superseded_by(self, retrained: "Fitted") -> "Fitted":
        """`retrained`, the model trained on all rows, with this one's held-out score and choice."""
        own = self.history
        history = replace(retrained.history, held_out=own.held_out, kept_epochs=own.kept_epochs, retrained=True)
        return replace(retrained, history=history, choice=self.choice, unseen=self.unseen)

    def predict(self, x: Any, num_samples: int = 100, seed: int = 0, given: Any = None) -> Prediction:
        """The predictive distribution of the outputs at x, as a mixture over `num_samples` draws.

        Args:
            x: inputs.
            num_samples: draws that the prediction is made of.
            seed: of the draws.
            given: outputs that are known in the same rows: a matrix (N, P) in the order of outputs, or a frame with the
                columns of some of them; NaN is not known. The prediction is that of the others given these: mean,
                variance, quantiles, draws and log density. See `Prediction.given`.

        Example:
            >>> from mogul import fit
            >>> rng = np.random.default_rng(0)
            >>> x, shared = np.linspace(0, 1, 60)[:, None], rng.standard_normal((60, 1))
            >>> y = np.hstack([x + shared, 1 - x + shared + 0.1 * rng.standard_normal((60, 1))])
            >>> fitted = fit(x, y)
            >>> alone, beside = fitted.predict([[0.5]]), fitted.predict([[0.5]], given=[[2.0, np.nan]])
            >>> bool(beside.std[0, 1] < 0.7 * alone.std[0, 1]), beside.mean[0, 0].item()
            (True, 2.0)
        """
        prediction = self._predict(self.encoded(x), num_samples, seed)
        prediction = prediction if self.calibration is None else prediction.stretched(self.calibration.stretch)
        if given is None:
            return self._in_units(prediction)
        known = self.known_outputs(given, len(prediction.mean))
        return self._in_units(prediction).given(known, seed)

    def predict_grid(self, grid: Any, quantiles: Sequence[float] = (), num_samples: int = 100, seed: int = 0) -> Any:
        """Predictions of each cell of an xarray Dataset or DataArray, as a Dataset on the same coordinates.

        For each output `a` it has variables a, a_std, and for a level of 0.1 a_q0.1. Inputs are coordinates and
        variables of the grid. Cells without some input have NaN, but for inputs that had gaps in training. Needs
        `mogul[xarray]`.

        Example:
            >>> grid = xarray.Dataset(coords={"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0]})  # doctest: +SKIP
            >>> fitted.predict_grid(grid)["Cd_std"].sizes  # doctest: +SKIP
            Frozen({'x': 3, 'y': 2})
        """
        if self.is_latent:
            raise ConfigError("A grid has inputs; this model infers its inputs from outputs. Use reconstruct.")
        cells = Grid.of(grid)
        unknown = [name for name in self.input_columns if name not in cells.frame.columns]
        if unknown:
            raise DataError(
                f"A grid must have the inputs of training, {', '.join(self.input_columns)}; {unknown[0]!r} is not "
                f"among {', '.join(cells.frame.columns)}. Rename a coordinate or a variable."
            )
        columns = () if self.encoding is None else self.encoding.columns
        filled = {each.name for each in columns if getattr(each, "fill", None) is not None}
        whole = cells.complete([name for name in self.input_columns if name not in filled])
        if not whole.any():
            raise DataError("Cells of a grid must have inputs; none has all of them. Fill in the gaps.")
        x = self.encoded(cells.frame.loc[whole, self.input_columns])
        rows = Dataset(x, np.full((len(x), len(self.output_names)), np.nan), check_outputs=False)
        parts = [part for part, _ in self.predict_parts(rows, num_samples, seed)]
        named = {"": [part.mean for part in parts], "_std": [part.std for part in parts]}
        named |= {f"_q{level:g}": [part.quantiles([level])[0] for part in parts] for level in quantiles}
        columns_of = {}
        for place, name in enumerate(self.output_names):
            for suffix, values in named.items():
                column = np.full(len(whole), np.nan)
                column[whole] = np.concatenate(values)[:, place]
                columns_of[f"{name}{suffix}"] = column
        return cells.filled(columns_of)

    def encoded(self, x: Any) -> Any:
        """Inputs as numbers, from a frame with the columns of training; itself where inputs are numbers without gaps.

        Example:
            >>> import pandas as pd
            >>> from mogul import fit
            >>> frame = pd.DataFrame({"site": ["a", "b"] * 5, "depth": range(10)})
            >>> fitted = fit(frame, frame["depth"] ** 2)
            >>> fitted.input_columns, fitted.input_names
            (['site', 'depth'], ['site=a', 'site=b', 'depth'])
            >>> fitted.encoded(frame[:2])
            array([[1., 0., 0.],
                   [0., 1., 1.]])
        """
        return x if self.encoding is None else self.encoding.apply(as_array(x))

    def dataset(self, x: Any, y: Any) -> Dataset:
        """New rows for `evaluate` and `calibrated`, with inputs encoded as in training."""
        outputs = Outputs.of(y, "dataset")
        inputs, names = as_matrix(as_array(self.encoded(x)), "X")
        names = names if self.encoding is None else self.input_names
        return named_dataset(np.ascontiguousarray(inputs), names, outputs)

    @property
    def input_columns(self) -> list[str]:
        """The user's columns of inputs: `input_names`, but for columns that are encoded."""
        return self.input_names if self.encoding is None else self.encoding.names

    def _in_units(self, modelled: Prediction) -> Prediction:
        """From outputs as they are modelled to the user's units."""
        transforms = self.scaling.transforms
        return modelled if transforms is None else Warped(modelled, transforms)

    @property
    def modelled(self) -> "Fitted":
        """The same model of transformed outputs; itself where no output is transformed."""
        return self if self.scaling.transforms is None else replace(self, scaling=self.scaling.without_transforms)

    @property
    def transforms(self) -> dict[str, str]:
        """The outputs that are transformed, and how."""
        return {} if self.scaling.transforms is None else self.scaling.transforms.words(self.output_names)

    @property
    def autoregressive_outputs(self) -> dict[str, dict[str, float]]:
        """Outputs that are modelled less a linear function of others, and the weights of these: see `Chain`."""
        return {} if self.scaling.chain is None else self.scaling.chain.named(self.output_names)

    def require_unchained(self, what: str) -> None:
        """An error for autoregressive outputs."""
        if self.scaling.chain is not None:
            name, weights = next(iter(self.autoregressive_outputs.items()))
            raise ConfigError(
                f"{what} needs outputs that are modelled one by one; {name!r} depends on {', '.join(weights)}. "
                "Fit with autoregressive=False."
            )

    def known_outputs(self, given: Any, num_rows: int) -> Float[Array, "N P"]:
        """What `predict` is given, in the order of the outputs; a frame may have some of them."""
        if self.is_latent:
            raise ConfigError(
                "given= needs a model with observed inputs; this one infers its inputs from outputs. "
                "Use reconstruct(y), or impute of the estimator, which fill in what is NaN."
            )
        if frame_kind(given) is None:
            values = as_array(given)
            matrix, names = as_matrix(values[:, None] if np.ndim(values) == 1 else values, "given")
        else:
            matrix, names = self._by_name(given)
        require_columns(matrix, self.output_names, "given")
        require_no_infinity(matrix, names)
        if len(matrix) != num_rows:
            raise ShapeError(
                f"given must have a row for each row of X, {num_rows}; got {len(matrix)}. "
                "Put NaN where nothing is known."
            )
        if self.scaling.transforms is not None:
            self.scaling.transforms.require_support(matrix, self.output_names)
        return np.ascontiguousarray(matrix)

    def _by_name(self, frame: Any) -> tuple[Float[Array, "N P"], list[str]]:
        values, names = as_matrix(as_array(frame), "given")
        names = [str(name) for name in frame.columns]
        if self.output_names == numbered_names("Y", len(self.output_names)) and not set(names) & set(self.output_names):
            return values, names  # trained without names
        unknown = [name for name in names if name not in self.output_names]
        if unknown:
            raise DataError(
                f"Columns of given must be outputs, {', '.join(self.output_names)}; got {unknown[0]!r}. "
                "Leave out the others."
            )
        matrix = np.full((len(values), len(self.output_names)), np.nan)
        matrix[:, [self.output_names.index(name) for name in names]] = values
        return matrix, self.output_names

    def _predict(self, x: Any, num_samples: int, seed: int) -> Prediction:
        """The prediction of outputs as they are modelled."""
        generator = torch.Generator().manual_seed(seed)
        modelled = predict(self.model, self._standardised(x), num_samples, generator).rescaled(self.scaling.modelled)
        return modelled if self.scaling.chain is None else chained(modelled, self.scaling.chain)

    def calibrated(self, data: Dataset, groups: Any = None, seed: int = 0) -> "Fitted":
        """The same model with standard deviations and intervals calibrated on these rows: see `Calibration`.

        Args:
            data: rows not used in training, not even as validation rows.
            groups: a group label for each row, where rows of a group are dependent.
            seed: seed of the draws behind predictions.

        Example:
            >>> from mogul import TrainingConfig, fit
            >>> x = np.linspace(0, 1, 30)[:, None]
            >>> fitted = fit(x, x**2, model="mogp", config=TrainingConfig(epochs=2, num_starts=1))
            >>> low, high = fitted.calibrated(Dataset(x + 0.01, x**2)).interval([[0.5]], coverage=0.9)
            >>> bool(low < high)
            True
        """
        own = replace(self.modelled, calibration=None)
        data = self.scaling.apply_transforms(data.in_order(self.input_names, self.output_names))
        numbers = np.arange(data.num_rows) if groups is None else group_numbers(groups, data.num_rows)
        mean, std = own.predictor(seed=seed).mean_std(data.x)
        parts = own.predict_parts(data, _CALIBRATION_DRAWS, seed)
        return replace(self, calibration=Calibration.of(parts, np.abs(data.y - mean) / std, numbers, seed))

    def interval(self, x: Any, coverage: float = 0.9) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Lower and upper ends of an interval that holds each output with this probability: see `Calibration`."""
        calibration = self.require_calibration()
        x = self.encoded(x)
        low, high = calibration.interval(*self.modelled.predictor(seed=calibration.seed).mean_std(x), coverage)
        return self.scaling.undo_transforms(low), self.scaling.undo_transforms(high)

    def require_calibration(self) -> Calibration:
        """The calibration, or an error if there is none."""
        if self.calibration is None:
            raise ConfigError(
                "Intervals need rows that training has not seen; this model was not calibrated, or trained on since. "
                "Fit with calibrate=0.2 (--calibrate .2), or call calibrated(data)."
            )
        return self.calibration

    def sample_functions(self, x: Any, num_samples: int, seed: int = 0) -> Float[Array, "S N P"]:
        """Draws of the noise-free outputs at x, correlated over points: whole functions."""
        require_positive(num_samples=num_samples)
        x = self.encoded(x)
        functions = self._functions(x, num_samples, seed)
        if self.calibration is not None:
            mean = self.modelled.predict(x, seed=seed).mean
            functions = mean + self.calibration.stretch * (functions - mean)
        return self.scaling.undo_transforms(functions)

    def _functions(self, x: Any, num_samples: int, seed: int) -> Float[Array, "S N P"]:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            draws = self.model.sample_joint(self._standardised(x), num_samples, generator)
        return self.scaling.undo_chain(self.scaling.modelled.undo(draws.double().cpu().numpy()))

    def draw_functions(self, num_draws: int, seed: int = 0) -> "FunctionDraws":
        """Draws of whole functions that can be evaluated anywhere and later, as torch tensors: pathwise.

        `sample_functions` needs all points at once, and its cost grows with their cube.

        Example:
            >>> from mogul import fit
            >>> x = np.linspace(0, 1, 30)[:, None]
            >>> functions = fit(x, np.sin(6 * x)).draw_functions(num_draws=4)
            >>> functions(torch.zeros(10, 1)).shape
            torch.Size([4, 10, 1])
        """
        from mogul.fitted.functions import FunctionDraws  # imports this module

        return FunctionDraws.of(self, num_draws, seed)

    def sample_noise(self, x: Any, num_samples: int, seed: int = 0) -> Float[Array, "S N P"]:
        """Draws of the outputs' noise at x, independent over points."""
        require_positive(num_samples=num_samples)
        self._require_untransformed("sample_noise", "Draw whole outputs: predict(x).sample(100), or sample_y.")
        noise = self._noise(self.encoded(x), num_samples, seed)
        return noise if self.calibration is None else self.calibration.stretch * noise

    def _require_untransformed(self, what: str, remedy: str) -> None:
        if self.scaling.transforms is not None:
            name, words = next(iter(self.transforms.items()))
            raise ConfigError(f"{what} needs outputs without a transform; {name!r} has {words}. {remedy}")

    def update(self, x: Any, y: Any, *, num_inducing: int | None = None, noise: bool = True) -> "Fitted":
        """This model after new rows, with the old posterior as their prior: old rows are not needed, nor forgotten.

        Takes a second or so, not a training: see `mogul.objective.streaming`. Kernels, mixing, mean and scaling stay as
        they are. It has no calibration and no check, which were of the model before.

        Args:
            x: inputs of new rows, which were not learnt before: a row that is given twice counts twice.
            y: their outputs; NaN is missing.
            num_inducing: the most inducing points; by default 200, or as many as there are if these are more. Up to
                there they are added where rows are new; then they move there from where they tell least.
            noise: whether the noise level is learnt from new rows too.

        Example:
            >>> from mogul import fit
            >>> x = np.linspace(0, 1, 30)[:, None]
            >>> fitted = fit(x, np.sin(6 * x), noise="constant")
            >>> later = fitted.update(x + 1, np.sin(6 * x + 6))
            >>> error = np.abs(later.predict([[0.5], [1.5]]).mean - np.sin([[3.0], [9.0]])).max()
            >>> bool(error < 0.1)
            True
        """
        return self.updated(self.dataset(x, y), num_inducing=num_inducing, noise=noise)

    def updated(self, data: Dataset, *, num_inducing: int | None = None, noise: bool = True) -> "Fitted":
        """`update` with rows whose inputs are encoded already."""
        if num_inducing is not None:
            require_positive(num_inducing=num_inducing)
        for member in self.single_models:
            require_streamable(member.model)
        return self._updated(data.in_order(self.input_names, self.output_names), num_inducing, noise)

    def _updated(self, data: Dataset, num_inducing: int | None, noise: bool) -> "Fitted":
        batch = self.scaling.batch(data, self._dtype)
        num_old = self.history.num_rows
        streamed = stream(self.model, batch, num_old if noise else None, num_inducing or _STREAMED_INDUCING)
        known = self.trained_rows
        return replace(
            self,
            model=streamed.model.eval(),
            calibration=None,
            check=None,
            trained_rows=None if known is None else known.joined(TrainedRows.of(data)),
            history=replace(self.history, num_rows=None if num_old is None else num_old + data.num_rows),
        )

    def importance(self, x: Any = None, y: Any = None, repeats: int = 10, seed: int = 0) -> "Importance":
        """How much worse predictions are without each input: see `mogul.fitted.sensitivity.importance`."""
        from mogul.fitted.sensitivity import importance  # imports this module

        return importance(self, x, y, repeats, seed)

    def sobol(self, x: Any = None, num_draws: int = 100, num_points: int = 4096, seed: int = 0) -> "SobolIndices":
        """Shares of each output's variance that inputs explain: see `mogul.fitted.sensitivity.sobol`."""
        from mogul.fitted.sensitivity import sobol  # imports this module

        return sobol(self, x, num_draws, num_points, seed)

    def _noise(self, x: Any, num_samples: int, seed: int) -> Float[Array, "S N P"]:
        generator = torch.Generator().manual_seed(seed)
        rows = self._standardised(x)
        shape = torch.Size([num_samples, len(rows), len(self.output_names)])
        with torch.no_grad():
            law, unit = self.model.head.noise.forward(rows, generator), self.model.mean.scale
            var = (unit.square() * law.draw_var(shape, generator)).expand(shape)
            joint = self.model.head.joint(law, torch.zeros_like(var), var, unit).rescaled(self.scaling.modelled.scale)
        std = self.scaling.modelled.scale * np.sqrt(var.double().cpu().numpy())
        return self.scaling.undo_chain(joint.deviations(std, np.random.default_rng(seed)))

    def log_density(self, x: Any, y: Any, num_samples: int = 100, seed: int = 0) -> Float[Array, "N"]:
        """log p(y | x) of each row, joint over its observed outputs, in original units.

        Args:
            x: inputs, or positions in latent space for a model with latent inputs.
            y: outputs (N, P), or (N,) for one; NaN is missing.
            num_samples: draws of the predictive mixture.
            seed: seed of the draws.

        Example:
            >>> from mogul import fit
            >>> x = np.linspace(0, 1, 30)[:, None]
            >>> fitted = fit(x, x**2)
            >>> near, far = fitted.log_density([[0.5], [0.5]], [0.25, 3.0])
            >>> bool(near > far)
            True
        """
        x = self.encoded(x)
        inputs, names = as_matrix(as_array(x), "X")
        require_finite_inputs(inputs, names)
        outputs = Outputs.of(y, "log_density")
        data = named_dataset(np.ascontiguousarray(inputs), None if frame_kind(x) is None else names, outputs)
        data.input_names = data.input_names if self.encoding is None else self.input_names
        data = data.in_order(self.input_names, self.output_names)
        require_columns(data.y, self.output_names, "Y")
        parts = Fitted.predict_parts(self, data, num_samples, seed)  # at this x, observed or latent
        return np.concatenate([prediction.log_density(own) for prediction, own in parts])

    def predictor(
        self,
        num_samples: int = 32,
        seed: int = 0,
        precision: torch.dtype | None = None,
        engine: Engine = "torch",
    ) -> FittedPredictor:
        """A frozen copy for fast predictions at x, in the user's units; only deep models use draws.

        With engine="onnx", onnxruntime computes mean and standard deviation: faster for single rows. It needs
        `mogul[export]`, and a few seconds to export and check.
        """
        self._require_untransformed("predictor", "Use predict, or modelled.predictor() for transformed outputs.")
        if engine not in get_args(Engine):
            raise unknown_name("engine", engine, get_args(Engine))
        if engine == "onnx":
            from mogul.fitted.onnx_file import onnx_predictor  # imports this module

            self.require_exportable()
            return onnx_predictor(self, num_samples, seed, precision)
        predictor = self._predictor(num_samples, seed, precision)
        stretch = None if self.calibration is None else self.calibration.stretch
        return FittedPredictor(predictor, self.scaling, self.input_names, stretch, self.encoding)

    def _predictor(self, num_samples: int, seed: int, precision: torch.dtype | None) -> Predictor | PooledPredictor:
        return Predictor.of(self.model, num_samples, seed, precision)

    def evaluate(
        self,
        data: Dataset,
        *,
        standardised: bool = False,
        num_samples: int | None = None,
        seed: int = 0,
        nested: bool = False,
    ) -> Scores:
        """Scores on test data, in original units or in standardised units as in the paper's tables.

        Args:
            data: test rows.
            standardised: whether to use standardised units.
            num_samples: draws of the predictive mixture; by default 250, or 1,250 for the paper's estimator.
            seed: seed of the draws.
            nested: whether to compute the paper's estimator of the log likelihood too, `Scores.ll_nested`.
        """
        if num_samples is None:
            num_samples = (NUM_OUTER if nested else FEW_OUTER) * NUM_INNER
        require_positive(num_samples=num_samples)
        parts = self.predict_parts(data.in_order(self.input_names, self.output_names), num_samples, seed)
        return score(map(self._in_standard_units, parts) if standardised else parts, nested=nested)

    def _in_standard_units(
        self, part: tuple[Prediction, Float[Array, "_ _"]]
    ) -> tuple[Prediction, Float[Array, "_ _"]]:
        prediction, y = part
        prediction.require_shape(y)
        return prediction.standardised(self.scaling.outputs), self.scaling.outputs.apply(y)

    def predict_parts(
        self, data: Dataset, num_samples: int, seed: int = 0
    ) -> Iterator[tuple[Prediction, Float[Array, "_ P"]]]:
        """Pairs of predictions and true outputs of a data set, in parts that fit into memory."""
        for number, rows in enumerate(_slices(data, self.num_members * num_samples)):
            yield self.predict(data.x[rows], num_samples, seed + number), data.y[rows]

    def _standardised(self, x: Any) -> Float[torch.Tensor, "N D"]:
        matrix, names = as_matrix(in_order(x, self.input_names, "X"), "X")
        require_columns(matrix, self.input_names, "X")
        require_finite_inputs(matrix, names)
        return torch.as_tensor(np.ascontiguousarray(self.scaling.inputs.apply(matrix)), dtype=self._dtype)

    @property
    def model_name(self) -> str:
        """The model's name in `fit`."""
        return "a model put together by hand" if self.blueprint is None else self.blueprint.model

    @property
    def noise_name(self) -> str:
        """The noise's name in `fit`."""
        return "constant" if self.blueprint is None else str(self.blueprint.options.get("noise", "constant"))

    @property
    def regressed_outputs(self) -> list[str]:
        """Names of the outputs with a regressor, such as a forest, under the GPs."""
        return [self.output_names[place] for place in self.model.mean.outputs]

    @property
    def kernel_name(self) -> str | None:
        """The kernel's name where one was given or chosen; a kernel of the user's own has none."""
        kernel = None if self.blueprint is None else self.blueprint.options.get("kernel")
        return kernel if isinstance(kernel, str) else None

    @property
    def noise_factors(self) -> int:
        """Number of shared factors of the outputs' noise; 0 if it is independent or of the kind low-rank."""
        return 0 if self.model.head.correlation is None else self.model.head.correlation.rank

    @property
    def noise_floor(self) -> float:
        """Least standard deviation of the noise, as a share of an output's scale; 0 if there is no floor."""
        return float((self.model.head.noise.floor_var.sqrt() * self.model.mean.scale).min())

    @property
    def is_solved(self) -> bool:
        """Whether exact GPs solved the model, without training epochs."""
        return not self.history.num_epochs

    @property
    def is_latent(self) -> bool:
        """Whether inputs are latent."""
        return False

    @property
    def single_models(self) -> tuple["Fitted", ...]:
        """The models behind a prediction: this one, or the members of a mixture."""
        return (self,)

    @property
    def num_members(self) -> int:
        """Number of models behind a prediction; each keeps all draws in memory."""
        return len(self.single_models)

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype


@dataclass(frozen=True, repr=False)
class FittedLatent(Fitted):
    """A trained model with latent inputs, which are inferred from outputs."""

    training: Batch
    inference: InferenceConfig
    encoder: Encoder | None = None

    @property
    def is_latent(self) -> bool:
        """They are."""
        return True

    @property
    def latent_means(self) -> Float[Array, "N D"]:
        """Posterior means of the latent inputs of the training rows."""
        return _latent(self.model).mean.detach().double().numpy()

    @property
    def relevance(self) -> Float[Array, "D"]:
        """How much outputs vary with each latent input: its inverse squared lengthscale, averaged over GPs.

        Relative to the largest. All are 1 where latent inputs share a lengthscale: see the option `ard`.
        """
        scales = [
            module.lengthscale.detach().double().reshape(-1, module.lengthscale.shape[-1]).pow(-2).mean(0)
            for module in self.model.modules()
            if isinstance(module, RBFKernel)
        ]
        if not scales:
            raise ConfigError(
                "relevance needs RBF kernels, which have lengthscales; this model has none. Leave kernel out."
            )
        found: Array = scales[0].expand(len(self.input_names)).numpy()
        return found / float(found.max())

    def amortised(self, seed: int = 0) -> "FittedLatent":
        """The same with an encoder, a net that gives q(x) of new rows: see `mogul.fitted.encoder`."""
        return replace(self, encoder=Encoder.fit(_latent(self.model), self.training, seed))

    def encode(self, y: Any) -> Latent:
        """q(X*) of new rows by the encoder alone, without a search."""
        if self.encoder is None:
            raise ConfigError("encode needs an encoder; this model has none. Call amortised() for one that has.")
        return self.encoder.encode(self._rows(y))

    def infer(self, y: Any, seed: int = 0) -> Latent:
        """q(X*) of new rows, from their observed outputs; NaN is missing.

        With an encoder a search begins there, too, and each row keeps the end with the larger bound.
        """
        return self._infer(self._rows(y), torch.Generator().manual_seed(seed))

    def reconstruct(self, y: Any, num_samples: int = 100, seed: int = 0) -> Prediction:
        """The predictive distribution of all outputs of new rows, missing ones included, given the observed ones.

        Rows with gaps may lie where q(X*) is, or where training rows do: see `mogul.fitted.latent.posterior_draws`.
        """
        require_positive(num_samples=num_samples)
        generator = torch.Generator().manual_seed(seed)  # one for all: x and f must not share their noise
        rows, known = self._rows(y), _latent(self.model).marginals()
        draws = posterior_draws(self.model, self._infer(rows, generator), known, rows, num_samples, generator)
        return predict(self.model, draws, num_samples, generator).rescaled(self.scaling.outputs)

    def log_evidence_bound(self, y: Any, num_samples: int = 1000, seed: int = 0) -> Float[Array, "N"]:
        """An importance-weighted lower bound on log p(y) per row, in standardised units."""
        generator = torch.Generator().manual_seed(seed)
        rows = self._rows(y)
        return (
            importance_weighted_bound(self.model, self._infer(rows, generator), rows, num_samples, generator)
            .double()
            .numpy()
        )

    def predict_parts(
        self, data: Dataset, num_samples: int, seed: int = 0
    ) -> Iterator[tuple[Prediction, Float[Array, "_ P"]]]:
        """Predictions from the latent inputs inferred from each row's outputs."""
        for number, rows in enumerate(_slices(data, num_samples)):
            yield self.reconstruct(data.y[rows], num_samples, seed + number), data.y[rows]

    def evaluate(
        self,
        data: Dataset,
        *,
        standardised: bool = False,
        num_samples: int | None = None,
        seed: int = 0,
        nested: bool = False,
    ) -> Scores:
        """The paper's scores: each row's latent input is inferred from its outputs, then the outputs are scored.

        This log likelihood uses the scored outputs for inference; `log_evidence_bound` bounds log p(y) itself.
        """
        known = data.without_inputs()
        return super().evaluate(known, standardised=standardised, num_samples=num_samples, seed=seed, nested=nested)

    def _infer(self, rows: Batch, generator: torch.Generator) -> Latent:
        with torch.enable_grad():
            return infer_inputs(self.model, self.training, rows, self.inference, generator, self.encoder)

    def _rows(self, y: Any) -> Batch:
        matrix, _ = as_matrix(in_order(y, self.output_names, "Y"), "Y")
        require_columns(matrix, self.output_names, "Y")
        return self.scaling.batch(Dataset(None, matrix, check_outputs=False), self._dtype)


def _latent(model: Model) -> Latent:
    assert isinstance(model.inputs, Latent)
    return model.inputs


def summary_lines(fitted: Fitted) -> list[str]:
    """Model, data, training and check, in five lines or fewer."""
    history = fitted.history
    inputs = "latent inputs" if fitted.is_latent else f"inputs {_some(fitted.input_columns)}"
    how = "exact GPs" if fitted.is_solved else f"{history.num_epochs} epochs"
    ended = (", interrupted" if history.interrupted else "") + (", a quick first answer" if history.quick else "")
    rows = "" if history.num_rows is None else f"{history.num_rows:,} rows, "
    lines = [
        f"{fitted.model_name} with {fitted.noise_name} noise: {inputs}; outputs {_some(fitted.output_names)}",
        f"Trained on {rows}{how}{ended}",
    ]
    if fitted.check is None:
        return [*lines, "Not checked at rows that it was not trained on"]
    check = fitted.check
    sides = check.model, check.least_squares, check.mean
    r2 = ", ".join(f"{each.name} {each.r2:.2f}" for each in check.model[:_SHOWN] if each.r2 is not None)
    bands = ", ".join(f"{100 * each.in_band:.0f} %" for each in check.model[:_SHOWN] if each.in_band is not None)
    errors = [", ".join(f"{each.rmse:.3g}" for each in side[:_SHOWN] if each.rmse is not None) for side in sides]
    return [
        *lines,
        f"Checked on {check.rows_words}",
        f"R² {r2}; 95 % bands hold {bands} of the values",
        f"RMSE {errors[0]}; of least squares {errors[1]}; of the mean {errors[2]}",
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _slices(data: Dataset, num_samples: int) -> Iterator[slice]:
    step = max(1, _PART // (num_samples * data.num_outputs))
    for first in range(0, data.num_rows, step):
        yield slice(first, first + step)
