"""Errors name the user's columns and say what to do; predictions keep names; threads are those asked for."""

import numpy as np
import pandas as pd
import pytest
import torch

import mogul
from mogul import MultiOutputGPRegressor
from mogul.errors import ConfigError, DataError, ShapeError

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["speed", "load"])
Y = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["left", "right"])


def with_value(frame: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    changed = frame.astype({column: object}) if not isinstance(value, float) else frame.copy()
    changed.loc[3, column] = value
    return changed


BAD = {
    "text in X": (with_value(X, "load", "wet"), Y, "'load' of X holds 'wet' in row 4"),
    "text in Y": (X, with_value(Y, "right", "wet"), "column 'right' holds 'wet' in row 3"),
    "a date in X": (with_value(X, "speed", pd.Timestamp("2020")), Y, "'speed' of X holds Timestamp"),
    "dates in Y": (X, pd.DataFrame({"day": pd.date_range("2020", periods=20)}), "column 'day' holds .*2020-01-01"),
    "infinity in X": (with_value(X, "load", np.inf), Y, "column 'load' holds inf in row 3"),
    "infinity in Y": (X, with_value(Y, "right", np.inf), "column 'right' holds inf in row 3"),
    "a large number in Y": (X, with_value(Y, "left", 1e200), r"column 'left' holds 1e\+200"),
    "another order": (X, Y.iloc[::-1], "same index; row 0 is 0 in X and 19 in Y. Align them by Y.loc"),
}


@pytest.mark.parametrize(("x", "y", "said"), BAD.values(), ids=BAD)
def test_errors_name_the_column_the_value_and_the_row(x, y, said: str):
    for fit in (MultiOutputGPRegressor().fit, mogul.fit):
        with pytest.raises(DataError, match=said):
            fit(x, y)


@pytest.fixture(scope="module")
def fitted() -> MultiOutputGPRegressor:
    return MultiOutputGPRegressor(n_jobs=1).fit(X, Y)


def test_one_row_is_told_from_one_column(fitted: MultiOutputGPRegressor):
    with pytest.raises(ShapeError, match=r"got shape \(2,\)\. .*X\[None\] for one row"):
        fitted.predict(np.zeros(2))
    with pytest.raises(ShapeError, match=r"got shape \(2,\)\. For one column use X\[:, None\], for one row X\[None\]"):
        fitted.fitted_.predict(np.zeros(2))


def test_another_index_is_refused_wherever_both_are_given(fitted: MultiOutputGPRegressor):
    for call in (fitted.partial_fit, fitted.score):
        with pytest.raises(DataError, match="same index"):
            call(X, Y.set_axis(range(1, 21)))
    with pytest.raises(DataError, match="same index"):
        mogul.fit(X, Y["left"].sample(frac=1, random_state=0))
    fitted.score(X, Y.to_numpy())


def test_quantiles_keep_names_and_the_index(fitted: MultiOutputGPRegressor):
    rows = X.set_axis(range(50, 70))
    low, high = fitted.predict_quantiles(rows, [0.1, 0.9])
    assert low.columns.tolist() == high.columns.tolist() == ["left", "right"]
    assert high.index.equals(rows.index)
    plain = MultiOutputGPRegressor().fit(X.to_numpy(), Y.to_numpy()).predict_quantiles(X.to_numpy(), [0.1, 0.9])
    assert plain.shape == (2, 20, 2)
    np.testing.assert_allclose(high["right"], plain[1, :, 1])
    np.testing.assert_array_equal(fitted.predict_quantiles(rows, 0.9)["right"], high["right"])


def test_threads_are_those_asked_for_and_come_back(monkeypatch: pytest.MonkeyPatch, fitted: MultiOutputGPRegressor):
    before, asked = torch.get_num_threads(), []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    fitted.predict(X, return_std=True)
    assert asked == [1, before]
    with pytest.raises(DataError):
        fitted.predict(X.assign(load=np.nan))
    assert asked == [1, before] * 2
    MultiOutputGPRegressor().fit(X, Y)
    assert asked == [1, before] * 2
    for wrong in (0, -2, 1.5, True, "all"):
        with pytest.raises(ConfigError, match="n_jobs must be a number of threads, or -1 for all cores"):
            MultiOutputGPRegressor(n_jobs=wrong).fit(X, Y)
