"""What a stored record may hold, field by field: a damaged file is named with the field, before anything is made of it.

A rule takes a value and its place, such as `metrics.ll`, and raises an error for what cannot be.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from mogul.errors import DataError

Rule = Callable[[Any, str], None]
METRICS = ("ll", "mrmse", "crps", "coverage_50", "coverage_80", "coverage_95")
TRAINING_METRICS = ("train_ll", "train_mrmse")


def require_stored(content: Mapping[str, Any]) -> None:
    """Check the fields of a record that was read from a file.

    >>> require_stored({"label": 3})
    Traceback (most recent call last):
        ...
    mogul.errors.DataError: experiment must be there; it is missing. Was the file changed?
    """
    _with(**_FIELDS)(content, "")
    if content["error"] is None:
        _with(**dict.fromkeys(METRICS, _number))(content["metrics"], "metrics")


def _text(value: Any, place: str) -> None:
    _require(isinstance(value, str) and _is_unicode(value), place, "text", value)


def _whole(value: Any, place: str) -> None:
    _require(isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53, place, "a number", value)


def _number(value: Any, place: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    _require(is_number and abs(value) < 1e300 and math.isfinite(value), place, "a finite number", value)


def _drawn(value: Any, place: str) -> None:
    """A number of a figure; what is not finite is left out of it."""
    is_number = isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**53)
    _require(value is None or (is_number and not isinstance(value, bool)), place, "a number", value)


def _anything(value: Any, place: str) -> None:
    """Plain values that can be written again."""
    match value:
        case dict():
            for key, item in value.items():
                _text(key, place)
                _anything(item, f"{place}.{key}")
        case list():
            for item in value:
                _anything(item, place)
        case str():
            _text(value, place)


def _one_of(*names: str) -> Rule:
    return lambda value, place: _require(value in names, place, f"one of {', '.join(names)}", value)


def _or_none(rule: Rule) -> Rule:
    return lambda value, place: None if value is None else rule(value, place)


def _each(rule: Rule) -> Rule:
    def check(value: Any, place: str) -> None:
        _require(isinstance(value, list), place, "a list", value)
        for number, item in enumerate(value):
            rule(item, f"{place}[{number}]")

    return check


def _values(rule: Rule, *names: str) -> Rule:
    """An object whose values follow a rule, of these names where there are any."""

    def check(value: Any, place: str) -> None:
        _require(isinstance(value, dict), place, "an object", value)
        for key, item in value.items():
            _text(key, place)
            _require(not names or key in names, place, f"of {', '.join(names)} alone", key)
            rule(item, f"{place}.{key}")

    return check


def _with(**rules: Rule) -> Rule:
    """An object that has these fields at least."""

    def check(value: Any, place: str) -> None:
        _require(isinstance(value, dict), place or "The record", "an object", value)
        for name, rule in rules.items():
            where = f"{place}.{name}".lstrip(".")
            if name not in value:
                raise DataError(f"{where} must be there; it is missing. Was the file changed?")
            rule(value[name], where)

    return check


def _matrix(value: Any, place: str) -> None:
    """Rows of numbers, each of the same length; what is not known is null."""
    _each(_each(_drawn))(value, place)
    _require(len({len(row) for row in value}) <= 1, place, "rows of equal lengths", "others")


def _alike(*names: str, rule: Rule) -> Rule:
    """Nothing, or lists of these names with equal lengths, and rows of equal lengths within."""

    def check(value: Any, place: str) -> None:
        _require(isinstance(value, dict), place, "an object", value)
        present = {name: value[name] for name in names if value.get(name)}
        for name, items in present.items():
            rule(items, f"{place}.{name}")
        lengths = {_shape(items) for items in present.values()}
        _require(not present or len(lengths) == 1, place, "lists of equal lengths", "others")
        _require(not present or len(present) == len(names), place, f"all of {', '.join(names)}", list(present))

    return check


def _shape(items: list[Any]) -> tuple[int, ...]:
    return (len(items), len(items[0])) if isinstance(items[0], list) else (len(items),)


def _calibration(value: Any, place: str) -> None:
    _alike("levels", "covered", rule=_each(_number))(value, place)
    _each(_number)(value.get("pit_counts", []), f"{place}.pit_counts")


def _latent(value: Any, place: str) -> None:
    _with(mean=_matrix)(value, place)
    for name in ("scale", "outputs"):  # older records lack some
        found = value.get(name) or []
        _matrix(found, f"{place}.{name}")
        _require(len(found) in (0, len(value["mean"])), f"{place}.{name}", "a row for each mean", f"{len(found)} rows")
    if value["mean"] and value.get("scale"):
        _alike("mean", "scale", rule=_matrix)(value, place)


def _per_output(value: Any, place: str) -> None:
    _alike("names", "rmse", "ll", rule=_each(_anything))(value, place)
    _each(_text)(value.get("names", []), f"{place}.names")
    for name in ("rmse", "ll"):
        _each(_drawn)(value.get(name, []), f"{place}.{name}")


def _is_unicode(text: str) -> bool:
    """Whether it can be written: JSON may hold half of a pair of surrogates."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def _require(is_so: bool, place: str, rule: str, found: Any) -> None:
    if not is_so:
        raise DataError(f"{place} must be {rule}; got {ascii(found)[:80]}. Was the file changed?")


_FIELDS: dict[str, Rule] = {
    **dict.fromkeys(("experiment", "dataset", "split_label", "label", "model", "preset", "command"), _text),
    "kind": _one_of("model", "baseline"),
    "split": _with(
        dataset=_text,
        kind=_one_of("random", "groups"),
        num_train=_whole,
        num_test=_whole,
        digest=_text,
        seed=_or_none(_whole),
        test_groups=_each(_whole),
    ),
    "settings": _values(_whole),
    "config": lambda value, place: (_with(units=_text, noise_floor=_text)(value, place), _anything(value, place))[0],
    "versions": _values(_text),
    "metrics": _values(_number, *METRICS, *TRAINING_METRICS),
    "per_output": _per_output,
    "calibration": _calibration,
    "predictions": _alike("true", "mean", "std", rule=_matrix),
    "seed": _whole,
    "seconds": _number,
    "curve": _each(_with(epoch=_whole, elbo=_drawn, seconds=_drawn)),
    "latent": _or_none(_latent),
    "commit": _or_none(_text),
    "error": _or_none(_text),
}
