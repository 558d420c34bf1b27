"""Estimators in files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from tests.helpers.small_estimators import FRAME_X, FRAME_Y, SMALL_LVM, X, Y, regressor

import mogul
from mogul import MultiOutputGPLVM, MultiOutputGPRegressor
from mogul.errors import FileError
from mogul.fitted.files import save
from mogul.nonlinearities import Quadrature


class TestFiles:
    """One file for an estimator."""

    def test_a_regressor_comes_back(self, framed: MultiOutputGPRegressor, tmp_path: Path) -> None:
        framed.save(tmp_path / "m")
        loaded = MultiOutputGPRegressor.load(tmp_path / "m")
        assert loaded.get_params() == framed.get_params()
        for one, two in zip(*(each.predict(FRAME_X, return_std=True) for each in (framed, loaded)), strict=True):
            pd.testing.assert_frame_equal(one, two, check_exact=True)
        np.testing.assert_array_equal(framed.log_density(FRAME_X, FRAME_Y), loaded.log_density(FRAME_X, FRAME_Y))
        np.testing.assert_array_equal(framed.sample_y(FRAME_X, 3, joint=True), loaded.sample_y(FRAME_X, 3, joint=True))
        np.testing.assert_array_equal(mogul.load(tmp_path / "m").predict(X).mean, framed.fitted_.predict(X).mean)
        with pytest.raises(ValueError, match="feature names"):
            loaded.predict(FRAME_X.rename(columns={"time": "clock"}))
        first, second = (
            clone(framed).fit(FRAME_X, FRAME_Y).partial_fit(FRAME_X, FRAME_Y),
            loaded.partial_fit(FRAME_X, FRAME_Y),
        )
        np.testing.assert_array_equal(first.predict(FRAME_X), second.predict(FRAME_X))

    def test_one_output_keeps_its_axis(self, single: MultiOutputGPRegressor, tmp_path: Path) -> None:
        single.save(tmp_path / "m")
        np.testing.assert_array_equal(MultiOutputGPRegressor.load(tmp_path / "m").predict(X), single.predict(X))

    def test_latent_variables_come_back(self, tmp_path: Path) -> None:
        gplvm = MultiOutputGPLVM(2, **SMALL_LVM).fit(Y)
        gplvm.save(tmp_path / "m")
        loaded = MultiOutputGPLVM.load(tmp_path / "m")
        np.testing.assert_array_equal(loaded.transform(Y), gplvm.transform(Y))
        np.testing.assert_array_equal(loaded.log_density(Y), gplvm.log_density(Y))
        with pytest.raises(FileError, match=r"must hold a MultiOutputGPRegressor; .* MultiOutputGPLVM. Use"):
            MultiOutputGPRegressor.load(tmp_path / "m")

    def test_a_model_is_no_estimator(self, fitted: MultiOutputGPRegressor, tmp_path: Path) -> None:
        fitted.fitted_.save(tmp_path / "m")
        with pytest.raises(FileError, match=r"must hold a MultiOutputGPRegressor; .* without an estimator. Read it"):
            MultiOutputGPRegressor.load(tmp_path / "m")

    def test_a_file_cannot_set_what_it_likes(self, fitted: MultiOutputGPRegressor, tmp_path: Path) -> None:
        extra = {"estimator": "MultiOutputGPRegressor", "params": {}, "state": {"predict": 3}}
        save(fitted.fitted_, tmp_path / "m", extra)
        with pytest.raises(FileError, match=r"must describe its MultiOutputGPRegressor; .* Fit again"):
            MultiOutputGPRegressor.load(tmp_path / "m")
        save(fitted.fitted_, tmp_path / "m", extra | {"params": {"colour": 1}})
        with pytest.raises(FileError, match=r"must describe its MultiOutputGPRegressor; .*colour.* Fit again"):
            MultiOutputGPRegressor.load(tmp_path / "m")

    def test_what_cannot_be_stored_is_said(self, tmp_path: Path) -> None:
        some = regressor(epochs=1, model="n-mogp", nonlinearity=Quadrature(torch.sin)).fit(X, Y)
        with pytest.raises(FileError, match="nonlinearity must be made of numbers"):
            some.save(tmp_path / "m")
        assert not list(tmp_path.iterdir())
