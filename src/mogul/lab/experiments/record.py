"""What a job is, the record that it leaves behind, and the folder of records on disk."""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from mogul.data.splits import Split
from mogul.errors import DataError
from mogul.lab.experiments.lines import Variant
from mogul.metrics import FEW_OUTER, NUM_INNER, NUM_OUTER
from mogul.models.families import members
from mogul.storage import rules
from mogul.storage.atomic import write_json
from mogul.storage.container import encode
from mogul.storage.rules import Rule
from mogul.training import TrainingConfig

Kind = Literal["model", "baseline"]
# The same on every machine: the order of sums, and with it the last digits, depends on it.
NUM_THREADS = 1
NUM_DRAWS: dict[str, int] = {
    "paper": NUM_OUTER * NUM_INNER,
    "paper-fast": NUM_OUTER * NUM_INNER,
    "default": FEW_OUTER * NUM_INNER,
    "fast": FEW_OUTER * NUM_INNER,
}
FORMAT = 1
METRICS = ("ll", "mrmse", "crps", "coverage_50", "coverage_80", "coverage_95")
TRAINING_METRICS = ("train_ll", "train_mrmse")
_drawn = rules.or_none(rules.any_number)  # of figures, which leave out what is not finite


@dataclass(frozen=True)
class Subject:
    """A model or a baseline on one split of one data set with one setting.

    Args:
        experiment: which of the paper's.
        dataset: its name in the catalogue.
        split: how rows are divided.
        split_label: that in words.
        label: the name in tables.
        kind: whether it is a model or a baseline.
        model: what `mogul.fit` calls it, or the baseline's name.
        settings: what a sweep varies; empty otherwise.
        preset: how it is trained.
        seed: of the split and of training.
        command: makes this one row again.
    """

    experiment: str
    dataset: str
    split: Split
    split_label: str
    label: str
    kind: Kind
    model: str
    settings: Mapping[str, int]
    preset: str
    seed: int
    command: str

    @property
    def slug(self) -> str:
        """The name of its file: the same for what should be the same number."""
        return slug_of(self.experiment, self.preset, self.dataset, self.split_label, self.label, self.settings)

    @property
    def setting(self) -> str:
        """The value of a sweep in words."""
        return describe(self.settings)

    @cached_property
    def variant(self) -> Variant:
        """The model and its departures from the paper, from the stored label; a baseline has none."""
        return Variant.parse(self.label, self.kind)

    @property
    def num_train(self) -> int:
        """Training rows, which a sweep may have made fewer."""
        return self.settings.get("num_train", self.split.num_train)


def slug_of(
    experiment: str, preset: str, dataset: str, split_label: str, label: str, settings: Mapping[str, int]
) -> str:
    """A name for a file that says which row it is.

    >>> slug_of("hidden-units", "fast", "kuka", "random 0", "N-DGP (L′ = L) + linear", {"num_hidden": 8})
    'hidden-units--fast--kuka--random-0--n-dgp-l-l-linear--num-hidden-8'
    """
    parts = [experiment, preset, dataset, split_label, label, *(f"{name} {settings[name]}" for name in settings)]
    return "--".join(_plain(part) for part in parts)


def describe(settings: Mapping[str, int]) -> str:
    """Settings in words.

    >>> describe({"num_hidden": 8})
    'num_hidden=8'
    """
    return ";".join(f"{name}={value}" for name, value in settings.items())


def _plain(words: str) -> str:
    ascii_words = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_words.lower()).strip("-")


@dataclass(frozen=True)
class Job(Subject):
    """A model or a baseline that is still to be scored.

    Args:
        experiment, dataset, …, command: as in `Subject`.
        units: of the scores.
        noise_floor: the smallest standard deviation of its noise, in words; log likelihoods depend on it.
        data_sha256: of the data set's values.
        options: of `mogul.models.build`.
        linear: whether the model has the linear mean.
        training: how to train a model; None for a baseline.
        holds_out_groups: whether some whole groups are validation rows that choose the number of epochs.
        baseline_epochs: the time of a baseline, in epochs of a model.
    """

    units: str
    data_sha256: str
    noise_floor: str
    options: Mapping[str, Any] = field(default_factory=dict)
    linear: bool = False
    training: TrainingConfig | None = None
    holds_out_groups: bool = False
    baseline_epochs: float = 0.0

    @property
    def num_draws(self) -> int:
        """Of the mixture that predictions are."""
        return NUM_DRAWS[self.preset]

    @property
    def config(self) -> dict[str, Any]:
        """Everything that the numbers depend on besides seed and split, as plain values."""
        return {
            "training": None if self.training is None else _without_seed(self.training),
            "options": {name: encode(value, name) for name, value in self.options.items()},
            "mean": ("linear" if self.linear else "paper") if self.kind == "model" else None,
            "held_out": "groups, then trained on" if self.holds_out_groups else None,
            "units": self.units,
            "noise_floor": self.noise_floor,
            "num_train": self.split.num_train,
            "num_test": self.split.num_test,
            "num_draws": self.num_draws,
            "num_threads": NUM_THREADS,
            "data_sha256": self.data_sha256,
        }

    @property
    def work(self) -> int:
        """Estimated time in arbitrary units, for the progress bar."""
        rows = self.num_train
        if self.training is None:
            return math.ceil(rows * self.baseline_epochs)
        kept, tried = self.training.num_kept, self.training.num_starts - self.training.num_kept
        trials = tried * min(self.training.start_epochs, self.training.epochs)
        # Held-out groups are trained on in the end, for at most as long again.
        times = len(members(self.model)) * (2 if self.holds_out_groups else 1)
        return times * rows * (kept * self.training.epochs + trials)


def _without_seed(training: TrainingConfig) -> dict[str, Any]:
    """The settings of a training; the seed is the job's own."""
    settings: dict[str, Any] = encode(training, "training")["settings"]
    return {name: value for name, value in settings.items() if name != "seed"}


@dataclass(frozen=True)
class Record(Subject):
    """The result of one job: a model or baseline on one split of one data set, scored in the units of the experiment.

    A job that failed has no metrics, and says why in `error`.

    Args:
        experiment, dataset, …, command: as in `Subject`.
        config: everything that the numbers depend on.
        versions: of the packages that made it.
        commit: of mogul's repository, if it ran from one.
        seconds: how long it took.
        metrics: scores on the test rows; on the training rows where the experiment asks for those.
        per_output: names, RMSE and log likelihood of each output.
        calibration: a histogram of P(output ≤ y), and the share of outputs in central intervals by level.
        predictions: truth, mean and standard deviation at a few test rows.
        curve: the training objective by epoch.
        latent: where some training rows lie, for models with latent inputs, and their outputs.
        error: why there is nothing, or None.
    """

    config: Mapping[str, Any]
    versions: Mapping[str, str]
    commit: str | None
    seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    per_output: Mapping[str, list[Any]] = field(default_factory=dict)
    calibration: Mapping[str, list[Any]] = field(default_factory=dict)
    predictions: Mapping[str, list[Any]] = field(default_factory=dict)
    curve: list[dict[str, float | int]] = field(default_factory=list)
    latent: Mapping[str, list[Any]] | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.error is not None:
            return
        missing = [name for name in METRICS if name not in self.metrics]
        unknown = [name for name in self.metrics if name not in (*METRICS, *TRAINING_METRICS)]
        if missing or unknown:
            raise DataError(
                f"metrics must be {', '.join(METRICS)}; {(missing or unknown)[0]} is "
                f"{'missing' if missing else 'not one of them'}. Was the file changed?"
            )
        for name, value in self.metrics.items():
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise DataError(f"metrics must be finite numbers; {name} is {value!r}. Did training diverge?")

    @property
    def is_failed(self) -> bool:
        """Whether there are no scores to show."""
        return self.error is not None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"format": FORMAT, **content, "split": self.split.to_json()}

    @staticmethod
    def from_json(content: object) -> "Record":
        """The record that was stored."""
        names = {each.name for each in fields(Record)}
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise DataError(
                f"A stored result must have format {FORMAT}; it has another, or none. Was it made by mogul?"
            )
        wrong = names.symmetric_difference(content.keys() - {"format"})
        if wrong:
            raise DataError(f"A stored result must have the fields of Record; {min(wrong)} differs. Was it changed?")
        require_stored(content)
        values = {name: content[name] for name in names}
        return Record(**{**values, "split": Split.from_json(values["split"])})


class Store:
    """The records in a folder, by the names of their files.

    Args:
        folder: where results go; it need not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> dict[str, Record]:
        """All records, in the order of their names."""
        return {path.stem: _read(path) for path in self._paths()}

    def read_sound(self) -> tuple[dict[str, Record], list[str]]:
        """All records that can be read, and why each of the others cannot."""
        found, damaged = {}, []
        for path in self._paths():
            try:
                found[path.stem] = _read(path)
            except DataError as error:
                damaged.append(str(error))
        return found, damaged

    def _paths(self) -> list[Path]:
        return sorted((self.folder / "jobs").glob("*.json"))

    def write(self, record: Record) -> None:
        """Store a record, all or nothing."""
        write_json(self._path(record.slug), record.to_json())

    def unfinished(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs without a result, or that failed; an error if any was done, here or for another split, otherwise."""
        stored, left = self.read(), []
        for job in jobs:
            record = stored.get(job.slug)
            if record is not None:
                self._require_same(job.slug, record.config, job.config)
            for slug, other in stored.items():
                if _same_row(other, job):
                    self._require_same(slug, _beside_data(other.config), _beside_data(job.config))
            if record is None or record.error is not None:
                left.append(job)
        return left

    def _path(self, slug: str) -> Path:
        return self.folder / "jobs" / f"{slug}.json"

    def _require_same(self, slug: str, stored: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        different = difference(stored, json.loads(json.dumps(asked)))
        if different is not None:
            name, there, here = different
            raise DataError(
                f"Results in one folder must be of one configuration; {self._path(slug)} has {name} = {there}, "
                f"and {here} was asked for. Choose another --out, or ask for the same."
            )


def difference(one: Any, other: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """The first setting that differs, and its two values.

    >>> difference({"a": {"b": 1}}, {"a": {"b": 2}})
    ('a.b', 1, 2)
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            found = difference(one.get(key), other.get(key), f"{name}.{key}" if name else key)
            if found is not None:
                return found
        return None
    return None if one == other else (name, one, other)


def _same_row(record: Record, job: Job) -> bool:
    """Whether both are averaged into one number: the same but for the seed."""
    names = ("experiment", "preset", "dataset", "label", "settings")
    same = all(getattr(record, name) == getattr(job, name) for name in names)
    return same and record.split.kind == job.split.kind


def _beside_data(config: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same for every seed, even where each has data of its own."""
    return {name: value for name, value in config.items() if name != "data_sha256"}


def _read(path: Path) -> Record:
    try:
        record = Record.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:  # our errors of data are among these
        raise DataError(
            f"{path} must be a result of mogul's; {error} Delete it, and the same mogul reproduce runs that job again."
        ) from None
    if record.slug != path.stem:
        raise DataError(f"{path} must be named {record.slug}.json after what it holds; it is not. Rename it.")
    return record


def require_stored(content: Mapping[str, Any]) -> None:
    """Check the fields of a record that was read from a file.

    >>> require_stored({"label": 3})
    Traceback (most recent call last):
        ...
    mogul.errors.DataError: experiment must be there; it is missing. Was the file changed?
    """
    rules.having(**_FIELDS)(content, "")
    if content["error"] is None:
        rules.having(**dict.fromkeys(METRICS, rules.number))(content["metrics"], "metrics")


def _alike(*names: str, rule: Rule) -> Rule:
    """Nothing, or lists of these names with equal lengths, and rows of equal lengths within."""

    def check(value: Any, place: str) -> None:
        rules.require(isinstance(value, dict), place, "an object", value)
        present = {name: value[name] for name in names if value.get(name)}
        for name, items in present.items():
            rule(items, f"{place}.{name}")
        lengths = {_shape(items) for items in present.values()}
        rules.require(not present or len(lengths) == 1, place, "lists of equal lengths", "others")
        rules.require(not present or len(present) == len(names), place, f"all of {', '.join(names)}", list(present))

    return check


def _shape(items: list[Any]) -> tuple[int, ...]:
    return (len(items), len(items[0])) if isinstance(items[0], list) else (len(items),)


def _calibration(value: Any, place: str) -> None:
    _alike("levels", "covered", rule=rules.each(rules.number))(value, place)
    rules.each(rules.number)(value.get("pit_counts", []), f"{place}.pit_counts")


def _latent(value: Any, place: str) -> None:
    rules.having(mean=rules.matrix)(value, place)
    for name in ("scale", "outputs"):  # older records lack some
        found, own = value.get(name) or [], f"{place}.{name}"
        rules.matrix(found, own)
        rules.require(len(found) in (0, len(value["mean"])), own, "a row for each mean", f"{len(found)} rows")
    if value["mean"] and value.get("scale"):
        _alike("mean", "scale", rule=rules.matrix)(value, place)


def _per_output(value: Any, place: str) -> None:
    _alike("names", "rmse", "ll", rule=rules.each(rules.plain))(value, place)
    rules.each(rules.text)(value.get("names", []), f"{place}.names")
    for name in ("rmse", "ll"):
        rules.each(_drawn)(value.get(name, []), f"{place}.{name}")


_FIELDS: dict[str, Rule] = {
    **dict.fromkeys(("experiment", "dataset", "split_label", "label", "model", "preset", "command"), rules.text),
    "kind": rules.one_of("model", "baseline"),
    "split": rules.having(
        dataset=rules.text,
        kind=rules.one_of("random", "groups"),
        num_train=rules.whole,
        num_test=rules.whole,
        digest=rules.text,
        seed=rules.or_none(rules.whole),
        test_groups=rules.each(rules.whole),
    ),
    "settings": rules.values(rules.whole),
    "config": rules.both(rules.having(units=rules.text, noise_floor=rules.text), rules.plain),
    "versions": rules.values(rules.text),
    "metrics": rules.values(rules.number, *METRICS, *TRAINING_METRICS),
    "per_output": _per_output,
    "calibration": _calibration,
    "predictions": _alike("true", "mean", "std", rule=rules.matrix),
    "seed": rules.whole,
    "seconds": rules.number,
    "curve": rules.each(rules.having(epoch=rules.whole, elbo=_drawn, seconds=_drawn)),
    "latent": rules.or_none(_latent),
    "commit": rules.or_none(rules.text),
    "error": rules.or_none(rules.text),
}
