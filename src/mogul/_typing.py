"""The one NumPy array type of this package: float64."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]
else:  # at run time jaxtyping wants the bare class; the shapes and kinds beside it are what it checks
    Array = IntArray = BoolArray = np.ndarray
