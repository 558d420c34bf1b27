"""What a user says about rows to validate on, and about shares."""

from typing import Any

import numpy as np
from jaxtyping import Int

from mogul._typing import IntArray
from mogul.data import Dataset
from mogul.errors import ConfigError, DataError, ShapeError


def with_validation(data: Dataset, own: Dataset) -> tuple[Dataset, Int[IntArray, "W"]]:
    """Rows to train on and rows of a user's own to watch, and the places of the latter."""
    if own.num_outputs != data.num_outputs:
        raise ShapeError(
            f"validation must have outputs like Y, {data.num_outputs} columns; got {own.num_outputs}. "
            f"The columns are {', '.join(data.output_names)}."
        )
    if np.isnan(own.y).all():
        raise DataError("validation must have some known outputs; all are NaN. Give rows with known outputs.")
    own = own.in_order(data.input_names, data.output_names)
    both = Dataset(np.vstack([data.x, own.x]), np.vstack([data.y, own.y]), check_outputs=False)
    both.input_names, both.output_names = data.input_names, data.output_names
    return both, np.arange(data.num_rows, both.num_rows)


def is_pair(validation: Any) -> bool:
    """Whether these are rows of a user's own, inputs and outputs."""
    return isinstance(validation, tuple | list) and len(validation) == 2


def share_of(value: Any, name: str = "validation", otherwise: str = ", or a pair (X, Y) of rows") -> float | None:
    """A share of the rows, or of the groups; None where nobody gave one.

    >>> share_of(0.1)
    0.1
    """
    if value is None or (otherwise and is_pair(value)):
        return None
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or not 0 < value < 1:
        found = value if is_number else type(value).__name__
        raise ConfigError(f"{name} must be a share of the rows, between 0 and 1{otherwise}; got {found}. Try 0.1.")
    return float(value)
