"""Predictive distributions at new points: moments, mixtures, densities, draws."""

from mogul.prediction.prediction import Prediction, predict

__all__ = ["Prediction", "predict"]
