"""Rows that stay on disk: what one pass over their files finds, and random batches of a scaled copy.

The pass checks every row, sums what scales and the linear mean need, and keeps a random sample, from which inducing
points and starts come. Memory does not grow with the number of rows.
"""

import hashlib
import io
import math
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mogul._typing import Array, BoolArray, IntArray
from mogul.data.checks import require_some_of_each
from mogul.data.dataset import (
    ROUNDING,
    Batch,
    Dataset,
    Scaling,
    Share,
    Standardiser,
    batch_sizes,
    evenly_spaced,
)
from mogul.data.sources.row_files import RowFiles
from mogul.errors import DataError, FileError

# Rows of the sample, and the most that are held out and kept in memory: scores need no more.
SAMPLE_ROWS, _HELD_OUT_ROWS = 20_000, 5_000
# Blocks of rows that follow each other on disk are shuffled: at most so many, so that their order takes 8 MB. Blocks of
# a pool are read together, and their rows are shuffled.
_BLOCKS, _POOL_ROWS = 2**20, 2**17

Watch = Callable[[int], object]


@dataclass
class Totals:
    """Sums over rows, in units of the first part of them: counts, means, variances and normal equations.

    Example:
        >>> totals = Totals.like(np.zeros((1, 1)), np.zeros((1, 1)))
        >>> totals.add(np.array([[1.0], [3.0]]), np.array([[2.0], [np.nan]]))
        >>> totals.inputs.shift, totals.outputs.shift, totals.num_observed
        (array([2.]), array([2.]), 1)
    """

    units: tuple[Standardiser, Standardiser]  # in which sums are taken, of inputs and of outputs
    complete: Float[Array, "K K"]  # Σ aaᵀ with a = (x, 1), over rows whose outputs are all known
    incomplete: Float[Array, "K K"]  # the same over all other rows
    own: Float[Array, "P K K"]  # for each output, over rows that are incomplete where it is known
    cross: Float[Array, "P K"]  # Σ a y
    square: Float[Array, "P"]  # Σ y²

    @staticmethod
    def like(x: Float[Array, "N D"], y: Float[Array, "N P"]) -> "Totals":
        """Without any rows yet; these give the units."""
        sizes = x.shape[1] + 1, y.shape[1]
        return Totals(
            (_unit_of(x), _unit_of(y)),
            np.zeros((sizes[0], sizes[0])),
            np.zeros((sizes[0], sizes[0])),
            np.zeros((sizes[1], sizes[0], sizes[0])),
            np.zeros((sizes[1], sizes[0])),
            np.zeros(sizes[1]),
        )

    def add(self, x: Float[Array, "N D"], y: Float[Array, "N P"]) -> None:
        """Take in some rows."""
        a = np.column_stack([self.units[0].apply(x), np.ones(len(x))])
        target = self.units[1].apply(y)
        observed = ~np.isnan(target)
        whole = observed.all(1)
        target = np.where(observed, target, 0.0)
        self.complete += a[whole].T @ a[whole]
        rest, known = a[~whole], observed[~whole]
        self.incomplete += rest.T @ rest
        for output in np.flatnonzero(known.any(0)):
            seen = rest[known[:, output]]
            self.own[output] += seen.T @ seen
        self.cross += target.T @ a
        self.square += np.square(target).sum(0)

    @property
    def gram(self) -> Float[Array, "P K K"]:
        """Σ aaᵀ over the rows where each output is known."""
        return self.complete + self.own

    @property
    def num_observed(self) -> int:
        """The number of observed output values."""
        return round(float(self.gram[:, -1, -1].sum()))

    @property
    def inputs(self) -> Standardiser:
        """Mean and standard deviation of each input."""
        every = self.complete + self.incomplete
        return _standardiser(self.units[0], every[-1:, -1], every[-1, :-1], np.diag(every)[:-1])

    @property
    def outputs(self) -> Standardiser:
        """Mean and standard deviation of each output's known values."""
        count = np.maximum(self.gram[:, -1, -1], 1.0)
        return _standardiser(self.units[1], count, self.cross[:, -1], self.square)

    def standardised(self) -> tuple[Float[Array, "P K K"], Float[Array, "P K"], Float[Array, "P"]]:
        """`gram`, `cross` and `square` of standardised inputs and outputs."""
        (own, to), (y_own, y_to) = zip(self.units, (self.inputs, self.outputs), strict=True)
        change = np.diag(np.append(own.scale / to.scale, 1.0))
        change[-1, :-1] = (own.shift - to.shift) / to.scale
        scale, shift = y_own.scale / y_to.scale, (y_own.shift - y_to.shift) / y_to.scale
        gram, ones = change.T @ self.gram @ change, self.gram[:, -1]
        cross = (scale[:, None] * self.cross + shift[:, None] * ones) @ change
        square = scale**2 * self.square + 2 * scale * shift * self.cross[:, -1] + shift**2 * ones[:, -1]
        return gram, cross, square


def _unit_of(values: Float[Array, "N K"]) -> Standardiser:
    """Scales that are good enough to take sums in: a column may be constant, or empty, in the first rows."""
    count = np.maximum((~np.isnan(values)).sum(0), 1)
    shift = np.nansum(values, axis=0) / count
    scale = np.sqrt(np.nansum(np.square(values - shift), axis=0) / count)
    return Standardiser(shift, np.where(scale > ROUNDING * np.abs(shift), scale, 1.0))


def _standardiser(
    unit: Standardiser, count: Float[Array, "_"], total: Float[Array, "K"], square: Float[Array, "K"]
) -> Standardiser:
    mean = total / count
    shift = unit.shift + unit.scale * mean
    scale = unit.scale * np.sqrt(np.maximum(square / count - mean**2, 0.0))
    return Standardiser(shift, np.where(scale <= ROUNDING * np.abs(shift), 1.0, scale))


@dataclass
class Reservoir:
    """A sample of rows, each with the same probability, in the order in which they came.

    Example:
        >>> reservoir = Reservoir(3, np.random.default_rng(0))
        >>> reservoir.add(np.arange(100.0)[:, None])
        >>> reservoir.rows.shape
        (3, 1)
    """

    size: int
    rng: np.random.Generator
    count: int = 0  # of rows that came
    _kept: list[Float[Array, "_ K"]] = field(default_factory=list)
    _keys: Float[Array, "_"] = field(default_factory=lambda: np.empty(0))

    def add(self, rows: Float[Array, "N K"]) -> None:
        """Keep those with the smallest of all random keys so far."""
        keys = self.rng.random(len(rows))
        self.count += len(rows)
        some = keys <= (self._keys.max() if len(self._keys) >= self.size else 1.0)
        if not some.any():
            return
        values, every = np.concatenate([*self._kept, rows[some]]), np.concatenate([self._keys, keys[some]])
        kept = np.sort(np.argsort(every, kind="stable")[: self.size])
        self._kept, self._keys = [values[kept]], every[kept]

    @property
    def rows(self) -> Float[Array, "_ K"]:
        """The sample."""
        return np.concatenate(self._kept) if self._kept else np.empty((0, 0))


@dataclass(frozen=True)
class HoldOut:
    """Which rows are held out: whole groups by name, or a share of all rows by a hash of their numbers.

    A row is held out or not wherever it stands, for whichever worker reads it; copies of a row share its fate.

    Example:
        >>> HoldOut(share=0.5, seed=0).of(np.arange(8.0)[:, None], None).tolist()
        [False, False, True, True, True, False, True, False]
    """

    share: float
    seed: int
    groups: frozenset[str] = frozenset()

    def of(self, values: Float[Array, "N K"], labels: object) -> Bool[BoolArray, "N"]:
        """Whether each of these rows is held out."""
        if labels is not None:
            return np.isin(np.asarray(labels).astype(str), list(self.groups))
        return hashed(values, self.seed) < np.uint64(self.share * float(2**64 - 1))

    @staticmethod
    def of_groups(files: RowFiles, share: float, seed: int) -> "HoldOut":
        """A share of the groups, drawn at random: at least one, and not all."""
        names: set[str] = set()
        for part in files.only_groups().parts():
            if pd.isna(part.labels).any():
                row = part.first + int(np.flatnonzero(pd.isna(part.labels))[0])
                raise DataError(f"Each row must have a group; row {row} of {part.path} has none. Give it a label.")
            names |= set(np.asarray(part.labels).astype(str))
        if len(names) < 2:
            raise DataError(
                f"At least two groups must be there, to hold one out; got {len(names)}. Leave groups out to hold out "
                "rows."
            )
        count = min(max(1, round(share * len(names))), len(names) - 1)
        chosen = np.random.default_rng(seed).choice(sorted(names), count, replace=False)
        return HoldOut(share, seed, frozenset(str(name) for name in chosen))


def hashed(values: Float[Array, "N K"], seed: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """64 bits for each row, by the mixing function of SplitMix64; −0 and 0 are the same, and so are all NaN."""
    clean = np.where(np.isnan(values), np.nan, values + 0.0)
    bits = np.ascontiguousarray(clean).view(np.uint64)
    state = np.full(len(values), seed, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            state = (state ^ column) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return state


@dataclass(frozen=True)
class FiledRows:
    """All rows of some files: what a pass over them found, and the folder of scaled copies."""

    files: RowFiles
    hold_out: HoldOut
    totals: Totals
    num_rows: int  # to train on
    folder: Path

    @property
    def digest(self) -> str:
        """Of the number of rows and of all sums over them: other rows have others."""
        found = hashlib.sha256(str(self.num_rows).encode())
        for values in self.totals.standardised():
            found.update(np.ascontiguousarray(values).tobytes())
        return found.hexdigest()

    @property
    def scaling(self) -> Scaling:
        """That of all rows to train on."""
        return Scaling(self.totals.inputs, self.totals.outputs)

    def stored(self, dtype: torch.dtype, watch: Watch = lambda count: None) -> "StoredRows":
        """The scaled copy in this precision, written by a second pass over the files unless it is there."""
        name = str(dtype).removeprefix("torch.")
        num_inputs, num_outputs = len(self.files.inputs), len(self.files.targets)
        num_bytes = dtype.itemsize * (num_inputs + num_outputs) * self.num_rows
        path = self.folder / f"rows-{name}-{self.digest[:16]}.bin"
        if not (path.exists() and path.stat().st_size == num_bytes):
            self.folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.folder).free
            if free < num_bytes:
                raise FileError(
                    f"A folder must have room for the scaled rows, {num_bytes / 1e9:.3g} GB; {self.folder} has "
                    f"{free / 1e9:.3g}. Name another by scratch (--scratch)."
                )
            partial = path.with_suffix(".partial")
            try:
                self._write(partial, name, watch)
                os.replace(partial, path)
            finally:
                partial.unlink(missing_ok=True)
        return StoredRows(path, self.num_rows, num_inputs, num_outputs, dtype, self.totals.num_observed)

    def _write(self, path: Path, name: str, watch: Watch) -> None:
        scaling, done = self.scaling, 0
        with path.open("wb") as file:
            for part in self.files.parts():
                rows = part.values[~self.hold_out.of(part.values, part.labels)]
                x, y = _sides(rows, self.files)
                np.column_stack([scaling.inputs.apply(x), scaling.outputs.apply(y)]).astype(name).tofile(file)
                done += len(rows)
                watch(done)
        if done != self.num_rows:
            raise FileError(
                f"Files must stay as they are while they are read; {done:,} rows are there now, and {self.num_rows:,} "
                "were before. Fit again."
            )


class Sample(Dataset):
    """Rows of files in memory, drawn at random, followed by those held out; they stand for all rows.

    Args:
        x: inputs.
        y: outputs.
        everything: all rows, on disk.
        num_held_out: how many rows at the end are held out.
        population: the number of rows that these stand for.
    """

    def __init__(
        self,
        x: Float[Array, "N D"],
        y: Float[Array, "N P"],
        everything: FiledRows,
        num_held_out: int,
        population: int,
    ) -> None:
        super().__init__(x, y, check_outputs=False)
        self.input_names, self.output_names = list(everything.files.inputs), list(everything.files.targets)
        self.everything = everything
        self.held_out = np.arange(self.num_rows - num_held_out, self.num_rows)
        self._population = population

    @property
    def population(self) -> int:
        """The number of rows that these stand for."""
        return self._population


def gather(
    files: RowFiles,
    hold_out: HoldOut,
    folder: Path,
    seed: int = 0,
    sample_rows: int = SAMPLE_ROWS,
    watch: Watch = lambda count: None,
) -> Sample:
    """One pass over files: checks, totals, a sample and the rows held out; `folder` is that of scaled copies."""
    streams = np.random.SeedSequence(seed).spawn(2)
    sample, held_out = (
        Reservoir(size, np.random.default_rng(stream))
        for size, stream in zip((sample_rows, _HELD_OUT_ROWS), streams, strict=True)
    )
    totals: Totals | None = None
    for part in files.parts():
        left_out = hold_out.of(part.values, part.labels)
        rows = part.values[~left_out]
        if len(rows):
            totals = totals or Totals.like(*_sides(rows, files))
            totals.add(*_sides(rows, files))
            sample.add(rows)
        held_out.add(part.values[left_out])
        watch(sample.count + held_out.count)
    if totals is None:
        raise DataError(f"Files must have rows to train on; {files.paths[0]} and the others have none. Give some data.")
    _require_known(totals, files)
    everything = FiledRows(files, hold_out, totals, sample.count, folder)
    kept = np.concatenate([sample.rows, held_out.rows]) if len(held_out.rows) else sample.rows
    return Sample(*_sides(kept, files), everything, len(held_out.rows), sample.count + held_out.count)


def whole(files: RowFiles) -> tuple[Dataset, object]:
    """All rows in memory, and their group labels."""
    parts = list(files.parts())
    x, y = _sides(np.concatenate([part.values for part in parts]), files)
    data = Dataset(np.ascontiguousarray(x), np.ascontiguousarray(y), check_outputs=False)
    data.input_names, data.output_names = list(files.inputs), list(files.targets)
    require_some_of_each(data.y, data.output_names)
    return data, None if files.groups is None else np.concatenate([part.labels for part in parts])


def _require_known(totals: Totals, files: RowFiles) -> None:
    for name, count in zip(files.targets, totals.gram[:, -1, -1], strict=True):
        if not count:
            raise DataError(
                f"Each output must have at least one value; column {name!r} is empty in all rows. Drop that column."
            )


def _sides(rows: Float[Array, "N K"], files: RowFiles) -> tuple[Float[Array, "N D"], Float[Array, "N P"]]:
    return rows[:, : len(files.inputs)], rows[:, len(files.inputs) :]


@dataclass(frozen=True)
class StoredRows:
    """Scaled rows in one file, inputs and outputs side by side, NaN where an output is missing: a `RowSource`.

    Up to a million rows batches are those of `Batch` with the same generator. Beyond, blocks of rows that follow each
    other are shuffled, and then the rows of pools of them, so that an order of all rows need not fit into memory.
    """

    path: Path
    num_rows: int
    num_inputs: int
    num_outputs: int
    dtype: torch.dtype
    num_observed: int
    num_blocks: int = _BLOCKS

    def __len__(self) -> int:
        return self.num_rows

    def pieces(self, size: int) -> Iterator[Batch]:
        """All rows in their order, at most `size` at a time."""
        with self._opened() as file:
            for index in torch.arange(len(self)).tensor_split(math.ceil(len(self) / size)):
                yield self._batch(self._read(file, index.numpy()), index)

    def spread(self, most: int) -> Batch:
        """At most so many rows, evenly spaced, the same each time."""
        index = torch.arange(len(self)) if len(self) <= most else evenly_spaced(len(self), most)
        with self._opened() as file:
            return self._batch(self._read(file, index.numpy()), index)

    def minibatches(self, size: int, generator: torch.Generator, share: Share | None = None) -> Iterator[Batch]:
        """One pass over the rows in random order, or one worker's share of each batch."""
        sizes = iter(batch_sizes(len(self), size))
        wanted, parts = next(sizes), list[Batch]()
        with self._opened() as file:
            for pool in self._pools(generator):
                read = self._pool_reader(file, pool)
                place = 0
                while place < len(pool):
                    taken = min(wanted - sum(map(len, parts)), len(pool) - place)
                    parts.append(read(place, place + taken))
                    place += taken
                    if sum(map(len, parts)) == wanted:
                        batch = _joined(parts)
                        yield batch if share is None else batch.rows(share.of(torch.arange(wanted)))
                        wanted, parts = next(sizes, 0), []

    def _pools(self, generator: torch.Generator) -> Iterator[Int[Tensor, "_"]]:
        """Places of all rows in random order, a pool at a time."""
        each = math.ceil(len(self) / self.num_blocks)
        order = torch.randperm(math.ceil(len(self) / each), generator=generator, device=generator.device).cpu()
        for blocks in torch.split(order, max(1, _POOL_ROWS // each)):
            if each == 1:
                yield blocks
                continue
            places = (each * blocks[:, None] + torch.arange(each)).reshape(-1)
            places = places[places < len(self)]
            yield places[torch.randperm(len(places), generator=generator, device=generator.device).cpu()]

    def _pool_reader(self, file: io.FileIO, pool: Int[Tensor, "_"]) -> Callable[[int, int], Batch]:
        """From places in a pool to a batch; the pool is read once, in the order of the disk."""
        in_order, place_of = torch.sort(pool)
        rows = torch.empty(len(pool), self.num_inputs + self.num_outputs, dtype=self.dtype)
        rows[place_of] = self._read(file, in_order.numpy())
        return lambda first, last: self._batch(rows[first:last], pool[first:last])

    def _read(self, file: io.FileIO, places: Int[IntArray, "K"]) -> Float[Tensor, "K _"]:
        """Rows at places in ascending order; neighbours by one call."""
        rows = torch.empty(len(places), self.num_inputs + self.num_outputs, dtype=self.dtype)
        size = rows.shape[1] * self.dtype.itemsize
        into = memoryview(rows.numpy().reshape(-1).view(np.uint8).data)
        ends = np.append(np.flatnonzero(np.diff(places) != 1) + 1, len(places))
        begin = 0
        for end in ends.tolist():
            file.seek(int(places[begin]) * size)
            wanted = into[size * begin : size * end]
            while len(wanted):  # a call may give less than asked for
                count = file.readinto(wanted)
                if not count:
                    raise FileError(f"The scaled rows must be whole; {self.path} is cut. Delete it, and fit again.")
                wanted = wanted[count:]
            begin = end
        return rows

    def _batch(self, rows: Float[Tensor, "K _"], index: Int[Tensor, "K"]) -> Batch:
        x, y = rows[:, : self.num_inputs], rows[:, self.num_inputs :]
        batch = Batch.of(x.contiguous(), y.contiguous())
        return Batch(batch.x, batch.y, batch.observed, index)

    def _opened(self) -> io.FileIO:
        return io.FileIO(self.path)


def _joined(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    fields = ("x", "y", "observed", "index")
    return Batch(*(torch.cat([getattr(part, name) for part in parts]) for name in fields))
