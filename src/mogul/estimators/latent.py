"""The GP latent-variable model as a scikit-learn transformer."""

import math
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mogul._typing import Array
from mogul.config import Precision, TrainingConfig
from mogul.data.checks import as_matrix, require_columns, require_finite_inputs
from mogul.data.sources.containers import Outputs, as_array, as_frame, frame_kind, named_dataset
from mogul.errors import require_positive
from mogul.estimators.base import GPEstimator, seed_of
from mogul.fitted.fitted import FittedLatent
from mogul.models.families import Name
from mogul.nonlinearities import Nonlinearity
from mogul.training.starts import Saving


class MultiOutputGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GPEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A GP latent-variable model: maps rows of Y to a latent space; values may be missing (NaN).

    Args:
        n_components: the number of latent inputs.
        model: one of the families of `mogul.models.names()`; `-lvm` may be left out.
        preset: "default", "paper" or "paper-fast", as `mogul.fit` takes them; None is the default.
        config: a whole `TrainingConfig` in place of a preset.
        epochs: passes over the data.
        batch_size: rows per step.
        learning_rate: Adam's initial learning rate.
        num_starts: starts of the latent inputs, or random restarts; the best is trained to the end.
        precision: "float32" or "float64".
        num_latents: the number L of GPs.
        num_hidden: the number H of hidden units.
        num_inducing: the number M of inducing points.
        nonlinearity: nonlinearity of the hidden units: a name, or any `Nonlinearity`.
        options: further options of `mogul.models.build`, by name.
        inference_steps: optimisation steps for the latent inputs of new rows.
        amortised: whether a net learns to map rows to their latent inputs. `transform` then takes milliseconds, and all
            else searches from there, too, where it otherwise starts at the nearest training row alone.
        num_samples: draws for imputation and densities.
        random_state: seed of everything random; a number makes results reproducible.

    Attributes:
        fitted_: the `mogul.FittedLatent` underneath.
        output_names_: names of the columns of Y.
        n_features_in_, feature_names_in_: as in scikit-learn.

    Example:
        >>> Y = np.sin(np.linspace(0, 6, 20)[:, None] + np.arange(4))
        >>> gplvm = MultiOutputGPLVM(2, num_inducing=10, num_starts=1, inference_steps=5).fit(Y)
        >>> gplvm.transform(Y).shape, gplvm.inverse_transform([[0.0, 1.0]]).shape
        ((20, 2), (1, 4))
    """

    fitted_: FittedLatent

    def __init__(
        self,
        n_components: int = 4,
        *,
        model: str = "mogp",
        preset: str | None = None,
        config: TrainingConfig | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        num_starts: int | None = None,
        precision: Precision | None = None,
        num_latents: int | None = None,
        num_hidden: int | None = None,
        num_inducing: int | None = None,
        nonlinearity: str | Nonlinearity | None = None,
        options: dict[str, Any] | None = None,
        inference_steps: int = 300,
        amortised: bool = False,
        num_samples: int = 100,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.model = model
        self.preset = preset
        self.config = config
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.num_starts = num_starts
        self.precision = precision
        self.num_latents = num_latents
        self.num_hidden = num_hidden
        self.num_inducing = num_inducing
        self.nonlinearity = nonlinearity
        self.options = options
        self.inference_steps = inference_steps
        self.amortised = amortised
        self.num_samples = num_samples
        self.random_state = random_state

    def fit(
        self,
        Y: Any,
        y: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> "MultiOutputGPLVM":
        """Train on rows of outputs; Ctrl-C ends training and keeps the current model.

        Args:
            Y: outputs, where NaN is a missing value.
            y: ignored, as in scikit-learn transformers.
            checkpoint: a folder for a checkpoint, from which the same call resumes, as in `mogul.fit`.
            checkpoint_seconds: least time between two checkpoints.
        """
        require_positive(n_components=self.n_components, inference_steps=self.inference_steps)
        model = _with_latent_inputs(self.model)
        self._seed = seed_of(self.random_state)
        saving = Saving(None, None if checkpoint is None else Path(checkpoint), checkpoint_seconds)
        request = self._request(model, num_inputs=self.n_components, saving=saving)
        matrix = self._matrix(Y, reset=True, missing=True)
        names = self._names_in()
        data = named_dataset(None, None, Outputs(matrix, names, None, single=False))
        fitted = request.fit(data)
        assert isinstance(fitted, FittedLatent)
        self._frame, self._single = frame_kind(Y), False
        inference = replace(fitted.inference, steps=self.inference_steps)
        fitted = replace(fitted, inference=inference)
        self._keep(fitted.amortised(self._seed) if self.amortised else fitted)
        return self

    @property
    def relevance_(self) -> Float[Array, "D"]:
        """How much outputs vary with each latent input, relative to the most relevant: see `FittedLatent.relevance`."""
        check_is_fitted(self)
        return self.fitted_.relevance

    def transform(self, Y: Any) -> Float[Array, "N D"]:
        """Latent inputs of rows: the means of q(X), inferred from their observed outputs.

        With `amortised` they are the encoder's; `fitted_.infer` refines them by a search.
        """
        matrix = self._matrix(Y, reset=False, missing=True)
        if self.fitted_.encoder is not None:
            return self.fitted_.encode(matrix).mean.detach().double().numpy()
        parts = self._parts(len(matrix), self._numbers_per_row())
        inferred = [self.fitted_.infer(matrix[rows], seed).mean.detach() for seed, rows in parts]
        return torch.cat(inferred).double().numpy()

    def inverse_transform(self, Z: Any) -> Any:
        """Mean of the outputs at positions in latent space; a frame if Y was one."""
        check_is_fitted(self)
        matrix, names = as_matrix(as_array(Z), "Z")
        require_columns(matrix, self.fitted_.input_names, "Z")
        require_finite_inputs(matrix, names)
        return self._given_back(self._quick.mean(matrix), like=Z)

    def impute(self, Y: Any) -> Any:
        """The same rows with missing values replaced by their predictive means."""
        matrix = self._matrix(Y, reset=False, missing=True)
        parts = self._parts(len(matrix), max(self.num_samples, self._numbers_per_row()))
        filled = [self.fitted_.reconstruct(matrix[rows], self.num_samples, seed).mean for seed, rows in parts]
        values = np.where(np.isnan(matrix), np.concatenate(filled), matrix)
        kind = frame_kind(Y)
        return values if kind is None else as_frame(values, list(Y.columns), kind, like=Y)

    def sample(self, n_samples: int = 1, random_state: Any = 0) -> Any:
        """New rows, noise included: latent inputs from the prior, then outputs; a frame if Y was one."""
        check_is_fitted(self)
        require_positive(n_samples=n_samples)
        seed = seed_of(random_state)
        positions = np.random.default_rng(seed).standard_normal((n_samples, len(self.fitted_.input_names)))
        # One draw of the functions for each row makes rows draws of the mixture.
        return self._given_back(self.fitted_.predict(positions, 1, seed).sample(1, seed + 1)[0])

    def log_density(self, Y: Any) -> Float[Array, "N"]:
        """A lower bound on log p(y) of each row over its observed outputs, in original units."""
        matrix = self._matrix(Y, reset=False, missing=True)
        parts = self._parts(len(matrix), max(self.num_samples, self._numbers_per_row()))
        bounds = [self.fitted_.log_evidence_bound(matrix[rows], self.num_samples, seed) for seed, rows in parts]
        scales = np.log(self.fitted_.scaling.outputs.scale)
        result: Array = np.concatenate(bounds) - (~np.isnan(matrix) * scales).sum(1)
        return result

    def score(self, Y: Any, y: Any = None) -> float:
        """Mean of `log_density`, for hyperparameter searches."""
        return float(self.log_density(Y).mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.fitted_.input_names)

    def _numbers_per_row(self) -> int:
        """Approximate numbers in memory per row and output during inference."""
        return math.ceil(self.fitted_.model.numbers_per_row(1, drawn_inputs=True) / len(self.output_names_))

    def _given_back(self, values: Float[Array, "N P"], like: Any = None) -> Any:
        return values if self._frame is None else as_frame(values, self.output_names_, self._frame, like)


def _with_latent_inputs(model: Any) -> str:
    """The model's name with the suffix `-lvm`."""
    name = f"{model}-lvm" if isinstance(model, str) and not model.endswith("-lvm") else model
    Name.parse(name)  # raises if there is no such model
    return str(name)
