"""One job at a time."""

import json
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.small_jobs import NAMES, small, tasks

from mogul.comparison.crossval import compare, folds
from mogul.comparison.rivals import LeastSquares
from mogul.config import InferenceConfig
from mogul.data import Scaling
from mogul.data.splits import GroupedData
from mogul.errors import MogulWarning, NumericalError
from mogul.fitted.mixture import FittedMixture
from mogul.lab.baselines import BASELINES
from mogul.lab.experiments.declarations import experiment
from mogul.lab.experiments.record import METRICS, Job, Record
from mogul.lab.experiments.request import SplitChoice
from mogul.lab.experiments.run import Provenance, run_job
from mogul.metrics import score
from mogul.training import FitRequest, fit
from mogul.training.loop import Run
from mogul.training.split import rows_of_some_groups

# What a line of the tables has where its label names nothing else.
PAPERS: dict[str, Any] = {"noise": "constant", "num_latents": None}
PROVENANCE = Provenance({"mogul": "0"}, "abc")


def job_of(name: str, label: str, **choices: object) -> tuple[Job, GroupedData]:
    return next(task for task in tasks(small(experiment(name)), **choices) if task[0].label == label)


def run(job: Job, grouped: GroupedData) -> Record:
    record = run_job(job, grouped, PROVENANCE)
    assert record.error is None, record.error
    json.dumps(record.to_json(), allow_nan=False)
    return record


def test_a_baseline_is_scored_in_standardised_units() -> None:
    job, grouped = job_of("regression", "least squares")
    record = run(job, grouped)
    train, test = grouped.split(0)
    units = Scaling.of(train).outputs
    scores = score([(LeastSquares.fit(train).predict(test.x).standardised(units), units.apply(test.y))])
    assert (record.metrics["ll"], record.metrics["mrmse"]) == (scores.ll, scores.mrmse)
    assert set(record.metrics) == set(METRICS)
    assert record.per_output["names"] == NAMES
    assert record.kind == "baseline"
    assert record.curve == []
    assert (record.versions, record.commit, record.slug) == ({"mogul": "0"}, "abc", job.slug)


@pytest.mark.parametrize(
    ("label", "choices"),
    [
        ("N-MOGP", {"mean": "paper"}),
        ("N-MOGP + linear", {"mean": "linear"}),
        ("N-SBGPRN + linear + GP noise", {"mean": "linear", "noise": "gp", "num_hidden": 4}),
    ],
)
def test_a_model_scores_as_a_fit_by_hand(label: str, choices: dict[str, Any]) -> None:
    job, grouped = job_of("regression", label, epochs=2, inducing=5)
    record = run(job, grouped)
    train, test = grouped.split(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    fitted = fit(train, model=job.model, config=job.training, num_inducing=5, **(PAPERS | choices))
    scores = fitted.evaluate(test, standardised=True, num_samples=job.num_draws, nested=True)
    torch.set_num_threads(threads)
    assert record.metrics["ll"] == pytest.approx(scores.ll_nested, abs=1e-9)
    assert record.metrics["crps"] == pytest.approx(scores.crps, abs=1e-9)
    assert [point["epoch"] for point in record.curve] == list(range(len(fitted.history.elbo)))
    assert record.curve[0]["elbo"] == pytest.approx(fitted.history.elbo[0], rel=1e-5)
    assert record.curve[-1]["seconds"] >= record.curve[0]["seconds"]
    assert record.config["mean"] == choices["mean"]
    assert record.config["training"]["batch_size"] == job.training.batch_size


def test_by_trajectory_all_rows_of_the_training_trajectories_are_trained_on() -> None:
    job, grouped = job_of("regression", "MOGP", epochs=2, inducing=5, splits=SplitChoice((), (0,)))
    record = run(job, grouped)
    is_test = np.isin(grouped.groups, grouped.group_split().test_groups)
    train, test = grouped.data.rows(np.flatnonzero(~is_test)), grouped.data.rows(np.flatnonzero(is_test))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    fitted = fit(
        train, model="mogp", config=replace(job.training, stopping=None), mean="paper", num_inducing=5, **PAPERS
    )
    scores = fitted.evaluate(test, standardised=True, num_samples=job.num_draws, nested=True)
    torch.set_num_threads(threads)
    assert fitted.history.num_rows == record.config["num_train"] == train.num_rows == 50
    assert record.metrics["ll"] == pytest.approx(scores.ll_nested, abs=1e-9)
    assert record.metrics["mrmse"] == pytest.approx(scores.mrmse, abs=1e-9)


@pytest.mark.parametrize("splits", [SplitChoice((0,)), SplitChoice((), (0,))])
def test_a_mixture_of_starts_is_scored_as_one(splits: SplitChoice) -> None:
    (job, grouped), *_ = tasks(
        small(experiment("regression")), models=("mogp+linear+2-starts",), baselines=("none",), splits=splits, epochs=3
    )
    record = run(job, grouped)
    train, test = grouped.divide(job.split)
    known, _ = job.split.rows(grouped.groups)
    held_out = rows_of_some_groups(grouped.groups[known], 0.2, seed=0) if splits.trajectory else None
    fitted = fit(train, model="mogp", config=job.training, **PAPERS, held_out=held_out, retrain=True)
    assert isinstance(fitted, FittedMixture)
    assert fitted.num_members == 2
    assert {member.history.num_rows for member in fitted.members} == {train.num_rows}
    predicted, single = fitted.predict(test.x, job.num_draws), fitted.members[0].predict(test.x, job.num_draws)
    units = Scaling.of(train).outputs
    score_of = [score([(each.standardised(units), units.apply(test.y))], nested=True) for each in (predicted, single)]
    assert record.metrics["ll"] == pytest.approx(score_of[0].ll_nested, abs=1e-6)
    assert record.metrics["ll"] != pytest.approx(score_of[1].ll_nested, abs=1e-6)
    assert record.label == "MOGP + linear × 2 starts"


def test_a_mixture_of_models_is_scored_as_one() -> None:
    (job, grouped), *_ = tasks(small(experiment("regression")), models=("mogp+gprn+linear",), baselines=("none",))
    record = run_job(job, grouped, PROVENANCE)
    assert record.error is None
    train, test = grouped.divide(job.split)
    fitted = fit(train, model=job.model, config=job.training, shared_inducing=True, **PAPERS)
    units = Scaling.of(train).outputs
    predicted = fitted.predict(test.x, job.num_draws)
    scores = score([(predicted.standardised(units), units.apply(test.y))], nested=True)
    assert record.metrics["ll"] == pytest.approx(scores.ll_nested, abs=1e-6)
    assert (record.label, record.model) == ("MOGP & GPRN + linear", "mogp+gprn")


def test_a_mixture_that_lost_a_start_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    (job, grouped), *_ = tasks(small(experiment("regression")), models=("mogp+linear+2-starts",), baselines=("none",))
    advance = Run.advance

    def broken(training: Run) -> None:
        if training.start == 1:
            raise NumericalError("The gradient's norm must be finite; it is nan.")
        advance(training)

    monkeypatch.setattr(Run, "advance", broken)
    assert run_job(job, grouped, PROVENANCE).error == (
        "All 2 of a mixture must train; 1 did. Try fewer starts, or another seed."
    )


def test_a_job_that_is_interrupted_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    job, grouped = job_of("regression", "MOGP", epochs=3)
    advance = Run.advance

    def interrupted(training: Run) -> None:
        if training.records:
            raise KeyboardInterrupt
        advance(training)

    monkeypatch.setattr(Run, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_job(job, grouped, PROVENANCE)
    with pytest.raises(KeyboardInterrupt), pytest.warns(MogulWarning, match="interrupted after 1 of"):
        compare(
            grouped.data,
            ["mogp"],
            folds(grouped.data.num_rows, 5, 0)[:1],
            FitRequest(settings={"epochs": 3, "objective": "balanced"}),
        )


def test_trajectories_say_how_long_to_train_on_all_of_them() -> None:
    job, grouped = job_of("regression", "MOGP + linear", splits=SplitChoice((), (1,)), epochs=2)
    record = run(job, grouped)
    known, _ = grouped.group_split().rows(grouped.groups)
    train, test = grouped.split_by_trajectory()
    held_out = rows_of_some_groups(grouped.groups[known], 0.2, seed=1)
    fitted = fit(train, model="mogp", config=job.training, **PAPERS, held_out=held_out, retrain=True)
    assert fitted.history.num_rows == train.num_rows
    scores = fitted.evaluate(test, num_samples=job.num_draws, nested=True)
    units = np.log(Scaling.of(train).outputs.scale).sum()  # the tables', of all training rows
    assert record.metrics["ll"] == pytest.approx(scores.ll_nested + units, abs=1e-6)
    assert record.config["held_out"] == "groups, then trained on"
    plain, _ = job_of("regression", "MOGP", splits=SplitChoice((), (1,)))
    assert not plain.holds_out_groups
    assert job_of("regression", "MOGP + linear")[0].config["held_out"] is None


def test_latent_inputs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = partial(InferenceConfig, steps=2)
    monkeypatch.setattr(sys.modules["mogul.training.starts"], "InferenceConfig", quick)
    job, grouped = job_of("unsupervised", "MOGP-LVM")
    record = run(job, grouped)
    assert np.shape(record.latent["mean"]) == np.shape(record.latent["scale"]) == (40, 4)
    assert np.min(record.latent["scale"]) > 0
    train = grouped.split(0)[0]
    values = np.concatenate([train.x, train.y], axis=1)  # of the rows that are mapped, not of those that are scored
    np.testing.assert_allclose(
        record.latent["outputs"], (values - values.mean(0)) / values.std(0), rtol=1e-4, atol=1e-4
    )
    assert len(record.per_output["names"]) == 7


def test_small_data_also_score_the_training_rows() -> None:
    record = run(*job_of("small-data", "MOGP", points=(12,), linear=False))
    assert set(record.metrics) == {*METRICS, "train_ll", "train_mrmse"}
    assert record.settings == {"num_train": 12}
    assert record.setting == "num_train=12"


def test_rows_with_gaps_can_be_learnt_from() -> None:
    run(*job_of("missing-outputs", "N-MOGP", points=(2,), linear=False))


def test_the_synthetic_experiment_keeps_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mogul.lab.experiments.synthetic.NUM_TRAIN", 20)
    oracle = next(task for task in tasks(experiment("synthetic"), models=("none",)) if task[0].model == "oracle")
    record = run(*oracle)
    assert record.metrics["mrmse"] == pytest.approx(0.1, rel=0.05)
    assert record.config["units"] == "original"


def test_a_job_that_fails_is_recorded_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*arguments: object) -> None:
        raise ZeroDivisionError("nothing left")

    job, grouped = job_of("regression", "least squares")
    broken = replace(BASELINES["least-squares"], fit_predict=break_down)
    monkeypatch.setitem(BASELINES, "least-squares", broken)
    record = run_job(job, grouped, PROVENANCE)
    assert record.error == "ZeroDivisionError: nothing left"
    assert record.metrics == {}
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_an_error_of_ours_is_told_as_it_is() -> None:
    job, grouped = job_of("regression", "MOGP", linear=False)
    record = run_job(replace(job, options={"num_latents": 0}), grouped, PROVENANCE)
    assert record.error.startswith("num_latents must be at least 1; got 0.")


def test_a_job_leaves_threads_and_standard_error_as_they_were(capfd: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    stderr = sys.stderr
    try:
        run(*job_of("regression", "MOGP", linear=False))
        assert torch.get_num_threads() == threads + 1
    finally:
        torch.set_num_threads(threads)
    assert sys.stderr is stderr
    assert capfd.readouterr().err == ""
