"""Runs the command line: errors and warnings are one line each on standard error; exit codes tell their kind."""

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from mogul.errors import FileError, MogulError, MogulWarning
from mogul.terminal import one_line, say

DEBUG = "--debug"
FAILED, REFUSED = 1, 2


def run(app: typer.Typer, arguments: list[str]) -> int:
    """Run a command; returns 0 for success, 2 for user errors (usage, data, files), 1 for any other failure.

    `--debug`, anywhere among the arguments, shows tracebacks and the warnings of other packages.
    """
    debug = DEBUG in arguments
    try:
        with _warnings_as_lines(debug):
            kept = [argument for argument in arguments if argument != DEBUG]
            done = app(kept, prog_name="mogul", standalone_mode=False)
        return done if isinstance(done, int) else 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        message, code = _described(error)
        if message:
            _say(message)
        return code


def _described(error: Exception) -> tuple[str, int]:
    """The message for an error, and the exit code."""
    match error:
        case MogulError():
            return str(error), REFUSED if isinstance(error, ValueError | FileError) else FAILED
        case typer.TyperException():
            return _usage(error), error.exit_code
        case typer.Abort():
            return "Stopped. Nothing was written.", FAILED
        case OSError() if error.strerror:
            where = f"; {error.filename}" if error.filename else ""
            return f"A file must be accessible{where}: {error.strerror}. Check its path and the disk space.", FAILED
        case MemoryError():
            return "There must be enough memory; there is not. Use fewer rows, or a smaller model.", FAILED
        case _:
            found = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return f"Internal error: {found}. Run it with {DEBUG}, and report the output.", FAILED


def _usage(error: typer.TyperException) -> str:
    """The message of a usage error with a hint to --help; empty if the help was shown."""
    message = _wrong_value(error) or error.format_message().strip()
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "mogul"
    return message and f"{message if message[-1] in '.?' else message + '.'} Try {command} --help."


def _wrong_value(error: typer.TyperException) -> str | None:
    """The rule for an option's value and the value found; None for other errors."""
    found: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()  # by pydantic, which reads for typer
    if not (isinstance(error, typer.BadParameter) and error.param and found):
        return None
    rule = found[0]["msg"].partition(",")[0].removeprefix("Input should be ")
    return f"{'/'.join(error.param.opts)} must be {rule}; got {found[0]['input']!r}."


@contextmanager
def _warnings_as_lines(debug: bool) -> Iterator[None]:
    """Print mogul's warnings in one line each, each once; warnings of other packages only with --debug."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
        text = f"warning: {message}" if issubclass(category, MogulWarning) else f"{category.__name__}: {message}"
        if text not in said:
            said.add(text)
            _say(text)

    with warnings.catch_warnings():
        warnings.simplefilter("default" if debug else "ignore")
        warnings.simplefilter("always", MogulWarning)
        warnings.showwarning = show
        yield


def _say(text: str) -> None:
    say(f"mogul: {one_line(text)}")
