"""The page of claims: in step with the records, and a test log likelihood that is the paper's by hand."""

import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from mogul.data.dataset import Standardiser
from mogul.metrics import nested_log_density
from mogul.prediction import Prediction

ROOT = Path(__file__).parents[2]
CLAIMS = runpy.run_path(str(ROOT / "results" / "claims.py"))
ROWS = [line.split(" | ") for line in CLAIMS["page"]().splitlines() if line.startswith("| ")][1:]


def test_the_page_is_what_the_records_say() -> None:
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert CLAIMS["page"]() == page, "run results/claims.py"


def test_each_claim_has_a_place_a_verdict_and_what_it_rests_on() -> None:
    assert len(ROWS) >= 25
    for place, says, measured, by, verdict, _ in ROWS:
        assert place.strip("| ")
        assert says
        word = verdict.strip("*")
        assert word in ("holds", "partly", "does not hold", "not tested")
        assert bool(measured.strip()) == bool(by.strip()) == (word != "not tested")


def test_places_are_those_of_the_paper() -> None:
    places = {place.strip("| ").split(",")[0] for place, *_ in ROWS}
    assert all(place in ("Abstract", "not said") or re.fullmatch(r"[1-6A](\.\d)*", place) for place in places)


def test_verdicts_follow_the_numbers(tmp_path: Path) -> None:
    """A made-up record turns "holds" into "does not hold"."""
    columns = "experiment,dataset,split,label,kind,preset,setting,noise_floor,metric,value"
    times = "experiment,dataset,split,label,preset,setting,seconds,epochs,commit,command"
    rows = {"N-MOGP": 2.0, "MOGP": 1.0}
    check = CLAIMS["above"](("N-MOGP", "MOGP"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "timings.csv").write_text(times + "\n")
    for better, expected in (("N-MOGP", "holds"), ("MOGP", "does not hold")):
        rows[better] = 3.0
        lines = [f"regression,kuka,random 0,{name},model,paper-fast,,,ll,{value}" for name, value in rows.items()]
        (tmp_path / "run" / "results.csv").write_text("\n".join([columns, *lines]) + "\n")
        found = check(CLAIMS["Records"](tmp_path))
        assert (found.verdict, found.by) == (expected, "paper-fast")
        rows[better] = 2.0
    assert check(CLAIMS["Records"](tmp_path)).measured.endswith("(25.32, 15.64)")  # as printed in the paper


def normal(y: float, mean: float, var: float) -> float:
    return math.exp(-0.5 * (y - mean) ** 2 / var) / math.sqrt(2 * math.pi * var)


def by_hand() -> Prediction:
    """Four draws of one row's two outputs: Normals given F."""
    mean = np.array([[[0.0, 1.0]], [[1.0, 1.0]], [[0.0, -1.0]], [[2.0, 0.5]]])
    var = np.array([[[1.0, 4.0]], [[1.0, 1.0]], [[4.0, 1.0]], [[1.0, 0.25]]])
    return Prediction(mean.mean(0), var.mean(0) + mean.var(0), mean, var)


def test_the_nested_estimator_is_the_papers_on_a_case_worked_by_hand() -> None:
    """½ Σₖ log ½ Σⱼ p(y | F_jk), p a product over outputs: K = J = 2, y = (0, 1)."""
    densities = [
        normal(0, 0, 1) * normal(1, 1, 4),  # 0.398942 · 0.199471 = 0.0795775
        normal(0, 1, 1) * normal(1, 1, 1),  # 0.241971 · 0.398942 = 0.0965324
        normal(0, 0, 4) * normal(1, -1, 1),  # 0.199471 · 0.0539910 = 0.0107696
        normal(0, 2, 1) * normal(1, 0.5, 0.25),  # 0.0539910 · 0.483941 = 0.0261285
    ]
    assert densities == pytest.approx([0.0795775, 0.0965324, 0.0107696, 0.0261285], rel=1e-5)
    # log 0.0880549 = −2.42979, log 0.0184490 = −3.99274; their mean is −3.21127.
    ll = nested_log_density(by_hand(), np.array([[0.0, 1.0]]), num_outer=2)
    assert ll == pytest.approx([-3.21127], abs=1e-5)
    # One group of four is the log of the mean of all: log 0.0532520 = −2.93272, never less.
    assert nested_log_density(by_hand(), np.array([[0.0, 1.0]]), num_outer=1) == pytest.approx([-2.93272], abs=1e-5)


def test_standardised_units_differ_by_the_logs_of_the_scales() -> None:
    """With y = 3 + 5u and 0 + 0.1u, log p(u) = log p(y) + log 5 + log 0.1."""
    units = Standardiser(np.array([3.0, 0.0]), np.array([5.0, 0.1]))
    y = np.array([[0.0, 1.0]])
    theirs = nested_log_density(by_hand().standardised(units), units.apply(y), num_outer=2)
    assert theirs == pytest.approx(nested_log_density(by_hand(), y, num_outer=2) + math.log(5.0) + math.log(0.1))
