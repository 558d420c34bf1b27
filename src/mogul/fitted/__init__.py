"""Fitted models in the user's units: predictions, mixtures, latent inputs, calibration, files."""

from mogul.fitted.blueprint import Blueprint
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.fitted.history import EpochRecord, History

__all__ = ["Blueprint", "EpochRecord", "Fitted", "FittedLatent", "History"]
