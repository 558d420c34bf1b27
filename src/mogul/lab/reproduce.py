"""`mogul reproduce` and `mogul report`: from a request to a folder of results, and from its records to tables."""

import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from mogul.errors import DataError
from mogul.lab.experiments.provenance import commit, versions
from mogul.lab.experiments.record import Record
from mogul.lab.experiments.request import Request
from mogul.lab.experiments.runner import run_all
from mogul.lab.experiments.store import Store
from mogul.lab.experiments.work import Provenance
from mogul.lab.report.experiment_tables import experiment_tables, result_line
from mogul.lab.report.figures import write_figures
from mogul.lab.report.latex import latex
from mogul.lab.report.markdown import markdown
from mogul.lab.report.page import PAGE, write_report
from mogul.lab.report.results import configurations, results_frame, timings_frame, write_csv
from mogul.lab.report.summary import summary_frame
from mogul.lab.report.tables import TerminalTable
from mogul.storage.atomic import require_folder, write_whole


def reproduce(request: Request, out: Path, num_jobs: int) -> int:
    """Check everything, run what is not done yet, write and print the tables; how many of its jobs failed."""
    require_folder(out)
    store, tasks = Store(out), request.tasks()
    store.unfinished([job for job, _ in tasks])
    # The stream itself: a job that runs in this process has its own, which nobody sees.
    watched = Console(file=sys.stderr)
    run_all(tasks, store, num_jobs, Provenance(versions(), commit()), watched, result_line)
    stored = store.read()
    written = write_results(out, stored.values())
    asked = [stored[job.slug] for job, _ in tasks]
    screen = Console()
    for table in experiment_tables(asked):
        screen.print(TerminalTable(table))
    screen.print(where(out, written), markup=False, highlight=False)
    return sum(record.error is not None for record in asked)


def rebuild(out: Path) -> tuple[list[Record], list[Path]]:
    """Write all that the records of a run say, however many of them there are yet; the records, and where it is."""
    require_folder(out)
    records = list(Store(out).read().values())
    if not records:
        raise DataError(
            f"A report needs the records of a run; {out / 'jobs'} has none. Name the folder of mogul reproduce --out."
        )
    return records, write_results(out, records)


def where(out: Path, written: Iterable[Path]) -> str:
    """A line that names what was written: the page first, a folder of many files once.

    >>> where(Path("runs"), [Path("runs/results.csv"), Path("runs/figures/a.png"), Path("runs/report.html")])
    'Results in runs: report.html, results.csv, figures/'
    """
    names = [path.relative_to(out).parts for path in written]
    short = dict.fromkeys(parts[0] if len(parts) == 1 else f"{parts[0]}/" for parts in names)
    return f"Results in {out}: {', '.join(sorted(short, key=lambda name: (name != PAGE, name.endswith('/'))))}"


def write_results(out: Path, records: Iterable[Record]) -> list[Path]:
    """All that a folder's records say: tables to compute with, tables to print, and a page."""
    records = list(records)
    frames = {
        "results.csv": results_frame(records),
        "summary.csv": summary_frame(records),
        "timings.csv": timings_frame(records),
    }
    for name, frame in frames.items():
        write_csv(out / name, frame)
    tables = experiment_tables(records)
    texts = {
        "configurations.jsonl": configurations(records),
        "tables.md": markdown(tables),
        "tables.tex": latex(tables),
    }
    for name, text in texts.items():
        _write_text(out / name, text)
    return [*(out / name for name in (*frames, *texts)), *write_figures(out), write_report(out)]


def _write_text(path: Path, text: str) -> None:
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))
