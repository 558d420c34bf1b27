"""Training: exact GPs for few rows, random starts and minibatches for many."""

from mogul.training.blueprint import Blueprint
from mogul.training.config import TrainingConfig
from mogul.training.fit import fit
from mogul.training.fitted import Fitted, FittedLatent
from mogul.training.history import EpochRecord, History
from mogul.training.run import Run
from mogul.training.stopping import Stopping
from mogul.training.updates import NaturalGradient, NoiseUpdate, Step, Update

__all__ = [
    "Blueprint",
    "EpochRecord",
    "Fitted",
    "FittedLatent",
    "History",
    "NaturalGradient",
    "NoiseUpdate",
    "Run",
    "Step",
    "Stopping",
    "TrainingConfig",
    "Update",
    "fit",
]
