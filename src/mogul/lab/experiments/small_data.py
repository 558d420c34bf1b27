"""The paper's section 5.6: training and test log likelihood as training rows become few."""

import numpy as np

from mogul.data import Dataset
from mogul.lab.experiments.experiment import Experiment, Settings
from mogul.lab.experiments.lines import line


def fewer_rows(train: Dataset, test: Dataset, settings: Settings, seed: int) -> tuple[Dataset, Dataset]:
    """So many of the training rows; fewer are among more, and other splits have others."""
    order = np.random.default_rng([seed, 1]).permutation(train.num_rows)
    return train.rows(order[: settings["num_train"]]), test


def _at_most_all(train: Dataset) -> range:
    return range(2, train.num_rows + 1)


SMALL_DATA = Experiment(
    name="small-data",
    section="5.6",
    title="small data regime",
    groups={"all": [line("mogp"), line("n-mogp")], "deep": [line("n-dgp")]},
    dataset="rhythmic-arm",
    setting="num_train",
    points=(250, 500, 1000, 2000, 4000),
    num_splits=15,
    options={"num_inducing": 250},
    scores_training=True,
    prepare=fewer_rows,
    limits=_at_most_all,
)
