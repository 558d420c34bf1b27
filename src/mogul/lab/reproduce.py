"""`mogul reproduce` and `mogul report`: from a request to a folder of results, and from its records to tables."""

import sys
from collections.abc import Iterable
from pathlib import Path

from mogul.errors import DataError, warn
from mogul.lab.experiments.backends import BackendName
from mogul.lab.experiments.record import Store
from mogul.lab.experiments.request import ExperimentRequest
from mogul.lab.experiments.run import Provenance, commit, run_all, versions
from mogul.lab.report.figures import write_figures
from mogul.lab.report.frame import (
    Results,
    boards,
    configurations,
    results_frame,
    summary_frame,
    timings_frame,
    write_csv,
)
from mogul.lab.report.page import PAGE, write_report
from mogul.lab.report.tables import TerminalTable, experiment_tables, latex, markdown, result_line
from mogul.storage.atomic import require_folder, write_whole
from mogul.terminal import Screen


def reproduce(
    request: ExperimentRequest, out: Path, num_jobs: int, backend: BackendName = "loky", address: str | None = None
) -> int:
    """Check everything, run what is not done yet, write and print the tables; how many of its jobs failed."""
    require_folder(out)
    store, tasks = Store(out), request.tasks()
    # The stream itself: a job that runs in this process has its own, which nobody sees.
    watched = Screen(file=sys.stderr)
    run_all(tasks, store, num_jobs, Provenance(versions(), commit()), watched, result_line, backend, address)
    stored = store.read()
    written = write_results(out, Results.of(stored.values()))
    asked = [stored[job.slug] for job, _ in tasks]
    screen = Screen()
    for table in experiment_tables(Results.of(asked)):
        screen.print(TerminalTable(table))
    screen.print(where(out, written), markup=False, highlight=False)
    return sum(record.is_failed for record in asked)


def rebuild(out: Path) -> tuple[Results, list[Path]]:
    """Write all that the records of a run say, whether it has ended or not; the results, and where it is."""
    require_folder(out)
    records, damaged = Store(out).read_sound()
    if not records and not damaged:
        raise DataError(
            f"A report needs the records of a run; {out / 'jobs'} has none. Name the folder of mogul reproduce --out."
        )
    if not records:
        raise DataError(f"At least one record must be whole; none of {len(damaged)} is. The first: {damaged[0]}")
    for reason in damaged:
        warn(f"Left out of the report: {reason}")
    results = Results.of(records.values())
    return results, write_results(out, results)


def where(out: Path, written: Iterable[Path]) -> str:
    """A line that names what was written: the page first, a folder of many files once.

    >>> where(Path("runs"), [Path("runs/results.csv"), Path("runs/figures/a.png"), Path("runs/report.html")])
    'Results in runs: report.html, results.csv, figures/'
    """
    names = [path.relative_to(out).parts for path in written]
    short = dict.fromkeys(parts[0] if len(parts) == 1 else f"{parts[0]}/" for parts in names)
    return f"Results in {out}: {', '.join(sorted(short, key=lambda name: (name != PAGE, name.endswith('/'))))}"


def write_results(out: Path, results: Results) -> list[Path]:
    """All that a folder's records say: tables to compute with, tables to print, figures and a page."""
    frames = {
        "results.csv": results_frame(results),
        "summary.csv": summary_frame(results),
        "timings.csv": timings_frame(results),
    }
    for name, frame in frames.items():
        write_csv(out / name, frame)
    tables, ranked = experiment_tables(results), boards(results)
    texts = {
        "configurations.jsonl": configurations(results),
        "tables.md": markdown(tables),
        "tables.tex": latex(tables),
    }
    for name, text in texts.items():
        _write_text(out / name, text)
    pages = [*write_figures(out, ranked), write_report(out, results, ranked)]
    return [*(out / name for name in (*frames, *texts)), *pages]


def _write_text(path: Path, text: str) -> None:
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))
