"""Benchmarks still import and run; what they measure is no matter for tests."""

import json

import pytest
import torch

pytest.importorskip("benchmarks.__main__", reason="the benchmarks are not beside the tests")

from benchmarks import defaults, noises, solvers, steps
from benchmarks.__main__ import PAGE, RESULTS
from benchmarks.problem import Sizes
from benchmarks.report import performance_page
from benchmarks.timing import interleaved

from mogul.objective import Analytic
from mogul.priors import CIQ


def test_tasks_take_turns() -> None:
    turns: list[str] = []
    medians = interleaved({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, repeats=2, warm_up=1)
    assert turns == ["a", "b", "a", "b", "a", "b"]
    assert set(medians) == {"a", "b"}


def test_a_step_of_each_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "NUM_INDUCING", 5)
    monkeypatch.setattr(steps, "BATCH", 8)
    steps.training_step("n-mogp", Analytic(), torch.float32)()
    solvers.pass_through(6, CIQ())()


def test_every_noise_is_held_against_constant_noise() -> None:
    ratios = noises.noise_ratios(repeats=1, sizes=Sizes(num_inducing=5, batch=8))
    assert {name for name in ratios if name.endswith("ratio")} == {
        f"{noise}_noise_step_ratio" for noise in ("net", "gp", "student_t", "gp_student_t", "low_rank")
    }


def test_the_page_says_what_was_measured() -> None:
    assert PAGE.read_text(encoding="utf-8") == performance_page(json.loads(RESULTS.read_text(encoding="utf-8")))


def test_the_page_of_defaults_says_what_was_measured() -> None:
    results = json.loads(defaults.RESULTS.read_text(encoding="utf-8"))
    assert defaults.PAGE.read_text(encoding="utf-8") == defaults.defaults_page(results)
