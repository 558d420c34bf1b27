"""`mogul fit`, `predict`, `evaluate`, `show`: from tables in every format to a model file and back."""

import io
import json
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from tests.helpers.arm import OUTPUTS, QUICK, arm_folder, rows
from tests.helpers.terminal import assert_refused, command

import mogul
from mogul.errors import MogulWarning
from mogul.fitted.files import save
from mogul.means.regressor import RegressorMean
from mogul.training import FitRequest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a table in it."""
    return arm_folder(tmp_path, monkeypatch)


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `mogul` with these arguments, as its installed script does."""
    return command(monkeypatch, capsys)


@pytest.fixture(scope="module")
def written() -> dict[str, bytes]:
    """The model files that `mogul fit` has written for all tests of this file, by name."""
    return {}


@pytest.fixture
def model(run, written: dict[str, bytes]) -> str:
    """A model of all columns of the table."""
    if "model.mogul" not in written:
        assert run("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", *QUICK).code == 0
        written["model.mogul"] = Path("model.mogul").read_bytes()
    Path("model.mogul").write_bytes(written["model.mogul"])
    return "model.mogul"


def test_a_fit_says_what_it_did_and_what_to_type_next(run, folder: Path):
    outcome = run("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", "--out", "new/arm.mogul", *QUICK)
    assert outcome.code == 0
    for part in (
        "40",
        "3: angle, gravity, load",
        "2: force, torque (10.0% missing)",
        "mogp: exact GPs, one for each output",
        "Noise    constant",
    ):
        assert part in outcome.out
    assert "mogul predict new/arm.mogul NEW.csv" in outcome.out
    fitted = mogul.load("new/arm.mogul")
    assert fitted.input_names == ["angle", "gravity", "load"]
    assert fitted.output_names == OUTPUTS
    assert [path.name for path in (folder / "new").iterdir()] == ["arm.mogul"]


@pytest.mark.parametrize("objective", ["balanced", "predictive"])
def test_a_fit_maximises_what_it_is_told_to(run, model, objective):
    arguments = ("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", "--out", "other.mogul", *QUICK)
    told = run(*arguments, "--objective", objective)
    words = {"balanced": "ELBO (balanced) ", "predictive": "predictive objective "}[objective]
    assert words in told.out
    assert ("It depends on the inputs because of --objective balanced" in told.out) == (objective == "balanced")
    named = run(*arguments, "--objective", objective, "--noise", "gp", "--force").out
    assert "because of --objective" not in named
    assert words in run("show", "other.mogul").out
    assert json.loads(run("show", "other.mogul", "--json").out)["objective"] == objective
    x = np.array([[0.3, 9.81, 0.1]])
    by_bound, told = (mogul.load(path).predict(x).mean for path in (model, "other.mogul"))
    assert not np.allclose(by_bound, told, rtol=1e-6)
    assert run(*arguments, "--objective", "elbo", "--force").code == 0
    assert np.array_equal(mogul.load("other.mogul").predict(x).mean, by_bound)


def test_a_few_rows_are_checked_against_least_squares(run):
    outcome = run("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", "--epochs", "2", "--json")
    check = json.loads(outcome.out)["check"]
    assert (check["how"], check["num_rows"]) == ("left out", 40)
    for side in ("model", "least_squares", "mean"):
        assert [each["name"] for each in check[side]] == OUTPUTS
        assert [each["num_known"] for each in check[side]] == rows()[OUTPUTS].notna().sum().tolist()
    assert mogul.load("model.mogul").check.to_json() == mogul.core.check.Check.from_plain(check).to_json()
    told, shown = (run(*asked).out for asked in (("show", "model.mogul"), ("show", "model.mogul", "--json")))
    assert "40 rows, each predicted from the others:" in told
    assert json.loads(shown)["check"] == check
    again = run("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", "--no-check", "--json", "--force")
    assert json.loads(again.out)["check"] is None


def test_a_check_of_an_output_with_one_value_stops_nothing(run):
    table = rows().assign(torque=np.nan)
    table.loc[0, "torque"] = 1.0
    table.to_csv("few.csv", index=False)
    told = run("fit", "few.csv", "--targets", "torque", "--model", "mogp", "--epochs", "1")
    assert told.code == 0
    assert re.search(r"^ +torque +\S+ +\S+ +\S+ +\d+ %$", told.out, flags=re.MULTILINE)


def test_scores_of_training_rows_are_called_so(run, model):
    flattered = "were trained on, which flatters these scores"
    assert f"All of these rows {flattered}" in run("evaluate", model, "arm.csv").out
    pd.concat([rows()[:10], rows(30, seed=1)]).to_csv("mixed.csv", index=False)
    assert f"About 25% of these rows {flattered}" in run("evaluate", model, "mixed.csv").out
    rows(30, seed=1).to_csv("new.csv", index=False)
    assert flattered not in run("evaluate", model, "new.csv").out
    assert json.loads(run("evaluate", model, "new.csv", "--json").out)["num_trained"] == 0


def test_the_same_seed_gives_the_same_file(run, model):
    first = Path(model).read_bytes()
    again = run("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", "--out", "again.mogul", *QUICK)
    assert again.code == 0
    stored, redone = mogul.load(model), mogul.load("again.mogul")
    x = rows(5, seed=1)[["angle", "gravity", "load"]]
    np.testing.assert_array_equal(stored.predict(x).mean, redone.predict(x).mean)
    assert Path(model).read_bytes() == first


@pytest.mark.parametrize("suffix", ["parquet", "npz", "mat", "-"])
def test_every_format_gives_the_same_model(run, model, suffix: str, monkeypatch: pytest.MonkeyPatch):
    table = rows()
    name = suffix if suffix == "-" else f"arm.{suffix}"
    columns = {column: table[column].to_numpy() for column in table}
    match suffix:
        case "parquet":
            table.to_parquet(name)
        case "npz":
            np.savez(name, **columns)
        case "mat":
            savemat(name, columns)
        case _:
            content = Path("arm.csv").read_bytes()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    outcome = run("fit", name, "--targets", "force,torque", "--model", "mogp", "--out", "other.mogul", *QUICK)
    assert outcome.code == 0
    x = rows(5, seed=1)[["angle", "gravity", "load"]]
    np.testing.assert_array_equal(mogul.load("other.mogul").predict(x).mean, mogul.load(model).predict(x).mean)


def test_predictions_are_the_models_own(run, model):
    rows(7, seed=1)[["load", "gravity", "angle"]].to_csv("new.csv", index=False)  # in another order, without outputs
    outcome = run("predict", model, "new.csv", "--out", "deep/p.csv", "--quantiles", ".1,.9")
    assert (outcome.code, outcome.out) == (0, "Predictions of 7 rows: deep/p.csv\n")
    written = pd.read_csv("deep/p.csv")
    assert list(written.columns) == [f"{name}{part}" for name in OUTPUTS for part in ("", "_std", "_q0.1", "_q0.9")]
    prediction = mogul.load(model).predict(rows(7, seed=1), num_samples=250)
    np.testing.assert_array_equal(written[OUTPUTS], prediction.mean)
    np.testing.assert_array_equal(written[["force_std", "torque_std"]], prediction.std)
    np.testing.assert_array_equal(written[["force_q0.1", "torque_q0.1"]], prediction.quantiles([0.1])[0])
    assert (written["force_q0.1"] < written["force_q0.9"]).all()


def test_known_outputs_are_given_by_name(run, model):
    table = rows(7, seed=1)
    table.to_csv("new.csv", index=False)
    assert run("predict", model, "new.csv", "--out", "p.csv", "--given", "torque", "--quantiles", ".5").code == 0
    written, known = pd.read_csv("p.csv"), table[["torque"]]
    prediction = mogul.load(model).predict(table, num_samples=250, given=known)
    np.testing.assert_array_equal(written[OUTPUTS], prediction.mean)
    np.testing.assert_array_equal(written["torque_std"] == 0, known["torque"].notna())
    assert_refused(run("predict", model, "new.csv", "--given", "load"), "--given must be one of force, torque")
    table.drop(columns="force").to_csv("less.csv", index=False)
    assert_refused(run("predict", model, "less.csv", "--given", "force"), "'force'")
    assert_refused(run("predict", model, "new.csv", "--given", "force", "--coverage", ".9"), "Use --quantiles")


def test_a_chain_of_outputs_is_said_and_shown(run):
    outcome = run("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", "--autoregressive", *QUICK)
    assert outcome.code == 0
    (name, weights), *none = mogul.load("model.mogul").autoregressive_outputs.items()
    assert not none
    assert f"Chain    {name} on {next(iter(weights))}" in outcome.out
    shown = json.loads(run("show", "model.mogul", "--json").out)
    assert shown["format"] == 4
    assert shown["autoregressive_outputs"] == {name: weights}
    assert f"{name} on {next(iter(weights))}" in run("show", "model.mogul").out


def test_predictions_are_printed_where_no_file_is_named(run, model, monkeypatch: pytest.MonkeyPatch):
    content = rows(3, seed=1).to_csv(index=False).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    printed = pd.read_csv(io.StringIO(run("predict", model, "-").out))
    assert list(printed.columns) == ["force", "force_std", "torque", "torque_std"]
    rows(3, seed=1).to_csv("new.csv", index=False)
    content = json.loads(run("predict", model, "new.csv", "--json", "--quantiles", "0.5").out)
    np.testing.assert_allclose(content["force"]["mean"], printed["force"])
    assert content["torque"]["quantiles"].keys() == {"0.5"}


def test_columns_of_other_names_go_in_the_models_order(run, model):
    table = rows(6, seed=1)
    table.to_csv("new.csv", index=False)
    renamed = dict(zip(table.columns, ["p", "q", "r", "s", "t"], strict=True))
    table.rename(columns=renamed).to_csv("renamed.csv", index=False)
    own = run("evaluate", model, "new.csv", "--json")
    named = run("evaluate", model, "renamed.csv", "--inputs", "p,q,r", "--targets", "s,t", "--json")
    assert json.loads(named.out)["scores"] == json.loads(own.out)["scores"]


def test_an_evaluation_is_the_librarys(run, model):
    rows(30, seed=1).to_csv("test.csv", index=False)
    content = json.loads(run("evaluate", model, "test.csv", "--json").out)
    table = rows(30, seed=1)
    fitted = mogul.load(model)
    data = mogul.Dataset(table[fitted.input_names], table[fitted.output_names])
    scores = fitted.evaluate(data, standardised=True)
    assert content["scores"]["ll"] == pytest.approx(scores.ll)
    assert content["scores"]["crps"] == pytest.approx(scores.crps)
    force, torque = content["outputs"]
    residual = table["force"] - fitted.predict(data.x, num_samples=250).mean[:, 0]
    assert force["rmse"] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-3)
    assert force["r2"] == pytest.approx(1 - np.sum(residual**2) / np.sum((table["force"] - table["force"].mean()) ** 2))
    assert (force["num_known"], torque["num_known"]) == (30, 24)
    outcome = run("evaluate", model, "test.csv")
    for part in ("LL per row", "torque", "in 95% band", f"{scores.ll:.2f}"):
        assert part in outcome.out
    assert content["noise_floor"] == 0
    assert "Noise: constant" in " ".join(outcome.out.split())


def test_an_output_without_a_known_value_has_no_score(run, model):
    rows(9, seed=1).assign(torque=np.nan).to_csv("test.csv", index=False)
    content = json.loads(run("evaluate", model, "test.csv", "--json").out)
    assert content["outputs"][1] == {"name": "torque", "num_known": 0, "rmse": None, "r2": None, "in_band": None}
    assert run("evaluate", model, "test.csv").code == 0


def test_a_model_file_is_shown_without_its_tensors(run, model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("safetensors.torch.load", None)
    outcome = run("show", model)
    for part in (
        "mogp, observed inputs, float64",
        "3: angle, gravity, load",
        "exact GPs, one for each output",
        "torch",
    ):
        assert part in outcome.out
    content = json.loads(run("show", model, "--json").out)
    assert content["output_names"] == OUTPUTS
    assert content["epochs"] == 0
    assert 0.01 < content["seconds"] < 60  # the time of exact GPs, and not that of looking at their bound
    assert re.search(r"ELBO \S+ per row, \d+\.\d s ", outcome.out)
    assert content["versions"]["mogul"] == mogul.__version__


def test_latent_inputs_fill_in_what_is_missing(run):
    arguments = ("--targets", "angle,load,force,torque", "--model", "mogp-lvm", "--out", "latent.mogul")
    outcome = run("fit", "arm.csv", *arguments, "--epochs", "1")
    assert outcome.code == 0
    assert "latent" in outcome.out
    fitted = mogul.load("latent.mogul")
    save(replace(fitted, inference=replace(fitted.inference, steps=3)), "latent.mogul")  # enough for a test
    rows(4, seed=1).to_csv("gaps.csv", index=False)
    predicted = pd.read_csv(io.StringIO(run("predict", "latent.mogul", "gaps.csv").out))
    assert predicted[["angle", "load", "force", "torque"]].notna().all(axis=None)
    assert "Latent inputs were inferred" in run("evaluate", "latent.mogul", "gaps.csv").out
    refused = run("predict", "latent.mogul", "gaps.csv", "--inputs", "angle")
    assert_refused(refused, "--inputs must be left out", "got angle", "Give the outputs that are known")


def test_what_exists_is_replaced_only_by_force(run, model):
    before = Path(model).read_bytes()
    arguments = ("fit", "arm.csv", "--targets", "force", "--inputs", "angle", "--model", "mogp", *QUICK)
    assert_refused(run(*arguments), "must go into a new file", "model.mogul exists", "add --force")
    assert Path(model).read_bytes() == before
    assert run(*arguments, "--force").code == 0
    assert mogul.load(model).output_names == ["force"]


def test_names_that_would_clash_are_refused(run):
    table = rows().rename(columns={"torque": "force_std"})
    table.to_csv("clash.csv", index=False)
    assert run("fit", "clash.csv", "--targets", "force,force_std", "--model", "mogp", *QUICK).code == 0
    outcome = run("predict", "model.mogul", "clash.csv", "--out", "p.csv")
    assert_refused(outcome, "must have different names", "'force_std'", "Use --json")
    assert not Path("p.csv").exists()


def test_names_with_commas_are_quoted_wherever_they_are_to_be_typed(run):
    rows().rename(columns={"force": "force, N", "angle": "angle, °"}).to_csv("units.csv", index=False)
    quoted = '"force, N",torque'
    outcome = run("fit", "units.csv", "--targets", quoted, "--model", "mogp", *QUICK)
    assert f"""mogul compare units.csv --inputs '"angle, °",gravity,load' --targets '{quoted}'""" in outcome.out
    assert '3: "angle, °", gravity, load' in outcome.out
    assert mogul.load("model.mogul").output_names == ["force, N", "torque"]
    refused = run("fit", "units.csv", "--targets", "force, N", "--out", "other.mogul")
    among = """'force' is not among "angle, °", gravity, load, "force, N", torque."""
    assert_refused(refused, among, """Did you mean '"force, N"'?""")
    refused = run("fit", "units.csv", "--out", "other.mogul")
    assert_refused(refused, "--targets must name the columns to predict", '"angle, °", gravity', "Try --targets torque")


def test_a_comparison_is_proposed_where_there_are_rows_enough(run):
    for num_rows in (4, 5):
        rows(num_rows).to_csv("few.csv", index=False)
        outcome = run("fit", "few.csv", "--targets", "force,torque", "--model", "mogp", "--force", *QUICK)
        assert ("mogul compare few.csv" in outcome.out) == (num_rows == 5)


def test_our_warnings_are_lines_and_those_of_others_are_not(run, monkeypatch: pytest.MonkeyPatch):
    fit = FitRequest.fit

    def warn(*arguments: object, **options: object) -> object:
        for _ in range(2):
            warnings.warn("Inputs should vary; 'gravity' holds one value. Leave it out.", MogulWarning, stacklevel=1)
            warnings.warn("of no interest here", UserWarning, stacklevel=1)
        return fit(*arguments, **options)

    monkeypatch.setattr(FitRequest, "fit", warn)
    outcome = run("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", *QUICK)
    assert outcome.code == 0
    lines = outcome.err.splitlines()
    assert lines.count("mogul: warning: Inputs should vary; 'gravity' holds one value. Leave it out.") == 1
    assert "of no interest here" not in outcome.err
    assert ".py:" not in outcome.err


def test_a_model_file_is_shown_with_the_importance_of_inputs(run, model):
    truth = mogul.load(model).importance().frame()
    outcome = run("show", model, "--importance")
    assert outcome.code == 0
    assert "Loss of R²" in outcome.out
    first = next(line for line in outcome.out.splitlines() if f"{truth['all outputs'].iloc[0]:.3f}" in line)
    assert truth.index[0] in first
    found = json.loads(run("show", model, "--importance", "--json").out)["importance"]
    assert [row["input"] for row in found] == list(truth.index)
    assert np.isclose(found[0]["force"], truth["force"].iloc[0])


@pytest.mark.parametrize("name", ["models", "fit", "predict", "evaluate", "show", "compare"])
def test_the_help_of_a_command_has_an_example(run, name):
    outcome = run(name, "--help")
    assert outcome.code == 0
    assert f"Example: mogul {name}" in outcome.out


def test_models_are_listed_for_machines_too(run):
    assert "Neural SBGPRN" in run("models").out
    assert [each["name"] for each in json.loads(run("models", "--json").out)] == mogul.models.names()


def test_a_forest_as_the_mean_is_in_the_file(run):
    outcome = run("fit", "arm.csv", "--targets", "force,torque", "--mean", "trees", *QUICK)
    assert outcome.code == 0
    assert isinstance(mogul.load("model.mogul").model.mean, RegressorMean)
    assert_refused(run("fit", "arm.csv", "--targets", "force", "--mean", "tree", "--force"), "Did you mean 'trees'")
