"""`mogul fit --transform`, and what `fit` and `show` say of it."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.terminal import assert_refused, command


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run `mogul` in a folder with a table of soil."""
    rng = np.random.default_rng(0)
    place = rng.uniform(-1, 1, 60)
    metal = np.exp(np.sin(3 * place) + 0.6 * rng.standard_normal(60))
    warmth = 10 + place + rng.standard_normal(60)
    pd.DataFrame({"place": place, "metal": metal, "warmth": warmth}).to_csv(tmp_path / "soil.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return command(monkeypatch, capsys)


def test_fit_show_and_predict(run):
    outcome = run("fit", "soil.csv", "--targets", "metal,warmth", "--transform", "auto", "--no-check")
    assert "Transform log of metal" in outcome.out
    assert "log of metal" in run("show", "model.mogul").out
    assert json.loads(run("show", "model.mogul", "--json").out)["transforms"] == {"metal": "log"}
    predicted = json.loads(run("predict", "model.mogul", "soil.csv", "--quantiles", ".001", "--json").out)
    assert min(predicted["metal"]["quantiles"]["0.001"]) > 0
    assert run("evaluate", "model.mogul", "soil.csv").code == 0
    assert run("predict", "model.mogul", "soil.csv", "--given", "metal").code == 0


def test_one_output_by_name(run):
    asked = ("--targets", "metal,warmth", "--transform", "warmth=log", "--no-check", "--json")
    assert json.loads(run("fit", "soil.csv", *asked).out)["transforms"] == {"warmth": "log"}


def test_refusals(run):
    asked = "fit", "soil.csv", "--targets", "metal", "--no-check", "--transform"
    assert_refused(run(*asked, "sqrt"), "transform must be one of log, yeo-johnson, auto", "'sqrt'")
    assert_refused(run(*asked, "copper=log"), "must be one of metal", "'copper'")
    assert_refused(run(*asked, "metal="), "--transform must be one name, or output=name", "Try Cd=log,Pb=auto")
    place = "fit", "soil.csv", "--targets", "place", "--inputs", "metal", "--no-check", "--transform", "log"
    assert_refused(run(*place), "needs positive values; output 'place' has -", "'yeo-johnson' or 'auto'")
