"""Small models of every kind."""

import torch
from tests.helpers.perturbing import perturbed

from mogul.data import Batch
from mogul.models import Name, build, unused_options
from mogul.models.model import Model
from mogul.objective import Objective
from mogul.training import NoiseUpdate, Step

NUM_ROWS, NUM_INPUTS, NUM_OUTPUTS = 12, 2, 3
SIZES = {
    "num_latents": 2,
    "num_top_latents": 2,
    "num_hidden": 4,
    "num_inducing": 6,
    "num_top_inducing": 5,
    "num_mixing_inducing": 4,
}


def small_batch(*, missing: bool = False, seed: int = 0) -> Batch:
    """Twelve rows of a smooth function with noise, in float64."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(NUM_ROWS, NUM_INPUTS, generator=generator, dtype=torch.float64)
    y = torch.stack([torch.sin(x[:, 0]), x[:, 0] * x[:, 1], torch.cos(x[:, 1])], dim=1)
    y = y + 0.1 * torch.randn(y.shape, generator=generator, dtype=torch.float64)
    if missing:
        y[::3, 0] = y[1::4, 1] = torch.nan
    return Batch.of(x, y)


def small_model(name: str, seed: int = 0, **options: object) -> Model:
    """The named model at a random start that is not symmetric anywhere."""
    batch = small_batch()
    generator = torch.Generator().manual_seed(seed)
    model = build(name, batch.x, NUM_OUTPUTS, generator, **(SIZES | options))
    return perturbed(model, generator, 0.05).eval()


def values_of_level_updates(model: Model, estimate: Objective, num_updates: int) -> list[float]:
    """The objective before each update of the noise's level alone, for the same draws each time."""
    batch, values = small_batch(missing=True), []
    with torch.no_grad():
        for number in range(num_updates):
            terms = estimate(model, batch, torch.Generator().manual_seed(1))
            values.append(terms.total().item())
            NoiseUpdate(rate=1.0).apply(model, Step(number, batch, terms, NUM_ROWS))
    return values


def sizes_of(name: str, noise: str = "constant", **more: int) -> dict[str, int]:
    """Of the small sizes, and of these, those that the named model has a use for."""
    unused = unused_options(name, noise)
    return {option: size for option, size in (SIZES | more).items() if option not in unused}


def is_deep(name: str) -> bool:
    """Whether expectations need draws of an inner layer."""
    return Name.parse(name).recipe.deep
