"""Multi-output GP regression as a scikit-learn regressor."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from mogul._typing import Array
from mogul.config import Precision, TrainingConfig
from mogul.core.transforms import TransformChoice
from mogul.data import Dataset
from mogul.data.encodings.encoding import (
    InputEncoding,
    MissingInputs,
    require_missing_inputs,
    rows_to_keep,
    warn_of_filled,
)
from mogul.data.sources.containers import (
    FrameKind,
    Outputs,
    as_array,
    as_frame,
    copies,
    named_dataset,
    require_same_index,
)
from mogul.data.sources.reading import Reading
from mogul.data.sources.row_files import RowFiles, Where
from mogul.data.splits import group_numbers
from mogul.errors import ConfigError, ShapeError, unknown_name
from mogul.estimators.base import BUILDING, TRAINING, GPEstimator, seed_of, threaded
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import Choice
from mogul.models.families import is_latent
from mogul.models.model import Model
from mogul.models.parts import Parts
from mogul.nonlinearities import Nonlinearity
from mogul.objective import ObjectiveName
from mogul.prediction import Prediction
from mogul.registry import model_name
from mogul.terminal import Bar
from mogul.training.defaults import MeanChoice
from mogul.training.fit import FitRequest, train_more
from mogul.training.split import is_pair, share_of
from mogul.training.starts import Saving

if TYPE_CHECKING:
    import mogul.estimators.botorch

Container = Literal["default", "pandas", "polars"]


class MultiOutputGPRegressor(RegressorMixin, GPEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Multi-output GP regression with uncertainty, for scikit-learn's pipelines and searches.

    Arguments that are None are chosen by the preset, for the number of rows and outputs: `mogul.fit` gives the same
    model for the same arguments. Outputs may miss values (NaN).

    Up to 2,500 rows each output has an exact GP with a linear mean, with hyperparameters of the largest evidence, and
    the default is a mogp with a latent GP for each output, in closed form. Other models start there and are trained by
    300 more steps of Adam, or 60 where their mixing is a net. With more rows, and with a GPyTorch kernel, starts are
    random and training uses minibatches. Arguments about steps (epochs, batch_size, learning_rate,
    num_starts, num_kept) have no effect where none are taken, and a warning says so.

    Args:
        model: one of `mogul.models.names()` with observed inputs, or several, "mogp+n-sbgprn", for the mixture of their
            predictions. "auto" tries mogp, gprn, sbgprn and n-sbgprn and keeps the one with the largest likelihood of
            validation rows. None is mogp up to 2,500 rows; beyond, the better of mogp and n-sbgprn at rows held out,
            or with groups mogp+gprn+n-sbgprn. The default never uses gprn beyond 20 outputs, nor a mixture
            with noise="auto".
        preset: "default", or "paper" for the paper's choices: its protocol, constant noise, its sizes and means, or
            "paper-fast" for its models and objective in less time; None is the default.
        config: a whole `TrainingConfig` in place of a preset.
        epochs: passes over the data.
        batch_size: rows per step.
        learning_rate: Adam's, where it is largest; by default 0.02, and 0.01 with groups; up to 2,500 rows 0.005,
            and 0.003 for a net's mixing.
        num_starts: random restarts; the best is trained to the end. An exact start counts as one.
        num_kept: number of best restarts trained to the end; predictions are their mixture.
        objective: what training maximises: "elbo", a bound on the evidence (the default); "balanced" for smaller errors
            at some cost in density, with gp and net noise; "predictive" for the density of predictions, with learnt
            sites in deep models.
        precision: "float32" or "float64".
        mean: "auto" (the default where no model is named), "linear", "trees", "boosting", any scikit-learn regressor,
            "paper", "zero" or "constant", as `mogul.fit` takes it.
        output_transform: "log", "yeo-johnson" or "auto" for outputs that are positive, skewed or counted; one for all,
            or a dict by names of outputs. It is `transform` of `mogul.fit`; scikit-learn takes an estimator with an
            attribute of that name for a transformer.
        autoregressive: whether each output is modelled less a linear function of those before it, as `mogul.fit`
            takes it; None lets the log evidence decide for outputs that are missing where others are known.
        num_latents: the number L of GPs; P for up to 24 outputs (up to 4 with more than 2,500 rows), else
            max(4, ⌈P/2⌉); ⌈P/2⌉ in the paper's preset.
        num_hidden: the number H of hidden units.
        num_inducing: the number M of inducing points, 200 for models of one layer with more than 2,500 rows; from an
            exact start the most there may be, 600 by default.
        nonlinearity: nonlinearity of the hidden units: a name, or any `Nonlinearity`.
        noise: "constant" (the default of the paper's preset), "net", "gp" (its size depends on x), "student-t",
            "gp-student-t" or "low-rank", as `mogul.models.build` has it. "residuals" (the default) lets leave-one-out
            residuals of exact GPs choose: constant, student-t, gp or gp-student-t, correlated across outputs where
            residuals are; with more than 2,500 rows gp or gp-student-t. "auto" tries gp, constant and student-t on
            validation rows, as the model's "auto" tries models.
        kernel: of the latent GPs: "rbf" (the default), "matern12", "matern32", "matern52", "rq", "periodic", "linear",
            sums and products such as "rbf+periodic" or "rbf*linear", a name of `mogul.register_kernel`, or any GPyTorch
            kernel. "auto" chooses among rbf, matern52 and matern32 by the log evidence of exact GPs.
        options: further options of `mogul.models.build`, by name.
        calibrate: share of the rows, or of the groups, that is set aside at random and not trained on, 0.2 for example.
            Predictive spreads are calibrated on these rows, and `predict_interval` is available.
        categories: columns whose numbers are names of kinds, not amounts. Columns of text, categories, truth values,
            dates and times need no mention: a frame's columns are encoded as `mogul.fit` does.
        missing_inputs: for gaps in inputs, "mean" or "refuse", as `mogul.fit` takes it; None is the mean for frames,
            and arrays are refused.
        check: whether `fit` scores each output at rows that were not trained on, `fitted_.check`, as `mogul.fit` does:
            for next to nothing with exact GPs, and for at most a third of the time otherwise. A search that scores its
            own rows can leave it out.
        verbose: how `fit` shows its progress: 0 not at all, 1 by a bar on a terminal or in a notebook, 2 also by lines
            in logs.
        num_samples: draws of the predictive mixture, for quantiles, covariances and the densities of deep models.
        n_jobs: threads of torch while it fits and predicts, -1 for one per core; None leaves torch as it is. The last
            digits of results depend on it.
        random_state: seed of everything random, except training by `config`, which has its own seed; a number makes
            results reproducible.

    Attributes:
        fitted_: the `mogul.Fitted` underneath.
        choice_: what "auto" tried and kept, with a `frame()` of it; None where model and noise were given.
        output_names_: names of the outputs.
        n_features_in_, feature_names_in_: as in scikit-learn.

    Example:
        >>> import numpy as np
        >>> X = np.linspace(0, 1, 20)[:, None]
        >>> regressor = MultiOutputGPRegressor().fit(X, np.hstack([np.sin(X), np.cos(X)]))
        >>> mean, std = regressor.predict(X, return_std=True)
        >>> mean.shape, std.shape
        ((20, 2), (20, 2))
    """

    _training = (*TRAINING, "num_kept", "objective")
    _building = (*BUILDING, "noise", "kernel")
    choice_: Choice | None

    def __init__(
        self,
        model: str | Callable[[Parts], Model] | None = None,
        *,
        preset: str | None = None,
        config: TrainingConfig | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        num_starts: int | None = None,
        num_kept: int | None = None,
        objective: ObjectiveName | None = None,
        precision: Precision | None = None,
        mean: MeanChoice | None = None,
        output_transform: TransformChoice = None,
        autoregressive: bool | None = None,
        num_latents: int | None = None,
        num_hidden: int | None = None,
        num_inducing: int | None = None,
        nonlinearity: str | Nonlinearity | None = None,
        noise: str | None = None,
        kernel: Any = None,
        options: dict[str, Any] | None = None,
        calibrate: float | None = None,
        categories: Sequence[str] = (),
        missing_inputs: MissingInputs | None = None,
        check: bool = True,
        verbose: int = 1,
        num_samples: int = 100,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.preset = preset
        self.config = config
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.num_starts = num_starts
        self.num_kept = num_kept
        self.objective = objective
        self.precision = precision
        self.mean = mean
        self.output_transform = output_transform
        self.autoregressive = autoregressive
        self.num_latents = num_latents
        self.num_hidden = num_hidden
        self.num_inducing = num_inducing
        self.nonlinearity = nonlinearity
        self.noise = noise
        self.kernel = kernel
        self.options = options
        self.calibrate = calibrate
        self.categories = categories
        self.missing_inputs = missing_inputs
        self.check = check
        self.verbose = verbose
        self.num_samples = num_samples
        self.n_jobs = n_jobs
        self.random_state = random_state

    @threaded
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        validation: float | tuple[Any, Any] | None = None,
        groups: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> "MultiOutputGPRegressor":
        """Train on rows of inputs X (N, D) and outputs y (N, P) or (N,); Ctrl-C ends training early.

        Args:
            X: finite inputs: array, tensor or frame.
            y: outputs, where NaN is a missing value.
            sample_weight: how often each row counts; where these are no whole numbers, rows are repeated or left out at
                random so that they count by their weights on average.
            validation: validation rows, whose likelihood decides when to stop and what "auto" chooses: a pair (X, Y) of
                your own, or a share to hold out at random, a fifth where `groups` or "auto" needs one. Without them,
                early stopping uses the ELBO. Rows that `groups` or "auto" holds out are trained on in the end.
            groups: a label for each row. Validation rows are then whole groups, drawn at random: rows of a trajectory,
                a patient or a day resemble each other, and predictions are often for new ones. They decide how long to
                train and what "auto" chooses; then the model is trained again, on all groups.
            checkpoint: a folder for a checkpoint, from which the same call resumes, as in `mogul.fit`.
            checkpoint_seconds: least time between two checkpoints.
        """
        saving = Saving(None, None if checkpoint is None else Path(checkpoint), checkpoint_seconds)
        return self._fit(X, y, sample_weight, validation, groups, saving=saving)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        validation: Any = None,
        groups: Any = None,
        epochs: Any = None,
        saving: Saving | None = None,
        mean: MeanChoice | None = None,
    ) -> "MultiOutputGPRegressor":
        request = self._asked(validation, epochs, saving, mean)
        require_same_index(X, y)
        matrix = self._matrix(X, reset=True)
        outputs = Outputs.of(y, type(self).__name__)
        data = named_dataset(matrix, self._names_in(), outputs)
        data.encoding = self._encoding
        if is_pair(validation):
            request = replace(request, validation=self._own_rows(*validation))
        numbers = None if groups is None else group_numbers(as_array(groups), data.num_rows)
        fitted = replace(request, groups=numbers).fit(data, copies(sample_weight, data.num_rows, self._seed))
        self._frame, self._single = outputs.frame, outputs.single
        self._keep(fitted)
        return self

    @threaded
    def fit_files(
        self,
        files: Where,
        targets: Sequence[str],
        inputs: Sequence[str] | None = None,
        validation: float | None = None,
        groups: str | None = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 60.0,
        scratch: str | PathLike[str] | None = None,
    ) -> "MultiOutputGPRegressor":
        """Train on rows that stay in files, in memory that does not grow with their number.

        Args:
            files: several tables of numbers with the same columns: a pattern, a folder, or a list of paths.
            targets: columns to predict.
            inputs: columns to predict from; by default all others.
            validation: share of rows held out, by a hash of each row.
            groups: column of labels; whole groups are then held out.
            checkpoint: a folder for a checkpoint, as in `fit`.
            checkpoint_seconds: least time between two checkpoints.
            scratch: a folder for the scaled copy of the rows; by default one that is removed.
        """
        saving = Saving(None, None if checkpoint is None else Path(checkpoint), checkpoint_seconds)
        request = self._asked(validation, saving=saving)
        rows = RowFiles.of(files, targets, inputs, groups)
        fitted = request.fit_files(rows, None if scratch is None else Path(scratch))
        self.n_features_in_, self.feature_names_in_ = len(rows.inputs), np.array(rows.inputs, dtype=object)
        self._frame, self._single = None, len(targets) == 1
        self._keep(fitted)
        return self

    def _asked(
        self, validation: Any, epochs: Any = None, saving: Saving | None = None, mean: MeanChoice | None = None
    ) -> FitRequest:
        model = model_name(self.model)
        if model is not None and is_latent(model):
            raise ConfigError(f"model must have observed inputs; {model} has latent ones. Use MultiOutputGPLVM.")
        self._seed = seed_of(self.random_state)
        return self._request(
            model,
            mean=self.mean if mean is None else mean,
            transform=self.output_transform,
            autoregressive=self.autoregressive if mean is None else False,
            settings={} if epochs is None else {"epochs": epochs},
            validation=share_of(validation),
            calibrate=share_of(self.calibrate, "calibrate", otherwise=""),
            check=self.check,
            saving=replace(saving or Saving(), bar=Bar(self.verbose)),
        )

    def _fitted_encoding(self, x: Any) -> InputEncoding | None:
        policy = None if self.missing_inputs is None else require_missing_inputs(self.missing_inputs)
        if policy == "drop":
            raise ConfigError(
                "missing_inputs must be 'mean' or 'refuse' in an estimator, whose rows are counted by others; got "
                "'drop'. Drop rows before, or use mogul.fit."
            )
        frame = Reading(self.categories, (), policy).frame_to_encode(x)
        if frame is None:
            return None
        rows_to_keep(frame, policy or "mean", "X", "missing_inputs=")
        encoding = InputEncoding.of(frame, self.categories, "X")
        if policy is None:
            warn_of_filled(encoding)
        return None if encoding.is_plain else encoding

    def _own_rows(self, X: Any, y: Any) -> Dataset:
        matrix = self._checked_matrix(X, reset=False)
        return named_dataset(matrix, self._names_in(), Outputs.of(y, type(self).__name__))

    @threaded
    def partial_fit(self, X: Any, y: Any, epochs: int | None = None) -> "MultiOutputGPRegressor":
        """Learn new rows, with what was learnt before as their prior: old rows are neither needed nor forgotten.

        Before any fit it is a fit with the linear mean. After one, `Fitted.update` moves the posterior over the GPs, in
        about a second. With `epochs` it continues training by gradient steps instead, from the current parameters: only
        the given rows are used then, so include old rows to keep learning from them. A forest under the GPs can be
        updated, but not trained further.

        Args:
            X: inputs of rows; of new ones, unless `epochs` is given.
            y: their outputs.
            epochs: number of further epochs; None updates the posterior instead.
        """
        if not hasattr(self, "fitted_"):
            return self._fit(X, y, epochs=epochs, mean="linear" if self.mean is None else self.mean)
        require_same_index(X, y)
        matrix = self._matrix(X, reset=False)
        outputs = Outputs.of(y, type(self).__name__)
        self._require_outputs(outputs)
        data = named_dataset(matrix, self._names_in(), outputs)
        if epochs is None:
            self._keep(self.fitted_.updated(data))
            return self
        seed = self._seed + len(self.fitted_.history.records)  # differs between calls, and is reproducible
        self._keep(train_more(self.fitted_, data, epochs, seed))
        return self

    @threaded
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, given: Any = None) -> Any:
        """Mean of the outputs; with their standard deviations, or their P × P covariance at each row, noise included.

        Frames come back where y was a frame, or where `set_output` says so; covariances are (N, P, P) always.

        Args:
            X: inputs.
            return_std: whether to give standard deviations too.
            return_cov: whether to give covariances too.
            given: outputs that are known in the same rows, NaN where not: a matrix like y, or a frame with the columns
                of some outputs. The prediction is then that of the others given these, and known outputs have their
                value and no variance. Quantiles, draws and log densities take it too. See `mogul.Fitted.predict`.
        """
        if return_std and return_cov:
            raise ConfigError("Ask for return_std or return_cov; got both. The diagonal of the covariance is std².")
        matrix = self._matrix(X, reset=False)
        if given is not None or self.fitted_.transforms:
            return self._predict_mixtures(X, self._mixtures(matrix, given), return_std, return_cov)
        if not (return_std or return_cov):
            return self._given_back(self._quick.mean(matrix), X)
        mean, std = self._quick.mean_std(matrix)
        if return_std:
            return self._given_back(mean, X), self._given_back(std, X)
        parts = [part.correlations() for part in self._mixtures(matrix)]
        cov: Array = np.concatenate(parts) * (std[:, :, None] * std[:, None, :])
        return self._given_back(mean, X), cov

    def _predict_mixtures(self, X: Any, parts: list[Prediction], return_std: bool, return_cov: bool) -> Any:
        mean, std = (np.concatenate([getattr(part, name) for part in parts]) for name in ("mean", "std"))
        if return_cov:
            cov: Array = np.concatenate([part.correlations() for part in parts]) * (std[:, :, None] * std[:, None, :])
            return self._given_back(mean, X), cov
        return (self._given_back(mean, X), self._given_back(std, X)) if return_std else self._given_back(mean, X)

    @threaded
    def predict_quantiles(self, X: Any, q: Any, given: Any = None) -> Any:
        """Quantiles of the predictive mixture: of the shape of `predict` for one level, (Q, N, P) for several.

        Where `predict` gives a frame, several levels are a list of frames.
        """
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        matrix = self._matrix(X, reset=False)
        values = np.concatenate([part.quantiles(levels) for part in self._mixtures(matrix, given)], axis=1)
        if np.ndim(q) == 0:
            return self._given_back(values[0], X)
        if self._frame_kind is not None:
            return [self._given_back(each, X) for each in values]
        return values[..., 0] if self._single else values

    @threaded
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Lower and upper ends of an interval for each output, each shaped like `predict`. Needs `calibrate`.

        Guaranteed: an output of a new row lies in its interval with at least this probability, for any model, if that
        row and the calibration rows are exchangeable: drawn in the same way, in no special order. With groups, this
        holds for a row of a new group, exchangeable with the calibration groups.

        Not guaranteed: this coverage at given inputs or in a part of the input space; for all outputs of a row at once;
        for data that drift. The coverage is a mean over sets of calibration rows: one set may give more or less. See
        `mogul.fitted.calibration.Calibration`.

        Args:
            X: inputs.
            coverage: the probability; n calibration rows or groups allow up to n/(n + 1).
        """
        matrix = self._matrix(X, reset=False)
        calibration = self.fitted_.require_calibration()
        low, high = map(
            self.fitted_.scaling.undo_transforms, calibration.interval(*self._quick.mean_std(matrix), coverage)
        )
        return self._given_back(low, X), self._given_back(high, X)

    @threaded
    def sample_y(
        self, X: Any, n_samples: int = 1, joint: bool = False, random_state: Any = 0, given: Any = None
    ) -> Float[Array, "N P S"] | Float[Array, "N S"]:
        """Draws of the outputs, noise included, with scikit-learn's axes: rows, outputs (if several), draws.

        Args:
            X: inputs.
            n_samples: the number S of draws.
            joint: whether the rows of a draw belong to one function; else each row is drawn by itself.
            random_state: of the draws.
            given: outputs that are known in the same rows, as `predict` takes them; not with `joint`.
        """
        matrix = self._matrix(X, reset=False)
        seed = seed_of(random_state)
        if joint and given is not None:
            raise ConfigError("given= is for draws of each row by itself; got joint=True. Leave one of them out.")
        if joint:
            modelled = self.fitted_.modelled
            draws = modelled.sample_functions(matrix, n_samples, seed)
            draws = draws + modelled.sample_noise(matrix, n_samples, seed)
            draws = self.fitted_.scaling.undo_transforms(draws)
        else:
            draws = self.fitted_.predict(matrix, n_samples, seed, given).sample_components(n_samples, seed)
        moved: Array = np.moveaxis(draws, 0, -1)
        return moved[:, 0] if self._single else moved

    @threaded
    def log_density(self, X: Any, y: Any, given: Any = None) -> Float[Array, "N"]:
        """log p(y | x) of each row over its observed outputs, in original units; with `given`, over those not known."""
        matrix = self._matrix(X, reset=False)
        outputs = Outputs.of(y, type(self).__name__)
        self._require_outputs(outputs)
        data = named_dataset(matrix, self._names_in(), outputs).in_order(self.fitted_.input_names, self.output_names_)
        parts = self._parts(len(matrix), self.num_samples)
        known = None if given is None else self.fitted_.known_outputs(given, len(matrix))
        each = [self._mixture(matrix[rows], seed, known, rows).log_density(data.y[rows]) for seed, rows in parts]
        return np.concatenate(each)

    @threaded
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² as scikit-learn defines it, over observed values, averaged over outputs."""
        require_same_index(X, y)
        matrix = self._matrix(X, reset=False)
        mean = self._mean(matrix)
        outputs = Outputs.of(y, type(self).__name__)
        self._require_outputs(outputs)
        data = named_dataset(matrix, self._names_in(), outputs).in_order(self.fitted_.input_names, self.output_names_)
        values = data.y
        weights = np.ones(len(mean)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        known = ~np.isnan(values)
        scores = [
            r2_score(true[seen], guess[seen], sample_weight=weights[seen])
            for true, guess, seen in zip(values.T, mean.T, known.T, strict=True)
            if seen.any()
        ]
        return float(np.mean(scores))

    @property
    def feature_importances_(self) -> Float[Array, "D"]:
        """Importance of each input over all outputs, for scikit-learn's selectors: see `Fitted.importance`."""
        check_is_fitted(self)
        return self.fitted_.importance(seed=self._seed).overall

    @threaded
    def jacobian(self, X: Any) -> Float[Array, "N P D"] | Float[Array, "N D"]:
        """∂mean/∂x at each row, in units of an output over units of an input."""
        if self.fitted_.transforms:
            name, words = next(iter(self.fitted_.transforms.items()))
            raise ConfigError(
                f"jacobian needs outputs without a transform; {name!r} has {words}. "
                "Use fitted_.modelled.predictor().jacobian for transformed outputs."
            )
        slopes = self._quick.jacobian(self._matrix(X, reset=False))
        return slopes[:, 0] if self._single else slopes

    def _mean(self, matrix: Float[Array, "N D"]) -> Float[Array, "N P"]:
        if self.fitted_.transforms:
            return np.concatenate([part.mean for part in self._mixtures(matrix)])
        return self._quick.mean(matrix)

    def _mixtures(self, matrix: Float[Array, "N D"], given: Any = None) -> list[Prediction]:
        known = None if given is None else self.fitted_.known_outputs(given, len(matrix))
        parts = self._parts(len(matrix), self.num_samples)
        return [self._mixture(matrix[rows], seed, known, rows) for seed, rows in parts]

    def _mixture(
        self, matrix: Float[Array, "_ D"], seed: int, known: Float[Array, "N P"] | None, rows: slice
    ) -> Prediction:
        return self.fitted_.predict(matrix, self.num_samples, seed, None if known is None else known[rows])

    def _given_back(self, values: Float[Array, "N P"], X: Any) -> Any:
        if self._frame_kind is not None:
            return as_frame(values, self.output_names_, self._frame_kind, like=X)
        return values[:, 0] if self._single else values

    @property
    def _frame_kind(self) -> FrameKind | None:
        """The kind of frame that predictions come back in, by `set_output` or as y was; None for arrays."""
        config: dict[str, Container] = getattr(self, "_sklearn_output_config", {})
        chosen = config.get("transform", "default")
        return self._frame if chosen == "default" else chosen

    def _require_outputs(self, y: Outputs) -> None:
        if y.values.shape[1] != len(self.output_names_):
            raise ShapeError(
                f"Y must have {len(self.output_names_)} columns, as in training; got {y.values.shape[1]}. "
                f"The columns are {', '.join(self.output_names_)}."
            )

    def to_botorch(self) -> "mogul.estimators.botorch.Surrogate":
        """A BoTorch model for acquisition functions, in the units of training: a frozen copy of the fitted model.

        Its standard deviations are not calibrated. A mixture (`num_kept`) has no BoTorch model.
        """
        check_is_fitted(self)
        if find_spec("botorch") is None:
            raise ConfigError(
                'to_botorch needs the package botorch; it is not installed. Run pip install "mogul[botorch]".'
            )
        from mogul.estimators.botorch import Surrogate  # comes with the extra mogul[botorch] only

        return Surrogate.of(self.fitted_, seed=self._seed)

    def set_output(self, *, transform: Container | None = None) -> "MultiOutputGPRegressor":
        """Choose the container of predictions: "pandas", "polars", or "default", a frame if y was one."""
        if transform is not None:
            if transform not in get_args(Container):
                raise unknown_name("transform", transform, get_args(Container))
            self._sklearn_output_config = {"transform": transform}  # clone keeps this attribute
        return self

    def _keep(self, fitted: Fitted) -> None:
        super()._keep(fitted)
        self.choice_ = fitted.choice

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
