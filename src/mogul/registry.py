"""Parts by name: noises, nonlinearities, kernels, means of latent GPs and models, each with its options.

A part registers itself in its own file, of this package or of a user's: with its name, a line of help and its options.
`mogul.models.build`, checks of options, model files, the command line and tables in the docs read what is registered.
Nothing heavy is imported here: names can be listed without torch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import Any, Literal, TypeVar

from mogul.errors import ConfigError, FileError, require_positive, unknown_name

Kind = Literal["noise", "nonlinearity", "kernel", "mean", "model"]
Made = TypeVar("Made")

# In the order of lists. The modules say all else.
_BUILT_IN: dict[Kind, dict[str, str]] = {
    "noise": {
        "constant": "mogul.heads.noise.constant",
        "net": "mogul.heads.noise.net",
        "gp": "mogul.heads.noise.gp",
        "student-t": "mogul.heads.noise.student_t",
        "gp-student-t": "mogul.heads.noise.student_t",
        "low-rank": "mogul.heads.noise.low_rank",
    },
    "nonlinearity": {
        "erf": "mogul.nonlinearities.erf",
        "sherf": "mogul.nonlinearities.erf",
        "relu": "mogul.nonlinearities.piecewise",
        "leaky": "mogul.nonlinearities.piecewise",
    },
    "kernel": dict.fromkeys(
        ("rbf", "matern12", "matern32", "matern52", "rq", "periodic", "linear"), "mogul.priors.kernels"
    ),
    "mean": dict.fromkeys(("zero", "constant", "linear"), "mogul.priors.means"),
    "model": dict.fromkeys(("mogp", "gprn", "dgp", "sbgprn", "n-mogp", "n-sbgprn", "n-dgp"), "mogul.models.zoo"),
}
# Words that stand for a choice in place of a name.
_RESERVED: dict[Kind, tuple[str, ...]] = {"noise": ("auto", "residuals"), "kernel": ("auto",), "model": ("auto",)}


@dataclass(frozen=True)
class Option:
    """An option of `mogul.models.build`, which some part reads by `parts.option(name)`.

    Args:
        help: what it is.
        default: a value, or a function of the parts (`mogul.models.parts.Parts`) that gives it.
        check: raises an error for a value that cannot be; it takes the option's name and the value.
        stored: a tensor of the model and the axis of it whose length the option is, so that model files need not be
            believed; or a function of all tensors by name. None: the value itself is stored.
        numbers: how many numbers a model of these sizes holds at least, for the check of model files.
        rows: whether it counts inducing points, which are taken from the rows.

    Example:
        >>> Option("the rank", 2, positive, stored=("head.noise.loadings", 1)).default
        2
    """

    help: str
    default: Any = None
    check: Callable[[str, Any], None] | None = None
    stored: tuple[str, int] | Callable[[Mapping[str, Any]], Any] | None = None
    numbers: Callable[[Mapping[str, Any]], int] | None = None
    rows: bool = False

    def read_back(self, tensors: Mapping[str, Any]) -> Any:
        """The value that these tensors of a model have; None where they do not say."""
        if self.stored is None:
            return None
        if callable(self.stored):
            return self.stored(tensors)
        name, axis = self.stored
        return tensors[name].shape[axis] if name in tensors else None


@dataclass(frozen=True)
class Part:
    """A registered part: what makes it, and what is said of it."""

    name: str
    make: Any
    help: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    by_decorator: bool = True  # or by `model_name`, in this process alone


_parts: dict[tuple[Kind, str], Part] = {}
_options: dict[str, Option] = {}
_option_owners: dict[str, str] = {}
_storable: dict[str, tuple[type, tuple[str, ...] | None]] = {}


def positive(name: str, value: object) -> None:
    """The check of a size: a whole number of at least one."""
    require_positive(**{name: value})


def names(kind: Kind) -> list[str]:
    """The registered names: those of this package first, then in the order of registration.

    >>> names("noise")[:3]
    ['constant', 'net', 'gp']
    """
    return [*_BUILT_IN[kind], *(name for of, name in _parts if of == kind and name not in _BUILT_IN[kind])]


def get(kind: Kind, name: object) -> Part:
    """The part of this name.

    >>> get("nonlinearity", "sherf").make
    Erf(shift=1.0)
    """
    if not isinstance(name, str) or name not in names(kind):
        raise unknown_name(kind, name, names(kind))
    if (kind, name) not in _parts:
        import_module(_BUILT_IN[kind][name])
    return _parts[kind, name]


def kernel_terms(text: str) -> list[list[str]]:
    """The sum of products of registered kernels that a name stands for; * binds tighter than +.

    >>> kernel_terms("rbf + periodic*linear")
    [['rbf'], ['periodic', 'linear']]
    """
    terms = [[factor.strip() for factor in term.split("*")] for term in text.split("+")]
    for factor in (factor for term in terms for factor in term):
        if not factor:
            raise ConfigError(
                f"kernel must be a name, or names with + and * between them; got {text!r}, where a name is missing. "
                "Try 'rbf+periodic' or 'rbf*linear'."
            )
        if factor == "auto":
            raise ConfigError(
                f"kernel='auto' chooses one kernel, and cannot be part of a sum or product; got {text!r}. Name each."
            )
        if "(" in factor or ")" in factor:
            raise ConfigError(
                f"kernel must be sums of products without brackets; got {text!r}. Write 'rbf*linear+rbf*periodic' for "
                "rbf*(linear+periodic)."
            )
        if factor not in names("kernel"):
            raise unknown_name("kernel", factor, names("kernel"))
    return terms


def options() -> dict[str, Option]:
    """All options by name, those of registered parts among them."""
    _load_options()
    return dict(_options)


def declare(**options: Option) -> Callable[[Made], Made]:
    """Declare options of mogul's own beside what reads them."""
    _add_options(options, "mogul")
    return lambda made: made


def register_noise(name: str, help: str = "", options: Mapping[str, Option] | None = None) -> Callable[[Made], Made]:
    """Register a noise: a subclass of `mogul.heads.Noise`, or a function from parts to one.

    Args:
        name: of the noise, for `mogul.fit(..., noise=name)`.
        help: a line that says what it is.
        options: those of its own; it reads their values by `parts.option(name)` in `from_parts`.

    Example:
        >>> from mogul.heads import ConstantNoise
        >>> @register_noise("quiet", "Small at first.")
        ... def quiet(parts):
        ...     return ConstantNoise(parts.num_outputs, var=0.01)
        >>> get("noise", "quiet").help, unregister("noise", "quiet")
        ('Small at first.', None)
    """
    return _register("noise", name, help, options)


def register_nonlinearity(name: str, help: str = "") -> Callable[[Made], Made]:
    """Register a nonlinearity: a `mogul.nonlinearities.Nonlinearity`, or any function σ of tensors.

    Moments of a function are those of `mogul.nonlinearities.Quadrature`.

    Example:
        >>> import torch
        >>> register_nonlinearity("sine")(torch.sin) is torch.sin, unregister("nonlinearity", "sine")
        (True, None)
    """
    return _register("nonlinearity", name, help)


def register_kernel(name: str, help: str = "") -> Callable[[Made], Made]:
    """Register a kernel: a function of the numbers of inputs and of latent GPs that gives a GPyTorch kernel.

    Its batch shape is (num_latents,), or () to share one among all. A model with `kernel=name` can be saved.
    """
    return _register("kernel", name, help)


def register_mean(name: str, help: str = "") -> Callable[[Made], Made]:
    """Register a mean of latent GPs: a function of the inputs (N, D) and of their number that gives a module."""
    return _register("mean", name, help)


def register_model(name: str, help: str = "", **recipe: Any) -> Callable[[Made], Made]:
    """Register a model: a function of parts (`mogul.models.parts.Parts`) that gives a `Model`.

    Variants with a deep kernel and with latent inputs, `dk-name` and `name-lvm`, come with it.

    Args:
        name: of the model, for `mogul.fit(..., model=name)`.
        help: a line that says what it is.
        recipe: defaults of its own, by the fields of `mogul.models.Recipe`.

    Example:
        >>> @register_model("plain", "GPs and a matrix.")
        ... def plain(parts):
        ...     features = parts.identity()
        ...     return parts.model(parts.gps("zero"), features, parts.bayesian_mixing(features))
        >>> "plain" in names("model"), unregister("model", "plain")
        (True, None)
    """
    # By its name, as this room is above that of models; nothing heavy is imported.
    known = [each.name for each in fields(import_module("mogul.models.families").Recipe) if each.name != "description"]
    for keyword in recipe.keys() - known:
        raise unknown_name("A keyword of register_model", keyword, known)
    return _register("model", name, help, settings=recipe)


def model_name(model: str | Callable[..., Any] | None) -> str | None:
    """The name of a model that is given as a function of parts; anything else as it is.

    A function that is not registered gets its own name in this process. `require_savable` refuses to save its model.
    """
    if not callable(model):
        return model
    for (kind, name), part in reversed(_parts.items()):
        if kind == "model" and part.make is model:
            return name
    name = str(getattr(model, "__name__", type(model).__name__))
    register_model(name, (model.__doc__ or "").partition("\n")[0])(model)
    _parts["model", name] = replace(_parts["model", name], by_decorator=False)
    return name


def require_savable(model: str) -> None:
    """Check that a model file can name this family: a decorator registers it wherever its module is imported."""
    if ("model", model) in _parts and not _parts["model", model].by_decorator:
        named = model.isidentifier()  # a lambda is not
        line = f'@mogul.register_model("{model if named else "my-model"}")'
        remedy = f"Add {line} above it, and save again" if named else f"Make it a function below {line}, and fit again"
        raise FileError(f"A model must be registered to be saved; the function {model} is not. {remedy}.")


def unregister(kind: Kind, name: str) -> None:
    """Forget a part."""
    del _parts[kind, name]


def storable(*settings: str) -> Callable[[type[Made]], type[Made]]:
    """Let instances of a class be settings in model files: by its name, and by these attributes or all its fields."""

    def store(kind: type[Made]) -> type[Made]:
        _storable[kind.__name__] = kind, settings or None
        return kind

    return store


def storable_classes() -> Iterator[str]:
    """Names of the classes that settings in model files may have."""
    return iter(sorted(_storable))


def stored_class(name: object) -> type | None:
    """The class of this name, if its instances may be settings in model files."""
    return _storable[name][0] if isinstance(name, str) and name in _storable else None


def stored_settings(instance: object) -> dict[str, Any] | None:
    """What a model file holds of an instance, by name; None where it may hold none. A subclass may mean else."""
    kind, settings = _storable.get(type(instance).__name__, (None, None))
    if kind is not type(instance):
        return None
    chosen = settings or tuple(each.name for each in fields(kind))  # type: ignore[arg-type]  # or else a dataclass
    return {name: getattr(instance, name) for name in chosen}


def _register(
    kind: Kind,
    name: str,
    help: str,
    options: Mapping[str, Option] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Callable[[Made], Made]:
    _require_free(kind, name)

    def keep(made: Made) -> Made:
        owner = _BUILT_IN[kind].get(name) or (_home(_parts[kind, name].make) if (kind, name) in _parts else None)
        if owner not in (None, _home(made)):  # a cell of a notebook may run twice
            raise ConfigError(f"A {kind} must have a name of its own; {name!r} is that of {owner}. Choose another.")
        if options:
            if name not in _BUILT_IN[kind]:
                _load_options()
            _add_options(options, _home(made))
        _parts[kind, name] = Part(name, made, help, settings or {})
        return made

    return keep


def _require_free(kind: Kind, name: str) -> None:
    """Check that a name does not mean something else."""
    words = _RESERVED.get(kind, ())
    variant = kind == "model" and (name.startswith("dk-") or name.endswith("-lvm") or "+" in name)
    variant = variant or (kind == "kernel" and bool(set(name) & set("+*() ")))
    if not name or name in words or variant:
        signs = {"model": "without dk-, -lvm and +", "kernel": "without +, *, brackets and spaces"}
        rules = [f"not {' or '.join(words)}"] * bool(words) + [rule for of, rule in signs.items() if of == kind]
        rule = ", ".join(["of its own", *rules])
        raise ConfigError(f"A {kind} must have a name {rule}; got {name!r}. Choose another.")


def _load_options() -> None:
    for module in ("mogul.models.parts", *_BUILT_IN["noise"].values()):
        import_module(module)


def _add_options(options: Mapping[str, Option], owner: str) -> None:
    for name in options:
        if _option_owners.get(name, owner) != owner:
            raise ConfigError(
                f"An option must have a name of its own; {name!r} is that of {_option_owners[name]}. Choose another, "
                "or leave it out and read that one by parts.option."
            )
    _options.update(options)
    _option_owners.update(dict.fromkeys(options, owner))


def _home(made: object) -> str:
    return str(getattr(made, "__module__", None))
