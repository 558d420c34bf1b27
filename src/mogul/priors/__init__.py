"""Processes over functions: sparse variational GPs."""

from mogul.priors.inducing import kmeans
from mogul.priors.kernels import rbf
from mogul.priors.solvers import Cholesky, Solver
from mogul.priors.sparse import IndependentGPs, MeanName, Prior, randomise

__all__ = ["Cholesky", "IndependentGPs", "MeanName", "Prior", "Solver", "kmeans", "randomise", "rbf"]
