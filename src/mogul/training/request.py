"""A fit as it is asked for, and what is chosen where nothing was said: one default, whoever asks."""

import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
from jaxtyping import Int

from mogul._typing import IntArray
from mogul.config import Stopping, TrainingConfig
from mogul.data import Dataset
from mogul.data.advice import row_advice
from mogul.errors import ConfigError, MogulWarning, require_positive
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import EpochRecord
from mogul.models.families import AUTO, is_latent, members
from mogul.models.model import Model
from mogul.training.choice import MODELS
from mogul.training.held_out import held_out_share, warn_of_order
from mogul.training.presets import default_model, preset, with_defaults
from mogul.training.rows import Rows
from mogul.training.task import MeanChoice
from mogul.training.train import train
from mogul.training.validation import with_validation

# Settings of a training that users give one by one, beside a preset or a config.
SETTINGS = ("epochs", "batch_size", "learning_rate", "num_starts", "num_kept", "objective", "precision")

# Those that only training by steps has a use for: exact GPs have neither steps nor random starts.
_OF_STEPS = ("epochs", "batch_size", "learning_rate", "num_starts", "num_kept")

ConfigChoice = TrainingConfig | Callable[[str], TrainingConfig] | None


@dataclass(frozen=True)
class Request:
    """What `mogul.fit`, the estimators and the command line ask for; what is None is chosen for the rows at hand.

    Args:
        model: a name, several with + between them, or "auto".
        config: how to train, in place of a preset.
        preset: a named way to train.
        seed: of everything random; that of the training itself is the config's, where one is given.
        mean: as `mogul.fit` takes it.
        options: those of `mogul.models.build`.
        settings: some of `SETTINGS`, in place of the preset's or the config's.
        validation: a share of the rows or groups to watch, or rows of a user's own.
        calibrate: a share of the rows or groups to set aside, to calibrate by.
        held_out: places of rows to watch.
        retrain: whether rows that were watched are trained on in the end; None: those of groups, and those drawn to
            choose by.
        num_inputs: the number of latent inputs.
        on_epoch: called after each epoch.
        checkpoint: a folder for checkpoints.
        checkpoint_seconds: the time between two of them.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> Request(seed=2).fitted(Rows.of(data, None, None)).model_name
        'mogp'
    """

    model: str | None = None
    config: ConfigChoice = None
    preset: str | None = None
    seed: int = 0
    mean: MeanChoice | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    validation: float | Dataset | None = None
    calibrate: float | None = None
    held_out: Int[IntArray, "W"] | None = None
    retrain: bool | None = None
    num_inputs: int | None = None
    on_epoch: Callable[[EpochRecord, Model], None] | None = None
    checkpoint: str | PathLike[str] | None = None
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.config is not None and self.preset is not None:
            raise ConfigError(
                f"Give config or preset, not both; got preset {self.preset!r} beside a config. Drop one of them."
            )
        if not (self.config is None or isinstance(self.config, TrainingConfig) or callable(self.config)):
            raise ConfigError(f"config must be a mogul.TrainingConfig; got {self.config!r}. Leave it out.")

    def fitted(self, rows: Rows) -> Fitted:
        """The model, trained on all rows but those to calibrate by, and calibrated by those."""
        self._require_rows_to_hold_out(rows)
        rest, aside = self.divided(replace(rows, data=_row_by_row(rows.data)))
        fitted = self._trained(rest, _once_each(rows), calibrating=aside is not None)
        if aside is None:
            return fitted
        together = aside.places if aside.groups is None else aside.groups
        return fitted.calibrated(aside.data, together, self.seed)

    def divided(self, rows: Rows) -> tuple[Rows, Rows | None]:
        """Rows to learn from, and those to calibrate by."""
        return (rows, None) if self.calibrate is None else rows.set_aside(self.calibrate, self.seed)

    def model_for(self, rows: Rows) -> str:
        """The model that was named, or the default for these rows to learn from."""
        sizes = rows.data.num_rows, rows.data.num_outputs
        return self.model or default_model(*sizes, grouped=self._grouped(rows), noise=self.options.get("noise"))

    def _trained(self, rows: Rows, whole: Dataset, *, calibrating: bool) -> Fitted:
        for finding in row_advice(whole):
            warnings.warn(finding.message, MogulWarning, stacklevel=4)
        model = self.model_for(rows)
        options = with_defaults(self.options, model, self.preset, rows.data.num_outputs, rows.data.num_rows)
        choosing = AUTO in (model, options["noise"])

        def config(name: str) -> TrainingConfig:
            return self._config(name, rows)

        first = MODELS[0] if model == AUTO else members(model)[0]
        share = held_out_share(config(first).stopping, choosing=choosing)
        data, held_out = self._watched(rows, share)
        drawn = self.held_out is None and not isinstance(self.validation, Dataset)
        copied = drawn and held_out is not None
        if rows.groups is None and (copied or (calibrating and not (drawn and share))):  # or else `train` says so
            warn_of_order(whole, stacklevel=4)
        retrain = self._grouped(rows) or (choosing and drawn) if self.retrain is None else self.retrain
        fitted = train(
            data,
            model,
            config,
            mean="paper" if self.mean is None and self.preset == "paper" else self.mean,
            num_inputs=self.num_inputs,
            on_epoch=self.on_epoch,
            checkpoint=self.checkpoint,
            checkpoint_seconds=self.checkpoint_seconds,
            held_out=held_out,
            retrain=retrain,
            **options,
        )
        if model != AUTO and fitted.is_solved:
            self._warn_of_unused(fitted.model_name, rows)
        return fitted

    def _warn_of_unused(self, model: str, rows: Rows) -> None:
        """Name the settings that were given for a training by steps, where there was none."""
        unused = self._unused(members(model)[0], rows)
        if unused:
            listed = ", ".join(f"{name}={value!r}" for name, value in unused.items())
            warnings.warn(
                f"Settings of training by steps have no effect on {model}, which exact GPs solve here; got {listed}. "
                "Leave them out, or train by steps: preset='paper', or config=TrainingConfig(start='random').",
                MogulWarning,
                stacklevel=5,
            )

    def _unused(self, model: str, rows: Rows) -> dict[str, Any]:
        """Settings of training by steps that were given and differ from the default's."""
        usual = preset("default", model, self.seed, rows.data.num_rows, grouped=self._grouped(rows))
        given = {name: self.settings[name] for name in _OF_STEPS if name in self.settings}
        config = self.config(model) if callable(self.config) else self.config
        if config is not None and not config.epochs:  # no steps were asked for
            return {}
        if config is not None:
            own = {name: getattr(config, name) for name in _OF_STEPS}
            given = {name: value for name, value in own.items() if value != getattr(TrainingConfig, name)} | given
        return {name: value for name, value in given.items() if value != getattr(usual, name)}

    def _watched(self, rows: Rows, share: float | None) -> tuple[Dataset, Int[IntArray, "W"] | None]:
        """Rows to train on and to watch, and the places of the latter; None where the config draws them, or none."""
        if isinstance(self.validation, Dataset):
            return with_validation(rows.data, self.validation)
        if self.held_out is not None:
            return rows.data, self.held_out
        return rows.data, rows.watched(self.validation or share, self.seed)

    def _config(self, model: str, rows: Rows) -> TrainingConfig:
        """The preset or the config, with what was given beside it."""
        grouped, given = self._grouped(rows), dict(self.settings)
        if callable(self.config):
            config = self.config(model)
        else:
            own_kernel, num_rows = self.options.get("kernel") is not None, rows.data.num_rows
            config = self.config or preset(
                self.preset or "default", model, self.seed, num_rows, grouped=grouped, own_kernel=own_kernel
            )
        if "epochs" in given:
            require_positive(epochs=given["epochs"])
            config = config.within(given.pop("epochs"))
        if "num_kept" in given:
            require_positive(num_kept=given["num_kept"])
            given.setdefault("num_starts", max(config.num_starts, given["num_kept"]))
        if isinstance(self.validation, float) and rows.groups is None:
            given["stopping"] = replace(config.stopping or Stopping(), held_out=self.validation)
        return replace(config, **given)

    def _grouped(self, rows: Rows) -> bool:
        """Whether new rows come in groups of their own: so it is, too, where given rows are trained on in the end."""
        return rows.groups is not None or (self.held_out is not None and bool(self.retrain))

    def _require_rows_to_hold_out(self, rows: Rows) -> None:
        given = {
            "groups": rows.groups is not None,
            "validation": self.validation is not None,
            "calibrate": self.calibrate is not None,
        }
        if isinstance(self.validation, Dataset) and rows.groups is not None:
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


def _once_each(rows: Rows) -> Dataset:
    """The rows without copies: those of one row are no neighbours in time."""
    _, first = np.unique(rows.places, return_index=True)
    return rows.data if len(first) == len(rows.places) else rows.at(np.sort(first)).data


def _row_by_row(data: Dataset) -> Dataset:
    """The same numbers as arrays and as frames hold them, a row after the other: sums then round in the same way."""
    same = copy(data)
    same.x, same.y = np.ascontiguousarray(data.x), np.ascontiguousarray(data.y)
    return same
