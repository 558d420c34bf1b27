"""Estimators as a user has them: fitted once for all files, and without a shape checker in front of our own checks."""

import jaxtyping
import pytest
from tests.helpers.small_estimators import FRAME_X, FRAME_Y, X, Y, regressor

from mogul import MultiOutputGPRegressor


@pytest.fixture(autouse=True)
def _as_a_user_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users have no shape checker in front of our own checks: an argument may be anything until it is fitted."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="session")
def fitted() -> MultiOutputGPRegressor:
    return regressor().fit(X, Y)


@pytest.fixture(scope="session")
def single() -> MultiOutputGPRegressor:
    return regressor().fit(X, Y[:, 0])


@pytest.fixture(scope="session")
def framed() -> MultiOutputGPRegressor:
    return regressor().fit(FRAME_X, FRAME_Y)
