"""Many outputs from inputs, as a scikit-learn regressor."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any, get_args

from sklearn.utils.validation import check_is_fitted

from mogul.config import Precision, TrainingConfig
from mogul.data import Dataset
from mogul.data.sources.containers import Outputs, as_array, copies, named_dataset
from mogul.data.splits import group_numbers
from mogul.errors import ConfigError, unknown_name
from mogul.estimators.base import BUILDING, TRAINING, seed_of
from mogul.estimators.predictions import Container, PredictsOutputs
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import Choice
from mogul.models.families import is_latent
from mogul.models.model import Model
from mogul.models.parts import Parts
from mogul.nonlinearities import Nonlinearity
from mogul.objective import ObjectiveName
from mogul.registry import model_name
from mogul.training.more import train_more
from mogul.training.rows import Rows
from mogul.training.task import MeanChoice
from mogul.training.validation import is_pair, share_of

if TYPE_CHECKING:
    import mogul.estimators.botorch


class MultiOutputGPRegressor(PredictsOutputs):
    """Multi-output GP regression with uncertainty, for scikit-learn's pipelines and searches.

    Arguments that are None are chosen by the preset, for the number of rows and outputs: `mogul.fit` gives the same
    model for the same arguments. Outputs may miss values (NaN).

    Up to 2,500 rows each output has an exact GP on top of a plane, with hyperparameters of the largest evidence, and
    the default is a mogp with a latent GP for each output, in closed form. Other models start there and are trained on
    by 300 steps of Adam, or 60 where their mixing is a net. With more rows, and with a kernel of one's own, starts are
    random and training is by minibatches. What is about steps (epochs, batch_size, learning_rate, num_starts, num_kept)
    changes nothing where none are taken, and a warning says so.

    Args:
        model: one of `mogul.models.names()` with observed inputs, or several, "mogp+n-sbgprn", for the mixture of what
            they say. "auto" tries mogp, gprn, sbgprn and n-sbgprn and keeps the one under which held-out rows are
            likeliest. None is mogp up to 2,500 rows; beyond, it is n-sbgprn, or with groups mogp+gprn+n-sbgprn. The
            default never uses gprn beyond 20 outputs, nor a mixture with noise="auto".
        preset: "default", or "paper" for the paper's choices: its protocol, constant noise, its sizes and means; None
            is the default.
        config: a whole `TrainingConfig` in place of a preset.
        epochs: passes over the data.
        batch_size: rows per step.
        learning_rate: Adam's, where it is largest; by default 0.02, and 0.01 with groups; up to 2,500 rows 0.005,
            and 0.003 for a net's mixing.
        num_starts: random starts, of which the best is trained to the end; an exact start is one.
        num_kept: so many of the best starts are trained to the end, and predictions are those of their mixture.
        objective: what training maximises: "elbo", a bound on the evidence (the default); "balanced" for smaller errors
            at some cost in density, with gp and net noise; "predictive" for the density of predictions, with learnt
            sites in deep models.
        precision: "float32" or "float64".
        mean: "linear" (the default), "paper", "zero" or "constant", as `mogul.fit` takes it.
        num_latents: the number L of GPs; P for up to 24 outputs (up to 4 with more than 2,500 rows), else
            max(4, ⌈P/2⌉); ⌈P/2⌉ in the paper's preset.
        num_hidden: the number H of hidden units.
        num_inducing: the number M of inducing points, 200 for models of one layer with more than 2,500 rows; from an
            exact start the most there may be, 600 by default.
        nonlinearity: of the hidden units: a name, or any `Nonlinearity`.
        noise: "constant" (the default of the paper's preset), "net", "gp" (its size depends on x), "student-t",
            "gp-student-t" or "low-rank", as `mogul.models.build` has it. "residuals" (the default) is what residuals
            of rows left out of exact GPs ask for: constant, student-t, gp or gp-student-t, correlated across outputs
            where residuals are; with more than 2,500 rows gp or gp-student-t. "auto" tries gp, constant and student-t
            on held-out rows, as the model's "auto" tries models.
        options: further options of `mogul.models.build`, by name.
        calibrate: share of the rows, or of the groups where there are any, that are set aside at random to calibrate by
            after training: 0.2, say. The spread of predictions is made to fit them, and there is `predict_interval`.
        num_samples: draws of the predictive mixture, for quantiles, covariances and the densities of deep models.
        random_state: of everything random but a training by `config`, which has a seed of its own; a number gives the
            same result each time.

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
    _building = (*BUILDING, "noise")
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
        num_latents: int | None = None,
        num_hidden: int | None = None,
        num_inducing: int | None = None,
        nonlinearity: str | Nonlinearity | None = None,
        noise: str | None = None,
        options: dict[str, Any] | None = None,
        calibrate: float | None = None,
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
        self.num_kept = num_kept
        self.objective = objective
        self.precision = precision
        self.mean = mean
        self.num_latents = num_latents
        self.num_hidden = num_hidden
        self.num_inducing = num_inducing
        self.nonlinearity = nonlinearity
        self.noise = noise
        self.options = options
        self.calibrate = calibrate
        self.num_samples = num_samples
        self.random_state = random_state

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
        """Train on rows of inputs X (N, D) and outputs y (N, P) or (N,); Ctrl-C ends that, and keeps what was learnt.

        Args:
            X: finite inputs: array, tensor or frame.
            y: outputs, where NaN is a missing value.
            sample_weight: how often each row counts, in whole numbers.
            validation: rows whose likelihood says when to stop, and what "auto" chooses: a pair (X, Y) of one's own, or
                a share to hold out at random, a fifth where `groups` or "auto" needs one; else the ELBO is watched.
                What `groups` or "auto" holds out is trained on in the end.
            groups: a label for each row. Whole groups are held out then, drawn at random: rows of a trajectory, a
                patient or a day tell of each other, and what counts is often how a model does on new ones. They say
                how long to train, and what "auto" chooses; then the model is trained again, on all groups.
            checkpoint: a folder from which the same call goes on where this one was killed, as in `mogul.fit`.
            checkpoint_seconds: how long to wait between writings there.
        """
        saving = {"checkpoint": checkpoint, "checkpoint_seconds": checkpoint_seconds}
        return self._fit(X, y, sample_weight, validation, groups, **saving)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        validation: Any = None,
        groups: Any = None,
        epochs: Any = None,
        **saving: Any,
    ) -> "MultiOutputGPRegressor":
        model = model_name(self.model)
        if model is not None and is_latent(model):
            raise ConfigError(f"model must have observed inputs; {model} has latent ones. Use MultiOutputGPLVM.")
        self._seed = seed_of(self.random_state)
        request = self._request(
            model,
            mean=self.mean,
            settings={} if epochs is None else {"epochs": epochs},
            validation=share_of(validation),
            calibrate=share_of(self.calibrate, "calibrate", otherwise=""),
            **saving,
        )
        matrix = self._matrix(X, reset=True)
        outputs = Outputs.of(y, type(self).__name__)
        data = named_dataset(matrix, self._names_in(), outputs)
        if is_pair(validation):
            request = replace(request, validation=self._own_rows(*validation))
        numbers = None if groups is None else group_numbers(as_array(groups), data.num_rows)
        fitted = request.fitted(Rows.of(data, copies(sample_weight, data.num_rows), numbers))
        self._frame, self._single = outputs.frame, outputs.single
        self._keep(fitted)
        return self

    def _own_rows(self, X: Any, y: Any) -> Dataset:
        matrix = self._checked_matrix(X, reset=False)
        return named_dataset(matrix, self._names_in(), Outputs.of(y, type(self).__name__))

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

    def to_botorch(self) -> "mogul.estimators.botorch.Surrogate":
        """A BoTorch model for acquisition functions, in the units of training: a frozen copy of what is fitted now.

        Its spread is the model's own, without what `calibrate` made of it. There is none of a mixture (`num_kept`).
        """
        check_is_fitted(self)
        if find_spec("botorch") is None:
            raise ConfigError(
                'to_botorch needs the package botorch; it is not installed. Run pip install "mogul[botorch]".'
            )
        from mogul.estimators.botorch import Surrogate

        return Surrogate.of(self.fitted_, seed=self._seed)

    def set_output(self, *, transform: Container | None = None) -> "MultiOutputGPRegressor":
        """Choose the container of predictions: "pandas", "polars", or "default", a frame where y was one."""
        if transform is not None:
            if transform not in get_args(Container):
                raise unknown_name("transform", transform, get_args(Container))
            self._sklearn_output_config = {"transform": transform}  # by this name, clone keeps it
        return self

    def _keep(self, fitted: Fitted) -> None:
        super()._keep(fitted)
        self.choice_ = fitted.choice

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
