"""Fitted models with random parameters, to be exported."""

from dataclasses import replace

import numpy as np
import torch
from tests.helpers.random_models import NUM_INPUTS, NUM_OUTPUTS, moments, random_model

from mogul._typing import Array
from mogul.data import Scaling, Standardiser
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import History
from mogul.fitted.onnx_file import OnnxFile, Settings, check_rows, onnx_program

SCALING = Scaling(
    Standardiser(np.array([5.0, -3.0, 1e4]), np.array([2.0, 0.1, 30.0])),
    Standardiser(np.array([100.0, -0.01]), np.array([40.0, 1e-3])),
)


def random_fitted(name: str, noise: str, **options: object) -> Fitted:
    """The named model at random parameters, in units far from standardised ones."""
    model = (
        random_model(name, noise=noise, num_noise_inducing=5, **options)
        if noise.startswith("gp")
        else random_model(name, noise=noise, **options)
    )
    names = [f"x{number}" for number in range(NUM_INPUTS)], [f"y{number}" for number in range(NUM_OUTPUTS)]
    return Fitted(model, SCALING, *names, History((), 0))


def differences(fitted: Fitted, precision: str, num_samples: int = 4) -> tuple[float, float]:
    """How far an export is from the model: means in standard deviations of an output, standard deviations as shares.

    Of a deep model, whose inner layers are drawn, from the predictor with the same draws.
    """
    content, _ = onnx_program(fitted, Settings(precision=precision, num_samples=num_samples))
    x = check_rows(fitted)
    mean, std = OnnxFile.of(content, "test").mean_std(x)
    expected_mean, expected_std = expected(fitted, x, num_samples)
    scale = fitted.scaling.outputs.scale
    return float((np.abs(mean - expected_mean) / scale).max()), float(np.abs(std / expected_std - 1).max())


def expected(fitted: Fitted, x: Array, num_samples: int = 4) -> tuple[Array, Array]:
    """Mean and standard deviation by the model itself, without a predictor; with one for deep models."""
    if hasattr(fitted.model.prior, "layers"):
        return fitted.predictor(num_samples, precision=torch.float64).mean_std(x)
    rows = torch.as_tensor(fitted.scaling.inputs.apply(x))
    mean, std = moments(fitted.model, rows)
    return fitted.scaling.outputs.undo(mean.numpy()), fitted.scaling.outputs.scale * std.numpy()


def shifted(fitted: Fitted, by: float) -> Fitted:
    """The same model with other outputs."""
    outputs = Standardiser(fitted.scaling.outputs.shift + by, fitted.scaling.outputs.scale)
    return replace(fitted, scaling=replace(fitted.scaling, outputs=outputs))
