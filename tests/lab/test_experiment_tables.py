"""Tables for a terminal, Markdown and LaTeX."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console
from tests.helpers.small_jobs import record

from mogul.lab.experiments.record import Record
from mogul.lab.report.frame import Results
from mogul.lab.report.tables import (
    ExperimentTable,
    TerminalTable,
    escape_latex,
    experiment_tables,
    latex,
    markdown,
    result_line,
)


@pytest.fixture
def records() -> list[Record]:
    return [
        record("N-DGP (L′ = L)", 0, metrics={"ll": 24.0, "mrmse": 0.1}),
        record("N-DGP (L′ = L)", 1, metrics={"ll": 25.0, "mrmse": 0.1}),
        record("MOGP + linear", 0, metrics={"ll": 40.0, "mrmse": 0.2}),
        record("least squares", 0, kind="baseline", metrics={"ll": 34.4, "mrmse": 0.174}),
        replace(record("GPRN", 0), metrics={}, error="GPs_failed: 50 % & more | {x}"),
    ]


def tables_of(records: list[Record]) -> list[ExperimentTable]:
    return experiment_tables(Results.of(records))


def only(records: list[Record]) -> ExperimentTable:
    (table,) = tables_of(records)
    return table


def test_a_title_says_data_split_preset_and_units(records: list[Record]) -> None:
    rows = "40 training and 20 test rows"
    assert only(records).title == f"kuka: regression, random splits, {rows}, preset fast, standardised units"
    alone = only([record("MOGP", 3)])
    assert alone.title == f"kuka: regression, random split, seed 3, {rows}, preset fast, standardised units"
    assert "split by trajectory, 50 training and 10 test rows" in only([record("MOGP", None)]).title


def test_each_line_tells_how_many_runs_it_is_of_where_some_have_several(records: list[Record]) -> None:
    table = only(records)
    rows = {row[0]: dict(zip(table.headings, row, strict=True)) for some in table.sections.values() for row in some}
    assert {label: row["runs"] for label, row in rows.items()} == {
        "least squares": "1",
        "MOGP + linear": "1",
        "N-DGP (L′ = L)": "2",
        "GPRN": "0",
    }
    assert "runs" not in only([record("MOGP", 0), record("N-MOGP", 0)]).headings
    trained_twice = only([replace(record("MOGP", None), seed=seed) for seed in (0, 1)])
    assert dict(zip(trained_twice.headings, trained_twice.sections["models"][0], strict=True))["runs"] == "2"
    assert "split by trajectory, 50" in trained_twice.title  # one split


def test_every_table_tells_the_noise_floors(records: list[Record]) -> None:
    assert only(records).note.startswith("No noise floor.")
    config = {"units": "standardised", "noise_floor": "sd 0.0001 of an output's scale"}
    tables = tables_of([*records, record("MOGP + GP noise", 0, config=config)])
    told = "Noise floor: sd 0.0001 of an output's scale (MOGP + GP noise), none (all others)."
    assert tables[0].note.startswith(told)
    for text in (markdown(tables), latex(tables)):
        assert told in text
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(TerminalTable(tables[0]))
    assert told in console.file.getvalue()


def test_baselines_come_first_and_the_papers_numbers_last(records: list[Record]) -> None:
    table = only(records)
    assert list(table.sections) == ["baselines", "models"]
    assert [row[0] for row in table.sections["baselines"]] == ["least squares"]
    rows = {row[0]: dict(zip(table.headings, row, strict=True)) for row in table.sections["models"]}
    deep = rows["N-DGP (L′ = L)"]
    assert deep["test LL"] == "24.50 ± 0.71"
    assert deep["the paper's LL"] == "23.69 ± 0.23"
    assert deep["the paper's MRMSE"] == "0.103 ± 0.004"
    assert deep["LL above it, in its sd"] == "+3.5"
    assert rows["MOGP + linear"]["the paper's LL"] == ""
    assert rows["GPRN"]["test LL"] == "failed"
    assert "GPs_failed" in table.note


def test_a_stand_in_says_so_and_has_no_column_of_the_papers() -> None:
    table = only([record("MOGP", 0, dataset="halfcheetah")])
    assert "not the paper's MuJoCo set" in table.note
    assert "same sizes" not in table.note  # the fast preset has fewer rows
    assert not any("paper" in heading for heading in table.headings)


def test_a_sweep_has_a_column_for_what_is_swept_and_training_scores_one_of_theirs() -> None:
    sweep = {"experiment": "small-data", "dataset": "rhythmic-arm"}
    records = [record("MOGP", 0, settings={"num_train": n}, metrics={"train_ll": 3.0}, **sweep) for n in (1000, 250)]
    table = only(records)
    assert table.headings[:2] == ["model", "setting"]
    assert [row[1] for row in table.sections["models"]] == ["N = 250", "N = 1000"]
    assert "training LL" in table.headings
    assert "250 to 1,000 training and 20 test rows" in table.title


def test_each_data_set_split_kind_and_preset_has_its_table() -> None:
    records = [record("MOGP", 0), record("MOGP", None), record("MOGP", 0, preset="paper")]
    records.append(record("MOGP", 0, dataset="f-baxter"))
    assert len(tables_of(records)) == 4


def test_a_job_is_told_in_a_line(records: list[Record]) -> None:
    assert result_line(records[0]) == "kuka, random 0, N-DGP (L′ = L): LL 24.00  MRMSE 0.100  (12 s)"
    assert result_line(records[-1]) == "kuka, random 0, GPRN: failed: GPs_failed: 50 % & more | {x}"


def test_markdown_has_as_many_cells_in_every_line(records: list[Record]) -> None:
    text = markdown(tables_of(records))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    counts = {len(re.split(r"(?<!\\)\|", row)) - 2 for row in rows}
    assert counts == {len(only(records).headings)}
    assert set(rows[1].replace(" ", "")) == set("|-:")
    assert "24.50 ± 0.71" in text
    assert r"more \| {x}" in text


def test_latex_is_well_formed(records: list[Record]) -> None:
    text = latex([*tables_of(records), *tables_of([record("MOGP", None)])])
    assert text.isascii()
    opened, closed = re.findall(r"\\begin\{(\w+)\}", text), re.findall(r"\\end\{(\w+)\}", text)
    assert opened == ["table", "tabular"] * 2
    assert closed == ["tabular", "table"] * 2
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    first = text.split(r"\end{table}")[0]
    columns = len(only(records).headings)
    assert rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}" in first
    rows = [line for line in first.splitlines() if line.endswith(r"\\") and not line.startswith(r"\multicolumn")]
    assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {columns}
    assert r"50 \% \& more | \{x\}" in first


def test_signs_that_latex_would_read_are_escaped() -> None:
    assert escape_latex("MOGP × 4 starts") == r"MOGP $\times$ 4 starts"
    assert escape_latex("a_b & c% #1 $x {y} ~ ^ \\") == (
        r"a\_b \& c\% \#1 \$x \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )


def test_the_terminal_prints_the_same_rows(records: list[Record]) -> None:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(TerminalTable(only(records)))
    text = console.file.getvalue()
    assert "24.50 ± 0.71" in text
    assert text.index("least squares") < text.index("N-DGP (L′ = L)")


LONG = ["independent sparse GPs + linear (GPyTorch)", "MLP ensemble + linear, noise by the nets"]


@pytest.fixture
def long_labels() -> list[Record]:
    """Two splits, so that every number has a spread, and labels as long as there are."""
    split = [*(record(label, seed, kind="baseline") for label in LONG for seed in (0, 1))]
    split += [record("N-SBGPRN + linear + Student-t noise", seed) for seed in (0, 1)]
    return split + [record("N-DGP (L′ = L)", seed, metrics={"ll": 24.0 + seed}) for seed in (0, 1)]


def printed(records: list[Record], width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(TerminalTable(only(records)))
    return console.file.getvalue()


def test_eighty_columns_have_whole_names_and_the_papers_number_beside_ours(long_labels: list[Record]) -> None:
    text = printed(long_labels, 80)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    for label in {each.label for each in long_labels}:
        assert sum(line.startswith(label) for line in lines) == 1
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines]
    assert ["N-DGP (L′ = L)", "24.50 ± 0.71", "23.69 ± 0.23", "+3.5"] in cells
    assert "Not shown in so narrow a terminal: MRMSE, CRPS, in 80 % band, seconds, runs, the" in " ".join(text.split())


def test_a_terminal_shows_the_columns_that_it_has_room_for(long_labels: list[Record]) -> None:
    one_split = [each for each in long_labels if each.seed == 0]
    assert "MRMSE" in printed(one_split, 80).split("Not shown")[0]  # no spreads: room for more
    wide = printed(long_labels, 200)
    assert "Not shown" not in wide
    assert all(heading in wide for heading in only(long_labels).headings)


def test_brackets_are_not_read_as_markup(records: list[Record]) -> None:
    broken = replace(records[-1], error="got [/x] [1, 2]")
    assert "got [/x] [1, 2]" in " ".join(printed([*records[:-1], broken], 200).split())
