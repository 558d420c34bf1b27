"""Training objectives, and closed-form updates of parameters whose optimum is known."""

from mogul.objective.elbo import (
    Analytic,
    Balanced,
    Elbo,
    ElboTerms,
    Expectation,
    MonteCarlo,
    Objective,
    ObjectiveName,
    Predictive,
    RowMoments,
    objective_by_name,
    require_objective,
    row_log_likelihood,
    row_log_predictive,
)

__all__ = [
    "Analytic",
    "Balanced",
    "Elbo",
    "ElboTerms",
    "Expectation",
    "MonteCarlo",
    "Objective",
    "ObjectiveName",
    "Predictive",
    "RowMoments",
    "objective_by_name",
    "require_objective",
    "row_log_likelihood",
    "row_log_predictive",
]
