"""Jobs gathered into tables: one for each experiment, data set, kind of split and preset, a line for each label."""

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mogul.lab.datasets.catalogue import CATALOGUE
from mogul.lab.report.noise_floors import describe_floors
from mogul.lab.report.records import PaperFigure, Record, is_papers_own
from mogul.lab.report.row_counts import describe_rows

# By experiment, in the paper's order: its title and what it asks.
SECTIONS = {
    "synthetic": (
        "Synthetic regression",
        "Section 5.1: g(x) = cos(4‖x‖) in five inputs and eight outputs, with noise.",
    ),
    "regression": (
        "Regression",
        "Section 5.3, tables 2, 4, 5 and 6: every model, with and without the linear mean, beside baselines. "
        "Random rows ask for interpolation between neighbours in time, whole trajectories for generalisation.",
    ),
    "unsupervised": (
        "Unsupervised learning",
        "Section 5.4, tables 3 and 7: inputs and outputs together are outputs, and the inputs are latent.",
    ),
    "hidden-units": ("Number of hidden units", "Section 5.5: scores against H, with MOGP dashed and DGP dotted."),
    "small-data": (
        "Little training data",
        "Section 5.6: scores on training and test rows against the rows to learn from.",
    ),
    "missing-outputs": (
        "Missing outputs",
        "Section 5.7: scores against how many outputs of each training row are missing.",
    ),
}
# What a table calls the settings of sweeps.
SIGNS = {"num_hidden": "H", "num_train": "N", "num_missing": "missing"}
SPLITS = {"random": "random rows", "groups": "by trajectory"}


class Spread(NamedTuple):
    """Mean over splits and seeds, and the standard deviation where there are several."""

    mean: float
    sd: float | None


@dataclass(frozen=True)
class Metric:
    """A column: how it is named and printed, and which end of it is good."""

    name: str
    heading: str
    digits: int
    higher_is_better: bool | None
    about: str
    with_spread: bool = False


METRICS = (
    Metric("ll", "LL", 2, True, "test log likelihood per datapoint; higher is better", True),
    Metric("mrmse", "MRMSE", 3, False, "root mean squared error, mean over outputs; lower is better", True),
    Metric("crps", "CRPS", 4, False, "continuous ranked probability score; lower is better"),
    Metric("coverage_50", "50 %", 2, None, "share of test values in the central 50 % band; 0.50 is right"),
    Metric("coverage_80", "80 %", 2, None, "share of test values in the central 80 % band; 0.80 is right"),
    Metric("coverage_95", "95 %", 2, None, "share of test values in the central 95 % band; 0.95 is right"),
    Metric("seconds", "seconds", 1, None, "time to fit and predict, mean over jobs"),
)


@dataclass(frozen=True)
class Line:
    """A label with its scores over splits and seeds, and the jobs they come from: none for a line of the paper's."""

    label: str
    kind: str  # model, baseline, paper
    settings: tuple[tuple[str, Any], ...] = ()
    scores: dict[str, Spread] = field(default_factory=dict)
    jobs: tuple[Record, ...] = ()

    @property
    def num_failed(self) -> int:
        """How many of its jobs have no scores."""
        return sum(job.is_failed for job in self.jobs)

    @property
    def settings_label(self) -> str:
        """What a sweep varies, in words: "H = 8"."""
        return describe_settings(dict(self.settings))

    @property
    def first(self) -> Record | None:
        """The first job that has scores: the one that figures of a single fit show."""
        return next((job for job in self.jobs if not job.is_failed), None)


@dataclass(frozen=True)
class Board:
    """The lines of one experiment on one data set with one kind of split and one preset, best first."""

    experiment: str
    dataset: str
    split_kind: str
    preset: str
    lines: tuple[Line, ...]

    @property
    def key(self) -> str:
        """A name that serves as an anchor."""
        return "-".join(word for word in (self.experiment, self.dataset, self.split_kind, self.preset) if word)

    @property
    def name(self) -> str:
        """The data, the split and the preset: what tells it from the others of its experiment."""
        preset = f"preset {self.preset}" if self.preset else ""
        return _listed(self.dataset, SPLITS.get(self.split_kind, self.split_kind), preset)

    @property
    def rows(self) -> str:
        """How many rows its jobs were trained and tested on, in words; nothing where records do not tell."""
        counts = [count for line in self.lines for job in line.jobs if (count := job.num_rows) is not None]
        return describe_rows(counts) if counts else ""

    @property
    def units(self) -> str:
        """The units of all scores, in words; nothing where records do not tell."""
        configs = [job.content.get("config") or {} for line in self.lines for job in line.jobs]
        found = next((str(config["units"]) for config in configs if config.get("units")), "")
        return f"{found} units" if found else ""

    @property
    def details(self) -> str:
        """What a number of it means nothing without: the rows and the units."""
        return _listed(self.rows, self.units)

    @property
    def title(self) -> str:
        """All that it is about."""
        return _listed(self.name, self.details)

    @property
    def about(self) -> str:
        """What the data are."""
        entry = CATALOGUE.get(self.dataset)
        return "" if entry is None else f"{_sentence(entry.what)}."

    @property
    def noise_floors(self) -> str:
        """The least noise that each line may believe in."""
        configs = [(line.label, line.jobs[0].content.get("config") or {}) for line in self.lines if line.jobs]
        floors = [(label, str(config["noise_floor"])) for label, config in configs if "noise_floor" in config]
        return describe_floors(floors) if floors else ""

    @property
    def stands_in_for(self) -> str | None:
        """The paper's name of the data that these replace, if they do: its figures must not stand beside these."""
        entry = CATALOGUE.get(self.dataset)
        return None if entry is None else entry.stands_in_for

    @property
    def is_not(self) -> str:
        """What the data are not."""
        entry = CATALOGUE.get(self.dataset)
        return "" if entry is None else f"{_sentence(entry.is_not)}."

    @property
    def has_paper(self) -> bool:
        """Whether lines of the paper's are among them."""
        return any(line.kind == "paper" for line in self.lines)

    @property
    def has_settings(self) -> bool:
        """Whether lines differ by a setting of a sweep."""
        return any(line.settings for line in self.lines)

    def against_paper(self, line: Line) -> float | None:
        """By how many of the paper's standard deviations the LL of our line is above the paper's."""
        theirs = next((each for each in self.lines if each.kind == "paper" and each.label == line.label), None)
        if line.kind == "paper" or theirs is None or "ll" not in line.scores or "ll" not in theirs.scores:
            return None
        mean, sd = theirs.scores["ll"]
        return (line.scores["ll"].mean - mean) / sd if sd else None

    @property
    def low_end(self) -> float:
        """Where a scale of LL begins: at the lowest, or where far stragglers would begin to squash the rest."""
        known = sorted(line.scores["ll"].mean for line in self.lines if "ll" in line.scores)
        best, middle = known[-1], known[len(known) // 2]
        return max(known[0], best - 3 * (best - middle)) if best > middle else known[0]

    def bar(self, line: Line) -> float | None:
        """How far along its LL is, from 0 at the low end of the scale to 1 at the best."""
        if "ll" not in line.scores:
            return None
        best = max(each.scores["ll"].mean for each in self.lines if "ll" in each.scores)
        share = (line.scores["ll"].mean - self.low_end) / (best - self.low_end) if best > self.low_end else 1.0
        return round(max(0.0, share), 3)

    def is_best(self, line: Line, metric: Metric) -> bool:
        """Whether no other line but the paper's own is better by this metric."""
        known = [each.scores[metric.name].mean for each in self.lines if metric.name in each.scores and each.jobs]
        if metric.higher_is_better is None or metric.name not in line.scores or not line.jobs:
            return False
        return line.scores[metric.name].mean == (max if metric.higher_is_better else min)(known)

    def best(self, kind: str, metric: str = "ll") -> Line | None:
        """The line of this kind with the highest score."""
        known = [line for line in self.lines if line.kind == kind and metric in line.scores]
        return max(known, key=lambda line: line.scores[metric].mean, default=None)


def describe_settings(settings: Mapping[str, Any]) -> str:
    """What a sweep varies, for a reader.

    >>> describe_settings({"num_hidden": 8})
    'H = 8'
    """
    return ", ".join(f"{SIGNS.get(name, name)} = {value}" for name, value in settings.items())


def boards(records: Sequence[Record], paper: Sequence[PaperFigure]) -> list[Board]:
    """All tables, in the paper's order of experiments; failed jobs are lines without scores."""
    groups: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        if record.experiment:
            key = record.experiment, record.dataset, record.split_kind, record.preset
            groups.setdefault(key, []).append(record)
    found = []
    for key in sorted(groups, key=_place):
        experiment, dataset, split_kind, _ = key
        lines = _lines(groups[key])
        if split_kind == "random":
            lines += _paper_lines(paper, experiment, dataset, {line.label for line in lines})
        found.append(Board(*key, tuple(sorted(lines, key=_goodness, reverse=True))))
    return found


def _lines(records: Iterable[Record]) -> list[Line]:
    """One line for each label and setting of a sweep."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        key = record.label, record.kind, repr(sorted(record.settings.items()))
        groups.setdefault(key, []).append(record)
    return [_line(jobs) for jobs in groups.values()]


def _line(jobs: list[Record]) -> Line:
    scores = {}
    for metric in (*(metric.name for metric in METRICS), "train_ll", "train_mrmse"):
        values = [_value(job, metric) for job in jobs if not job.is_failed]
        known = [value for value in values if value is not None]
        if known:
            scores[metric] = Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None)
    first = jobs[0]
    settings = tuple(sorted(first.settings.items()))
    return Line(first.label, first.kind, settings, scores, tuple(jobs))


def _value(job: Record, metric: str) -> float | None:
    return job.seconds if metric == "seconds" else job.metrics.get(metric)


def _paper_lines(paper: Sequence[PaperFigure], experiment: str, dataset: str, labels: Collection[str]) -> list[Line]:
    """The paper's scores of those models that were run."""
    scores: dict[str, dict[str, Spread]] = {}
    for figure in paper:
        if (figure.experiment, figure.dataset) == (experiment, dataset) and figure.label in labels:
            scores.setdefault(figure.label, {})[figure.metric] = Spread(figure.mean, figure.sd)
    return [Line(label, "paper", scores=each) for label, each in scores.items()]


def _place(key: tuple[str, str, str, str]) -> tuple[int, str, bool, str, bool, str]:
    """The paper's order of experiments, the paper's own data before others, random rows before trajectories."""
    experiment, dataset, split_kind, preset = key
    names = list(SECTIONS)
    number = names.index(experiment) if experiment in names else len(names)
    return number, experiment, not is_papers_own(experiment, dataset), dataset, split_kind != "random", preset


def _listed(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _goodness(line: Line) -> tuple[bool, float]:
    return ("ll" in line.scores, line.scores["ll"].mean if "ll" in line.scores else 0.0)
