"""Rows on disk, mapped into memory: data sets larger than memory, a batch at a time."""

from pathlib import Path

import numpy as np
import torch

from mogul.data import Batch

_ROWS_AT_ONCE = 500_000


class MappedRows:
    """N rows of inputs and outputs, float32, side by side in one file."""

    def __init__(self, path: Path, num_inputs: int, num_outputs: int) -> None:
        self.path = path
        self.num_inputs = num_inputs
        columns = num_inputs + num_outputs
        self._rows = np.memmap(path, dtype=np.float32, mode="r").reshape(-1, columns)
        self._rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self._rows)

    def random_batch(self, size: int) -> Batch:
        """Any rows, in an order that suits the disk."""
        # Drawn, not permuted: an order of all rows takes eight bytes for each, in memory.
        places = np.sort(self._rng.integers(len(self), size=size))
        rows = torch.from_numpy(self._rows[places])
        batch = Batch.of(rows[:, : self.num_inputs].contiguous(), rows[:, self.num_inputs :].contiguous())
        return Batch(batch.x, batch.y, batch.observed, torch.from_numpy(places))


def write_rows(path: Path, num_rows: int, num_inputs: int, num_outputs: int) -> MappedRows:
    """Random rows, written for real: a sparse file would never touch the disk."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for first in range(0, num_rows, _ROWS_AT_ONCE):
            shape = (min(_ROWS_AT_ONCE, num_rows - first), num_inputs + num_outputs)
            rng.standard_normal(shape, dtype=np.float32).tofile(file)
    return MappedRows(path, num_inputs, num_outputs)
