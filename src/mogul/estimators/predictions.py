"""What a fitted regressor says about inputs: moments, quantiles, draws, densities, slopes, and a score."""

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from mogul._typing import Array
from mogul.data.sources.containers import FrameKind, Outputs, as_frame, named_dataset
from mogul.errors import ConfigError, ShapeError
from mogul.estimators.base import GPEstimator, seed_of
from mogul.prediction import Prediction

Container = Literal["default", "pandas", "polars"]


class PredictsOutputs(RegressorMixin, GPEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The predictions of an estimator with observed inputs, in the containers that its user has."""

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

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Both ends of an interval for each output: two results like that of `predict`. Needs `calibrate`.

        Promised: an output of a new row lies in its interval with at least this probability, however wrong the model,
        if that row and the rows set aside for calibration are exchangeable: drawn in the same way, in no special order.
        With groups it is for a row of a new group, exchangeable with those set aside.

        Not promised: this share at given inputs, or in a part of the input space; for all outputs of a row at once; for
        data that drift. Nor does one set of calibration rows give just this share: over many sets it is the mean. See
        `mogul.fitted.calibration.Calibration`.

        Args:
            X: inputs.
            coverage: the probability; n rows or groups set aside reach up to n/(n + 1).
        """
        matrix = self._matrix(X, reset=False)
        calibration = self.fitted_.require_calibration()
        low, high = calibration.interval(*self._quick.mean_std(matrix), coverage)
        return self._given_back(low, X), self._given_back(high, X)

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
            draws = self.fitted_.predict(matrix, n_samples, seed).sample_components(n_samples, seed)
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
