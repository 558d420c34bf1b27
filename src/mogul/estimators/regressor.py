"""Many outputs from inputs, as a scikit-learn regressor."""

from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from mogul.arrays import Array
from mogul.errors import ConfigError, ShapeError, unknown_name
from mogul.estimators.base import GPEstimator, parsed_model, seed_of
from mogul.estimators.tables import FrameKind, Outputs, as_frame, copies, named_dataset
from mogul.nonlinearities import Nonlinearity
from mogul.prediction import Prediction
from mogul.training.config import Precision, TrainingConfig
from mogul.training.fit import MeanChoice, fit
from mogul.training.more import train_more

if TYPE_CHECKING:
    import mogul.surrogate

Container = Literal["default", "pandas", "polars"]


class MultiOutputGPRegressor(RegressorMixin, GPEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Multi-output GP regression with uncertainty, for scikit-learn's pipelines and searches.

    Arguments that are None are chosen by the preset, for the number of rows and outputs. Outputs may miss values (NaN).

    Args:
        model: one of `mogul.models.names()` with observed inputs.
        preset: "default" or "paper"; None is the default.
        config: a whole `TrainingConfig` in place of a preset.
        epochs: passes over the data.
        batch_size: rows per step.
        learning_rate: Adam's, at first.
        num_starts: random starts, of which the best is trained to the end.
        precision: "float32" or "float64".
        mean: "linear" (the default), "paper", "zero" or "constant", as `mogul.fit` takes it.
        num_latents: the number L of GPs.
        num_hidden: the number H of hidden units.
        num_inducing: the number M of inducing points.
        nonlinearity: of the hidden units: a name, or any `Nonlinearity`.
        options: further options of `mogul.models.build`, by name.
        num_samples: draws of the predictive mixture, for quantiles, covariances and densities.
        random_state: of everything random but a training by `config`, which has a seed of its own; a number gives the
            same result each time.

    Attributes:
        fitted_: the `mogul.Fitted` underneath.
        output_names_: names of the outputs.
        n_features_in_, feature_names_in_: as in scikit-learn.

    Example:
        >>> X = np.linspace(0, 1, 20)[:, None]
        >>> regressor = MultiOutputGPRegressor(epochs=2, num_starts=1).fit(X, np.hstack([np.sin(X), np.cos(X)]))
        >>> mean, std = regressor.predict(X, return_std=True)
        >>> mean.shape, std.shape
        ((20, 2), (20, 2))
    """

    def __init__(
        self,
        model: str = "n-sbgprn",
        *,
        preset: str | None = None,
        config: TrainingConfig | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        num_starts: int | None = None,
        precision: Precision | None = None,
        mean: MeanChoice | None = None,
        num_latents: int | None = None,
        num_hidden: int | None = None,
        num_inducing: int | None = None,
        nonlinearity: str | Nonlinearity | None = None,
        options: dict[str, Any] | None = None,
        num_samples: int = 100,
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.preset = preset
        self.config = config
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.num_starts = num_starts
        self.precision = precision
        self.mean = mean
        self.num_latents = num_latents
        self.num_hidden = num_hidden
        self.num_inducing = num_inducing
        self.nonlinearity = nonlinearity
        self.options = options
        self.num_samples = num_samples
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        validation: float | None = None,
        groups: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> "MultiOutputGPRegressor":
        """Train on rows of inputs X (N, D) and outputs y (N, P) or (N,); Ctrl-C ends that, and keeps what was learnt.

        Args:
            X: finite inputs: array, tensor or frame.
            y: outputs, where NaN is a missing value.
            sample_weight: how often each row counts, in whole numbers.
            validation: share of the rows to hold out, whose likelihood says when to stop; None watches the ELBO.
            groups: must be None; split by groups outside, as `cross_val_score(..., groups=...)` does.
            checkpoint: a folder from which the same call goes on where this one was killed, as in `mogul.fit`.
            checkpoint_seconds: how long to wait between writings there.
        """
        _refuse_groups(groups)
        saving = {"checkpoint": checkpoint, "checkpoint_seconds": checkpoint_seconds}
        return self._fit(X, y, sample_weight, held_out=_share(validation), **saving)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        held_out: float | None = None,
        epochs: Any = None,
        **saving: Any,
    ) -> "MultiOutputGPRegressor":
        model = parsed_model(self.model, latent=False)
        options = self._build_options()
        matrix = self._matrix(X, reset=True)
        outputs = Outputs.of(y, type(self).__name__)
        data = named_dataset(matrix, self._names_in(), outputs)
        chosen = copies(sample_weight, len(matrix))
        data = data if chosen is None else data.rows(chosen)
        self._seed = seed_of(self.random_state)
        config = self._training_config(model, data.num_rows, held_out, epochs)
        mean = "paper" if self.mean is None and self.preset == "paper" else self.mean
        fitted = fit(data, model, config, mean=mean, **saving, **options)
        self._frame, self._single = outputs.frame, outputs.single
        self._keep(fitted)
        return self

    def partial_fit(self, X: Any, y: Any, epochs: int | None = None) -> "MultiOutputGPRegressor":
        """Go on training from the parameters at hand, with the scaling of the first fit; `fit`, if there was none.

        Only the rows given are learnt from: pass old rows with new ones to keep what they taught.

        Args:
            X: the same or other rows of inputs.
            y: their outputs.
            epochs: how many passes, or how many more; as many as a first training has by default.
        """
        if not hasattr(self, "fitted_"):
            return self._fit(X, y, epochs=epochs)
        matrix = self._matrix(X, reset=False)
        outputs = Outputs.of(y, type(self).__name__)
        self._require_outputs(outputs)
        data = named_dataset(matrix, self._names_in(), outputs)
        seed = self._seed + len(self.fitted_.history.records)  # another each time, yet the same for the same calls
        self._keep(train_more(self.fitted_, data, epochs, seed))
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean of the outputs; with their standard deviations, or their P × P covariance at each row, noise included.

        Frames come back where y was a frame, or where `set_output` says so; covariances are (N, P, P) always.
        """
        if return_std and return_cov:
            raise ConfigError("Ask for return_std or return_cov; got both. The diagonal of the covariance is std².")
        matrix = self._matrix(X, reset=False)
        if not (return_std or return_cov):
            return self._given_back(self._quick.mean(matrix), X)
        mean, std = self._quick.mean_std(matrix)
        if return_std:
            return self._given_back(mean, X), self._given_back(std, X)
        parts = [_correlations(part) for part in self._mixtures(matrix)]
        cov: Array = np.concatenate(parts) * (std[:, :, None] * std[:, None, :])
        return self._given_back(mean, X), cov

    def predict_quantiles(self, X: Any, q: Any) -> Any:
        """Quantiles of the predictive mixture: of the shape of `predict` for one level, (Q, N, P) for several."""
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        matrix = self._matrix(X, reset=False)
        values = np.concatenate([part.quantiles(levels) for part in self._mixtures(matrix)], axis=1)
        if np.ndim(q) == 0:
            return self._given_back(values[0], X)
        return values[..., 0] if self._single else values

    def sample_y(
        self, X: Any, n_samples: int = 1, joint: bool = False, random_state: Any = 0
    ) -> Float[Array, "N P S"] | Float[Array, "N S"]:
        """Draws of the outputs, noise included, with the axes of scikit-learn's: rows, outputs (if several), draws.

        Args:
            X: inputs.
            n_samples: the number S of draws.
            joint: whether the rows of a draw belong to one function; else each row is drawn by itself.
            random_state: of the draws.
        """
        matrix = self._matrix(X, reset=False)
        seed = seed_of(random_state)
        if joint:
            draws = self.fitted_.sample_functions(matrix, n_samples, seed)
            draws = draws + self.fitted_.sample_noise(matrix, n_samples, seed)
        else:
            draws = _drawn(self.fitted_.predict(matrix, n_samples, seed), n_samples, seed)
        moved: Array = np.moveaxis(draws, 0, -1)
        return moved[:, 0] if self._single else moved

    def log_density(self, X: Any, y: Any) -> Float[Array, "N"]:
        """log p(y | x) of each row over the outputs that it has, in original units."""
        matrix = self._matrix(X, reset=False)
        outputs = Outputs.of(y, type(self).__name__)
        self._require_outputs(outputs)
        data = named_dataset(matrix, self._names_in(), outputs).in_order(self.fitted_.input_names, self.output_names_)
        parts = self._parts(len(matrix), self.num_samples)
        each = [self._mixture(matrix[rows], seed).log_density(data.y[rows]) for seed, rows in parts]
        return np.concatenate(each)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², the mean over outputs, as scikit-learn defines it, of the values that are there."""
        matrix = self._matrix(X, reset=False)
        mean = self._quick.mean(matrix)
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

    def jacobian(self, X: Any) -> Float[Array, "N P D"] | Float[Array, "N D"]:
        """∂mean/∂x at each row, in units of an output over units of an input."""
        slopes = self._quick.jacobian(self._matrix(X, reset=False))
        return slopes[:, 0] if self._single else slopes

    def to_botorch(self) -> "mogul.surrogate.Surrogate":
        """A BoTorch model for acquisition functions, in the units of training: a frozen copy of what is fitted now."""
        check_is_fitted(self)
        if find_spec("botorch") is None:
            raise ConfigError(
                'to_botorch needs the package botorch; it is not installed. Run pip install "mogul[botorch]".'
            )
        from mogul.surrogate import Surrogate

        return Surrogate.of(self.fitted_, seed=self._seed)

    def set_output(self, *, transform: Container | None = None) -> "MultiOutputGPRegressor":
        """Choose the container of predictions: "pandas", "polars", or "default", a frame where y was one."""
        if transform is not None:
            if transform not in get_args(Container):
                raise unknown_name("transform", transform, get_args(Container))
            self._sklearn_output_config = {"transform": transform}  # by this name, clone keeps it
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _mixtures(self, matrix: Float[Array, "N D"]) -> list[Prediction]:
        return [self._mixture(matrix[rows], seed) for seed, rows in self._parts(len(matrix), self.num_samples)]

    def _mixture(self, matrix: Float[Array, "N D"], seed: int) -> Prediction:
        return self.fitted_.predict(matrix, self.num_samples, seed)

    def _given_back(self, values: Float[Array, "N P"], X: Any) -> Any:
        config: dict[str, Container] = getattr(self, "_sklearn_output_config", {})
        chosen = config.get("transform", "default")
        kind: FrameKind | None = self._frame if chosen == "default" else chosen
        if kind is not None:
            return as_frame(values, self.output_names_, kind, like=X)
        return values[:, 0] if self._single else values

    def _require_outputs(self, y: Outputs) -> None:
        if y.values.shape[1] != len(self.output_names_):
            raise ShapeError(
                f"Y must have {len(self.output_names_)} columns, as in training; got {y.values.shape[1]}. "
                f"The columns are {', '.join(self.output_names_)}."
            )


def _drawn(mixture: Prediction, num_samples: int, seed: int) -> Float[Array, "S N P"]:
    """One draw from each component where each is itself a draw; else from components by their weights."""
    if mixture.log_weight is not None:
        return mixture.sample(num_samples, seed)
    deviations = mixture.joint.deviations(np.sqrt(mixture.component_var), np.random.default_rng(seed))
    result: Array = mixture.component_mean + deviations
    return result


def _correlations(mixture: Prediction) -> Float[Array, "N P P"]:
    """Of the outputs at each row, by the law of total covariance: of the components' means, plus their variances."""
    cov = mixture.cov_of_means()
    cov += mixture.joint.cross_cov(cov.shape[-1])
    diagonal = np.arange(cov.shape[-1])
    cov[:, diagonal, diagonal] += mixture.average(mixture.component_var)
    scale = np.sqrt(cov[:, diagonal, diagonal])
    cov /= scale[:, :, None] * scale[:, None, :]
    cov[:, diagonal, diagonal] = 1.0  # to the last bit: variances on the diagonal are those of return_std
    return cov


def _share(validation: Any) -> float | None:
    if validation is None:
        return None
    is_number = isinstance(validation, int | float | np.integer | np.floating)
    if not is_number or not 0 < validation < 1:
        found = validation if is_number else type(validation).__name__
        raise ConfigError(
            f"validation must be a share of the rows, between 0 and 1; got {found}. "
            "Try 0.1; rows of one's own cannot be given yet."
        )
    return float(validation)


def _refuse_groups(groups: Any) -> None:
    if groups is not None:
        raise ConfigError(
            f"groups must be None; got {type(groups).__name__}. Rows are held out one by one: "
            "split by groups outside, with GroupKFold."
        )
