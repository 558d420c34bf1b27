"""Base class of both estimators: training requests, seeds, files."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from os import PathLike
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mogul._typing import Array
from mogul.config import TrainingConfig
from mogul.data.checks import as_matrix, require_finite_inputs, require_no_infinity
from mogul.data.encodings.encoding import InputEncoding
from mogul.data.sources.containers import FrameKind, as_array, frame_kind
from mogul.errors import ConfigError, FileError, ShapeError, require_natural
from mogul.fitted.files import load_with_extra, save
from mogul.fitted.fitted import Engine, Fitted
from mogul.fitted.predictor import FittedPredictor
from mogul.training import FitRequest

# Numbers in the draws for a part of the rows: 160 MB in float64.
_NUMBERS_AT_ONCE = 20_000_000
TRAINING = ("epochs", "batch_size", "learning_rate", "num_starts", "precision")
_STATE = ("n_features_in_", "_seed", "_frame", "_single")
BUILDING = ("num_latents", "num_hidden", "num_inducing", "nonlinearity")

Estimator = TypeVar("Estimator", bound="GPEstimator")
Method = TypeVar("Method", bound=Callable[..., Any])


class GPEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Arguments stored unchanged, and `fitted_`, set by `fit`."""

    # Arguments that are settings of training, and options of `mogul.models.build`.
    _training: ClassVar[tuple[str, ...]] = TRAINING
    _building: ClassVar[tuple[str, ...]] = BUILDING
    # Arguments of both estimators; scikit-learn reads them from each __init__.
    preset: str | None
    config: TrainingConfig | None
    options: dict[str, Any] | None
    num_samples: int
    random_state: Any
    # Set by fit.
    fitted_: Fitted
    output_names_: list[str]
    _seed: int
    _quick: FittedPredictor
    _frame: FrameKind | None
    _single: bool
    _encoding: InputEncoding | None = None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to one file, atomically; `load` of its class reads it."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        state = {name: getattr(self, name) for name in _STATE}
        state["feature_names_in_"] = None if names is None else list(names)
        params = self.get_params(deep=False)
        save(self.fitted_, path, {"estimator": type(self).__name__, "params": params, "state": state})

    @classmethod
    def load(cls: "type[Estimator]", path: str | PathLike[str]) -> "Estimator":
        """Read an estimator written by `save`; its predictions are equal bit for bit."""
        fitted, extra = load_with_extra(path)
        found = extra.get("estimator", "a model without an estimator")
        if found != cls.__name__:
            remedy = "Read it with mogul.load." if "estimator" not in extra else f"Use {found}.load."
            raise FileError(f"The file must hold a {cls.__name__}; {path} holds {found}. {remedy}")
        try:
            estimator = cls(**extra["params"])
            state = extra["state"]
            for name in _STATE:  # only known names: a file must not set other attributes
                setattr(estimator, name, state[name])
            if state["feature_names_in_"] is not None:
                estimator.feature_names_in_ = np.array(state["feature_names_in_"], dtype=object)
        except (LookupError, TypeError, AttributeError) as error:
            raise FileError(f"A file must describe its {cls.__name__}; {path} does not: {error}. Fit again.") from error
        estimator._keep(fitted)
        return estimator

    def predictor(
        self, num_samples: int = 32, seed: int = 0, precision: Any = None, engine: Engine = "torch"
    ) -> FittedPredictor:
        """A frozen copy for fast predictions in a loop; only deep models use draws."""
        check_is_fitted(self)
        return self.fitted_.predictor(num_samples, seed, precision, engine)

    def _keep(self, fitted: Fitted) -> None:
        self.fitted_ = fitted
        self.output_names_ = fitted.output_names
        self._encoding = fitted.encoding
        # Set now and not on first use: predictions must not change the estimator.
        self._quick = fitted.modelled.predictor(seed=self._seed)

    def _request(self, model: str | None, **asked: Any) -> FitRequest:
        """The training request that `mogul.fit` makes from the same arguments."""
        return FitRequest(
            model=model,
            config=self.config,
            preset=self.preset,
            seed=self._seed,
            options=self._build_options(),
            settings=self._given(self._training) | asked.pop("settings", {}),
            **asked,
        )

    def _build_options(self) -> dict[str, Any]:
        if not isinstance(self.options, dict | None):
            raise ConfigError(
                f"options must be a dict of options of mogul.models.build; got {self.options!r}. Try {{}}."
            )
        given = self._given(self._building)
        twice = given.keys() & (self.options or {})
        if twice:
            raise ConfigError(f"Give each option once; got {sorted(twice)[0]} twice. Leave it out of options.")
        return given | (self.options or {})

    def _given(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The arguments that are not None; NumPy scalars of a grid search become Python numbers."""
        values = {name: getattr(self, name) for name in names}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        return {name: value for name, value in plain.items() if value is not None}

    def _matrix(self, x: Any, *, reset: bool, missing: bool = False) -> Float[Array, "N D"]:
        """A float64 matrix, after scikit-learn's checks of columns and names against training."""
        if not reset:
            check_is_fitted(self)
        return self._checked_matrix(x, reset=reset, missing=missing)

    def _checked_matrix(self, x: Any, *, reset: bool, missing: bool = False) -> Float[Array, "N D"]:
        """The same without requiring a fitted estimator."""
        if reset:
            self._encoding = self._fitted_encoding(x)
        if self._encoding is not None:
            # scikit-learn compares names and counts of columns with those of training; values may be of any kind.
            own = x if frame_kind(x) is not None else as_array(x)
            validate_data(self, own, reset=reset, skip_check_array=True)
            return self._encoding.apply(own)
        if frame_kind(x) is not None:  # scikit-learn would not name the column
            matrix, names = as_matrix(x, "X")
            (require_no_infinity if missing else require_finite_inputs)(matrix, names)
        elif getattr(array := as_array(x), "ndim", 2) == 1:
            raise ShapeError(
                f"X must be (rows, columns); got shape {array.shape}. Reshape your data: X[None] for one row, "
                "X[:, None] for one column."
            )
        finite = "allow-nan" if missing else True
        values = validate_data(self, as_array(x), reset=reset, dtype=np.float64, ensure_all_finite=finite)
        result: Array = np.ascontiguousarray(values)
        return result

    def _fitted_encoding(self, x: Any) -> InputEncoding | None:
        """The encoding of training rows; None where inputs are numbers without gaps, or not a frame."""
        return None

    def _names_in(self) -> list[str] | None:
        if self._encoding is not None:
            return self._encoding.features
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _parts(self, num_rows: int, num_samples: int) -> Iterator[tuple[int, slice]]:
        """Parts of the rows whose draws fit in memory, with a seed for each."""
        per_row = self.fitted_.num_members * num_samples * len(self.output_names_)
        step = max(1, _NUMBERS_AT_ONCE // per_row)
        for number, first in enumerate(range(0, num_rows, step)):
            yield self._seed + number, slice(first, first + step)


@contextmanager
def threads(n_jobs: Any) -> Iterator[None]:
    """This number of threads of torch, until the end; None leaves it, and -1 is one for each core.

    >>> with threads(1):
    ...     torch.get_num_threads()
    1
    """
    if n_jobs is None:
        yield
        return
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or (n_jobs < 1 and n_jobs != -1):
        raise ConfigError(f"n_jobs must be a number of threads, or -1 for all cores; got {n_jobs!r}. Try n_jobs=1.")
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1 if n_jobs == -1 else int(n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threaded(method: Method) -> Method:
    """A method of an estimator, in its `n_jobs` threads."""

    @wraps(method)
    def in_threads(self: Any, *arguments: Any, **named: Any) -> Any:
        with threads(self.n_jobs):
            return method(self, *arguments, **named)

    return cast(Method, in_threads)


def seed_of(random_state: Any) -> int:
    """A seed from scikit-learn's random_state: a number, a generator, or None for a new seed each time.

    >>> seed_of(3)
    3
    """
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        require_natural(random_state=random_state)
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
