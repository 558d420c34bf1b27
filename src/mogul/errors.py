"""Errors that say the rule, the value found and the remedy."""

import csv
import difflib
import io
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral
from typing import Any


class MogulError(Exception):
    """Base of all errors that mogul raises on purpose."""


class DataError(MogulError, ValueError):
    """The data break a rule: a shape, a type, a value that is not finite."""


class ShapeError(DataError):
    """An array has the wrong shape."""


class ConfigError(MogulError, ValueError):
    """A setting is outside its range."""


class UnknownNameError(ConfigError):
    """A name that is not in the list it should come from: of models, of options, and so on."""

    kind: str = ""
    name: object = None


class FileError(MogulError, OSError):
    """A file is not there, is not what it should be, or cannot be written."""


class NumericalError(MogulError, ArithmeticError):
    """A computation left the range in which its result means something."""


class FitError(NumericalError):
    """Training broke down, and smaller steps from its last good state did not mend it."""


class UnsupportedError(MogulError, NotImplementedError):
    """Something that another library may ask for, and this one does not do."""


class MogulWarning(UserWarning):
    """Something was changed or looks wrong, and the result is still usable."""


def warn(message: str) -> None:
    """Give a `MogulWarning` at the line of the user's code whose call led here: the first outside the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "mogul":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, MogulWarning, stacklevel=level)


def unknown_name(kind: str, name: object, known: Iterable[str], suggested: int = 1) -> UnknownNameError:
    """The error for an unknown name, with the nearest known one as a remedy, or some of them."""
    known = list(known)
    close = difflib.get_close_matches(str(name), known, n=suggested, cutoff=0.6 if suggested == 1 else 0.3)
    *first, last = map(repr, close or [""])
    meant = f"{', '.join(first)} or {last}" if first else last
    remedy = f"Did you mean {meant}?" if close else "Use one of the list."
    error = UnknownNameError(f"{kind} must be one of {', '.join(known)}; got {name!r}. {remedy}")
    error.kind, error.name = kind, name
    return error


def require_positive(**sizes: object) -> None:
    """Check that each named size is a whole number of at least one."""
    _require_whole(1, sizes)


def require_natural(**numbers: object) -> None:
    """Check that each named number is a whole number, 0 or more."""
    _require_whole(0, numbers)


def _require_whole(least: int, numbers: dict[str, object]) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise ConfigError(f"{name} must be a whole number; got {number!r}. Pass an int.")
        if int(number) < least:
            remedy = "Pass a positive number." if least else "0 turns it off."
            raise ConfigError(f"{name} must be at least {least}; got {number}. {remedy}")


def as_list(names: Sequence[str]) -> str:
    """Names as one argument of a command line: between commas, in double quotes where they hold one.

    >>> as_list(["a", "b,c"])
    'a,"b,c"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def require_extra(
    what: str, extra: str, *packages: str, otherwise: str = "", error: type[MogulError] = ConfigError
) -> None:
    """Check that the packages of an extra of mogul are installed.

    >>> require_extra("A page", "lab", "nowhere")
    Traceback (most recent call last):
        ...
    mogul.errors.ConfigError: A page needs the extra mogul[lab]; nowhere is not installed. Run pip install "mogul[lab]".
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        absent = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        raise error(f'{what} needs the extra mogul[{extra}]; {absent}. Run pip install "mogul[{extra}]"{otherwise}.')


def import_extra(what: str, extra: str, module: str, otherwise: str = "", error: type[MogulError] = ConfigError) -> Any:
    """A module that only an extra of mogul installs: imported when it is needed, or refused with the remedy."""
    require_extra(what, extra, module.partition(".")[0], otherwise=otherwise, error=error)
    return import_module(module)
