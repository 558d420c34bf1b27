"""Tidy tables of results: stable, in order, and beside the paper's numbers only where they belong."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from tests.helpers.small_jobs import record

from mogul.lab.experiments.record import METRICS, Record
from mogul.lab.report.frame import Results, results_frame, summary_frame, timings_frame, write_csv


def scored(label: str, seed: int | None, ll: float, **changes: object) -> Record:
    return record(label, seed, metrics={"ll": ll, "mrmse": 1 / (1 + ll)}, **changes)


@pytest.fixture
def records() -> list[Record]:
    return [
        scored("N-MOGP", 1, 26.0),
        scored("N-MOGP", 0, 25.0),
        scored("MOGP", 0, 16.0),
        scored("MOGP", 1, 17.0),
        scored("MOGP + linear", 0, 40.0),
        scored("MOGP + linear", 1, 41.0),
        scored("least squares", 0, 34.0, kind="baseline", model="least-squares"),
        scored("least squares", 1, 34.5, kind="baseline", model="least-squares"),
        scored("MOGP", None, 14.0),
        scored("MOGP", 0, 3.0, dataset="halfcheetah"),
        scored("N-MOGP", 0, 20.0, experiment="hidden-units", settings={"num_hidden": 12}),
        scored("N-MOGP", 0, 18.0, experiment="hidden-units", settings={"num_hidden": 4}),
    ]


def test_each_score_is_a_row_in_a_stable_order(records: list[Record], tmp_path: Path) -> None:
    frame = results_frame(Results.of(records))
    assert list(frame.columns) == [
        *("experiment", "dataset", "split", "label", "kind", "preset", "setting", "noise_floor", "metric", "value")
    ]
    assert len(frame) == len(records) * len(METRICS)
    pd.testing.assert_frame_equal(frame, results_frame(Results.of(reversed(records))))
    kuka = frame[(frame.experiment == "regression") & (frame.dataset == "kuka") & (frame.metric == "ll")]
    assert list(kuka.label[:4]) == ["least squares", "MOGP", "MOGP + linear", "N-MOGP"]
    assert list(kuka.split.unique()) == ["random 0", "random 1", "by trajectory"]
    assert list(frame[frame.experiment == "hidden-units"].setting.unique()) == ["num_hidden=4", "num_hidden=12"]
    write_csv(tmp_path / "a.csv", frame)
    write_csv(tmp_path / "b.csv", results_frame(Results.of(reversed(records))))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_results_hold_no_times_and_timings_do(records: list[Record]) -> None:
    slower = [replace(each, seconds=99.0, commit="other") for each in records]
    pd.testing.assert_frame_equal(results_frame(Results.of(records)), results_frame(Results.of(slower)))
    assert set(timings_frame(Results.of(slower)).seconds) == {99.0}


def test_a_failed_job_has_no_row(records: list[Record]) -> None:
    failed = replace(records[0], metrics={}, error="no luck")
    assert len(results_frame(Results.of([failed, *records[1:]]))) == (len(records) - 1) * len(METRICS)
    assert summary_frame(Results.of([failed])).empty
    assert len(timings_frame(Results.of([failed]))) == 1


def row(frame: pd.DataFrame, label: str, metric: str = "ll", dataset: str = "kuka", split: str = "random") -> pd.Series:
    where = (frame.label == label) & (frame.metric == metric) & (frame.dataset == dataset) & (frame.split == split)
    return frame[where & (frame.experiment == "regression")].iloc[0]


def test_a_summary_averages_over_splits_and_ranks(records: list[Record]) -> None:
    frame = summary_frame(Results.of(records))
    mogp = row(frame, "MOGP")
    assert (mogp["mean"], mogp["splits"]) == (16.5, 2)
    assert mogp["sd"] == pytest.approx(0.5**0.5)
    ranks = {label: row(frame, label)["rank"] for label in ("MOGP + linear", "least squares", "N-MOGP", "MOGP")}
    assert list(ranks.values()) == [1, 2, 3, 4]
    assert row(frame, "MOGP + linear", "mrmse")["rank"] == 1  # the smallest error
    assert row(frame, "MOGP", split="by trajectory")["rank"] == 1
    assert pd.isna(row(frame, "MOGP", "coverage_80")["rank"])


def test_the_papers_numbers_stand_beside_the_same_model_on_the_same_data_and_split(records: list[Record]) -> None:
    frame = summary_frame(Results.of(records))
    mogp = row(frame, "MOGP")
    assert (mogp["paper_mean"], mogp["paper_sd"]) == (15.64, 0.40)
    assert mogp["difference_in_paper_sds"] == pytest.approx((16.5 - 15.64) / 0.40)
    assert row(frame, "N-MOGP", "mrmse")["paper_mean"] == 0.095
    for other in (
        row(frame, "MOGP + linear"),
        row(frame, "least squares"),
        row(frame, "MOGP", split="by trajectory"),
        row(frame, "MOGP", dataset="halfcheetah"),
        row(frame, "MOGP", "crps"),
    ):
        assert pd.isna(other["paper_mean"])
        assert pd.isna(other["difference_in_paper_sds"])
    assert frame[frame.experiment == "hidden-units"].paper_mean.isna().all()
