"""Where text leaves for a terminal: names in files may hold escape sequences, which are printed and not obeyed."""

import json
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

# Control and format characters, surrogates, separators of lines and paragraphs.
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


def _is_watched() -> bool:
    return sys.stdout.isatty()


def _is_unprintable(sign: str) -> bool:
    return not sign.isprintable() and unicodedata.category(sign) in _UNPRINTABLE


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode()
