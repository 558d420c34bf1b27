"""A model file as a table for a terminal."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from mogul.cli.choices import choice_line
from mogul.cli.objectives import objective_words
from mogul.cli.show import MemberCard, ModelCard
from mogul.cli.words import counted, epochs_words, seconds_words
from mogul.models.families import members


def model_table(card: ModelCard) -> Table:
    """A line for each thing that the header says."""
    table = Table(title=card.path, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for label, value in card_lines(card):
        table.add_row(label, Text(value))
    return table


def card_lines(card: ModelCard) -> list[tuple[str, str]]:
    """Labels and values of the table."""
    mixed = ", a mixture" if card.kept > 1 else ""
    return [
        ("model", f"{card.model}{mixed}, {card.kind} inputs, {card.precision}"),
        *_labelled("options", dict.fromkeys(_options(member, card) for member in card.members)),
        *([("noise", f"correlated across outputs ({_factors(card.noise_factors)})")] if card.noise_factors else []),
        ("inputs", counted(card.input_names)),
        ("outputs", counted(card.output_names)),
        *_labelled("training", _training(card)),
        ("calibration", _calibration(card.calibration)),
        *([] if card.choice is None else [("chosen", choice_line(card.choice))]),
        ("file", f"format {card.format}, {card.num_bytes:,} bytes, seal intact"),
        ("written with", ", ".join(f"{name} {version}" for name, version in card.versions.items())),
    ]


def _labelled(label: str, values: Iterable[str]) -> list[tuple[str, str]]:
    """The label beside the first of them."""
    return [("" if place else label, value) for place, value in enumerate(values)]


def _options(member: MemberCard, card: ModelCard) -> str:
    given = ", ".join(f"{name} = {value}" for name, value in member.options.items()) or "the model's own"
    return f"{member.model}: {given}" if members(card.model)[1:] else given


def _training(card: ModelCard) -> list[str]:
    """A line; of a mixture, one for each member, too."""
    if card.kept == 1:
        (only,) = card.members
        return [f"{_course(only, card.objective, f'best of {only.starts} starts')}, {seconds_words(card.seconds)}"]
    each = [
        f"{member.model}: {_course(member, card.objective, f'start {member.start + 1} of {member.starts}')}"
        for member in card.members
    ]
    return [f"a mixture of {card.kept}, {seconds_words(card.seconds)}", *each]


def _course(member: MemberCard, objective: str, start: str) -> str:
    steps = f"{epochs_words(member.epochs)}, {start}" if member.epochs else "exact GPs, one for each output"
    values = dict.fromkeys((member.first_elbo, member.last_elbo))
    ends = [f"{elbo / (member.num_rows or 1):,.2f}" for elbo in values if elbo is not None]
    unit = " per row" if member.num_rows else ""
    return f"{steps}, {objective_words(objective)} {' → '.join(ends)}{unit}" if ends else steps


def _factors(count: int) -> str:
    return f"{count} factor{'s' if count > 1 else ''}"


def _calibration(found: dict[str, int] | None) -> str:
    """By which rows; where each is a group of its own, groups are not worth a word."""
    if found is None:
        return "none"
    groups = "" if found["num_groups"] == found["num_rows"] else f" of {found['num_groups']:,} groups"
    return f"by {found['num_rows']:,} rows{groups}"
