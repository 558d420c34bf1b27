"""Bad data, to learn from or to predict at, end in an error that says the rule, the value found and the remedy."""

import numpy as np
import pandas as pd
import pytest
import torch
from tests.helpers.refusals import INF, NAN, X, Y, check_refusal, prediction

from mogul.data import Dataset
from mogul.errors import ConfigError, DataError, ShapeError
from mogul.training import Fitted, TrainingConfig, fit

pytestmark = pytest.mark.usefixtures("as_a_user_calls")


def with_value(values: np.ndarray, row: int, column: int, value: float) -> np.ndarray:
    changed = values.copy()
    changed[row, column] = value
    return changed


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    x = pd.DataFrame(with_value(X, 0, 0, 9.0), columns=["angle", "speed"])
    return fit(
        Dataset(x, np.hstack([Y, -Y])), model="mogp", config=TrainingConfig(epochs=1, num_starts=1), noise="constant"
    )


FEW = pd.DataFrame({"size": [1.0, 2.0, 3.0], "colour": ["red", "green", "blue"]})
BAD_DATA = {
    "1-D X": (lambda: Dataset(X[:, 0], Y), ShapeError, "X must be (rows, columns)", "(3,)", "X[:, None]"),
    "1-D Y": (lambda: Dataset(X, Y[:, 0]), ShapeError, "Y must be (rows, columns)", "(3,)", "Y[:, None]"),
    "Series": (lambda: Dataset(X, pd.Series([1, 2, 3])), ShapeError, "Y must be (rows, columns)", "(3,)", "use Y"),
    "3-D X": (lambda: Dataset(X[None], Y), ShapeError, "X must be (rows, columns)", "(1, 3, 2)", "Flatten"),
    "3-D Y": (lambda: Dataset(X, Y[None]), ShapeError, "Y must be (rows, columns)", "(1, 3, 1)", "Flatten"),
    "rows": (lambda: Dataset(X, Y[:2]), ShapeError, "the same number of rows", "3 and 2", "Row i of X"),
    "strings in X": (lambda: Dataset(np.full((3, 2), "a"), Y), DataError, "X must be real numbers", "<U1", "Encode"),
    "strings in Y": (lambda: Dataset(X, [["a"]] * 3), DataError, "Y must be real numbers", "<U1", "Encode"),
    "bytes": (lambda: Dataset(np.full((3, 2), b"a"), Y), DataError, "X must be real numbers", "|S1", "Encode"),
    "string column of X": (lambda: Dataset(FEW, Y), DataError, "X must be numbers", "'colour' holds 'red'", "leave"),
    "string column of Y": (lambda: Dataset(X, FEW), DataError, "Y must be numbers", "'colour' holds 'red'", "leave"),
    "string after a number": (
        lambda: Dataset(X, FEW.assign(colour=[1, None, "blue"])),
        DataError,
        "Y must be numbers",
        "'colour' holds 'blue' in row 2",
        "Encode",
    ),
    "dates": (
        lambda: Dataset(FEW.assign(colour=pd.Timestamp(0)), Y),
        DataError,
        "X must be numbers",
        "'colour' holds Timestamp(",
        "Encode",
    ),
    "lists in an object array": (
        lambda: Dataset(X, pd.DataFrame({"bag": [[1], [2], [3]]})),
        DataError,
        "Y must be numbers",
        "'bag' holds [1] in row 0",
        "Encode",
    ),
    "ragged X": (lambda: Dataset([[1.0, 2.0], [3.0]], Y), ShapeError, "X must be", "different lengths", "same number"),
    "ragged Y": (lambda: Dataset(X, [[1.0], [], [2.0]]), ShapeError, "Y must be", "different lengths", "same number"),
    "complex X": (lambda: Dataset(X + 1j, Y), DataError, "X must be real numbers", "complex128", "Encode"),
    "complex Y": (lambda: Dataset(X, torch.as_tensor(Y + 1j)), DataError, "Y must be real", "complex128", "Encode"),
    "no rows": (lambda: Dataset(X[:0], Y[:0]), ShapeError, "X must have at least one row", "(0, 2)", "Give some data"),
    "no inputs": (lambda: Dataset(X[:, :0], Y), ShapeError, "X must have at least one row", "(3, 0)", "Give some data"),
    "no outputs": (lambda: Dataset(X, Y[:, :0]), ShapeError, "Y must have at least one", "(3, 0)", "Give some data"),
    "NaN in X": (
        lambda: Dataset(with_value(X, 2, 1, NAN), Y),
        DataError,
        "Inputs must be finite",
        "column 'x1' holds nan in row 2 (1 such values",
        "Drop those rows",
    ),
    "inf in X": (
        lambda: Dataset(pd.DataFrame(with_value(X, 1, 0, -INF), columns=["angle", "speed"]), Y),
        DataError,
        "Inputs must be finite",
        "column 'angle' holds -inf in row 1",
        "fill them in",
    ),
    "inf in Y": (
        lambda: Dataset(X, pd.DataFrame({"torque": [NAN, 1.0, INF]})),
        DataError,
        "Outputs must be finite or NaN",
        "column 'torque' holds inf in row 2",
        "Put NaN",
    ),
    "an output without values": (
        lambda: Dataset(X, pd.DataFrame({"a": [1.0, 2.0, NAN], "torque": [NAN] * 3})),
        DataError,
        "Each output must have at least one value",
        "column 'torque' is NaN in all 3 rows",
        "Drop that column",
    ),
    "split of nothing": (lambda: Dataset(X, Y).split(0.0, 0), ConfigError, "both sides", "0.0 of 3", "Choose a share"),
    "split of all": (lambda: Dataset(X, Y).split(1.0, 0), ConfigError, "both sides", "1.0 of 3 rows is 3", "Choose"),
    "split below 0": (lambda: Dataset(X, Y).split(-0.5, 0), ConfigError, "both sides", "-0.5 of 3", "Choose a share"),
}


@pytest.mark.parametrize("case", BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_are_refused_with_a_remedy(case):
    check_refusal(*case)


def test_complex_numbers_in_an_object_array_are_refused():
    x = np.array([[np.complex128(1 + 2j)]], dtype=object)
    check_refusal(lambda: Dataset(x, [[1.0]]), DataError, "X must be numbers", "'x0' holds", "Encode")


BAD_INPUTS = {
    "too few columns": (X[:, :1], ShapeError, "X must have 2 columns", "got 1", "angle, speed"),
    "too many columns": (np.ones((1, 3)), ShapeError, "X must have 2 columns", "got 3", "angle, speed"),
    "1-D": (X[0], ShapeError, "X must be (rows, columns)", "(2,)", "X[:, None]"),
    "no rows": (X[:0], ShapeError, "X must have at least one row", "(0, 2)", "Give some data"),
    "ragged": ([[1.0, 2.0], [1.0]], ShapeError, "X must be (rows, columns)", "different lengths", "Give every row"),
    "NaN": (with_value(X, 1, 1, NAN), DataError, "Inputs must be finite", "'x1' holds nan in row 1", "Drop those rows"),
    "inf": (
        pd.DataFrame(with_value(X, 0, 1, INF), columns=["angle", "speed"]),
        DataError,
        "Inputs must be finite",
        "'speed' holds inf in row 0",
        "Drop those rows",
    ),
    "strings": (
        FEW.set_axis(["angle", "speed"], axis=1),
        DataError,
        "X must be numbers",
        "'speed' holds 'red' in row 0",
        "Encode",
    ),
    "other names": (FEW, DataError, "X must have the columns of training", "'angle' is not among", "Name the columns"),
}


@pytest.mark.parametrize("case", BAD_INPUTS.values(), ids=BAD_INPUTS)
@pytest.mark.parametrize(
    "method", [Fitted.predict, lambda fitted, x: fitted.sample_functions(x, 2)], ids=["predict", "functions"]
)
def test_bad_inputs_to_a_fitted_model_are_refused_with_a_remedy(fitted: Fitted, method, case):
    x, *expected = case
    check_refusal(lambda: method(fitted, x), *expected)


@pytest.mark.parametrize("method", ["log_density", "component_log_density", "cdf"])
@pytest.mark.parametrize("shape", [(3, 1), (1, 2), (2,), (3, 2, 1)])
def test_outputs_of_another_shape_than_the_prediction_are_refused(method, shape):
    call = getattr(prediction(), method)
    check_refusal(
        lambda: call(np.zeros(shape)), ShapeError, "the shape of the prediction, (3, 2)", f"got {shape}", "Give one row"
    )


def test_evaluating_on_another_number_of_outputs_is_refused(fitted: Fitted):
    check_refusal(
        lambda: fitted.evaluate(Dataset(X, Y), num_samples=5),
        ShapeError,
        "the shape of the prediction, (3, 2)",
        "got (3, 1)",
        "one column for each output",
    )


def test_evaluating_on_another_number_of_outputs_is_refused_in_standardised_units_too(fitted: Fitted):
    check_refusal(
        lambda: fitted.evaluate(Dataset(X, Y), standardised=True, num_samples=5),
        ShapeError,
        "(3, 2)",
        "got (3, 1)",
        "one column for each output",
    )


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
@pytest.mark.parametrize(
    "call",
    [
        lambda fitted, size: fitted.predict(X, num_samples=size),
        lambda fitted, size: fitted.sample_functions(X, num_samples=size),
        lambda fitted, size: fitted.evaluate(Dataset(X, np.hstack([Y, Y])), num_samples=size),
        lambda fitted, size: fitted.predict(X).sample(size, seed=0),
    ],
    ids=["predict", "sample_functions", "evaluate", "sample"],
)
def test_a_number_of_draws_must_be_a_positive_whole_number(fitted: Fitted, call, size):
    check_refusal(lambda: call(fitted, size), ConfigError, "num_samples must be", repr(size), "Pass a")
