"""Data drawn from a model itself: its fit must come close to what the generator knows."""

import math

import numpy as np
import pytest
import torch

from mogul import Dataset, TrainingConfig, fit, models
from mogul.models.model import Model
from mogul.objective import Analytic
from mogul.priors import IndependentGPs
from mogul.training import NoiseUpdate

# Long fits, whose lines quicker tests run too: tracing them would cost as much again.
pytestmark = pytest.mark.no_cover

NOISE_SCALE = 0.1
SIZES = {"num_latents": 2, "num_top_latents": 2, "num_hidden": 6, "num_inducing": 30}
INDUCING = {"num_top_inducing": 20, "num_mixing_inducing": 15}

# How many starts find the function that a prior draws: with two of a deep model it turns on the machine's rounding.
# More are not always better: of four of N-MOGP, the best after a few epochs is not the best in the end.
STARTS, DEEP_STARTS = 2, 4


def at_the_prior(model: Model) -> Model:
    """q at the prior: a draw of the model is then a draw of what it believes before it has seen anything."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, IndependentGPs):
                if module.log_white_noise is not None:
                    module.log_white_noise.fill_(-20.0)  # it cannot be predicted, even by whoever knows the function
                module.variational_mean.zero_()
                module.variational_root.copy_(torch.eye(module.variational_root.shape[-1]))
        for label, parameter in model.named_parameters():
            if label in {"head.mixing.mean", "head.features.bias_mean"}:
                parameter.zero_()
            if label in {"head.mixing.log_scale", "head.features.bias_log_scale"}:
                parameter.zero_()
    return model


def planted_rows(name: str, number: int, num_inputs: int, num_outputs: int, seed: int) -> tuple[Dataset, Dataset]:
    """As many rows for training and 200 for testing, of one function of several inputs drawn from the model."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (number + 200, num_inputs))
    inputs, generator = torch.as_tensor(x / x.std(0)), torch.Generator().manual_seed(seed)
    model = models.build(name, inputs, num_outputs, generator, num_inducing=40, **INDUCING)
    with torch.no_grad():
        signal = at_the_prior(model).sample_joint(inputs, 1, generator)[0].numpy()
    y = signal + NOISE_SCALE * signal.std(0) * rng.standard_normal(signal.shape)
    return Dataset(x[:number], y[:number]), Dataset(x[number:], y[number:])


def planted(name: str, seed: int) -> tuple[Dataset, Dataset, float]:
    """Training and test rows of one function drawn from the model, and the LL of the truth on the test rows."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2, 2, 700))[:, None]
    generator = torch.Generator().manual_seed(seed)
    model = models.build(name, torch.as_tensor(x / x.std()), 3, generator, **(SIZES | INDUCING))
    with torch.no_grad():
        signal = at_the_prior(model).sample_joint(torch.as_tensor(x / x.std()), 1, generator)[0].numpy()
    scale = NOISE_SCALE * signal.std(0)
    y = signal + scale * rng.standard_normal(signal.shape)
    chosen = rng.permutation(len(x))
    train, test = chosen[:500], chosen[500:]
    misfit = (y[test] - signal[test]) / scale
    truth = float((-0.5 * (math.log(2 * math.pi) + 2 * np.log(scale) + misfit**2)).sum(1).mean())
    return Dataset(x[train], y[train]), Dataset(x[test], y[test]), truth


@pytest.mark.parametrize("name", models.FAMILIES)
def test_fit_comes_within_a_tenth_of_a_nat_per_output_of_the_generator(name: str) -> None:
    train, test, truth = planted(name, seed=3)
    deep = models.Name.parse(name).recipe.deep
    config = TrainingConfig(
        epochs=250 if deep else 150,
        anneal_epochs=40 if deep else 0,
        batch_size=250,
        learning_rate=0.03,
        num_starts=DEEP_STARTS if deep else STARTS,
        start_epochs=15,
        expectation=Analytic(num_samples=5 if deep else 1),
        updates=(NoiseUpdate(),),
    )
    sizes = {option: size for option, size in (SIZES | INDUCING).items() if option not in models.unused_options(name)}
    fitted = fit(train, model=name, config=config, noise="constant", **sizes)
    reached = fitted.evaluate(test).ll
    assert truth - 0.3 < reached < truth + 0.3, f"{name}: {reached:.3f} against the generator's {truth:.3f}"
