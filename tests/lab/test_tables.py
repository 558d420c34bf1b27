"""The table of the synthetic experiment."""

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mogul import cli
from mogul.lab.experiments.synthetic import Row, synthetic_table


def row(model: str, seed: int = 0, ll: float = 1.0, seconds: float | None = 12.4) -> Row:
    return Row(seed=seed, model=model, ll=ll, mrmse=0.1234, crps=0.05678, coverage=0.815, seconds=seconds)


def lines(*rows: Row) -> list[list[str]]:
    """The cells of each line of the table, title first, as plain text."""
    console = Console(file=io.StringIO(), width=160, color_system=None, legacy_windows=False)
    console.print(synthetic_table(rows))
    text = console.file.getvalue().translate(str.maketrans("┃│", "||"))
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines()]


def line_of(label: str, *rows: Row) -> list[str]:
    return next(cells for cells in lines(*rows) if cells[0] == label)


def test_every_score_has_its_column():
    heading = line_of("model", row("mogp"))
    assert heading == ["model", "test LL", "MRMSE", "CRPS", "in 80 % band", "seconds"]


def test_a_row_is_formatted_for_reading():
    assert line_of("MOGP, mogul", row("mogp")) == ["MOGP, mogul", "1.00", "0.123", "0.0568", "82%", "12"]


def test_several_seeds_give_mean_and_spread():
    rows = [row("mogp", seed, ll) for seed, ll in enumerate((1.0, 2.0, 6.0))]
    assert line_of("MOGP, mogul", *rows)[1] == "3.00 ± 2.65"


def test_what_is_not_fitted_has_no_seconds():
    cells = line_of("oracle (true function and noise)", row("oracle", seconds=None))
    assert cells[-1] == ""


@pytest.mark.parametrize(
    ("label", "ll", "mrmse"), [("MOGP, the paper", "-0.72", "0.166"), ("N-MOGP, the paper", "6.92", "0.102")]
)
def test_the_papers_figures_are_always_there(label, ll, mrmse):
    assert line_of(label, row("oracle"))[:3] == [label, ll, mrmse]


def test_baselines_come_first_and_our_models_last():
    rows = [row(name) for name in ("oracle", "least squares", "mogp", "n-mogp")]
    labels = [cells[0] for cells in lines(*rows) if len(cells) == 6][1:]
    assert labels == [
        "oracle (true function and noise)",
        "least squares (baseline)",
        "MOGP, the paper",
        "N-MOGP, the paper",
        "MOGP, mogul",
        "N-MOGP, mogul",
    ]


@pytest.mark.parametrize(("num_seeds", "words"), [(1, "1 seed"), (3, "3 seeds")])
def test_the_title_says_how_many_seeds(num_seeds, words):
    title = lines(*(row(model, seed) for seed in range(num_seeds) for model in ("mogp", "n-mogp")))[0][0]
    assert title.endswith(words)


def test_models_are_listed() -> None:
    listed = CliRunner().invoke(cli.app, ["models"], env={"COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb"})
    assert listed.exit_code == 0
    for name in ("mogp", "gprn", "dgp", "sbgprn", "n-mogp", "n-sbgprn", "n-dgp"):
        assert f" {name} " in listed.output
