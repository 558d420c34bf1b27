"""The estimators in scikit-learn's world: its own checks, and its tools."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers.small_estimators import SMALL, SMALL_LVM, X, Y, regressor

from mogul import MultiOutputGPLVM, MultiOutputGPRegressor
from mogul.nonlinearities import Erf

# Beside these, scikit-learn itself skips `check_array_api_input` where SCIPY_ARRAY_API is not set.
EXPECTED_FAILURES = {
    "MultiOutputGPRegressor": {
        "check_sample_weight_equivalence_on_dense_data": "It gives the copies in another order than the weights, and "
        "where inducing points and random starts begin depends on the order of rows. In the same order, weights and "
        "copies agree bit for bit: test_weights_are_copies."
    },
}


@parametrize_with_checks(
    [MultiOutputGPRegressor(**(SMALL | {"epochs": 5})), MultiOutputGPLVM(2, **SMALL_LVM)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
@pytest.mark.filterwarnings("ignore::mogul.errors.MogulWarning")  # of columns that are odd on purpose
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


class TestTools:
    """Pipelines, clones, searches."""

    def test_a_pipeline(self) -> None:
        pipeline = make_pipeline(StandardScaler(), regressor()).fit(X, Y)
        assert pipeline.score(X, Y) > 0.5
        mean, std = pipeline.predict(X, return_std=True)
        assert mean.shape == std.shape == (40, 3)

    def test_a_grid_search_chooses_by_score(self) -> None:
        sizes = {"num_inducing": np.array([2, 6])}
        grid = [{"model": ["mogp"], **sizes}, {"model": ["n-mogp"], "nonlinearity": ["relu", Erf(0.5)], **sizes}]
        search = GridSearchCV(regressor(epochs=5), grid, cv=2).fit(X, Y)
        assert search.best_params_["model"] in {"mogp", "n-mogp"}
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.predict(X).shape == (40, 3)

    def test_a_cross_validation_with_missing_outputs(self) -> None:
        holes = Y.copy()
        holes[::5, 1] = np.nan
        scores = cross_val_score(regressor(), X, holes, cv=KFold(3, shuffle=True, random_state=0))
        assert (scores > 0.3).all()

    def test_latent_variables_can_be_searched_and_piped(self) -> None:
        search = GridSearchCV(MultiOutputGPLVM(**SMALL_LVM), {"n_components": [1, 2]}, cv=2).fit(Y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert make_pipeline(StandardScaler(), MultiOutputGPLVM(2, **SMALL_LVM)).fit_transform(Y).shape == (40, 2)

    def test_a_clone_keeps_arguments_and_output(self) -> None:
        original = regressor(model="n-sbgprn", nonlinearity=Erf(0.5), config=None).set_output(transform="pandas")
        twin = clone(original)
        assert twin.get_params()["nonlinearity"] == Erf(0.5)
        assert isinstance(twin.fit(X, Y).predict(X), pd.DataFrame)
