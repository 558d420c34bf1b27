"""Named ways to train."""

from typing import Literal, get_args

from mogul.errors import unknown_name
from mogul.models import Name
from mogul.objective import Analytic, Expectation, MonteCarlo
from mogul.training.config import TrainingConfig
from mogul.training.updates import NoiseUpdate

PresetName = Literal["default", "paper"]


def preset(name: str, model: str, seed: int = 0) -> TrainingConfig:
    """The configuration of this name for a model.

    Args:
        name: `paper` (the paper's protocol: appendix, Experimental Details) or `default`.
        model: one of `mogul.models.names()`.
        seed: of everything random.

    Example:
        >>> preset("paper", "n-mogp").expectation
        MonteCarlo(num_samples=250)
    """
    match name:
        case "default":
            return TrainingConfig(seed=seed, updates=(NoiseUpdate(),), expectation=_closed_form(model))
        case "paper":
            return _paper(model, seed)
        case _:
            raise unknown_name("preset", name, get_args(PresetName))


def _paper(model: str, seed: int) -> TrainingConfig:
    """250 epochs from the best of five starts, stepwise rates, batches of 500; all parameters by Adam."""
    parsed = Name.parse(model)
    samples = parsed.recipe.num_samples
    expectation: Expectation = MonteCarlo(samples) if samples and not parsed.latent else _closed_form(model)
    return TrainingConfig(
        epochs=250,
        batch_size=parsed.recipe.batch_size,
        learning_rate=0.01 if parsed.recipe.deep else 0.03,
        milestones=(0.4, 0.6, 0.8, 0.9),
        decay=0.3,
        anneal_epochs=parsed.recipe.anneal_epochs,
        num_starts=5,
        start_epochs=20,
        expectation=expectation,
        seed=seed,
    )


def _closed_form(model: str) -> Analytic:
    """Closed-form up to the draws of a deep prior's inner layer."""
    return Analytic(num_samples=Name.parse(model).recipe.inner_samples)
