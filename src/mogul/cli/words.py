"""Text, numbers and small tables for a terminal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from mogul.errors import as_list
from mogul.models.families import FAMILIES

_SHOWN = 8


def counted(names: Sequence[str]) -> str:
    """The number of names and the first few of them.

    >>> counted(["Cd", "Cu"])
    '2: Cd, Cu'
    >>> counted(["speed, m/s", "load"])
    '2: "speed, m/s", load'
    """
    return f"{len(names)}: {named(names)}" if names else ""


def named(names: Sequence[str]) -> str:
    """The first few names.

    >>> named(["Cd", "Cu"])
    'Cd, Cu'
    """
    return ", ".join(as_list([name]) for name in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def transforms_words(transforms: Mapping[str, str]) -> str:
    """Each transform with its outputs.

    >>> transforms_words({"Cd": "log", "Co": "yeo-johnson (λ = 0.50)", "Cu": "log"})
    'log of Cd, Cu; yeo-johnson (λ = 0.50) of Co'
    """
    kinds = dict.fromkeys(transforms.values())
    outputs = {kind: [name for name, own in transforms.items() if own == kind] for kind in kinds}
    return "; ".join(f"{kind} of {', '.join(names)}" for kind, names in outputs.items())


def chain_words(chain: Mapping[str, Mapping[str, float]]) -> str:
    """The outputs that depend on others, in a chain.

    >>> chain_words({"Zn": {"Ni": 1.2}, "Cd": {"Ni": 0.1, "Zn": 0.02}})
    'Zn on Ni; Cd on Ni, Zn'
    """
    shown = [f"{name} on {named(list(weights))}" for name, weights in list(chain.items())[:_SHOWN]]
    return "; ".join([*shown, *(["…"] if len(chain) > _SHOWN else [])])


def regressed_words(outputs: Sequence[str]) -> str:
    """What stands under the GPs of some outputs; nothing without them.

    >>> regressed_words(["Cd", "Ni"]), regressed_words([])
    (', with trees under Cd, Ni', '')
    """
    shown = ", ".join(outputs[:_SHOWN]) + (", …" if len(outputs) > _SHOWN else "")
    return f", with trees under {shown}" if outputs else ""


def kernels_words(kernel: str, tried: Mapping[str, float]) -> str:
    """The kernel that evidence chose, and that of each tried.

    >>> kernels_words("matern52", {"rbf": -3.25, "matern52": -1.0})
    'matern52, by log evidence of exact GPs: rbf -3.2, matern52 -1.0'
    >>> kernels_words("rbf", {"rbf": 62.6, "matern52": 62.8})
    'rbf, by log evidence of exact GPs: rbf 62.6, matern52 62.8 (a rougher kernel must be ahead by more)'
    """
    values = ", ".join(f"{name} {value:.1f}" for name, value in tried.items())
    near = " (a rougher kernel must be ahead by more)" if tried.get(kernel, math.inf) < max(tried.values()) else ""
    return f"{kernel}, by log evidence of exact GPs: {values}{near}"


def epochs_words(count: int) -> str:
    """The number of epochs as text.

    >>> epochs_words(1), epochs_words(2)
    ('1 epoch', '2 epochs')
    """
    return f"{count} epoch{'' if count == 1 else 's'}"


def seconds_words(seconds: float) -> str:
    """A time in seconds; below ten, to a tenth.

    >>> seconds_words(0.42), seconds_words(12.3)
    ('0.4 s', '12 s')
    """
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def noise_words(noise: str, num_factors: int) -> str:
    """A kind of noise, and whether it is correlated across outputs.

    >>> noise_words("gp", 0), noise_words("gp", 2)
    ('gp', 'gp, correlated across outputs (2 factors)')
    """
    if not num_factors:
        return noise
    return f"{noise}, correlated across outputs ({num_factors} factor{'s' if num_factors > 1 else ''})"


def floor_words(floor: float) -> str:
    """A floor as a share of an output's scale, as text.

    >>> floor_words(1e-4), floor_words(0.0)
    ("sd at least 0.0001 of an output's scale", 'no floor')
    """
    return f"sd at least {floor:.3g} of an output's scale" if floor else "no floor"


def choice_line(choice: Mapping[str, Any]) -> str:
    """The chosen candidate and all scores; only fields in which candidates differ are shown.

    >>> tried = [{"model": "mogp", "noise": "gp", "ll": 1.0}, {"model": "mogp", "noise": "constant", "ll": None}]
    >>> choice_line({"chosen": tried[0], "num_held_out": 20, "candidates": tried})
    'gp noise, by LL per row on 20 held out: gp 1.00, constant none'
    >>> tried[1] = {"model": "sbgprn", "noise": "gp", "ll": 0.5}
    >>> choice_line({"chosen": tried[0], "num_held_out": 20, "candidates": tried})
    'mogp, by LL per row on 20 held out: mogp 1.00, sbgprn 0.50'
    """
    candidates = choice["candidates"]
    varying = [part for part in ("model", "noise") if len({candidate[part] for candidate in candidates}) > 1]

    def name(candidate: Mapping[str, Any], between: str = " ") -> str:
        return between.join(candidate[part] for part in varying or ["noise"])

    scores = [
        f"{name(candidate)} {'none' if candidate['ll'] is None else format(candidate['ll'], '.2f')}"
        for candidate in candidates
    ]
    kind = "" if varying == ["model"] else " noise"
    kept = name(choice["chosen"], between=" with ")
    return f"{kept}{kind}, by LL per row on {choice['num_held_out']:,} held out: {', '.join(scores)}"


_WORDS = {"elbo": "ELBO", "balanced": "ELBO (balanced)", "predictive": "predictive objective"}


def objective_words(name: str) -> str:
    """The text for an objective of `mogul.objective`.

    >>> objective_words("elbo")
    'ELBO'
    """
    return _WORDS.get(name, name)


def models_table() -> Table:
    """The model families, and how to form model names."""
    table = Table(
        title="mogul's models", caption="dk-NAME has a deep kernel, NAME-lvm latent inputs, dk-NAME-lvm both."
    )
    for heading in ("name", "what it is", "equation"):
        table.add_column(heading)
    for name, recipe in FAMILIES.items():
        table.add_row(name, recipe.description, f"eqn:{recipe.equation}")
    return table
