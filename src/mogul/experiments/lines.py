"""The lines of the tables: a model each, under a name that can be typed and a label that can be read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mogul.errors import unknown_name
from mogul.models import Name

LINEAR = "+linear"
NONE = "none"


@dataclass(frozen=True)
class Line:
    """A model as a table lists it.

    Args:
        name: what is typed, such as `n-dgp-same-leaky`.
        label: what is printed, such as `N-DGP (L′ = L, leaky)`.
        model: one of `mogul.models.names()`.
        options: where it departs from the named model.
        same_layers: whether a deep model has as many GPs in its second layer as in its first.
        linear: whether it stands on a least-squares plane: then it is another model than the paper's.
        swept: whether it depends on what a sweep varies.
    """

    name: str
    label: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    same_layers: bool = False
    linear: bool = False
    swept: bool = True

    @property
    def on_a_plane(self) -> "Line":
        """The same model on the residual of a least-squares plane."""
        return replace(self, name=f"{self.name}{LINEAR}", label=f"{self.label} + linear", linear=True)

    @property
    def can_be_linear(self) -> bool:
        """Whether there are inputs for a plane."""
        return not Name.parse(self.model).latent

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


def choose(words: Sequence[str] | None, groups: Mapping[str, Sequence[Line]], *, linear: bool) -> list[Line]:
    """The lines that were asked for, by names of lines or of groups; the first group by default.

    Args:
        words: names, `NAME+linear` for the one on a plane; None for the default.
        groups: the lines there are; the first is the default.
        linear: whether a bare name also stands for the one on a plane.
    """
    known = {each.name: each for group in groups.values() for each in group}
    on_planes = {each.on_a_plane.name: each.on_a_plane for each in known.values() if each.can_be_linear}
    chosen: list[Line] = []
    for word in [next(iter(groups))] if words is None else words:
        if word == NONE:
            continue
        if word in on_planes:
            chosen.append(on_planes[word])
        elif word in groups or word in known:
            for each in groups.get(word, [known[word]] if word in known else []):
                chosen += [each, each.on_a_plane] if linear and each.can_be_linear else [each]
        else:
            raise unknown_name("model", word, [*groups, *known, NONE])
    return list({each.name: each for each in chosen}.values())
