"""Predictive distributions at new points: moments, mixtures, densities, draws."""

from mogul.prediction.prediction import Prediction, predict
from mogul.prediction.warped import Warped

__all__ = ["Prediction", "Warped", "predict"]
