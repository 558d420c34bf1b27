"""What `mogul fit` and `mogul evaluate` found, for a terminal."""

import shlex
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from mogul.cli.choices import choice_line
from mogul.cli.evaluate import BAND, Evaluation
from mogul.cli.fit import Course, FitSummary
from mogul.cli.objectives import objective_words
from mogul.cli.words import counted, epochs_words, seconds_words
from mogul.errors import as_list
from mogul.objective import ObjectiveName


def fit_lines(summary: FitSummary) -> list[str]:
    """Sizes, how training went, whether it was worth it, and what to type next."""
    missing = f"{summary.missing_share:.1%} missing" if summary.missing_share else "none missing"
    trained = f", of which {summary.num_trained:,} were trained on" if summary.num_trained < summary.num_rows else ""
    lines = [
        f"Rows     {summary.num_rows:,}{trained}",
        f"Inputs   {counted(summary.input_names) or 'latent'}",
        f"Outputs  {counted(summary.output_names)} ({missing})",
        *_model(summary),
        f"Noise    {noise_words(summary.noise, summary.noise_factors)}, {floor_words(summary.noise_floor)}",
        *_why_noise(summary),
        *_held_out(summary),
    ]
    if summary.check is not None:
        board = summary.check.leaderboard
        rows = f"a fit to the other rows, on {summary.check.held_out_rows} held out"
        scores = ", ".join(f"{entry.label} {entry.ll:.2f}" for entry in board.entries)
        lines += [f"Check    {rows}: LL {scores}", f"         {board.verdict}"]
        lines += [f"         {label} failed: {reason}" for label, reason in board.failures.items()]
    return [*lines, f"File     {summary.out}", *_next(summary)]


def _model(summary: FitSummary) -> list[str]:
    """A model in a line; a mixture, and a line for each of those in it."""
    if len(summary.courses) == 1:
        return [f"Model    {_course(summary.courses[0], summary.objective)}, {seconds_words(summary.seconds)}"]
    whole = f"Model    a mixture of {len(summary.courses)}, {seconds_words(summary.seconds)}"
    return [whole, *(f"         {_course(course, summary.objective)}" for course in summary.courses)]


def _course(course: Course, objective: ObjectiveName) -> str:
    reached = f"{objective_words(objective)} {course.elbo_per_row:.2f} per row"
    if not course.epochs:
        return f"{course.model}: exact GPs, one for each output, {reached}"
    starts = f"best of {course.starts} starts" if course.starts > 1 else "1 start"
    return f"{course.model}: {epochs_words(course.epochs)}, {starts}, {reached}"


def _why_noise(summary: FitSummary) -> list[str]:
    if not summary.noise_by_objective:
        return []
    return ["         It depends on the inputs because of --objective balanced; --noise names another."]


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


def _next(summary: FitSummary) -> list[str]:
    out = shlex.quote(summary.out)
    reachable = 0.9 if summary.num_calibrated >= 9 else 0.5  # at most n/(n + 1)
    bands = f"--coverage {reachable}" if summary.num_calibrated else "--quantiles .1,.9"
    lines = [f"Next     mogul predict {out} NEW.csv --out predictions.csv {bands}"]
    if summary.check is None and summary.input_names and summary.source != "-" and summary.num_rows >= 5:
        targets = shlex.quote(as_list(summary.output_names))
        source = shlex.quote(summary.source)
        inputs = shlex.quote(as_list(summary.input_names))
        groups = "" if summary.groups is None else f" --groups {shlex.quote(summary.groups)}"
        columns = f"--inputs {inputs} --targets {targets}{groups}"
        lines.append(f"         mogul compare {source} {columns} --models {summary.model}")
    return lines


def evaluation_tables(evaluation: Evaluation) -> list[Any]:
    """All outputs together, then each."""
    scores = evaluation.scores
    together = Table(
        title=f"{evaluation.model} on {evaluation.num_rows:,} rows of {evaluation.source}",
        caption="In units of each output's standard deviation in training: MRMSE 1 is what its mean scores. "
        f"Noise: {noise_words(evaluation.noise, evaluation.noise_factors)}, {floor_words(evaluation.noise_floor)}.",
    )
    levels = [f"in {level:.0%} band" for level in scores.coverage]
    for heading in ("LL per row", "MRMSE", "CRPS", *levels):
        together.add_column(heading, justify="right")
    shares = [f"{share:.0%}" for share in scores.coverage.values()]
    together.add_row(f"{scores.ll:.2f}", f"{scores.mrmse:.3f}", f"{scores.crps:.4f}", *shares)
    note = ["Latent inputs were inferred from the outputs that are scored here."] if evaluation.inferred_inputs else []
    return [together, _output_table(evaluation), *note]


def _output_table(evaluation: Evaluation) -> Table:
    table = Table(title="Each output, in its own units")
    table.add_column("output")
    for heading in ("known", "RMSE", "R²", f"in {BAND:.0%} band"):
        table.add_column(heading, justify="right")
    for each in evaluation.outputs:
        table.add_row(
            Text(each.name),
            f"{each.num_known:,}",
            "" if each.rmse is None else f"{each.rmse:.4g}",
            "" if each.r2 is None else f"{each.r2:.3f}",
            "" if each.in_band is None else f"{each.in_band:.0%}",
        )
    return table


def noise_words(noise: str, num_factors: int) -> str:
    """A kind of noise, and whether it is correlated across outputs.

    >>> noise_words("gp", 0), noise_words("gp", 2)
    ('gp', 'gp, correlated across outputs (2 factors)')
    """
    if not num_factors:
        return noise
    return f"{noise}, correlated across outputs ({num_factors} factor{'s' if num_factors > 1 else ''})"


def floor_words(floor: float) -> str:
    """A floor as a share of an output's scale, in words.

    >>> floor_words(1e-4), floor_words(0.0)
    ("sd at least 0.0001 of an output's scale", 'no floor')
    """
    return f"sd at least {floor:.3g} of an output's scale" if floor else "no floor"
