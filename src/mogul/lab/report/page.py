"""One self-contained page of all results: no network, plotly inside it, text escaped."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mogul.lab.report.compact import digits, figure_data
from mogul.lab.report.leaderboard import METRICS, SECTIONS, Board, Metric, Spread, boards
from mogul.lab.report.records import Record, read_paper, read_records
from mogul.lab.report.sweeps import sweep_of
from mogul.storage.atomic import write_whole

KINDS = {"model": "ours", "paper": "the paper", "baseline": "baseline"}

PAGE = "report.html"


def write_report(out: Path) -> Path:
    """Write OUT/report.html from the jobs in OUT/jobs and, where it is there, OUT/summary.csv; say where it is."""
    records = read_records(out)
    text = render(records, boards(records, read_paper(out)))
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
            metrics=METRICS,
            kinds=KINDS,
            provenance=_provenance(records),
        )
    )


def plotly_source() -> str:
    """plotly.js, such that it may stand inside a script element."""
    from plotly.offline import get_plotlyjs

    # Inside its strings \/ is / and \! is !, while the bare words would end the element.
    return str(get_plotlyjs()).replace("</script", "<\\/script").replace("<!--", "<\\!--")


def print_score(spread: Spread | None, metric: Metric) -> str:
    """A mean, with its spread where the column shows it, or nothing.

    >>> print_score(Spread(-12.345, 0.5), METRICS[0])
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
    commits = {str(record.content["commit"])[:12] for record in records if record.content.get("commit")}
    versions = {
        f"{name} {version}" for record in records for name, version in (record.content.get("versions") or {}).items()
    }
    return {"commits": sorted(commits), "versions": sorted(versions)}
