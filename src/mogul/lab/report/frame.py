"""One frame of all results: a row for each job, and a row for each line with means, spreads and the paper's numbers.

Tables, page, figures, CSV, Markdown and LaTeX are rendered from these.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from mogul.lab.datasets.catalogue import CATALOGUE
from mogul.lab.experiments.declarations import EXPERIMENTS
from mogul.lab.experiments.lines import NO_FLOOR, PAPER_METRICS, Spread, Variant, published
from mogul.lab.experiments.record import METRICS as SCORES
from mogul.lab.experiments.record import TRAINING_METRICS, Record
from mogul.lab.experiments.request import BY_TRAJECTORY
from mogul.storage.atomic import write_whole

# Lines of one block compete with each other.
BLOCK = ["experiment", "dataset", "preset", "split_kind"]
# Jobs that differ in nothing of this are averaged.
LINE = [*BLOCK, "setting", "label", "kind", "noise_floor"]
VARIANT = list(asdict(Variant(("",))))
COLUMNS = ["experiment", "dataset", "split", "label", "kind", "preset", "setting", "noise_floor", "metric", "value"]
NUMBER_FORMAT = "%.6g"
_MEASURED = [*SCORES, *TRAINING_METRICS, "seconds"]
JOB = [*LINE, "split", "model", "sweep", "at", *VARIANT, *_MEASURED, "record"]
_SUMMARISED = ("ll", "mrmse", "crps", "coverage_80")
_SPLITS = {"random": "random", "groups": BY_TRAJECTORY}


@dataclass(frozen=True)
class Results:
    """Jobs, and the lines that they are averaged into.

    Attributes:
        jobs: a row for each job: what it ran, its scores (NaN where it failed), its `record`.
        lines: a row for each line: its fields, `runs` that succeeded of `num_jobs`; for each score the mean under its
            name and the standard deviation under `…_sd`; the paper's under `paper_…` and `paper_…_sd`.
    """

    jobs: pd.DataFrame
    lines: pd.DataFrame

    @staticmethod
    def of(records: Iterable[Record]) -> "Results":
        """By experiment, data set, preset and split; baselines first, then models as their experiment lists them."""
        ordered = sorted(records, key=_place)
        return Results.average(pd.DataFrame([_job(record) for record in ordered], columns=JOB))

    @staticmethod
    def average(jobs: pd.DataFrame) -> "Results":
        """The one aggregation: mean and standard deviation over runs, beside the paper's."""
        jobs = jobs.astype(dict.fromkeys(_MEASURED, float))
        grouped = jobs.groupby(LINE, sort=False, dropna=False)
        parts = [grouped[[*VARIANT, "model", "sweep", "at"]].first()]
        parts.append(grouped.agg(runs=("ll", "count"), num_jobs=("ll", "size")))
        parts += [grouped[_MEASURED].mean(), grouped[_MEASURED].std().add_suffix("_sd")]
        lines = pd.concat(parts, axis=1).reset_index()
        theirs = [[_published(row, metric) for metric in PAPER_METRICS] for row in rows_of(lines)]
        for place, metric in enumerate(PAPER_METRICS):
            lines[f"paper_{metric}"] = [found[place].mean for found in theirs]
            lines[f"paper_{metric}_sd"] = [found[place].sd for found in theirs]
        return Results(jobs, lines)

    def blocks(self) -> Iterator[tuple[dict[str, str], "Results"]]:
        """The lines that compete with each other, and their jobs."""
        jobs = self.jobs.groupby(BLOCK, sort=False)
        lines = dict(iter(self.lines.groupby(BLOCK, sort=False)))
        for key, some in jobs:
            yield dict(zip(BLOCK, map(str, key), strict=True)), Results(some, lines[key])

    @property
    def records(self) -> list[Record]:
        """The records of all jobs, in order."""
        return list(self.jobs.record)


def rows_of(lines: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of `Results.lines`, by the names of columns."""
    return [{str(name): value for name, value in row.items()} for row in lines.to_dict("records")]


def spread_of(line: Mapping[str, Any], metric: str) -> Spread | None:
    """The score of a row of `Results.lines`, if it has one; `paper_ll` and `paper_mrmse` are the paper's."""
    mean, sd = float(line[metric]), float(line[f"{metric}_sd"])
    return None if math.isnan(mean) else Spread(mean, None if math.isnan(sd) else sd)


def results_frame(results: Results) -> pd.DataFrame:
    """Every score of every job that succeeded. It holds no times: the same jobs give the same table."""
    metrics = [name for name in _MEASURED if name != "seconds"]
    tidy = results.jobs.melt([*COLUMNS[:-2]], metrics, "metric", "value", ignore_index=False)
    return tidy.dropna(subset="value").sort_index(kind="stable").reset_index(drop=True)


def summary_frame(results: Results) -> pd.DataFrame:
    """One row for each line and score: mean and sd over splits, the paper's, the difference in its sds, the rank.

    The paper's numbers stand beside random splits of the very data that it used, and nowhere else. Coverage has no
    rank: neither more nor less of it is better.
    """
    done = results.lines[results.lines.runs > 0]
    nothing = pd.Series(math.nan, index=done.index)
    parts = [
        done.assign(
            split=done.split_kind.map(_SPLITS),
            metric=metric,
            mean=done[metric],
            sd=done[f"{metric}_sd"],
            splits=done.runs,
            paper_mean=done.get(f"paper_{metric}", nothing),
            paper_sd=done.get(f"paper_{metric}_sd", nothing),
        )
        for metric in _SUMMARISED
    ]
    table = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)
    table["difference_in_paper_sds"] = (table["mean"] - table.paper_mean) / table.paper_sd
    signed = table["mean"].where(table.metric != "ll", -table["mean"])
    rivals = [table[name] for name in (*BLOCK, "setting", "metric")]
    table["rank"] = signed.groupby(rivals).rank(method="min").where(table.metric != "coverage_80").astype("Int64")
    row = ["experiment", "dataset", "split", "preset", "setting", "label", "kind", "noise_floor"]
    scores = ["metric", "mean", "sd", "splits", "paper_mean", "paper_sd", "difference_in_paper_sds", "rank"]
    return table[[*row, *scores]]


def timings_frame(results: Results) -> pd.DataFrame:
    """How long each job took, the epochs of its (first) start, and what makes it again."""
    names = ["experiment", "dataset", "split", "label", "preset", "setting"]
    return results.jobs[names].assign(
        seconds=[record.seconds for record in results.records],
        epochs=[len(record.curve) for record in results.records],
        commit=[record.commit or "" for record in results.records],
        command=[record.command for record in results.records],
    )


def configurations(results: Results) -> str:
    """What each job's numbers depend on, a line of JSON each: its split, its configuration, versions and commit."""
    names = ("split", "seed", "config", "versions", "commit", "command")
    lines = []
    for record in results.records:
        plain = record.to_json()
        lines.append(json.dumps({"job": record.slug} | {name: plain[name] for name in names}))
    return "".join(f"{line}\n" for line in lines)


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a table, all or nothing."""
    write_whole(
        path, lambda partial: frame.to_csv(partial, index=False, lineterminator="\n", float_format=NUMBER_FORMAT)
    )


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
_BOARD_SPLITS = {"random": "random rows", "groups": "by trajectory"}


@dataclass(frozen=True)
class Metric:
    """A column: how it is named and printed, and which end of it is good."""

    name: str
    heading: str
    digits: int
    higher_is_better: bool | None
    about: str
    with_spread: bool = False


BOARD_METRICS = (
    Metric("ll", "LL", 2, True, "test log likelihood per datapoint; higher is better", True),
    Metric("mrmse", "MRMSE", 3, False, "root mean squared error, mean over outputs; lower is better", True),
    Metric("crps", "CRPS", 4, False, "continuous ranked probability score; lower is better"),
    Metric("coverage_50", "50 %", 2, None, "share of test values in the central 50 % band; 0.50 is right"),
    Metric("coverage_80", "80 %", 2, None, "share of test values in the central 80 % band; 0.80 is right"),
    Metric("coverage_95", "95 %", 2, None, "share of test values in the central 95 % band; 0.95 is right"),
    Metric("seconds", "seconds", 1, None, "time to fit and predict, mean over jobs"),
)


@dataclass(frozen=True)
class BoardRow:
    """A line with its scores over splits and seeds, and the jobs they come from: none for a line of the paper's."""

    label: str
    kind: str  # model, baseline, paper
    sweep: str = ""
    at: Any = None
    model: str = ""
    is_plain: bool = False  # the paper's model without departures
    scores: dict[str, Spread] = field(default_factory=dict)
    jobs: tuple[Record, ...] = ()

    @property
    def num_failed(self) -> int:
        """How many of its jobs have no scores."""
        return sum(job.is_failed for job in self.jobs)

    @property
    def settings_label(self) -> str:
        """What a sweep varies, in words: "H = 8"."""
        return describe_settings(self.jobs[0].settings) if self.jobs else ""

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
    rows: tuple[BoardRow, ...]

    @property
    def _jobs(self) -> list[Record]:
        return [job for row in self.rows for job in row.jobs]

    @property
    def key(self) -> str:
        """A name that serves as an anchor."""
        return "-".join(word for word in (self.experiment, self.dataset, self.split_kind, self.preset) if word)

    @property
    def name(self) -> str:
        """The data, the split and the preset."""
        preset = f"preset {self.preset}" if self.preset else ""
        return _listed(self.dataset, _BOARD_SPLITS[self.split_kind], preset)

    @property
    def num_rows(self) -> str:
        """How many rows its jobs were trained and tested on, in words."""
        counts = [(job.num_train, job.split.num_test) for job in self._jobs]
        return describe_rows(counts) if counts else ""

    @property
    def units(self) -> str:
        """The units of all scores, in words."""
        return f"{self._jobs[0].config['units']} units" if self._jobs else ""

    @property
    def details(self) -> str:
        """Rows and units, which every number depends on."""
        return _listed(self.num_rows, self.units)

    @property
    def title(self) -> str:
        """Data, split, preset, rows and units."""
        return _listed(self.name, self.details)

    @property
    def about(self) -> str:
        """What the data are."""
        entry = CATALOGUE.get(self.dataset)
        return "" if entry is None else f"{_sentence(entry.what)}."

    @property
    def noise_floors(self) -> str:
        """The smallest noise that each line may predict."""
        return describe_floors((row.label, row.jobs[0].config["noise_floor"]) for row in self.rows if row.jobs)

    @property
    def stands_in_for(self) -> str | None:
        """The paper's name of the data that these replace, if any; its numbers are not shown beside these."""
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
        return any(row.kind == "paper" for row in self.rows)

    @property
    def has_settings(self) -> bool:
        """Whether lines differ by a setting of a sweep."""
        return any(row.sweep for row in self.rows)

    def against_paper(self, row: BoardRow) -> float | None:
        """By how many of the paper's standard deviations the LL of our line is above the paper's."""
        theirs = next((each for each in self.rows if each.kind == "paper" and each.label == row.label), None)
        if row.kind == "paper" or theirs is None or "ll" not in row.scores or "ll" not in theirs.scores:
            return None
        mean, sd = theirs.scores["ll"]
        return (row.scores["ll"].mean - mean) / sd if sd else None

    @property
    def low_end(self) -> float:
        """Where a scale of LL begins: at the lowest value, unless outliers would squash the rest."""
        known = sorted(row.scores["ll"].mean for row in self.rows if "ll" in row.scores)
        best, middle = known[-1], known[len(known) // 2]
        return max(known[0], best - 3 * (best - middle)) if best > middle else known[0]

    def bar(self, row: BoardRow) -> float | None:
        """How far along its LL is, from 0 at the low end of the scale to 1 at the best."""
        if "ll" not in row.scores:
            return None
        best = max(each.scores["ll"].mean for each in self.rows if "ll" in each.scores)
        share = (row.scores["ll"].mean - self.low_end) / (best - self.low_end) if best > self.low_end else 1.0
        return round(max(0.0, share), 3)

    def is_best(self, row: BoardRow, metric: Metric) -> bool:
        """Whether no other line but the paper's own is better by this metric."""
        known = [each.scores[metric.name].mean for each in self.rows if metric.name in each.scores and each.jobs]
        if metric.higher_is_better is None or metric.name not in row.scores or not row.jobs:
            return False
        return row.scores[metric.name].mean == (max if metric.higher_is_better else min)(known)

    def best(self, kind: str, metric: str = "ll") -> BoardRow | None:
        """The line of this kind with the highest score."""
        known = [row for row in self.rows if row.kind == kind and metric in row.scores]
        return max(known, key=lambda row: row.scores[metric].mean, default=None)


def boards(results: Results) -> list[Board]:
    """All tables, in the paper's order of experiments; failed jobs are rows without scores."""
    found = [
        Board(key["experiment"], key["dataset"], key["split_kind"], key["preset"], tuple(_board_rows(some)))
        for key, some in results.blocks()
    ]
    return sorted(found, key=_board_place)


def _board_rows(block: Results) -> list[BoardRow]:
    """Our lines and the paper's, best first."""
    jobs = {key: tuple(some.record) for key, some in block.jobs.groupby(LINE, sort=False, dropna=False)}
    ours, theirs = [], {}
    for line in rows_of(block.lines):
        scores = {name: spread for name in _MEASURED if (spread := spread_of(line, name)) is not None}
        records = jobs[tuple(line[name] for name in LINE)]
        first = records[0]
        plain = first.variant == Variant((first.model.upper(),))
        at = first.settings.get(line["sweep"])
        ours.append(BoardRow(first.label, first.kind, line["sweep"], at, first.model, plain, scores, records))
        paper = {name: spread for name in PAPER_METRICS if (spread := spread_of(line, f"paper_{name}")) is not None}
        if paper:
            theirs[first.label] = BoardRow(first.label, "paper", scores=paper)
    return sorted([*ours, *theirs.values()], key=_goodness, reverse=True)


def _board_place(board: Board) -> tuple[int, str, bool, str, bool, str]:
    """The paper's order of experiments, the paper's own data before others, random rows before trajectories."""
    names, entry = list(SECTIONS), CATALOGUE.get(board.dataset)
    number = names.index(board.experiment) if board.experiment in names else len(names)
    of_paper = board.experiment == "synthetic" if entry is None else entry.paper is not None
    return number, board.experiment, not of_paper, board.dataset, board.split_kind != "random", board.preset


def _goodness(row: BoardRow) -> tuple[bool, float]:
    return ("ll" in row.scores, row.scores["ll"].mean if "ll" in row.scores else 0.0)


def _listed(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


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


def describe_settings(settings: Mapping[str, Any]) -> str:
    """What a sweep varies, for a reader.

    >>> describe_settings({"num_hidden": 8})
    'H = 8'
    """
    signs = {"num_hidden": "H", "num_train": "N", "num_missing": "missing"}
    return ", ".join(f"{signs.get(name, name)} = {value}" for name, value in settings.items())


def describe_rows(counts: Iterable[tuple[int, int]]) -> str:
    """The rows that jobs were trained and tested on, in words; from the fewest to the most where jobs differ.

    >>> describe_rows([(15068, 5000), (15068, 5000)])
    '15,068 training and 5,000 test rows'
    >>> describe_rows([(250, 2000), (4000, 2000)])
    '250 to 4,000 training and 2,000 test rows'
    """
    train, test = zip(*counts, strict=True)
    return f"{_range(train)} training and {_range(test)} test rows"


def describe_floors(floors: Iterable[tuple[str, str]]) -> str:
    """Labels and the smallest noise that each may predict, in a sentence: log likelihoods depend on it.

    >>> describe_floors([("MOGP", "none"), ("MOGP + GP noise", "sd 0.0001 of an output's scale")])
    "Noise floor: sd 0.0001 of an output's scale (MOGP + GP noise), none (all others)."
    >>> describe_floors([("MOGP", "none")])
    'No noise floor.'
    """
    labels: dict[str, list[str]] = {}
    for label, floor in dict(floors).items():
        labels.setdefault(floor, []).append(label)
    without = labels.pop(NO_FLOOR, [])
    if not labels:
        return "No noise floor."
    parts = [f"{floor} ({'; '.join(some)})" for floor, some in labels.items()]
    return f"Noise floor: {', '.join([*parts, *(['none (all others)'] if without else [])])}."


def _range(counts: Collection[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _job(record: Record) -> dict[str, Any]:
    """The fields of a job, and its scores where it succeeded."""
    sweep = next(iter(record.settings), "")
    scores = {} if record.is_failed else {**record.metrics, "seconds": record.seconds}
    described = {
        "split_kind": record.split.kind,
        "split": record.split_label,
        "noise_floor": record.config["noise_floor"],
        "sweep": sweep,
        "at": record.settings.get(sweep),
        "record": record,
    }
    own = ("experiment", "dataset", "preset", "setting", "label", "kind", "model")
    return {name: getattr(record, name) for name in own} | described | vars(record.variant) | scores


def _place(record: Record) -> tuple[object, ...]:
    declared = EXPERIMENTS.get(record.experiment)
    return (
        list(EXPERIMENTS).index(record.experiment) if declared else len(EXPERIMENTS),
        record.dataset,
        record.preset,
        record.split.kind != "random",
        record.seed,
        record.kind == "model",
        declared.place(record.kind, record.variant) if declared else (),
        record.label,
        sorted(record.settings.items()),
    )


def _published(line: Mapping[str, Any], metric: str) -> Spread:
    """The paper's number beside the same line on random splits of the same data, or NaN."""
    comparable = line["split_kind"] == "random" and not line["setting"]
    found = published(line["experiment"], line["dataset"], line["label"], metric) if comparable else None
    mean, sd = (math.nan, None) if found is None else found
    return Spread(mean, math.nan if sd is None else sd)
