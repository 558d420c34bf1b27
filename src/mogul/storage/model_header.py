"""What the header of a model file may hold, field by field; other fields are checked by who reads them.

Numbers of outputs and inputs are bounded by the lists of names and of scalings beside them, which are in the file.
"""

from collections.abc import Mapping
from typing import Any

from mogul.errors import DataError
from mogul.storage import rules

# Terms of an epoch may be NaN or infinite where training broke down.
_COLUMNS = {
    **dict.fromkeys(("elbo", "ell", "kl", "log_prior", "jitter"), rules.each(rules.any_number)),
    **dict.fromkeys(("learning_rate", "kl_weight", "seconds"), rules.each(rules.number)),
    **dict.fromkeys(("start", "epoch"), rules.each(rules.whole)),
}
_HISTORY = rules.both(
    rules.having(chosen_start=rules.whole, columns=rules.having(**_COLUMNS)),
    rules.with_optional(
        held_out=rules.or_none(rules.any_number),
        interrupted=rules.flag,
        num_rows=rules.or_none(rules.whole),
        kept_epochs=rules.or_none(rules.whole),
        retrained=rules.flag,
    ),
)
_LAYOUTS = rules.values(rules.each(rules.whole))
_STANDARDISER = rules.having(shift=rules.each(rules.number), scale=rules.each(rules.number))
_CANDIDATE = rules.with_optional(
    model=rules.text, noise=rules.text, ll=rules.or_none(rules.any_number), epochs=rules.whole, seconds=rules.number
)
_CHOICE = rules.having(candidates=rules.each(_CANDIDATE), num_held_out=rules.whole, chosen=rules.plain)
_MEMBER = rules.both(
    rules.having(options=rules.values(rules.plain), layouts=_LAYOUTS, chosen_start=rules.whole),
    rules.having(held_out=rules.or_none(rules.any_number)),
    rules.with_optional(model=rules.text, history=rules.or_none(_HISTORY), config=rules.or_none(rules.plain)),
)
_HEADER = rules.both(
    rules.having(
        kind=rules.one_of("observed", "latent"),
        model=rules.plain,
        options=rules.values(rules.plain),
        num_inputs=rules.whole,
        num_outputs=rules.whole,
        precision=rules.one_of("float32", "float64"),
        config=rules.or_none(rules.plain),
        input_names=rules.each(rules.text),
        output_names=rules.each(rules.text),
        scaling=rules.having(inputs=_STANDARDISER, outputs=_STANDARDISER),
        layouts=_LAYOUTS,
        history=_HISTORY,
        versions=rules.values(rules.text),
    ),
    rules.with_optional(members=rules.each(_MEMBER), choice=rules.or_none(_CHOICE), extra=rules.plain),
)


def require_model_header(header: Mapping[str, Any]) -> None:
    """Check the header of a model file.

    >>> require_model_header({"kind": "odd"})
    Traceback (most recent call last):
        ...
    mogul.errors.DataError: kind must be one of observed, latent; got 'odd'. Was the file changed?
    """
    _HEADER(header, "")
    for place, history in [("history", header["history"]), *_histories_of_members(header)]:
        lengths = {len(column) for column in history["columns"].values()}
        rules.require(len(lengths) == 1 and lengths != {0}, f"{place}.columns", "lists of equal lengths", lengths)
        starts = history["columns"]["start"]
        rules.require(history["chosen_start"] in starts, f"{place}.chosen_start", "a start of its", sorted(set(starts)))
    for side in ("inputs", "outputs"):
        scale = header["scaling"][side]["scale"]
        if not all(value > 0 for value in scale):
            raise DataError(f"scaling.{side}.scale must be positive; got {scale}. Was the file changed?")


def _histories_of_members(header: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    members = header.get("members", [])
    return [
        (f"members[{place}].history", member["history"])
        for place, member in enumerate(members)
        if member.get("history")
    ]
