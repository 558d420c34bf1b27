"""`mogul fit --kernel` and `mogul compare --kernel`, and what they say of it."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.terminal import assert_refused, command

from mogul.cli.options import complete_kernel


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run `mogul` in a folder with a table of a rough function."""
    rng = np.random.default_rng(0)
    place = rng.uniform(-1, 1, 160)
    height = np.abs(place) + 0.02 * rng.standard_normal(160)
    pd.DataFrame({"place": place, "height": height}).to_csv(tmp_path / "walk.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return command(monkeypatch, capsys)


def test_auto_is_told_by_fit_show_and_compare(run, tmp_path):
    asked = "walk.csv", "--targets", "height", "--kernel", "auto"
    assert "Kernel   matern" in (told := run("fit", *asked, "--no-check").out)
    assert "by log evidence of exact GPs: rbf " in told
    shown = json.loads(run("show", "model.mogul", "--json").out)
    assert max(shown["kernels"], key=shown["kernels"].get) == shown["options"]["kernel"]
    assert "by log evidence of exact" in run("show", "model.mogul").out
    compared = run("compare", *asked, "--models", "mogp", "--folds", "2", "--rivals", "none", "--html", "walk.html")
    assert "mogp chose the kernel matern" in compared.out
    assert "<dt>Kernel</dt><dd>auto</dd>" in (tmp_path / "walk.html").read_text(encoding="utf-8")


def test_a_name_is_told_and_kept(run):
    told = run("fit", "walk.csv", "--targets", "height", "--kernel", "matern12", "--no-check").out
    assert "Kernel   matern12\n" in told
    assert "--models mogp --kernel matern12" in told
    assert run("predict", "model.mogul", "walk.csv").code == 0


def test_refusals(run, tmp_path):
    asked = "fit", "walk.csv", "--targets", "height", "--no-check", "--kernel"
    assert_refused(run(*asked, "mattern12"), "kernel must be one of rbf, matern12", "Did you mean 'matern12'?")
    assert_refused(run(*asked, "rbf+"), "where a name is missing", "Try 'rbf+periodic'")
    compared = run("compare", "walk.csv", "--targets", "height", "--kernel", "rbf*auto")
    assert_refused(compared, "cannot be part of a sum or product", "Name each.")
    assert not (tmp_path / "model.mogul").exists()


def test_completion():
    assert complete_kernel("mat") == ["matern12", "matern32", "matern52"]
    assert complete_kernel("rbf*lin") == ["rbf*linear"]
    assert complete_kernel("a") == ["auto"]
    assert complete_kernel("rbf+a") == []
