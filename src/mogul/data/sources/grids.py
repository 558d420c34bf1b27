"""Grids of xarray as tables, a row for each cell, and columns of predictions as grids again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from mogul._typing import Array, BoolArray
from mogul.errors import ConfigError, import_extra


def is_grid(values: Any) -> bool:
    """Whether this is a Dataset or a DataArray of xarray, without importing it."""
    return type(values).__module__.partition(".")[0] == "xarray" and hasattr(values, "coords")


@dataclass(frozen=True)
class Grid:
    """The cells of a Dataset or DataArray of xarray as rows of a frame.

    Columns are coordinates and variables; scalar coordinates, such as that of a projection, are left out.

    Args:
        source: the Dataset.
        frame: its cells, in the order of its dimensions.
    """

    source: Any
    frame: pd.DataFrame

    @staticmethod
    def of(values: Any) -> "Grid":
        """From a Dataset, or a DataArray with a name."""
        if not is_grid(values):
            raise ConfigError(
                f"A grid must be an xarray Dataset or DataArray; got a {type(values).__name__}. Use predict for rows."
            )
        if hasattr(values, "data_vars"):
            source = values
        elif values.name is None and values.ndim:
            source = values.to_dataset(name="value")
        else:
            source = values.to_dataset()
        source = source.drop_vars([name for name, each in source.coords.items() if not each.ndim])
        if not source.sizes:
            raise ConfigError("A grid must have dimensions; got scalars alone. Give the variables along them.")
        order = list(source.sizes)
        # A Dataset of coordinates alone has no frame: a variable is added for a while.
        whole = source.assign(_=(order, np.zeros([source.sizes[name] for name in order])))
        table = whole.to_dataframe(dim_order=order).reset_index().drop(columns="_")
        return Grid(source, table.rename(columns=str))

    @property
    def variables(self) -> list[str]:
        """The names of the variables, which are no coordinates."""
        return [str(name) for name in self.source.data_vars]

    def known(self, targets: Sequence[str]) -> pd.DataFrame:
        """The rows in which some target has a value: of most grids outputs are known in few cells."""
        missing = [name for name in targets if name not in self.frame.columns]
        if missing:  # told with all names by those who read frames
            return self.frame
        return self.frame[self.frame[list(targets)].notna().any(axis=1)].reset_index(drop=True)

    def complete(self, columns: Sequence[str]) -> Bool[BoolArray, "N"]:
        """Which rows have a value in all of these columns."""
        result: BoolArray = self.frame[list(columns)].notna().all(axis=1).to_numpy()
        return result

    def filled(self, columns: Mapping[str, Float[Array, "N"]]) -> Any:
        """A Dataset with these variables, a value for each cell, on the same coordinates."""
        xarray = import_extra("A grid", "xarray", "xarray")
        shape = tuple(self.source.sizes.values())
        variables = {name: (tuple(self.source.sizes), values.reshape(shape)) for name, values in columns.items()}
        return xarray.Dataset(variables, coords=self.source.coords)
