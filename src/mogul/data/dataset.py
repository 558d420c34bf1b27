"""Data sets in original units, checked once, and their standardisation."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mogul._typing import Array, IntArray
from mogul.core.transforms import Chain, TransformChoice, Transforms
from mogul.data.checks import (
    as_matrix,
    in_order,
    numbered_names,
    require_finite_inputs,
    require_no_infinity,
    require_some_of_each,
    require_squares,
)
from mogul.data.encodings.encoding import InputEncoding
from mogul.errors import ConfigError, ShapeError

# Standard deviations below this share of the mean count as rounding errors, about 1e-17 for a constant column.
ROUNDING = 1e-12
_SHOWN = 8  # names or ranges in a line


class Dataset:
    """Inputs x (N, D) and outputs y (N, P), in original units; NaN in y is a missing output.

    Args:
        x: array, tensor or DataFrame of finite numbers; None for models with latent inputs.
        y: the same, where NaN means missing.
        check_outputs: whether each output must have at least one value, as training needs.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[1.0, 2.0], [3.0, float("nan")], [5.0, 6.0]])
        >>> data.num_rows, data.num_inputs, data.num_outputs, data.num_missing
        (3, 1, 2, 1)
    """

    def __init__(self, x: Any | None, y: Any, *, check_outputs: bool = True) -> None:
        inputs = None if x is None else as_matrix(x, "X")
        self.y, self.output_names = as_matrix(y, "Y")
        self.x, self.input_names = inputs or (np.empty((len(self.y), 0)), [])
        if len(self.x) != len(self.y):
            raise ShapeError(
                f"X and Y must have the same number of rows; got {len(self.x)} and {len(self.y)}. "
                "Row i of X belongs to row i of Y."
            )
        require_finite_inputs(self.x, self.input_names)
        require_no_infinity(self.y, self.output_names)
        require_squares(self.x, self.input_names)
        require_squares(self.y, self.output_names)
        if check_outputs:
            require_some_of_each(self.y, self.output_names)
        # Of the user's columns to inputs; None where they are numbers without gaps.
        self.encoding: InputEncoding | None = None

    def __repr__(self) -> str:
        """Sizes, names and gaps, in five lines."""
        missing = f"{self.num_missing / max(self.y.size, 1):.1%} missing" if self.num_missing else "none missing"
        ends = [f"{np.nanmin(column):.4g} to {np.nanmax(column):.4g}" for column in self.y.T[:_SHOWN] if len(column)]
        return "\n".join(
            [
                f"{self.num_rows:,} rows",
                f"Inputs   {len(self.input_columns)}: {_some(self.input_columns)}",
                f"Outputs  {self.num_outputs}: {_some(self.output_names)}",
                f"Values   {missing}",
                f"Ranges   of outputs: {'; '.join(ends)}{'; …' if self.num_outputs > _SHOWN else ''}",
            ]
        )

    @property
    def num_rows(self) -> int:
        """The number N of rows."""
        return len(self.x)

    @property
    def population(self) -> int:
        """The number of rows that these stand for: more than `num_rows` where they are a sample of rows on disk."""
        return self.num_rows

    @property
    def num_inputs(self) -> int:
        """The number D of inputs."""
        return int(self.x.shape[1])

    @property
    def num_outputs(self) -> int:
        """The number P of outputs."""
        return int(self.y.shape[1])

    @property
    def input_columns(self) -> list[str]:
        """The user's columns of inputs: `input_names`, but for columns that are encoded."""
        return self.input_names if self.encoding is None else self.encoding.names

    @property
    def num_missing(self) -> int:
        """The number of missing output values."""
        return int(np.isnan(self.y).sum())

    def in_order(self, input_names: list[str], output_names: list[str]) -> "Dataset":
        """The same rows with columns in the order of these names, if this data set has column names."""
        y = in_order(_named(self.y, self.output_names, "Y"), output_names, "Y")
        if not self.num_inputs:
            return Dataset(None, y, check_outputs=False)
        return Dataset(in_order(_named(self.x, self.input_names, "X"), input_names, "X"), y, check_outputs=False)

    def without_inputs(self) -> "Dataset":
        """Only the outputs, for models with latent inputs."""
        return Dataset(None, _named(self.y, self.output_names, "Y"), check_outputs=False)

    def split(self, test_share: float, seed: int) -> tuple["Dataset", "Dataset"]:
        """Random rows for training and for testing."""
        num_test = round(test_share * self.num_rows)
        if not 0 < num_test < self.num_rows:
            raise ConfigError(
                f"test_share must leave rows on both sides; {test_share} of {self.num_rows} rows is {num_test}. "
                "Choose a share between 0 and 1."
            )
        order = np.random.default_rng(seed).permutation(self.num_rows)
        return self.rows(order[num_test:]), self.rows(order[:num_test])

    def rows(self, index: IntArray) -> "Dataset":
        """The rows at these indices, with the same names."""
        part = Dataset(self.x[index] if self.num_inputs else None, self.y[index], check_outputs=False)
        part.input_names, part.output_names = self.input_names, self.output_names
        part.encoding = self.encoding
        return part


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _named(values: Array, names: list[str], kind: str) -> "pd.DataFrame | Array":
    """A frame, unless the names are default ones."""
    return values if names == numbered_names(kind, len(names)) else pd.DataFrame(values, columns=names)


def barely_varies(values: Float[Array, "N K"]) -> npt.NDArray[np.bool_]:
    """Which columns have a standard deviation at the level of rounding errors of their mean."""
    flat: npt.NDArray[np.bool_] = np.nanstd(values, axis=0) <= ROUNDING * np.abs(np.nanmean(values, axis=0))
    return flat


@dataclass(frozen=True)
class Standardiser:
    """Shift and scale per column, learnt on training data."""

    shift: Float[Array, "K"]
    scale: Float[Array, "K"]

    @staticmethod
    def of(values: Float[Array, "N K"]) -> "Standardiser":
        """Mean and standard deviation of each column's known values; a constant column has scale 1.

        >>> Standardiser.of(np.array([[1.0, 5.0], [3.0, 5.0]])).scale
        array([1., 1.])
        """
        shift, scale = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        return Standardiser(shift, np.where(barely_varies(values), 1.0, scale))

    def apply(self, values: Float[Array, "N K"]) -> Float[Array, "N K"]:
        """To zero mean and unit variance."""
        return (values - self.shift) / self.scale

    def undo(self, values: Float[Array, "*S N K"]) -> Float[Array, "*S N K"]:
        """Back to the original units."""
        return values * self.scale + self.shift


@dataclass(frozen=True)
class Scaling:
    """The standardisers of inputs and outputs, learnt once on training data.

    Args:
        inputs: of inputs.
        outputs: of outputs in the user's units.
        transforms: of outputs before they are modelled; None: they are modelled as they are.
        transformed: the standardiser of transformed outputs.
        chain: of outputs, transformed or not, to what is modelled in their place; None: outputs are independent.
        chained: the standardiser of what the chain gives.
    """

    inputs: Standardiser
    outputs: Standardiser
    transforms: Transforms | None = None
    transformed: Standardiser | None = None
    chain: Chain | None = None
    chained: Standardiser | None = None

    @staticmethod
    def of(data: Dataset, transform: TransformChoice = None) -> "Scaling":
        """Learn all of it from training data."""
        plain = Scaling(Standardiser.of(data.x), Standardiser.of(data.y))
        transforms = Transforms.of(transform, data.x, data.y, data.output_names)
        if transforms is None:
            return plain
        return Scaling(plain.inputs, plain.outputs, transforms, Standardiser.of(transforms.apply(data.y)))

    def with_chain(self, chain: Chain, data: Dataset) -> "Scaling":
        """For outputs that are a chain, learnt from training data."""
        chained = Standardiser.of(chain.apply(self.apply_transforms(data).y))
        return replace(self, chain=chain, chained=chained)

    @property
    def unchained(self) -> Standardiser:
        """The standardiser of outputs, or of transformed outputs."""
        return self.outputs if self.transformed is None else self.transformed

    @property
    def modelled(self) -> Standardiser:
        """The standardiser of what is modelled: outputs, transformed where a transform is, less others in a chain."""
        return self.unchained if self.chained is None else self.chained

    @property
    def without_transforms(self) -> "Scaling":
        """That of a model of transformed outputs, as if these were the outputs."""
        return Scaling(self.inputs, self.unchained, chain=self.chain, chained=self.chained)

    def apply_transforms(self, data: Dataset) -> Dataset:
        """The same rows with outputs as they are modelled, before standardisation."""
        if self.transforms is None:
            return data
        self.transforms.require_support(data.y, data.output_names)
        same = data.rows(np.arange(data.num_rows))
        same.y = self.transforms.apply(data.y)
        return same

    def undo_transforms(self, values: Float[Array, "*S N P"]) -> Float[Array, "*S N P"]:
        """From outputs as they are modelled to the user's units."""
        return values if self.transforms is None else self.transforms.undo(values)

    def apply_chain(self, values: Float[Array, "N P"]) -> Float[Array, "N P"]:
        """From outputs, transformed where a transform is, to what is modelled, before standardisation."""
        return values if self.chain is None else self.chain.apply(values)

    def undo_chain(self, values: Float[Array, "*S N P"]) -> Float[Array, "*S N P"]:
        """From what is modelled to outputs, transformed where a transform is."""
        return values if self.chain is None else self.chain.undo(values)

    def log_slope(self, data: Dataset) -> float:
        """The mean over rows of what the log density in standardised units exceeds that of the model by.

        Σ log t′(y) scale/scale′ over the observed outputs, with the scales before and after the transform t.
        """
        if self.transforms is None and self.chain is None:
            return 0.0
        each = np.where(np.isnan(self.apply_chain(data.y)), np.nan, np.log(self.outputs.scale / self.modelled.scale))
        if self.transforms is not None:
            each = each + self.transforms.log_slope(data.y)
        return float(np.nansum(each) / data.num_rows)

    def without_inputs(self, num_inputs: int) -> "Scaling":
        """The same scaling of outputs, with unscaled latent inputs."""
        return Scaling(Standardiser(np.zeros(num_inputs), np.ones(num_inputs)), self.outputs)

    def batch(self, data: Dataset, dtype: torch.dtype) -> "Batch":
        """All rows, standardised, as tensors."""
        x = self.inputs.apply(data.x) if data.num_inputs else data.x
        y = self.modelled.apply(self.apply_chain(self.apply_transforms(data).y))
        return Batch.of(torch.as_tensor(x, dtype=dtype), torch.as_tensor(y, dtype=dtype))


@dataclass(frozen=True)
class Batch:
    """Some rows: inputs, outputs with zero for missing values, a mask of observed outputs, and the rows' indices."""

    x: Float[Tensor, "N D"]
    y: Float[Tensor, "N P"]
    observed: Bool[Tensor, "N P"]
    index: Int[Tensor, "N"]

    @staticmethod
    def of(x: Float[Tensor, "N D"], y: Float[Tensor, "N P"]) -> "Batch":
        """All rows; NaN in y is a missing output, replaced by zero here since masked NaNs give NaN gradients."""
        observed = ~torch.isnan(y)
        return Batch(x, torch.where(observed, y, 0.0), observed, torch.arange(len(y), device=y.device))

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, index: Int[Tensor, "B"]) -> "Batch":
        """The rows at these indices."""
        return Batch(self.x[index], self.y[index], self.observed[index], self.index[index])

    def to(self, device: torch.device) -> "Batch":
        """The same rows on a device; itself where it is there already."""
        return Batch(*(part.to(device) for part in (self.x, self.y, self.observed, self.index)))

    @property
    def num_observed(self) -> int:
        """The number of observed output values."""
        return int(self.observed.sum())

    def pieces(self, size: int) -> Iterator["Batch"]:
        """The rows in their order, at most `size` at a time."""
        if len(self) <= size:
            yield self
            return
        for index in torch.arange(len(self)).tensor_split(math.ceil(len(self) / size)):
            yield self.rows(index)

    def spread(self, most: int) -> "Batch":
        """At most so many rows, evenly spaced, the same each time."""
        return self if len(self) <= most else self.rows(evenly_spaced(len(self), most))

    def minibatches(self, size: int, generator: torch.Generator, share: "Share | None" = None) -> Iterator["Batch"]:
        """One pass over the rows in random order, in batches of at most `size` rows: see `batch_sizes`.

        With a share, one worker's rows of each batch.
        """
        order = torch.randperm(len(self), generator=generator, device=generator.device)
        for index in torch.split(order, batch_sizes(len(self), size)):
            yield self.rows(index if share is None else share.of(index))


@dataclass(frozen=True)
class Share:
    """One worker's share of the rows of each batch: every `num_workers`-th, from `rank` on.

    >>> Share(rank=1, num_workers=3).of(torch.arange(7))
    tensor([1, 4])
    """

    rank: int
    num_workers: int

    def of(self, rows: Int[Tensor, "B"]) -> Int[Tensor, "C"]:
        """The worker's part of a batch."""
        return rows[self.rank :: self.num_workers]


def batch_sizes(num_rows: int, size: int) -> list[int]:
    """Sizes of the batches of one pass: at most `size`, and they differ by at most one.

    In a small last batch each row would have too much weight.

    >>> batch_sizes(11, 4)
    [4, 4, 3]
    """
    count = math.ceil(num_rows / size)
    return [num_rows // count + (place < num_rows % count) for place in range(count)]


def evenly_spaced(num_rows: int, most: int) -> Int[Tensor, "K"]:
    """Places of so many rows, evenly spaced.

    >>> evenly_spaced(100, 3)
    tensor([ 0, 50, 99])
    """
    return torch.linspace(0, num_rows - 1, most, dtype=torch.float64).round().long()


@runtime_checkable
class RowSource(Protocol):
    """Rows that training asks for batches: in memory, as `Batch`, or on disk, as `mogul.data.stored.StoredRows`."""

    def __len__(self) -> int:
        """The number N of rows."""
        ...

    @property
    def num_observed(self) -> int:
        """The number of observed output values."""
        ...

    def minibatches(self, size: int, generator: torch.Generator, share: Share | None = None) -> Iterator[Batch]:
        """One pass over all rows in random order, or over one worker's share of each batch."""
        ...

    def pieces(self, size: int) -> Iterator[Batch]:
        """All rows in their order."""
        ...

    def spread(self, most: int) -> Batch:
        """At most so many rows, evenly spaced, the same each time."""
        ...
