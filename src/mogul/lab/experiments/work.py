"""The work of one job, in whatever process it runs."""

import io
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from mogul._typing import Array, IntArray
from mogul.data import Dataset, Scaling
from mogul.data.grouped import GroupedData
from mogul.errors import FitError, MogulError, MogulWarning
from mogul.lab.experiments.experiment import Experiment
from mogul.lab.experiments.job import NUM_THREADS, Job
from mogul.lab.experiments.measure import evenly_spaced, measure, rounded
from mogul.lab.experiments.record import Record
from mogul.lab.experiments.registry import experiment
from mogul.lab.experiments.subject import Subject
from mogul.metrics import Part
from mogul.models.families import members
from mogul.models.inputs import Latent
from mogul.training import FitRequest, Fitted, History
from mogul.training.split import HELD_OUT_SHARE, rows_of_some_groups

MAX_LATENT_ROWS = 500


@dataclass(frozen=True)
class Provenance:
    """What computes: versions of packages, and the commit."""

    versions: dict[str, str]
    commit: str | None


def run_job(job: Job, grouped: GroupedData, provenance: Provenance) -> Record:
    """Its record: with scores, or with the error that it ended in, so that the other jobs go on."""
    began = time.perf_counter()

    def record(**outcome: Any) -> Record:
        return Record(
            **{each.name: getattr(job, each.name) for each in fields(Subject)},
            config=job.config,
            **asdict(provenance),
            seconds=round(time.perf_counter() - began, 3),
            **outcome,
        )

    try:
        with _quiet(), _fixed_threads():
            return record(**_run(job, grouped))
    except MogulError as error:
        return record(error=str(error))
    # Whatever it is, it belongs to this row and must not end the others.
    except Exception as error:
        return record(error=f"{type(error).__name__}: {error}")


def _run(job: Job, grouped: GroupedData) -> dict[str, Any]:
    """The fields of a record that are measured."""
    declared = experiment(job.experiment)
    train, test = declared.prepare(*grouped.divide(job.split), job.settings, job.seed)
    if job.training is None:
        return _run_baseline(declared, job, train, test)
    return _run_model(declared, job, train, test, _held_out(job, grouped))


def _run_baseline(declared: Experiment, job: Job, train: Dataset, test: Dataset) -> dict[str, Any]:
    prediction = declared.all_baselines[job.model].fit_predict(train, test, job.seed)
    return asdict(measure(_in_units(job, train, iter([(prediction, test.y)])), test.output_names))


def _run_model(
    declared: Experiment, job: Job, data: Dataset, test: Dataset, held_out: Int[IntArray, "W"] | None
) -> dict[str, Any]:
    # A line's label says what differs from the paper: options that it leaves out are the paper's, not our default.
    fitted = FitRequest(
        model=job.model,
        config=job.training,
        as_in_paper=True,
        mean="linear" if job.linear else "paper",
        options=job.options,
        held_out=held_out,
        retrain=True,
    ).fit(data)
    if fitted.history.interrupted:
        raise KeyboardInterrupt  # what was learnt by then is no result
    _require_all_starts(fitted, job)
    measured = asdict(measure(_in_units(job, data, fitted.predict_parts(test, job.num_draws)), test.output_names))
    if declared.scores_training:
        known = measure(_in_units(job, data, fitted.predict_parts(data, job.num_draws)), data.output_names).metrics
        measured["metrics"] |= {f"train_{name}": known[name] for name in ("ll", "mrmse")}
    return measured | {"curve": _curve(fitted.history), "latent": _latent(fitted, _outputs_in_units(job, data))}


def _require_all_starts(fitted: Fitted, job: Job) -> None:
    """Check that a mixture is one of as many starts as its label says."""
    asked = len(members(job.model)) * (1 if job.training is None else job.training.num_kept)
    if fitted.num_members < asked:
        raise FitError(
            f"All {asked} of a mixture must train; {fitted.num_members} did. Try fewer starts, or another seed."
        )


def _held_out(job: Job, grouped: GroupedData) -> Int[IntArray, "W"] | None:
    """Places among the training rows of those that say how long to train, where some do."""
    if not job.holds_out_groups:
        return None
    known, _ = job.split.rows(grouped.groups)
    return rows_of_some_groups(grouped.groups[known], HELD_OUT_SHARE, job.seed)


def _in_units(job: Job, train: Dataset, parts: Iterator[Part]) -> Iterator[Part]:
    """Predictions and outputs in the units of the scores, learnt on the rows that are trained on."""
    if job.units == "original":
        yield from parts
        return
    units = Scaling.of(train).outputs
    for prediction, y in parts:
        yield prediction.standardised(units), units.apply(y)


def _outputs_in_units(job: Job, train: Dataset) -> Float[Array, "N P"]:
    """The outputs that are trained on, in the units of the scores."""
    return train.y if job.units == "original" else Scaling.of(train).outputs.apply(train.y)


def _curve(history: History) -> list[dict[str, float | int]]:
    """Epochs of the start that was trained to the end, the first of a mixture; seconds since it began."""
    passed = 0.0
    curve: list[dict[str, float | int]] = []
    for record in history.records:
        if record.start == history.chosen_start:
            passed += record.seconds
            curve.append({"epoch": record.epoch, "elbo": float(f"{record.elbo:.6g}"), "seconds": round(passed, 3)})
    return curve


def _latent(fitted: Fitted, outputs: Float[Array, "N P"]) -> dict[str, list[Any]] | None:
    """Where some of the training rows lie, if inputs are latent, and the outputs of the same rows."""
    inputs = fitted.model.inputs
    if not isinstance(inputs, Latent):
        return None
    q = inputs.marginals()
    rows = evenly_spaced(len(q.mean), MAX_LATENT_ROWS)
    means, scales = (values.detach().double().numpy()[rows] for values in (q.mean, q.var.sqrt()))
    return {"mean": rounded(means), "scale": rounded(scales), "outputs": rounded(outputs[rows])}


@contextmanager
def _quiet() -> Iterator[None]:
    """No bars or warnings from within a job: the run has one bar for all of them."""
    with redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", MogulWarning)
        yield


@contextmanager
def _fixed_threads() -> Iterator[None]:
    """The same number of threads wherever a job runs, so that its sums are added up in the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(NUM_THREADS)
    try:
        with threadpool_limits(NUM_THREADS):
            yield
    finally:
        torch.set_num_threads(before)
