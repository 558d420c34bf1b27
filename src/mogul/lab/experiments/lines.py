"""The lines of the tables: a model each, under a name that can be typed and a label that can be read."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from mogul.errors import ConfigError, unknown_name
from mogul.heads import NOISE_FLOOR
from mogul.heads.noise import noise_varies
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


@dataclass(frozen=True)
class Line:
    """A model as a table lists it.

    Args:
        name: what is typed, such as `n-dgp-same-leaky`.
        label: what is printed, such as `N-DGP (L′ = L, leaky)`.
        model: one of `mogul.models.names()`, or several for a mixture.
        options: where it departs from the named model.
        same_layers: whether a deep model has as many GPs in its second layer as in its first.
        linear: whether it stands on a least-squares plane: then it is another model than the paper's.
        noise: of the outputs; constant is the paper's, and any other makes another model of it, too.
        objective: what its training maximises; another than the bound on the evidence is no choice of the paper's.
        num_starts: random starts that are all trained to the end, for predictions of their mixture; None is the
            preset's choice, of which the best is kept.
        swept: whether it depends on what a sweep varies.
    """

    name: str
    label: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    same_layers: bool = False
    linear: bool = False
    noise: str = "constant"
    objective: ObjectiveName = _BOUND
    num_starts: int | None = None
    swept: bool = True

    @property
    def on_a_plane(self) -> "Line":
        """The same model on the residual of a least-squares plane."""
        return replace(self, name=f"{self.name}{LINEAR}", label=f"{self.label} + linear", linear=True)

    def with_noise(self, noise: str) -> "Line":
        """The same model with this noise.

        >>> line("n-mogp").on_a_plane.with_noise("gp").label
        'N-MOGP + linear + GP noise'
        """
        if noise == "constant":
            return self
        name, label = f"{self.name}+{noise}-noise", f"{self.label} + {_NOISES[noise]}"
        return replace(self, name=name, label=label, options={**self.options, "noise": noise}, noise=noise)

    def maximising(self, objective: ObjectiveName) -> "Line":
        """The same model trained by this objective.

        >>> line("n-sbgprn").on_a_plane.with_noise("gp").maximising("balanced").label
        'N-SBGPRN + linear + GP noise + balanced'
        """
        if objective == "balanced" and not noise_varies(self.noise):
            bare = self.name.removesuffix(f"+{self.noise}-noise")
            raise ConfigError(
                f"balanced needs noise that depends on the input; got {self.label}, for which it changes nothing. "
                f"Try {bare}+gp-noise+balanced."
            )
        name, label = f"{self.name}+{objective}", f"{self.label} + {objective}"
        return replace(self, name=name, label=label, objective=objective)

    def mixed(self, num_starts: int) -> "Line":
        """The mixture of so many random starts.

        >>> line("n-sbgprn").on_a_plane.mixed(4).name
        'n-sbgprn+linear+4-starts'
        """
        if is_latent(self.model):
            raise ConfigError(
                f"A mixture needs inputs that its starts share; got {self.label}, whose starts find their own. "
                f"Leave out +{num_starts}{STARTS}."
            )
        name, label = f"{self.name}+{num_starts}{STARTS}", f"{self.label}{TIMES}{num_starts} starts"
        return replace(self, name=name, label=label, num_starts=num_starts)

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
        """The options of `mogul.models.build` for so many outputs."""
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
    return Line("-".join([model, *words]), label, model, options, same_layers)


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
    return Line(model, AND.join(each.label for each in lines), model, first.options)


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


def plain_label(label: str) -> str:
    """The label of the line that this one is a mixture of, or has another objective than.

    >>> plain_label("MOGP + linear + GP noise + balanced × 4 starts"), plain_label("MOGP")
    ('MOGP + linear + GP noise', 'MOGP')
    """
    single, _, _ = label.partition(TIMES)
    for objective in _OTHER_OBJECTIVES:
        single = single.removesuffix(f" + {objective}")
    return single


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
