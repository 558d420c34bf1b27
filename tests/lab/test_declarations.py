"""The experiments are the paper's: its sizes, its models, its numbers."""

import csv
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.small_jobs import small, small_arm, tasks

from mogul.errors import ConfigError
from mogul.lab.datasets.catalogue import CATALOGUE
from mogul.lab.experiments import synthetic
from mogul.lab.experiments.declarations import EXPERIMENTS, experiment
from mogul.lab.experiments.lines import PAPER_METRICS, numbers, paper_name, published
from mogul.lab.experiments.lines import line as line_of
from mogul.lab.experiments.protocol import fast, paper
from mogul.models import build
from mogul.registry import names

SHARED = Path(__file__).parents[3] / "shared" / "paper"
TABLE_2 = ["MOGP", "DK-MOGP", "GPRN", "DK-GPRN", "DGP", "N-MOGP", "SBGPRN", "N-SBGPRN", "DK-N-SBGPRN", "N-DGP"]
needs_paper = pytest.mark.skipif(not SHARED.is_dir(), reason="the paper is not part of this repository")


def paper_text() -> str:
    return (SHARED / "neural-likelihoods.tex").read_text(encoding="utf-8")


def test_there_are_six() -> None:
    names = ["synthetic", "regression", "unsupervised", "hidden-units", "small-data", "missing-outputs"]
    assert list(EXPERIMENTS) == names


@pytest.mark.parametrize("dataset", ["kuka", "f-baxter", "sarcos"])
@pytest.mark.parametrize("metric", list(PAPER_METRICS))
def test_each_model_of_table_2_finds_its_row(dataset: str, metric: str) -> None:
    lines = experiment("regression").groups["table-2"]
    assert [line.label for line in lines] == TABLE_2
    for line in lines:
        assert published("regression", dataset, line.label, metric) is not None


@pytest.mark.parametrize("name", ["regression", "unsupervised"])
def test_every_line_is_one_of_the_papers_and_every_row_of_the_papers_a_line(name: str) -> None:
    own = [line for line in experiment(name).lines if line.noise == "constant"]
    ours = {paper_name(line.label) for line in own}
    theirs = {model for kind, model, dataset, _ in numbers() if kind == name and dataset == "Kuka"}
    # Where the paper has a row twice, once with the nonlinearity that it chose, we have one.
    chosen = {"N-MOGP": "sherf", "N-SBGPRN": "leaky", "DK-N-SBGPRN": "leaky", "N-DGP": "erf"}
    if name == "unsupervised":
        chosen = {"N-MOGP": "D_H=14, leaky", "N-SBGPRN": "relu"}
    assert ours == theirs - {f"{model} ({remark})" for model, remark in chosen.items()}
    for model, remark in chosen.items():
        for metric in PAPER_METRICS.values():
            rows = [numbers()[name, each, "Kuka", metric] for each in (model, f"{model} ({remark})")]
            assert rows[0] == rows[1]


@needs_paper
def test_the_papers_numbers_are_those_of_its_tables() -> None:
    with (SHARED / "results.csv").open(encoding="utf-8") as content:
        rows = list(csv.DictReader(content))
    assert len(rows) == 520
    for row in rows:
        found = numbers()[row["experiment"], row["model"], row["dataset"], row["metric"]]
        assert (found.mean, found.sd) == (float(row["mean"]), float(row["sd"]))
    assert len(numbers()) == 450 + 4
    assert "higher test MRMSE (0.166) than the N-MOGP (0.102)" in paper_text()
    assert "log likelihood: 6.92 versus -0.72" in paper_text()
    assert published("synthetic", synthetic.DATASET, "N-MOGP", "ll").mean == 6.92
    assert published("synthetic", synthetic.DATASET, "MOGP", "ll").mean == -0.72


@pytest.mark.parametrize("dataset", ["halfcheetah", "rhythmic-arm", "baxter-rand", "sarcos-test"])
def test_a_stand_in_never_stands_beside_the_papers_number(dataset: str) -> None:
    assert CATALOGUE[dataset].stands_in_for is not None
    for label in TABLE_2:
        assert published("regression", dataset, label, "ll") is None


def test_a_model_on_a_plane_or_with_another_noise_is_not_the_papers() -> None:
    for line in experiment("regression").groups["all"]:
        variants = line.variants(linear=True, noises=names("noise"))
        labels = [each.label for each in variants]
        assert len(set(labels)) == 2 * len(names("noise"))
        found = [label for label in labels if published("regression", "kuka", label, "ll")]
        assert found == [line.label]


def test_the_noise_floor_is_the_one_the_model_is_built_with() -> None:
    x = torch.randn((20, 2), generator=torch.Generator().manual_seed(0))
    for line in line_of("n-mogp").variants(linear=False, noises=names("noise")):
        model = build(line.model, x, 3, torch.Generator().manual_seed(0), num_inducing=5, **line.options)
        floor = float(model.head.noise.floor_var.max().sqrt())
        assert line.noise_floor == (f"sd {floor:g} of an output's scale" if floor else "none")


@needs_paper
def test_sizes_are_the_papers() -> None:
    text = re.sub(r"\s+", " ", paper_text())
    assert r"set the number of GPs to $L=3$, use $N_{\rm ind}=200$ inducing points, and choose $D_H=8$" in text
    sizes = {line.name: dict(line.options) for line in experiment("synthetic").lines}
    assert sizes["mogp"] == {"num_latents": 3, "num_inducing": 200}
    assert sizes["n-mogp"] == {"num_latents": 3, "num_inducing": 200, "num_hidden": 8, "nonlinearity": "sherf"}
    assert "We sample $N=1000$ inputs" in text
    assert synthetic.NUM_TRAIN == 1000
    assert r"$D_H \in [4, 20]$" in text
    points = experiment("hidden-units").points
    assert (min(points), max(points)) == (4, 20)
    assert r"we only use $N_{\rm ind} =250 $ inducing points" in text
    assert experiment("small-data").options == {"num_inducing": 250}
    assert "averaged over fifteen random train/test splits" in text
    assert experiment("small-data").num_splits == 15
    assert experiment("small-data").scores_training
    for name in ("regression", "unsupervised", "hidden-units", "missing-outputs"):
        assert experiment(name).num_splits == 10
    for row in (
        r"R-Baxter.*?6918.*?2000",
        r"F-Baxter.*?14295.*?5000",
        r"Kuka.*?15068.*?5000",
        r"Sarcos.*?43933.*?5000",
    ):
        assert re.search(row, text)
    for dataset, train, test in (("kuka", 15068, 5000), ("f-baxter", 14295, 5000), ("rhythmic-arm", 6918, 2000)):
        assert CATALOGUE[dataset].num_test == test
        assert CATALOGUE[dataset].num_rows - test == train


@pytest.mark.parametrize(
    ("dataset", "rows"),
    [("kuka", 500), ("f-baxter", 500), ("sarcos", 500), ("halfcheetah", 1000), ("rhythmic-arm", 250)],
)
def test_the_papers_batches(dataset: str, rows: int) -> None:
    lines = {line.name: line for line in experiment("regression").lines}
    assert paper(lines["mogp"], dataset, 15_000, None, 0).batch_size == rows
    assert paper(lines["n-dgp"], dataset, 15_000, None, 0).batch_size == 2 * rows
    assert paper(lines["mogp"], dataset, 15_000, None, 0).epochs == 250
    assert paper(lines["mogp"], dataset, 15_000, None, 0).num_starts == 5
    assert paper(lines["mogp"], dataset, 15_000, None, 0).precision == "float32"
    assert paper(lines["mogp"], dataset, 1_000, None, 0).precision == "float64"


def test_the_fast_preset_keeps_its_settings() -> None:
    lines = {line.name: line for line in experiment("regression").lines}
    config = fast(lines["n-mogp"], 15068, None, 3)
    assert (config.epochs, config.batch_size, config.learning_rate, config.seed) == (12, 500, 0.02, 3)
    assert (config.num_starts, config.precision, config.decay) == (1, "float32", 0.65)
    assert fast(lines["n-mogp"], 5_500, None, 0).epochs == 33  # as many steps
    deep = fast(lines["dgp"], 15068, 10, 0)
    assert (deep.epochs, deep.batch_size, deep.anneal_epochs) == (10, 250, 2)
    plane = fast(lines["n-mogp"].on_a_plane, 15068, None, 0)
    assert plane.stopping is not None
    deep_plane = fast(lines["n-dgp"].on_a_plane, 15068, None, 0)
    assert (deep_plane.epochs, deep_plane.anneal_epochs) == (12, 2)  # the KL counts in full for most of them
    assert fast(lines["n-dgp"].on_a_plane, 15068, 4, 0).anneal_epochs == 0
    assert paper(lines["n-dgp"], "kuka", 15068, 10, 0).anneal_epochs == 2


def test_the_fast_preset_has_fewer_inducing_points_and_the_paper_preset_the_papers() -> None:
    def inducing(**choices: Any) -> dict[str, int | None]:
        found = tasks(small(experiment("regression")), linear=False, **choices)
        return {job.label: job.options.get("num_inducing") for job, _ in found if job.kind == "model"}

    assert inducing()["N-SBGPRN"] == 200
    assert inducing()["GPRN"] is None  # the paper's 100
    assert inducing(inducing=50)["GPRN"] == 50
    assert set(inducing(preset="paper").values()) == {None}
    assert inducing(preset="paper-fast") == inducing(preset="paper") == inducing(inducing=400)
    with pytest.raises(ConfigError, match="--inducing must be at least 1"):
        inducing(inducing=0)


def test_deep_models_with_equal_layers_have_as_many_gps_in_both() -> None:
    jobs = {
        job.label: job for job, _ in tasks(small(experiment("regression")), models=("dgp", "dgp-same"), linear=False)
    }
    assert jobs["DGP (L′ = L)"].options == {"num_inducing": 200, "num_top_latents": math.ceil(4 / 2)}
    assert jobs["DGP"].options == {"num_inducing": 200}


def test_hidden_units_sweep_models_that_have_some() -> None:
    jobs = [job for job, _ in tasks(small(experiment("hidden-units")), linear=False) if job.kind == "model"]
    sizes = [{"num_inducing": 200, "num_hidden": number} for number in (4, 8, 12, 16, 20)]
    assert [job.options for job in jobs if job.label == "N-MOGP"] == sizes
    assert [job.settings for job in jobs if job.label in ("MOGP", "DGP")] == [{}, {}]
    baselines = [job for job, _ in tasks(small(experiment("hidden-units"))) if job.kind == "baseline"]
    assert all(job.settings == {} for job in baselines)


def test_batches_shrink_with_the_data() -> None:
    sweep = small(experiment("small-data"))
    jobs = [job for job, _ in tasks(sweep, models=("mogp",), linear=False, points=(10, 40)) if job.kind == "model"]
    assert [job.training.batch_size for job in jobs] == [round(500 * 10 / 40), 500]
    full = experiment("small-data")
    line = full.groups["all"][0]
    steps = []
    for num_train in (250, 1000, 4000):
        config = full.training(line, "fast", "rhythmic-arm", num_train, num_train / 6918, None, 0)
        steps.append(config.epochs * math.ceil(num_train / config.batch_size))
    assert max(steps) - min(steps) <= 30  # about as long a training with few rows as with many
    assert jobs[0].options == {"num_inducing": 250}


def test_fewer_rows_are_among_more_and_differ_between_splits() -> None:
    train, test = small_arm().split(0)
    prepare = experiment("small-data").prepare
    few, many = (prepare(train, test, {"num_train": number}, 0)[0].x for number in (10, 25))
    assert few.shape == (10, 3)
    np.testing.assert_array_equal(few, many[:10])
    assert {tuple(row) for row in few} <= {tuple(row) for row in train.x}
    assert not np.array_equal(few, prepare(train, test, {"num_train": 10}, 1)[0].x)


@pytest.mark.parametrize("num_missing", [0, 1, 3])
def test_every_training_row_misses_as_many_outputs(num_missing: int) -> None:
    train, test = small_arm().split(0)
    prepare = experiment("missing-outputs").prepare
    gaps, same = prepare(train, test, {"num_missing": num_missing}, 0)
    assert (np.isnan(gaps.y).sum(1) == num_missing).all()
    np.testing.assert_array_equal(gaps.y[~np.isnan(gaps.y)], train.y[~np.isnan(gaps.y)])
    assert same is test
    assert gaps.output_names == train.output_names
    other = prepare(train, test, {"num_missing": num_missing}, 1)[0]
    assert num_missing == 0 or not np.array_equal(np.isnan(gaps.y), np.isnan(other.y))


def test_unsupervised_models_explain_inputs_and_outputs_together() -> None:
    train, test = small_arm().split(0)
    both, other = experiment("unsupervised").prepare(train, test, {}, 0)
    assert (both.num_inputs, both.num_outputs) == (0, 7)
    np.testing.assert_array_equal(both.y, np.c_[train.x, train.y])
    np.testing.assert_array_equal(other.y, np.c_[test.x, test.y])
    jobs = [job for job, _ in tasks(small(experiment("unsupervised")), linear=True)]
    assert {job.label for job in jobs if job.kind == "model"} == {"MOGP-LVM", "N-MOGP-LVM", "N-SBGPRN-LVM"}
    assert "least squares" not in {job.label for job in jobs}  # nothing to predict from
