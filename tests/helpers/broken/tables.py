"""CSV that is none, names that are not there, paths that lead nowhere."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
from tests.helpers.broken.case import NAMES, Case, fit, good, kind, pick

WORDS = ["red", "12,5", "3 mm", "1_000", "2020-01-01", "0x1F", "--", "½", "١٢x", "\x1b[31m"]


# CSV.


@kind
def ragged_row(rng: np.random.Generator, folder: Path) -> Case:
    lines = good(rng).to_csv(index=False).splitlines()
    row = int(rng.integers(1, len(lines)))
    cells = int(rng.choice([1, 2, 3, 5, 9]))
    lines[row] = ",".join("1" * cells)
    (folder / "t.csv").write_text("\n".join(lines))
    return Case(fit("t.csv"), "Each row must have 4 cells", f"row {row} of t.csv has {cells}", "Correct that row")


@kind
def cut_in_a_row(rng: np.random.Generator, folder: Path) -> Case:
    text = good(rng).to_csv(index=False)
    (folder / "t.csv").write_text(text[: text.rindex(",") - int(rng.integers(0, 3))])
    return Case(fit("t.csv"), "Each row must have 4 cells", "row 12 of t.csv has 3", "Correct that row")


@kind
def word_in_a_column(rng: np.random.Generator, folder: Path) -> Case:
    table, word, row = good(rng).astype(object), pick(rng, *WORDS), int(rng.integers(12))
    column = pick(rng, *NAMES)
    table.loc[row, column] = word
    table.to_csv(folder / "t.csv", index=False)
    arguments = fit("t.csv", "--inputs", "a,b")
    return Case(arguments, "Columns must be numbers", f"{column!r} of t.csv holds", "Encode it as numbers")


@kind
def word_in_a_column_that_nobody_named(rng: np.random.Generator, folder: Path) -> Case:
    table, row = good(rng).assign(size=np.arange(12.0)).astype(object), int(rng.integers(12))
    table.loc[row, "size"] = pick(rng, *WORDS)
    table.to_csv(folder / "t.csv", index=False)
    return Case(fit("t.csv"), "Columns must be numbers", f"in row {row + 1}", "Encode it as numbers")


@kind
def commas_in_numbers(rng: np.random.Generator, folder: Path) -> Case:
    table, column = good(rng).astype(object), pick(rng, *NAMES)
    table[column] = ["1.234,5", *(pick(rng, "-0,25", "1.234,5", "1,234.5", "2,5e3") for _ in range(11))]
    table.to_csv(folder / "t.csv", index=False, sep=pick(rng, ",", ";"))
    rule = "Columns must be numbers"
    return Case(fit("t.csv"), rule, f"{column!r} of t.csv", "with a point for decimals and no commas")


@kind
def number_without_a_square(rng: np.random.Generator, folder: Path) -> Case:
    table, row, column = good(rng), int(rng.integers(12)), pick(rng, *NAMES)
    table.loc[row, column] = rng.choice([1e101, -1e200, 1e308])
    table.to_csv(folder / "t.csv", index=False)
    command = ["compare", "t.csv", "--targets", "u,v"] if rng.integers(2) else fit("t.csv")
    return Case(command, "Numbers must be within ±1e+100", f"{column!r} holds", "Give it in another unit")


@kind
def missing_inputs(rng: np.random.Generator, folder: Path) -> Case:
    table, row = good(rng), int(rng.integers(12))
    column = pick(rng, "a", "b")
    table.loc[row, column] = value = rng.choice([np.nan, np.inf, -np.inf])
    table.to_csv(folder / "t.csv", index=False, na_rep=pick(rng, "", "NA", "NaN", "null"))
    command = ["compare", "t.csv", "--targets", "u,v"] if rng.integers(2) else fit("t.csv")
    command += ["--missing-inputs", "refuse"] if np.isnan(value) else []
    return Case(command, "Inputs must be complete and finite", f"{column!r} in row {row + 1}.", "Drop those rows")


@kind
def input_without_values(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).assign(a=np.nan).to_csv(folder / "t.csv", index=False)
    arguments = fit("t.csv", "--inputs", "a,b")
    return Case(arguments, "Inputs must have some value", "'a' of t.csv is missing in all 12", "Leave the column out")


@kind
def dates_of_two_forms(rng: np.random.Generator, folder: Path) -> Case:
    day, row = (
        pd.date_range("2024-01-01", periods=12).strftime("%Y-%m-%d").to_numpy(dtype=object),
        int(rng.integers(12)),
    )
    day[row] = pick(rng, "31.12.2024", "2024-13-01", "soon")
    good(rng).assign(day=day).to_csv(folder / "t.csv", index=False)
    return Case(fit("t.csv"), "Dates must be of one form", f"in row {row + 1}", "Correct it")


@kind
def a_text_of_its_own_in_each_row(rng: np.random.Generator, folder: Path) -> Case:
    good(rng, 30).assign(label=[f"k{number}" for number in range(30)]).to_csv(folder / "t.csv", index=False)
    arguments = fit("t.csv", "--inputs", "a,label")
    return Case(arguments, "Texts must come again", "'label' of t.csv has 30 different", "Leave the column out")


@kind
def infinite_output(rng: np.random.Generator, folder: Path) -> Case:
    table, row = good(rng), int(rng.integers(12))
    column = pick(rng, "u", "v")
    table.loc[row, column] = rng.choice([np.inf, -np.inf])
    table.to_csv(folder / "t.csv", index=False)
    return Case(fit("t.csv"), "Outputs must be finite or missing", f"in row {row + 1}", "Leave the cell empty")


@kind
def output_without_values(rng: np.random.Generator, folder: Path) -> Case:
    column = pick(rng, "u", "v")
    good(rng).assign(**{column: np.nan}).to_csv(folder / "t.csv", index=False)
    return Case(fit("t.csv"), "Each output must have at least one value", repr(column), "Drop that column")


@kind
def name_twice(rng: np.random.Generator, folder: Path) -> Case:
    names = list(NAMES)
    name = pick(rng, *NAMES)
    names.insert(int(rng.integers(5)), name)
    table = pd.DataFrame(rng.standard_normal((6, 5)), columns=names)
    table.to_csv(folder / "t.csv", index=False)
    return Case(fit("t.csv"), "Columns must have different names", f"{name!r} is in t.csv twice", "Rename one")


@kind
def no_name(rng: np.random.Generator, folder: Path) -> Case:
    names = list(NAMES)
    place = int(rng.integers(5))
    names.insert(place, pick(rng, "", "  "))
    pd.DataFrame(rng.standard_normal((6, 5)), columns=names).to_csv(folder / "t.csv", index=False)
    return Case(fit("t.csv"), "Every column must have a name", f"column {place + 1} of 5 in t.csv", "Name it")


@kind
def no_line_of_names(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False, header=False)
    return Case(fit("t.csv"), "The first line must name the columns", "holds numbers", "Put a line of names")


@kind
def no_rows(rng: np.random.Generator, folder: Path) -> Case:
    suffix = pick(rng, "csv", "parquet")
    table = good(rng)[:0]
    table.to_csv(folder / "t.csv", index=False) if suffix == "csv" else table.to_parquet(folder / "t.parquet")
    return Case(fit(f"t.{suffix}"), "A table must have at least one row", f"t.{suffix} has 0", "Give some data")


@kind
def nothing_at_all(rng: np.random.Generator, folder: Path) -> Case:
    (folder / "t.csv").write_bytes(b"\n" * int(rng.integers(4)))
    return Case(fit("t.csv"), "A table must have a line of names", "t.csv is empty", "Give some data")


@kind
def other_encoding(rng: np.random.Generator, folder: Path) -> Case:
    encoding = pick(rng, "utf-16", "utf-32", "shift-jis")
    text = good(rng).rename(columns={"a": "α"}).to_csv(index=False)
    (folder / "t.csv").write_bytes(text.encode(encoding))
    return Case(fit("t.csv"), "CSV must be text in UTF-8", "of t.csv is 0x", "Save it as CSV UTF-8")


@kind
def zero_byte(rng: np.random.Generator, folder: Path) -> Case:
    text = good(rng).to_csv(index=False)
    place = int(rng.integers(len(text)))
    (folder / "t.csv").write_text(text[:place] + "\0" + text[place:])
    return Case(fit("t.csv"), "CSV must be text", f"character {place} of t.csv is a zero byte", "Save it as CSV UTF-8")


@kind
def open_quote(rng: np.random.Generator, folder: Path) -> Case:
    lines = good(rng).to_csv(index=False).splitlines()
    row = int(rng.integers(1, len(lines)))
    lines[row] = '"' + lines[row]
    (folder / "t.csv").write_text("\n".join(lines))
    return Case(fit("t.csv"), "must be readable as CSV", "t.csv is not", "Is it complete")


# Names of columns.


@kind
def unknown_column(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    option = pick(rng, "--targets", "--inputs")
    options = {"--targets": "u", "--inputs": "a"} | {option: pick(rng, "U", "w", "u,w", "a;b", "ü")}
    arguments = ["fit", "t.csv", "--out", "out.mogul", *(part for pair in options.items() for part in pair)]
    return Case(arguments, f"{option} must name columns of t.csv", "is not among a, b, u, v", "Use one of those")


@kind
def input_and_target(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    name = pick(rng, "u", "v")
    return Case(fit("t.csv", "--inputs", f"a,{name}"), "must be an input or a target", f"{name!r} is both", "Leave it")


@kind
def column_named_twice(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    name = pick(rng, "u", "v")
    arguments = ["compare", "t.csv", "--targets", f"u,v,{name}"]
    return Case(arguments, "--targets must name each column once", f"{name!r} is there twice", "Leave one")


@kind
def no_names_given(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    text = pick(rng, "", " ", ",", "u,,v", "u,")
    arguments = [pick(rng, "fit", "compare"), "t.csv", "--targets", text]
    return Case(arguments, "--targets must be names separated by commas", repr(text), "Try --targets a,b")


@kind
def nothing_to_predict_from(rng: np.random.Generator, folder: Path) -> Case:
    good(rng)[["u", "v"]].to_csv(folder / "t.csv", index=False)
    return Case(fit("t.csv"), "must have columns to predict from", "all of t.csv are targets", "Leave some out")


# Paths.


@kind
def no_such_file(rng: np.random.Generator, folder: Path) -> Case:
    name = pick(rng, "no.csv", "no/such/t.parquet", "t.npz", "ü.mat", "new\nline.csv")
    shown = name.replace("\n", "\\n")
    return Case(fit(name), "The table must exist", f"{shown} is not a file", "Check its path")


@kind
def folder_in_place_of_a_file(rng: np.random.Generator, folder: Path) -> Case:
    name = f"t.{pick(rng, 'csv', 'parquet', 'npz', 'mat')}"
    (folder / name).mkdir()
    return Case(fit(name), "A folder must have tables", f"{name} has none", "Name one with files")


@kind
def pipe_in_place_of_a_file(rng: np.random.Generator, folder: Path) -> Case:
    name = f"t.{pick(rng, 'csv', 'npz')}"
    os.mkfifo(folder / name)
    return Case(fit(name), "A table must be an ordinary file", f"{name} is not", "Pipe CSV into -")


@kind
def unknown_ending(rng: np.random.Generator, folder: Path) -> Case:
    name = pick(rng, "t.xls", "t", "t.json", "t.gz", "t.pkl")
    (folder / name).write_bytes(rng.bytes(100))
    return Case(fit(name), "A table must be a file that ends in .csv", f"got {name}", "Convert it")
