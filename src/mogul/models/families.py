"""Parsing of model names, and the recipe of each model: everything known before it is built.

A model's name is a registered family's name, with the prefix `dk-` for deep kernels and the suffix `-lvm` for latent
inputs. Several names joined by `+` are a mixture of these models.
Nothing heavy is imported here, so that listing and checking names is fast.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mogul import registry
from mogul.errors import ConfigError, unknown_name

# Instead of a model's or a noise's name: choose by validation rows.
AUTO = "auto"
# Instead of a noise's name: choose by residuals of exact GPs.
FROM_RESIDUALS = "residuals"
_AND = "+"


@dataclass(frozen=True)
class Recipe:
    """A family of models: its description, its source and its defaults. Defaults of the paper's models are the paper's.

    Args:
        description: one line of description.
        equation: label of its equation, for the paper's models.
        nonlinearity: nonlinearity of its hidden units.
        latent_nonlinearity: the same with latent inputs.
        hidden_per_output: hidden units for each output.
        latent_hidden: hidden units with latent inputs.
        num_inducing: inducing points.
        num_samples: draws per expectation in the paper's training; None is closed-form.
        deep: whether its prior has several layers.
        most_outputs: automatic selection tries it for at most this number of outputs.
    """

    description: str
    equation: str = ""
    nonlinearity: str = "leaky"
    latent_nonlinearity: str = "leaky"
    hidden_per_output: int = 2
    latent_hidden: int = 14
    num_inducing: int = 400
    num_samples: int | None = 250
    deep: bool = False
    most_outputs: int | None = None

    @property
    def inner_samples(self) -> int:
        """Draws of a deep prior's inner layer per expectation; the paper uses five."""
        return 5 if self.deep else 1

    @property
    def batch_size(self) -> int:
        """The paper's batch size for most data sets, doubled for deep models."""
        return 1000 if self.deep else 500

    @property
    def anneal_epochs(self) -> int:
        """Epochs of KL annealing, which the paper uses for some deep models."""
        return 20 if self.deep else 0


class _Families(Mapping[str, Recipe]):
    """The recipes of the registered models, by name."""

    def __getitem__(self, name: str) -> Recipe:
        if name not in registry.names("model"):
            raise KeyError(name)
        part = registry.get("model", name)
        return Recipe(part.help, **part.settings)

    def __iter__(self) -> Iterator[str]:
        return iter(registry.names("model"))

    def __len__(self) -> int:
        return len(registry.names("model"))


FAMILIES: Mapping[str, Recipe] = _Families()


@dataclass(frozen=True)
class Name:
    """A parsed model name."""

    family: str
    deep_kernel: bool
    latent: bool

    @staticmethod
    def parse(name: object) -> "Name":
        """`dk-n-mogp-lvm` → the family n-mogp, with a deep kernel and latent inputs."""
        if not isinstance(name, str) or name not in names():
            raise unknown_name("model", name, names(), suggested=3)
        family = name.removeprefix("dk-").removesuffix("-lvm")
        return Name(family, deep_kernel=name.startswith("dk-"), latent=name.endswith("-lvm"))

    @property
    def recipe(self) -> Recipe:
        """The recipe of the family."""
        return FAMILIES[self.family]


def members(model: object) -> tuple[str, ...]:
    """The models of a mixture, checked; a single model is its only member.

    >>> members("mogp+n-sbgprn"), members("mogp")
    (('mogp', 'n-sbgprn'), ('mogp',))
    """
    each = tuple(model.split(_AND)) if isinstance(model, str) and _AND in model else (model,)
    for name in each:
        if name not in names():
            raise unknown_name("model", name, [*names(), AUTO], suggested=3)
    if len(each) > 1 and any(Name.parse(name).latent for name in each):
        raise ConfigError(f"A mixture needs inputs that its models share; got {model}. Leave out -lvm, or mix nothing.")
    if len(set(each)) < len(each):
        raise ConfigError(
            f"The models of a mixture must differ; got {model}. Name each once; num_kept mixes starts of one model."
        )
    return tuple(str(name) for name in each)


def mixture(models: Iterable[str]) -> str:
    """The name of the mixture of these models: the inverse of `members`.

    >>> mixture(["mogp", "n-sbgprn"])
    'mogp+n-sbgprn'
    """
    return _AND.join(models)


def require_model(model: object) -> None:
    """Check that this names a model, a mixture, or automatic selection by validation rows."""
    if model != AUTO:
        members(model)


def suits(model: str, num_outputs: int) -> bool:
    """Whether automatic selection may try this model for P outputs.

    >>> suits("gprn", 20), suits("gprn", 21), suits("mogp", 1000)
    (True, False, True)
    """
    most = Name.parse(model).recipe.most_outputs
    return most is None or num_outputs <= most


def is_latent(model: str) -> bool:
    """Whether a model of this name has latent inputs; mixtures and automatic selection never have.

    >>> is_latent("mogp-lvm"), is_latent("mogp+n-sbgprn"), is_latent("auto")
    (True, False, False)
    """
    return model != AUTO and Name.parse(members(model)[0]).latent


def names() -> list[str]:
    """The names that `mogul.models.build` knows.

    >>> len(names())
    28
    """
    return [f"{kernel}{family}{inputs}" for inputs in ("", "-lvm") for kernel in ("", "dk-") for family in FAMILIES]
