"""From data to a fitted model: the one function that users call."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from jaxtyping import Int

from mogul._typing import IntArray
from mogul.data import Dataset
from mogul.data.sources.containers import as_array
from mogul.data.sources.given import given_data
from mogul.data.splits import group_numbers
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import EpochRecord
from mogul.models.families import is_latent
from mogul.models.model import Model
from mogul.models.parts import Parts
from mogul.registry import model_name
from mogul.training.request import SETTINGS, ConfigChoice, Request
from mogul.training.rows import Rows
from mogul.training.task import MeanChoice
from mogul.training.validation import is_pair, share_of


def fit(
    X: Any,
    Y: Any = None,
    *,
    model: str | Callable[[Parts], Model] | None = None,
    targets: str | Sequence[str] | None = None,
    inputs: str | Sequence[str] | None = None,
    groups: Any = None,
    validation: float | Dataset | tuple[Any, Any] | None = None,
    calibrate: float | None = None,
    config: ConfigChoice = None,
    preset: str | None = None,
    seed: int = 0,
    mean: MeanChoice | None = None,
    num_inputs: int | None = None,
    on_epoch: Callable[[EpochRecord, Model], None] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    held_out: Int[IntArray, "W"] | None = None,
    retrain: bool | None = None,
    **options: Any,
) -> Fitted:
    """Fit a model to data, standardised once.

    `MultiOutputGPRegressor` and `mogul fit` give the same model for the same data and arguments.

    Up to 2,500 rows an exact GP of each output, with hyperparameters of the largest evidence found, is where training
    starts, and for the default (a mogp with a latent GP for each of up to 24 outputs) where it ends. With more rows, or
    a kernel of one's own, starts are random and training is by minibatches: see `mogul.training.presets.preset`.

    Args:
        X: inputs (N, D) in their own units: an array, a tensor or a DataFrame of pandas or polars, with Y beside it;
            a DataFrame or the path of a table (.csv, .parquet, .npz, .mat) whose outputs `targets` names; a
            `mogul.Dataset`, which has both; None for a model with latent inputs.
        Y: outputs (N, P), or (N,) for one, where NaN is a missing value.
        model: one of `mogul.models.names()`; those that end in `-lvm` ignore any inputs of the data. Several names,
            "mogp+n-sbgprn", make a mixture: each is trained, and predictions are the mixture of theirs. "auto" trains
            each of `mogul.training.choice.MODELS` (gprn up to 20 outputs) and keeps the one under which held-out rows
            are likeliest, a fifth of all rows by default: see `Fitted.choice`. None is the default for so many rows,
            outputs and groups: see `mogul.training.presets.default_model`. A function of parts is a model of one's own:
            see docs/howto/add_a_model.md.
        targets: columns of X to predict.
        inputs: columns of X to predict from; all that are neither targets nor groups by default.
        groups: a label for each row, or the column of X that holds them. Whole groups are held out then, drawn at
            random: they say how long to train, and what "auto" chooses; then the model is trained on all of them. Where
            rows are held out without groups and seem to follow each other in time, a warning says so.
        validation: rows whose likelihood says when to stop, and what "auto" chooses: a `Dataset` or a pair (X, Y) of
            one's own, or a share to hold out at random, a fifth where `groups` or "auto" needs one; else the ELBO is
            watched.
        calibrate: share of the rows, or of the groups where there are any, that are set aside at random to calibrate by
            after training: 0.2, say. The spread of predictions is made to fit them, and there is `Fitted.interval`.
        config: how to train, or a function that says so for each model by name; model, noise, sizes and mean are not
            part of it.
        preset: a named way to train instead: "default", or "paper" for the paper's choices: its protocol, constant
            noise, its sizes and means.
        seed: of everything random; a config has a seed of its own for the training itself.
        mean: "linear" has a plane with random coefficients under each output, and models its residual: the default.
            What is not known of the plane is part of every variance. "paper" has none of that, and each model's latent
            GPs have the paper's means (the default of the paper's preset and of latent inputs); "zero" and "constant"
            choose the latent GPs' means.
        num_inputs: the number of latent inputs of an `-lvm` model; 4 by default.
        on_epoch: called after each epoch with its record and the model, which it must not change; epochs that are gone
            back on come again.
        checkpoint: a folder for a file from which the same call goes on, should this one be killed: on the same
            machine, to the same model, bit for bit. It is kept at the end, and the same call then trains nothing.
        checkpoint_seconds: how long to wait between writings of that file, which come at ends of epochs.
        held_out: places of rows to watch and not to train on, in place of `groups` and `validation`.
        retrain: whether rows that were held out are trained on in the end: the model is then trained again on all rows,
            for as many epochs as made the held-out ones likeliest, at the same rates, with what they chose. By default
            those of `groups` are, and those that "auto" drew to choose by; rows that were given are not.
        options: any of epochs, batch_size, learning_rate, num_starts, num_kept, objective and precision, in place of
            the preset's or the config's; and noise, sizes and nonlinearity, as `mogul.models.build` takes them, of
            which the model must have a use. What is not named is the default's
            (`mogul.training.presets.with_defaults`), or the paper's with preset="paper". noise="residuals", the
            default, is what residuals of rows left out ask for: constant, student-t, gp or gp-student-t, correlated
            across outputs where training ends at exact GPs and residuals are (`Fitted.noise_factors`). noise="auto"
            chooses among `mogul.training.choice.NOISES` as model="auto" does among models; where both do, first the
            model with GP noise, then the noise. Options go to those that have a use for them.

    Ctrl-C ends training, and gives the best start as it was after its last whole epoch, with a warning. A training that
    leaves the range of numbers goes back to smaller steps and more jitter, up to three times.

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
    data, labels = given_data(X, Y, targets, inputs, groups, latent=latent)
    numbers = None if labels is None else group_numbers(as_array(labels), data.num_rows)
    given = {name: options.pop(name) for name in SETTINGS if name in options}
    request = Request(
        model=name,
        config=config,
        preset=preset,
        seed=seed,
        mean=mean,
        options=options,
        settings={name: value for name, value in given.items() if value is not None},
        validation=_own_rows(validation, latent) or share_of(validation),
        calibrate=share_of(calibrate, "calibrate", otherwise=""),
        held_out=held_out,
        retrain=retrain,
        num_inputs=num_inputs,
        on_epoch=on_epoch,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
    )
    return request.fitted(Rows.of(data, None, numbers))


def _own_rows(validation: Any, latent: bool) -> Dataset | None:
    """Rows of a user's own to validate on, if there are any."""
    if isinstance(validation, Dataset):
        return validation
    return given_data(*validation, latent=latent)[0] if is_pair(validation) else None
