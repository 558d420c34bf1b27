"""Names of models, taken apart, and the recipe of each: all that is known of a model before it is built.

A model's name is that of a registered family, with `dk-` before it for deep kernels and `-lvm` behind it for latent
inputs. Several names with `+` between them are a mixture of these models.
Nothing heavy is imported here: names can be listed and checked at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mogul import registry
from mogul.errors import ConfigError, unknown_name

# In place of a name, of a model or of a kind of noise: validation rows choose.
AUTO = "auto"
# In place of a kind of noise: the one that residuals of exact GPs ask for.
FROM_RESIDUALS = "residuals"
_AND = "+"


@dataclass(frozen=True)
class Recipe:
    """A family of models: what it is, where it comes from, and its defaults. Those of the paper are its choices.

    Args:
        description: a line that says what it is.
        equation: its label in the paper, if it is one of the paper's.
        nonlinearity: of its hidden units.
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
        """Draws of a deep prior's inner layer per expectation, of which the paper takes five."""
        return 5 if self.deep else 1

    @property
    def batch_size(self) -> int:
        """The paper's for most data sets; doubled for deep models."""
        return 1000 if self.deep else 500

    @property
    def anneal_epochs(self) -> int:
        """The paper anneals the KL of some deep models."""
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
    """A model's name, taken apart."""

    family: str
    deep_kernel: bool
    latent: bool

    @staticmethod
    def parse(name: object) -> "Name":
        """`dk-n-mogp-lvm` → the family n-mogp, with a deep kernel and latent inputs."""
        if not isinstance(name, str) or name not in names():
            raise unknown_name("model", name, names())
        family = name.removeprefix("dk-").removesuffix("-lvm")
        return Name(family, deep_kernel=name.startswith("dk-"), latent=name.endswith("-lvm"))

    @property
    def recipe(self) -> Recipe:
        """The recipe of the family."""
        return FAMILIES[self.family]


def members(model: object) -> tuple[str, ...]:
    """The models of a mixture, each of them known; a model by itself is the only one.

    >>> members("mogp+n-sbgprn"), members("mogp")
    (('mogp', 'n-sbgprn'), ('mogp',))
    """
    each = tuple(model.split(_AND)) if isinstance(model, str) and _AND in model else (model,)
    for name in each:
        if name not in names():
            raise unknown_name("model", name, [*names(), AUTO])
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
    """Check that there is a model or a mixture of this name, or that held-out rows are to choose one."""
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
    """Whether a model of this name has latent inputs; mixtures, and what held-out rows choose among, have not.

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
