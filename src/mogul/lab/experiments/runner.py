"""Runs jobs side by side, stores each as it ends, and shows how far it has come."""

from collections.abc import Callable, Sequence

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mogul.data.splits import GroupedData
from mogul.errors import MogulError
from mogul.lab.experiments.job import Job
from mogul.lab.experiments.record import Record
from mogul.lab.experiments.store import Store
from mogul.lab.experiments.work import Provenance, run_job

# Jobs take minutes: the speed that the time left is told from must not be forgotten between two of them.
_MEMORY_SECONDS = 24 * 3600.0


class WorkerError(MogulError, RuntimeError):
    """A process that did the work is gone."""


def run_all(
    tasks: Sequence[tuple[Job, GroupedData]],
    store: Store,
    num_jobs: int,
    provenance: Provenance,
    console: Console,
    say: Callable[[Record], str],
) -> None:
    """Run what is not yet in the store, so many jobs at a time, each in one thread.

    Args:
        tasks: jobs and their data.
        store: where each record goes as it ends.
        num_jobs: how many at a time.
        provenance: of the records.
        console: where the bar is, and a line for each job that ended.
        say: that line.
    """
    left = {job.slug for job in store.unfinished([job for job, _ in tasks])}
    work = {job.slug: job.work for job, _ in tasks}
    with _bar(console) as bar:
        line = bar.add_task("", total=sum(work.values()), jobs=_count(len(tasks) - len(left), len(tasks)))
        bar.update(line, advance=sum(amount for slug, amount in work.items() if slug not in left))
        num_workers = min(num_jobs, max(1, len(left)))
        # One by one: quick jobs that come first would have slow ones sent in batches, stored only when all are done.
        parallel = Parallel(n_jobs=num_workers, batch_size=1, return_as="generator_unordered")
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
