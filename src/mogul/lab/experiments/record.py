"""What one job leaves behind: a number for every column of the tables, and all that is needed to make it again."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, get_args

from mogul.data.splits import Split
from mogul.errors import DataError
from mogul.lab.experiments.subject import Kind, Subject

FORMAT = 1
METRICS = ("ll", "mrmse", "crps", "coverage_50", "coverage_80", "coverage_95")
TRAINING_METRICS = ("train_ll", "train_mrmse")
_WORDS = ("experiment", "dataset", "split_label", "label", "kind", "model", "preset", "command")
_GROUPS = ("split", "settings", "config", "versions", "metrics", "per_output", "calibration", "predictions")
_STORED_AS: dict[str, type | UnionType] = {
    **dict.fromkeys(_WORDS, str),
    **dict.fromkeys(_GROUPS, dict),
    "seed": int,
    "seconds": int | float,
    "curve": list,
    "latent": dict | None,
    "commit": str | None,
    "error": str | None,
}


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
        for name, kind in _STORED_AS.items():
            if not isinstance(content[name], kind):
                raise DataError(f"A stored result must have its fields as written; {name} is not. Was it changed?")
        if content["kind"] not in get_args(Kind):
            raise DataError(f"kind must be model or baseline; got {content['kind']!r}. Was the file changed?")
        values = {name: content[name] for name in names}
        return Record(**{**values, "split": Split.from_json(values["split"])})
