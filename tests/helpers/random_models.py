"""Models with random parameters, to be frozen into predictors."""

import torch
from tests.helpers.perturbing import perturbed

from mogul.fitted.predictor import Predictor
from mogul.means.linear import LinearOutputMean
from mogul.means.plane import PlaneUncertainty
from mogul.models import build
from mogul.models.model import Model

NUM_INPUTS, NUM_OUTPUTS, NUM_POINTS = 3, 2, 6


def random_model(name: str, dtype: torch.dtype = torch.float64, **options: object) -> Model:
    """The named model with its plane, which is random, at random parameters."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, NUM_INPUTS, generator=generator, dtype=dtype)
    y = torch.sin(x[:, :NUM_OUTPUTS]) + 2
    latent = name.endswith("-lvm")  # whose inputs no plane can be fitted to
    plane = None if latent else LinearOutputMean.fit(x.double().numpy(), y.double().numpy(), random_plane(x))
    sizes = {"num_inducing": 7, "num_top_inducing": 5, "num_mixing_inducing": 6, "num_hidden": 4, **options}
    model = build(name, x, NUM_OUTPUTS, generator, output_mean=plane, **sizes)
    return perturbed(model, generator, 0.2)


def random_plane(x: torch.Tensor) -> PlaneUncertainty:
    """How far a plane of the outputs may be off, for outputs that differ in all."""
    each = torch.arange(1.0, NUM_OUTPUTS + 1)
    observed = torch.arange(len(x) * NUM_OUTPUTS).reshape(len(x), NUM_OUTPUTS) % 5 > 0
    sizes = each[:, None] * torch.ones(NUM_INPUTS + 1)
    return PlaneUncertainty.of(x, observed, sizes[:, 1:], each, 0.1 * each, sizes)


def points(dtype: torch.dtype = torch.float64, num_points: int = NUM_POINTS) -> torch.Tensor:
    """Where to predict."""
    return torch.randn(num_points, NUM_INPUTS, generator=torch.Generator().manual_seed(1), dtype=dtype)


@torch.no_grad()
def moments(model: Model, x: torch.Tensor, num_samples: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation as the model itself predicts them."""
    q = model.eval().moments(x, num_samples, torch.Generator().manual_seed(2))
    return q.mean, (q.var + model.noise_var(x, torch.Generator())).sqrt()


def assert_predicts_as(model: Model, tolerance: float = 1e-9) -> Predictor:
    """The model's predictor, which says what the model says."""
    predictor, x = Predictor.of(model), points(model.mean.scale.dtype)
    for found, expected in zip(predictor.mean_std(x), moments(model, x), strict=True):
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(predictor.mean(x), predictor.mean_std(x)[0], atol=tolerance, rtol=tolerance)
    return predictor


def slopes(predictor: Predictor, x: torch.Tensor, step: float = 1e-5) -> torch.Tensor:
    """∂mean/∂x by finite differences."""
    steps = step * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.stack([(predictor.mean(x + each) - predictor.mean(x - each)) / (2 * step) for each in steps], -1)
