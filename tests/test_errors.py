"""The kinds of errors, and how they are made."""

import numpy as np
import pytest

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


@pytest.mark.usefixtures("as_a_user_calls")
def test_a_whole_number_of_numpy_is_a_whole_number():
    require_positive(epochs=np.int64(3))
