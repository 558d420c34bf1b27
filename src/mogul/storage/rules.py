"""Rules for plain values read from a file: a value that cannot be is named with its place, before it is used.

A rule takes a value and its place, such as `metrics.ll`, and raises an error for what cannot be.
"""

import math
from collections.abc import Callable
from typing import Any

from mogul.errors import DataError

Rule = Callable[[Any, str], None]
_REMEDY = " Was the file changed?"


def text(value: Any, place: str) -> None:
    """Text that can be written again: JSON may hold half of a pair of surrogates."""
    is_text = isinstance(value, str) and not any("\ud800" <= sign <= "\udfff" for sign in value)
    require(is_text, place, "text", value)


def flag(value: Any, place: str) -> None:
    """True or false."""
    require(isinstance(value, bool), place, "true or false", value)


def whole(value: Any, place: str) -> None:
    """A whole number that others can read, too."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    require(is_whole and abs(value) < 2**63, place, "a whole number", value)


def number(value: Any, place: str) -> None:
    """A finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    require(is_number and abs(value) < 1e300 and math.isfinite(value), place, "a finite number", value)


def any_number(value: Any, place: str) -> None:
    """A number, NaN and infinity among them."""
    is_number = isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)
    require(is_number and not isinstance(value, bool), place, "a number", value)


def plain(value: Any, place: str) -> None:
    """Anything that can be written again."""
    match value:
        case dict():
            for key, item in value.items():
                text(key, place)
                plain(item, f"{place}.{key}")
        case list():
            for item in value:
                plain(item, place)
        case str():
            text(value, place)


def one_of(*names: str) -> Rule:
    """One of these names."""
    return lambda value, place: require(value in names, place, f"one of {', '.join(names)}", value)


def or_none(rule: Rule) -> Rule:
    """Null, or what follows the rule."""
    return lambda value, place: None if value is None else rule(value, place)


def both(*rules: Rule) -> Rule:
    """What follows all of these rules."""

    def check(value: Any, place: str) -> None:
        for rule in rules:
            rule(value, place)

    return check


def each(rule: Rule) -> Rule:
    """A list of what follows the rule."""

    def check(value: Any, place: str) -> None:
        require(isinstance(value, list), place, "a list", value)
        for position, item in enumerate(value):
            rule(item, f"{place}[{position}]")

    return check


def values(rule: Rule, *names: str) -> Rule:
    """An object whose values follow a rule, of these names where there are any."""

    def check(value: Any, place: str) -> None:
        require(isinstance(value, dict), place, "an object", value)
        for key, item in value.items():
            text(key, place)
            require(not names or key in names, place, f"of {', '.join(names)} alone", key)
            rule(item, f"{place}.{key}")

    return check


def having(**rules: Rule) -> Rule:
    """An object that has these fields at least.

    >>> having(a=number)({"a": "x"}, "the file")
    Traceback (most recent call last):
        ...
    mogul.errors.DataError: the file.a must be a finite number; got 'x'. Was the file changed?
    """

    def check(value: Any, place: str) -> None:
        require(isinstance(value, dict), place or "The content", "an object", value)
        for name, rule in rules.items():
            where = f"{place}.{name}".lstrip(".")
            if name not in value:
                raise DataError(f"{where} must be there; it is missing.{_REMEDY}")
            rule(value[name], where)

    return check


def with_optional(**rules: Rule) -> Rule:
    """An object whose fields of these names follow their rules, if it has them."""

    def check(value: Any, place: str) -> None:
        require(isinstance(value, dict), place or "The content", "an object", value)
        having(**{name: rule for name, rule in rules.items() if name in value})(value, place)

    return check


def matrix(value: Any, place: str) -> None:
    """Rows of numbers, each of the same length; what is not known is null."""
    each(each(or_none(any_number)))(value, place)
    require(len({len(row) for row in value}) <= 1, place, "rows of equal lengths", "others")


def require(is_so: bool, place: str, rule: str, found: Any) -> None:
    """Raise the error of a rule that is broken."""
    if not is_so:
        raise DataError(f"{place} must be {rule}; got {ascii(found)[:80]}.{_REMEDY}")


def without_remedy(error: Exception) -> str:
    """What is wrong, to be said in another sentence.

    >>> without_remedy(DataError("a must be text; got 3. Was the file changed?"))
    'a must be text; got 3'
    """
    return str(error).removesuffix(_REMEDY).rstrip(".")
