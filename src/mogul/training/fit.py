"""From data to a fitted model: `fit`, which users call, and the request that every caller goes through."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from mogul._typing import IntArray
from mogul.config import Stopping, TrainingConfig
from mogul.core.check import HELD_OUT, SHORTER
from mogul.core.transforms import TransformChoice
from mogul.data import Dataset
from mogul.data.advice import row_advice
from mogul.data.encodings.encoding import MissingInputs, require_missing_inputs
from mogul.data.sources.containers import as_array
from mogul.data.sources.given import given_data, validation_rows
from mogul.data.sources.reading import Reading
from mogul.data.sources.row_files import RowFiles, names_files, stays_on_disk, whole_frame
from mogul.data.sources.table import memory_limit
from mogul.data.splits import group_numbers
from mogul.data.stored import SAMPLE_ROWS, Sample
from mogul.errors import ConfigError, MogulError, MogulWarning, require_positive, warn
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import EpochRecord, TrainedRows
from mogul.fitted.mixture import FittedMixture
from mogul.means.regressor import RegressorMean
from mogul.models.families import AUTO, is_latent, members
from mogul.models.model import Model
from mogul.models.parts import Parts
from mogul.objective import ObjectiveName
from mogul.registry import model_name
from mogul.terminal import Bar
from mogul.training.check import checked_by, spare_rows, with_check
from mogul.training.choice import Candidates, train_candidates
from mogul.training.defaults import (
    FEW_ROWS,
    MeanChoice,
    default_mean,
    default_model,
    is_the_papers,
    options_from_exact_gps,
    preset,
    with_defaults,
)
from mogul.training.kernel_choice import has_exact_gps, is_named
from mogul.training.loop import Run
from mogul.training.on_disk import named_files, on_disk
from mogul.training.restarts import Restarts
from mogul.training.split import (
    Rows,
    held_out_share,
    is_pair,
    share_of,
    split_rows,
    warn_of_order,
    with_validation,
)
from mogul.training.starts import Autoregressive, Place, Saving, Task
from mogul.training.team import ALONE, Team, device_by_name

# Settings of `TrainingConfig` that users may give one by one, beside a preset or a config.
SETTINGS = ("epochs", "batch_size", "epoch_steps", "learning_rate", "num_starts", "num_kept", "objective", "precision")

# Those that only gradient steps use: exact GPs have neither steps nor restarts.
_OF_STEPS = ("epochs", "batch_size", "learning_rate", "num_starts", "num_kept")

# Rows of a quick fit.
_QUICK_ROWS = 200

ConfigChoice = TrainingConfig | Callable[[str], TrainingConfig] | None


def fit(
    X: Any,
    Y: Any = None,
    *,
    model: str | Callable[[Parts], Model] | None = None,
    targets: str | Sequence[str] | None = None,
    inputs: str | Sequence[str] | None = None,
    long: tuple[str, str] | None = None,
    categories: Sequence[str] = (),
    missing: Sequence[float | str] = (),
    missing_inputs: MissingInputs | None = None,
    groups: Any = None,
    validation: float | Dataset | tuple[Any, Any] | None = None,
    calibrate: float | None = None,
    config: ConfigChoice = None,
    preset: str | None = None,
    seed: int = 0,
    mean: MeanChoice | None = None,
    transform: TransformChoice = None,
    autoregressive: bool | None = None,
    num_inputs: int | None = None,
    on_epoch: Callable[[EpochRecord, Model], None] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    held_out: Int[IntArray, "W"] | None = None,
    retrain: bool | None = None,
    max_memory: float | None = None,
    check: bool = True,
    verbose: int = 1,
    quick: bool = False,
    stream: bool | None = None,
    scratch: str | PathLike[str] | None = None,
    device: str = "cpu",
    team: Team = ALONE,
    **options: Any,
) -> Fitted:
    """Fit a model to data, standardised once.

    `MultiOutputGPRegressor` and `mogul fit` give the same model for the same data and arguments.

    Up to 2,500 rows, training starts from exact GPs, one for each output, with hyperparameters of the largest evidence
    found. For the default, a mogp with one latent GP for each of up to 24 outputs, it ends there. With more rows, or
    with a GPyTorch kernel, starts are random and training uses minibatches: see `mogul.training.defaults.preset`.

    Args:
        X: inputs (N, D) in their own units: an array, a tensor or a DataFrame of pandas or polars, with Y beside it;
            a DataFrame, the path of a table (`mogul.data.sources.formats.READERS`), or an xarray Dataset or DataArray,
            whose outputs `targets` names; several tables with the same columns, by a pattern such as "rows/*.parquet",
            a folder or a list of paths; a `mogul.Dataset`, which has both; None for a model with latent inputs.
        Y: outputs (N, P), or (N,) for one, where NaN is a missing value.
        model: one of `mogul.models.names()`; those that end in `-lvm` ignore any inputs of the data. Several names,
            "mogp+n-sbgprn", make a mixture: each is trained, and predictions are the mixture of theirs. "auto" trains
            each of `mogul.training.defaults.MODELS` (gprn up to 20 outputs) and keeps the one with the largest
            likelihood of validation rows, a fifth of all rows by default: see `Fitted.choice`. None is the default for
            the numbers of rows and outputs, and for groups: see `mogul.training.defaults.default_model`. A function of
            parts is your own model: see docs/howto/add_a_model.md.
        targets: columns of X to predict.
        inputs: columns of X to predict from; by default all that are neither targets nor groups. Columns of a frame or
            a file may be numbers, truth values, text, categories, dates or times: see `mogul.data.encodings`. The
            encoding is part of what is fitted, and `predict` takes frames with the same columns.
        long: ("task", "value"), for a table with a row for each value: the column that names its output and the column
            that holds it. Values with the same inputs become a row. `targets` may then be left out.
        categories: columns whose numbers are names of kinds, not amounts.
        missing: numbers and words of a table that stand for a gap, [-200, "n/a"]. By default numbers in many rows that
            are farther from all others than these are from each other, and a warning names them; ["none"] for none.
        missing_inputs: for gaps in inputs, "mean" puts the mean of the column there, and a further column marks them,
            which is the default for frames and files; "drop" drops their rows; "refuse" raises an error, which is the
            default for arrays.
        groups: a label for each row, or the column of X that holds them. Validation rows are then whole groups, drawn
            at random. They decide how long to train and what "auto" chooses; then the model is trained on all groups.
            Without groups, a warning says where rows held out at random seem to follow each other in time.
        validation: validation rows, whose likelihood decides when to stop and what "auto" chooses: your own as a
            `Dataset` or a pair (X, Y), or a share to hold out at random, a fifth where `groups` or "auto" needs one.
            Without validation rows, early stopping uses the ELBO.
        calibrate: share of the rows, or of the groups, that is set aside at random and not trained on, 0.2 for example.
            Predictive spreads are calibrated on these rows, and `Fitted.interval` is available.
        config: how to train, or a function that gives it for each model by name; model, noise, sizes and mean are not
            part of it.
        preset: a named way to train instead: "default"; "paper" for the paper's choices: its protocol, constant noise,
            its sizes and means; or "paper-fast", which has the paper's models and objective, and reaches its optimum
            by closed-form expectations, better starts and fewer steps.
        seed: of everything random; a config has its own seed for training.
        mean: "linear" adds a linear mean with random coefficients to each output and models its residual; the
            uncertainty of the coefficients is part of every variance. "auto" puts a forest under it for those outputs
            that it helps to predict at rows it was not fitted to, or mixes models with and without it; it is the
            default where neither model, config nor groups are given, and "linear" where they are. "trees"
            (ExtraTrees), "boosting" (HistGradientBoosting) or your own scikit-learn regressor is a mean that is
            cross-fitted: the GPs are trained on residuals of rows that it was not fitted to, and predictions add its
            fit to all rows. "paper" has no mean under the outputs, and the latent GPs have the paper's means (the
            default of the paper's preset and of latent inputs); "zero" and "constant" choose the latent GPs' means.
        transform: what is modelled in place of an output y: "log" log y, for positive outputs; "yeo-johnson" a power
            of y by maximum likelihood, for skewed outputs and counts of any sign; "auto" the one of these, or y itself,
            under which residuals are nearest to Normal. One for all outputs, a dict by their names, or a list.
            Predictions and densities are in units of y: see `mogul.prediction.Warped`.
        autoregressive: whether each output is modelled less a linear function of the outputs before it, as in GPAR:
            outputs that are observed more often come first. What is known of some outputs then predicts the others
            (`given=` of predict). By default the log evidence decides, and only for outputs that are missing in some
            rows where others are known, where neither model, config nor groups are given, up to 2,500 rows; True takes
            all outputs. See docs/howto/known_outputs.md.
        num_inputs: the number of latent inputs of an `-lvm` model; 4 by default.
        on_epoch: called after each epoch with its record and the model, which it must not change; epochs that are
            rolled back come again. With a regressor as the mean, the model is that of its residuals.
        checkpoint: a folder for a checkpoint. If training is killed, the same call resumes from it: on the same
            machine, to the same model, bit for bit. It is kept at the end, and the same call then trains nothing.
        checkpoint_seconds: the least time between two checkpoints, which are written at ends of epochs.
        held_out: places of validation rows, in place of `groups` and `validation`.
        retrain: whether validation rows are trained on in the end: the model is then trained again on all rows, with
            the number of epochs, the learning rates and the choice that validation gave. By default it is for `groups`
            and for rows that "auto" drew, and it is not for rows that were given.
        max_memory: the memory that the table of a file may take, in GiB; by default an eighth of the machine's, at
            most 8. A file that claims more is refused before it is read.
        check: whether to score each output at rows that were not trained on, beside least squares and the mean:
            `Fitted.check`, and `print(fitted)` shows it. Exact GPs predict each row from the others, at little cost.
            With more than 2,500 rows, validation rows are scored, or 2 % of the rows (200 to 500) that are not trained
            on, which mean="auto" has in any case. Otherwise a second fit is scored, without a fifth of the rows and in
            a third of the epochs.
        verbose: 0 says nothing; 1 shows on a terminal or in a notebook what is being done and how many are left; 2 also
            writes lines where standard error is a file or a pipe.
        quick: a first answer in seconds, marked as such: exact GPs with constant noise of 200 rows drawn at random, and
            a check by others.
        stream: whether the rows of files stay on disk, in memory that does not grow with their number: by default where
            several files would take more than `max_memory`. Columns must then be numbers. See docs/howto/big_data.md.
        scratch: a folder for the scaled copy of rows that stay on disk, which a later call with the same files uses
            again; by default one that is removed at the end.
        device: where gradient steps are taken: "cpu", "cuda", "cuda:1", "mps", or "auto" for what is there. The fitted
            model is on the processor.
        team: the workers that train together, `Team.of_environment()` in a script that torchrun starts.
        options: any of epochs, batch_size, learning_rate, num_starts, num_kept, objective and precision, in place of
            the preset's or the config's; and noise, sizes and nonlinearity, as `mogul.models.build` takes them, if the
            model has a use for them. Defaults are those of `mogul.training.defaults.with_defaults`, or the paper's with
            preset="paper". noise="residuals", the default, lets leave-one-out residuals choose among constant,
            student-t, gp and gp-student-t, correlated across outputs where training ends at exact GPs and residuals
            are (`Fitted.noise_factors`). noise="auto" chooses among `mogul.training.defaults.NOISES` as model="auto"
            does among models; with both, first the model with GP noise, then the noise. Each candidate gets the options
            that it has a use for. `kernel` is a name, names with + and * between them, a GPyTorch kernel, or "auto",
            which chooses by the evidence of exact GPs: see docs/howto/kernels.md.

    Ctrl-C ends training, with a warning, and gives the best start as it was after its last whole epoch. Training that
    diverges is rolled back to smaller steps and more jitter, up to three times.

    Raises:
        FitError: no start could be trained.

    Example:
        >>> fitted = fit([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> fitted.predict([[0.5]]).mean.shape
        (1, 1)
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"time": [0.0, 1.0, 2.0], "left": [0.0, 1.0, 2.0], "right": [1.0, 0.0, 2.0]})
        >>> fit(frame, targets=["left", "right"]).output_names
        ['left', 'right']
    """
    name = model_name(model)
    latent = name is not None and is_latent(name)
    policy = None if missing_inputs is None else require_missing_inputs(missing_inputs)
    reading = Reading(categories, [str(value) for value in missing], policy, long)
    files: RowFiles | None = None
    data: Dataset | None = None
    with memory_limit(max_memory):
        if stays_on_disk(X, stream):
            files, labels = named_files(X, Y, targets, inputs, groups, latent=latent, reading=reading), None
        else:
            X = whole_frame(X) if names_files(X) else X
            data, labels = given_data(X, Y, targets, inputs, groups, latent=latent, reading=reading)
    if is_pair(validation):
        own_x, own_y = validation  # type: ignore[misc]  # it is a pair
        if data is None:
            raise ConfigError(
                "validation must be a share of rows that stay on disk; got rows in memory. Give a share such as 0.1, "
                "or groups."
            )
        validation = validation_rows(own_x, own_y, data, latent=latent)
    given = {setting: options.pop(setting) for setting in SETTINGS if setting in options}
    request = FitRequest(
        model=name,
        config=config,
        preset=preset,
        seed=seed,
        mean=mean,
        transform=transform,
        autoregressive=autoregressive,
        options=options,
        settings={setting: value for setting, value in given.items() if value is not None},
        groups=None if labels is None or data is None else group_numbers(as_array(labels), data.num_rows),
        validation=validation if isinstance(validation, Dataset) else share_of(validation),
        calibrate=share_of(calibrate, "calibrate", otherwise=""),
        held_out=held_out,
        retrain=retrain,
        check=check,
        quick=quick,
        num_inputs=num_inputs,
        saving=Saving(
            on_epoch,
            None if checkpoint is None else Path(checkpoint),
            checkpoint_seconds,
            Bar(verbose if team.is_first else 0),
        ),
        place=Place(device_by_name(device), team),
    )
    if files is not None:
        return request.fit_files(files, None if scratch is None else Path(scratch))
    assert data is not None
    return request.fit(data)


@dataclass(frozen=True)
class FitRequest:
    """What `mogul.fit`, the estimators, the command line and the laboratory ask for; None is chosen for the data.

    Args:
        model: a name, several with + between them, or "auto".
        config: how to train, in place of a preset.
        preset: a named way to train.
        as_in_paper: whether noise, sizes and mean are the paper's where they are not given, as with preset="paper".
        seed: of everything random but training by a config, which has its own.
        mean: as `mogul.fit` takes it.
        transform: as `mogul.fit` takes it.
        autoregressive: as `mogul.fit` takes it.
        options: options of `mogul.models.build`.
        settings: some of `SETTINGS`, in place of the preset's or the config's.
        groups: the number of each row's group.
        validation: a share of the rows or groups to validate on, or the user's own rows.
        calibrate: a share of the rows or groups to calibrate by.
        held_out: places of validation rows.
        retrain: whether validation rows are trained on in the end; by default those of groups, and those that "auto"
            drew.
        check: whether to score rows that were not trained on.
        quick: whether a first answer by a few rows is enough.
        num_inputs: the number of latent inputs.
        saving: what happens after an epoch: a callback, checkpoints.
        place: the device, and the workers that train together.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> FitRequest(seed=2).fit(data).model_name
        'mogp'
    """

    model: str | None = None
    config: ConfigChoice = None
    preset: str | None = None
    as_in_paper: bool = False
    seed: int = 0
    mean: MeanChoice | None = None
    transform: TransformChoice = None
    autoregressive: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    groups: Int[IntArray, "N"] | None = None
    validation: float | Dataset | None = None
    calibrate: float | None = None
    held_out: Int[IntArray, "W"] | None = None
    retrain: bool | None = None
    check: bool = False
    quick: bool = False
    num_inputs: int | None = None
    saving: Saving = field(default_factory=Saving)
    place: Place = field(default_factory=Place)

    def __post_init__(self) -> None:
        if self.config is not None and self.preset is not None:
            raise ConfigError(
                f"Give config or preset, not both; got preset {self.preset!r} beside a config. Drop one of them."
            )
        if not (self.config is None or isinstance(self.config, TrainingConfig) or callable(self.config)):
            raise ConfigError(f"config must be a mogul.TrainingConfig; got {self.config!r}. Leave it out.")

    def fit_files(self, files: RowFiles, scratch: Path | None = None, sample_rows: int = SAMPLE_ROWS) -> Fitted:
        """The model of rows that stay on disk, but for a sample: see `mogul.training.on_disk`."""
        with on_disk(self, files, scratch, sample_rows) as (request, data):
            return request.fit(data)

    def fit(self, data: Dataset, chosen: Int[IntArray, "K"] | None = None) -> Fitted:
        """The model, trained on the chosen rows, with repetitions, and calibrated by the rows set aside for that.

        Data → split → starts → loop → fitted: this method chooses what was not given and splits off validation rows;
        `train_candidates` trains one model or several; `Task.fitted` takes one from its starts to what is fitted.
        """
        if self.quick:
            return self._quick_fit(data, chosen)
        self._require_one_way_to_hold_out()
        everything = Rows.of(data, chosen, self.groups)
        for finding in row_advice(everything.once_each()):
            warn(finding.message)
        rows, aside = self._set_aside(everything)
        model = self._model_for(rows)
        paper = "paper" if self.as_in_paper else self.preset
        options = with_defaults(self.options, model, paper, rows.data.num_outputs, rows.data.population)
        few, on_disk = rows.data.population <= FEW_ROWS, isinstance(rows.data, Sample)
        choose = self.model is None and self.config is None and not (on_disk or self._grouped or is_the_papers(paper))
        if choose and few:
            options.setdefault("kernel", AUTO)
        chain: Autoregressive = "auto" if choose and few and self.autoregressive is None else bool(self.autoregressive)
        # Without exact GPs the choice of a mean costs some rows, of which few have none to spare.
        choose = choose and (not few or has_exact_gps(options.get("kernel")))
        candidates = Candidates.of(model, options, rows.data.num_outputs, self.num_inputs)
        share = held_out_share(self.config_for(candidates.models[0], rows).stopping, choosing=candidates.choosing)
        known, places = self._validation_rows(rows, share)
        given = places is not None
        drawn = self.held_out is None and not isinstance(self.validation, Dataset)
        if rows.groups is None and not on_disk and ((drawn and given) or (aside is not None and not (drawn and share))):
            warn_of_order(everything.once_each())  # in all other cases `Task.advise` does

        def task_of(name: str) -> Task:
            config = candidates.validated(self.config_for(name, rows), known.num_rows, given=given)
            mean = default_mean(name, paper, choose=choose) if self.mean is None else self.mean
            units = rows.units(known.num_rows)
            asked = known, name, config, mean, self.num_inputs, options, places, self.saving, units
            task = Task.of(*asked, self.transform, chain)
            rival = self._rival(rows) if choose and mean in ("linear", AUTO) else None
            return replace(task, checked=self.check and aside is None, rival=rival, place=self.place)

        retrain = self._grouped or (candidates.choosing and drawn) if self.retrain is None else self.retrain
        retrain = retrain and not on_disk
        with self.saving.bar:
            fitted = train_candidates(candidates, task_of, retrain=retrain)
            if self.check and aside is None and fitted.unseen is None:
                fitted = self._checked_again(fitted, known, rows.units(known.num_rows))
        if model != AUTO and fitted.is_solved:
            self._warn_of_unused(fitted.model_name, rows)
        if aside is None:
            return with_check(fitted, known, rows.units(known.num_rows), self.seed) if fitted.unseen else fitted
        if self.check and not fitted.is_latent:
            fitted = checked_by(fitted, rows.data, aside.data, self.seed)
        return fitted.calibrated(aside.data, aside.places if aside.groups is None else aside.groups, self.seed)

    def _rival(self, rows: Rows) -> dict[str, Any] | None:
        """Options of the mogp that is tried with many rows, unless the training was described."""
        described = any(self.settings.get(name) is not None for name in _OF_STEPS) or self.objective != "elbo"
        return None if described else options_from_exact_gps(self.options, rows.data.num_rows, rows.data.num_outputs)

    def _quick_fit(self, data: Dataset, chosen: Int[IntArray, "K"] | None) -> Fitted:
        """Exact GPs with constant noise of some rows, drawn at random; others are for the check."""
        given: dict[str, Any] = {"model": self.model, "config": self.config, "groups": self.groups}
        given |= {"calibrate": self.calibrate, "validation": self.validation, "held_out": self.held_out}
        for name in (name for name, value in given.items() if value is not None):
            raise ConfigError(f"quick has its own model and rows; got {name} too. Leave one of them out.")
        rows = Rows.of(data, chosen, None)
        order = np.random.default_rng(self.seed).permutation(rows.data.num_rows)
        some, left = rows.at(np.sort(order[:_QUICK_ROWS])), np.sort(order[_QUICK_ROWS:])
        others = rows.at(left).data if len(left) else None
        by_others = self.check and others is not None and not np.isnan(others.y).all()
        options = {"noise": "constant", **self.options}
        mean = "linear" if self.mean is None else self.mean
        request = replace(
            self, quick=False, model="mogp", mean=mean, options=options, check=self.check and not by_others
        )
        fitted = request.fit(some.data)
        if by_others and others is not None:
            fitted = checked_by(fitted, some.data, others, self.seed, HELD_OUT)
        return replace(fitted, history=replace(fitted.history, quick=True))

    def _checked_again(self, fitted: Fitted, data: Dataset, units: Int[IntArray, "N"]) -> Fitted:
        """The model with a check of a second fit, where exact GPs predict no row from the others in its place.

        The second fit has what the first one chose. It is without a fifth of the rows and in a third of the epochs.
        """
        rest, held_out = spare_rows(data, units, self.seed)
        if held_out is None or fitted.is_latent or fitted.history.interrupted:
            return fitted
        self.saving.bar.stage("check, by a second fit")
        config = self.config_for(members(fitted.model_name)[0], Rows.of(rest, None, None))
        options = {**self.options, "noise": fitted.noise_name}
        if fitted.kernel_name is not None:
            options["kernel"] = fitted.kernel_name
        again = FitRequest(
            model=fitted.model_name,
            config=replace(config, rates=None, num_starts=1, num_kept=1).within(max(1, config.epochs // 3)),
            as_in_paper=self.as_in_paper or self.preset == "paper",
            seed=self.seed,
            mean=self.mean or ("auto" if fitted.regressed_outputs else None),
            transform=self.transform,
            autoregressive=bool(fitted.autoregressive_outputs),
            options=options,
            saving=Saving(bar=self.saving.bar),
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MogulWarning)  # of these data, which were told
                second = checked_by(again.fit(rest), rest, held_out, self.seed, SHORTER)
        except (KeyboardInterrupt, MogulError):
            warn("The fit that checks this model ended early. The model itself is complete, without a check.")
            return fitted
        return replace(fitted, check=second.check)

    def _warn_of_unused(self, model: str, rows: Rows) -> None:
        """Name the settings of gradient steps that were given where exact GPs left none to take."""
        unused = self._unused(members(model)[0], rows)
        if unused:
            listed = ", ".join(f"{name}={value!r}" for name, value in unused.items())
            warn(
                f"Settings of training by steps have no effect on {model}, which exact GPs solve here; got {listed}. "
                "Leave them out, or train by steps: preset='paper', or config=TrainingConfig(start='random')."
            )

    def _unused(self, model: str, rows: Rows) -> dict[str, Any]:
        """Settings of gradient steps that were given and differ from the default's."""
        usual = preset("default", model, self.seed, rows.data.population, grouped=self._grouped)
        given = {name: self.settings[name] for name in _OF_STEPS if name in self.settings}
        config = self.config(model) if callable(self.config) else self.config
        if config is not None and not config.epochs:  # no steps were asked for
            return {}
        if config is not None:
            own = {name: getattr(config, name) for name in _OF_STEPS}
            given = {name: value for name, value in own.items() if value != getattr(TrainingConfig, name)} | given
        if is_latent(model):  # the collapsed bound has starts
            given.pop("num_starts", None)
        return {name: value for name, value in given.items() if value != getattr(usual, name)}

    def on(self, rows: Int[IntArray, "K"]) -> "FitRequest":
        """The same request for some of the rows."""
        return self if self.groups is None else replace(self, groups=self.groups[rows])

    def model_for(self, data: Dataset) -> str:
        """The model named, or the default for these data."""
        return self._model_for(self._set_aside(Rows.of(data, None, self.groups))[0])

    def require_enough(self, data: Dataset) -> None:
        """Check that there are enough rows, or groups, to calibrate, to validate and to train."""
        rows, _ = self._set_aside(Rows.of(data, None, self.groups))
        rows.validation_rows(None, self.seed)

    @property
    def objective(self) -> ObjectiveName:
        """The training objective asked for."""
        objective: ObjectiveName = self.settings.get("objective", "elbo")
        return objective

    def config_for(self, model: str, rows: Rows) -> TrainingConfig:
        """The config or the preset for a model, with the settings that were given one by one."""
        given, own_kernel = dict(self.settings), not is_named(self.options.get("kernel"))
        if callable(self.config):
            config = self.config(model)
        else:
            config = self.config or preset(
                self.preset or "default",
                model,
                self.seed,
                rows.data.population,
                grouped=self._grouped,
                own_kernel=own_kernel,
            )
        if "epochs" in given:
            require_positive(epochs=given["epochs"])
            config = config.within(given.pop("epochs"))
        if "num_kept" in given:
            require_positive(num_kept=given["num_kept"])
            given.setdefault("num_starts", max(config.num_starts, given["num_kept"]))
        if isinstance(self.validation, float) and self.groups is None:
            given["stopping"] = replace(config.stopping or Stopping(), held_out=self.validation)
        return replace(config, **given)

    def _set_aside(self, rows: Rows) -> tuple[Rows, Rows | None]:
        """Rows to train and validate on, and calibration rows."""
        return (rows, None) if self.calibrate is None else rows.set_aside(self.calibrate, self.seed)

    def _model_for(self, rows: Rows) -> str:
        sizes = rows.data.population, rows.data.num_outputs
        return self.model or default_model(*sizes, grouped=self._grouped, noise=self.options.get("noise"))

    @property
    def _grouped(self) -> bool:
        """Whether new rows belong to new groups; given validation rows that are trained on in the end say so, too."""
        return self.groups is not None or (self.held_out is not None and bool(self.retrain))

    def _validation_rows(self, rows: Rows, share: float | None) -> tuple[Dataset, Int[IntArray, "W"] | None]:
        """All rows, and places of validation rows; None where the config draws them, or has none."""
        if isinstance(self.validation, Dataset):
            return with_validation(rows.data, self.validation)
        if self.held_out is not None:
            return rows.data, self.held_out
        if isinstance(rows.data, Sample):
            return rows.data, rows.data.held_out if share or rows.data.everything.hold_out.groups else None
        return rows.data, rows.validation_rows(self.validation or share, self.seed)

    def _require_one_way_to_hold_out(self) -> None:
        given = {
            "groups": self.groups is not None,
            "validation": self.validation is not None,
            "calibrate": self.calibrate is not None,
        }
        if isinstance(self.validation, Dataset) and self.groups is not None:
            raise ConfigError("Give rows to validate on, or groups to take them from; got both. Leave one of them out.")
        for name in (name for name, is_given in given.items() if is_given):
            if self.held_out is not None:
                raise ConfigError(
                    f"held_out says which rows are held out, and {name} draws some; got both. Leave one of them out."
                )
            if self.model is not None and is_latent(self.model):
                raise ConfigError(
                    f"{name} needs a model with observed inputs, of which rows can be held out; got {self.model}. "
                    "Leave it out."
                )


def train_more(fitted: Fitted, data: Dataset, epochs: int | None = None, seed: int = 0) -> Fitted:
    """Continue training with the scaling of the first training; the model given is left unchanged.

    Only these rows are learnt from: include old rows to keep what they taught.

    Args:
        fitted: where to start.
        data: rows with the same columns.
        epochs: the number of further epochs; by default that of the first training.
        seed: of everything random.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> fitted = fit(data, model="mogp", config=TrainingConfig(epochs=2, num_starts=1))
        >>> len(train_more(fitted, data, epochs=3).history.elbo)
        5
    """
    if any(isinstance(member.model.mean, RegressorMean) for member in fitted.single_models):
        raise ConfigError(
            "More training needs residuals of rows that the mean was not fitted to; this model's mean is a regressor, "
            "which may know these rows. Fit it anew with all rows, or with mean='linear'."
        )
    fitted.require_unchained("More training")
    if fitted.num_members > 1:
        more: list[Fitted] = []
        for place, member in enumerate(fitted.single_models):
            interrupted = bool(more) and more[-1].history.interrupted  # Ctrl-C ends all of it
            more.append(member if interrupted else train_more(member, data, epochs, seed + place))
        return replace(FittedMixture.of(more), choice=fitted.choice)
    blueprint = fitted.blueprint
    config = blueprint.config if blueprint else None
    if blueprint is None or config is None or fitted.is_latent:
        raise ConfigError(
            "More training needs a model with observed inputs that fit made; this one is not. Fit it anew."
        )
    # Rates that were replayed, one for each epoch, are of that training alone.
    config = replace(
        config,
        epochs=config.epochs if epochs is None else epochs,
        rates=None,
        anneal_epochs=0,
        num_starts=1,
        num_kept=1,
    )
    generator = torch.Generator().manual_seed(seed)
    batch = fitted.scaling.batch(data.in_order(fitted.input_names, fitted.output_names), config.dtype)
    if config.stopping and fitted.choice is not None:  # rows were held out to choose by, and that is done
        config = replace(config, stopping=replace(config.stopping, held_out=0.0))
    # By the seed of the first training: the same rows, given again, have the same validation rows.
    kept, places = (torch.as_tensor(rows) for rows in split_rows(len(batch), config.stopping, None, config.seed))
    known, validation = (batch.rows(kept), batch.rows(places)) if len(places) else (batch, None)
    history = fitted.history
    restarts = Restarts([Run(deepcopy(fitted.model), known, config, generator, held_out=validation)])
    (run,) = restarts.train(blueprint.model)
    done = len(history.elbo)
    records = [replace(record, epoch=done + record.epoch, start=history.chosen_start) for record in run.records]
    return replace(
        fitted,
        model=run.model,
        calibration=None,  # of another model
        check=None,
        trained_rows=TrainedRows.of(data.in_order(fitted.input_names, fitted.output_names)),
        history=replace(restarts.history(run), records=(*history.records, *records), chosen_start=history.chosen_start),
        blueprint=blueprint.solved_by(run.solver),
    )
