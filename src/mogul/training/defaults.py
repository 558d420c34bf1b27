"""What is chosen where nothing was said: the default model, its options and its sizes, and named ways to train."""

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from mogul.config import Precision, Stopping, TrainingConfig
from mogul.errors import unknown_name
from mogul.means.regressor import Regressor
from mogul.models.families import AUTO, FROM_RESIDUALS, Name, is_latent, members, mixture, suits
from mogul.models.parts import LATENT_GPS, unused_options
from mogul.objective import Analytic, Expectation, MonteCarlo
from mogul.objective.updates import NoiseUpdate

PresetName = Literal["default", "paper", "paper-fast"]
# Presets with the paper's models: its sizes, noise and means, and its objective.
_PAPERS = ("paper", "paper-fast")
MeanName = Literal["linear", "trees", "boosting", "auto", "paper", "zero", "constant"]
MeanChoice = MeanName | Regressor

# What model="auto" tries: a mixing matrix that is constant, made of GPs, made by a net, and one with hidden units
# (docs/defaults.md compares them).
MODELS: tuple[str, ...] = ("mogp", "gprn", "sbgprn", "n-sbgprn")
# What noise="auto" tries. A noise net is overconfident far from the data, and low-rank noise leaves the marginal
# of each output unchanged: both must be asked for by name.
NOISES: tuple[str, ...] = ("gp", "constant", "student-t")

# Budget of training steps: enough for most data; early stopping ends sooner.
_FEW_ROWS_STEPS, _STEPS, _GROUPED_STEPS, _MAX_EPOCHS = 600, 450, 600, 200
# Minimum epochs for thousands of rows; more still improves the LL of rows like those at hand (docs/defaults.md).
_FEW_ROWS_EPOCHS, _MIN_EPOCHS, _GROUPED_MIN_EPOCHS = 60, 40, 20
# Few epochs of very many rows are thousands of steps: half a million rows have three epochs.
_MANY_STEPS, _FEWEST_EPOCHS = 3000, 3
# Many small decays: what Adam's gradient noise hides at one rate, the next can still learn.
_MILESTONES, _DECAY = tuple(0.1 * tenth for tenth in range(2, 10)), 0.65
# With more rows, restarts hardly differ, and single precision is as good (docs/performance.md) and faster.
FEW_ROWS = 2500
# Steps and learning rate after an exact start. Nets have no posterior and overfit few rows long before the ELBO shows
# it. Adam's first steps are as long as its rate, in any direction: at a rate of 0.02 a single step took the ELBO of
# n-mogp on 240 rows from 674 to −26,866, and 300 more did not bring it back.
_AFTER_EXACT, _NETS_AFTER_EXACT, _EXACT_BATCH = (300, 0.005), (60, 0.003), 500
# Larger rates predict rows of known groups better, and are overconfident on new groups (docs/defaults.md).
_FEW_ROWS_RATE, _RATE, _GROUPED_RATE = 0.03, 0.02, 0.01
# Half of the paper's inducing points take two fifths of the time per step (docs/defaults.md).
_NUM_INDUCING = 200
# The most inducing points at an exact start: they are spread out, and most data need fewer.
MOST_INDUCING = 600
# Preset paper-fast with many rows: chosen on validation rows of Kuka (docs/laboratory.md).
_PAPER_FAST_BATCH, _PAPER_FAST_RATE, _PAPER_FAST_STEPS = 250, 0.05, 3600
_IN_GROUPS = ("mogp", "gprn", "n-sbgprn")
# The most outputs that have one latent GP each: with few rows, and with many.
_SEPARATE_OUTPUTS, _FEW_OUTPUTS = 24, 4
# With more rows exact GPs of 600 of them are tried before the steps: up to so many values, as the GPs of Kuka's 225,000
# would take longer than its steps; with the number of inducing points that costs about so many products for a posterior
# given all rows.
TRIED_ROWS, _MOST_TRIED_VALUES, _TRIED_INDUCING, _TRIED_PRODUCTS = 600, 60_000, (200, 1000), 5e10
# The same with latent inputs; the number of inducing points that the collapsed bound is maximised with.
_SEPARATE_LATENT, _LATENT_INDUCING = 64, 50


def default_model(num_rows: int, num_outputs: int, *, grouped: bool = False, noise: str | None = None) -> str:
    """The default model (docs/defaults.md): nets help with many rows, and overfit few.

    On new groups each model fails somewhere; a mixture of different models fails less. noise="auto" needs one model.

    >>> default_model(200, 7), default_model(20_000, 7), default_model(20_000, 7, grouped=True)
    ('mogp', 'n-sbgprn', 'mogp+gprn+n-sbgprn')
    """
    if num_rows <= FEW_ROWS:
        return "mogp"
    if not grouped:
        return "n-sbgprn"
    return _IN_GROUPS[0] if noise == AUTO else mixture(name for name in _IN_GROUPS if suits(name, num_outputs))


def is_the_papers(preset: str | None) -> bool:
    """Whether this preset has the paper's models: sizes, noise and means.

    >>> is_the_papers("paper-fast"), is_the_papers("default"), is_the_papers(None)
    (True, False, False)
    """
    return preset in _PAPERS


def default_mean(model: str, preset: str | None, *, choose: bool = False) -> MeanChoice:
    """The linear mean, or a choice between it and a forest under it where the model is not named either.

    The paper's presets have the paper's mean, and so have latent inputs: a plane needs observed ones.

    >>> default_mean("mogp", None), default_mean("mogp", "paper"), default_mean("mogp", None, choose=True)
    ('linear', 'paper', 'auto')
    """
    if is_the_papers(preset) or is_latent(model):
        return "paper"
    return "auto" if choose else "linear"


def with_defaults(
    options: Mapping[str, Any], model: str, preset: str | None, num_outputs: int, num_rows: int
) -> dict[str, Any]:
    """These options with the default noise and sizes; the paper's presets and latent inputs have constant noise.

    Residuals choose the noise. Few rows: one latent GP for each output, as outputs may have nothing in common. Many
    rows: one for each of up to four outputs, and 200 inducing points. `layers` has all sizes of a deep model.

    >>> with_defaults({}, "mogp", None, 2, 100), with_defaults({}, "mogp", "paper", 2, 100)
    ({'noise': 'residuals', 'num_latents': 2}, {'noise': 'constant'})
    >>> with_defaults({"noise": "net"}, "mogp", None, num_outputs=7, num_rows=10_000)
    {'noise': 'net', 'num_latents': 4, 'num_inducing': 200}
    >>> with_defaults({"noise": "gp"}, "n-sbgprn", None, num_outputs=3, num_rows=300)
    {'noise': 'gp', 'num_latents': 3, 'num_hidden': 6}
    """
    if is_the_papers(preset):
        shared = model != AUTO and any("shared_inducing" not in unused_options(name) for name in members(model))
        return {"noise": "constant", **({"shared_inducing": True} if shared else {}), **options}
    if is_latent(model):
        return {"noise": "constant", **_latent_sizes(model, num_outputs, options), **options}
    separate = _SEPARATE_OUTPUTS if num_rows <= FEW_ROWS else _FEW_OUTPUTS
    num_latents = num_outputs if num_outputs <= separate else max(_FEW_OUTPUTS, math.ceil(num_outputs / 2))
    sizes = {} if "layers" in options else {"num_latents": num_latents}
    if num_rows > FEW_ROWS and _has_many_inducing(model):
        sizes |= {"num_inducing": _NUM_INDUCING}
    if num_rows <= FEW_ROWS:
        sizes |= _hidden_units(model, num_outputs, options.get("num_latents") or num_latents)
    each = MODELS if model == AUTO else members(model)
    used = {size: value for size, value in sizes.items() if any(size not in unused_options(name) for name in each)}
    return {"noise": FROM_RESIDUALS, **used, **options}


def options_from_exact_gps(options: Mapping[str, Any], num_rows: int, num_outputs: int) -> dict[str, Any] | None:
    """Options of the mogp that is tried where rows are many and no model was named; None if it is not.

    It has a latent GP for each output, with hyperparameters of exact GPs of some rows, and the posterior given all.

    >>> options_from_exact_gps({}, 5000, 2)
    {'noise': 'residuals', 'num_latents': 2, 'num_inducing': 1000, 'kernel': 'auto'}
    >>> options_from_exact_gps({"num_hidden": 8}, 5000, 2), options_from_exact_gps({}, 5000, 100)
    (None, None)
    """
    useful = set(options) <= {"noise", "kernel", "num_inducing"}
    if not useful or num_outputs > _SEPARATE_OUTPUTS or not FEW_ROWS < num_rows <= _MOST_TRIED_VALUES / num_outputs:
        return None
    least, most = _TRIED_INDUCING
    affordable = math.isqrt(int(_TRIED_PRODUCTS / (2 * num_rows * num_outputs)))
    sizes = {"num_inducing": min(max(affordable, least), most), "kernel": AUTO}
    return {**with_defaults({}, "mogp", None, num_outputs, FEW_ROWS), **sizes, **options}


def _latent_sizes(model: str, num_outputs: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """With latent inputs: one GP for each of up to 64 outputs, as the collapsed bound has, and a lengthscale each.

    >>> _latent_sizes("mogp-lvm", 12, {})
    {'ard': True, 'num_inducing': 50, 'num_latents': 12}
    """
    unused = unused_options(model)
    shared = num_outputs > _SEPARATE_LATENT or "num_mixing_inducing" not in unused  # a GP for each pair is too many
    num_latents = LATENT_GPS if shared else num_outputs
    sizes: dict[str, Any] = {"ard": True}
    if "layers" not in options:
        sizes |= {"num_inducing": _LATENT_INDUCING, "num_latents": num_latents}
    return {name: value for name, value in sizes.items() if name not in unused} | (
        {} if "num_hidden" in unused else {"num_hidden": 2 * (options.get("num_latents") or num_latents)}
    )


def _hidden_units(model: str, num_outputs: int, num_latents: int) -> dict[str, int]:
    """At least two for each latent GP: a pair of opposite signs can be linear, as an exact start needs."""
    each = MODELS if model == AUTO else members(model)
    recipes = [Name.parse(name).recipe for name in each if "num_hidden" not in unused_options(name)]
    sizes = [recipe.hidden_per_output * num_outputs for recipe in recipes]
    return {"num_hidden": max(*sizes, 2 * num_latents)} if sizes and min(sizes) < 2 * num_latents else {}


def _has_many_inducing(model: str) -> bool:
    """Whether the paper has more inducing points than needed: measured for models of one layer and their mixtures.

    >>> _has_many_inducing("n-sbgprn"), _has_many_inducing("gprn"), _has_many_inducing("dgp")
    (True, False, False)
    """
    if model == AUTO:
        return True
    recipes = [Name.parse(name).recipe for name in members(model)]
    return max(recipe.num_inducing for recipe in recipes) > _NUM_INDUCING and not any(r.deep for r in recipes)


def preset(
    name: str, model: str, seed: int = 0, num_rows: int = 1000, *, grouped: bool = False, own_kernel: bool = False
) -> TrainingConfig:
    """The configuration of this name for a model.

    Args:
        name: `paper` (the paper's protocol: appendix, Experimental Details), `paper-fast` (the paper's objective, with
            the default's way to reach its optimum) or `default`.
        model: one of `mogul.models.names()`.
        seed: of everything random.
        num_rows: the number of rows to train on; the default and the precision depend on it.
        grouped: whether predictions are for new groups of rows: with many rows the default then has smaller learning
            rates and fewer epochs.
        own_kernel: whether the kernel is the user's; it has no exact start, but random restarts.

    Example:
        >>> preset("paper", "n-mogp").expectation
        MonteCarlo(num_samples=250)
    """
    match name:
        case "default":
            return _default(model, seed, num_rows, grouped, own_kernel)
        case "paper":
            return _paper(model, seed, num_rows)
        case "paper-fast":
            return _paper_fast(model, seed, num_rows, own_kernel)
        case _:
            raise unknown_name("preset", name, get_args(PresetName))


def _default(model: str, seed: int, num_rows: int, grouped: bool, own_kernel: bool) -> TrainingConfig:
    """A budget of steps and closed-form noise; restarts and double precision for few rows."""
    few = num_rows <= FEW_ROWS
    recipe = Name.parse(model).recipe
    if few and not own_kernel:
        return from_exact_start(model, seed, num_rows)
    batch_size = 250 if few else recipe.batch_size
    steps_each = math.ceil(num_rows / batch_size)
    if few:
        epochs = _epochs(steps_each, _FEW_ROWS_STEPS, _FEW_ROWS_EPOCHS)
    else:
        epochs = _epochs(steps_each, *((_GROUPED_STEPS, _GROUPED_MIN_EPOCHS) if grouped else (_STEPS, _MIN_EPOCHS)))
    return TrainingConfig(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=_FEW_ROWS_RATE if few else _GROUPED_RATE if grouped else _RATE,
        schedule="steps" if few or grouped else "cosine",
        milestones=_MILESTONES,
        decay=_DECAY,
        anneal_epochs=min(recipe.anneal_epochs, epochs // 5),
        num_starts=5 if few else 1,
        expectation=_closed_form(model),
        updates=(NoiseUpdate(),),
        stopping=Stopping(),
        precision=_precision(num_rows),
        # Latent inputs start at the maximum of the collapsed bound of some rows: random starts do not find structure.
        start="exact" if is_latent(model) and not own_kernel else "random",
        seed=seed,
    )


def from_exact_start(model: str, seed: int, num_rows: int) -> TrainingConfig:
    """Few rows: start from exact GPs, then train with large batches.

    >>> config = from_exact_start("n-mogp", seed=0, num_rows=300)
    >>> config.start, config.epochs, config.batch_size
    ('exact', 300, 300)
    """
    # Latent inputs are drawn once per step: more steps move them away from the collapsed bound's without a gain.
    few_steps = "dropout" not in unused_options(model) or is_latent(model)
    steps, rate = _NETS_AFTER_EXACT if few_steps else _AFTER_EXACT
    batch_size = min(num_rows, _EXACT_BATCH)
    return TrainingConfig(
        start="exact",
        epochs=math.ceil(steps / math.ceil(num_rows / batch_size)),
        batch_size=batch_size,
        learning_rate=rate,
        schedule="cosine",
        num_starts=5,
        expectation=_closed_form(model),
        updates=(NoiseUpdate(),),
        seed=seed,
    )


def _precision(num_rows: int) -> Precision:
    return "float64" if num_rows <= FEW_ROWS else "float32"


def _epochs(steps_each: int, steps: int, fewest: int) -> int:
    """Epochs within the budget of steps: at least `fewest`, fewer only for very many rows."""
    enough = min(_MAX_EPOCHS, max(fewest, steps // steps_each))
    return max(_FEWEST_EPOCHS, min(enough, _MANY_STEPS // steps_each))


def _paper(model: str, seed: int, num_rows: int) -> TrainingConfig:
    """250 epochs from the best of five restarts, stepwise rates, batches of 500; all parameters by Adam.

    The paper does not state its precision.
    """
    parsed = Name.parse(model)
    samples = parsed.recipe.num_samples
    expectation: Expectation = MonteCarlo(samples) if samples and not parsed.latent else _closed_form(model)
    return TrainingConfig(
        epochs=250,
        batch_size=parsed.recipe.batch_size,
        # The smallest of the paper's range, 0.01 to 0.05: at 0.03 N-SBGPRN diverged in epochs 20 to 30 of Kuka.
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


def _paper_fast(model: str, seed: int, num_rows: int, own_kernel: bool) -> TrainingConfig:
    """The paper's objective with the engine's way to its optimum.

    Expectations and noise are closed-form, batches half of the paper's or less, and one random start is trained by a
    cosine that begins at the largest of the paper's rates. Few rows, and latent inputs, start as the default does.
    """
    if num_rows <= FEW_ROWS and not own_kernel:
        return from_exact_start(model, seed, num_rows)
    recipe = Name.parse(model).recipe
    steps_each = math.ceil(num_rows / _PAPER_FAST_BATCH)
    epochs = min(_MAX_EPOCHS, max(_FEWEST_EPOCHS, math.ceil(_PAPER_FAST_STEPS / steps_each)))
    return TrainingConfig(
        epochs=epochs,
        batch_size=_PAPER_FAST_BATCH,
        learning_rate=_PAPER_FAST_RATE,
        schedule="cosine",
        anneal_epochs=min(recipe.anneal_epochs, epochs // 5),
        num_starts=1,
        expectation=Analytic(),
        updates=(NoiseUpdate(),),
        precision=_precision(num_rows),
        start="exact" if is_latent(model) and not own_kernel else "random",
        seed=seed,
    )


def _closed_form(model: str) -> Analytic:
    """Closed form, apart from draws of the inner layers of a deep prior."""
    return Analytic(num_samples=Name.parse(model).recipe.inner_samples)
