"""The table of published runs: what is ours, the paper's and a baseline; and the README's agrees with the files."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.small_jobs import record

from mogul.errors import DataError
from mogul.lab.experiments.record import Record
from mogul.lab.report.frame import Results, results_frame, summary_frame, write_csv
from mogul.lab.report.overview import BEGIN, END, overview, read_published, with_overview

ROOT = Path(__file__).parents[2]
FLOOR = {"units": "standardised", "noise_floor": "sd 0.0001 of an output's scale"}


def scored(label: str, seed: int | None, ll: float, **changes: object) -> Record:
    return record(label, seed, metrics={"ll": ll, "mrmse": 0.1}, **changes)


@pytest.fixture
def records() -> list[Record]:
    baseline = {"kind": "baseline"}
    return [
        scored("MOGP", 0, 16.0),
        scored("MOGP", 1, 17.0),
        scored("N-MOGP", 0, 25.0),
        scored("N-MOGP", 1, 26.0),
        scored("N-MOGP + linear", 0, 44.0),
        scored("N-SBGPRN + linear + GP noise", 0, 60.0, config=FLOOR),
        scored("mean", 0, -20.0, **baseline),
        scored("least squares", 0, 34.4, **baseline),
        scored("MLP ensemble + linear, constant noise", 0, 44.2, **baseline),
        scored("N-MOGP", None, 20.0),
        scored("least squares", None, 33.0, **baseline),
        scored("MOGP", 0, 3.0, dataset="halfcheetah"),
        scored("N-MOGP", 0, 99.0, experiment="hidden-units", settings={"num_hidden": 8}),
    ]


def publish(folder: Path, run: str, records: list[Record]) -> None:
    (folder / run).mkdir()
    write_csv(folder / run / "results.csv", results_frame(Results.of(records)))


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_of_each_kind_the_best_is_shown_for_what_it_is(records: list[Record], tmp_path: Path) -> None:
    publish(tmp_path, "one", records)
    text = overview(read_published(tmp_path), "results")
    papers = ["the paper's best, as printed", "DK-N-SBGPRN (sherf)", "", "", "32.30 ± 0.48", ""]
    assert rows(text) == [
        ["kuka, random, fast", *papers],
        ["", "ours, the paper's model", "N-MOGP", "25.50 ± 0.71", "0.100 ± 0.000", "25.32 ± 0.26", "2"],
        ["", "ours, + linear", "N-MOGP + linear", "44.00", "0.100", "", "1"],
        ["", "ours, other noise", "N-SBGPRN + linear + GP noise", "60.00", "0.100", "", "1"],
        ["", "baseline", "least squares", "34.40", "0.100", "", "1"],
        ["", "baseline", "MLP ensemble + linear, constant noise", "44.20", "0.100", "", "1"],
        ["kuka, by trajectory, fast", "ours, the paper's model", "N-MOGP", "20.00", "0.100", "", "1"],
        ["", "baseline", "least squares", "33.00", "0.100", "", "1"],
        ["halfcheetah, random, fast", "ours, the paper's model", "MOGP", "3.00", "0.100", "", "1"],
    ]
    assert "sd 0.0001 of an output's scale (N-SBGPRN + linear + GP noise), none (all others)" in text
    assert "`results/one/tables.md`" in text
    assert text.splitlines()[0].endswith("| runs |")
    assert "one standard deviation over runs" in text


def test_under_the_papers_protocol_each_of_its_models_is_shown(tmp_path: Path) -> None:
    scores = {"N-MOGP": 25.0, "MOGP": 16.0, "MOGP + linear": 30.0, "N-MOGP + linear": 40.0}
    publish(tmp_path, "one", [scored(label, 0, ll, preset="paper") for label, ll in scores.items()])
    shown = rows(overview(read_published(tmp_path), "results"))
    assert [(row[0], row[2]) for row in shown] == [
        ("kuka, random, paper", "DK-N-SBGPRN (sherf)"),
        ("", "N-MOGP"),
        ("", "MOGP"),
        ("", "N-MOGP + linear"),
    ]


def test_a_mixture_of_starts_is_shown_as_one(tmp_path: Path) -> None:
    publish(tmp_path, "one", [scored("N-MOGP", 0, 25.0), scored("N-MOGP + linear × 4 starts", 0, 46.0)])
    _, *shown = rows(overview(read_published(tmp_path), "results"))
    assert [row[1:5] for row in shown] == [
        ["ours, the paper's model", "N-MOGP", "25.00", "0.100"],
        ["ours, mixture", "N-MOGP + linear × 4 starts", "46.00", "0.100"],
    ]


def test_another_objective_is_shown_as_one(tmp_path: Path) -> None:
    publish(tmp_path, "one", [scored("N-MOGP", 0, 25.0), scored("N-MOGP + linear + GP noise + balanced", 0, 46.0)])
    _, *shown = rows(overview(read_published(tmp_path), "results"))
    assert [row[1:3] for row in shown] == [
        ["ours, the paper's model", "N-MOGP"],
        ["ours, other objective", "N-MOGP + linear + GP noise + balanced"],
    ]


def test_runs_are_read_together_but_no_number_twice(records: list[Record], tmp_path: Path) -> None:
    publish(tmp_path, "one", records[:4])
    publish(tmp_path, "two", records[4:])
    both = read_published(tmp_path)
    assert set(both.jobs.run) == {"one", "two"}
    assert rows(overview(both, "results"))[1][2] == "N-MOGP"
    publish(tmp_path, "again", records[:1])
    with pytest.raises(DataError, match="MOGP on kuka, random 0, is in again and one"):
        read_published(tmp_path)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    pd.DataFrame({"label": ["MOGP"]}).to_csv(tmp_path / "old" / "results.csv", index=False)
    with pytest.raises(DataError, match="must have the columns experiment, dataset"):
        read_published(tmp_path)


def test_the_table_replaces_what_is_between_the_markers() -> None:
    page = f"before\n\n{BEGIN}\nold\n{END}\nafter\n"
    once = with_overview(page, "| new |")
    assert once == f"before\n\n{BEGIN}\n\n| new |\n\n{END}\nafter\n"
    assert with_overview(once, "| new |") == once
    assert with_overview(once, "") == f"before\n\n{BEGIN}\n{END}\nafter\n"
    with pytest.raises(DataError, match="must have the lines"):
        with_overview("nothing", "| new |")


def test_the_readme_agrees_with_the_published_results() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert with_overview(page, overview(read_published(ROOT / "results"), "results")) == page, "run results/table.py"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "results" / "table.py"))["with_summary"](readme) == readme, "run results/table.py"


@pytest.mark.parametrize("run", sorted(path.parent.name for path in (ROOT / "results").glob("*/summary.csv")))
def test_published_summaries_are_the_averages_of_their_results(run: str, tmp_path: Path) -> None:
    (tmp_path / run).mkdir()
    (tmp_path / run / "results.csv").write_bytes((ROOT / "results" / run / "results.csv").read_bytes())
    keys = ["experiment", "dataset", "split", "preset", "setting", "label", "metric"]
    ours = summary_frame(read_published(tmp_path)).set_index(keys)
    kept = pd.read_csv(ROOT / "results" / run / "summary.csv", keep_default_na=False, na_values={"sd": [""]})
    kept = kept.set_index(keys)
    assert set(ours.index) == set(kept.index)
    ours = ours.loc[kept.index]
    # Both are rounded to six digits, the results before they are averaged.
    np.testing.assert_allclose(ours["mean"], kept["mean"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours["sd"], kept["sd"], rtol=1e-2, atol=1e-4)
    assert list(ours["splits"]) == list(kept["splits"])
