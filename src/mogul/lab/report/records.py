"""What the jobs of experiments left behind: one JSON file for each, and the paper's figures beside them."""

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mogul.lab.datasets.catalogue import CATALOGUE

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """One job: what it ran, how it scored, and the command that runs it again; `error` where it failed.

    `content` holds the parts that figures are drawn from, any of which may be missing: per_output, calibration,
    predictions, curve, latent.
    """

    experiment: str
    dataset: str
    split_label: str
    split_kind: str
    label: str
    kind: str
    preset: str
    seed: int | None
    settings: Mapping[str, Any]
    metrics: Mapping[str, float]
    seconds: float | None
    command: str
    error: str | None
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_failed(self) -> bool:
        """Whether there are no scores to show."""
        return self.error is not None or not self.metrics

    @property
    def num_rows(self) -> tuple[int, int] | None:
        """How many rows it was trained and tested on; None where the record does not tell."""
        split = self.content.get("split") or {}
        train, test = number(self.settings.get("num_train", split.get("num_train"))), number(split.get("num_test"))
        return None if train is None or test is None else (int(train), int(test))


@dataclass(frozen=True)
class PaperFigure:
    """A number of the paper's, for the line of this label."""

    experiment: str
    dataset: str
    label: str
    metric: str
    mean: float
    sd: float | None


def read_records(out: Path) -> list[Record]:
    """Every job in the folder, in the order of file names; a file that is not a job's counts as one that failed."""
    return [_read(path) for path in sorted((out / "jobs").glob("*.json"))]


def read_paper(out: Path) -> list[PaperFigure]:
    """The paper's figures in summary.csv, for those data that are the paper's own, split as the paper split them."""
    path = out / "summary.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    found = []
    for row in rows:
        mean = number(row.get("paper_mean"))
        if mean is None or row["split"] != "random" or not is_papers_own(row["experiment"], row["dataset"]):
            continue
        metric = row["metric"].lower()
        found.append(
            PaperFigure(row["experiment"], row["dataset"], row["label"], metric, mean, number(row.get("paper_sd")))
        )
    return found


def is_papers_own(experiment: str, dataset: str) -> bool:
    """Whether the paper has figures for these very data: a stand-in must not be set beside them.

    >>> is_papers_own("regression", "kuka"), is_papers_own("regression", "halfcheetah")
    (True, False)
    """
    entry = CATALOGUE.get(dataset)
    return experiment == "synthetic" if entry is None else entry.paper is not None


def number(value: Any) -> float | None:
    """A finite number, or None for what is not one.

    >>> number("2.5"), number(float("nan")), number(""), number(None)
    (2.5, None, None, None)
    """
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _read(path: Path) -> Record:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            return _unreadable(path, f"The record must have format {FORMAT}; it has {content['format']!r}.")
        return _record(content)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return _unreadable(path, f"{path.name} must be the record of a job; it is not ({type(error).__name__}).")


def _record(content: Mapping[str, Any]) -> Record:
    metrics = {name: number(value) for name, value in (content.get("metrics") or {}).items()}
    split = content.get("split") or {}
    label = str(content.get("split_label") or split.get("kind") or "")
    seed = content.get("seed")
    return Record(
        experiment=str(content["experiment"]),
        dataset=str(content["dataset"]),
        split_label=label,
        split_kind=str(split.get("kind") or ("random" if label.startswith("random") else "groups")),
        label=str(content["label"]),
        kind="baseline" if content.get("kind") == "baseline" else "model",
        preset=str(content.get("preset") or ""),
        seed=None if seed is None else int(seed),
        settings=dict(content.get("settings") or {}),
        metrics={name: value for name, value in metrics.items() if value is not None},
        seconds=number(content.get("seconds")),
        command=str(content.get("command") or ""),
        error=None if content.get("error") is None else str(content["error"]),
        content=content,
    )


def _unreadable(path: Path, error: str) -> Record:
    return Record("", "", "", "", path.name, "model", "", None, {}, {}, None, "", error)
