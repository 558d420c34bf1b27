"""The lines of the tables: a model each, with a name to type and a label to print; the paper's numbers for them."""

import csv
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from mogul.errors import ConfigError, unknown_name
from mogul.heads import NOISE_FLOOR
from mogul.heads.noise import noise_varies
from mogul.lab.datasets.catalogue import CATALOGUE
from mogul.models.families import is_latent, mixture, require_model
from mogul.objective import ObjectiveName
from mogul.registry import names as registered
from mogul.training import TrainingConfig

LINEAR = "+linear"
STARTS = "-starts"
TIMES = " × "
AND = " & "
NONE = "none"
NO_FLOOR = "none"
# The paper's noise is constant and goes without saying.
_NOISES: dict[str, str] = {
    "net": "net noise",
    "gp": "GP noise",
    "student-t": "Student-t noise",
    "gp-student-t": "GP Student-t noise",
    "low-rank": "low-rank noise",
}
_BOUND: ObjectiveName = "elbo"
_OTHER_OBJECTIVES = tuple(name for name in get_args(ObjectiveName) if name != _BOUND)
_LABEL = re.compile(
    r"(?P<family>.*?)(?P<linear> \+ linear)?"
    rf"(?: \+ (?P<noise>{'|'.join(_NOISES.values())}))?(?: \+ (?P<objective>{'|'.join(_OTHER_OBJECTIVES)}))?"
    rf"(?:{TIMES}(?P<starts>\d+) starts)?"
)
PAPER_METRICS = {"ll": "LL", "mrmse": "MRMSE"}
# Where the paper names a choice that is the default here.
_SAID_BY_THE_PAPER = {"N-DGP (L'=L)": "N-DGP (L'=L, erf)"}


@dataclass(frozen=True)
class Variant:
    """A model and its departures from the paper, as fields; its label is rendered from them and parsed only here.

    Attributes:
        families: the models as the paper names them, such as `N-DGP (L′ = L, leaky)`; several are a mixture.
        linear: whether it has the linear mean: a least-squares plane under the model.
        noise: of the outputs; constant is the paper's.
        objective: what training maximises; the ELBO is the paper's.
        num_starts: restarts that are all kept and predict as a mixture; None keeps the best one.
    """

    families: tuple[str, ...]
    linear: bool = False
    noise: str = "constant"
    objective: ObjectiveName = _BOUND
    num_starts: int | None = None

    @property
    def family(self) -> str:
        """The models without their departures."""
        return AND.join(self.families)

    @property
    def label(self) -> str:
        """What tables print.

        >>> Variant(("MOGP",), linear=True, noise="gp", num_starts=4).label
        'MOGP + linear + GP noise × 4 starts'
        """
        linear = ["linear"] * self.linear
        noise = [] if self.noise == "constant" else [_NOISES.get(self.noise, f"{self.noise} noise")]
        objective = [] if self.objective == _BOUND else [self.objective]
        starts = "" if self.num_starts is None else f"{TIMES}{self.num_starts} starts"
        return " + ".join([self.family, *linear, *noise, *objective]) + starts

    @property
    def is_mixture(self) -> bool:
        """Whether it predicts with several fits."""
        return len(self.families) > 1 or self.num_starts is not None

    @staticmethod
    def parse(label: str, kind: str = "model") -> "Variant":
        """The fields of a stored label; what it does not know stays in the name of the model, as do baselines.

        >>> Variant.parse("MOGP & N-MOGP + linear + balanced")
        Variant(families=('MOGP', 'N-MOGP'), linear=True, noise='constant', objective='balanced', num_starts=None)
        """
        found = _LABEL.fullmatch(label)
        if found is None or kind != "model":  # a line break, which no label of ours has, or a baseline
            return Variant((label,))
        noise: str = next((name for name, words in _NOISES.items() if words == found["noise"]), "constant")
        objective = next((name for name in _OTHER_OBJECTIVES if name == found["objective"]), _BOUND)
        starts = None if found["starts"] is None else int(found["starts"])
        return Variant(tuple(found["family"].split(AND)), found["linear"] is not None, noise, objective, starts)


@dataclass(frozen=True)
class Line:
    """A model as a table lists it.

    Args:
        base_name: the name of the model without its departures, such as `n-dgp-same-leaky`.
        families: as in `Variant`, such as `N-DGP (L′ = L, leaky)`.
        model: one of `mogul.models.names()`, or several for a mixture.
        options: where it departs from the named model.
        same_layers: whether a deep model has the same number of GPs in both layers.
        linear, noise, objective, num_starts: as in `Variant`.
        swept: whether it depends on what a sweep varies.
    """

    base_name: str
    families: tuple[str, ...]
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    same_layers: bool = False
    linear: bool = False
    noise: str = "constant"
    objective: ObjectiveName = _BOUND
    num_starts: int | None = None
    swept: bool = True

    @property
    def variant(self) -> Variant:
        """What its label says."""
        return Variant(self.families, self.linear, self.noise, self.objective, self.num_starts)

    @property
    def label(self) -> str:
        """What is printed."""
        return self.variant.label

    @property
    def name(self) -> str:
        """What is typed.

        >>> line("n-mogp").on_a_plane.with_noise("gp").name
        'n-mogp+linear+gp-noise'
        """
        noise = "" if self.noise == "constant" else f"+{self.noise}-noise"
        objective = "" if self.objective == _BOUND else f"+{self.objective}"
        starts = "" if self.num_starts is None else f"+{self.num_starts}{STARTS}"
        return f"{self.base_name}{LINEAR if self.linear else ''}{noise}{objective}{starts}"

    @property
    def on_a_plane(self) -> "Line":
        """The same model with the linear mean."""
        return replace(self, linear=True)

    def with_noise(self, noise: str) -> "Line":
        """The same model with this noise.

        >>> line("n-mogp").on_a_plane.with_noise("gp").label
        'N-MOGP + linear + GP noise'
        """
        return self if noise == "constant" else replace(self, options={**self.options, "noise": noise}, noise=noise)

    def maximising(self, objective: ObjectiveName) -> "Line":
        """The same model trained by this objective.

        >>> line("n-sbgprn").on_a_plane.with_noise("gp").maximising("balanced").label
        'N-SBGPRN + linear + GP noise + balanced'
        """
        if objective == "balanced" and not noise_varies(self.noise):
            raise ConfigError(
                f"balanced needs noise that depends on the input; got {self.label}, for which it changes nothing. "
                f"Try {replace(self, noise='gp', objective=objective).name}."
            )
        return replace(self, objective=objective)

    def mixed(self, num_starts: int) -> "Line":
        """The mixture of this number of restarts.

        >>> line("n-sbgprn").on_a_plane.mixed(4).name
        'n-sbgprn+linear+4-starts'
        """
        if is_latent(self.model):
            raise ConfigError(
                f"A mixture needs inputs that its starts share; got {self.label}, whose starts find their own. "
                f"Leave out +{num_starts}{STARTS}."
            )
        return replace(self, num_starts=num_starts)

    def trained(self, config: TrainingConfig) -> TrainingConfig:
        """This way to train, with its objective and its number of starts, of which all are kept."""
        config, starts = replace(config, objective=self.objective), self.num_starts
        return config if starts is None else replace(config, num_starts=starts, num_kept=starts)

    def variants(self, *, linear: bool, noises: Sequence[str]) -> list["Line"]:
        """It with each noise, and all of these on a plane, too; what is on one already, or noisy, stays as it is."""
        if self.linear or self.noise != "constant":
            return [self]
        bases = [self, self.on_a_plane] if linear and self.can_be_linear else [self]
        return [base.with_noise(noise) for base in bases for noise in noises]

    @property
    def can_be_linear(self) -> bool:
        """Whether there are inputs for a plane."""
        return not is_latent(self.model)

    @property
    def noise_floor(self) -> str:
        """The least standard deviation of its noise, in words."""
        return NO_FLOOR if self.noise == "constant" else f"sd {NOISE_FLOOR:g} of an output's scale"

    def build_options(self, num_outputs: int) -> dict[str, Any]:
        """The options of `mogul.models.build` for this number of outputs."""
        same = {"num_top_latents": math.ceil(num_outputs / 2)} if self.same_layers else {}
        return dict(self.options) | same


def line(model: str, *, nonlinearity: str | None = None, hidden: int | None = None, same_layers: bool = False) -> Line:
    """A line for a model, named after where it departs from the paper's choices.

    >>> line("n-dgp", nonlinearity="leaky", same_layers=True).label
    'N-DGP (L′ = L, leaky)'
    """
    options: dict[str, Any] = {} if nonlinearity is None else {"nonlinearity": nonlinearity}
    options |= {} if hidden is None else {"num_hidden": hidden}
    words = ["same"] * same_layers + [str(word) for word in (hidden, nonlinearity) if word is not None]
    signs = ["L′ = L"] * same_layers + [f"H = {hidden}"] * (hidden is not None) + [nonlinearity or ""]
    remark = ", ".join(sign for sign in signs if sign)
    label = f"{model.upper()} ({remark})" if remark else model.upper()
    return Line("-".join([model, *words]), (label,), model, options, same_layers)


def mixed_line(lines: Sequence[Line]) -> Line:
    """The mixture of the models of these lines.

    >>> mixed_line([line("mogp"), line("n-sbgprn")]).label
    'MOGP & N-SBGPRN'
    """
    first = lines[0]
    for each in lines:
        if each.options != first.options or each.same_layers:
            raise ConfigError(
                f"Models of a mixture must have their options in common; got {first.label} with {dict(first.options)} "
                f"and {each.label} with {dict(each.options)}. Run them one by one."
            )
    model = mixture(each.model for each in lines)
    require_model(model)
    return Line(model, tuple(each.label for each in lines), model, first.options)


def require_noises(names: Sequence[str]) -> tuple[str, ...]:
    """Check names of noises."""
    for name in names:
        if name not in registered("noise"):
            raise unknown_name("noise", name, registered("noise"))
    return tuple(noise for name in names for noise in registered("noise") if noise == name)


def choose(
    words: Sequence[str], groups: Mapping[str, Sequence[Line]], *, linear: bool, noises: Sequence[str]
) -> list[Line]:
    """The lines that were asked for, by names of lines or of groups, each once.

    Args:
        words: names; `NAME+linear` for one on a plane, `NAME+gp-noise` and `NAME+linear+gp-noise` for other noises,
            `+balanced` or `+predictive` for another objective, and `+4-starts` for the mixture of four starts, in any
            order; `mogp+n-sbgprn` for a mixture of models, with any of these behind it.
        groups: the lines there are.
        linear: whether a bare name also stands for the one on a plane.
        noises: what a bare name stands for.
    """
    known = {each.name: each for group in groups.values() for each in group}
    chosen: list[Line] = []
    for word in words:
        if word == NONE:
            continue
        single, num_starts = _name_and_starts(_in_order(word, known))
        name, objective = _name_and_objective(single)
        found = _named(name, groups, known, linear=linear, noises=noises)
        found = found if objective is None else [each.maximising(objective) for each in found]
        chosen += found if num_starts is None else [each.mixed(num_starts) for each in found]
    return list({each.name: each for each in chosen}.values())


def _named(
    name: str,
    groups: Mapping[str, Sequence[Line]],
    known: Mapping[str, Line],
    *,
    linear: bool,
    noises: Sequence[str],
) -> list[Line]:
    """The lines that a name stands for: those of a group, of a model or mixture, or one of their variants."""
    parts = name.split("+")
    models = [known[part] for part in parts if part in known]
    base = mixed_line(models) if len(models) > 1 else models[0] if models else None
    bases = groups.get(name) or ([base] if base is not None and base.name == name else [])
    if bases:
        return [each for one in bases for each in one.variants(linear=linear, noises=noises)]
    every = [] if base is None else base.variants(linear=True, noises=registered("noise"))
    found = [each for each in every if each.name == name]
    if not found:
        raise unknown_name("model", name, [*groups, *known, NONE])
    return found


def _in_order(word: str, models: Collection[str]) -> str:
    """The same with what follows the name, or the names, in the order that labels have it.

    >>> _in_order("mogp+4-starts+balanced+n-mogp+gp-noise+linear", ["mogp", "n-mogp"])
    'mogp+n-mogp+linear+gp-noise+balanced+4-starts'
    """
    name, *rest = word.split("+")

    def place(part: str) -> int:
        is_noise, is_mixture = part.endswith("-noise"), part.endswith(STARTS)
        kinds = (part in models, f"+{part}" == LINEAR, is_noise, part in _OTHER_OBJECTIVES, is_mixture)
        return kinds.index(True) if any(kinds) else len(kinds)

    return "+".join([name, *sorted(rest, key=place)])


def _name_and_objective(word: str) -> tuple[str, ObjectiveName | None]:
    """`mogp+gp-noise+balanced` → mogp+gp-noise and balanced; None where none is named.

    >>> _name_and_objective("mogp+gp-noise+balanced"), _name_and_objective("mogp")
    (('mogp+gp-noise', 'balanced'), ('mogp', None))
    """
    name, _, last = word.rpartition("+")
    objective = next((each for each in _OTHER_OBJECTIVES if each == last), None)
    return (word, None) if objective is None else (name, objective)


def _name_and_starts(word: str) -> tuple[str, int | None]:
    """`mogp+4-starts` → mogp and 4; None where there is no such number.

    >>> _name_and_starts("mogp+linear+4-starts"), _name_and_starts("mogp+linear")
    (('mogp+linear', 4), ('mogp+linear', None))
    """
    name, plus, last = word.rpartition("+")
    count = last.removesuffix(STARTS)
    if not plus or count == last:
        return word, None
    if not count.isdecimal() or int(count) < 2:
        raise ConfigError(f"A mixture must have at least 2 starts; got {word!r}. Try {name}+4{STARTS}.")
    return name, int(count)


class Spread(NamedTuple):
    """Mean over splits and seeds, and the standard deviation where it is known."""

    mean: float
    sd: float | None

    def text(self, digits: int) -> str:
        """Both as tables print them.

        >>> Spread(1.5, 0.7071).text(2)
        '1.50 ± 0.71'
        """
        return f"{self.mean:.{digits}f}" + ("" if self.sd is None else f" ± {self.sd:.{digits}f}")


def published(experiment: str, dataset: str, label: str, metric: str) -> Spread | None:
    """What the paper reports for this line on these very data: nothing for data that stand in for others.

    >>> published("regression", "kuka", "N-DGP (L′ = L)", "ll")
    Spread(mean=23.69, sd=0.23)
    """
    known = CATALOGUE.get(dataset)
    name = dataset if known is None else known.paper
    if name is None or metric not in PAPER_METRICS:
        return None
    return numbers().get((experiment, paper_name(label), name, PAPER_METRICS[metric]))


def paper_name(label: str) -> str:
    """What the paper calls a line of ours.

    >>> paper_name("N-MOGP-LVM (H = 7, erf)")
    'N-MOGP (D_H=7, erf)'
    """
    name = label.replace("L′ = L", "L'=L").replace("H = ", "D_H=").replace("-LVM", "")
    return _SAID_BY_THE_PAPER.get(name, name)


@cache
def numbers() -> Mapping[tuple[str, str, str, str], Spread]:
    """Everything in its tables and in section 5.1, by experiment, model, data set and metric."""
    with files("mogul.lab.experiments").joinpath("paper.csv").open(encoding="utf-8") as content:
        rows = list(csv.DictReader(content))
    keys = ("experiment", "model", "dataset", "metric")
    return MappingProxyType(
        {
            (row[keys[0]], row[keys[1]], row[keys[2]], row[keys[3]]): Spread(
                float(row["mean"]), float(row["sd"]) if row["sd"] else None
            )
            for row in rows
        }
    )
