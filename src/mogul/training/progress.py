"""A progress bar for a person; silence for a file."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from mogul.fitted.history import EpochRecord


class TrainingProgress:
    """Epoch, ELBO, learning rate and time left, on a terminal; nothing elsewhere.

    Args:
        total: how many epochs there will be over all starts.
        label: what is being trained.
        console: where to write; standard error by default, so that output can be piped.
        completed: how many of the epochs are done already.
    """

    def __init__(self, total: int, label: str, console: Console | None = None, completed: int = 0) -> None:
        console = console or Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} epochs"),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task(label, total=total, completed=completed, status="")

    def __enter__(self) -> "TrainingProgress":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, record: EpochRecord) -> None:
        """One epoch is done."""
        status = f"start {record.start + 1}  ELBO {record.elbo:,.1f}  rate {record.learning_rate:.2g}"
        self._progress.update(self._task, advance=1, status=status)
