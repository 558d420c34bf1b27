"""Where text leaves for a terminal: names in files may hold escape sequences, which are printed and not obeyed."""

import json
import sys
import threading
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import IO, Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from mogul.errors import ConfigError

# Control and format characters, surrogates, separators of lines and paragraphs.
Item = TypeVar("Item")
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str, kept: str = "\n\t") -> str:
    r"""The text with control characters escaped, except those in `kept`.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    if text.isprintable():
        return text
    return "".join(sign if sign in kept or not _is_unprintable(sign) else _escaped(sign) for sign in text)


def one_line(text: str) -> str:
    r"""The same in one line.

    >>> one_line("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    """
    return printable(text, kept="")


def printable_json(content: Any) -> str:
    r"""JSON without control characters: they are escaped in JSON's own way, so that it reads the same.

    >>> printable_json(["\x9b1m", "é"])
    '[\n  "\\u009b1m",\n  "é"\n]'
    """
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    return "".join(json.dumps(sign)[1:-1] if sign != "\n" and _is_unprintable(sign) else sign for sign in text)


def say(text: str) -> None:
    """A line on standard error."""
    print(printable(text), file=sys.stderr)


def put(text: str, end: str = "\n") -> None:
    """Text on standard output: as it is into a file or a pipe, without control characters on a terminal."""
    print(printable(text) if _is_watched() else text, end=end)


class Screen(Console):
    """A console of rich's that escapes control characters in what it is given; its own sequences stay."""

    def render_str(self, text: str, **settings: Any) -> Text:
        """Text from a string, for lines and cells of tables."""
        return super().render_str(printable(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of anything that is printed."""
        if isinstance(renderable, Text) and renderable.plain != (plain := printable(renderable.plain)):
            renderable = Text(plain, renderable.style, justify=renderable.justify, no_wrap=renderable.no_wrap)
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(printable(text), style)


class Bar:
    """What is being done and how many are left: one bar on a terminal or in a notebook, lines in a log.

    Args:
        verbose: 0 says nothing; 1 has a bar where it can be drawn; 2 has lines elsewhere too, at most one in a second,
            and one every three seconds while nothing changes.
        console: where to write; standard error by default, so that output can be piped.

    Example:
        >>> with Bar(verbose=0) as bar:
        ...     bar.stage("exact GP", 2)
        ...     bar.advance()
        >>> bar.words
        'exact GP 2 of 2'
    """

    _OFTEN, _SELDOM = 1.0, 3.0  # seconds between lines

    def __init__(self, verbose: int = 1, console: Console | None = None) -> None:
        if verbose not in (0, 1, 2):
            raise ConfigError(f"verbose must be 0, 1 or 2; got {verbose!r}. Leave it out for a bar.")
        self._verbose, self._console = verbose, console
        self._drawn: tuple[Progress, TaskID] | None = None  # while it is entered
        self._log: IO[str] | None = None
        self._ended: threading.Event | None = None
        self._depth, self._began, self._last = 0, 0.0, 0.0
        self._label, self._status, self._done, self._total = "", "", 0, 0
        self._chapter = ""

    def __enter__(self) -> "Bar":
        self._depth += 1
        if self._depth == 1:
            self._began = self._last = time.monotonic()
            self._begin(self._console or Screen(stderr=True))
        return self

    def _begin(self, console: Console) -> None:
        """Draw a bar, or write lines, one of which comes from a thread of its own while nothing changes."""
        if self._verbose and (console.is_terminal or console.is_jupyter):
            columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn()
            status = TextColumn("{task.fields[status]}", markup=False)
            drawn = Progress(*columns, status, TimeElapsedColumn(), console=console, transient=True)
            self._drawn = drawn, drawn.add_task("", total=None, status="")
            drawn.start()
        elif self._verbose > 1:
            self._log, self._ended = console.file, threading.Event()
            threading.Thread(target=self._keep_talking, args=(self._ended,), daemon=True).start()
        self._show()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth:
            return
        if self._drawn is not None:
            self._drawn[0].stop()
        if self._ended is not None:
            self._ended.set()
        self._drawn = self._log = self._ended = None

    def chapter(self, label: str) -> None:
        """Name something whose stages follow, and are shown after it; empty ends it."""
        self._chapter, self._label, self._total = label, "", 0

    def stage(self, label: str, total: int = 1, done: int = 0) -> None:
        """Begin something that is done `total` times."""
        self._label, self._total, self._done, self._status = label, total, done, ""
        self._show()

    def advance(self, status: str = "") -> None:
        """Count one of them as done."""
        self._done, self._status = min(self._done + 1, self._total), status
        self._show()

    def reach(self, done: int, status: str = "") -> None:
        """So many of them are done."""
        self._done, self._status = min(done, self._total), status
        self._show()

    @property
    def words(self) -> str:
        """What is being done now."""
        count = f" {min(self._done + 1, self._total)} of {self._total}" if self._total > 1 else ""
        return ": ".join(part for part in (self._chapter, f"{self._label}{count}") if part)

    def _show(self) -> None:
        if self._drawn is not None:
            drawn, task = self._drawn
            total = self._total if self._total > 1 else None
            words = printable(self.words)
            drawn.update(task, description=words, completed=self._done, total=total, status=self._status)
        self._say(self._OFTEN)

    def _say(self, period: float) -> None:
        now, log = time.monotonic(), self._log
        if log is not None and self.words and now - self._last >= period:
            self._last = now
            parts = f"{now - self._began:.0f} s", self.words, self._status
            print(one_line("  ".join(part for part in parts if part)), file=log, flush=True)

    def _keep_talking(self, ended: threading.Event) -> None:
        while not ended.wait(0.25):
            self._say(self._OFTEN if self._last == self._began else self._SELDOM)


def counted(bar: Bar, label: str, items: Sequence[Item]) -> Iterator[tuple[int, Item]]:
    """The items with their places, each counted on the bar when it is done.

    >>> list(counted(Bar(0), "letter", "ab"))
    [(0, 'a'), (1, 'b')]
    """
    bar.stage(label, len(items))
    for place, item in enumerate(items):
        yield place, item
        bar.advance()


def _is_watched() -> bool:
    return sys.stdout.isatty()


def _is_unprintable(sign: str) -> bool:
    return not sign.isprintable() and unicodedata.category(sign) in _UNPRINTABLE


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode()
