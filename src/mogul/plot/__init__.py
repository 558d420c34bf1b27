"""Plots of fitted models: each takes a Matplotlib `Axes`, or makes one, and gives it back."""

from mogul.plot.checks import calibration, pit_histogram, predicted_against_true
from mogul.plot.latent import latent_map
from mogul.plot.slices import slice_through
from mogul.plot.structure import correlations, relevance
from mogul.plot.training import learning_curve

__all__ = [
    "calibration",
    "correlations",
    "latent_map",
    "learning_curve",
    "pit_histogram",
    "predicted_against_true",
    "relevance",
    "slice_through",
]
