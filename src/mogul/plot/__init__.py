"""Plots of fitted models: each takes a Matplotlib `Axes`, or makes one, and gives it back."""

from mogul.plot.checks import calibration, learning_curve, pit_histogram, predicted_against_true
from mogul.plot.effects import map, partial_dependence, slice_through
from mogul.plot.rollouts import fan
from mogul.plot.structure import correlations, latent_map, relevance

__all__ = [
    "calibration",
    "correlations",
    "fan",
    "latent_map",
    "learning_curve",
    "map",
    "partial_dependence",
    "pit_histogram",
    "predicted_against_true",
    "relevance",
    "slice_through",
]
