"""`mogul report`: tables, figures and the page of a run, made anew from its records."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mogul.cli.options import Json, give


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that mogul reproduce --out wrote to.")],
    publish_to: Annotated[
        Path | None,
        typer.Option("--publish", help="Also copy what is small of it to this folder, to be kept in a repository."),
    ] = None,
    json_: Json = False,
) -> None:
    """Make the tables, the figures and the page of a run anew from its records, whether it has ended or not.

    Nothing is trained. What stands in DIR/jobs is the run; everything beside it is written again.

    Example: mogul report mogul-results --publish results/kuka
    """
    from mogul.lab import require_extra

    require_extra()
    from mogul.lab.report.overview import publish, require_place
    from mogul.lab.report.tables import TerminalTable, experiment_tables, result_line
    from mogul.lab.reproduce import rebuild, where

    if publish_to is not None:
        require_place(folder, publish_to)
    results, written = rebuild(folder)
    published = [] if publish_to is None else publish(folder, publish_to)
    paths = [str(path) for path in (*written, *published)]
    failed = [result_line(record) for record in results.records if record.is_failed]
    content = {"folder": str(folder), "jobs": len(results.jobs), "failed": failed, "written": paths}
    lines: list[Any] = [TerminalTable(table) for table in experiment_tables(results)]
    lines.append(where(folder, written))
    if publish_to is not None:
        lines.append(where(publish_to, published))
    give(content, lines, json_)
