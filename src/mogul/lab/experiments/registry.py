"""The experiments by name."""

from mogul.errors import unknown_name
from mogul.lab.experiments.experiment import Experiment
from mogul.lab.experiments.hidden_units import HIDDEN_UNITS
from mogul.lab.experiments.missing_outputs import MISSING_OUTPUTS
from mogul.lab.experiments.regression import REGRESSION
from mogul.lab.experiments.small_data import SMALL_DATA
from mogul.lab.experiments.synthetic import SYNTHETIC
from mogul.lab.experiments.unsupervised import UNSUPERVISED

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each for each in (SYNTHETIC, REGRESSION, UNSUPERVISED, HIDDEN_UNITS, SMALL_DATA, MISSING_OUTPUTS)
}


def experiment(name: str) -> Experiment:
    """The experiment of this name.

    >>> experiment("small-data").section
    '5.6'
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
