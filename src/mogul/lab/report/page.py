"""One self-contained page of all results: no network, plotly inside it, text escaped."""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mogul.lab.experiments.lines import Spread
from mogul.lab.experiments.record import Record
from mogul.lab.report.figures import PANELS, Curve, sweep_of
from mogul.lab.report.frame import BOARD_METRICS, SECTIONS, Board, Metric, Results, number
from mogul.storage.atomic import write_whole

KINDS = {"model": "ours", "paper": "the paper", "baseline": "baseline"}

PAGE = "report.html"
MAX_POINTS, MAX_EPOCHS, MAX_MAPPED = 60, 100, 300


def write_report(out: Path, results: Results, tables: Sequence[Board]) -> Path:
    """Write OUT/report.html, and say where it is."""
    text = render(results.records, tables)
    out.mkdir(parents=True, exist_ok=True)
    path = out / PAGE
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))
    return path


def render(records: Sequence[Record], tables: Sequence[Board]) -> str:
    """The page as text."""
    templates = files("mogul.lab.report") / "templates"
    scripts = {name: (templates / name).read_text(encoding="utf-8") for name in ("tables.js", "figures.js")}
    scripts["plotly"] = plotly_source()
    style = (templates / "report.css").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            policy=" ".join(_hash(script) for script in scripts.values()),
            # Our own files, not text from records: the only markup that is not escaped.
            style=Markup(style),
            scripts={name: Markup(text) for name, text in scripts.items()},
            sections=_sections(tables),
            highlights=[board for board in tables if sweep_of(board) is None and board.best("model")],
            failed=[record for record in records if record.is_failed],
            num_jobs=len(records),
            metrics=BOARD_METRICS,
            kinds=KINDS,
            provenance=_provenance(records),
        )
    )


def plotly_source() -> str:
    """plotly.js, such that it may stand inside a script element."""
    # Inside its strings \/ is / and \! is !, while the bare words would end the element.
    return str(get_plotlyjs()).replace("</script", "<\\/script").replace("<!--", "<\\!--")


def print_score(spread: Spread | None, metric: Metric) -> str:
    """A mean, with its spread where the column shows it, or nothing.

    >>> print_score(Spread(-12.345, 0.5), BOARD_METRICS[0])
    '−12.35 ± 0.50'
    """
    if spread is None:
        return ""
    text = f"{spread.mean:.{metric.digits}f}"
    if metric.with_spread and spread.sd is not None:
        text += f" ± {spread.sd:.{metric.digits}f}"
    return text.replace("-", "−")


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mogul.lab.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"score": print_score, "figure_data": figure_data, "digits": digits}
    return environment


def _hash(script: str) -> str:
    """What a content security policy calls a script: only those that it names are run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _sections(tables: Sequence[Board]) -> list[dict[str, Any]]:
    """The tables by experiment, with a heading and a line about it."""
    found: dict[str, list[Board]] = {}
    for board in tables:
        found.setdefault(board.experiment, []).append(board)
    return [
        {"key": name, "title": SECTIONS[name][0], "about": SECTIONS[name][1], "boards": group}
        if name in SECTIONS
        else {"key": name, "title": name, "about": "", "boards": group}
        for name, group in found.items()
    ]


def _provenance(records: Sequence[Record]) -> dict[str, list[str]]:
    """The commits and versions that any of the jobs ran with."""
    commits = {record.commit[:12] for record in records if record.commit}
    versions = {f"{name} {version}" for record in records for name, version in record.versions.items()}
    return {"commits": sorted(commits), "versions": sorted(versions)}


def figure_data(board: Board) -> dict[str, Any]:
    """The first job of each line, best line first, and the sweep, as plain values for JSON."""
    truths: list[Any] = []  # jobs on the same split share theirs
    jobs = [
        _job(record, truths) | {"name": f"{row.label} {row.settings_label}".strip()}
        for row in board.rows
        if (record := row.first) is not None
    ]
    return {"jobs": jobs, "truths": truths, "sweep": _sweep(board)}


def digits(values: Any, significant: int = 4) -> Any:
    """Numbers, nested as they come, with few digits; None for what is not finite.

    >>> digits([[1.23456, float("nan")], 7])
    [[1.235, None], 7.0]
    """
    if isinstance(values, list):
        return [digits(value, significant) for value in values]
    is_number = isinstance(values, int | float) and math.isfinite(values)
    return float(f"{values:.{significant}g}") if is_number else None


def _job(record: Record, truths: list[Any]) -> dict[str, Any]:
    return {
        "kind": record.kind,
        "command": record.command,
        "curve": _curve(record.curve),
        "outputs": _outputs(record.per_output),
        "calibration": _calibration(record.calibration),
        "predictions": _predictions(record.predictions, truths),
        "latent": _latent(record.latent, truths),
    }


def _curve(curve: Any) -> dict[str, Any] | None:
    if not curve:
        return None
    kept = thin(curve, MAX_EPOCHS)
    return {word: [digits(each.get(word), 6) for each in kept] for word in ("epoch", "elbo", "seconds")}


def _outputs(scores: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not scores or not scores.get("rmse"):
        return None
    names = scores.get("names") or [f"output {place + 1}" for place in range(len(scores["rmse"]))]
    return {"names": [str(name) for name in names], "rmse": digits(scores["rmse"]), "ll": digits(scores.get("ll"))}


def _calibration(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if not found else {word: digits(found.get(word)) for word in ("pit_counts", "levels", "covered")}


def _predictions(found: Mapping[str, Any] | None, truths: list[Any]) -> dict[str, Any] | None:
    """Errors of the mean and standard deviations by output, as figures show them, and the place of the truths.

    An error may be a thousandth of the output: few digits of it say more than many of the mean.
    """
    if not found or not found.get("true"):
        return None
    truth, mean, std = (_columns(thin(found[word], MAX_POINTS)) for word in ("true", "mean", "std"))
    errors = [[_difference(*pair) for pair in zip(*columns, strict=True)] for columns in zip(mean, truth, strict=True)]
    return {"truth": _place_among(truths, digits(truth)), "error": digits(errors, 3), "std": digits(std, 3)}


def _place_among(truths: list[Any], truth: Any) -> int:
    """Where these true outputs are, put there where they were not yet."""
    if truth not in truths:
        truths.append(truth)
    return truths.index(truth)


def _latent(found: Mapping[str, Any] | None, truths: list[Any]) -> dict[str, Any] | None:
    """The two latent inputs that spread most, and the place of the rows' outputs, to colour them by, if known."""
    if not found or not found.get("mean") or len(found["mean"][0]) < 1:
        return None
    columns = _columns(found["mean"])
    order = sorted(sorted(range(len(columns)), key=lambda place: -_variance(columns[place]))[:2])
    scales = _columns(found["scale"]) if found.get("scale") else None
    outputs = found.get("outputs")  # of the same rows; older records have none
    return {
        "places": order,
        "mean": [digits(thin(columns[place], MAX_MAPPED)) for place in order],
        "scale": None if scales is None else [digits(thin(scales[place], MAX_MAPPED)) for place in order],
        "truth": _place_among(truths, digits(_columns(thin(outputs, MAX_MAPPED)))) if outputs else None,
    }


def _sweep(board: Board) -> dict[str, Any] | None:
    sweep = sweep_of(board)
    if sweep is None:
        return None
    ends = sweep.ends
    return {
        "axis": sweep.axis,
        "panels": [{"metric": metric, "title": PANELS[metric]} for metric in sweep.panels],
        "curves": [_sweep_curve(curve, sweep.panels, ends) for curve in sweep.curves],
    }


def _sweep_curve(curve: Curve, panels: Sequence[str], ends: tuple[float, float]) -> dict[str, Any]:
    drawn = {}
    for metric in panels:
        values = curve.values(metric)
        if curve.is_level and values:  # the same at every value of the setting
            values = [(end, values[0][1]) for end in ends]
        drawn[metric] = {
            "at": [at for at, _ in values],
            "mean": [digits(spread.mean) for _, spread in values],
            "sd": [digits(spread.sd) for _, spread in values],
        }
    kind = {"dash": curve.dash, "reference": curve.is_reference, "level": curve.is_level}
    return {"label": curve.label, **kind, "drawn": drawn}


def thin(rows: Sequence[Any], most: int) -> list[Any]:
    """At most `most` rows, evenly spaced, including the first and the last.

    >>> thin(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(rows) <= most:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]


def _difference(value: Any, other: Any) -> float | None:
    first, second = number(value), number(other)
    return None if first is None or second is None else first - second


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _variance(values: Sequence[Any]) -> float:
    known = [found for value in values if (found := number(value)) is not None]
    mean = sum(known) / max(1, len(known))
    return sum((value - mean) ** 2 for value in known)
