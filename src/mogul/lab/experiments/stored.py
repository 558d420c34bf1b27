"""What a stored record may hold, field by field: a damaged file is named with the field."""

from collections.abc import Mapping
from typing import Any

from mogul.storage import rules
from mogul.storage.rules import Rule

METRICS = ("ll", "mrmse", "crps", "coverage_50", "coverage_80", "coverage_95")
TRAINING_METRICS = ("train_ll", "train_mrmse")
_drawn = rules.or_none(rules.any_number)  # of figures, which leave out what is not finite


def require_stored(content: Mapping[str, Any]) -> None:
    """Check the fields of a record that was read from a file.

    >>> require_stored({"label": 3})
    Traceback (most recent call last):
        ...
    mogul.errors.DataError: experiment must be there; it is missing. Was the file changed?
    """
    rules.having(**_FIELDS)(content, "")
    if content["error"] is None:
        rules.having(**dict.fromkeys(METRICS, rules.number))(content["metrics"], "metrics")


def _alike(*names: str, rule: Rule) -> Rule:
    """Nothing, or lists of these names with equal lengths, and rows of equal lengths within."""

    def check(value: Any, place: str) -> None:
        rules.require(isinstance(value, dict), place, "an object", value)
        present = {name: value[name] for name in names if value.get(name)}
        for name, items in present.items():
            rule(items, f"{place}.{name}")
        lengths = {_shape(items) for items in present.values()}
        rules.require(not present or len(lengths) == 1, place, "lists of equal lengths", "others")
        rules.require(not present or len(present) == len(names), place, f"all of {', '.join(names)}", list(present))

    return check


def _shape(items: list[Any]) -> tuple[int, ...]:
    return (len(items), len(items[0])) if isinstance(items[0], list) else (len(items),)


def _calibration(value: Any, place: str) -> None:
    _alike("levels", "covered", rule=rules.each(rules.number))(value, place)
    rules.each(rules.number)(value.get("pit_counts", []), f"{place}.pit_counts")


def _latent(value: Any, place: str) -> None:
    rules.having(mean=rules.matrix)(value, place)
    for name in ("scale", "outputs"):  # older records lack some
        found, own = value.get(name) or [], f"{place}.{name}"
        rules.matrix(found, own)
        rules.require(len(found) in (0, len(value["mean"])), own, "a row for each mean", f"{len(found)} rows")
    if value["mean"] and value.get("scale"):
        _alike("mean", "scale", rule=rules.matrix)(value, place)


def _per_output(value: Any, place: str) -> None:
    _alike("names", "rmse", "ll", rule=rules.each(rules.plain))(value, place)
    rules.each(rules.text)(value.get("names", []), f"{place}.names")
    for name in ("rmse", "ll"):
        rules.each(_drawn)(value.get(name, []), f"{place}.{name}")


_FIELDS: dict[str, Rule] = {
    **dict.fromkeys(("experiment", "dataset", "split_label", "label", "model", "preset", "command"), rules.text),
    "kind": rules.one_of("model", "baseline"),
    "split": rules.having(
        dataset=rules.text,
        kind=rules.one_of("random", "groups"),
        num_train=rules.whole,
        num_test=rules.whole,
        digest=rules.text,
        seed=rules.or_none(rules.whole),
        test_groups=rules.each(rules.whole),
    ),
    "settings": rules.values(rules.whole),
    "config": rules.both(rules.having(units=rules.text, noise_floor=rules.text), rules.plain),
    "versions": rules.values(rules.text),
    "metrics": rules.values(rules.number, *METRICS, *TRAINING_METRICS),
    "per_output": _per_output,
    "calibration": _calibration,
    "predictions": _alike("true", "mean", "std", rule=rules.matrix),
    "seed": rules.whole,
    "seconds": rules.number,
    "curve": rules.each(rules.having(epoch=rules.whole, elbo=_drawn, seconds=_drawn)),
    "latent": rules.or_none(_latent),
    "commit": rules.or_none(rules.text),
    "error": rules.or_none(rules.text),
}
