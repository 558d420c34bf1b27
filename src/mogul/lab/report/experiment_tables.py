"""The tables of an experiment as words and numbers, for a terminal, for Markdown and for LaTeX."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mogul.lab.datasets.catalogue import CATALOGUE
from mogul.lab.experiments.paper import Published, published
from mogul.lab.experiments.record import Record
from mogul.lab.experiments.registry import EXPERIMENTS
from mogul.lab.report.leaderboard import describe_settings
from mogul.lab.report.noise_floors import describe_floors
from mogul.lab.report.results import in_order
from mogul.lab.report.row_counts import describe_rows
from mogul.lab.report.summary import split_kind

_DIGITS = {"ll": 2, "mrmse": 3, "crps": 4, "coverage_80": 2, "train_ll": 2}
_HEADINGS = {
    "ll": "test LL",
    "mrmse": "MRMSE",
    "crps": "CRPS",
    "coverage_80": "in 80 % band",
    "train_ll": "training LL",
}
_PAPER_HEADINGS = ["the paper's LL", "the paper's MRMSE", "LL above it, in its sd"]
_HELD_OUT = "A fifth of the training trajectories said how long models on a plane should train, on all of them."


@dataclass(frozen=True)
class ExperimentTable:
    """A table: its title, its columns, its rows in sections (baselines, models), and what must be said below it."""

    title: str
    headings: list[str]
    sections: dict[str, list[list[str]]]
    note: str


def experiment_tables(records: Iterable[Record]) -> list[ExperimentTable]:
    """One table for each experiment, data set, kind of split and preset."""
    tables: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in in_order(records):
        key = record.experiment, record.dataset, split_kind(record), record.preset
        tables.setdefault(key, []).append(record)
    return [_table_of(some) for some in tables.values()]


def result_line(record: Record) -> str:
    """One job in a line, for a person who watches."""
    words = [record.dataset, record.split_label, record.label, record.setting]
    name = ", ".join(word for word in words if word)
    if record.error is not None:
        return f"{name}: failed: {record.error}"
    return f"{name}: LL {record.metrics['ll']:.2f}  MRMSE {record.metrics['mrmse']:.3f}  ({record.seconds:.0f} s)"


def _table_of(records: Sequence[Record]) -> ExperimentTable:
    rows: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        rows.setdefault((record.label, record.setting), []).append(record)
    scores = [name for name in _HEADINGS if any(name in record.metrics for record in records)]
    swept, with_paper = any(record.settings for record in records), any(_theirs(record)[0] for record in records)
    repeated = any(len(some) > 1 for some in rows.values())
    sections: dict[str, list[list[str]]] = {}
    for some in rows.values():
        section = "baselines" if some[0].kind == "baseline" else "models"
        setting = describe_settings(some[0].settings)
        cells = [some[0].label, *([setting] if swept else []), *_cells(some, scores)]
        cells += [str(sum(record.error is None for record in some))] * repeated
        sections.setdefault(section, []).append(cells + (_paper_cells(some) if with_paper else []))
    headings = ["model", *(["setting"] if swept else []), *(_HEADINGS[name] for name in scores), "seconds"]
    headings += ["runs"] * repeated + _PAPER_HEADINGS * with_paper
    return ExperimentTable(_title(records), headings, sections, _note(records))


def _title(records: Sequence[Record]) -> str:
    """Data, splits, rows, preset, units: what a number means nothing without; a column tells how many runs."""
    first = records[0]
    declared = EXPERIMENTS[first.experiment]
    seeds = sorted({record.seed for record in records})
    splits = "split by trajectory"
    if split_kind(first) == "random":
        splits = f"random split, seed {seeds[0]}" if len(seeds) == 1 else "random splits"
    rows = describe_rows(
        (record.settings.get("num_train", record.split.num_train), record.split.num_test) for record in records
    )
    units = f"{first.config['units']} units"
    return f"{first.dataset}: {declared.title}, {splits}, {rows}, preset {first.preset}, {units}"


def _note(records: Sequence[Record]) -> str:
    entry = CATALOGUE.get(records[0].dataset)
    failed = [result_line(record) for record in records if record.error is not None]
    stand_in = [f"{entry.name} is {entry.is_not}."] if entry is not None and entry.stands_in_for else []
    watching = [record for record in records if record.config.get("held_out")]
    held_out = [_HELD_OUT] if watching else []
    floors = describe_floors((record.label, record.config["noise_floor"]) for record in records)
    return " ".join([floors, *held_out, *stand_in, *failed])


def _cells(records: Sequence[Record], scores: Sequence[str]) -> list[str]:
    """Means over runs; spreads where there are several."""
    done = [record for record in records if record.error is None]
    if not done:
        return ["failed", *[""] * len(scores)]
    cells = [
        print_spread([record.metrics[name] for record in done if name in record.metrics], _DIGITS[name])
        for name in scores
    ]
    return [*cells, f"{statistics.fmean(record.seconds for record in done):.0f}"]


def print_spread(values: Sequence[float], digits: int) -> str:
    """A mean, with the standard deviation where there are several.

    >>> print_spread([1.0, 2.0], 2)
    '1.50 ± 0.71'
    """
    if not values:
        return ""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def _theirs(record: Record) -> tuple[Published | None, Published | None]:
    """The paper's LL and MRMSE for the same line on the same data."""
    if split_kind(record) != "random" or record.settings:
        return None, None
    row = record.experiment, record.dataset, record.label
    return published(*row, "ll"), published(*row, "mrmse")


def _paper_cells(records: Sequence[Record]) -> list[str]:
    ll, mrmse = _theirs(records[0])
    done = [record.metrics["ll"] for record in records if record.error is None]
    above = ""
    if ll is not None and ll.sd is not None and done:
        above = f"{(statistics.fmean(done) - ll.mean) / ll.sd:+.1f}"
    return [print_published(ll, 2), print_published(mrmse, 3), above]


def print_published(theirs: Published | None, digits: int) -> str:
    """A number of the paper's, or nothing."""
    if theirs is None:
        return ""
    return f"{theirs.mean:.{digits}f}" + ("" if theirs.sd is None else f" ± {theirs.sd:.{digits}f}")
