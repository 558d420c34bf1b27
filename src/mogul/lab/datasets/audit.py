"""What one should know of a data set before believing a score on it: repeats, leaks, constants, gaps, zeros."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from mogul._typing import Array, IntArray
from mogul.data.splits import GroupedData

AUDIT_SEED = 0


@dataclass(frozen=True)
class Audit:
    """Counts over the rows of a data set; shares are by column."""

    num_rows: int
    num_inputs: int
    num_outputs: int
    num_groups: int
    repeated_rows: int
    rows_with_a_twin: int
    rows_with_an_input_twin: int
    test_rows: int
    test_rows_with_a_twin_in_training: int
    test_rows_with_an_input_twin_in_training: int
    test_rows_with_a_twin_across_groups: int
    missing_values: int
    constant_columns: tuple[str, ...]
    zero_shares: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"constant_columns": list(self.constant_columns)}


def audit(grouped: GroupedData) -> Audit:
    """Look through all rows; leaks are counted on the random split of seed 0, and between any two groups."""
    data = grouped.data
    values, names = np.column_stack([data.x, data.y]), data.input_names + data.output_names
    kinds = _kinds(values)
    # Without inputs there is nothing for two rows to share but all of it.
    input_kinds = _kinds(data.x) if data.num_inputs else kinds
    train, test = grouped.random_split(AUDIT_SEED).rows(grouped.groups)
    return Audit(
        num_rows=data.num_rows,
        num_inputs=data.num_inputs,
        num_outputs=data.num_outputs,
        num_groups=len(np.unique(grouped.groups)),
        repeated_rows=data.num_rows - len(np.unique(kinds)),
        rows_with_a_twin=int(_has_twin(kinds).sum()),
        rows_with_an_input_twin=int(_has_twin(input_kinds).sum()),
        test_rows=len(test),
        test_rows_with_a_twin_in_training=int(np.isin(kinds[test], kinds[train]).sum()),
        test_rows_with_an_input_twin_in_training=int(np.isin(input_kinds[test], input_kinds[train]).sum()),
        test_rows_with_a_twin_across_groups=_twins_across_groups(kinds, grouped),
        missing_values=data.num_missing,
        constant_columns=_constant(values, names),
        zero_shares={name: float(share) for name, share in zip(names, (values == 0).mean(0), strict=True)},
    )


def _kinds(values: Float[Array, "N K"]) -> Int[IntArray, "N"]:
    """A number for each row, the same for rows that are the same; missing values equal each other."""
    # Adding zero makes −0 the same bytes as 0.
    rows = np.ascontiguousarray(np.where(np.isnan(values), np.nan, values) + 0.0)
    return np.unique(rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel(), return_inverse=True)[1]


def _has_twin(kinds: Int[IntArray, "N"]) -> Bool[np.ndarray, "N"]:
    """Whether another row is the same."""
    _, place, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    return np.asarray(counts[place] > 1)


def _twins_across_groups(kinds: Int[IntArray, "N"], grouped: GroupedData) -> int:
    """Test rows of the split by group that training holds too; none where there is but one group."""
    if len(np.unique(grouped.groups)) < 2:
        return 0
    train, test = grouped.group_split().rows(grouped.groups)
    return int(np.isin(kinds[test], kinds[train]).sum())


def _constant(values: Float[Array, "N K"], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name, column in zip(names, values.T, strict=True) if np.nanmin(column) == np.nanmax(column))
