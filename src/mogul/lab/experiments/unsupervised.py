"""The paper's unsupervised experiment, section 5.4: tables 3 and 7, models with latent inputs."""

import numpy as np
import pandas as pd

from mogul.data import Dataset
from mogul.lab.baselines import Baseline
from mogul.lab.baselines.principal import predict_principal
from mogul.lab.experiments.experiment import Experiment, Settings
from mogul.lab.experiments.lines import line

_TABLE_3 = [line("mogp-lvm"), line("n-mogp-lvm"), line("n-sbgprn-lvm")]
# N-MOGP has 14 hidden units and leaky ReLU, N-SBGPRN ReLU, unless said otherwise.
_TABLE_7 = [
    line("mogp-lvm"),
    *(line("n-mogp-lvm", nonlinearity=sigma, hidden=7) for sigma in ("erf", "relu", "sherf", "leaky")),
    line("n-mogp-lvm"),
    *(line("n-mogp-lvm", nonlinearity=sigma, hidden=14) for sigma in ("erf", "relu", "sherf")),
    line("n-sbgprn-lvm"),
    *(line("n-sbgprn-lvm", nonlinearity=sigma) for sigma in ("erf", "sherf", "leaky")),
]


def concatenated(train: Dataset, test: Dataset, settings: Settings, seed: int) -> tuple[Dataset, Dataset]:
    """y ← (x, y): inputs and outputs together are what is to be explained."""
    return _outputs_only(train), _outputs_only(test)


def _outputs_only(data: Dataset) -> Dataset:
    values = np.concatenate([data.x, data.y], axis=1)
    frame = pd.DataFrame(values, columns=[*data.input_names, *data.output_names])
    return Dataset(None, frame, check_outputs=False)


UNSUPERVISED = Experiment(
    name="unsupervised",
    section="5.4",
    title="unsupervised learning",
    groups={"table-3": _TABLE_3, "table-7": _TABLE_7},
    baselines={"pca": Baseline("probabilistic PCA", predict_principal, applies=lambda train: train.num_outputs > 1)},
    prepare=concatenated,
)
