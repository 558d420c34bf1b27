"""Processes over functions: sparse variational GPs, shallow and deep."""

from mogul.priors.deep import DeepGPs
from mogul.priors.inducing import kmeans
from mogul.priors.inner import Sites
from mogul.priors.kernels import DeepKernel, ScaledRBF, own_kernel, rbf
from mogul.priors.means import ConstantMean, LinearMean, Mean, MeanName, mean_by_name, principal_directions
from mogul.priors.solvers import CIQ, Cholesky, Solver, with_more_jitter
from mogul.priors.sparse import IndependentGPs, Prior, randomise

__all__ = [
    "CIQ",
    "Cholesky",
    "ConstantMean",
    "DeepGPs",
    "DeepKernel",
    "IndependentGPs",
    "LinearMean",
    "Mean",
    "MeanName",
    "Prior",
    "ScaledRBF",
    "Sites",
    "Solver",
    "kmeans",
    "mean_by_name",
    "own_kernel",
    "principal_directions",
    "randomise",
    "rbf",
    "with_more_jitter",
]
