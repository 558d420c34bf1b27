"""Means over splits, beside the paper's, and who is ahead."""

from collections.abc import Iterable

import pandas as pd

from mogul.lab.experiments.paper import published
from mogul.lab.experiments.record import Record
from mogul.lab.experiments.split_choice import BY_TRAJECTORY
from mogul.lab.report.results import in_order

METRICS = ("ll", "mrmse", "crps", "coverage_80")
HIGHER_IS_BETTER = ("ll",)
ROW = ["experiment", "dataset", "split", "preset", "setting", "label", "kind", "noise_floor"]
_PAPER = ["paper_mean", "paper_sd", "difference_in_paper_sds"]
RIVALS = ["experiment", "dataset", "split", "preset", "setting", "metric"]


def summary_frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row for each line and score: mean and sd over splits, the paper's, the difference in its sds, the rank.

    The paper's numbers stand beside random splits of the very data that it used, and nowhere else. Coverage has no
    rank: neither more nor less of it is better.
    """
    rows = [_row(record, metric) for record in in_order(records) if record.error is None for metric in METRICS]
    if not rows:
        return pd.DataFrame(columns=[*ROW, "metric", "mean", "sd", "splits", *_PAPER, "rank"])
    frame = pd.DataFrame(rows).astype({"paper_mean": float, "paper_sd": float})
    grouped = frame.groupby([*ROW, "metric", *_PAPER[:2]], sort=False, dropna=False)["value"]
    table = grouped.agg(mean="mean", sd="std", splits="count").reset_index()
    table["difference_in_paper_sds"] = (table["mean"] - table["paper_mean"]) / table["paper_sd"]
    signed = table["mean"].where(~table["metric"].isin(HIGHER_IS_BETTER), -table["mean"])
    rank = signed.groupby([table[name] for name in RIVALS]).rank(method="min")
    table["rank"] = rank.where(table["metric"] != "coverage_80").astype("Int64")
    return table[[*ROW, "metric", "mean", "sd", "splits", *_PAPER, "rank"]]


def split_kind(record: Record) -> str:
    """What splits are averaged over: `random`, or `by trajectory`."""
    return record.split.kind if record.split.kind == "random" else BY_TRAJECTORY


def _row(record: Record, metric: str) -> dict[str, object]:
    kind = split_kind(record)
    comparable = kind == "random" and not record.settings
    theirs = published(record.experiment, record.dataset, record.label, metric) if comparable else None
    return {
        "experiment": record.experiment,
        "dataset": record.dataset,
        "split": kind,
        "preset": record.preset,
        "setting": record.setting,
        "label": record.label,
        "kind": record.kind,
        "noise_floor": record.config["noise_floor"],
        "metric": metric,
        "value": record.metrics[metric],
        "paper_mean": None if theirs is None else theirs.mean,
        "paper_sd": None if theirs is None else theirs.sd,
    }
