"""The paper's section 5.7: k of the P outputs of every training row are missing."""

import numpy as np
import pandas as pd

from mogul.data import Dataset
from mogul.lab.experiments.experiment import Experiment, Settings
from mogul.lab.experiments.lines import line


def with_gaps(train: Dataset, test: Dataset, settings: Settings, seed: int) -> tuple[Dataset, Dataset]:
    """The same number of outputs missing in every training row, others in each row and each split."""
    places = np.tile(np.arange(train.num_outputs), (train.num_rows, 1))
    shuffled = np.random.default_rng([seed, 2]).permuted(places, axis=1)
    y = np.where(shuffled < settings["num_missing"], np.nan, train.y)
    inputs = pd.DataFrame(train.x, columns=train.input_names)
    return Dataset(inputs, pd.DataFrame(y, columns=train.output_names)), test


def _some_left(train: Dataset) -> range:
    return range(train.num_outputs)


MISSING_OUTPUTS = Experiment(
    name="missing-outputs",
    section="5.7",
    title="missing outputs",
    groups={"all": [line("mogp"), line("n-mogp")]},
    setting="num_missing",
    points=(0, 3, 6, 9),
    holds_out_groups=True,
    prepare=with_gaps,
    limits=_some_left,
)
