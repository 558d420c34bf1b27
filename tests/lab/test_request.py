"""From what was asked for to jobs."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.helpers.small_jobs import small, small_arm, tasks

import mogul.lab.reproduce
from mogul import cli
from mogul.data import Dataset
from mogul.errors import ConfigError, DataError, UnknownNameError
from mogul.heads.noise import noise_varies
from mogul.lab.baselines import BASELINES
from mogul.lab.experiments import protocol
from mogul.lab.experiments.declarations import EXPERIMENTS, experiment
from mogul.lab.experiments.lines import Variant, line, mixed_line
from mogul.lab.experiments.request import ExperimentRequest, SplitChoice
from mogul.models import build
from mogul.registry import names
from mogul.training.defaults import preset as training_preset

# The table of the command that this one replaces.
MAIN = ["MOGP", "GPRN", "DGP", "SBGPRN", "N-MOGP", "N-SBGPRN", "N-DGP", "DK-N-SBGPRN", "DGP (L′ = L)", "N-DGP (L′ = L)"]


def labels(**choices: object) -> list[str]:
    return [job.label for job, _ in tasks(small(experiment("regression")), baselines=("least-squares",), **choices)]


def test_without_planes_the_default_is_the_main_table() -> None:
    assert sorted(labels(linear=False)) == sorted(["least squares", *MAIN])


def test_the_fast_preset_runs_each_model_with_and_without_a_plane() -> None:
    assert labels(models=("mogp",)) == ["least squares", "MOGP", "MOGP + linear"]
    assert labels(models=("mogp",), preset="paper") == ["least squares", "MOGP"]
    assert labels(models=("mogp",), preset="paper-fast") == ["least squares", "MOGP"]
    assert labels(models=("mogp",), preset="paper", linear=True) == ["least squares", "MOGP", "MOGP + linear"]
    assert labels(models=("mogp+linear",), linear=False) == ["least squares", "MOGP + linear"]


def test_the_default_preset_trains_as_fit_does() -> None:
    grouped = small_arm(num_rows=3600)
    many = replace(experiment("regression"), load=lambda dataset, folder, preset: lambda seed: grouped)
    splits = SplitChoice((0,), (3,))
    jobs = [
        job
        for job, _ in tasks(many, preset="default", models=("mogp",), splits=splits, epochs=None)
        if job.kind == "model"
    ]
    assert [job.holds_out_groups for job in jobs] == [False, False, False, True]
    for job in jobs:
        num_train, in_groups = job.split.num_train, job.split.kind != "random"
        assert job.training == training_preset("default", "mogp", job.seed, num_train, grouped=in_groups)
        assert "num_inducing" not in job.options  # as many as the model has by itself
    assert labels(models=("mogp",), preset="default") == ["least squares", "MOGP", "MOGP + linear"]


NOISES = [f"N-SBGPRN + linear + {noise} noise" for noise in ("GP", "net", "Student-t")]
NOISES += ["MOGP + linear + GP noise"]


def test_the_fast_preset_adds_other_noises() -> None:
    main = [label for model in MAIN for label in (model, f"{model} + linear")]
    assert sorted(labels()) == sorted(["least squares", *main, *NOISES])
    assert labels(models=("noises",), linear=False, preset="paper") == ["least squares", *NOISES]
    assert sorted(labels(preset="paper", linear=True)) == sorted(["least squares", *main])
    assert sorted(labels(noises=("constant",))) == sorted(["least squares", *main])


def test_noises_are_chosen_for_all_models_or_in_the_name_of_one() -> None:
    both = ["MOGP", "MOGP + GP noise", "MOGP + linear", "MOGP + linear + GP noise"]
    assert labels(models=("mogp",), noises=("constant", "gp")) == ["least squares", *both]
    assert labels(models=("mogp+linear+gp-noise",)) == ["least squares", both[3]]
    assert labels(models=("mogp+low-rank-noise",)) == ["least squares", "MOGP + low-rank noise"]
    jobs = {job.label: job for job, _ in tasks(small(experiment("regression")), models=("mogp",), noises=("gp",))}
    assert jobs["MOGP + linear + GP noise"].options == {"num_inducing": 200, "noise": "gp"}
    assert jobs["MOGP + linear + GP noise"].config["noise_floor"] == "sd 0.0001 of an output's scale"
    assert jobs["least squares"].config["noise_floor"] == "none"


def place(label: str) -> tuple[int, bool, int]:
    """Where the table of the regression experiment lists a model."""
    return experiment("regression").place("model", Variant.parse(label))


def test_a_table_has_a_model_beside_itself_with_other_noises() -> None:
    row = ["N-SBGPRN", "N-SBGPRN + linear", NOISES[1], NOISES[0], "N-DGP"]
    assert sorted(row, key=place) == row


def test_any_line_can_be_a_mixture_of_starts() -> None:
    chosen = ("mogp+2-starts", "n-sbgprn+linear+gp-noise+3-starts", "noises+2-starts")
    jobs = {job.label: job for job, _ in tasks(small(experiment("regression")), models=chosen, baselines=("none",))}
    assert list(jobs)[:2] == ["MOGP × 2 starts", "MOGP + linear × 2 starts"]
    assert len(jobs) == 2 + 1 + 4
    job = jobs["N-SBGPRN + linear + GP noise × 3 starts"]
    assert job.training is not None
    assert (job.training.num_starts, job.training.num_kept) == (3, 3)
    assert "--models n-sbgprn+linear+gp-noise+3-starts" in job.command
    assert place(job.label) == place("N-SBGPRN + linear + GP noise")


def test_a_line_can_have_another_objective() -> None:
    chosen = ("n-sbgprn+2-starts+gp-noise+balanced+linear", "mogp+predictive+linear")  # in any order
    jobs = [job for job, _ in tasks(small(experiment("regression")), models=chosen, baselines=("none",))]
    assert [job.label for job in jobs] == [
        "N-SBGPRN + linear + GP noise + balanced × 2 starts",
        "MOGP + linear + predictive",
    ]
    assert [job.training.objective for job in jobs if job.training] == ["balanced", "predictive"]
    assert [job.slug.rpartition("--")[2] for job in jobs] == [
        "n-sbgprn-linear-gp-noise-balanced-2-starts",
        "mogp-linear-predictive",
    ]
    assert "--models n-sbgprn+linear+gp-noise+balanced+2-starts" in jobs[0].command
    assert [place(job.label) for job in jobs] == [place("N-SBGPRN + linear + GP noise"), place("MOGP + linear")]


def test_balance_needs_noise_that_varies() -> None:
    with pytest.raises(ConfigError, match=r"depends on the input; got MOGP \+ linear, .* Try mogp\+linear\+gp-noise"):
        tasks(small(experiment("regression")), models=("mogp+linear+balanced",))
    with pytest.raises(ConfigError, match=r"Try mogp\+gp-noise\+balanced"):
        tasks(small(experiment("regression")), models=("mogp+student-t-noise+balanced",))


@pytest.mark.parametrize("noise", names("noise"))
def test_it_is_known_which_noise_varies(noise: str) -> None:
    model = build("mogp", torch.randn(5, 2), 2, torch.Generator(), noise=noise, num_inducing=3, noise_rank=1)
    assert model.head.noise.varies == noise_varies(noise)


def test_latent_inputs_are_not_mixed() -> None:
    with pytest.raises(ConfigError, match="A mixture needs inputs that its starts share; got MOGP-LVM"):
        tasks(small(experiment("unsupervised")), models=("mogp-lvm+2-starts",))


def test_lines_are_chosen_by_name_and_by_group_and_run_once() -> None:
    assert labels(models=("n-mogp-leaky", "n-dgp-same-sherf"), linear=False) == [
        "least squares",
        "N-MOGP (leaky)",
        "N-DGP (L′ = L, sherf)",
    ]
    assert len(labels(models=("table-4",), linear=False)) == 1 + 6
    assert len(labels(models=("table-4", "mogp"), linear=False)) == 1 + 6
    assert len(labels(models=("all",), linear=False)) == 1 + 26


def test_jobs_are_a_product() -> None:
    splits = SplitChoice((0, 4), (0,))
    jobs = [job for job, _ in tasks(small(experiment("regression")), models=("mogp",), linear=False, splits=splits)]
    assert {job.split_label for job in jobs} == {"random 0", "random 4", "by trajectory"}
    assert {job.seed for job in jobs} == {0, 4}
    assert {(job.training.seed, job.seed) for job in jobs if job.training} == {(0, 0), (4, 4)}
    assert len({job.slug for job in jobs}) == len(jobs)


def test_all_baselines_that_suit_the_data_are_run_unless_named() -> None:
    jobs = [job.model for job, _ in tasks(small(experiment("regression")), models=("none",))]
    assert set(jobs) == set(BASELINES) - {"persistence"}  # the state is not among the inputs
    jobs = [job.model for job, _ in tasks(small(experiment("unsupervised")), models=("none",))]
    assert jobs == ["pca", "mean"]


def test_quick_jobs_come_first() -> None:
    some = ("nets", "sparse-gps", "least-squares", "neighbours", "fourier", "least-squares-t")
    jobs = [
        job.model for job, _ in tasks(small(experiment("regression")), models=("mogp",), linear=False, baselines=some)
    ]
    quick, slow = ["least-squares", "neighbours"], ["least-squares-t", "fourier", "sparse-gps", "nets"]
    assert jobs == [*quick, "mogp", *slow]  # of one epoch
    jobs = [job.model for job, _ in tasks(small(experiment("regression")), models=("mogp",), epochs=20, baselines=some)]
    assert jobs == [*quick, *slow, "mogp", "mogp"]


def test_work_is_counted_by_the_rows_that_a_sweep_trains_on() -> None:
    chosen = {"models": ("mogp",), "linear": False, "points": (10, 40), "baselines": ("fourier",)}
    work = {
        (job.kind, job.settings["num_train"]): job.work for job, _ in tasks(small(experiment("small-data")), **chosen)
    }
    assert work["model", 40] == 4 * work["model", 10]
    assert work["baseline", 40] == 4 * work["baseline", 10] == 40 * BASELINES["fourier"].epochs


def test_work_is_counted_for_all_that_is_trained() -> None:
    def work(model: str, splits: SplitChoice, **choices: object) -> int:
        ((job, _),) = tasks(
            small(experiment("regression")), models=(model,), baselines=("none",), splits=splits, epochs=3, **choices
        )
        return job.work // job.split.num_train

    rows, trajectories = SplitChoice((0,)), SplitChoice((), (0,))
    assert work("mogp+linear+3-starts", rows) == 3 * 3
    assert work("mogp+linear+3-starts", trajectories) == 2 * 3 * 3  # held-out groups are trained on in the end


def test_data_without_inputs_are_for_latent_ones() -> None:
    arm = small_arm("oil-flow")
    grouped = replace(arm, data=Dataset(None, arm.data.y))

    def on_outputs(name: str, **choices: object) -> list[str]:
        on = replace(experiment(name), load=lambda dataset, folder, preset: lambda seed: grouped)
        return [job.model for job, _ in tasks(on, datasets=("oil-flow",), **choices)]

    refused = r"MOGP of regression needs data with inputs; got oil-flow, which has none\. .* reproduce unsupervised"
    with pytest.raises(ConfigError, match=refused):
        on_outputs("regression")
    assert on_outputs("regression", models=("none",)) == ["mean"]
    with pytest.raises(ConfigError, match="baseline must suit oil-flow; got least-squares, of which none does"):
        on_outputs("regression", models=("none",), baselines=("least-squares",))
    assert "mogp-lvm" in on_outputs("unsupervised")


@pytest.mark.no_cover  # many steps on lines that other tests run too
@pytest.mark.parametrize("name", list(EXPERIMENTS))
@pytest.mark.parametrize(("preset", "epochs", "inducing"), [("fast", None, None), ("fast", 2, 5), ("default", 2, None)])
def test_the_command_of_a_job_makes_that_job_alone(
    name: str, preset: str, epochs: int | None, inducing: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = experiment(name) if name == "synthetic" else small(experiment(name))
    monkeypatch.setitem(EXPERIMENTS, name, chosen)
    asked: list[ExperimentRequest] = []
    monkeypatch.setattr(mogul.lab.reproduce, "reproduce", lambda request, *others: asked.append(request) or 0)
    points = {"small-data": (10, 20), "missing-outputs": (0, 2)}.get(name)
    splits = SplitChoice((1,)) if name == "synthetic" else SplitChoice((1,), (0, 2))
    jobs = [
        job for job, _ in tasks(chosen, preset=preset, splits=splits, points=points, epochs=epochs, inducing=inducing)
    ]
    assert {job.options["num_inducing"] for job in jobs if job.kind == "model" and inducing} <= {inducing}
    for job in jobs:
        monkeypatch.setattr(sys, "argv", [*shlex.split(job.command), "--out", str(tmp_path)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        assert [found for found, _ in asked.pop().tasks()] == [job]


@pytest.mark.parametrize(
    ("choices", "error", "message"),
    [
        ({"models": ("mogq",)}, UnknownNameError, "model must be one of main, .*Did you mean 'mogp'"),
        ({"models": ("mogp+1-starts",)}, ConfigError, "must have at least 2 starts; .* Try mogp.4-starts"),
        ({"models": ("mogp+some-starts",)}, ConfigError, "must have at least 2 starts"),
        ({"models": ("mogq+2-starts",)}, UnknownNameError, "Did you mean 'mogp'"),
        ({"noises": ("student",)}, UnknownNameError, "noise must be one of constant, .*Did you mean 'student-t'"),
        ({"baselines": ("least-square",)}, UnknownNameError, "Did you mean 'least-squares'"),
        ({"models": ("none",), "baselines": ("none",)}, ConfigError, "must be something to run"),
        ({"epochs": 0}, ConfigError, "--epochs must be at least 1"),
        ({"points": (3,)}, ConfigError, "regression sweeps nothing"),
    ],
)
def test_mistakes_are_found_before_any_work(choices: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tasks(small(experiment("regression")), **choices)


@pytest.mark.parametrize(
    ("name", "points", "message"),
    [
        ("small-data", (41,), "must be from 2 to 40 for these data; got 41"),
        ("missing-outputs", (4,), "must be from 0 to 3 for these data; got 4"),
        ("hidden-units", (0,), "must be from 1 to"),
    ],
)
def test_points_must_suit_the_data(name: str, points: tuple[int, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tasks(small(experiment(name)), points=points)


def test_data_that_are_not_there_are_told_of(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'kuka'"):
        tasks(experiment("regression"), datasets=("kuca",), folder=tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        tasks(experiment("regression"), datasets=("kuka",), folder=tmp_path)
    with pytest.raises(UnknownNameError, match="must be one of radial-cosine; got 'kuka'"):
        tasks(experiment("synthetic"), datasets=("kuka",))
    with pytest.raises(DataError, match="needs at least two groups"):
        tasks(experiment("synthetic"), splits=SplitChoice((), (0,)))


def test_models_may_be_mixed():
    names = ("mogp+linear+gprn+gp-noise", "gprn+mogp+2-starts+linear")
    jobs = [job for job, _ in tasks(small(experiment("regression")), models=names, baselines=("none",))][::-1]
    assert {job.label: job.model for job in jobs} == {
        "MOGP & GPRN + linear + GP noise": "mogp+gprn",
        "GPRN & MOGP + linear × 2 starts": "gprn+mogp",
    }
    assert "--models mogp+gprn+linear+gp-noise" in jobs[0].command
    (alone, _), *_ = tasks(small(experiment("regression")), models=("mogp+linear+gp-noise",), baselines=("none",))
    assert jobs[0].training == alone.training
    assert jobs[0].work == 2 * alone.work


def test_what_is_trained_otherwise_is_not_mixed_in_a_table():
    mixed = mixed_line([line("mogp"), line("dgp")]).on_a_plane
    with pytest.raises(ConfigError, match=r"got MOGP & DGP \+ linear, of which dgp is not trained as mogp is"):
        protocol.default(mixed, 10_000, None, 0, grouped=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mogp+n-mogp-leaky", "must have their options in common; got MOGP with {} and N-MOGP .leaky. with"),
        ("mogp+mogp", "The models of a mixture must differ"),
        ("mogp+linaer", "model must be one of"),
    ],
)
def test_models_that_cannot_be_mixed_are_refused(name: str, message: str):
    with pytest.raises(ConfigError, match=message):
        tasks(small(experiment("regression")), models=(name,))
