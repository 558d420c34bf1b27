"""Every container that people keep their numbers in, on the way in and out."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from tests.helpers.small_estimators import FRAME_X, FRAME_Y, SMALL_LVM, X, Y, regressor

from mogul import MultiOutputGPLVM, MultiOutputGPRegressor
from mogul.errors import UnknownNameError

CONVERT = {
    "lists": np.ndarray.tolist,
    "tensor": torch.as_tensor,
    "tensor with gradient": lambda values: torch.as_tensor(values).requires_grad_(),
    "fortran": np.asfortranarray,
    "masked": np.ma.masked_invalid,
    "frame of numbers": pd.DataFrame,
}


class TestContainers:
    """Whatever people keep their numbers in."""

    @pytest.mark.parametrize("convert", CONVERT.values(), ids=CONVERT)
    def test_every_container_gives_the_same(self, convert: Any, fitted: MultiOutputGPRegressor) -> None:
        other = regressor().fit(convert(X), convert(Y))
        np.testing.assert_array_equal(np.asarray(other.predict(convert(X))), fitted.predict(X))
        np.testing.assert_array_equal(other.log_density(convert(X), convert(Y)), fitted.log_density(X, Y))

    def test_bfloat16_is_a_number_too(self) -> None:
        assert regressor(epochs=1).fit(torch.as_tensor(X).bfloat16(), Y).predict(X).shape == (40, 3)

    def test_masked_values_are_missing(self) -> None:
        masked = np.ma.MaskedArray(Y, mask=np.arange(120).reshape(40, 3) % 7 == 0)
        filled = regressor(epochs=2).fit(X, masked.filled(np.nan))
        np.testing.assert_array_equal(regressor(epochs=2).fit(X, masked).predict(X), filled.predict(X))

    def test_names_are_kept(self, framed: MultiOutputGPRegressor) -> None:
        assert list(framed.feature_names_in_) == framed.fitted_.input_names == ["time", "load"]
        assert framed.output_names_ == ["left", "right", "up"]

    def test_frames_come_back_with_columns_and_index(self, framed: Any, fitted: Any) -> None:
        mean, std = framed.predict(FRAME_X, return_std=True)
        for frame in (mean, std, framed.predict_quantiles(FRAME_X, 0.5)):
            assert list(frame.columns) == ["left", "right", "up"]
            assert list(frame.index) == list(range(100, 140))
        np.testing.assert_array_equal(framed.predict(FRAME_X).to_numpy(), fitted.predict(X))

    def test_a_series_is_one_output(self) -> None:
        assert regressor(epochs=1).fit(FRAME_X, FRAME_Y["left"].set_axis(FRAME_X.index)).predict(FRAME_X).shape == (40,)

    def test_columns_of_outputs_are_found_by_name(self, framed: MultiOutputGPRegressor) -> None:
        swapped = framed.log_density(FRAME_X, FRAME_Y[["up", "left", "right"]])
        np.testing.assert_array_equal(swapped, framed.log_density(FRAME_X, FRAME_Y))

    def test_output_can_be_set(self, fitted: MultiOutputGPRegressor) -> None:
        changed = clone(fitted).set_output(transform="pandas").fit(X, Y)
        assert list(changed.predict(X).columns) == ["y0", "y1", "y2"]
        assert isinstance(changed.set_output(transform="default").predict(X), np.ndarray)
        assert isinstance(changed.set_output().predict(X), np.ndarray)
        with pytest.raises(UnknownNameError, match="transform must be one of default, pandas, polars; got 'panda'"):
            changed.set_output(transform="panda")  # type: ignore[arg-type]

    def test_polars_in_and_out(self, fitted: MultiOutputGPRegressor) -> None:
        polars = pytest.importorskip("polars")
        x, y = polars.DataFrame(X, schema=["time", "load"]), polars.DataFrame(Y, schema=["left", "right", "up"])
        some = regressor().fit(x, y)
        mean = some.predict(x)
        assert isinstance(mean, polars.DataFrame)
        assert mean.columns == some.output_names_ == ["left", "right", "up"]
        assert list(some.feature_names_in_) == ["time", "load"]
        np.testing.assert_array_equal(mean.to_numpy(), fitted.predict(X))
        np.testing.assert_array_equal(some.log_density(x, y), fitted.log_density(X, Y))
        gplvm = MultiOutputGPLVM(2, **SMALL_LVM).fit(y)
        assert gplvm.impute(y).columns == gplvm.sample(3).columns == ["left", "right", "up"]
