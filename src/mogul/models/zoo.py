"""The paper's models by name (`mogul.models.families`), each a short composition of inputs × prior × head."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from inspect import signature
from typing import Any, get_args

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from mogul import nonlinearities
from mogul.errors import ConfigError, require_positive, unknown_name
from mogul.heads import Identity
from mogul.means.linear import OutputMean
from mogul.models.families import FAMILIES, Name, Recipe, names
from mogul.models.model import Model
from mogul.models.parts import FROM_RESIDUALS, NoiseName, Plan
from mogul.nonlinearities import Nonlinearity
from mogul.priors import MeanName, Solver

__all__ = ["COMPOSITIONS", "FAMILIES", "OPTIONS", "Name", "Recipe", "build", "names"]


def mogp(plan: Plan) -> Model:
    """GPs × identity × a Bayesian matrix."""
    features = Identity(plan.num_latents)
    return Model(plan.inputs(), plan.gps("constant"), plan.head(features, plan.bayesian_mixing(features)))


def gprn(plan: Plan) -> Model:
    """GPs with white noise × identity × a matrix of GPs."""
    features = Identity(plan.num_latents)
    return Model(plan.inputs(), plan.gps("constant", white_noise=0.01), plan.head(features, plan.gp_mixing(features)))


def sbgprn(plan: Plan) -> Model:
    """GPs × identity × a matrix by a net."""
    features = Identity(plan.num_latents)
    return Model(plan.inputs(), plan.gps("constant"), plan.head(features, plan.net_mixing(features)))


def dgp(plan: Plan) -> Model:
    """Layers of GPs × identity × a Bayesian matrix."""
    features = Identity(plan.num_top_latents)
    return Model(plan.inputs(), plan.deep_gps("constant"), plan.head(features, plan.bayesian_mixing(features)))


# Neural models have biases in their hidden units, so their GPs have zero means (appendix, Bias in Hidden Units).
def n_mogp(plan: Plan) -> Model:
    """GPs × hidden units × a Bayesian matrix."""
    features = plan.hidden_units(plan.num_latents)
    return Model(plan.inputs(), plan.gps("zero"), plan.head(features, plan.bayesian_mixing(features)))


def n_sbgprn(plan: Plan) -> Model:
    """GPs × hidden units × a matrix by a net."""
    features = plan.hidden_units(plan.num_latents)
    return Model(plan.inputs(), plan.gps("zero"), plan.head(features, plan.net_mixing(features)))


def n_dgp(plan: Plan) -> Model:
    """Layers of GPs × hidden units × a Bayesian matrix."""
    features = plan.hidden_units(plan.num_top_latents)
    return Model(plan.inputs(), plan.deep_gps("zero"), plan.head(features, plan.bayesian_mixing(features)))


COMPOSITIONS: dict[str, Callable[[Plan], Model]] = {
    "mogp": mogp,
    "gprn": gprn,
    "dgp": dgp,
    "sbgprn": sbgprn,
    "n-mogp": n_mogp,
    "n-sbgprn": n_sbgprn,
    "n-dgp": n_dgp,
}
# Options of `build` that belong to a part that not every model has.
_PART_OPTIONS: dict[str, tuple[str, ...]] = {
    "hidden units": ("num_hidden", "nonlinearity"),
    "bayesian mixing": ("correlated_mixing",),
    "net mixing": ("dropout",),
    "gp mixing": ("num_mixing_inducing",),
    "deep gps": ("num_top_latents", "num_top_inducing", "layers", "inner_mean", "num_sites"),
}
# The same for kinds of noise.
_NOISE_OPTIONS: dict[str, tuple[str, ...]] = {
    FROM_RESIDUALS: ("num_noise_latents", "num_noise_inducing"),
    "gp": ("num_noise_latents", "num_noise_inducing"),
    "gp-student-t": ("num_noise_latents", "num_noise_inducing"),
    "low-rank": ("noise_rank",),
}
# Section 5.4: latent dimension, GPs and inducing points of every model with latent inputs.
LATENT_INPUTS, LATENT_GPS, LATENT_INDUCING = 4, 4, 200
TOP_INDUCING, MIXING_INDUCING = 100, 100
SITES = 8
NOISE_INDUCING, NOISE_RANK = 100, 2


def build(
    name: str,
    x: Float[Tensor, "N D"],
    num_outputs: int,
    generator: torch.Generator,
    *,
    num_latents: int | None = None,
    num_top_latents: int | None = None,
    num_hidden: int | None = None,
    num_inducing: int | None = None,
    num_top_inducing: int = TOP_INDUCING,
    layers: Sequence[tuple[int, int]] | None = None,
    num_mixing_inducing: int = MIXING_INDUCING,
    nonlinearity: str | Nonlinearity | None = None,
    inner_mean: MeanName | None = None,
    num_sites: int | None = None,
    dropout: float = 0.0,
    correlated_mixing: bool = False,
    solver: Solver | None = None,
    latent_mean: MeanName | None = None,
    kernel: Kernel | None = None,
    inducing_points: Float[Tensor, "M D"] | None = None,
    output_mean: OutputMean | None = None,
    noise: NoiseName = "constant",
    noise_floor: float | None = None,
    num_noise_latents: int | None = None,
    num_noise_inducing: int = NOISE_INDUCING,
    noise_rank: int = NOISE_RANK,
) -> Model:
    """The model of this name at a random start, in the precision of x; sizes are the paper's unless given.

    Sizes of parts that a model does not have are passed over, so that one set of sizes builds every model side by side;
    `mogul.fit` refuses them, as a user who gives them means something by them: see `require_used`.

    Args:
        name: one of `names()`.
        x: standardised training inputs, or where the latent inputs of an `-lvm` model start.
        num_outputs: the number P of outputs.
        generator: draws the start.
        num_latents: the number L of GPs; ⌈P/2⌉, or 4 with latent inputs.
        num_top_latents: the number L′ of GPs in the second layer of a deep model; ⌈3P/4⌉.
        num_hidden: the number H of hidden units; 2P, or P for n-sbgprn; 14 and 7 with latent inputs.
        num_inducing: the number M of inducing points; 400, 100 for gprn, 200 with latent inputs.
        num_top_inducing: that of the second layer of a deep model.
        layers: GPs and inducing points of each layer of a deep model, first to last, for any depth; by default the
            two layers that the four sizes above describe.
        num_mixing_inducing: that of gprn's mixing GPs.
        nonlinearity: a name, or any `Nonlinearity`; the paper's choice for each model by default.
        inner_mean: mean function of all layers of a deep model but the last; by default the same as the last one's.
        num_sites: learnt quadrature sites in place of draws of a deep model's inner layers, for training by predictive
            log likelihood (`TrainingConfig.objective`); None draws them.
        dropout: share of the mixing net's units dropped in training.
        correlated_mixing: whether q(M) has a full covariance for each output, not the paper's diagonal one.
        solver: how K_zz^{-1/2} is applied; Cholesky by default.
        latent_mean: mean functions of the latent GPs; the paper's choice for each model by default.
        kernel: any GPyTorch kernel on standardised inputs, with its priors and constraints, in place of the RBF of the
            latent GPs: of batch shape (L,), or () to share one among them. Further layers of a deep model, and gprn's
            mixing GPs, keep their own.
        inducing_points: where those of the latent GPs start, in place of `num_inducing` centres by k-means; of a deep
            model, those of its first layer.
        output_mean: what the head is added to; nothing by default.
        noise: "constant" is the paper's; "net" and "gp" have a log variance that depends on x, by a net or by GPs of
            their own; "student-t" has heavy tails; "gp-student-t" has both; "low-rank" is correlated across outputs.
        noise_floor: the least standard deviation of the noise, as a share of an output's scale: 1e-4, but 0 for
            constant noise.
        num_noise_latents: the number of GPs of gp and gp-student-t noise; ⌈P/2⌉.
        num_noise_inducing: that of their inducing points.
        noise_rank: the rank of what outputs of low-rank noise share.
    """
    parsed = Name.parse(name)
    require_positive(num_outputs=num_outputs)
    recipe = parsed.recipe
    if parsed.latent and output_mean is not None:
        raise ConfigError(f"output_mean needs inputs that are observed; those of {name} are latent. Leave it out.")
    if layers is not None and not (recipe.deep and len(layers) > 1):
        raise ConfigError(
            f"layers must be two or more, of a deep model; got {len(layers)} for {name}. "
            "Use num_latents and num_inducing for models of one layer."
        )
    _require_known(noise)
    _check_floor(noise_floor)
    if num_sites is not None:
        require_positive(num_sites=num_sites)
    papers = recipe.latent_nonlinearity if parsed.latent else recipe.nonlinearity
    chosen = papers if nonlinearity is None else nonlinearity
    hidden = recipe.latent_hidden if parsed.latent else recipe.hidden_per_output * num_outputs
    inducing = LATENT_INDUCING if parsed.latent else recipe.num_inducing
    sizes = {
        "num_outputs": num_outputs,
        "num_latents": _default(num_latents, LATENT_GPS if parsed.latent else math.ceil(num_outputs / 2)),
        "num_hidden": _default(num_hidden, hidden),
        "num_inducing": _default(num_inducing, inducing),
        "num_mixing_inducing": num_mixing_inducing,
        "num_noise_latents": _default(num_noise_latents, math.ceil(num_outputs / 2)),
        "num_noise_inducing": num_noise_inducing,
        "noise_rank": noise_rank,
    }
    top = _default(num_top_latents, math.ceil(3 * num_outputs / 4))
    require_positive(**sizes, num_top_latents=top, num_top_inducing=num_top_inducing)
    plan = Plan(
        x=x,
        **sizes,
        layers=_checked(layers) or ((sizes["num_latents"], sizes["num_inducing"]), (top, num_top_inducing)),
        num_sites=num_sites,
        nonlinearity=chosen if isinstance(chosen, Nonlinearity) else nonlinearities.by_name(chosen),
        deep_kernel=parsed.deep_kernel,
        latent=parsed.latent,
        inner_mean=inner_mean,
        dropout=dropout,
        correlated_mixing=correlated_mixing,
        solver=solver,
        latent_mean=latent_mean,
        given_kernel=kernel,
        given_points=inducing_points,
        noise=noise,
        noise_floor=noise_floor,
        output_scale=x.new_ones(num_outputs) if output_mean is None else output_mean.scale.to(x),
        generator=generator,
    )
    model = COMPOSITIONS[parsed.family](plan)
    if output_mean is not None:
        model.mean = deepcopy(output_mean)  # each model has its own, in its own precision
    return model.to(x.dtype)


OPTIONS = tuple(
    name for name, parameter in signature(build).parameters.items() if parameter.kind is parameter.KEYWORD_ONLY
)


def unused_options(name: str, noise: str = "constant") -> set[str]:
    """The options of `build` that the model of this name has no use for, with this noise.

    >>> sorted(unused_options("n-mogp") - unused_options("n-dgp"))
    ['inner_mean', 'layers', 'num_sites', 'num_top_inducing', 'num_top_latents']
    """
    parts = Name.parse(name).recipe.parts
    of_parts = {option for part, owned in _PART_OPTIONS.items() if part not in parts for option in owned}
    of_noises = {option for owned in _NOISE_OPTIONS.values() for option in owned}
    return of_parts | of_noises.difference(_NOISE_OPTIONS.get(noise, ()))


def require_used(name: str, options: Mapping[str, Any]) -> None:
    """Check that the model of this name has a use for each of these options of `build`."""
    noise = options.get("noise", "constant")
    if noise != FROM_RESIDUALS:
        _require_known(noise)
    unused = unused_options(name, noise)
    for option in options:
        if option in unused:
            named = {kind: owned for kind, owned in _NOISE_OPTIONS.items() if kind != FROM_RESIDUALS}
            kinds = [f"noise={kind!r}" for kind, owned in named.items() if option in owned]
            having = kinds or [family for family in FAMILIES if option not in unused_options(family)]
            raise ConfigError(
                f"{option} must be left out where nothing uses it; {f'{noise} noise' if kinds else name} does not; "
                f"got {options[option]!r}. Leave it out, or choose among {', '.join(having)}."
            )
    sizes = [size for size in ("num_latents", "num_inducing", "num_top_latents", "num_top_inducing") if size in options]
    if "layers" in options and sizes:
        raise ConfigError(f"layers has all sizes of a deep model; got {sizes[0]} beside it. Leave that out.")


def _checked(layers: Sequence[tuple[int, int]] | None) -> tuple[tuple[int, int], ...]:
    for number, (num_latents, num_inducing) in enumerate(layers or (), start=1):
        require_positive(**{f"GPs of layer {number}": num_latents, f"inducing points of layer {number}": num_inducing})
    return tuple(layers or ())


def _require_known(noise: object) -> None:
    if noise not in get_args(NoiseName):
        raise unknown_name("noise", noise, get_args(NoiseName))


def _check_floor(floor: float | None) -> None:
    if floor is not None and not 0 <= floor < math.inf:
        raise ConfigError(f"noise_floor must be 0 or more; got {floor}. 1e-4 is a share of an output's scale.")


def _default(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
