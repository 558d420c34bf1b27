"""Jobs of a few rows, and records that were never run."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mogul.data import Dataset
from mogul.data.splits import GroupedData
from mogul.lab.experiments.declarations import Experiment
from mogul.lab.experiments.record import METRICS, Job, Record
from mogul.lab.experiments.request import ExperimentRequest, SplitChoice

NAMES = ["next_q1", "next_q2", "next_q3", "next_q4"]


def small_arm(name: str = "kuka", num_rows: int = 60) -> GroupedData:
    """Four outputs of three inputs, nearly linear, in six trajectories."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, 3))
    y = x @ rng.normal(size=(3, 4)) + 0.1 * np.sin(3 * x[:, :1]) + 0.05 * rng.normal(size=(num_rows, 4))
    data = Dataset(pd.DataFrame(x, columns=["q1", "q2", "q3"]), pd.DataFrame(y, columns=NAMES))
    return GroupedData(name, data, np.repeat(np.arange(1, 7), num_rows // 6), num_test=20)


def small(experiment: Experiment, **changes: Any) -> Experiment:
    """The experiment on the small arm."""
    grouped = small_arm()
    return replace(experiment, load=lambda dataset, folder, preset: lambda seed: grouped, **changes)


def tasks(experiment: Experiment, **choices: Any) -> list[tuple[Job, GroupedData]]:
    """Its jobs, of one random split and one epoch unless said otherwise."""
    settings: dict[str, Any] = {"splits": SplitChoice((0,)), "epochs": 1, **choices}
    return ExperimentRequest(experiment, settings.pop("preset", "fast"), **settings).tasks()


def record(label: str = "MOGP", seed: int | None = 0, **changes: Any) -> Record:
    """A record on random split `seed`, or by trajectory, that nobody computed."""
    grouped = small_arm(changes.get("dataset", "kuka"))
    metrics = dict.fromkeys(METRICS, 0.5) | changes.pop("metrics", {})
    values: dict[str, Any] = {
        "experiment": "regression",
        "dataset": "kuka",
        "split": grouped.group_split() if seed is None else grouped.random_split(seed),
        "split_label": "by trajectory" if seed is None else f"random {seed}",
        "label": label,
        "kind": "model",
        "model": "mogp",
        "settings": {},
        "preset": "fast",
        "seed": seed or 0,
        "command": "mogul reproduce regression",
        "config": {"units": "standardised", "noise_floor": "none"},
        "versions": {},
        "commit": None,
        "seconds": 12.3,
        "metrics": metrics,
    }
    return Record(**(values | changes))
