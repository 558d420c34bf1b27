"""Records as tidy tables: one row for each number, always in the same order and the same format."""

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from mogul.lab.experiments.record import METRICS, TRAINING_METRICS, Record
from mogul.lab.experiments.registry import EXPERIMENTS
from mogul.storage.atomic import write_whole

COLUMNS = ["experiment", "dataset", "split", "label", "kind", "preset", "setting", "noise_floor", "metric", "value"]
NUMBER_FORMAT = "%.6g"


def in_order(records: Iterable[Record]) -> list[Record]:
    """By experiment, data set, preset and split; baselines first, then models as their experiment lists them."""
    return sorted(records, key=_place)


def results_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Every score of every job that succeeded. It holds no times: the same jobs give the same table."""
    rows = [
        [
            record.experiment,
            record.dataset,
            record.split_label,
            record.label,
            record.kind,
            record.preset,
            record.setting,
            record.config["noise_floor"],
            metric,
            record.metrics[metric],
        ]
        for record in in_order(records)
        for metric in (*METRICS, *TRAINING_METRICS)
        if metric in record.metrics
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def timings_frame(records: Iterable[Record]) -> pd.DataFrame:
    """How long each job took, the epochs of its (first) start, and what makes it again."""
    rows = [
        [
            record.experiment,
            record.dataset,
            record.split_label,
            record.label,
            record.preset,
            record.setting,
            record.seconds,
            len(record.curve),
            record.commit or "",
            record.command,
        ]
        for record in in_order(records)
    ]
    names = ["experiment", "dataset", "split", "label", "preset", "setting", "seconds", "epochs", "commit", "command"]
    return pd.DataFrame(rows, columns=names)


def configurations(records: Iterable[Record]) -> str:
    """What each job's numbers depend on, a line of JSON each: its split, its configuration, versions and commit."""
    names = ("split", "seed", "config", "versions", "commit", "command")
    lines = []
    for record in in_order(records):
        plain = record.to_json()
        lines.append(json.dumps({"job": record.slug} | {name: plain[name] for name in names}))
    return "".join(f"{line}\n" for line in lines)


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a table, all or nothing."""
    write_whole(
        path, lambda partial: frame.to_csv(partial, index=False, lineterminator="\n", float_format=NUMBER_FORMAT)
    )


def _place(record: Record) -> tuple[object, ...]:
    return (
        list(EXPERIMENTS).index(record.experiment),
        record.dataset,
        record.preset,
        record.split.kind != "random",
        record.seed,
        record.kind == "model",
        EXPERIMENTS[record.experiment].order(record.label),
        record.label,
        sorted(record.settings.items()),
    )
