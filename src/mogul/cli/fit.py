"""`mogul fit`: from a table to a model file, and its summary."""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mogul.cli.words import (
    chain_words,
    choice_line,
    counted,
    epochs_words,
    floor_words,
    kernels_words,
    named,
    noise_words,
    objective_words,
    regressed_words,
    seconds_words,
    transforms_words,
)
from mogul.core.check import Check
from mogul.data import Dataset
from mogul.data.encodings.column import GAPS
from mogul.data.encodings.encoding import InputEncoding
from mogul.data.sources.formats import read_table, table_of_frame
from mogul.data.sources.reading import ON_COMMAND_LINE, Reading
from mogul.data.sources.row_files import RowFiles, names_files, stays_on_disk, whole_frame
from mogul.data.splits import group_numbers
from mogul.errors import ConfigError, as_list
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import Choice
from mogul.models.families import AUTO, FROM_RESIDUALS, is_latent
from mogul.objective import ObjectiveName
from mogul.training import FitRequest
from mogul.training.on_disk import on_disk

_SHOWN = 6


@dataclass(frozen=True)
class Course:
    """The training of one model; a mixture has one for each member.

    `elbo_per_row` is the value of the training objective; `held_out_ll` is the mean log likelihood of validation rows
    in the best epoch, if there are any.
    """

    model: str
    epochs: int
    starts: int
    elbo_per_row: float
    held_out_ll: float | None
    regressed_outputs: list[str]


@dataclass(frozen=True)
class FitSummary:
    """The fitted model, its training and its file.

    `num_calibrated` is the number of calibration groups, or rows without groups. `groups` is the column of labels.
    `kernel` is the kernel's name where one was given or chosen, and `kernels` has the log evidence of those tried.
    `noise_floor` is the least standard deviation of the noise, as a share of an output's scale. `noise_factors` is the
    number of factors of correlated noise: 0 without correlation. `encoding` says what became of inputs that are not
    just numbers, `reading` are the options about the table. `noise_by_objective` tells whether the objective, and not
    residuals, chose noise that depends on the inputs.
    """

    source: str
    out: str
    model: str
    num_rows: int
    num_trained: int
    num_calibrated: int
    input_names: list[str]
    encoding: dict[str, str]
    output_names: list[str]
    groups: str | None
    missing_share: float
    courses: list[Course]
    transforms: dict[str, str]
    autoregressive_outputs: dict[str, dict[str, float]]
    kernel: str | None
    kernels: dict[str, float] | None
    noise: str
    noise_factors: int
    noise_floor: float
    noise_by_objective: bool
    objective: ObjectiveName
    seconds: float
    retrained: bool
    choice: Choice | None
    check: Check | None
    interrupted: bool = False
    quick: bool = False
    reading: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def fit_file(
    path: Path,
    targets: Sequence[str] | None,
    inputs: Sequence[str] | None,
    out: Path,
    request: FitRequest,
    *,
    groups: str | None = None,
    say: Callable[[str], object] = lambda line: None,
    reading: Reading | None = None,
    stream: bool | None = None,
    scratch: Path | None = None,
) -> FitSummary:
    """Fit the columns of a file and save the model; nothing is written if anything fails.

    Args:
        path: path of the table, a folder of tables, or a pattern that names several.
        targets: columns to predict.
        inputs: columns to predict from; None for all others.
        out: the model file; its folder is created.
        request: the model and how to train it.
        groups: a column of group labels; groups are held out as a whole.
        say: receives what was found in the table.
        reading: categories, gaps and the layout of the table.
        stream: whether rows stay on disk; by default where several files would take too much memory.
        scratch: the folder of the scaled copy of rows that stay on disk.
    """
    latent = request.model is not None and is_latent(request.model)
    if latent:
        _refuse_held_out(groups, request)
    reading = reading or Reading(prefix=ON_COMMAND_LINE)
    if stays_on_disk(path, stream):
        files = _files_of(path, targets, inputs, groups, request)
        with on_disk(request, files, scratch) as (own, data):
            return _fitted_file(path, out, data, groups, own)
    table = table_of_frame(whole_frame(path), str(path)) if names_files(path) else read_table(path)
    table, columns = reading.select(table, targets, inputs, groups, latent=latent)
    labels = columns.labels(table)
    data = columns.data(table, latent=latent)
    if labels is not None:
        request = replace(request, groups=group_numbers(labels, data.num_rows))
    for line in reading_lines([*table.notes, *table.changes], data.encoding):
        say(line)
    request.model_for(data)  # refuses too few rows before any warning
    return replace(_fitted_file(path, out, data, groups, request), reading=reading.as_options())


def _fitted_file(path: Path, out: Path, data: Dataset, groups: str | None, request: FitRequest) -> FitSummary:
    """Fit, and write the model; of several workers the first does."""
    started = time.perf_counter()
    fitted = request.fit(data)
    seconds = time.perf_counter() - started
    if request.place.team.is_first:
        out.parent.mkdir(parents=True, exist_ok=True)
        fitted.save(out)
    return _summary(path, out, data, groups, fitted, request, seconds)


def _files_of(
    path: Path, targets: Sequence[str] | None, inputs: Sequence[str] | None, groups: str | None, request: FitRequest
) -> RowFiles:
    """Files whose rows stay on disk."""
    if targets is None:
        raise ConfigError("--targets must name the columns to predict; got none. Try --targets a,b.")
    if request.model is not None and is_latent(request.model):
        raise ConfigError(f"Rows that stay on disk need observed inputs; got {request.model}. Name another model.")
    return RowFiles.of(path, targets, inputs, groups, prefix=ON_COMMAND_LINE)


def reading_lines(notes: Sequence[str], encoding: InputEncoding | None) -> list[str]:
    """What was found in a table and what became of its inputs, in a few lines."""
    words = {} if encoding is None else encoding.words()
    gaps = [name for name, own in words.items() if own == GAPS]
    others = {name: own for name, own in words.items() if own != GAPS}
    lines = [*notes]
    if others:
        shown = [f"{as_list([name])}: {own}" for name, own in list(others.items())[:_SHOWN]]
        lines.append("; ".join(shown) + (f"; and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""))
    if gaps:
        filled = "the mean is filled in, and a column marks them"
        lines.append(f"gaps in {named(gaps)}: {filled} (or --missing-inputs drop, refuse)")
    return [f"{'Read' if not place else '':<8} {line}" for place, line in enumerate(lines)]


def _refuse_held_out(groups: str | None, request: FitRequest) -> None:
    """Refuse held-out rows for models with latent inputs, which only training rows have."""
    given = {
        "--groups": groups is not None,
        "--noise auto": request.options.get("noise") == AUTO,
        "--calibrate": request.calibrate is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise ConfigError(
                f"{option} needs a model with observed inputs, so that rows can be held out; got {request.model}. "
                "Leave it out."
            )


def _summary(
    path: Path,
    out: Path,
    data: Dataset,
    groups: str | None,
    fitted: Fitted,
    request: FitRequest,
    seconds: float,
) -> FitSummary:
    assert fitted.history.num_rows is not None  # only old files lack it
    return FitSummary(
        source=str(path),
        out=str(out),
        model=fitted.model_name,
        num_rows=data.population,
        num_trained=fitted.history.num_rows,
        num_calibrated=0 if fitted.calibration is None else len(np.unique(fitted.calibration.groups)),
        input_names=data.input_columns,
        encoding={} if data.encoding is None else data.encoding.words(),
        output_names=data.output_names,
        groups=groups,
        missing_share=data.num_missing / data.y.size,
        courses=[_course(each) for each in fitted.single_models],
        transforms=fitted.transforms,
        autoregressive_outputs=fitted.autoregressive_outputs,
        kernel=fitted.kernel_name,
        kernels=fitted.history.kernels,
        noise=fitted.noise_name,
        noise_factors=fitted.noise_factors,
        noise_floor=fitted.noise_floor,
        noise_by_objective=_noise_by_objective(fitted, request),
        objective=request.objective,
        seconds=seconds,
        retrained=fitted.history.retrained,
        choice=fitted.choice,
        check=fitted.check,
        interrupted=fitted.history.interrupted,
        quick=fitted.history.quick,
    )


def _noise_by_objective(fitted: Fitted, request: FitRequest) -> bool:
    """Whether the objective chose the noise: balanced training needs noise that depends on the inputs."""
    config = None if fitted.blueprint is None else fitted.blueprint.config
    left_open = request.options.get("noise", FROM_RESIDUALS) == FROM_RESIDUALS
    return left_open and request.objective == "balanced" and config is not None and config.start == "exact"


def _course(fitted: Fitted) -> Course:
    history = fitted.history
    assert history.num_rows is not None
    return Course(
        model=fitted.model_name,
        epochs=history.num_epochs,
        starts=len({record.start for record in history.records}),
        elbo_per_row=history.elbo[-1] / history.num_rows,
        held_out_ll=history.held_out,
        regressed_outputs=fitted.regressed_outputs,
    )


def fit_lines(summary: FitSummary, modules: Sequence[str] = ()) -> list[str]:
    """Sizes, training, the comparison with least squares, and the next commands, with these modules to import."""
    missing = f"{summary.missing_share:.1%} missing" if summary.missing_share else "none missing"
    trained = f", of which {summary.num_trained:,} were trained on" if summary.num_trained < summary.num_rows else ""
    lines = [
        f"Rows     {summary.num_rows:,}{trained}",
        f"Inputs   {counted(summary.input_names) or 'latent'}",
        f"Outputs  {counted(summary.output_names)} ({missing})",
        *([f"Transform {transforms_words(summary.transforms)}"] if summary.transforms else []),
        *([f"Chain    {chain_words(chain)}"] if (chain := summary.autoregressive_outputs) else []),
        *_model(summary),
        *_kernel(summary),
        f"Noise    {noise_words(summary.noise, summary.noise_factors)}, {floor_words(summary.noise_floor)}",
        *_why_noise(summary),
        *_held_out(summary),
    ]
    if summary.quick:
        rows = "by some of the rows" if summary.num_trained < summary.num_rows else "with constant noise"
        lines.append(f"Quick    a first answer, {rows}; without --quick a better one")
    if summary.interrupted:
        lines.append("Ended    early: interrupted; the model is as it was then")
    if summary.check is not None:
        lines += [f"{'' if place else 'Check':<8} {line}" for place, line in enumerate(summary.check.lines())]
    return [*lines, f"File     {summary.out}", *_next(summary, modules)]


def _model(summary: FitSummary) -> list[str]:
    """One line for a model; for a mixture, one more for each member."""
    if len(summary.courses) == 1:
        return [f"Model    {_course_words(summary.courses[0], summary.objective)}, {seconds_words(summary.seconds)}"]
    whole = f"Model    a mixture of {len(summary.courses)}, {seconds_words(summary.seconds)}"
    return [whole, *(f"         {_course_words(course, summary.objective)}" for course in summary.courses)]


def _kernel(summary: FitSummary) -> list[str]:
    """One line where a kernel was given or chosen."""
    if summary.kernel is None:
        return []
    words = summary.kernel if summary.kernels is None else kernels_words(summary.kernel, summary.kernels)
    return [f"Kernel   {words}"]


def _course_words(course: Course, objective: ObjectiveName) -> str:
    reached = f"{objective_words(objective)} {course.elbo_per_row:.2f} per row"
    forest = regressed_words(course.regressed_outputs)
    if not course.epochs:
        return f"{course.model}: exact GPs, one for each output{forest}, {reached}"
    starts = f"best of {course.starts} starts" if course.starts > 1 else "1 start"
    return f"{course.model}: {epochs_words(course.epochs)}, {starts}{forest}, {reached}"


def _why_noise(summary: FitSummary) -> list[str]:
    if not summary.noise_by_objective:
        return []
    return ["         It depends on the inputs because of --objective balanced; choose another by --noise."]


def _held_out(summary: FitSummary) -> list[str]:
    scores = {course.model: course.held_out_ll for course in summary.courses if course.held_out_ll is not None}
    if summary.choice is not None:
        told = f"Chosen   {choice_line(asdict(summary.choice))}"
    elif scores:
        kept = "in the best epoch" if summary.retrained else "in the epoch that was kept"
        each = ", ".join(f"{model} {ll:.2f}" if len(scores) > 1 else f"{ll:.2f}" for model, ll in scores.items())
        told = f"Held out LL {each} per row, {kept}"
    else:
        return []
    if not summary.retrained:
        return [told]
    rows = "all rows but those to calibrate by" if summary.num_calibrated else "all rows"
    return [told, f"         Then trained on {rows}, for as long"]


def _next(summary: FitSummary, modules: Sequence[str]) -> list[str]:
    out = shlex.quote(summary.out)
    reachable = 0.9 if summary.num_calibrated >= 9 else 0.5  # at most n/(n + 1)
    bands = f"--coverage {reachable}" if summary.num_calibrated else "--quantiles .1,.9"
    imports = f" --import {','.join(modules)}" if modules else ""
    lines = [f"Next     mogul predict {out} NEW.csv --out predictions.csv {bands}{imports}"]
    if summary.check is None and summary.input_names and summary.source != "-" and summary.num_rows >= 5:
        targets = shlex.quote(as_list(summary.output_names))
        source = shlex.quote(summary.source)
        inputs = shlex.quote(as_list(summary.input_names))
        groups = "" if summary.groups is None else f" --groups {shlex.quote(summary.groups)}"
        columns = f"--inputs {inputs} --targets {targets}{groups}{summary.reading}"
        kernel = "" if summary.kernel is None else f" --kernel {shlex.quote(summary.kernel)}"
        lines.append(f"         mogul compare {source} {columns} --models {summary.model}{kernel}{imports}")
    return lines
