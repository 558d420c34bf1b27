"""The paper's own numbers, and the one place where our labels meet its names."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from mogul.lab.datasets.catalogue import CATALOGUE

METRICS = {"ll": "LL", "mrmse": "MRMSE"}
# Where the paper names a choice that is the default here.
_SAID_BY_THE_PAPER = {"N-DGP (L'=L)": "N-DGP (L'=L, erf)"}


@dataclass(frozen=True)
class Published:
    """Mean and standard deviation over the paper's splits; it gives none for one data set."""

    mean: float
    sd: float | None


def published(experiment: str, dataset: str, label: str, metric: str) -> Published | None:
    """What the paper reports for this line on these very data: nothing for data that stand in for others.

    >>> published("regression", "kuka", "N-DGP (L′ = L)", "ll")
    Published(mean=23.69, sd=0.23)
    """
    known = CATALOGUE.get(dataset)
    name = dataset if known is None else known.paper
    if name is None or metric not in METRICS:
        return None
    return numbers().get((experiment, paper_name(label), name, METRICS[metric]))


def paper_name(label: str) -> str:
    """What the paper calls a line of ours.

    >>> paper_name("N-MOGP-LVM (H = 7, erf)")
    'N-MOGP (D_H=7, erf)'
    """
    name = label.replace("L′ = L", "L'=L").replace("H = ", "D_H=").replace("-LVM", "")
    return _SAID_BY_THE_PAPER.get(name, name)


@cache
def numbers() -> Mapping[tuple[str, str, str, str], Published]:
    """Everything in its tables and in section 5.1, by experiment, model, data set and metric."""
    with files("mogul.lab.experiments").joinpath("paper.csv").open(encoding="utf-8") as content:
        rows = list(csv.DictReader(content))
    keys = ("experiment", "model", "dataset", "metric")
    return MappingProxyType(
        {
            (row[keys[0]], row[keys[1]], row[keys[2]], row[keys[3]]): Published(
                float(row["mean"]), float(row["sd"]) if row["sd"] else None
            )
            for row in rows
        }
    )
