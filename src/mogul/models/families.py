"""The paper's families of models by name, and its choices for each: all that is known of a model before it is built.

A model's name is one of seven families, with `dk-` before it for deep kernels and `-lvm` behind it for latent inputs.
Several names with `+` between them stand for a mixture of these models.
Nothing heavy is imported here: names can be listed and checked at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mogul.errors import ConfigError, unknown_name

# In place of a name, of a model or of a kind of noise: rows that are held out choose.
AUTO = "auto"
_AND = "+"
# A step of a GPRN takes as long as one of an N-SBGPRN up to so many outputs; with 50 three times, with 100 seven times.
_MOST_GPRN_OUTPUTS = 20


@dataclass(frozen=True)
class Recipe:
    """A family of models: what it is, where it comes from, and the paper's choices for it."""

    description: str
    equation: str
    nonlinearity: str = "leaky"
    latent_nonlinearity: str = "leaky"
    hidden_per_output: int = 2
    latent_hidden: int = 14
    num_inducing: int = 400
    num_samples: int | None = 250  # draws per expectation in the paper's training; None: closed-form
    deep: bool = False
    parts: tuple[str, ...] = ("bayesian mixing",)  # those with options of their own

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


_NEURAL, _DEEP = ("hidden units", "bayesian mixing"), ("deep gps", "bayesian mixing")
FAMILIES: dict[str, Recipe] = {
    "mogp": Recipe("Multi-output GP: a matrix mixes L GPs.", "mogp"),
    "gprn": Recipe(
        "GP regression network: the matrix is itself made of GPs, and f has white noise.",
        "gprn",
        num_inducing=100,
        num_samples=None,
        parts=("gp mixing",),
    ),
    "dgp": Recipe("Deep GP: a matrix mixes a second layer of GPs.", "dgp", num_samples=5, deep=True, parts=_DEEP),
    "sbgprn": Recipe("Semi-Bayesian GPRN: the matrix is a neural net's.", "sbgprn", parts=("net mixing",)),
    "n-mogp": Recipe(
        "Neural MOGP: hidden units between the GPs and the matrix.", "nmogp", nonlinearity="sherf", parts=_NEURAL
    ),
    "n-sbgprn": Recipe(
        "Neural SBGPRN: hidden units between the GPs and the net's matrix.",
        "nsbgprn",
        latent_nonlinearity="relu",
        hidden_per_output=1,
        latent_hidden=7,
        parts=("hidden units", "net mixing"),
    ),
    "n-dgp": Recipe(
        "Neural DGP: hidden units on top of the second layer of GPs.",
        "ndgp",
        nonlinearity="erf",
        num_samples=5,
        deep=True,
        parts=(*_NEURAL, "deep gps"),
    ),
}


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
    """Whether a model can be tried on so many outputs when nobody asked for it: a GPRN has a GP for each of their L P.

    >>> suits("gprn", 20), suits("gprn", 21), suits("mogp", 1000)
    (True, False, True)
    """
    return Name.parse(model).family != "gprn" or num_outputs <= _MOST_GPRN_OUTPUTS


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
