"""Training: random starts, minibatches, rates, annealing."""

from mogul.training.config import TrainingConfig
from mogul.training.fit import fit
from mogul.training.fitted import Fitted, FittedLatent
from mogul.training.history import EpochRecord, History
from mogul.training.run import Run

__all__ = ["EpochRecord", "Fitted", "FittedLatent", "History", "Run", "TrainingConfig", "fit"]
