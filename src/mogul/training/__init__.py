"""Training: exact GPs for few rows, random starts and minibatches for many."""

from mogul.config import Stopping, TrainingConfig
from mogul.fitted.blueprint import Blueprint
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.fitted.history import EpochRecord, History
from mogul.objective.updates import NaturalGradient, NoiseUpdate, Step, Update
from mogul.training.fit import fit
from mogul.training.run import Run

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
