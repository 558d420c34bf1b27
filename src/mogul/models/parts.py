"""Parts of models: each method of `Parts` builds one part at a random start and reads its options.

An option is declared beside the method that reads it, with its default, its check and its help. An option that no part
of a model reads is unused by that model.
"""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from mogul import nonlinearities, registry
from mogul.errors import ConfigError, require_positive, unknown_name
from mogul.heads import BayesianMixing, CorrelatedMixing, Features, GPMixing, Head, Identity, Mixing, NetMixing, Neural
from mogul.heads.noise import Noise
from mogul.means.linear import OutputMean
from mogul.models.families import AUTO, FAMILIES, FROM_RESIDUALS, Name
from mogul.models.model import Inputs, Latent, Model, Observed
from mogul.nonlinearities import Nonlinearity
from mogul.priors import (
    ConstantMean,
    DeepGPs,
    DeepKernel,
    IndependentGPs,
    Prior,
    Sites,
    Solver,
    kernel_by_name,
    kmeans,
    mean_by_name,
    own_kernel,
    randomise,
    rbf,
)
from mogul.registry import Option, declare, positive

# Section 5.4: latent dimension, GPs and inducing points of every model with latent inputs.
LATENT_INPUTS, LATENT_GPS, LATENT_INDUCING = 4, 4, 200
SITES = 8
# The noise with the most options among those that residuals may choose.
_LARGEST_NOISE = "gp-student-t"
_Tensors = Mapping[str, Tensor]


def stored_layers(tensors: _Tensors) -> list[tuple[int, int]]:
    """GPs and inducing points of each layer of a prior, from its tensors; empty for a prior defined elsewhere."""
    count = len({label.split(".")[2] for label in tensors if label.startswith("prior.layers.")})
    labels = [f"prior.layers.{number}.variational_mean" for number in range(count)] or ["prior.variational_mean"]
    shapes = [tensors[label].shape for label in labels if label in tensors]
    return [(rows, columns) for rows, columns in shapes]


def _first_layer(tensors: _Tensors) -> tuple[int, int] | tuple[None, None]:
    return next(iter(stored_layers(tensors)), (None, None))


def _last_layer(tensors: _Tensors) -> tuple[int, int] | tuple[None, None]:
    """Of a deep model; others have none but the first."""
    layers = stored_layers(tensors)
    return layers[-1] if len(layers) > 1 else (None, None)


def _check_solver(name: str, value: object) -> None:
    if not isinstance(value, Solver):
        raise ConfigError(f"solver must be Cholesky() or CIQ(); got {value!r}. Leave it out for Cholesky.")


def _check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False; got {value!r}. Pass one of them.")


def _check_dropout(name: str, value: object) -> None:
    if not (isinstance(value, int | float) and 0 <= value < 1):
        raise ConfigError(f"dropout must be in [0, 1); got {value!r}. 0 drops none.")


def _check_nonlinearity(name: str, value: object) -> None:
    if not isinstance(value, Nonlinearity):
        nonlinearities.by_name(value)


def _check_kernel(name: str, value: object) -> None:
    if value == AUTO:
        raise ConfigError("kernel='auto' is chosen by mogul.fit, by evidence; a model is built with one. Name it.")
    if isinstance(value, str):
        registry.kernel_terms(value)


def _check_noise(name: str, value: object) -> None:
    registry.get("noise", value)


def _check_floor(name: str, floor: float) -> None:
    if not 0 <= floor < math.inf:
        raise ConfigError(f"noise_floor must be 0 or more; got {floor}. 1e-4 is a share of an output's scale.")


def _check_layers(name: str, layers: Sequence[tuple[int, int]]) -> None:
    for number, (num_latents, num_inducing) in enumerate(layers, start=1):
        require_positive(**{f"GPs of layer {number}": num_latents, f"inducing points of layer {number}": num_inducing})


class Parts:
    """The parts a model is composed of; a model is registered as a function from `Parts` to a `Model`.

    Args:
        x: standardised training inputs, or the start of latent inputs.
        num_outputs: the number P of outputs.
        generator: draws the random start.
        name: the model's name: its recipe, and whether its inputs are latent and its kernel deep.
        options: the given options, checked.

    Example:
        >>> parts = Parts(torch.randn(20, 3), 2, torch.Generator(), Name.parse("mogp"), {"num_latents": 4})
        >>> parts.gps("zero").num_latents, sorted(parts.read)[-2:]
        (4, ['num_latents', 'solver'])
    """

    def __init__(
        self,
        x: Float[Tensor, "N D"],
        num_outputs: int,
        generator: torch.Generator,
        name: Name,
        options: Mapping[str, Any],
    ) -> None:
        self.x = x
        self.num_outputs = num_outputs
        self.generator = generator
        self.latent, self.deep_kernel, self.recipe = name.latent, name.deep_kernel, name.recipe
        self.read: set[str] = set()  # options that some part has asked for
        self._given = options
        known = registry.options()
        for option, value in options.items():
            if option not in known:
                raise unknown_name("option", option, known)
            check = known[option].check
            if value is not None and check is not None:
                check(option, value)
        self._known = known

    def option(self, name: str) -> Any:
        """The given value of an option, or its default."""
        self.read.add(name)
        if (given := self._given.get(name)) is not None:
            return given
        default = self._known[name].default
        return default(self) if callable(default) else default

    def model(self, prior: Prior, features: Features, mixing: Mixing) -> Model:
        """The whole model, with the requested inputs and noise: y = M(x) h(F(x)) + noise."""
        return Model(self.inputs(), prior, Head(features, mixing, self.noise()))

    def inputs(self) -> Inputs:
        """Observed inputs, or latent inputs that start at x."""
        return Latent(self.x) if self.latent else Observed()

    @property
    @declare(
        num_latents=Option(
            "The number L of GPs; ⌈P/2⌉, or 4 with latent inputs.",
            lambda parts: LATENT_GPS if parts.latent else math.ceil(parts.num_outputs / 2),
            positive,
            stored=lambda tensors: _first_layer(tensors)[0],
        )
    )
    def num_latents(self) -> int:
        """The number L of GPs."""
        return int(self.option("num_latents"))

    @declare(
        ard=Option(
            "Whether kernels on latent inputs have a lengthscale for each, so that inputs that are not needed switch "
            "off; on observed inputs they always have.",
            False,
        )
    )
    def kernel(self, num_latents: int | None) -> Kernel:
        """An RBF on the inputs, deep if requested; one lengthscale per input, or one for all latent inputs."""
        return self._warped(rbf(self.x.shape[1], num_latents, ard=not self.latent or self.option("ard")))

    @declare(
        kernel=Option(
            "The name of a registered kernel, names with + and * between them, or any GPyTorch kernel on standardised "
            "inputs, with its priors and constraints, in place of the RBF of the latent GPs: of batch shape (L,), or "
            "() to share one among them. Further layers of a deep model, and gprn's mixing GPs, keep their own. "
            "`mogul.fit` also takes 'auto'.",
            None,
            _check_kernel,
        )
    )
    def latent_kernel(self, num_latents: int) -> Kernel:
        """Kernel of the GPs on the inputs: a fresh copy of the given one for each start, or an RBF."""
        given = self.option("kernel")
        if given is None:
            return self.kernel(num_latents)
        if isinstance(given, str):
            given = kernel_by_name(given, self.x.shape[1], num_latents)
        return self._warped(own_kernel(given, self.x))

    def _warped(self, kernel: Kernel) -> Kernel:
        return DeepKernel(kernel, self.x.shape[1], self.generator) if self.deep_kernel else kernel

    @declare(
        num_inducing=Option(
            "The number M of inducing points; 400, 100 for gprn, 200 with latent inputs.",
            lambda parts: LATENT_INDUCING if parts.latent else parts.recipe.num_inducing,
            positive,
            stored=lambda tensors: _first_layer(tensors)[1],
            rows=True,
        ),
        latent_mean=Option(
            "Mean functions of the latent GPs: zero, constant or linear; the paper's choice for each model by default."
        ),
    )
    def gps(self, mean: str, white_noise: float | None = None) -> IndependentGPs:
        """L sparse GPs on the inputs, with k-means inducing points, at a random start; `mean` is the default."""
        mean = self.option("latent_mean") or mean
        return self._gps_on_inputs(self.num_latents, self.option("num_inducing"), mean, white_noise)

    @declare(
        inducing_points=Option(
            "Start of the latent GPs' inducing points, in place of k-means centres; in a deep model, of its first "
            "layer's."
        ),
        solver=Option("How K_zz^{-1/2} is applied; Cholesky by default.", None, _check_solver),
    )
    def _gps_on_inputs(
        self, num_latents: int, num_inducing: int, mean: str, white_noise: float | None = None
    ) -> IndependentGPs:
        given: Tensor | None = self.option("inducing_points")
        points = kmeans(self.x, num_inducing, self.generator) if given is None else given.to(self.x)
        kernel = self.latent_kernel(num_latents)
        start = mean_by_name(mean, self.x, num_latents)
        gps = IndependentGPs(kernel, points, num_latents, mean=start, white_noise=white_noise, solver=self._solver)
        return randomise(gps, self.generator, spread=0.1, scale=0.1)

    @property
    def _solver(self) -> Solver | None:
        solver: Solver | None = self.option("solver")
        return solver

    def _next_layer(
        self, below: Float[Tensor, "N E"], num_latents: int, num_inducing: int, mean: str
    ) -> IndependentGPs:
        """GPs with their own inducing points, which start at random since the layer's inputs are not known yet.

        A linear mean starts at the principal directions of the means of the layer below.
        """
        num_inputs = below.shape[-1]
        points = torch.randn((num_latents, num_inducing, num_inputs), generator=self.generator).to(self.x)
        kernel = rbf(num_inputs, num_latents, ard=not self.latent)
        start = mean_by_name(mean, below, num_latents)
        gps = IndependentGPs(kernel, points, num_latents, mean=start, solver=self._solver)
        return randomise(gps, self.generator, spread=0.1, scale=0.1)

    @property
    @declare(
        num_top_latents=Option(
            "The number L′ of GPs in the second layer of a deep model; ⌈3P/4⌉.",
            lambda parts: math.ceil(3 * parts.num_outputs / 4),
            positive,
            stored=lambda tensors: _last_layer(tensors)[0],
        ),
        num_top_inducing=Option(
            "The number of inducing points of that layer.", 100, positive, lambda tensors: _last_layer(tensors)[1]
        ),
        layers=Option(
            "GPs and inducing points of each layer of a deep model, first to last, for any depth; by default the two "
            "layers that the four sizes above describe.",
            None,
            _check_layers,
            stored=lambda tensors: stored_layers(tensors) if len(stored_layers(tensors)) > 1 else None,
        ),
    )
    def layers(self) -> tuple[tuple[int, int], ...]:
        """GPs and inducing points of each layer."""
        if (given := self.option("layers")) is not None:
            return tuple(given)
        top = self.option("num_top_latents"), self.option("num_top_inducing")
        return (self.num_latents, self.option("num_inducing")), top

    @property
    def num_top_latents(self) -> int:
        """GPs in the last layer of a deep model."""
        return self.layers[-1][0]

    @declare(
        inner_mean=Option("Mean function of all layers of a deep model but the last; by default the last one's."),
        num_sites=Option(
            "Learnt quadrature sites in place of draws of a deep model's inner layers, for training by predictive log "
            "likelihood (`TrainingConfig.objective`); None draws them.",
            None,
            positive,
            stored=("prior.inner.logits", 0),
        ),
    )
    def deep_gps(self, mean: str) -> DeepGPs:
        """Two layers, or those requested, with draws of the inner layers or learnt sites."""
        outer = self.option("latent_mean") or mean
        means = [self.option("inner_mean") or outer] * (len(self.layers) - 1) + [outer]
        layers = [self._gps_on_inputs(*self.layers[0], means[0])]
        below = layers[0].mean(self.x).detach()
        for (num_latents, num_inducing), chosen in zip(self.layers[1:], means[1:], strict=True):
            layers.append(self._next_layer(below, num_latents, num_inducing, chosen))
            below = layers[-1].mean(below).detach()
        num_sites = self.option("num_sites")
        if num_sites is None:
            return DeepGPs(*layers)
        inner = [num_latents for num_latents, _ in self.layers[:-1]]
        return DeepGPs(*layers, inner=Sites(num_sites, inner, self.generator))

    def identity(self, num_latents: int | None = None) -> Identity:
        """The latent functions themselves."""
        return Identity(self.num_latents if num_latents is None else num_latents)

    @declare(
        num_hidden=Option(
            "The number H of hidden units; 2P, or P for n-sbgprn; 14 and 7 with latent inputs.",
            lambda parts: (
                parts.recipe.latent_hidden if parts.latent else parts.recipe.hidden_per_output * parts.num_outputs
            ),
            positive,
            stored=("head.features.hidden_weights", 0),
        ),
        nonlinearity=Option(
            "A name, or any `Nonlinearity`; the paper's choice for each model by default.",
            lambda parts: parts.recipe.latent_nonlinearity if parts.latent else parts.recipe.nonlinearity,
            _check_nonlinearity,
        ),
    )
    def hidden_units(self, num_latents: int | None = None) -> Neural:
        """H hidden units on top of latent functions."""
        chosen = self.option("nonlinearity")
        nonlinearity = chosen if isinstance(chosen, Nonlinearity) else nonlinearities.by_name(chosen)
        num_latents = self.num_latents if num_latents is None else num_latents
        return Neural(nonlinearity, num_latents, self.option("num_hidden"), self.generator)

    @declare(
        correlated_mixing=Option(
            "Whether q(M) has a full covariance for each output, not a diagonal one.", False, _check_flag
        )
    )
    def bayesian_mixing(self, features: Features) -> BayesianMixing:
        """One P × H matrix, with a posterior."""
        kind = CorrelatedMixing if self.option("correlated_mixing") else BayesianMixing
        return kind(self.num_outputs, features.num_features, self.generator)

    @declare(dropout=Option("Share of the mixing net's units dropped in training.", 0.0, _check_dropout))
    def net_mixing(self, features: Features) -> NetMixing:
        """A P × H matrix by a net."""
        dropout = self.option("dropout")
        return NetMixing(self.x.shape[1], self.num_outputs, features.num_features, self.generator, dropout=dropout)

    @declare(
        num_mixing_inducing=Option(
            "The number of inducing points of gprn's mixing GPs.",
            100,
            positive,
            stored=("head.mixing.gps.variational_mean", 1),
            numbers=lambda sizes: _num_weights(sizes) * sizes["num_mixing_inducing"] ** 2,
            rows=True,
        ),
        shared_inducing=Option(
            "Whether gprn's mixing GPs have the inducing points of its latent GPs, as in the paper, not their own.",
            False,
            _check_flag,
        ),
    )
    def gp_mixing(self, features: Features, prior: Prior | None = None) -> GPMixing:
        """A P × H matrix of GPs that share their kernel and inducing points, constant where training starts.

        With `shared_inducing` they are those of the prior, if that is one layer of GPs with one set of them.
        """
        num_gps = self.num_outputs * features.num_features
        points = kmeans(self.x, self.option("num_mixing_inducing"), self.generator)
        own = prior.inducing_points if isinstance(prior, IndependentGPs) else None
        if self.option("shared_inducing") and own is not None and own.dim() == points.dim():
            points = own
        start = torch.randn(num_gps, generator=self.generator).to(points) / features.num_features**0.5
        gps = IndependentGPs(self.kernel(None), points, num_gps, mean=ConstantMean(start), solver=self._solver)
        return GPMixing(randomise(gps, self.generator, spread=0.1, scale=0.1), self.num_outputs)

    @declare(noise=Option("The kind of noise, by its name.", "constant", _check_noise))
    def noise(self) -> Noise:
        """The requested noise."""
        make = registry.get("noise", self.option("noise")).make
        built: Noise = getattr(make, "from_parts", make)(self)
        return built

    @declare(
        noise_floor=Option(
            "The least standard deviation of the noise, as a share of an output's scale: 1e-4, but 0 for constant "
            "noise.",
            None,
            _check_floor,
        )
    )
    def noise_floor(self, default: float) -> Float[Tensor, "P"]:
        """The requested or default floor, converted from a share of an output's scale to the head's units."""
        share, mean = self.option("noise_floor"), self.option("output_mean")
        share = default if share is None else share
        scale = self.x.new_ones(self.num_outputs) if mean is None else mean.scale.to(self.x)
        return share / scale if share else torch.zeros_like(scale)


def _num_weights(sizes: Mapping[str, Any]) -> int:
    """Entries of the mixing matrix."""
    layers = sizes.get("layers")
    features = sizes.get("num_hidden") or (layers[-1][0] if layers else sizes.get("num_latents", 1))
    return int(sizes["num_outputs"] * features)


def build(name: str, x: Float[Tensor, "N D"], num_outputs: int, generator: torch.Generator, **options: Any) -> Model:
    """The model of this name at a random start, in the precision of x; sizes are the paper's unless given.

    Options of parts that a model does not have are ignored, so that one set of options builds every model. `mogul.fit`
    refuses them instead: see `require_used`.

    Args:
        name: one of `names()`.
        x: standardised training inputs, or the start of an `-lvm` model's latent inputs.
        num_outputs: the number P of outputs.
        generator: draws the start.
        options: sizes and choices, listed with their defaults in docs/reference/options.md; None is the default.

    Example:
        >>> build("n-mogp", torch.randn(20, 3), 2, torch.Generator(), num_hidden=5).head.features.num_features
        5
    """
    parsed = Name.parse(name)
    require_positive(num_outputs=num_outputs)
    layers = options.get("layers")
    if parsed.latent and options.get("output_mean") is not None:
        raise ConfigError(f"output_mean needs observed inputs; {name} has latent inputs. Leave it out.")
    if layers is not None and not (parsed.recipe.deep and len(layers) > 1):
        raise ConfigError(
            f"layers must be two or more, of a deep model; got {len(layers)} for {name}. "
            "Use num_latents and num_inducing for models of one layer."
        )
    return compose(parsed, Parts(x, num_outputs, generator, parsed, options)).to(x.dtype)


@declare(output_mean=Option("What the head is added to, an `OutputMean`; nothing by default."))
def compose(name: Name, parts: Parts) -> Model:
    """Build the model from its parts, and add the output mean."""
    model = registry.get("model", name.family).make(parts)
    if not isinstance(model, Model):
        raise ConfigError(f"A model must be a function that gives a Model; {name.family} gave {model!r}. Return one.")
    mean: OutputMean | None = parts.option("output_mean")
    if mean is not None:
        model.mean = deepcopy(mean)  # each model has its own, in its own precision
    return model


def unused_options(name: str, noise: str = "constant") -> set[str]:
    """The options of `build` that the model of this name does not use with this noise.

    >>> sorted(unused_options("n-mogp") - unused_options("n-dgp"))
    ['inner_mean', 'layers', 'num_sites', 'num_top_inducing', 'num_top_latents']
    """
    noise = _LARGEST_NOISE if noise == FROM_RESIDUALS else noise
    parsed = Name.parse(name)
    makes = registry.get("model", parsed.family).make, registry.get("noise", noise).make
    return registry.options().keys() - _options_read(parsed, noise, makes) - {"noise"}  # there always is one


@lru_cache
def _options_read(name: Name, noise: str, makes: tuple[Any, Any]) -> frozenset[str]:
    """The options that parts read while a small model is built; `makes` tells re-registered names apart."""
    x = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    parts = Parts(x, 2, torch.Generator().manual_seed(0), name, {"noise": noise})
    try:
        compose(name, parts)
    except Exception:  # a user's model may need other sizes: assume that it uses every option
        return frozenset(registry.options())
    return frozenset(parts.read)


def require_used(name: str, options: Mapping[str, Any]) -> None:
    """Check that the model of this name uses each of these options of `build`."""
    noise = options.get("noise", "constant")
    unused = unused_options(name, noise)
    for option in options:
        if option in unused:
            kinds = [f"noise={kind!r}" for kind in registry.names("noise") if option not in unused_options(name, kind)]
            having = kinds or [family for family in FAMILIES if option not in unused_options(family)]
            raise ConfigError(
                f"{option} must be left out where nothing uses it; {f'{noise} noise' if kinds else name} does not; "
                f"got {options[option]!r}. Leave it out, or choose among {', '.join(having)}."
            )
    sizes = [size for size in ("num_latents", "num_inducing", "num_top_latents", "num_top_inducing") if size in options]
    if "layers" in options and sizes:
        raise ConfigError(f"layers has all sizes of a deep model; got {sizes[0]} beside it. Leave that out.")


def options_table() -> str:
    """All options in Markdown, for docs/reference/options.md.

    >>> options_table().splitlines()[0]
    '| option | default | what it is |'
    """
    rows = ["| option | default | what it is |", "|---|---|---|"]
    for name, option in sorted(registry.options().items()):
        default = "by the model" if option.default is None or callable(option.default) else f"`{option.default!r}`"
        rows.append(f"| `{name}` | {default} | {option.help} |")
    return "\n".join(rows)
