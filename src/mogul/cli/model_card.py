"""A model file as a table for a terminal."""

from rich.table import Table
from rich.text import Text

from mogul.cli.choices import choice_line
from mogul.cli.objectives import objective_words
from mogul.cli.show import ModelCard
from mogul.cli.words import counted, epochs_words
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
    ends = [f"{elbo:,.1f}" for elbo in dict.fromkeys((card.first_elbo, card.last_elbo)) if elbo is not None]
    course = f", {objective_words(card.objective)} {' → '.join(ends)}" if ends else ""
    options = ", ".join(f"{name} = {value}" for name, value in card.options.items())
    first, *others = members(card.model)
    mixed = ", a mixture" if others else ""
    per_model = card.kept // (1 + len(others))
    kept = "best" if per_model == 1 else f"mixture of the best {per_model}"
    of_first = f"{first}: " if others else ""
    trained = f"{epochs_words(card.epochs)}, {kept} of {card.starts} starts"
    steps = trained if card.epochs else "exact GPs, one for each output"
    return [
        ("model", f"{card.model}{mixed}, {card.kind} inputs, {card.precision}"),
        ("options", of_first + (options or "the model's own")),
        *([("noise", f"correlated across outputs ({_factors(card.noise_factors)})")] if card.noise_factors else []),
        ("inputs", counted(card.input_names)),
        ("outputs", counted(card.output_names)),
        ("training", f"{of_first}{steps}{course}, {card.seconds:.0f} s"),
        ("calibration", _calibration(card.calibration)),
        *([] if card.choice is None else [("chosen", choice_line(card.choice))]),
        ("file", f"format {card.format}, {card.num_bytes:,} bytes, seal intact"),
        ("written with", ", ".join(f"{name} {version}" for name, version in card.versions.items())),
    ]


def _factors(count: int) -> str:
    return f"{count} factor{'s' if count > 1 else ''}"


def _calibration(found: dict[str, int] | None) -> str:
    """By which rows; where each is a group of its own, groups are not worth a word."""
    if found is None:
        return "none"
    groups = "" if found["num_groups"] == found["num_rows"] else f" of {found['num_groups']:,} groups"
    return f"by {found['num_rows']:,} rows{groups}"
