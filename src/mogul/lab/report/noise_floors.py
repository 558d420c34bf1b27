"""Noise in words, and the least of it that a line may believe in, which tables with log likelihoods must tell."""

from collections.abc import Iterable

from mogul.lab.experiments.lines import NO_FLOOR


def noise_words(noise: str, num_factors: int) -> str:
    """A kind of noise, and whether it is correlated across outputs.

    >>> noise_words("gp", 0), noise_words("gp", 2)
    ('gp', 'gp, correlated across outputs (2 factors)')
    """
    if not num_factors:
        return noise
    return f"{noise}, correlated across outputs ({num_factors} factor{'s' if num_factors > 1 else ''})"


def floor_words(floor: float) -> str:
    """A floor as a share of an output's scale, in words.

    >>> floor_words(1e-4), floor_words(0.0)
    ("sd at least 0.0001 of an output's scale", 'no floor')
    """
    return f"sd at least {floor:.3g} of an output's scale" if floor else "no floor"


def describe_floors(floors: Iterable[tuple[str, str]]) -> str:
    """Labels and their floors in a sentence.

    >>> describe_floors([("MOGP", "none"), ("MOGP + GP noise", "sd 0.0001 of an output's scale")])
    "Noise floor: sd 0.0001 of an output's scale (MOGP + GP noise), none (all others)."
    >>> describe_floors([("MOGP", "none")])
    'No noise floor.'
    """
    labels: dict[str, list[str]] = {}
    for label, floor in dict(floors).items():
        labels.setdefault(floor, []).append(label)
    without = labels.pop(NO_FLOOR, [])
    if not labels:
        return "No noise floor."
    parts = [f"{floor} ({'; '.join(some)})" for floor, some in labels.items()]
    return f"Noise floor: {', '.join([*parts, *(['none (all others)'] if without else [])])}."
