"""Every bad value ends in an error that says the rule, the value found and the remedy, in this order."""

from collections.abc import Callable
from typing import Any

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import torch

from mogul import nonlinearities
from mogul.data import Dataset
from mogul.errors import (
    ConfigError,
    DataError,
    FitError,
    MogulError,
    MogulWarning,
    NumericalError,
    ShapeError,
    UnknownNameError,
    require_positive,
    unknown_name,
)
from mogul.metrics import nested_log_density
from mogul.models import build
from mogul.objective import Analytic, Elbo, MonteCarlo
from mogul.prediction import Prediction
from mogul.priors import IndependentGPs, rbf
from mogul.training import Fitted, TrainingConfig, fit

NAN, INF = float("nan"), float("inf")
X, Y = np.arange(6.0).reshape(3, 2), np.arange(3.0).reshape(3, 1)


def with_value(values: np.ndarray, row: int, column: int, value: float) -> np.ndarray:
    changed = values.copy()
    changed[row, column] = value
    return changed


def model(name: str = "n-mogp", num_outputs: Any = 2, **options: Any) -> object:
    return build(name, torch.as_tensor(X), num_outputs, torch.Generator(), **options)


def prediction(num_draws: int = 4) -> Prediction:
    ones = np.ones((num_draws, 3, 2))
    return Prediction(ones[0], ones[0], ones, ones)


@pytest.fixture(autouse=True)
def _as_a_user_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users have no shape checker in front of our own checks."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    x = pd.DataFrame(with_value(X, 0, 0, 9.0), columns=["angle", "speed"])
    return fit(Dataset(x, np.hstack([Y, -Y])), "mogp", TrainingConfig(epochs=1, num_starts=1))


def check(call: Callable[[], object], error: type[MogulError], rule: str, found: str, remedy: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    message = str(caught.value)
    places = [message.find(part) for part in (rule, found, remedy)]
    assert -1 not in places, message
    assert places == sorted(places), message
    assert "\n" not in message


FEW = pd.DataFrame({"size": [1.0, 2.0, 3.0], "colour": ["red", "green", "blue"]})
BAD_DATA = {
    "1-D X": (lambda: Dataset(X[:, 0], Y), ShapeError, "X must be (rows, columns)", "(3,)", "X[:, None]"),
    "1-D Y": (lambda: Dataset(X, Y[:, 0]), ShapeError, "Y must be (rows, columns)", "(3,)", "Y[:, None]"),
    "Series": (lambda: Dataset(X, pd.Series([1, 2, 3])), ShapeError, "Y must be (rows, columns)", "(3,)", "use Y"),
    "3-D X": (lambda: Dataset(X[None], Y), ShapeError, "X must be (rows, columns)", "(1, 3, 2)", "Flatten"),
    "3-D Y": (lambda: Dataset(X, Y[None]), ShapeError, "Y must be (rows, columns)", "(1, 3, 1)", "Flatten"),
    "rows": (lambda: Dataset(X, Y[:2]), ShapeError, "the same number of rows", "3 and 2", "Each row of X"),
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
    check(*case)


SIZES: dict[str, Callable[[Any], object]] = {
    "num_outputs": lambda size: model(num_outputs=size),
    "num_latents": lambda size: model(num_latents=size),
    "num_hidden": lambda size: model(num_hidden=size),
    "num_inducing": lambda size: model(num_inducing=size),
    "num_data": lambda size: Elbo(Analytic(), num_data=size),
    "Analytic num_samples": lambda size: Analytic(size),
    "MonteCarlo num_samples": lambda size: MonteCarlo(num_samples=size),
    "epochs": lambda size: TrainingConfig(epochs=size),
    "batch_size": lambda size: TrainingConfig(batch_size=size),
    "num_starts": lambda size: TrainingConfig(num_starts=size),
    "start_epochs": lambda size: TrainingConfig(start_epochs=size),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("size", [0, -3, True, False, 2.0, 1.5, "2", None], ids=repr)
def test_a_size_must_be_a_positive_whole_number(name, size):
    if size is None and name in {"num_latents", "num_hidden", "num_inducing"}:
        assert SIZES[name](size) is not None, "None stands for the default"
        return
    whole = isinstance(size, int) and not isinstance(size, bool)
    rule = f"{name.split()[-1]} must be " + ("at least 1" if whole else "a whole number")
    check(lambda: SIZES[name](size), ConfigError, rule, f"got {size!r}", "Pass a")


@pytest.mark.parametrize("name", SIZES)
def test_a_size_of_one_is_allowed(name):
    assert SIZES[name](1) is not None


def gps(mean: str) -> IndependentGPs:
    return IndependentGPs(rbf(2, 1), torch.as_tensor(X), 1, mean=mean)


BAD_NAMES = {
    "model": (lambda: model("n-mogq"), "model must be one of mogp, gprn", "'n-mogq'", "Did you mean 'n-mogp'?"),
    "model of fit": (
        lambda: fit(Dataset(X, Y), "MOGP "),
        "model must be one of mogp",
        "'MOGP '",
        "Use one of the list",
    ),
    "far from any": (lambda: model("transformer"), "model must be one of", "'transformer'", "Use one of the list."),
    "nonlinearity": (
        lambda: nonlinearities.by_name("sheerf"),
        "nonlinearity must be one of erf, sherf, relu, leaky",
        "'sheerf'",
        "Did you mean 'sherf'?",
    ),
    "nonlinearity of build": (
        lambda: model(nonlinearity="rely"),
        "nonlinearity must be one of",
        "'rely'",
        "Did you mean 'relu'?",
    ),
    "nonlinearity of a model without one": (
        lambda: model("mogp", nonlinearity="rely"),
        "nonlinearity must be one of",
        "'rely'",
        "Did you mean 'relu'?",
    ),
    "precision": (
        lambda: TrainingConfig(precision="flaot32"),
        "precision must be one of float32, float64",
        "'flaot32'",
        "Did you mean 'float32'?",
    ),
    "mean": (lambda: gps("constent"), "mean must be one of zero, constant", "'constent'", "Did you mean 'constant'?"),
}


@pytest.mark.parametrize("case", BAD_NAMES.values(), ids=BAD_NAMES)
def test_an_unknown_name_gets_the_list_and_a_suggestion(case):
    call, *parts = case
    check(call, UnknownNameError, *parts)


BAD_SETTINGS = {
    "anneal_epochs": (lambda: TrainingConfig(anneal_epochs=-1), "anneal_epochs must be at least 0", "-1", "0 turns"),
    "no rate": (lambda: TrainingConfig(learning_rate=0.0), "learning_rate must be positive", "0.0", "Try 0.03"),
    "negative rate": (lambda: TrainingConfig(learning_rate=-0.1), "learning_rate must be positive", "-0.1", "Try"),
    "NaN rate": (lambda: TrainingConfig(learning_rate=NAN), "learning_rate must be positive", "nan", "Try 0.03"),
    "no decay": (lambda: TrainingConfig(decay=0.0), "decay must be in (0, 1]", "0.0", "1 keeps"),
    "growth": (lambda: TrainingConfig(decay=1.1), "decay must be in (0, 1]", "1.1", "1 keeps"),
    "milestone 0": (lambda: TrainingConfig(milestones=(0.0, 0.5)), "milestones must be shares", "(0.0, 0.5)", "Try"),
    "milestone 1": (lambda: TrainingConfig(milestones=(0.5, 1.0)), "milestones must be shares", "(0.5, 1.0)", "Try"),
    "milestone epoch": (lambda: TrainingConfig(milestones=(50,)), "milestones must be shares", "(50,)", "Try"),
    "level 0": (lambda: prediction().quantiles([0.5, 0.0]), "Each level must be between 0 and 1", "0.0", "median"),
    "level 1": (lambda: prediction().quantiles([1.0]), "Each level must be between 0 and 1", "1.0", "median is 0.5"),
    "level in percent": (lambda: prediction().quantiles([95]), "Each level must be between 0 and 1", "95", "median"),
    "level NaN": (lambda: prediction().quantiles([NAN]), "Each level must be between 0 and 1", "nan", "median"),
    "groups": (
        lambda: nested_log_density(prediction(4), np.zeros((3, 2)), num_outer=3),
        "a multiple of num_outer = 3",
        "got 4",
        "25 × 50",
    ),
}


@pytest.mark.parametrize("case", BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_a_setting_out_of_range_is_refused_with_a_remedy(case):
    call, *parts = case
    check(call, ConfigError, *parts)


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
    check(lambda: method(fitted, x), *expected)


@pytest.mark.parametrize("method", ["log_density", "component_log_density", "cdf"])
@pytest.mark.parametrize("shape", [(3, 1), (1, 2), (2,), (3, 2, 1)])
def test_outputs_of_another_shape_than_the_prediction_are_refused(method, shape):
    call = getattr(prediction(), method)
    check(
        lambda: call(np.zeros(shape)), ShapeError, "the shape of the prediction, (3, 2)", f"got {shape}", "Give one row"
    )


def test_evaluating_on_another_number_of_outputs_is_refused(fitted: Fitted):
    check(
        lambda: fitted.evaluate(Dataset(X, Y), num_samples=5),
        ShapeError,
        "the shape of the prediction, (3, 2)",
        "got (3, 1)",
        "one column for each output",
    )


def test_users_can_catch_errors_by_what_they_know():
    assert issubclass(ShapeError, DataError)
    assert issubclass(UnknownNameError, ConfigError)
    for error in (DataError, ConfigError):
        assert issubclass(error, MogulError)
        assert issubclass(error, ValueError)
    assert issubclass(NumericalError, MogulError)
    assert issubclass(NumericalError, ArithmeticError)
    assert not issubclass(NumericalError, ValueError)
    assert issubclass(FitError, NumericalError)
    assert issubclass(MogulWarning, UserWarning)


def test_an_unknown_name_is_made_into_an_error_and_not_raised():
    error = unknown_name("fruit", "aple", ["pear", "apple"])
    assert type(error) is UnknownNameError
    assert str(error) == "fruit must be one of pear, apple; got 'aple'. Did you mean 'apple'?"


def test_the_first_bad_size_is_the_one_reported():
    require_positive(a=1, b=2)
    with pytest.raises(ConfigError, match="b must be at least 1; got 0"):
        require_positive(a=1, b=0, c=-1)


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
    check(lambda: call(fitted, size), ConfigError, "num_samples must be", repr(size), "Pass a")


@pytest.mark.parametrize(
    "call",
    [lambda: TrainingConfig(precision=torch.float32), lambda: TrainingConfig(precision=32), lambda: model(None)],
    ids=["dtype", "bits", "no model"],
)
def test_a_name_of_another_type_is_an_unknown_name(call):
    check(call, UnknownNameError, "must be one of", "got", ".")


@pytest.mark.parametrize(
    "options",
    [
        {"anneal_epochs": 2.5},
        {"anneal_epochs": True},
        {"learning_rate": INF},
        {"seed": 1.5},
        {"expectation": "analytic"},
    ],
    ids=str,
)
def test_a_setting_of_the_wrong_kind_is_refused_at_once(options):
    check(lambda: TrainingConfig(**options), ConfigError, next(iter(options)), "got", ".")


@pytest.mark.parametrize("nonlinearity", ["", 3])
def test_a_nonlinearity_must_be_a_known_name_or_a_nonlinearity(nonlinearity):
    check(lambda: model(nonlinearity=nonlinearity), UnknownNameError, "nonlinearity must be", repr(nonlinearity), "Use")


def test_evaluating_on_another_number_of_outputs_is_refused_in_standardised_units_too(fitted: Fitted):
    check(
        lambda: fitted.evaluate(Dataset(X, Y), standardised=True, num_samples=5),
        ShapeError,
        "(3, 2)",
        "got (3, 1)",
        "one column for each output",
    )


def test_no_levels_are_refused_with_a_remedy():
    check(lambda: prediction().quantiles([]), ConfigError, "level", "[]", "0.5")


def test_complex_numbers_in_an_object_array_are_refused():
    x = np.array([[np.complex128(1 + 2j)]], dtype=object)
    check(lambda: Dataset(x, [[1.0]]), DataError, "X must be numbers", "'x0' holds", "Encode")


def test_a_whole_number_of_numpy_is_a_whole_number():
    require_positive(epochs=np.int64(3))
