"""A fitted model in the user's units."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from mogul.arrays import Array
from mogul.data import Dataset, Scaling
from mogul.data.checks import as_matrix, require_finite_inputs
from mogul.errors import ShapeError
from mogul.metrics import NUM_INNER, NUM_OUTER, Scores, score
from mogul.model import Model
from mogul.prediction import Prediction, predict
from mogul.training.history import History

# How many numbers a part of a prediction's mixture may hold: some 160 MB in float64.
_PART = 20_000_000


@dataclass(frozen=True)
class Fitted:
    """A trained model with the scaling it was trained under: data in, predictions out, both in original units."""

    model: Model
    scaling: Scaling
    input_names: list[str]
    output_names: list[str]
    history: History

    def predict(self, x: Any, num_samples: int = 100, seed: int = 0) -> Prediction:
        """The predictive distribution of the outputs at x, as a mixture over `num_samples` draws."""
        rows = self._standardised(x)
        generator = torch.Generator().manual_seed(seed)
        return predict(self.model, rows, num_samples, generator).rescaled(self.scaling.outputs)

    def sample_functions(self, x: Any, num_samples: int, seed: int = 0) -> Float[Array, "S N P"]:
        """Draws of the noise-free outputs at x, correlated over points: whole functions."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            draws = self.model.sample_joint(self._standardised(x), num_samples, generator)
        return self.scaling.outputs.undo(draws.double().cpu().numpy())

    def evaluate(
        self,
        data: Dataset,
        *,
        standardised: bool = False,
        num_samples: int = NUM_OUTER * NUM_INNER,
        seed: int = 0,
    ) -> Scores:
        """Scores on test data, in original units or, as in the paper's tables, in standardised ones."""
        return score(self._parts(data, standardised, num_samples, seed))

    def _parts(
        self, data: Dataset, standardised: bool, num_samples: int, seed: int
    ) -> Iterator[tuple[Prediction, Float[Array, "_ P"]]]:
        step = max(1, _PART // (num_samples * data.num_outputs))
        for number, first in enumerate(range(0, data.num_rows, step)):
            part = slice(first, first + step)
            prediction = self.predict(data.x[part], num_samples, seed + number)
            y = data.y[part]
            if standardised:
                yield prediction.standardised(self.scaling.outputs), self.scaling.outputs.apply(y)
            else:
                yield prediction, y

    def _standardised(self, x: Any) -> Float[torch.Tensor, "N D"]:
        matrix, names = as_matrix(x, "X")
        if matrix.shape[1] != len(self.input_names):
            raise ShapeError(
                f"X must have {len(self.input_names)} columns, as in training; got {matrix.shape[1]}. "
                f"The columns are {', '.join(self.input_names)}."
            )
        require_finite_inputs(matrix, names)
        dtype = next(self.model.parameters()).dtype
        return torch.as_tensor(np.ascontiguousarray(self.scaling.inputs.apply(matrix)), dtype=dtype)
