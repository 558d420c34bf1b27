"""What the page's figures need of each job, small: few rows, few digits, one job for each line."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mogul.lab.report.leaderboard import Board
from mogul.lab.report.records import Record, number
from mogul.lab.report.sweeps import PANELS, Curve, sweep_of

MAX_POINTS, MAX_EPOCHS, MAX_MAPPED = 60, 100, 300


def figure_data(board: Board) -> dict[str, Any]:
    """The first job of each line, best line first, and the sweep, as plain values for JSON."""
    truths: list[Any] = []  # jobs on the same split share theirs
    jobs = [
        _job(record, truths) | {"name": f"{line.label} {line.settings_label}".strip()}
        for line in board.lines
        if (record := line.first) is not None
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
    part = record.content.get
    return {
        "kind": record.kind,
        "command": record.command,
        "curve": _curve(part("curve")),
        "outputs": _outputs(part("per_output")),
        "calibration": _calibration(part("calibration")),
        "predictions": _predictions(part("predictions"), truths),
        "latent": _latent(part("latent"), truths),
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
    """At most so many rows, evenly spaced, the first and the last among them.

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
