"""Rows that `mogul fit` does not train on: groups to stop and to choose by, and rows to calibrate intervals by."""

import io
import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.arm import QUICK, arm_folder, rows
from tests.helpers.terminal import assert_refused, command

import mogul
from mogul.training import Run
from mogul.training.defaults import MODELS, NOISES


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `mogul` with these arguments, as its installed script does, where the table is."""
    arm_folder(tmp_path, monkeypatch)
    return command(monkeypatch, capsys)


@pytest.fixture
def runs(run) -> str:
    """A table with a column that says which rows belong together, in words."""
    rows().assign(run=np.repeat(list("abcde"), 8)).to_csv("runs.csv", index=False)
    return "runs.csv"


def test_whole_groups_choose_the_noise(run, runs):
    arguments = ("fit", runs, "--targets", "force,torque", "--model", "mogp", "--groups", "run", "--epochs", "1")
    summary = json.loads(run(*arguments, "--noise", "auto", "--json").out)
    assert summary["input_names"] == ["angle", "gravity", "load"]
    assert summary["choice"]["num_held_out"] == summary["check"]["num_rows"] == 8
    assert summary["check"]["how"] == "validation"
    assert [each["noise"] for each in summary["choice"]["candidates"]] == ["gp", "constant", "student-t"]
    chosen = summary["choice"]["chosen"]
    assert summary["courses"][0]["held_out_ll"] == max(each["ll"] for each in summary["choice"]["candidates"])
    assert f"{chosen['noise']} noise, by LL per row on 8 held out: gp " in run("show", "model.mogul").out
    shown = json.loads(run("show", "model.mogul", "--json").out)["choice"]["chosen"]
    assert shown == {name: chosen[name] for name in ("model", "noise", "ll")}
    assert asdict(mogul.load("model.mogul").choice.chosen) == chosen
    lines = run(*arguments, "--noise", "student-t", "--no-check", "--force").out
    told = r" per row, in the best epoch\n {9}Then trained on all rows, for as long\n"
    assert re.search(rf"Held out LL .*{told}", lines)
    assert summary["retrained"]
    assert summary["num_trained"] == 40


def test_a_choice_by_groups_is_followed_by_a_training_on_all_rows(run, runs):
    arguments = ("fit", runs, "--targets", "force,torque", "--inputs", "angle", "--model", "mogp", "--groups", "run")
    shown = run(*arguments, "--noise", "auto", "--epochs", "2", "--calibrate", ".2", "--no-check").out
    last = "Then trained on all rows but those to calibrate by, for as long"
    assert re.search(rf"Chosen   .* on \d+ held out: gp .*\n {{9}}{last}", shown)


def test_a_mixture_tells_of_each_of_its_models(run, runs):
    arguments = ("fit", runs, "--targets", "force,torque", "--model", "mogp+gprn", "--groups", "run", "--epochs", "2")
    shown = run(*arguments, "--check").out
    assert "Model    a mixture of 2, " in shown
    assert re.search(r" {9}mogp: exact GPs, one for each output, ELBO ", shown)
    assert re.search(r" {9}gprn: \d epochs?, 1 start, ELBO ", shown)
    assert re.search(r"Held out LL mogp \S+, gprn \S+ per row, in the best epoch", shown)
    assert "Check    8 validation rows" in shown
    summary = json.loads(run(*arguments, "--no-check", "--json", "--force").out)
    assert (summary["model"], summary["groups"]) == ("mogp+gprn", "run")
    assert [course["model"] for course in summary["courses"]] == ["mogp", "gprn"]
    alone = json.loads(run(*(each.replace("+gprn", "") for each in arguments), "--json", "--force").out)
    assert summary["courses"][0] == alone["courses"][0]
    assert "mogp+gprn, a mixture" in run(*arguments, "--no-check", "--force").out + run("show", "model.mogul").out
    assert "--groups run --models mogp+gprn" in run(*arguments, "--no-check", "--force").out


def test_a_fit_that_is_interrupted_says_what_is_in_its_file(run, runs, monkeypatch: pytest.MonkeyPatch):
    step = Run.step

    def interrupted(training: Run, *rest: object) -> object:
        if "gps" in dict(training.model.head.mixing.named_children()):
            raise KeyboardInterrupt
        return step(training, *rest)

    monkeypatch.setattr(Run, "step", interrupted)
    outcome = run("fit", runs, "--targets", "force,torque", "--model", "mogp+gprn", "--inputs", "angle", *QUICK)
    assert "gprn was interrupted. The mixture is of those before it" in outcome.err
    assert "Model    mogp: " in outcome.out
    assert "Check" not in outcome.out
    assert "mogp, observed inputs" in run("show", "model.mogul").out


def test_whole_groups_choose_the_model_and_then_its_noise(run, runs):
    arguments = ("fit", runs, "--targets", "force,torque", "--model", "auto", "--groups", "run", "--epochs", "1")
    summary = json.loads(run(*arguments, "--noise", "auto", "--json").out)
    tried = [(each["model"], each["noise"]) for each in summary["choice"]["candidates"]]
    assert tried[: len(MODELS)] == [(model, "gp") for model in MODELS]
    chosen = summary["choice"]["chosen"]
    assert tried[len(MODELS) :] == [(chosen["model"], noise) for noise in NOISES[1:]]
    assert summary["model"] == chosen["model"] == mogul.load("model.mogul").blueprint.model
    assert summary["check"]["how"] == "validation"
    shown = run(*arguments, "--no-check", "--force").out
    assert re.search(r"Chosen   [\w-]+, by LL per row on 8 held out: mogp \S+, gprn \S+, sbgprn \S+, n-sbgprn", shown)


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("--groups", "rn"), ("--groups must name columns", "Did you mean 'run'?")),
        (("--groups", "load", "--inputs", "angle,load"), ("--groups must be a separate column", "'load'")),
        (("--groups", "force"), ("--groups must be a separate column", "'force'")),
        (("--groups", "gravity", "--inputs", "angle"), ("two groups must be there", "got 1")),
        (("--groups", "torque"), ("--groups must be a separate column",)),
        (("--groups", "run", "--model", "mogp-lvm"), ("--groups needs a model with observed inputs", "mogp-lvm")),
        (("--noise", "auto", "--model", "mogp-lvm"), ("--noise auto needs a model with observed inputs", "mogp-lvm")),
        (("--calibrate", ".2", "--model", "mogp-lvm"), ("--calibrate needs a model with observed inputs", "mogp-lvm")),
        (("--noise", "loud", "--groups", "run"), ("noise must be one of auto, residuals, constant", "'loud'")),
        (("--model", "automatic"), ("model must be one of mogp", "'automatic'")),
        (("--objective", "smaller"), ("objective must be one of elbo, balanced, predictive", "'smaller'")),
    ],
)
def test_groups_and_noise_that_make_no_sense_are_refused(run, runs, arguments, fragments):
    assert_refused(run("fit", runs, "--targets", "force,torque", *arguments), *fragments)
    assert not Path("model.mogul").exists()


def test_intervals_come_from_rows_set_aside(run):
    arguments = ("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", "--calibrate", ".5", *QUICK)
    assert "mogul predict model.mogul NEW.csv --out predictions.csv --coverage 0.9" in run(*arguments).out
    predicted = pd.read_csv(io.StringIO(run("predict", "model.mogul", "arm.csv", "--coverage", ".8").out))
    assert list(predicted) == [
        "force",
        "force_std",
        "force_low",
        "force_high",
        "torque",
        "torque_std",
        "torque_low",
        "torque_high",
    ]
    table, fitted = rows(), mogul.load("model.mogul")
    low, high = fitted.interval(table[fitted.input_names], 0.8)
    np.testing.assert_allclose(predicted[["force_low", "torque_low"]], low)
    np.testing.assert_allclose(predicted[["force_high", "torque_high"]], high)
    content = json.loads(run("predict", "model.mogul", "arm.csv", "--coverage", ".8", "--json").out)
    np.testing.assert_allclose(content["torque"]["high"], high[:, 1])
    assert_refused(run("predict", "model.mogul", "arm.csv", "--coverage", ".99"), "coverage must be at most", "0.99")
    assert_refused(
        run("predict", "model.mogul", "arm.csv", "--coverage", "90"), "--coverage must be between 0 and 1", "90"
    )
    assert_refused(run(*arguments[:7], "2", "--force"), "--calibrate must be between 0 and 1", "2.0")


def test_intervals_need_calibration(run):
    assert run("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", *QUICK).code == 0
    assert_refused(run("predict", "model.mogul", "arm.csv", "--coverage", ".8"), "was not calibrated", "--calibrate .2")


def test_intervals_of_a_deep_model_are_those_of_its_calibration_whatever_the_seed(run):
    fit = ("fit", "arm.csv", "--targets", "force,torque", "--model", "dgp", "--noise", "constant", "--calibrate", ".5")
    assert run(*fit, "--seed", "3", "--epochs", "1", "--no-check").code == 0
    fitted, x = mogul.load("model.mogul"), rows()[["angle", "gravity", "load"]]
    low, _ = fitted.calibration.interval(*fitted.predictor(seed=3).mean_std(x), 0.8)
    other, _ = fitted.calibration.interval(*fitted.predictor(seed=0).mean_std(x), 0.8)
    assert not np.allclose(low, other)
    for seed in ("0", "7"):
        outcome = run("predict", "model.mogul", "arm.csv", "--coverage", ".8", "--seed", seed)
        predicted = pd.read_csv(io.StringIO(outcome.out))
        np.testing.assert_allclose(predicted[["force_low", "torque_low"]], low)


@pytest.mark.parametrize(
    ("extra", "num_trained"), [((), 40), (("--groups", "run", "--calibrate", ".2"), 32), (("--noise", "auto"), 40)]
)
def test_the_elbo_is_shared_among_the_rows_trained_on(run, runs, extra, num_trained):
    arguments = ("fit", runs, "--targets", "force", "--inputs", "angle,load", "--model", "mogp", *extra, *QUICK)
    summary = json.loads(run(*arguments, "--json").out)
    shown = json.loads(run("show", "model.mogul", "--json").out)
    assert shown["num_rows"] == num_trained
    last = shown["last_elbo"] / num_trained
    assert last == pytest.approx(mogul.load("model.mogul").history.elbo[-1] / num_trained)
    assert (summary["num_rows"], summary["num_trained"]) == (40, num_trained)
    assert summary["courses"][0]["elbo_per_row"] == pytest.approx(last)
    lines = run(*arguments, "--force").out
    assert f"ELBO {last:.2f} per row" in lines
    assert f"ELBO {last:,.2f} per row" in run("show", "model.mogul").out
    assert ("40, of which" in lines) == (num_trained < 40)


@pytest.mark.parametrize(
    ("extra", "found", "says"),
    [
        ((), None, "none"),
        (("--calibrate", ".5"), {"num_rows": 20, "num_groups": 20}, "by 20 rows "),
        (
            ("--calibrate", ".4", "--groups", "run"),
            {"num_rows": 16, "num_groups": 2},
            "by 16 rows of 2 groups",
        ),
    ],
)
def test_a_model_file_tells_whether_it_is_calibrated(run, runs, extra, found, says):
    arguments = ("fit", runs, "--targets", "force", "--inputs", "angle,load", "--model", "mogp", *extra, *QUICK)
    assert run(*arguments).code == 0
    assert json.loads(run("show", "model.mogul", "--json").out)["calibration"] == found
    (line,) = [line for line in run("show", "model.mogul").out.splitlines() if "calibration" in line]
    assert says in line


@pytest.mark.parametrize(
    ("num_rows", "extra", "fragments"),
    [
        (2, (), ("calibrate must leave rows on both sides", "0.2 of 2 rows is 0", "Give another share, or none")),
        (40, ("--groups", "half"), ("calibrate must leave at least two groups", "0.2 of 2 groups leaves 1", "Give")),
    ],
)
def test_too_few_to_calibrate_by_are_refused_in_the_users_words(run, num_rows, extra, fragments):
    rows(num_rows).assign(half=np.arange(num_rows) % 2).to_csv("few.csv", index=False)
    outcome = run("fit", "few.csv", "--targets", "force", "--inputs", "angle", "--calibrate", ".2", *extra)
    assert_refused(outcome, *fragments)
    assert "held_out" not in outcome.err
    assert not Path("model.mogul").exists()


def test_rows_to_calibrate_by_are_checked(run):
    rows(25).to_csv("few.csv", index=False)
    fit = ("fit", "few.csv", "--targets", "force,torque", "--model", "mogp", "--epochs", "1", "--calibrate", ".2")
    check = json.loads(run(*fit, "--json").out)["check"]
    assert (check["how"], check["num_rows"]) == ("calibration", 5)
