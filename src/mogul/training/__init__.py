"""Training: data → split → starts → loop → fitted. Exact GPs for few rows, restarts and minibatches for many."""

from mogul.config import Stopping, TrainingConfig
from mogul.fitted.blueprint import Blueprint
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.fitted.history import EpochRecord, History
from mogul.objective.updates import NaturalGradient, NoiseUpdate, Step, Update
from mogul.training.fit import FitRequest, fit
from mogul.training.loop import Run

__all__ = [
    "Blueprint",
    "EpochRecord",
    "FitRequest",
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
