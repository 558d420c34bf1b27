"""Runs jobs in parallel processes: training, scores, provenance."""

import io
import platform
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from joblib import delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mogul._typing import Array, IntArray
from mogul.data import Dataset, Scaling
from mogul.data.splits import GroupedData
from mogul.errors import FitError, MogulError, MogulWarning
from mogul.lab.experiments.backends import BackendName, jobs_on
from mogul.lab.experiments.declarations import Experiment, experiment
from mogul.lab.experiments.protocol import fixed_threads
from mogul.lab.experiments.record import NUM_THREADS, Job, Record, Store, Subject
from mogul.metrics import LEVELS, Part, coverage, score
from mogul.models.families import members
from mogul.models.model import Latent
from mogul.prediction import Prediction
from mogul.training import FitRequest, Fitted, History
from mogul.training.split import HELD_OUT_SHARE, rows_of_some_groups

PACKAGES = ("mogul", "torch", "gpytorch", "numpy", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    return {"python": platform.python_version()} | {package: version(package) for package in PACKAGES}


def commit() -> str | None:
    """The commit that mogul runs from, with `-dirty` behind it where files differ; None outside its repository."""
    package = Path(__file__).resolve().parents[2]
    top = _git(package, "rev-parse", "--show-toplevel")
    # An installed copy may lie inside some other project's repository.
    if top is None or Path(top).resolve() / "src" / "mogul" != package:
        return None
    return _git(package, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


NUM_BINS = 20
CALIBRATION_LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))
MAX_ROWS = 150
DIGITS = 6


@dataclass(frozen=True)
class Measured:
    """Scores, and the values that figures are drawn from."""

    metrics: dict[str, float]
    per_output: dict[str, list[Any]]
    calibration: dict[str, list[Any]]
    predictions: dict[str, list[Any]]


class _Seen:
    """Keeps what figures need of each batch of predictions: all draws of a test set would not fit into memory."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Array]] = []

    def passing(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield the same batches and remember what figures need."""
        for prediction, y in parts:
            self._parts.append(
                {
                    "true": y,
                    "mean": prediction.mean,
                    "std": prediction.std,
                    "pit": prediction.cdf(y),
                    "ll": output_log_densities(prediction, y),
                }
            )
            # Tables hold the nested estimator: nothing else is computed here.
            yield replace(prediction, density=None), y

    def __getitem__(self, name: str) -> Float[Array, "N P"]:
        return np.concatenate([part[name] for part in self._parts])


def measure(parts: Iterable[Part], output_names: Sequence[str]) -> Measured:
    """Score predictions that come in batches; "ll" is the paper's nested estimator, `ll_nested`."""
    seen = _Seen()
    scores = score(seen.passing(parts), nested=True)
    assert scores.ll_nested is not None
    pit = seen["pit"]
    known = pit[~np.isnan(pit)]
    rmse = np.sqrt(np.nanmean(np.square(seen["true"] - seen["mean"]), axis=0))
    rows = evenly_spaced(len(pit), MAX_ROWS)
    return Measured(
        metrics={"ll": scores.ll_nested, "mrmse": scores.mrmse, "crps": scores.crps}
        | {f"coverage_{round(100 * level)}": scores.coverage[level] for level in LEVELS},
        per_output={
            "names": list(output_names),
            "rmse": rounded(rmse),
            "ll": rounded(np.nanmean(seen["ll"], axis=0)),
        },
        calibration={
            "pit_counts": np.histogram(known, bins=NUM_BINS, range=(0.0, 1.0))[0].tolist(),
            "levels": list(CALIBRATION_LEVELS),
            "covered": rounded(np.array([coverage(pit, level) for level in CALIBRATION_LEVELS])),
        },
        predictions={name: rounded(seen[name][rows]) for name in ("true", "mean", "std")},
    )


def output_log_densities(prediction: Prediction, y: Float[Array, "N P"]) -> Float[Array, "N P"]:
    """log p(y_k) of each output alone, by all draws of the mixture; NaN where it is missing."""
    columns = range(y.shape[1])
    each = [prediction.outputs(slice(k, k + 1)).mixture_log_density(y[:, k : k + 1]) for k in columns]
    return np.where(np.isnan(y), np.nan, np.stack(each, axis=1))


def rounded(values: Float[Array, "*S"]) -> list[Any]:
    """Round to a few significant digits, as nested lists; None for NaN.

    >>> rounded(np.array([[0.12345678, np.nan]]))
    [[0.123457, None]]
    """
    if values.ndim > 1:
        return [rounded(row) for row in values]
    return [None if np.isnan(value) else float(f"{value:.{DIGITS}g}") for value in values.tolist()]


def evenly_spaced(num_rows: int, most: int) -> Int[IntArray, "K"]:
    """At most `most` row indices, from the first row to the last."""
    return np.linspace(0, num_rows - 1, min(num_rows, most)).round().astype(int)


MAX_LATENT_ROWS = 500


@dataclass(frozen=True)
class Provenance:
    """What computed a record: versions of packages, and the commit."""

    versions: dict[str, str]
    commit: str | None


def run_job(job: Job, grouped: GroupedData, provenance: Provenance) -> Record:
    """The record of a job: its scores, or its error, so that the other jobs go on."""
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
        with _quiet(), fixed_threads(NUM_THREADS):
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
    """Check that all restarts of a mixture succeeded; a model that exact GPs solve has one."""
    if fitted.is_solved:
        return
    asked = len(members(job.model)) * (1 if job.training is None else job.training.num_kept)
    if fitted.num_members < asked:
        raise FitError(
            f"All {asked} of a mixture must train; {fitted.num_members} did. Try fewer starts, or another seed."
        )


def _held_out(job: Job, grouped: GroupedData) -> Int[IntArray, "W"] | None:
    """Indices of the validation rows among the training rows, or None."""
    if not job.holds_out_groups:
        return None
    known, _ = job.split.rows(grouped.groups)
    return rows_of_some_groups(grouped.groups[known], HELD_OUT_SHARE, job.seed)


def _in_units(job: Job, train: Dataset, parts: Iterator[Part]) -> Iterator[Part]:
    """Predictions and outputs in the units of the scores; the scaling is that of the training rows."""
    if job.units == "original":
        yield from parts
        return
    units = Scaling.of(train).outputs
    for prediction, y in parts:
        yield prediction.standardised(units), units.apply(y)


def _outputs_in_units(job: Job, train: Dataset) -> Float[Array, "N P"]:
    """The training outputs in the units of the scores."""
    return train.y if job.units == "original" else Scaling.of(train).outputs.apply(train.y)


def _curve(history: History) -> list[dict[str, float | int]]:
    """ELBO by epoch of the chosen restart, the first one of a mixture, with seconds since it began."""
    passed = 0.0
    curve: list[dict[str, float | int]] = []
    for record in history.records:
        if record.start == history.chosen_start:
            passed += record.seconds
            curve.append({"epoch": record.epoch, "elbo": float(f"{record.elbo:.6g}"), "seconds": round(passed, 3)})
    return curve


def _latent(fitted: Fitted, outputs: Float[Array, "N P"]) -> dict[str, list[Any]] | None:
    """Latent inputs of some training rows and their outputs; None if inputs are observed."""
    inputs = fitted.model.inputs
    if not isinstance(inputs, Latent):
        return None
    q = inputs.marginals()
    rows = evenly_spaced(len(q.mean), MAX_LATENT_ROWS)
    means, scales = (values.detach().double().numpy()[rows] for values in (q.mean, q.var.sqrt()))
    return {"mean": rounded(means), "scale": rounded(scales), "outputs": rounded(outputs[rows])}


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence progress bars and warnings of a job: the run has one bar for all jobs."""
    with redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", MogulWarning)
        yield


# Jobs take minutes: the speed that the time left is told from must not be forgotten between two of them.
_MEMORY_SECONDS = 24 * 3600.0


class WorkerError(MogulError, RuntimeError):
    """A worker process was killed."""


def run_all(
    tasks: Sequence[tuple[Job, GroupedData]],
    store: Store,
    num_jobs: int,
    provenance: Provenance,
    console: Console,
    say: Callable[[Record], str],
    backend: BackendName = "loky",
    address: str | None = None,
) -> None:
    """Run what is not yet in the store, `num_jobs` at a time, each in one thread.

    Args:
        tasks: jobs and their data.
        store: where each record goes as it ends.
        num_jobs: how many at a time.
        provenance: of the records.
        console: where the bar is, and a line for each job that ended.
        say: that line.
        backend: where they run.
        address: of a cluster; by default one is started here.
    """
    left = {job.slug for job in store.unfinished([job for job, _ in tasks])}
    work = {job.slug: job.work for job, _ in tasks}
    with _bar(console) as bar, jobs_on(backend, address, min(num_jobs, max(1, len(left)))) as parallel:
        line = bar.add_task("", total=sum(work.values()), jobs=_count(len(tasks) - len(left), len(tasks)))
        bar.update(line, advance=sum(amount for slug, amount in work.items() if slug not in left))
        calls = (delayed(run_job)(job, grouped, provenance) for job, grouped in tasks if job.slug in left)
        try:
            for record in parallel(calls):
                store.write(record)
                left.remove(record.slug)
                bar.console.print(say(record), markup=False, highlight=False, soft_wrap=True)
                bar.update(line, advance=work[record.slug], jobs=_count(len(tasks) - len(left), len(tasks)))
        except TerminatedWorkerError:
            raise WorkerError(
                f"Every process must live until its job is done; one was killed, perhaps for want of memory, with "
                f"{len(left)} jobs to go. Run the same command again, with fewer --jobs: what is done is kept."
            ) from None


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.fields[jobs]}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        speed_estimate_period=_MEMORY_SECONDS,
    )


def _count(done: int, total: int) -> str:
    return f"{done}/{total} jobs"
