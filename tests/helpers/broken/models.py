"""Model files that are none, tables that are not theirs, options that cannot be meant."""

import json
import pickle
import struct
from pathlib import Path

import numpy as np
from tests.helpers.broken.case import Case, fit, good, kind, pick

from mogul.storage.container import read_sealed, write_sealed

# Model files: `model.mogul` is a good one, for inputs a, b and outputs u, v.


def used(rng: np.random.Generator, folder: Path, name: str = "bad.mogul") -> list[str]:
    """One of the three commands that read a model."""
    good(rng).to_csv(folder / "t.csv", index=False)
    return [["show", name], ["predict", name, "t.csv", "--out", "p.csv"], ["evaluate", name, "t.csv"]][rng.integers(3)]


@kind
def cut_model(rng: np.random.Generator, folder: Path) -> Case:
    content = (folder / "model.mogul").read_bytes()
    (folder / "bad.mogul").write_bytes(content[: rng.integers(len(content))])
    return Case(used(rng, folder), "A model file must be", "bad.mogul", ".")


@kind
def flipped_byte_in_model(rng: np.random.Generator, folder: Path) -> Case:
    content = bytearray((folder / "model.mogul").read_bytes())
    content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    (folder / "bad.mogul").write_bytes(content)
    return Case(used(rng, folder), "A model file must", "bad.mogul", ".")


@kind
def something_else_as_a_model(rng: np.random.Generator, folder: Path) -> Case:
    picture = b"\x89PNG\r\n\x1a\n" + rng.bytes(64)
    contents = [pickle.dumps({"model": 1}), picture, b"", b"{}", rng.bytes(100), good(rng).to_csv().encode()]
    (folder / "bad.mogul").write_bytes(contents[rng.integers(len(contents))])
    return Case(used(rng, folder), "A model file must be one that mogul wrote", "bad.mogul is not", "made by save")


@kind
def header_that_claims_too_much(rng: np.random.Generator, folder: Path) -> Case:
    length = struct.pack("<Q", int(rng.integers(10**5, 2**62)))
    (folder / "bad.mogul").write_bytes(length + b"{" + rng.bytes(50))
    return Case(used(rng, folder), "A model file must be one that mogul wrote", "its header would take", "made by save")


@kind
def hostile_json(rng: np.random.Generator, folder: Path) -> Case:
    deep = "[" * 10**5
    texts = ["{" + '"a":' + deep, json.dumps({"__metadata__": {"mogul": deep}}), '{"__metadata__": 3}', "{}"]
    text = texts[rng.integers(len(texts))].encode()
    (folder / "bad.mogul").write_bytes(struct.pack("<Q", len(text)) + text)
    return Case(used(rng, folder), "A model file must be one that mogul wrote", "not one of mogul's", "made by save")


@kind
def newer_model(rng: np.random.Generator, folder: Path) -> Case:
    number = int(rng.integers(2, 1000))
    _sealed_anew(folder, format=number)
    return Case(used(rng, folder), "must have format 4 or older", f"has format {number}", "Update mogul")


@kind
def sealed_nonsense(rng: np.random.Generator, folder: Path) -> Case:
    fields = ["model", "options", "num_inputs", "num_outputs", "input_names", "output_names", "scaling", "history"]
    values = [None, 3, -1.5, "x", [[]], {"x": 1}, 10**30, True]
    field, value = pick(rng, *fields, "precision"), values[rng.integers(len(values))]
    _sealed_anew(folder, **{field: value})
    good(rng).to_csv(folder / "t.csv", index=False)
    arguments = [pick(rng, "predict", "evaluate"), "bad.mogul", "t.csv"]
    named = (field, value) == ("model", "x")  # a module of a user's may have registered it
    remedy = "by --import" if named else "fit the model again"
    return Case(arguments, "A model file must describe a model", "bad.mogul does not", remedy)


@kind
def sealed_without_a_part(rng: np.random.Generator, folder: Path) -> Case:
    field = pick(rng, "model", "kind", "options", "input_names", "history", "versions", "precision")
    header, tensors = read_sealed(folder / "model.mogul")
    rest = {name: value for name, value in header.items() if name != field}
    write_sealed(folder / "bad.mogul", {**rest, "sha256": "0" * 64}, tensors)
    return Case(["show", "bad.mogul"], "A model file must describe its model", f"{field} must be there", "Do not trust")


def _sealed_anew(folder: Path, **changes: object) -> None:
    header, tensors = read_sealed(folder / "model.mogul")
    write_sealed(folder / "bad.mogul", {**header, **changes, "sha256": "0" * 64}, tensors)


@kind
def no_model_there(rng: np.random.Generator, folder: Path) -> Case:
    (folder / "folder.mogul").mkdir()
    name = pick(rng, "no.mogul", "folder.mogul", "no/such")
    return Case(used(rng, folder, name), "The model file must be there", f"{name} is no file", "Check its path")


# A good model, and a table that is not its own.


@kind
def other_columns(rng: np.random.Generator, folder: Path) -> Case:
    name = pick(rng, "a", "b")
    good(rng).rename(columns={name: "z"}).to_csv(folder / "t.csv", index=False)
    arguments = ["predict", "model.mogul", "t.csv", "--out", "p.csv"]
    return Case(arguments, "must have the columns of training", f"{name!r} is not in t.csv", "by --inputs")


@kind
def other_number_of_columns(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    names = pick(rng, "a", "a,b,u", "v,a,b,u")
    arguments = ["evaluate", "model.mogul", "t.csv", "--inputs", names]
    return Case(arguments, "--inputs must name 2 columns", f"got {names.count(',') + 1}", "The model's are a, b")


@kind
def nothing_to_score(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).assign(u=np.nan, v=np.nan).to_csv(folder / "t.csv", index=False)
    return Case(["evaluate", "model.mogul", "t.csv"], "must have at least one value", "all are NaN", "Give rows")


# Options.


@kind
def number_out_of_range(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    option, least = [("--epochs", 1), ("--seed", 0), ("--folds", 2)][rng.integers(3)]
    value = least - int(rng.integers(1, 100))
    command = "compare" if option == "--folds" else pick(rng, "fit", "compare")
    arguments = [command, "t.csv", "--targets", "u", f"{option}={value}"]
    return Case(arguments, f"{option} must be at least {least}", f"got {value}", f"Try {option}")


@kind
def seed_too_large(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    seed = 2 ** int(rng.integers(32, 80))
    command, *arguments = [("fit", "t.csv", "--targets", "u"), ("predict", "model.mogul", "t.csv")][rng.integers(2)]
    return Case([command, *arguments, "--seed", str(seed)], "--seed must be at most", f"got {seed}", "Try --seed")


@kind
def more_folds_than_rows(rng: np.random.Generator, folder: Path) -> Case:
    num_rows, remedy = [(12, "Try 5"), (3, "Try 3"), (1, "Gather more rows")][rng.integers(3)]
    good(rng, num_rows).to_csv(folder / "t.csv", index=False)
    number = int(rng.integers(13, 10**6))
    arguments = ["compare", "t.csv", "--targets", "u", "--folds", str(number), "--html", "c.html"]
    return Case(arguments, "folds must be at least 2 and at most", f"got {number}", remedy)


@kind
def quantiles_that_are_none(rng: np.random.Generator, folder: Path) -> Case:
    text = pick(rng, "0", "1", ".1,1.5", "-0.1", "nan", "half", "inf", "0.1,,0.9", "")
    arguments = ["predict", "model.mogul", "t.csv", "--out", "p.csv", f"--quantiles={text}"]
    return Case(arguments, "--quantiles must be", "got '", "Try .1,.5,.9")


@kind
def unknown_model_name(rng: np.random.Generator, folder: Path) -> Case:
    name = pick(rng, "n-mogq", "MOGP", "", "mogp-lvm-lvm", "gp")
    option = ["fit", "t.csv", "--targets", "u", "--model", name]
    arguments = option if rng.integers(2) or not name else ["compare", *option[1:4], "--models", f"mogp,{name}"]
    return Case(
        arguments, "model must be one of mogp, gprn", repr(name), "Use one" if name in ("", "MOGP") else "Did you mean"
    )


@kind
def file_that_is_there(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    (folder / "mine.csv").write_text("mine")
    arguments = ["predict", "model.mogul", "t.csv", "--out", "mine.csv"]
    arguments = arguments if rng.integers(2) else ["fit", "t.csv", "--targets", "u", "--out", "mine.csv"]
    return Case(arguments, "must go into a new file", "mine.csv exists", "add --force")


@kind
def source_as_output(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    arguments = ["fit", "t.csv", "--targets", "u", "--out", "./t.csv", "--force"]
    arguments = arguments if rng.integers(2) else ["predict", "model.mogul", "t.csv", "--out", "t.csv", "--force"]
    return Case(arguments, "must not replace their source", "t.csv for both", "Choose another name")


@kind
def latent_inputs_that_are_given(rng: np.random.Generator, folder: Path) -> Case:
    good(rng).to_csv(folder / "t.csv", index=False)
    name = pick(rng, "mogp-lvm", "dk-n-mogp-lvm")
    if rng.integers(2):
        arguments = ["compare", "t.csv", "--targets", "u", "--models", name]
        return Case(arguments, "--models must have observed inputs", f"{name} has latent ones", "Leave out -lvm")
    arguments = fit("t.csv", "--inputs", "a", "--model", name)
    return Case(arguments, "--inputs must be left out", "got a", "Leave -lvm out")
