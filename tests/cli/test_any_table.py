"""Tables as users have them, in one command: the Air Quality layout, text with gaps, a row for each value."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.made_up_tables import AIR_TARGETS, air_quality, long_table, text_and_gaps, write_air_quality
from tests.helpers.terminal import assert_refused, command

import mogul

QUICK = ("--quiet", "--no-check", "--noise", "constant")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return command(monkeypatch, capsys)


@pytest.fixture(scope="module")
def air(tmp_path_factory) -> Path:
    """A model of the Air Quality layout, its table, and new rows: few, so that −200 is not found by itself."""
    folder = tmp_path_factory.mktemp("air")
    write_air_quality(folder / "AirQualityUCI.csv", 60)
    write_air_quality(folder / "new.csv", 8, seed=1, empty_rows=2)
    return folder


def test_air_quality_as_downloaded_in_one_command(air, monkeypatch, capsys):
    monkeypatch.chdir(air)
    run = command(monkeypatch, capsys)
    # Two outputs and two of eleven inputs less than in the documentation, for the sake of time.
    fitted = run("fit", "AirQualityUCI.csv", "--targets", "CO(GT),NOx(GT)", "--out", "air.mogul", *QUICK)
    assert fitted.code == 0, fitted.err
    lines = fitted.err.splitlines()
    assert 0 < len(lines) <= 5
    assert (
        "semicolons between cells, decimal commas; 2 empty columns and 114 empty rows at the end left out" in lines[0]
    )
    assert "-200 is taken as missing" in lines[1]
    assert "Date: day/month/year: trend; Time: hour.minute.second: hour" in lines[2]
    assert "gaps in PT08.S1(CO)" in lines[3]
    model, truth = mogul.load("air.mogul"), air_quality(60)
    assert model.input_columns[:2] == ["Date", "Time"]
    data = model.dataset(truth[model.input_columns], truth[model.output_names])
    assert np.isfinite(data.x).all()
    # The same numbers by pandas, which is told what was found here.
    own = pd.read_csv("AirQualityUCI.csv", sep=";", decimal=",", na_values=["-200"]).dropna(how="all")
    pd.testing.assert_series_equal(own["T"], truth["T"], check_exact=True)
    np.testing.assert_array_equal(data.x[:, model.input_names.index("T (missing)")], own["T"].isna())
    evaluated = json.loads(run("evaluate", "air.mogul", "AirQualityUCI.csv", "--json").out)
    known = {each["name"]: each["num_known"] for each in evaluated["outputs"]}
    assert known == {name: int(truth[name].notna().sum()) for name in ("CO(GT)", "NOx(GT)")}

    # −200 in new rows is a gap as it was in training, and columns are kept beside predictions.
    out = run("predict", "air.mogul", "new.csv", "--keep", "Date,Time", "--round", "2", "--out", "p.csv")
    assert out.code == 0, out.err
    predicted, new = pd.read_csv("p.csv"), air_quality(8, seed=1)
    assert list(predicted.columns) == ["Date", "Time", "CO(GT)", "CO(GT)_std", "NOx(GT)", "NOx(GT)_std"]
    assert predicted["Date"].tolist() == new["Date"].tolist()
    expected = model.predict(new, num_samples=250).mean.round(2)
    np.testing.assert_allclose(predicted[["CO(GT)", "NOx(GT)"]], expected)
    assert "Date: day/month/year: trend" in " ".join(run("show", "air.mogul").out.split())


def test_text_and_gaps_in_one_command(run):
    frame = text_and_gaps(50).drop(columns="cost")
    frame.assign(id=[f"no. {number}" for number in range(50)]).to_csv("flats.csv", index=False)
    outcome = run("fit", "flats.csv", "--targets", "rent", *QUICK)
    assert outcome.code == 0, outcome.err
    assert "town: 14 levels; kind: 3 levels; heating: 5 levels" in outcome.err
    assert "gaps in size" in outcome.err
    assert "'id' of flats.csv was left out: most of its texts are in one row only" in outcome.err
    assert len(outcome.err.splitlines()) <= 5
    assert "Inputs   5: town, kind, heating, size, lift" in outcome.out
    # The same model in Python, and unseen towns get a wider answer and a warning.
    model = mogul.load("model.mogul")
    with pytest.warns(mogul.errors.MogulWarning, match="'size' has gaps"):
        same = mogul.fit(frame, targets="rent", noise="constant")
    assert (same.predict(frame).mean == model.predict(frame).mean).all()
    frame.head(5).assign(town="elsewhere").to_csv("new.csv", index=False)
    outcome = run("predict", "model.mogul", "new.csv", "--out", "p.csv")
    assert (
        "warning: Levels of 'town' should be those of training; 'elsewhere' in 5 rows of new.csv is not" in outcome.err
    )
    known = model.predict(frame.head(5)).std[:, 0]
    assert (pd.read_csv("p.csv")["rent_std"] > 1.5 * known).all()


def test_a_long_table_in_one_command(run):
    frame = long_table(40)
    frame.to_csv("long.csv", index=False)
    outcome = run("fit", "long.csv", "--long", "sensor,value", *QUICK)
    assert outcome.code == 0, outcome.err
    wide = frame.pivot(index=["x", "y"], columns="sensor", values="value").reset_index()
    assert f"{len(frame)} values of 3 outputs in {len(wide)} rows of different inputs" in outcome.err
    assert "Outputs  3: Cd, Ni, Zn" in outcome.out
    evaluated = json.loads(run("evaluate", "model.mogul", "long.csv", "--long", "sensor,value", "--json").out)
    assert sum(each["num_known"] for each in evaluated["outputs"]) == len(frame)
    assert all(each["r2"] > 0.8 for each in evaluated["outputs"])


@dataclass
class Layout:
    """Cells of a table, how to write and to fit it, and columns to break."""

    cells: list[list[str]]
    delimiter: str
    options: list[str]
    output: str
    number: str

    def column(self, name: str) -> int:
        """The place of a column."""
        return self.cells[0].index(name)

    def put(self, name: str, value: str, row: int = 4) -> "Layout":
        """A value into a column: into one row, or into all for row = 0."""
        for line in self.cells[1:] if row == 0 else [self.cells[row]]:
            line[self.column(name)] = value
        return self

    def text(self) -> str:
        """The file."""
        return "\n".join(self.delimiter.join(line) for line in self.cells) + "\n"


def layout(name: str, folder: Path) -> Layout:
    """One of the three."""
    if name == "air quality":
        write_air_quality(folder / "air.csv", 12, empty_rows=0)
        cells = [line.split(";") for line in (folder / "air.csv").read_text().splitlines()]
        (folder / "air.csv").unlink()
        return Layout(cells, ";", ["--targets", ",".join(AIR_TARGETS)], "CO(GT)", "PT08.S1(CO)")
    frame = text_and_gaps(12) if name == "text and gaps" else long_table(8)
    lines = [line.split(",") for line in frame.to_csv(index=False).splitlines()]
    if name == "text and gaps":
        return Layout(lines, ",", ["--targets", "rent,cost"], "rent", "size")
    return Layout(lines, ",", ["--long", "sensor,value"], "value", "x")


def changed(change: Callable[[Layout], object]) -> Callable[[Layout], bytes]:
    def content(table: Layout) -> bytes:
        change(table)
        return table.text().encode()

    return content


def with_options(*options: str) -> Callable[[Layout], bytes]:
    return changed(lambda table: table.options.extend(options))


# What is done to a table, and words of the one line that answers it.
BROKEN: dict[str, tuple[Callable[[Layout], bytes], str]] = {
    "a row is cut": (changed(lambda t: t.cells[3].pop()), "Each row must have"),
    "a row is longer": (changed(lambda t: t.cells[3].append("1")), "Each row must have"),
    "the end is cut": (
        lambda t: t.text().encode()[: -len(t.delimiter.join(t.cells[-1][1:])) - 2],
        "Each row must have",
    ),
    "a zero byte": (lambda t: t.text().encode()[:90] + b"\0" + t.text().encode()[90:], "CSV must be text"),
    "another encoding": (lambda t: t.text().encode() + b"\x81", "CSV must be text in UTF-8"),
    "a name twice": (changed(lambda t: t.cells[0].__setitem__(0, t.cells[0][1])), "must have different names"),
    "a column without a name": (changed(lambda t: t.cells[0].__setitem__(1, "")), "Every column must have a name"),
    "nothing": (lambda t: b"", "A table must have a line of names"),
    "names alone": (changed(lambda t: t.cells.__delitem__(slice(1, None))), "must have at least one row"),
    "an open quote": (changed(lambda t: t.put(t.cells[0][0], '"')), "must be readable as CSV"),
    "an infinite output": (changed(lambda t: t.put(t.output, "inf")), "Outputs must be finite"),
    "a word in an output": (changed(lambda t: t.put(t.output, "high")), "Columns must be numbers"),
    "an output without values": (changed(lambda t: t.put(t.output, "", 0)), "Each output must have at least one value"),
    "an infinite input": (changed(lambda t: t.put(t.number, "-inf")), "Inputs must be complete and finite"),
    "a word in an input": (changed(lambda t: t.put(t.number, "low")), "Columns must be numbers"),
    "a number without a square": (changed(lambda t: t.put(t.number, "1e200")), "Numbers must be within"),
    "an unknown input": (with_options("--inputs", "nowhere"), "'nowhere' is not among"),
    "an unknown policy": (with_options("--missing-inputs", "median"), "--missing-inputs must be one of mean"),
    "an unknown category": (with_options("--categories", "nowhere"), "categories must be one of"),
    "an unknown model": (with_options("--model", "n-sbgpr"), "Did you mean 'n-sbgprn', 'dk-n-sbgprn' or 'sbgprn'?"),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("name", ["air quality", "text and gaps", "long"])
def test_twenty_ways_to_break_each_are_one_line_each_and_nothing_is_written(name, what, run, tmp_path):
    table = layout(name, tmp_path)
    change, says = BROKEN[what]
    Path("t.csv").write_bytes(change(table))
    outcome = run("fit", "t.csv", *table.options, "--out", "out.mogul", "--checkpoint", "folder")
    assert_refused(outcome, says)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_long_tables_that_cannot_be_are_refused(run):
    long_table(8).to_csv("t.csv", index=False)
    assert_refused(run("fit", "t.csv", "--long", "sensor"), "--long must be two columns", "Try --long task,value")
    assert_refused(run("fit", "t.csv", "--long", "sensr,value"), "'sensr' is not among", "Did you mean 'sensor'?")
    assert_refused(run("fit", "t.csv", "--long", "sensor,value", "--targets", "Pb"), "'Pb' is not among Cd, Ni, Zn")
    assert_refused(run("fit", "t.csv", "--long", "sensor,value", "--inputs", "x,value"), "Leave them out")
    long_table(8).assign(value=np.nan).to_csv("t.csv", index=False)
    assert_refused(run("fit", "t.csv", "--long", "sensor,value"), "Each output must have at least one value")
    long_table(8).assign(sensor="x").to_csv("t.csv", index=False)
    assert_refused(run("fit", "t.csv", "--long", "sensor,value"), "Tasks must be named unlike inputs")


def test_options_that_messages_name_are_there(run):
    text_and_gaps(40)[["size", "lift", "rent"]].fillna({"size": 9}).to_csv("t.csv", index=False)
    settings = ("--inducing", "12", "--precision", "float64", "--restarts", "2", "--epochs", "2", "--jobs", "1")
    by_steps = ("--model", "mogp", "--preset", "paper", "--checkpoint", "folder")
    assert run("fit", "t.csv", "--targets", "rent", "--no-check", *settings, *by_steps).code == 0
    model = mogul.load("model.mogul")
    assert model.model.prior.inducing_points.shape[-2] == 12
    assert len({record.start for record in model.history.records}) == 2
    assert list(Path("folder").iterdir())
    compared = (
        "compare",
        "t.csv",
        "--targets",
        "rent",
        "--models",
        "mogp",
        "--rivals",
        "none",
        "--folds",
        "2",
        "--json",
    )
    outcome = run(*compared, "--noise", "student-t")
    assert outcome.code == 0, outcome.err
    assert run("--version").out == f"mogul {mogul.__version__}\n"
    assert_refused(
        run("fit", "t.csv", "--targets", "rent", "--out", "o.mogul", "--jobs", "0"), "--jobs must be at least 1"
    )
    assert_refused(
        run("fit", "t.csv", "--targets", "rent", "--out", "o.mogul", "--restarts", "0"), "--restarts must be at least 1"
    )
