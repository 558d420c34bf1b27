"""`mogul compare`: a leaderboard, a verdict, a page that stands alone."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.terminal import assert_refused, command

from mogul.data import Dataset
from mogul.errors import NumericalError
from mogul.fitted.fitted import Fitted
from mogul.training import FitRequest

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `mogul compare` on a table of two inputs and an output that is linear in them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 2))
    table = pd.DataFrame(x, columns=["a", "b"]).assign(y=2 * x[:, 0] - x[:, 1] + 0.1 * rng.standard_normal(30))
    table.rename(columns={"y": HOSTILE}).to_csv("t.csv", index=False)
    call = command(monkeypatch, capsys, "compare", "t.csv", "--targets", HOSTILE)
    return lambda *arguments: call("--models", "mogp", "--folds", "2", "--epochs", "1", *arguments)


def test_least_squares_and_the_mean_are_always_there(run):
    outcome = run("--html", "new/page.html")
    assert outcome.code == 0
    for part in ("mogp", "extra trees", "least squares", "mean", "LL", "behind", "MRMSE", "CRPS", "80%", "95%"):
        assert part in outcome.out
    verdict = re.search(
        r"^mogp is the best: least squares is 0\.\d+ ± 0\.\d+ nats per row behind\.$", outcome.out, re.M
    )
    assert verdict is not None, outcome.out
    assert len(re.findall(r"^fold \d of 2: .* LL ", outcome.err, re.M)) == 4
    assert "Compare  mogp, extra trees, least squares, mean on 2 folds of 30 rows: about 10 seconds" in outcome.err
    assert "Compare  about 10 seconds more" in outcome.err
    assert outcome.err.count("no effect on mogp, which exact GPs solve here; got epochs=1. Leave them out") == 1
    page = Path("new/page.html").read_text(encoding="utf-8")
    assert verdict.group() in page
    words = re.search(
        r"^On rows that it had not seen, errors of mogp were \d+ % smaller .* bands, .*$", outcome.out, re.M
    )
    assert words is not None, outcome.out
    for part in (words.group(), "Each output, in its own units", "predicted against true", "Which inputs matter"):
        assert part in page
    assert "mogp on 30 rows held out:" in outcome.out
    command = [f"Next: mogul fit t.csv --targets '{HOSTILE}'", "--out t.mogul"]
    assert all(part in outcome.out for part in command), outcome.out
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(src|href)=|@import|url\(", page), "a page of its own needs nothing from elsewhere"
    assert [path.name for path in Path("new").iterdir()] == ["page.html"]


def test_json_is_all_there_is(run):
    content = json.loads(run("--json").out)
    assert content["num_rows"] == 30
    assert content["num_folds"] == 2
    assert content["output_names"] == [HOSTILE]
    entries = {each["label"]: each for each in content["entries"]}
    assert entries.keys() == {"mogp", "extra trees", "least squares", "mean"}
    assert entries["mean"]["ll"] < entries["least squares"]["ll"]
    assert set(entries["mogp"]["coverage"]) == {"0.5", "0.8", "0.95"}


def test_a_page_that_exists_is_replaced_only_by_force(run):
    Path("page.html").write_text("mine")
    assert_refused(run("--html", "page.html"), "must go into a new file", "page.html exists", "add --force")
    assert Path("page.html").read_text() == "mine"
    assert run("--html", "page.html", "--force").code == 0
    assert Path("page.html").read_text() != "mine"


def test_a_model_that_fails_is_named_with_the_reason(run, monkeypatch: pytest.MonkeyPatch):
    def fail(*arguments: object, **options: object) -> None:
        raise NumericalError("Training must stay finite; it did not. Lower learning_rate.")

    monkeypatch.setattr(FitRequest, "fit", fail)
    outcome = run("--html", "page.html")
    assert outcome.code == 0
    assert "mogp failed: Training must stay finite" in outcome.out
    assert "mogp failed: Training must stay finite" in Path("page.html").read_text(encoding="utf-8")


def test_whole_groups_may_be_held_out(run):
    table = pd.read_csv("t.csv").assign(run=np.repeat(list("abcdef"), 5))
    table.to_csv("t.csv", index=False)
    content = json.loads(run("--groups", "run", "--json").out)
    assert (content["groups"], content["num_folds"]) == ("run", 2)
    assert {each["label"] for each in content["entries"]} == {"mogp", "extra trees", "least squares", "mean"}
    outcome = run("--groups", "run", "--html", "page.html", "--objective", "balanced")
    assert "held-out groups, by run" in " ".join(outcome.out.split())
    page = Path("page.html").read_text(encoding="utf-8")
    assert "2 folds of whole groups, by run, at random" in page
    assert "standard error over groups" in page
    assert "objective balanced" in page
    assert_refused(run("--groups", "run", "--folds", "7"), "at most the number of groups, 6; got 7", "Try 5")
    assert_refused(run("--groups", "rnu"), "--groups must name columns", "Did you mean 'run'?")
    assert_refused(run("--objective", "largest"), "objective must be one of elbo, balanced, predictive")


def test_models_can_be_trained_on_the_past(run, monkeypatch: pytest.MonkeyPatch):
    """Rows are in order of the date among the inputs, wherever they are in the file."""
    table = pd.read_csv("t.csv").assign(day=pd.date_range("2024-01-01", periods=30).astype(str))
    table.sample(frac=1, random_state=0).to_csv("t.csv", index=False)
    asked = []
    whole = FitRequest.fit

    def note(self: FitRequest, data: Dataset) -> Fitted:
        asked.append(data.x[:, 2].max() if data.num_inputs > 2 else None)
        return whole(self, data)

    monkeypatch.setattr(FitRequest, "fit", note)
    content = json.loads(run("--folds", "time:2", "--json").out)
    assert (content["time"], content["num_folds"]) == ("day", 2)
    assert asked == [9.0, 19.0]  # days of training
    assert [each["num_known"] for each in content["entries"][0]["outputs"]] == [20]
    outcome = run("--folds", "time:2", "--inputs", "a,b", "--html", "page.html")
    assert "2 parts predicted from the past" in " ".join(outcome.out.split())
    assert "2 parts, by the order of rows; each is predicted from all rows before it" in Path("page.html").read_text()
    assert_refused(run("--folds", "time:30"), "fewer than the different times, 30; got 30", "Try 5")
    assert_refused(run("--folds", "tme"), "--folds must be a number, time or time:NUMBER; got 'tme'", "Try --folds 5")
    assert_refused(run("--folds", "time", "--groups", "b"), "got both, b too", "Leave one out")


def test_without_models_their_number_suits_that_of_rows(run, monkeypatch: pytest.MonkeyPatch, capsys):
    call = command(monkeypatch, capsys, "compare", "t.csv", "--targets", HOSTILE)
    labels = {each["label"] for each in json.loads(call("--folds", "2", "--json").out)["entries"]}
    assert labels == {"mogp", "extra trees", "least squares", "mean"}


def test_a_mixture_and_a_choice_may_compete(run):
    outcome = run("--models", "auto,mogp+gprn", "--json", "--html", "page.html")
    entries = {each["label"]: each for each in json.loads(outcome.out)["entries"]}
    assert entries.keys() == {"auto", "mogp+gprn", "extra trees", "least squares", "mean"}
    assert sum(entries["auto"]["chosen"].values()) == 2
    words = next(iter(entries["auto"]["chosen"]))
    assert re.fullmatch(r"(mogp|gprn|sbgprn|n-sbgprn) with (constant|gp|student-t|gp-student-t) noise", words)
    assert f"auto ({words}) LL" in outcome.err
    assert re.search(rf"auto chose .*{words} in \d of 2 folds", Path("page.html").read_text(encoding="utf-8"))
    assert entries["mogp+gprn"]["chosen"] == {}


def test_rows_that_follow_each_other_are_told(run):
    assert "--groups" not in run().err
    walk = np.cumsum(np.random.default_rng(0).standard_normal(120))
    pd.DataFrame({"a": np.tile([0.0, 1.0, 2.0], 40), "b": np.tile([1.0, 0.0], 60), HOSTILE: walk}).to_csv(
        "t.csv", index=False
    )
    err = " ".join(run().err.split())
    assert err.count("neighbouring residuals of a linear fit have a correlation of 0.9") == 1
    assert "(--groups)" in err


def test_rivals_are_chosen_by_name_or_left_out(run):
    content = json.loads(run("--rivals", "trees,boosting,exact-gps", "--json").out)
    labels = {each["label"] for each in content["entries"]}
    assert labels == {"mogp", "extra trees", "boosted trees", "exact GPs", "least squares", "mean"}
    alone = json.loads(run("--rivals", "none", "--json").out)
    assert {each["label"] for each in alone["entries"]} == {"mogp", "least squares", "mean"}
    assert_refused(run("--rivals", "tres"), "--rivals must be one of trees, boosting", "Did you mean 'trees'?")


def test_a_rival_that_is_not_installed_is_refused_before_any_training(run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mogul.comparison.rivals.find_spec", lambda name: None)
    monkeypatch.setattr(FitRequest, "fit", lambda *arguments: pytest.fail("trained"))
    refused = run("--rivals", "trees,quantile-forest")
    assert_refused(refused, "--rivals must be installed", "needs the package quantile-forest", "mogul[rivals]")
