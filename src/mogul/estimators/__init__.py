"""Scikit-learn estimators: a regressor, and a latent-variable model."""

from mogul.estimators.latent import MultiOutputGPLVM
from mogul.estimators.regressor import MultiOutputGPRegressor

__all__ = ["MultiOutputGPLVM", "MultiOutputGPRegressor"]
