"""Named ways to train."""

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from mogul.errors import unknown_name
from mogul.families import AUTO, FAMILIES, Name, is_latent, members, mixture, suits
from mogul.objective import Analytic, Expectation, MonteCarlo
from mogul.training.config import Precision, TrainingConfig
from mogul.training.stopping import Stopping
from mogul.training.updates import NoiseUpdate

PresetName = Literal["default", "paper"]


# The default's budget, in steps: enough for most data, and `Stopping` ends sooner where it is too much.
_STEPS, _MAX_EPOCHS = 600, 200
# Thousands of rows are each seen so often: more of it still pays with rows like those at hand (docs/defaults.md).
_MIN_EPOCHS, _GROUPED_MIN_EPOCHS = 60, 20
# Of very many rows a few passes are thousands of steps: half a million are gone through three times.
_MANY_STEPS, _FEWEST_EPOCHS = 3000, 3
# Many small steps down: what Adam's own noise hides at one rate, the next can still learn.
_MILESTONES, _DECAY = tuple(0.1 * tenth for tenth in range(2, 10)), 0.65
# Beyond so many rows random starts hardly differ, and single precision is as good (docs/performance.md) and faster.
_FEW_ROWS = 2500
# From an exact start, steps and rate by the part of a model that needs most care: nets have no posterior, and overfit
# few rows long before the bound says so.
_AFTER_EXACT, _NETS_AFTER_EXACT, _EXACT_BATCH = (300, 0.02), (60, 0.003), 500
# Large steps learn more of rows like those at hand, and are too sure of others (docs/defaults.md).
_FEW_ROWS_RATE, _RATE, _GROUPED_RATE = 0.03, 0.02, 0.01
_IN_GROUPS = ("mogp", "gprn", "n-sbgprn")
# So many outputs have a latent GP each; the paper's robots have seven and more.
_FEW_OUTPUTS = 4


def default_model(num_rows: int, num_outputs: int, *, grouped: bool = False, noise: str | None = None) -> str:
    """The model of someone who names none (docs/defaults.md): nets pay with many rows, and overfit few.

    On new groups each model is led astray somewhere, and a mixture of different ones less than any of them; a noise is
    chosen for one model.

    >>> default_model(200, 7), default_model(20_000, 7), default_model(20_000, 7, grouped=True)
    ('mogp', 'n-sbgprn', 'mogp+gprn+n-sbgprn')
    """
    if num_rows <= _FEW_ROWS:
        return "mogp"
    if not grouped:
        return "n-sbgprn"
    return _IN_GROUPS[0] if noise == AUTO else mixture(name for name in _IN_GROUPS if suits(name, num_outputs))


def with_defaults(options: Mapping[str, Any], model: str, preset: str | None, num_outputs: int) -> dict[str, Any]:
    """These options, and those of someone who names none: constant noise alone for the paper's way and latent inputs.

    Noise knows where it is. Up to four outputs have a GP each: the paper's ⌈P/2⌉ is one for two outputs, which may have
    nothing in common. `layers` has all sizes of a deep model.

    >>> with_defaults({}, "mogp", None, num_outputs=2), with_defaults({}, "mogp", "paper", num_outputs=2)
    ({'noise': 'gp', 'num_latents': 2}, {'noise': 'constant'})
    >>> with_defaults({"noise": "net"}, "mogp", None, num_outputs=7)
    {'noise': 'net', 'num_latents': 4}
    >>> with_defaults({}, "n-sbgprn", None, num_outputs=3)
    {'noise': 'gp', 'num_latents': 3, 'num_hidden': 6}
    """
    if preset == "paper" or is_latent(model):
        return {"noise": "constant", **options}
    num_latents = max(min(num_outputs, _FEW_OUTPUTS), math.ceil(num_outputs / 2))
    sizes = {} if "layers" in options else {"num_latents": num_latents}
    return {"noise": "gp", **sizes, **_hidden_units(model, num_outputs, num_latents), **options}


def _hidden_units(model: str, num_outputs: int, num_latents: int) -> dict[str, int]:
    """Two for each GP at least: a pair of opposite signs can be linear, which an exact start wants."""
    recipes = [] if model == AUTO else [Name.parse(name).recipe for name in members(model)]
    sizes = [recipe.hidden_per_output * num_outputs for recipe in recipes if "hidden units" in recipe.parts]
    return {"num_hidden": max(*sizes, 2 * num_latents)} if sizes and min(sizes) < 2 * num_latents else {}


def preset(name: str, model: str, seed: int = 0, num_rows: int = 1000, *, grouped: bool = False) -> TrainingConfig:
    """The configuration of this name for a model.

    Args:
        name: `paper` (the paper's protocol: appendix, Experimental Details) or `default`.
        model: one of `mogul.models.names()`.
        seed: of everything random.
        num_rows: how many rows there are to train on: the default way and the precision depend on it.
        grouped: whether rows come in groups, and new ones of other groups: of many the default way then takes smaller
            steps, and goes through them less often.

    Example:
        >>> preset("paper", "n-mogp").expectation
        MonteCarlo(num_samples=250)
    """
    match name:
        case "default":
            return _default(model, seed, num_rows, grouped)
        case "paper":
            return _paper(model, seed, num_rows)
        case _:
            raise unknown_name("preset", name, get_args(PresetName))


def _default(model: str, seed: int, num_rows: int, grouped: bool) -> TrainingConfig:
    """A budget of steps, closed-form noise; several starts and double precision for few rows."""
    few = num_rows <= _FEW_ROWS
    recipe = Name.parse(model).recipe
    if few and not is_latent(model) and recipe.parts != FAMILIES["mogp"].parts:
        return from_exact_start(model, seed, num_rows)
    batch_size = 250 if few else recipe.batch_size
    epochs = _epochs(math.ceil(num_rows / batch_size), _GROUPED_MIN_EPOCHS if grouped else _MIN_EPOCHS)
    return TrainingConfig(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=_FEW_ROWS_RATE if few else _GROUPED_RATE if grouped else _RATE,
        milestones=_MILESTONES,
        decay=_DECAY,
        anneal_epochs=min(recipe.anneal_epochs, epochs // 5),
        num_starts=5 if few else 1,
        expectation=_closed_form(model),
        updates=(NoiseUpdate(),),
        stopping=Stopping(),
        precision=_precision(num_rows),
        seed=seed,
    )


def from_exact_start(model: str, seed: int, num_rows: int) -> TrainingConfig:
    """Few rows: a model that starts where exact GPs ended, trained on from there by large batches.

    >>> config = from_exact_start("n-mogp", seed=0, num_rows=300)
    >>> config.start, config.epochs, config.batch_size
    ('exact', 300, 300)
    """
    nets = "net mixing" in Name.parse(model).recipe.parts
    steps, rate = _NETS_AFTER_EXACT if nets else _AFTER_EXACT
    batch_size = min(num_rows, _EXACT_BATCH)
    return TrainingConfig(
        start="exact",
        epochs=math.ceil(steps / math.ceil(num_rows / batch_size)),
        batch_size=batch_size,
        learning_rate=rate,
        milestones=(0.5, 0.7, 0.8, 0.9),
        decay=0.5,
        num_starts=1,
        expectation=_closed_form(model),
        updates=(NoiseUpdate(),),
        seed=seed,
    )


def _precision(num_rows: int) -> Precision:
    return "float64" if num_rows <= _FEW_ROWS else "float32"


def _epochs(steps_each: int, fewest: int) -> int:
    """As many as the budget of steps allows, within reason."""
    enough = min(_MAX_EPOCHS, max(fewest, _STEPS // steps_each))
    return max(_FEWEST_EPOCHS, min(enough, _MANY_STEPS // steps_each))


def _paper(model: str, seed: int, num_rows: int) -> TrainingConfig:
    """250 epochs from the best of five starts, stepwise rates, batches of 500; all parameters by Adam.

    The paper does not tell its precision.
    """
    parsed = Name.parse(model)
    samples = parsed.recipe.num_samples
    expectation: Expectation = MonteCarlo(samples) if samples and not parsed.latent else _closed_form(model)
    return TrainingConfig(
        epochs=250,
        batch_size=parsed.recipe.batch_size,
        # The least of the paper's range, 0.01 to 0.05: at 0.03 N-SBGPRN fell back in epochs 20 to 30 of Kuka, for good.
        learning_rate=0.01,
        milestones=(0.4, 0.6, 0.8, 0.9),
        decay=0.3,
        anneal_epochs=parsed.recipe.anneal_epochs,
        num_starts=5,
        start_epochs=20,
        expectation=expectation,
        precision=_precision(num_rows),
        seed=seed,
    )


def _closed_form(model: str) -> Analytic:
    """Closed-form up to the draws of a deep prior's inner layer."""
    return Analytic(num_samples=Name.parse(model).recipe.inner_samples)
