"""Processes over functions: sparse variational GPs, shallow and deep."""

from mogul.priors.deep import DeepGPs, Sites
from mogul.priors.kernels import DeepKernel, ScaledPeriodic, ScaledRadial, ScaledRBF, kernel_by_name, own_kernel, rbf
from mogul.priors.means import ConstantMean, LinearMean, Mean, mean_by_name, principal_directions
from mogul.priors.solvers import CIQ, Cholesky, Solver, with_more_jitter
from mogul.priors.sparse import IndependentGPs, Prior, kmeans, randomise

__all__ = [
    "CIQ",
    "Cholesky",
    "ConstantMean",
    "DeepGPs",
    "DeepKernel",
    "IndependentGPs",
    "LinearMean",
    "Mean",
    "Prior",
    "ScaledPeriodic",
    "ScaledRBF",
    "ScaledRadial",
    "Sites",
    "Solver",
    "kernel_by_name",
    "kmeans",
    "mean_by_name",
    "own_kernel",
    "principal_directions",
    "randomise",
    "rbf",
    "with_more_jitter",
]
