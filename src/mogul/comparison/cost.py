"""Roughly how long a comparison takes: said before it starts, and again by what the first fold took.

Noise with heavy tails and rough kernels take several times as long as smooth functions with Normal noise, so that the
first figure is right within a factor of three or four.
"""

import math
from collections.abc import Sequence

from mogul.comparison.crossval import Split
from mogul.data import Dataset
from mogul.models.families import AUTO, members
from mogul.training.defaults import FEW_ROWS, MODELS, default_model

# Seconds of exact GPs for an output: they climb on at most 1,000 rows, and are then refined on all.
_EXACT, _REFINED = 1e-2, 4e-3
_CLIMBED_ROWS = 1000
# Of a few hundred gradient steps after them, for a row and an output.
_STEPS_AFTER = 1e-2
# Of a fit by minibatches, whose steps do not depend on the number of rows, and what each further output adds.
_MINIBATCHES, _PER_OUTPUT = 25.0, 4.0
# Of a rival, for a row and an output.
_RIVAL = {"trees": 4e-4, "boosting": 1e-3, "exact-gps": 2e-2, "gpar": 5e-2}
_OTHER_RIVAL = 5e-3


def estimated_seconds(data: Dataset, models: Sequence[str], rivals: Sequence[str], splits: Sequence[Split]) -> float:
    """Seconds for all models and rivals on all splits, by timings on data of many sizes.

    >>> import numpy as np
    >>> data = Dataset(np.zeros((400, 2)), np.zeros((400, 1)))
    >>> split = (np.arange(200), np.arange(200, 400))
    >>> round(estimated_seconds(data, ["mogp"], [], [split, split]), 1)
    6.0
    """
    total = 0.0
    for kept, _ in splits:
        total += sum(_of_model(name, len(kept), data.num_outputs) for model in models for name in _each(model))
        total += sum(_RIVAL.get(name, _OTHER_RIVAL) * len(kept) * data.num_outputs for name in rivals)
    return total


def time_in_words(seconds: float) -> str:
    """As roughly as it is known.

    >>> [time_in_words(each) for each in (3.0, 34.0, 100.0, 1000.0, 9000.0)]
    ['about 10 seconds', 'about 40 seconds', 'about 2 minutes', 'about 17 minutes', 'about 2.5 hours']
    """
    if seconds < 90:
        return f"about {max(10, 10 * math.ceil(seconds / 10))} seconds"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"


def _each(model: str) -> Sequence[str]:
    return MODELS if model == AUTO else members(model)


def _of_model(name: str, num_rows: int, num_outputs: int) -> float:
    if num_rows > FEW_ROWS:
        return _MINIBATCHES + _PER_OUTPUT * num_outputs
    climbed = min(num_rows, _CLIMBED_ROWS)
    exact = 1.0 + num_outputs * (_EXACT * climbed + _REFINED * (num_rows - climbed))
    solved = name == default_model(num_rows, num_outputs)  # exact GPs leave the default nothing to train
    return exact if solved else exact + _STEPS_AFTER * num_outputs * num_rows
